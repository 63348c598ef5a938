//! Where the oracle says something else.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::drive::{Decision, Evaluation, NodeVerdict};

/// What differs, of which pod's which attempt.
#[derive(Clone, Debug)]
pub struct Difference {
    /// `filter`, `reason`, `score`, `best`, `preemption` …
    pub what: &'static str,
    /// In one sentence.
    pub detail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.detail)
    }
}

fn strings(value: &Value) -> Vec<String> {
    let mut strings: Vec<String> =
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    strings.sort();
    strings
}

/// The differences of a case.
pub(super) fn case(ours: &[Evaluation], answer: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(error) = answer["error"].as_str() {
        found.push(Difference { what: "oracle", detail: error.to_owned() });
    }
    let theirs = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
    for (ours, theirs) in ours.iter().zip(theirs) {
        let before = found.len();
        attempt(ours, theirs, &mut found);
        // What follows a difference may follow from it.
        if found.len() > before {
            return found;
        }
    }
    if ours.len() != theirs.len() && found.is_empty() {
        found.push(Difference { what: "queue", detail: format!("{} attempts, {} there", ours.len(), theirs.len()) });
    }
    found
}

fn attempt(ours: &Evaluation, theirs: &Value, found: &mut Vec<Difference>) {
    let pod = &ours.pod;
    let mut differ =
        |what: &'static str, detail: String| found.push(Difference { what, detail: format!("{pod}: {detail}") });
    if theirs["pod"].as_str() != Some(pod) {
        return differ("queue", format!("they try {}", theirs["pod"]));
    }
    let is_gated = theirs["gated"].as_str().is_some_and(|gated| !gated.is_empty());
    if let Some(refusal) = &ours.refusal {
        let all_say_so = theirs["nodes"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|node| strings(&node["filter"]["reasons"]).iter().any(|reason| reason.contains(refusal.as_str())));
        if !is_gated && !all_say_so {
            differ("refusal", format!("{refusal:?}, they say {}", theirs["nodes"][0]["filter"]));
        }
        return;
    }
    if let Some(error) = theirs["error"].as_str() {
        return differ("error", error.to_owned());
    }
    for node in theirs["nodes"].as_array().into_iter().flatten() {
        let name = node["node"].as_str().unwrap_or_default();
        let plugin = node["filter"]["plugin"].as_str();
        match (ours.nodes.get(name), plugin) {
            (None, _) => differ("nodes", format!("{name} is not known")),
            (Some(NodeVerdict::Refused(..)), None) => {
                differ("filter", format!("{name}: {:?}, they admit it", ours.nodes[name]));
            }
            (Some(NodeVerdict::Feasible(_)), Some(_)) => {
                differ("filter", format!("{name}: admitted, they say {}", node["filter"]));
            }
            (Some(NodeVerdict::Refused(plugin, reasons)), Some(their_plugin)) => {
                let theirs = strings(&node["filter"]["reasons"]);
                let is_narrowed = theirs.iter().any(|reason| reason.starts_with("node(s) didn't satisfy plugin(s)"));
                if !is_narrowed && (*plugin != their_plugin || *reasons != theirs) {
                    differ("reason", format!("{name}: {plugin} {reasons:?}, they say {their_plugin} {theirs:?}"));
                }
            }
            (Some(NodeVerdict::Feasible(scores)), None) => {
                for (plugin, score) in scores {
                    let theirs = node["scores"][*plugin].as_i64().unwrap_or(0);
                    if theirs != *score {
                        differ("score", format!("{name}: {plugin} {score}, they say {theirs}"));
                    }
                }
            }
        }
    }
    if ours.best != strings(&theirs["best"]) {
        differ("best", format!("{:?}, they say {}", ours.best, theirs["best"]));
    }
    let preemption = &theirs["preemption"];
    match &ours.decision {
        Decision::Nominated { node, victims } => {
            let their_best: BTreeSet<String> = strings(&preemption["best"]).into_iter().collect();
            let candidates = preemption["candidates"].as_array().into_iter().flatten();
            let their_victims =
                candidates.filter(|c| c["node"].as_str() == Some(node)).map(|c| strings(&c["victims"])).next();
            let mut victims = victims.clone();
            victims.sort();
            if !their_best.contains(node) || their_victims.as_ref() != Some(&victims) {
                differ("preemption", format!("{victims:?} on {node}, they say {preemption}"));
            }
        }
        Decision::Left if !preemption.is_null() => differ("preemption", format!("none, they say {preemption}")),
        _ => {}
    }
}
