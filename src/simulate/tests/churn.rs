//! Loads that stay as they are, whose nodes were replaced and launched again for ever.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

mod common;

use berth_simulate::{Outcome, Simulation};
use common::{Folder, of_one_pool};

/// Three sizes.
const TYPES: &str = "
- name: of-2
  resources: {cpu: '2', memory: 8Gi, pods: '30'}
  offerings:
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
- name: of-4
  resources: {cpu: '4', memory: 16Gi, pods: '30'}
  offerings:
  - {Price: 0.2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
- name: of-8
  resources: {cpu: '8', memory: 32Gi, pods: '30'}
  offerings:
  - {Price: 0.28, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
";

fn deployment(name: &str, replicas: u32, cpu: &str, spec: &str) -> String {
    format!(
        "- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: {name}}}
  spec:
    replicas: {replicas}
    selector: {{matchLabels: {{app: {name}}}}}
    template:
      metadata: {{labels: {{app: {name}}}}}
      spec:
        containers: [{{name: app, image: app, resources: {{requests: {{cpu: {cpu}, memory: 1Gi}}}}}}]
        {spec}
"
    )
}

fn run(folder: &str, objects: &[String], events: &str) -> Outcome {
    let folder = Folder::new(folder);
    folder.write("catalogue.yaml", TYPES);
    let all = "- {key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}";
    let text = of_one_pool("duration: 4h", "30s", all, objects, events);
    Simulation::read(&folder.write("scenario.yaml", &text)).unwrap().run().unwrap()
}

/// The regression: pods that tolerate the taint of nodes that go are not waited for, and stayed bound to a node that was gone. Nobody
/// counted on their place elsewhere meanwhile, which went as well.
#[test]
fn pods_that_tolerate_the_taint_of_nodes_that_go_keep_their_places() {
    let low =
        "- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -10}\n".to_owned();
    let apart = "tolerations: [{operator: Exists}]
        affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let objects = [low, deployment("big", 1, "3500m", "priorityClassName: low"), deployment("web", 1, "'1'", apart)];
    let events = "- {at: 10m, scale: {name: web, replicas: 2}}\n- {at: 11m, scale: {name: web, replicas: 3}}\n";
    let outcome = run("tolerant", &objects, events);
    assert!(outcome.nodes.launched <= 10, "{:?}", outcome.nodes);
    assert_eq!(outcome.samples.last().map(|known| (known.running, known.pending)), Some((4, 0)));
}

/// The regression: a node that holds a Reservation beside pods launched what takes its place and ended it again, each time anew. The
/// Reservation was decided about before the pods, and took the node that was launched for them.
#[test]
fn a_reservation_comes_to_the_node_that_was_launched_for_it_when_its_own_makes_way() {
    let slots = "- {apiVersion: berth.sh/v1alpha1, kind: FakeCapacityReservation, metadata: {name: cr}, spec: {instanceTypes: [of-2, of-4], zones: [a], count: 0}}\n";
    let room = "- apiVersion: scheduling.koordinator.sh/v1alpha1
  kind: Reservation
  metadata: {name: room}
  spec:
    ttl: 0s
    owners: [{labelSelector: {matchLabels: {app: other}}}]
    template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1800m, memory: 1Gi}}}]}}
";
    let objects = [slots.to_owned(), deployment("web", 1, "2500m", ""), room.to_owned()];
    let outcome = run("room", &objects, "- {at: 1h, reservation: {id: cr, count: 2}}\n");
    assert_eq!(outcome.nodes.launched, 3, "{:?}", outcome.nodes);
    assert_eq!(outcome.samples.last().map(|known| (known.running, known.nodes)), Some((1, [0, 0, 2])));
}

/// The regression: an open reservation took in nodes that may not be on reserved capacity. They drifted, and were replaced for ever; pods
/// that ask for on-demand waited for good.
#[test]
fn nodes_that_may_not_be_on_reserved_capacity_are_on_no_open_reservation() {
    let slots = "- {apiVersion: berth.sh/v1alpha1, kind: FakeCapacityReservation, metadata: {name: cr}, spec: {instanceTypes: [of-4], zones: [a], count: 3, matching: Open}}\n";
    let on_demand = deployment("web", 2, "'3'", "nodeSelector: {karpenter.sh/capacity-type: on-demand}");
    let any = deployment("any", 1, "'3'", "");
    let again = "- {at: 2h, scale: {name: web, replicas: 2}}\n";
    let outcome = run("open", &[slots.to_owned(), on_demand, any], again);
    assert_eq!(outcome.nodes.launched, 2, "{:?}", outcome.nodes);
    assert_eq!(outcome.samples.last().map(|known| (known.running, known.nodes)), Some((3, [1, 0, 1])));
}
