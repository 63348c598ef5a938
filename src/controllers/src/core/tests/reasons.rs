//! What pending pods are told.

use berth_decisions::Refusal;

use super::aside::{observe, waiting};
use super::*;

/// What a pod's status is told to say of its place, as reason and message.
fn told(effects: Vec<Effect>) -> Vec<(String, String)> {
    let conditions = effects.into_iter().filter_map(|effect| {
        let Effect::Write(_, write) = effect else { return None };
        let Op::MergeStatus(patch) = write.op else { return None };
        let all = patch["status"]["conditions"].as_array()?.clone();
        all.into_iter().find(|condition| condition["type"] == "PodScheduled")
    });
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    conditions.map(|condition| (text(&condition["reason"]), text(&condition["message"]))).collect()
}

/// The regression: three of 23 nodes were in nobody's reasons.
#[test]
fn nodes_that_a_command_has_tainted_are_counted_in_the_reasons() {
    let mut core = at_rest(3);
    for at in 0..2 {
        let Object::Node(known) = node(at, 2, "2026-01-01T00:00:00Z") else { unreachable!("a node was made") };
        let mut tainted = Node::clone(&known);
        let taint = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
        tainted.spec.as_mut().unwrap().taints = Some(typed(taint));
        observe(&mut core, Object::from(tainted), start());
    }
    let mut tolerant = waiting("tolerant", "9");
    if let Object::Pod(pod) = &mut tolerant {
        let spec = Arc::make_mut(pod).spec.as_mut().unwrap();
        spec.tolerations = Some(typed(json!([{"operator": "Exists"}])));
    }
    observe(&mut core, waiting("plain", "9"), start());
    observe(&mut core, tolerant, start());
    core.effects.clear();
    let refusals = ["plain", "tolerant"].map(|name| Refusal {
        objects: vec![berth_state::Key::new(berth_state::Kind::Pod, "default", name).with_uid(Some(name))],
        reasons: vec![("Insufficient cpu".to_owned(), 1)],
    });
    core.explain(&refusals, start());
    let messages: Vec<String> =
        told(std::mem::take(&mut core.effects)).into_iter().map(|(_, message)| message).collect();
    assert_eq!(
        messages,
        [
            "0/3 nodes are available: 1 Insufficient cpu, \
             2 node(s) had untolerated taint {karpenter.sh/disrupted: }.",
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) are being removed.",
        ]
    );
}

/// The regression: `SchedulingGated` became `Unschedulable`, which other autoscalers take for a call for nodes.
#[test]
fn a_gated_pod_is_told_nothing_beside_what_the_server_says() {
    let mut core = at_rest(1);
    let mut gated = waiting("gated", "9");
    if let Object::Pod(pod) = &mut gated {
        Arc::make_mut(pod).spec.as_mut().unwrap().scheduling_gates = Some(typed(json!([{"name": "example.com/g"}])));
    }
    observe(&mut core, gated, start());
    observe(&mut core, waiting("plain", "9"), start());
    core.effects.clear();
    let refusals = ["gated", "plain"].map(|name| Refusal {
        objects: vec![berth_state::Key::new(berth_state::Kind::Pod, "default", name).with_uid(Some(name))],
        reasons: vec![(format!("why {name} waits"), 1)],
    });
    let decision = berth_decisions::Decision { refusals: refusals.into(), ..Default::default() };
    core.carry_out(&decision, start());
    let about = core.effects.iter().filter_map(|effect| match effect {
        Effect::Write(_, write) => Some(format!("{:?}", write.op)),
        Effect::Ask(..) => None,
    });
    let about: Vec<String> = about.filter(|text| text.contains("waits")).collect();
    assert_eq!(about.len(), 2, "a condition and an Event: {about:?}");
    assert!(about.iter().all(|text| text.contains("why plain waits")), "{about:?}");
    assert_eq!(core.n_refused, 1);
}

/// The regression: only an Event told it.
#[test]
fn a_pod_whose_annotation_cannot_be_read_has_that_in_its_status() {
    let mut core = at_rest(1);
    let garbage = |name: &str, gates: Value| {
        let mut pod = waiting(name, "1");
        if let Object::Pod(pod) = &mut pod {
            let pod = Arc::make_mut(pod);
            let key = "scheduling.koordinator.sh/reservation-affinity".to_owned();
            pod.metadata.annotations = Some([(key, "{not json".to_owned())].into());
            pod.spec.as_mut().unwrap().scheduling_gates = typed(gates);
        }
        pod
    };
    core.effects.clear();
    observe(&mut core, garbage("bad", json!([])), start());
    observe(&mut core, garbage("gated", json!([{"name": "later"}])), start());
    let told = told(std::mem::take(&mut core.effects));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "SchedulerError");
    assert!(told[0].1.contains("metadata.annotations[scheduling.koordinator.sh/reservation-affinity]"), "{told:?}");
}

/// The regression: what pods wait for was written at each decision until it showed, and each time but the first it was refused: tens of
/// thousands of requests while many nodes came up.
#[test]
fn a_pod_is_told_one_thing_at_a_time_and_what_was_said_last_once_that_shows() {
    let mut core = at_rest(1);
    observe(&mut core, waiting("p", "9"), start());
    let object = core.state.pod("default", "p").unwrap().reference();
    core.effects.clear();
    let say = |core: &mut Core, messages: &[&str]| {
        for message in messages {
            core.explain_pod(&object, message, start());
        }
        told(std::mem::take(&mut core.effects)).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    assert_eq!(say(&mut core, &["one", "one", "two", "three", "three"]), ["one"]);
    let Object::Pod(mut shown) = waiting("p", "9") else { unreachable!("a pod was made") };
    let pod = Arc::make_mut(&mut shown);
    pod.metadata.resource_version = Some("1000".to_owned());
    pod.status = Some(typed(json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "one"}]})));
    observe(&mut core, Object::Pod(shown), start());
    let messages: Vec<String> = told(std::mem::take(&mut core.effects)).into_iter().map(|(_, said)| said).collect();
    assert!(messages.contains(&"three".to_owned()) && !messages.contains(&"two".to_owned()), "{messages:?}");
}
