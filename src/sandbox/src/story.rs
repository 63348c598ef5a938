//! The story: one line for each thing that happened, in words a person would use.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};

/// One line of the story.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// When.
    pub time: Timestamp,
    /// Which kind of thing happened, a CamelCase word.
    pub event: &'static str,
    /// What happened, as a sentence.
    pub message: String,
}

/// What happened, before it is put into words: alike things within a moment become one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happened {
    /// Something said in its own words.
    Said { event: &'static str, message: String },
    /// Pods of a workload wait for a node.
    PodsPending { of: String },
    /// Instances were launched: what they are.
    Launched { what: String },
    /// Launches were refused: why.
    Refused { why: String },
    /// Nodes are there and ready.
    NodesReady,
    /// Pods of a workload run.
    PodsRunning { of: String },
    /// Pods of a workload have come to their end.
    PodsSucceeded { of: String },
    /// Pods of a workload have failed: why.
    PodsFailed { of: String, why: String },
    /// Pods of a workload are gone.
    PodsGone { of: String },
    /// Nodes are being emptied.
    NodesDraining,
    /// Nodes are gone.
    NodesGone,
    /// Nodes no longer answer.
    NodesLost,
    /// Reservations wait for a node.
    ReservationsPending,
    /// Reservations have come to a phase: what that means.
    Reservations { phase: String },
}

/// What happened in one moment: how often, and to which nodes.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    happened: BTreeMap<Happened, Vec<String>>,
    /// How many launches there were when it was last looked at, and for how many looks it was kept open for them.
    n_launches: usize,
    n_kept_open: u32,
}

/// For how many looks a moment is kept open at most while nodes are being launched: those of one decision belong together.
const KEPT_OPEN: u32 = 5;

// === impl Line ===

impl Line {
    /// The line for a person: the time of day and the sentence.
    pub fn text(&self) -> String {
        format!("{} {}", self.time.strftime("%H:%M:%S"), self.message)
    }

    /// The line for a terminal: trouble is red, the time is dim.
    pub fn coloured(&self) -> String {
        let time = self.time.strftime("%H:%M:%S");
        let colour = match self.event {
            "PodsFailed" | "LaunchRefused" | "Interrupted" | "MachineDied" | "NodesLost" => "\u{1b}[31m",
            "Launched" | "NodesReady" | "PodsRunning" => "\u{1b}[32m",
            _ => "",
        };
        let end = if colour.is_empty() { "" } else { "\u{1b}[0m" };
        format!("\u{1b}[2m{time}\u{1b}[0m {colour}{}{end}", self.message)
    }

    /// The line for a program.
    pub fn json(&self) -> Value {
        json!({"time": self.time.to_string(), "event": self.event, "message": self.message})
    }
}

// === impl Moment ===

impl Moment {
    /// Takes in one thing that happened, to the object of this name.
    pub(crate) fn add(&mut self, happened: Happened, name: impl Into<String>) {
        self.happened.entry(happened).or_default().push(name.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.happened.is_empty()
    }

    /// Whether it is over: not while nodes are still being launched.
    pub(crate) fn is_over(&mut self, is_launching: bool) -> bool {
        let launches = self.happened.iter().filter(|(what, _)| matches!(what, Happened::Launched { .. }));
        let n_launches: usize = launches.map(|(_, names)| names.len()).sum();
        let is_amid = n_launches > self.n_launches || (n_launches > 0 && is_launching);
        let grows = is_amid && self.n_kept_open < KEPT_OPEN;
        self.n_launches = n_launches;
        self.n_kept_open = if grows { self.n_kept_open + 1 } else { 0 };
        !self.happened.is_empty() && !grows
    }

    /// Puts the moment into words, in the order in which things follow from one another.
    /// `n_pending` pods have no node.
    pub(crate) fn tell(&mut self, time: Timestamp, n_pending: usize, cost: &str) -> Vec<Line> {
        let Self { happened, .. } = std::mem::take(self);
        let mut launched = Vec::new();
        let mut lines = Vec::new();
        for (what, names) in happened {
            if let Happened::Launched { what } = what {
                launched.push((names.len(), what));
                continue;
            }
            if !launched.is_empty() {
                lines.push(launch(time, &std::mem::take(&mut launched), n_pending, cost));
            }
            let (event, message) = in_words(&what, &names);
            lines.push(Line { time, event, message });
        }
        if !launched.is_empty() {
            lines.push(launch(time, &launched, n_pending, cost));
        }
        lines
    }
}

/// `12 pods pending → 5 nodes: 4 × m5.xlarge on cr-web, 1 × m5.xlarge on-demand in port-1a; all nodes $0.192/h`.
fn launch(time: Timestamp, launched: &[(usize, String)], n_pending: usize, cost: &str) -> Line {
    let n: usize = launched.iter().map(|(n, _)| n).sum();
    let nodes = if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") };
    let what: Vec<String> = launched.iter().map(|(n, what)| format!("{n} × {what}")).collect();
    let what = what.join(", ");
    let message = match n_pending {
        0 => format!("{nodes} launched: {what}; all nodes {cost}/h"),
        1 => format!("1 pod pending → {nodes}: {what}; all nodes {cost}/h"),
        _ => format!("{n_pending} pods pending → {nodes}: {what}; all nodes {cost}/h"),
    };
    Line { time, event: "Launched", message }
}

fn in_words(what: &Happened, names: &[String]) -> (&'static str, String) {
    let n = names.len();
    let pods = |of: &str, verb: (&str, &str)| {
        let (count, verb) = if n == 1 { ("1 pod".to_owned(), verb.0) } else { (format!("{n} pods"), verb.1) };
        format!("{count} of {of} {verb}")
    };
    let nodes = |verb: (&str, &str)| {
        let verb = if n == 1 { verb.0 } else { verb.1 };
        format!("{} {verb}", listed("node", names))
    };
    match what {
        Happened::Said { event, message } => (event, message.clone()),
        Happened::PodsPending { of } => ("PodsPending", pods(of, ("waits for a node", "wait for nodes"))),
        Happened::Launched { what } => ("Launched", format!("{n} × {what} launched")),
        Happened::Refused { why } if n == 1 => ("LaunchRefused", format!("a launch was refused: {why}")),
        Happened::Refused { why } => ("LaunchRefused", format!("{n} launches were refused: {why}")),
        Happened::NodesReady => ("NodesReady", nodes(("is ready", "are ready"))),
        Happened::PodsRunning { of } => ("PodsRunning", pods(of, ("runs", "run"))),
        Happened::PodsSucceeded { of } => ("PodsSucceeded", pods(of, ("is done", "are done"))),
        Happened::PodsFailed { of, why } if why.is_empty() => ("PodsFailed", pods(of, ("has failed", "have failed"))),
        Happened::PodsFailed { of, why } => {
            ("PodsFailed", format!("{}: {why}", pods(of, ("has failed", "have failed"))))
        }
        Happened::PodsGone { of } => ("PodsGone", pods(of, ("is gone", "are gone"))),
        Happened::NodesDraining => ("NodesDraining", nodes(("is being emptied", "are being emptied"))),
        Happened::NodesGone => ("NodesGone", nodes(("is gone", "are gone"))),
        Happened::ReservationsPending => {
            let verb = if n == 1 { "waits for a node" } else { "wait for nodes" };
            ("Reservations", format!("{} {verb}", listed("Reservation", names)))
        }
        Happened::Reservations { phase } => ("Reservations", format!("{} {phase}", listed("Reservation", names))),
        Happened::NodesLost => ("NodesLost", nodes(("no longer answers", "no longer answer"))),
    }
}

/// `node a`, `nodes a, b and c`, `17 nodes`.
fn listed(noun: &str, names: &[String]) -> String {
    const MOST: usize = 4;
    let mut text = String::new();
    match names {
        [name] => {
            let _ = write!(text, "{noun} {name}");
        }
        [first @ .., last] if names.len() <= MOST => {
            let _ = write!(text, "{noun}s {} and {last}", first.join(", "));
        }
        _ => {
            let _ = write!(text, "{} {noun}s", names.len());
        }
    }
    text
}
