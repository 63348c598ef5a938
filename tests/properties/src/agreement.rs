//! `plan` and `explain` ask one question: a node that the plan puts a pod on takes it by its story, and none takes a pod
//! that has no place.

use berth_checker::{Size, random_case};
use berth_plan::{ObjectRef, Options, plan_objects};
use serde_json::Value;

use crate::{Failure, failure};

/// Stories asked for at most of a case; each takes a plan.
const MOST_STORIES: usize = 6;

/// Where plan and story of a random case disagree.
pub fn try_agreement(seed: u64, size: Size) -> Vec<Failure> {
    let case = random_case(seed, size);
    let now = "2026-01-01T12:00:00Z".parse().ok();
    let options = Options { now, effort: crate::effort_of(seed), ..Options::default() };
    let planned = plan_objects(&case.objects, Some(&case.catalogue), &options);
    let plan = match planned.map(|plan| plan.to_value()) {
        Ok(Ok(plan)) => plan,
        Ok(Err(error)) => return vec![failure("refused", &error)],
        Err(error) => return vec![failure("refused", &error)],
    };
    let text = serde_json::to_string(&case.objects).unwrap_or_default();
    // Whoever came later may have changed what is counted; who draws changes what the others find.
    let is_lasting =
        !["topologySpread", "podAffinity", "podAntiAffinity", "\"Reservation\""].iter().any(|w| text.contains(w));
    let mut asked: Vec<(String, Option<String>)> = Vec::new();
    let left = plan["unschedulable"].as_array().into_iter().flatten().filter(|left| left["kind"] == "Pod");
    asked.extend(left.filter_map(|left| Some((left["object"].as_str()?.to_owned(), None))).take(MOST_STORIES / 2));
    for node in plan["nodes"].as_array().into_iter().flatten().filter(|_| is_lasting) {
        let pod = node["pods"].as_array().and_then(|pods| pods.last()).and_then(Value::as_str);
        asked.extend(pod.map(|pod| (pod.to_owned(), node["name"].as_str().map(str::to_owned))));
    }
    asked.truncate(MOST_STORIES);
    asked.iter().filter_map(|(pod, node)| disagreement(&case, &options, pod, node.as_deref())).collect()
}

// What is wrong with the story of a pod that the plan has on a node, or nowhere.
fn disagreement(case: &berth_checker::Case, options: &Options, pod: &str, node: Option<&str>) -> Option<Failure> {
    let object: ObjectRef = format!("pod/{pod}").parse().ok()?;
    let plan = plan_objects(&case.objects, Some(&case.catalogue), options).ok()?;
    let story = match plan.explain(&object, options) {
        Ok(story) => story,
        Err(error) => return Some(failure("agreement", &error)),
    };
    let mut written = Vec::new();
    story.write_json(&mut written).ok()?;
    let story: Value = serde_json::from_slice(&written).ok()?;
    let of_existing = story["nodes"].as_array().into_iter().flatten().find(|nodes| nodes["of"] == "nodes that exist");
    let admitting = of_existing.and_then(|nodes| nodes["admitting"].as_array()).into_iter().flatten();
    let names: Vec<&str> = admitting.filter_map(|admitting| admitting["node"].as_str()).collect();
    match node {
        None if !names.is_empty() => {
            Some(failure("agreement", &format!("{pod} has no place, and {} would take it", names.join(", "))))
        }
        Some(node) if !names.contains(&node) => {
            Some(failure("agreement", &format!("{pod} is planned onto {node}, which refuses it: {of_existing:?}")))
        }
        _ => None,
    }
}
