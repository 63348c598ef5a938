//! Drift on reservations: node by node through the slots that those before leave.

use super::*;

/// So many drifted nodes, each on a slot and with a pod that fills it, the oldest first by name.
pub(super) fn on_slots(n: usize, kinds: &[&str]) -> Vec<Object> {
    let mut objects = vec![free_pool(kinds)];
    for i in 0..n {
        objects.extend(on_slot(&format!("n{i:02}"), i, &json!({})));
    }
    objects
}

fn on_slot(name: &str, age: usize, spec: &Value) -> [Object; 3] {
    let Object::Node(mut node) = node(name, "small", "reserved") else { panic!("a node") };
    let known = std::sync::Arc::make_mut(&mut node);
    let id = ("berth.sh/capacity-reservation-id".to_owned(), "cr-1".to_owned());
    known.metadata.labels.get_or_insert_default().extend([id]);
    if !spec.is_null() {
        let mut written = serde_json::to_value(&*known).unwrap();
        merge(&mut written, &json!({"spec": spec}));
        *known = typed(written);
    }
    let labels = json!({"karpenter.sh/capacity-type": "reserved", "berth.sh/capacity-reservation-id": "cr-1"});
    [node.into(), drifted_claim(name, age, &labels), pod(&format!("p{name}"), name, "1500m", &json!({}))]
}

/// The NodeClaim of a node, made so many minutes after eight, that says that it has drifted.
pub(super) fn drifted_claim(node: &str, age: usize, labels: &Value) -> Object {
    let Object::NodeClaim(claim) = claim_of(node, &format!("2026-01-01T08:{age:02}:00Z"), "Never") else {
        panic!("a NodeClaim")
    };
    let mut written = serde_json::to_value(&*claim).unwrap();
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": "2026-01-01T11:00:00Z"});
    written["status"]["conditions"].as_array_mut().unwrap().push(drifted);
    written["metadata"]["labels"] = labels.clone();
    Object::from(typed::<berth_api::NodeClaim>(written))
}

pub(super) const FULL: [(&str, u32, &str, u32); 1] = [("small", 0, "cr-1", 0)];
const ONE_FREE: [(&str, u32, &str, u32); 1] = [("small", 0, "cr-1", 1)];
const WAITS: &str = "waits for a slot of cr-1 that a node before it leaves";

fn now_only() -> Options {
    Options { only_now: true, ..Options::default() }
}

#[test]
fn a_pod_of_drifted_nodes_that_go_at_once_is_evicted_once() {
    let mut objects = vec![free_pool(ON_DEMAND)];
    for i in 0..6 {
        let name = format!("n{i}");
        objects.extend([node(&name, "medium", "on-demand"), drifted_claim(&name, i, &json!({}))]);
        objects.push(pod(&format!("p{i}"), &name, "1200m", &json!({})));
    }
    let disruption = disrupted(&objects, &[], &Options::default());
    assert!(disruption.commands.iter().all(|command| command.batch == 0), "{:#?}", lines(&disruption));
    assert_eq!(disruption.commands.len(), 6);
    assert_eq!(disruption.commands.iter().map(|command| command.evictions).sum::<usize>(), 6);
}

#[test]
fn drifted_nodes_on_a_full_reservation_follow_each_other_through_its_slots() {
    let disruption = disrupted(&on_slots(4, WITH_SLOTS), &FULL, &Options::default());
    let expected = [
        "0 Drift n00 > small on-demand $-0.2000",
        "1 Drift n01 > small cr-1 $0.0000",
        "2 Drift n02 > small cr-1 $0.0000",
        "3 Drift n03 > small cr-1 $0.0000",
    ];
    assert_eq!(lines(&disruption), expected);
    let mut state = state_of(&on_slots(4, WITH_SLOTS), &FULL);
    disrupt(&mut state, &Options::default(), now()).unwrap();
    assert_eq!(state.cluster(now()).slots.iter().map(|slots| slots.free).collect::<Vec<_>>(), [0], "as it was");
}

#[test]
fn one_in_ten_goes_aside_and_each_wave_moves_to_the_slots_of_the_one_before() {
    let disruption = disrupted(&on_slots(12, WITH_SLOTS), &FULL, &Options::default());
    let told: Vec<(usize, bool)> = disruption
        .commands
        .iter()
        .map(|command| (command.batch, command.replacements[0].1.offering.reservation_id.is_some()))
        .collect();
    let mut expected = vec![(0, false), (0, false)];
    expected.extend((1..6).flat_map(|batch| [(batch, true), (batch, true)]));
    assert_eq!(told, expected, "{:#?}", lines(&disruption));
}

#[test]
fn a_process_that_acts_waits_until_the_slot_is_counted_as_free() {
    let mut objects = on_slots(3, WITH_SLOTS);
    let first = disrupted(&objects, &FULL, &now_only());
    assert_eq!(lines(&first), ["0 Drift n00 > small on-demand $-0.2000"]);
    assert_eq!(reasons(&first, "n01"), [(WAITS.to_owned(), 0)]);
    // It is on its way out, and its slot is not free yet: nobody follows.
    let going = json!({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]});
    objects.splice(1..4, on_slot("n00", 0, &going));
    let second = disrupted(&objects, &FULL, &now_only());
    assert_eq!((lines(&second), reasons(&second, "n02")), (Vec::new(), vec![(WAITS.to_owned(), 0)]));
    // It is gone.
    objects.splice(1..4, [node("paid", "small", "on-demand"), pod("pn00", "paid", "1500m", &json!({}))]);
    objects.push(claim_of("paid", "2026-01-01T11:58:00Z", "Never"));
    let third = disrupted(&objects, &ONE_FREE, &now_only());
    assert_eq!(lines(&third), ["0 Drift n01 > small cr-1 $0.0000"], "before what is paid moves there");
    assert_eq!(reasons(&third, "n02"), [(WAITS.to_owned(), 0)], "none goes aside again");
}

#[test]
fn nobody_waits_for_a_slot_that_is_of_no_use_to_it() {
    // The pool does not use reservations any more: that is why they drifted.
    let disruption = disrupted(&on_slots(3, ON_DEMAND), &FULL, &now_only());
    let paid = |name: &str| format!("0 Drift {name} > small on-demand $-0.2000");
    assert_eq!(lines(&disruption), ["n00", "n01", "n02"].map(paid));
    // One that ends soon goes while it can be replaced first.
    let mut objects = on_slots(3, WITH_SLOTS);
    let Object::NodeClaim(mut claim) = objects[8].clone() else { panic!("a NodeClaim") };
    std::sync::Arc::make_mut(&mut claim).spec.expire_after = typed(json!("4h10m"));
    objects[8] = claim.into();
    assert_eq!(lines(&disrupted(&objects, &FULL, &now_only())), ["n00", "n02"].map(paid));
}

#[test]
fn where_pods_find_no_other_place_a_node_goes_before_its_replacement_if_its_pool_says_so() {
    let mut objects = on_slots(3, &["reserved"]);
    let stays = disrupted(&objects, &FULL, &Options::default());
    assert_eq!(stays.commands, []);
    assert!(reasons(&stays, "n00")[0].0.starts_with("not all pods would schedule: "), "{stays:?}");
    let Object::NodePool(of_slots) = &mut objects[0] else { panic!("a NodePool") };
    let annotations = [(REPLACE_IN_SLOT.to_owned(), "true".to_owned())].into();
    std::sync::Arc::make_mut(of_slots).metadata.annotations = Some(annotations);
    let rolled = disrupted(&objects, &FULL, &Options::default());
    let in_slot = |name: &str| format!("0 DriftInSlot {name} > small cr-1 $0.0000");
    assert_eq!(lines(&rolled), ["n00", "n01", "n02"].map(in_slot));
    // A pod that may be evicted no more keeps its node.
    let budget = typed::<PodDisruptionBudget>(json!({"metadata": {"name": "p", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "pn01"}}}}));
    objects.push(Object::from(budget));
    assert_eq!(lines(&disrupted(&objects, &FULL, &Options::default())), ["n00", "n02"].map(in_slot));
}

#[test]
fn a_slot_that_a_smaller_one_frees_is_used_in_the_next_round_of_a_plan() {
    let [slot, ..] = on_slot("a", 0, &Value::Null);
    let Object::Node(mut slot) = slot else { panic!("a node") };
    let of = [("node.kubernetes.io/instance-type", "huge"), ("berth.sh/capacity-reservation-id", "cr-huge")];
    let known = std::sync::Arc::make_mut(&mut slot);
    known.metadata.labels.get_or_insert_default().extend(of.map(|(key, value)| (key.to_owned(), value.to_owned())));
    // Who may not be on a node with the pod on the slot, and fits no small one.
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "p"}}}]}}}});
    let objects = [
        free_pool(WITH_SLOTS),
        slot.into(),
        pod("p", "a", "1500m", &json!({})),
        node("b", "medium", "on-demand"),
        pod("q", "b", "3", &apart),
    ];
    let slots = [("small", 0, "cr-small", 1), ("huge", 0, "cr-huge", 0)];
    let disruption = disrupted(&objects, &slots, &Options { bound: true, ..Options::default() });
    let expected =
        ["0 SingleNodeConsolidation a > small cr-small $0.0000", "1 SingleNodeConsolidation b > huge cr-huge $0.4000"];
    assert_eq!(lines(&disruption), expected);
    assert_eq!((disruption.settled_hourly_cost, disruption.lower_bound), (Money::ZERO, Some(Money::ZERO)));
    // A process that acts waits until the slot is counted as free.
    assert_eq!(lines(&disrupted(&objects, &slots, &now_only())), expected[..1]);
}
