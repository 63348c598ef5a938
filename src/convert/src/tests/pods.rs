//! What a pod's spec asks of its node.

use berth_model::{Effect, TolerationOperator};
use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert, first_refusal, first_spec, mk, mk_pod, pending};
use crate::{Builder, Options};

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn a_selector_by_a_former_name_is_one_by_todays() {
    let old = mk_pod("a", json!({"nodeSelector": {"beta.kubernetes.io/arch": "arm64"}}));
    let new = mk_pod("b", json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}));
    let cluster = convert([old, new]).cluster;
    assert_eq!(cluster.pending.len(), 1);
}

#[test]
fn an_empty_node_selector_term_matches_nothing() {
    let zone = json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]});
    let cluster = convert([mk_pod("a", required(json!([{}, zone])))]).cluster;
    assert_eq!(first_spec(&cluster).required_terms.len(), 1);
    let cluster = convert([mk_pod("a", required(json!([{}])))]).cluster;
    let spec = first_spec(&cluster);
    assert!(spec.required_terms.iter().all(berth_model::Requirements::is_contradiction));
    assert!(!spec.required_terms.is_empty());
}

#[test]
fn match_fields_are_requirements_on_the_name() {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
    let cluster = convert([mk_pod("a", required(json!([term])))]).cluster;
    let requirement = first_spec(&cluster).required_terms[0].get(cluster.well_known.field_name).unwrap();
    assert_eq!(requirement.single(), cluster.symbols.get("n1"));
}

#[test]
fn a_toleration_defaults_to_equal_and_every_effect() {
    let cluster = convert([mk_pod("a", json!({"tolerations": [{"key": "team", "value": "x"}]}))]).cluster;
    let toleration = &first_spec(&cluster).tolerations[0];
    assert_eq!((toleration.operator, toleration.effect), (TolerationOperator::Equal, None));
    let cluster =
        convert([mk_pod("a", json!({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}))]).cluster;
    let toleration = &first_spec(&cluster).tolerations[0];
    assert_eq!((toleration.key, toleration.effect), (None, Some(Effect::NoExecute)));
}

#[test]
fn spread_honors_affinity_and_ignores_taints_unless_told() {
    let spread = |extra: Value| {
        let base = json!({"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        mk_pod("a", json!({"topologySpreadConstraints": [super::with(base, extra)]}))
    };
    let cluster = convert([spread(json!({}))]).cluster;
    let constraint = &first_spec(&cluster).spread[0];
    assert!(constraint.honors_node_affinity && !constraint.honors_taints && constraint.is_required);
    assert_eq!((constraint.min_domains, &constraint.selector.requirements), (None, &None));
    let cluster = convert([spread(
        json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 3, "labelSelector": {}}),
    )])
    .cluster;
    let constraint = &first_spec(&cluster).spread[0];
    assert!(!constraint.honors_node_affinity && constraint.honors_taints);
    assert_eq!(constraint.min_domains, Some(3));
    assert!(constraint.selector.requirements.as_ref().unwrap().is_empty());
}

#[test]
fn pod_affinity_keeps_namespaces_and_label_keys() {
    let term = json!({"topologyKey": "failure-domain.beta.kubernetes.io/zone", "labelSelector": {"matchLabels": {"a": "b"}},
        "namespaces": ["x"], "namespaceSelector": {}, "matchLabelKeys": ["k"], "mismatchLabelKeys": ["m"]});
    let affinity = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]}}});
    let cluster = convert([mk_pod("a", affinity)]).cluster;
    let spec = first_spec(&cluster);
    let term = &spec.anti_affinity[0];
    assert_eq!(term.key, cluster.well_known.zone);
    assert_eq!((term.namespaces.len(), term.match_label_keys.len(), term.mismatch_label_keys.len()), (1, 1, 1));
    assert!(term.namespace_selector.as_ref().unwrap().requirements.as_ref().unwrap().is_empty());
    assert_eq!(spec.preferred_anti_affinity[0].0, 7);
}

#[rstest]
#[case(json!({}), vec![8080])]
#[case(json!({"hostNetwork": true}), vec![80, 8080])]
fn with_host_network_container_ports_are_host_ports(#[case] extra: Value, #[case] expected: Vec<u16>) {
    let ports = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 1, "hostPort": 8080, "hostIP": "0.0.0.0"}]}]});
    let cluster = convert([mk_pod("a", super::with(ports, extra))]).cluster;
    let ports = &first_spec(&cluster).host_ports;
    assert_eq!(ports.iter().map(|port| port.port).collect::<Vec<_>>(), expected);
    assert!(ports.iter().all(|port| port.ip.is_none() && cluster.symbols.text(port.protocol) == "TCP"));
}

#[test]
fn a_gated_pod_is_refused() {
    let cluster = convert([mk_pod("a", json!({"schedulingGates": [{"name": "wait"}]}))]).cluster;
    assert_eq!(first_refusal(&cluster), Some("Scheduling is blocked due to non-empty scheduling gates: wait"));
}

#[test]
fn a_pod_that_asks_for_a_reservation_is_refused() {
    let annotation = json!({"metadata": {"annotations": {"scheduling.koordinator.sh/reservation-affinity": "{}"}}});
    let cluster = convert([super::with(mk_pod("a", json!({})), annotation)]).cluster;
    assert_eq!(first_refusal(&cluster), Some("node(s) no reservations match reservation affinity"));
}

#[rstest]
#[case(json!({"priority": 7, "priorityClassName": "high"}), 7)]
#[case(json!({"priorityClassName": "high"}), 1000)]
#[case(json!({"priorityClassName": "system-node-critical"}), 2_000_001_000)]
#[case(json!({}), 5)]
fn priority_is_preset_or_of_the_class_or_the_lowest_default(#[case] spec: Value, #[case] priority: i32) {
    // The classes come after the pod: order does not matter.
    let cluster = convert([
        mk_pod("a", spec),
        mk("PriorityClass", "high", json!({"value": 1000})),
        mk("PriorityClass", "d1", json!({"value": 9, "globalDefault": true})),
        mk("PriorityClass", "d2", json!({"value": 5, "globalDefault": true})),
    ])
    .cluster;
    assert_eq!(first_spec(&cluster).priority, priority);
}

#[rstest]
#[case(json!({"priorityClassName": "polite"}), true)]
#[case(json!({"priorityClassName": "high"}), false)]
#[case(json!({"priorityClassName": "high", "preemptionPolicy": "Never"}), true)]
// The API server wrote both.
#[case(json!({"priority": 7, "priorityClassName": "polite", "preemptionPolicy": "PreemptLowerPriority"}), false)]
#[case(json!({}), true)]
fn whether_a_pod_preempts_is_of_its_class_too(#[case] spec: Value, #[case] never: bool) {
    let class = |name: &str, body: Value| mk("PriorityClass", name, body);
    let cluster = convert([
        mk_pod("a", spec),
        class("high", json!({"value": 1000, "preemptionPolicy": "PreemptLowerPriority"})),
        class("polite", json!({"value": 500, "preemptionPolicy": "Never"})),
        class("default", json!({"value": 5, "preemptionPolicy": "Never", "globalDefault": true})),
    ])
    .cluster;
    assert_eq!(first_spec(&cluster).never_preempts, never);
}

#[test]
fn an_unknown_priority_class_is_a_warning() {
    let converted = convert([mk_pod("a", json!({"priorityClassName": "gold"}))]);
    assert_eq!(first_spec(&converted.cluster).priority, 0);
    assert!(converted.warnings.iter().any(|w| w.contains("no PriorityClass with name gold was found")));
}

#[test]
fn pods_that_ended_or_are_going_are_ignored() {
    let cluster = convert([
        super::with(mk_pod("done", json!({})), json!({"status": {"phase": "Succeeded"}})),
        super::with(mk_pod("lost", json!({})), json!({"status": {"phase": "Failed"}})),
        super::with(mk_pod("going", json!({})), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        mk_pod("here", json!({})),
    ])
    .cluster;
    assert_eq!(pending(&cluster), ["default/here"]);
}

#[rstest]
#[case::asks_for_more_than_it_has("3", json!({"cpu": "1"}), json!({"cpu": "1"}), json!({}), 1000)]
#[case::still_has_more_than_it_asks_for("1", json!({"cpu": "3"}), json!({"cpu": "1"}), json!({}), 1000)]
#[case::was_given_more("1", json!({"cpu": "1"}), json!({"cpu": "2500m"}), json!({}), 1500)]
#[case::never_gets_it("3", json!({"cpu": "1"}), json!({"cpu": "1"}),
    json!({"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}), 3000)]
#[case::written_otherwise("1", json!({"cpu": "1000m"}), json!({"cpu": "1"}), json!({}), 3000)]
fn a_pod_that_is_resized_counts_with_the_larger_of_spec_and_status(
    #[case] asked: &str,
    #[case] actual: Value,
    #[case] allocated: Value,
    #[case] more: Value,
    #[case] left: i64,
) {
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": asked}}}]});
    let status = json!({"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true,
        "restartCount": 0, "allocatedResources": allocated, "resources": {"requests": actual}}]});
    let pod = super::with(super::with(mk_pod("p", spec), json!({"status": status})), json!({"status": more}));
    let cluster = convert([pod, super::mk_node("n1", json!({}))]).cluster;
    assert_eq!(super::amount(&cluster.nodes[0].free, "cpu", &cluster), left);
}

#[test]
fn of_a_pod_given_twice_the_last_counts() {
    let cluster =
        convert([mk_pod("a", json!({"priority": 1})), mk_pod("b", json!({})), mk_pod("a", json!({"priority": 2}))]);
    assert_eq!(pending(&cluster.cluster), ["default/a", "default/b"]);
    assert_eq!(first_spec(&cluster.cluster).priority, 2);
    assert!(cluster.warnings.iter().any(|w| w == "Pod default/a: given more than once; the last counts"));
}

#[test]
fn pods_that_differ_in_name_alone_share_a_row() {
    let cluster = convert((0..100).map(|i| mk_pod(&format!("p{i}"), json!({"nodeSelector": {"a": "b"}})))).cluster;
    assert_eq!((cluster.pending.len(), cluster.specs.len()), (1, 1));
    assert_eq!(cluster.pending[0].members.len(), 100);
}

#[rstest]
#[case(json!({"tolerations": [{"operator": "Maybe"}]}), "spec.tolerations[0].operator")]
#[case(required(json!([{"matchExpressions": [{"key": "a", "operator": "Like"}]}])),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator")]
#[case(json!({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]}),
    "spec.topologySpreadConstraints[0].maxSkew")]
#[case(json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 70000}]}]}), "spec.containers[0].ports[0].hostPort")]
fn an_error_names_the_field(#[case] spec: Value, #[case] path: &str) {
    let error = add(&mut Builder::new(Options::default()), mk_pod("a", spec)).unwrap_err();
    assert_eq!((error.kind(), error.name()), ("Pod", "default/a"));
    assert_eq!(error.problems()[0].path, path);
}

/// The regression: a budget without status let nobody give way, whatever it says.
#[rstest]
#[case(json!({"maxUnavailable": 1}), json!({}), 1)]
#[case(json!({"minAvailable": "50%"}), json!({}), 1)]
#[case(json!({"minAvailable": 4}), json!({}), 0)]
#[case(json!({"maxUnavailable": "x"}), json!({}), 0)]
#[case(json!({"maxUnavailable": 1}), json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3}}), 0)]
fn a_budget_that_no_controller_has_counted_counts_the_pods_that_run(
    #[case] mut spec: Value,
    #[case] status: Value,
    #[case] allowed: i32,
) {
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    let pod = |name: &str| super::with(mk_pod(name, json!({"nodeName": "n"})), labels.clone());
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = super::with(mk("PodDisruptionBudget", "web", json!({"spec": spec})), status);
    let other = super::with(mk_pod("other", json!({"nodeName": "n"})), json!({}));
    let cluster = convert([budget, pod("a"), pod("b"), pod("c"), other, super::mk_node("n", json!({}))]).cluster;
    assert_eq!(cluster.budgets[0].allowed, allowed);
}
