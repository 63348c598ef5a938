//! Zones where machines boot and never join.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

mod common;
#[path = "common/deployment.rs"]
mod deployment;

use berth_simulate::{Outcome, Simulation};
use common::Folder;
use deployment::{deployment, of_one_pool};

/// One type in three zones, of which c is the cheapest.
fn catalogue() -> String {
    let offering = |zone: &str, price: &str| {
        format!(
            "  - {{Price: {price}, Requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}, \
             {{key: topology.kubernetes.io/zone, operator: In, values: [{zone}]}}]}}\n"
        )
    };
    let offerings = [("a", "0.2"), ("b", "0.2"), ("c", "0.19")].map(|(zone, price)| offering(zone, price)).concat();
    format!("- name: of-4\n  resources: {{cpu: '4', memory: 16Gi, pods: '58'}}\n  offerings:\n{offerings}")
}

fn class(unreachable: &str) -> String {
    format!(
        "{{apiVersion: berth.sh/v1alpha1, kind: FakeNodeClass, metadata: {{name: default}}, spec: {{unreachableZones: \
         [{unreachable}]}}}}"
    )
}

/// From this time on machines do not join in these zones.
fn unreachable(at: &str, zones: &str) -> String {
    format!("- {{at: {at}, apply: {{objects: [{}]}}}}\n", class(zones))
}

fn run(folder: &str, hours: u32, deployments: &[String], events: &[String]) -> Outcome {
    let folder = Folder::new(folder);
    folder.write("catalogue.yaml", &catalogue());
    let text = of_one_pool(
        &format!("duration: {hours}h\nseed: 4"),
        "30s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}",
        deployments,
        &events.concat(),
    );
    Simulation::read(&folder.write("scenario.yaml", &text)).unwrap().run().unwrap()
}

fn last(outcome: &Outcome) -> (u32, u32) {
    outcome.samples.last().map(|known| (known.running, known.pending)).unwrap()
}

const PREFERS_C: &str = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
          {weight: 50, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}]}}]}}";

/// The regression: pods that prefer a zone where machines do not join waited for good, and so did those for which it is the cheapest.
#[test]
fn pods_run_elsewhere_where_machines_do_not_join_in_their_zone() {
    let deployments = [
        deployment("prefers", 8, "cpu: '1', memory: 1Gi", PREFERS_C),
        deployment("cheapest", 8, "cpu: '1', memory: 1Gi", ""),
    ];
    let scaled = "- {at: 1h, scale: {name: cheapest, replicas: 9}}".to_owned();
    let outcome = run("unreachable", 12, &deployments, &[unreachable("0s", "c"), scaled]);
    assert_eq!(last(&outcome), (17, 0), "{:?}", outcome.nodes);
    // Consolidation tries the cheapest zone again, after longer and longer waits.
    assert!(outcome.nodes.launched <= 50, "{:?}", outcome.nodes);
    assert!(outcome.pods.waited.iter().all(|row| row.longest < 1200.0), "{:?}", outcome.pods.waited);
}

/// Pods that can be nowhere else get a node within the longest time that a zone is left alone, once machines join there.
#[test]
fn a_zone_is_tried_again_and_used_once_machines_join_there() {
    let pinned = [
        deployment("pinned", 2, "cpu: '1', memory: 1Gi", "nodeSelector: {topology.kubernetes.io/zone: c}"),
        deployment("web", 4, "cpu: '1', memory: 1Gi", ""),
    ];
    let before = run("unreachable-before", 3, &pinned, &[unreachable("0s", "c")]);
    assert_eq!(last(&before), (4, 2), "{:?}", before.nodes);
    let why = "zone c is left alone, as machines did not join there";
    assert!(before.unplaced.iter().all(|own| own.reason.contains(why)), "{:?}", before.unplaced);
    let outcome = run("unreachable-after", 4, &pinned, &[unreachable("0s", "c"), unreachable("3h", "")]);
    assert_eq!(last(&outcome), (6, 0), "{:?}", outcome.nodes);
    assert!((6..=12).contains(&outcome.nodes.launched), "{:?}", outcome.nodes);
}

/// Where machines join in no zone, none is left alone for that: it is not the zone that is to blame.
#[test]
fn where_machines_join_nowhere_every_zone_is_used_once_they_do() {
    let events = [unreachable("0s", "a, b, c"), unreachable("3h", "")];
    let outcome = run("unreachable-all", 4, &[deployment("web", 4, "cpu: '1', memory: 1Gi", "")], &events);
    assert_eq!(last(&outcome), (4, 0), "{:?}", outcome.nodes);
}
