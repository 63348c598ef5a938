//! The story: one line for each thing that happened, in words a person would use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_api::PlannedFor;
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
    /// Running instances got another capacity type or reservation: what they are now.
    Relabelled { what: String },
    /// The count of a reservation's slots changed: the newest is told alone.
    Slots { id: String },
    /// Pods of a workload wait for a node.
    PodsPending { of: String },
    /// Pods of a workload stay without a node: why.
    PodsStay { of: String, why: String },
    /// Pods of a workload have a node and wait for something else: for what.
    PodsWait { of: String, what: String },
    /// For NodeClaims to come up: these are named, once for each pod.
    PodsWaitForClaims { of: String, why: String },
    /// Instances were launched: what they are.
    Launched { what: String },
    /// Instances were launched in place of nodes that go: what they are was said with these.
    Replacements,
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
    /// What has become of Reservations, said of one and of several.
    Reservations([String; 2]),
}

/// What happened in one moment: how often, and to which nodes.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    happened: BTreeMap<Happened, Vec<String>>,
    /// How many launches and how many things in all there were when it was last looked at, and for how many looks it was kept
    /// open for more.
    n_launches: usize,
    n_things: usize,
    n_kept_open: u32,
}

/// For how many looks a moment is kept open at most while nodes are being launched, those of one decision belong together; or
/// while so much happens that nobody could read it look by look.
const KEPT_OPEN: u32 = 5;
/// So many things are much for one look.
const MUCH: usize = 100;

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
            "PodsFailed" | "PodsStay" | "LaunchRefused" | "Interrupted" | "MachineDied" | "NodesLost" => "\u{1b}[31m",
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

    /// Takes in how many slots of a reservation are used now.
    pub(crate) fn add_slots(&mut self, (id, used, total): (String, u32, u32)) {
        self.happened.insert(Happened::Slots { id }, vec![format!("{used} of {total}")]);
    }

    /// A pod of a workload waits no more: that it did in this moment is not told any more. `names` are those that its waiting was
    /// noted by.
    pub(crate) fn waits_no_more(&mut self, of: &str, names: &[&str]) {
        for (_, noted) in self.happened.iter_mut().filter(|(what, _)| what.is_wait_of(of)) {
            if let Some(at) = noted.iter().position(|noted| names.contains(&noted.as_str())) {
                noted.remove(at);
            }
        }
        self.happened.retain(|_, noted| !noted.is_empty());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.happened.is_empty()
    }

    /// Whether it is over: not while nodes are still being launched.
    pub(crate) fn is_over(&mut self, is_launching: bool) -> bool {
        let launches = self.happened.iter().filter(|(what, _)| matches!(what, Happened::Launched { .. }));
        let n_launches: usize = launches.map(|(_, names)| names.len()).sum();
        let n_things: usize = self.happened.values().map(Vec::len).sum();
        let is_amid = n_launches > self.n_launches
            || (n_launches > 0 && is_launching)
            || n_things.saturating_sub(self.n_things) >= MUCH;
        let grows = is_amid && self.n_kept_open < KEPT_OPEN;
        (self.n_launches, self.n_things) = (n_launches, n_things);
        self.n_kept_open = if grows { self.n_kept_open + 1 } else { 0 };
        !self.happened.is_empty() && !grows
    }

    /// These NodeClaims are for pods that move: nobody waits for what is launched of them. Those that were launched in this
    /// moment are taken off.
    pub(crate) fn note_replacements(&mut self, claims: &mut BTreeSet<String>) {
        let mut moved = Vec::new();
        for (what, names) in &mut self.happened {
            if matches!(what, Happened::Launched { .. }) {
                moved.extend(names.extract_if(.., |name| claims.remove(name)));
            }
        }
        self.happened.retain(|_, names| !names.is_empty());
        if !moved.is_empty() {
            self.happened.entry(Happened::Replacements).or_default().append(&mut moved);
        }
    }

    /// The NodeClaims that were launched.
    pub(crate) fn launched(&self) -> impl Iterator<Item = &str> {
        let launches = self.happened.iter().filter(|(what, _)| matches!(what, Happened::Launched { .. }));
        launches.flat_map(|(_, names)| names.iter().map(String::as_str))
    }

    /// Puts the moment into words, in the order in which things follow from one another. What was launched was launched
    /// for so many.
    pub(crate) fn tell(&mut self, time: Timestamp, for_whom: PlannedFor, cost: &str) -> Vec<Line> {
        let Self { happened, .. } = std::mem::take(self);
        let mut lines = Vec::new();
        // What is told together: alike things that happened to several.
        let mut group: Vec<(Happened, Vec<String>)> = Vec::new();
        for (what, names) in happened {
            if group.first().is_some_and(|(first, _)| !first.goes_with(&what)) {
                lines.push(line(time, &std::mem::take(&mut group), for_whom, cost));
            }
            group.push((what, names));
        }
        if !group.is_empty() {
            lines.push(line(time, &group, for_whom, cost));
        }
        lines
    }
}

// === impl Happened ===

impl Happened {
    /// Whether one line tells both.
    fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launched { .. }, Self::Launched { .. }) => true,
            _ => self.workload().is_some() && std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Whether pods of this workload wait.
    fn is_wait_of(&self, workload: &str) -> bool {
        match self {
            Self::PodsPending { of }
            | Self::PodsStay { of, .. }
            | Self::PodsWaitForClaims { of, .. }
            | Self::PodsWait { of, .. } => of == workload,
            _ => false,
        }
    }

    /// Whose pods it happened to, where nothing else is said of them.
    fn workload(&self) -> Option<&str> {
        match self {
            Self::PodsPending { of }
            | Self::PodsRunning { of }
            | Self::PodsSucceeded { of }
            | Self::PodsGone { of } => Some(of),
            _ => None,
        }
    }
}

/// How many workloads a line names.
const MOST_WORKLOADS: usize = 4;

/// One line for a group of alike things.
fn line(time: Timestamp, group: &[(Happened, Vec<String>)], for_whom: PlannedFor, cost: &str) -> Line {
    let launched: Vec<(usize, &str)> = group
        .iter()
        .filter_map(|(what, names)| match what {
            Happened::Launched { what } => Some((names.len(), what.as_str())),
            _ => None,
        })
        .collect();
    if !launched.is_empty() {
        return launch(time, &launched, for_whom, cost);
    }
    let (event, message) = match group {
        [(Happened::Replacements, names)] => {
            let nodes = if names.len() == 1 { "1 node is".to_owned() } else { format!("{} nodes are", names.len()) };
            ("Launched", format!("{nodes} launched in their place; all nodes {cost}/h"))
        }
        [(what, names)] => in_words(what, names),
        _ => of_many(group),
    };
    Line { time, event, message }
}

/// `57 pods run: 40 of web, 10 of api, 4 of db, 1 of a, 2 of 2 others`.
fn of_many(group: &[(Happened, Vec<String>)]) -> (&'static str, String) {
    let total: usize = group.iter().map(|(_, names)| names.len()).sum();
    let (event, verb) = match group.first() {
        Some((Happened::PodsPending { .. }, _)) => ("PodsPending", "wait for nodes"),
        Some((Happened::PodsRunning { .. }, _)) => ("PodsRunning", "run"),
        Some((Happened::PodsSucceeded { .. }, _)) => ("PodsSucceeded", "are done"),
        _ => ("PodsGone", "are gone"),
    };
    let mut of: Vec<(usize, &str)> =
        group.iter().filter_map(|(what, names)| Some((names.len(), what.workload()?))).collect();
    // Most pods first, then by name.
    of.sort_by_key(|(n, name)| (std::cmp::Reverse(*n), *name));
    // One more takes no more room by its name.
    let n_named = if of.len() == MOST_WORKLOADS + 1 { of.len() } else { MOST_WORKLOADS };
    let rest: usize = of.iter().skip(n_named).map(|(n, _)| n).sum();
    let n_others = of.len().saturating_sub(n_named);
    let mut parts: Vec<String> = of.iter().take(n_named).map(|(n, name)| format!("{n} of {name}")).collect();
    if n_others > 0 {
        parts.push(format!("{rest} of {n_others} others"));
    }
    (event, format!("{total} pods {verb}: {}", parts.join(", ")))
}

/// `12 pods pending → 5 nodes: 4 × m5.xlarge on cr-web, 1 × m5.xlarge on-demand in port-1a; all nodes $0.192/h`.
fn launch(time: Timestamp, launched: &[(usize, &str)], for_whom: PlannedFor, cost: &str) -> Line {
    let counted = |n: usize, noun: &str| if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") };
    let nodes = counted(launched.iter().map(|(n, _)| n).sum(), "node");
    let what: Vec<String> = launched.iter().map(|(n, what)| format!("{n} × {what}")).collect();
    let what = what.join(", ");
    let (pods, reservations) = (counted(for_whom.pods, "pod"), counted(for_whom.reservations, "Reservation"));
    let message = match (for_whom.pods, for_whom.reservations) {
        (0, 0) => format!("{nodes} launched: {what}; all nodes {cost}/h"),
        (_, 0) => format!("{pods} pending → {nodes}: {what}; all nodes {cost}/h"),
        (0, _) => format!("{reservations} pending → {nodes}: {what}; all nodes {cost}/h"),
        _ => format!("{pods} and {reservations} pending → {nodes}: {what}; all nodes {cost}/h"),
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
        Happened::Relabelled { what } => {
            let verb = if n == 1 { "is" } else { "are" };
            ("Relabelled", format!("{} {verb} {what} now", listed("node", names)))
        }
        Happened::Slots { id } => ("Slots", format!("reservation {id}: {} slots used", names.join(", "))),
        Happened::PodsPending { of } => ("PodsPending", pods(of, ("waits for a node", "wait for nodes"))),
        Happened::PodsStay { of, why } => {
            ("PodsStay", format!("{}: {why}", pods(of, ("finds no node", "find no node"))))
        }
        Happened::PodsWaitForClaims { of, why } => {
            let mut claims = names.to_vec();
            claims.sort();
            claims.dedup();
            let what = pods(of, ("waits", "wait"));
            ("PodsWait", format!("{what} for {} to come up: {why}", listed("nodeclaim", &claims)))
        }
        Happened::PodsWait { of, what } => ("PodsWait", format!("{} for {what}", pods(of, ("waits", "wait")))),
        Happened::Launched { what } => ("Launched", format!("{n} × {what} launched")),
        Happened::Replacements => ("Launched", format!("{} launched in their place", listed("node", names))),
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
        Happened::Reservations([one, several]) => {
            ("Reservations", format!("{} {}", listed("Reservation", names), if n == 1 { one } else { several }))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(workloads: &[(&str, usize)]) -> Moment {
        let mut moment = Moment::default();
        for (of, n) in workloads {
            for at in 0..*n {
                moment.add(Happened::PodsRunning { of: (*of).to_owned() }, format!("{of}-{at}"));
            }
        }
        moment
    }

    fn lines(mut moment: Moment) -> Vec<String> {
        let lines = moment.tell(Timestamp::UNIX_EPOCH, PlannedFor::default(), "$0.00");
        lines.into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn a_single_other_workload_is_called_by_its_name() {
        let five = [("a", 5), ("b", 4), ("c", 3), ("d", 2), ("e", 1)];
        assert_eq!(lines(moment(&five)), ["15 pods run: 5 of a, 4 of b, 3 of c, 2 of d, 1 of e"]);
        let six = [five.as_slice(), &[("f", 1)]].concat();
        assert_eq!(lines(moment(&six)), ["16 pods run: 5 of a, 4 of b, 3 of c, 2 of d, 2 of 2 others"]);
    }

    #[test]
    fn of_the_counts_of_a_reservation_within_a_moment_the_newest_is_told() {
        let mut moment = Moment::default();
        for used in [5, 9, 14] {
            moment.add_slots(("cr-a".to_owned(), used, 60));
        }
        moment.add_slots(("cr-b".to_owned(), 2, 2));
        assert_eq!(lines(moment), ["reservation cr-a: 14 of 60 slots used", "reservation cr-b: 2 of 2 slots used"]);
    }

    #[test]
    fn nodes_that_become_alike_in_a_moment_are_one_line() {
        let relabelled = |names: &[&str]| {
            let mut moment = Moment::default();
            for name in names {
                moment.add(Happened::Relabelled { what: "m5.xlarge on-demand in port-1b".to_owned() }, *name);
            }
            lines(moment)
        };
        assert_eq!(relabelled(&["a"]), ["node a is m5.xlarge on-demand in port-1b now"]);
        assert_eq!(relabelled(&["a", "b"]), ["nodes a and b are m5.xlarge on-demand in port-1b now"]);
        assert_eq!(relabelled(&["a"; 30]), ["30 nodes are m5.xlarge on-demand in port-1b now"]);
    }

    #[test]
    fn a_daemon_that_goes_with_its_node_says_nothing_of_its_own() {
        use serde_json::json;
        for (kind, taints, expected) in [
            ("DaemonSet", json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]), 0),
            ("DaemonSet", json!([]), 2),
            ("ReplicaSet", json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]), 2),
        ] {
            let mut observer = crate::observer::Observer::default();
            let node = json!({"metadata": {"name": "n", "uid": "n"}, "spec": {"taints": taints}});
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "agent", "uid": "a", "controller": true});
            let pod = |phase: &str| {
                let metadata = json!({"name": "agent-x", "uid": "p", "ownerReferences": [&owner]});
                let pod = json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": []},
                    "status": {"phase": phase}});
                serde_json::from_value(pod).unwrap()
            };
            let mut before = Moment::default();
            observer.node(&serde_json::from_value(node).unwrap(), &mut before);
            observer.pod(&pod("Running"), &mut before);
            let mut moment = Moment::default();
            observer.pod(&pod("Failed"), &mut moment);
            observer.pod_gone("p", &mut moment);
            assert_eq!(lines(moment).len(), expected, "of a {kind}, taints {taints}");
        }
    }

    #[test]
    fn a_reservation_whose_room_moves_is_told_and_several_are_told_as_several() {
        let mut observer = crate::observer::Observer::default();
        let mut told = |names: &[&str], phase: &str, node: &str| {
            let mut moment = Moment::default();
            for name in names {
                let status = serde_json::json!({"phase": phase, "nodeName": node});
                let object =
                    serde_json::json!({"metadata": {"name": name}, "spec": {"template": {}}, "status": status});
                observer.reservation(&serde_json::from_value(object).unwrap(), &mut moment);
            }
            lines(moment)
        };
        assert_eq!(told(&["a", "b"], "Available", "n1"), ["Reservations a and b hold room on n1"]);
        assert_eq!(told(&["a", "b"], "Available", "n1"), Vec::<String>::new());
        assert_eq!(told(&["a"], "Available", "n2"), ["Reservation a moves to n2"]);
        assert_eq!(told(&["a"], "Succeeded", "n2"), ["Reservation a has served its owner"]);
    }

    #[test]
    fn what_is_launched_for_pods_that_move_is_no_launch_for_pods_that_wait() {
        let mut moment = Moment::default();
        for (what, name) in [("m5.large on-demand", "a"), ("m5.xlarge on cr-web", "b"), ("m5.xlarge on cr-web", "c")] {
            moment.add(Happened::Launched { what: what.to_owned() }, name);
        }
        let mut claims = ["b", "c", "d"].map(str::to_owned).into();
        moment.note_replacements(&mut claims);
        assert_eq!(claims, ["d".to_owned()].into(), "it is launched later");
        let of_three = moment.tell(Timestamp::UNIX_EPOCH, PlannedFor { pods: 1, reservations: 0 }, "$0.10");
        let of_three: Vec<String> = of_three.into_iter().map(|line| line.message).collect();
        let expected = [
            "1 pod pending → 1 node: 1 × m5.large on-demand; all nodes $0.10/h",
            "2 nodes are launched in their place; all nodes $0.10/h",
        ];
        assert_eq!(of_three, expected);
    }

    #[test]
    fn a_moment_in_which_much_happens_is_kept_open_until_less_does_but_not_for_long() {
        let mut few = moment(&[("a", MUCH - 1)]);
        assert!(few.is_over(false));
        let mut busy = moment(&[("a", MUCH)]);
        assert!(!busy.is_over(false));
        assert!(busy.is_over(false), "nothing more has happened");
        let mut endless = Moment::default();
        for look in 0..KEPT_OPEN {
            endless.happened.extend(moment(&[(&format!("a{look}"), MUCH)]).happened);
            assert!(!endless.is_over(false), "{look}");
        }
        endless.happened.extend(moment(&[("b", MUCH)]).happened);
        assert!(endless.is_over(false));
    }
}
