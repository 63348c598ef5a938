//! The core by itself.

use std::sync::Arc;

use berth_api::Reservation;
use berth_cloudprovider::CapacityReservation;
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use berth_quantity::Money;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::*;
use crate::claim::Manner;
use crate::kind::Kind;
use crate::kind::NamedObject;
use crate::observed::{Object, WATCHED};
use crate::view::n_visits;
use crate::write::{Answered, Op};

#[tokio::test(start_paused = true)]
async fn what_waits_before_everything_was_seen_does_not_spin() {
    let cloud = FakeCloud::new(CloudConfig::default(), berth_cloudprovider_fake::catalogue());
    let mut core = Core::new(Options::default(), Arc::new(cloud));
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut pod = Pod::default();
    (pod.metadata.name, pod.metadata.namespace) = (Some("web".to_owned()), Some("default".to_owned()));
    pod.spec = Some(PodSpec { containers: vec![Container::default()], ..PodSpec::default() });
    core.handle(Input::Observed(listed(Kind::Pod, vec![Object::from(pod)], None)), now);
    assert_eq!(core.work(now), Vec::new());
    assert_eq!(core.next_time(), None, "only a watch can bring it further");
}

fn listed(kind: Kind, objects: Vec<Object>, version: Option<&str>) -> Observed {
    Observed::Listed { kind, objects, unreadable: Vec::new(), resource_version: version.map(str::to_owned) }
}

#[test]
fn a_list_ends_what_it_does_not_name_unless_that_is_newer() {
    let cloud = FakeCloud::new(CloudConfig::default(), berth_cloudprovider_fake::catalogue());
    let mut core = Core::new(Options::default(), Arc::new(cloud));
    let key = berth_state::Key::new(berth_state::Kind::Pod, "default", "p0");
    core.handle(Input::Observed(Observed::Applied(pod(0, 0))), start());
    // The pod is of version 1.
    for (version, stays) in [("0", true), ("1", false)] {
        core.handle(Input::Observed(listed(Kind::Pod, Vec::new(), Some(version))), start());
        assert_eq!(core.state.observed(&key).is_some(), stays, "a list of version {version}");
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A node that works, as its kubelet reported it then.
fn node(at: usize, version: usize, heartbeat: &str) -> Object {
    let condition = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "50"});
    Object::from(typed::<Node>(json!({
        "metadata": {"name": format!("n{at}"), "uid": format!("n{at}"), "resourceVersion": version.to_string(),
            "labels": {"karpenter.sh/nodepool": "web", "karpenter.sh/initialized": "true", "berth.sh/fakenodeclass": "default",
                "kubernetes.io/hostname": format!("n{at}")}},
        "spec": {"providerID": format!("fake:///{at}")},
        "status": {"capacity": room, "allocatable": room, "conditions": [condition]}})))
}

fn claim(at: usize) -> Object {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = ["Consolidatable", "Initialized", "Launched", "Ready", "Registered"].map(condition);
    Object::from(typed::<NodeClaim>(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("web-{at}"), "uid": format!("c{at}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.sh/nodepool": "web", "berth.sh/fakenodeclass": "default"},
            "annotations": {"karpenter.sh/nodepool-hash-version": "berth-v2"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}},
        "status": {"providerID": format!("fake:///{at}"), "nodeName": format!("n{at}"), "conditions": conditions}})))
}

fn pod(at: usize, node: usize) -> Object {
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": format!("p{at}"), "namespace": "default", "uid": format!("p{at}"), "resourceVersion": "1"},
        "spec": {"nodeName": format!("n{node}"), "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}})))
}

/// The regression: a schedule that cannot be read was told by three Events, in three wordings.
#[test]
fn what_a_node_pool_says_that_cannot_be_used_is_told_in_one_event_with_object_and_field() {
    let mut core = at_rest(1);
    for (version, spec, expected) in [
        (
            2,
            json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "1", "schedule": "daily", "duration": "1h"}]}}),
            "InvalidBudget: NodePool p2: spec.disruption.budgets[0].schedule: schedule \"daily\": has 1 fields, expected five: \
             minute hour day-of-month month day-of-week: nothing is launched, and no node of it is disrupted, until that is mended",
        ),
        (
            3,
            json!({"disruption": {"consolidateAfter": "0s"}, "template": {"spec": {"requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": []}]}}}),
            "NodePoolValidationFailed: NodePool p3: spec.template.spec.requirements[0].values: ",
        ),
        (
            4,
            json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}}),
            "InvalidBudget: NodePool p4: metadata.annotations[berth.sh/budget-time-zone]: expected a time zone such as \
             Europe/Berlin, found \"Mars\": no node of it is disrupted until that is mended",
        ),
    ] {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": format!("p{version}"), "uid": version.to_string(), "resourceVersion": version.to_string()},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
        json_patch::merge(&mut pool["spec"], &spec);
        let mut pool = typed::<berth_api::NodePool>(pool);
        let hash = berth_disruption::template_hash(&pool);
        let annotations = [
            ("karpenter.sh/nodepool-hash", &*hash),
            ("karpenter.sh/nodepool-hash-version", berth_disruption::HASH_VERSION),
        ];
        let annotations =
            annotations.into_iter().chain((version == 4).then_some(("berth.sh/budget-time-zone", "Mars")));
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        pool.metadata.annotations = Some(annotations.collect());
        core.handle(Input::Observed(Observed::Applied(Object::from(pool))), start());
        let writes = settled(&mut core, after(start(), Duration::from_secs(5)));
        let told = writes.iter().filter_map(|write| match &write.op {
            Op::Create(event) if write.key.kind == Kind::Event && event["involvedObject"]["kind"] == "NodePool" => {
                Some(format!("{}: {}", event["reason"].as_str()?, event["message"].as_str()?))
            }
            _ => None,
        });
        // Nobody serves its node class here.
        let told: Vec<String> = told.filter(|told| !told.starts_with("NodeClassNotReady: ")).collect();
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }
}

/// What a dry run says of it.
#[test]
fn a_command_that_begins_is_told_with_the_names_of_its_nodes() {
    let mut core = at_rest(1);
    let node = berth_state::Key::new(berth_state::Kind::Node, "", "n0").with_uid(Some("n0"));
    let command = berth_disruption::Command {
        method: berth_disruption::Method::Emptiness,
        nodes: vec![node],
        replacements: Vec::new(),
        places: Vec::new(),
        savings: Money::ZERO,
        list_savings: Money::ZERO,
        node_savings: Money::ZERO,
        evictions: 0,
        cost: berth_disruption::DisruptionCost::ONE,
        batch: 0,
    };
    core.begin(&command, start());
    let text = "1 node without pods: nothing saved".to_owned();
    assert_eq!(core.take_begun(), [Begun { text, nodes: vec!["n0".to_owned()] }]);
    assert_eq!(core.take_begun(), [], "it is told once");
}

/// How many pods are told to go now, when the first one must.
fn n_told(core: &mut Core, manner: Manner) -> usize {
    let pod = PodName { namespace: "default".to_owned(), name: "p0".to_owned() };
    core.want_eviction(&Eviction { pod, uid: "p0".to_owned(), manner });
    let effects = core.work(start()).into_iter();
    effects.filter(|effect| matches!(effect, Effect::Write(Some(Job::Evict(_)), _))).count()
}

fn was_told(core: &mut Core, op: Op, answer: Option<Value>) {
    let pod = PodName { namespace: "default".to_owned(), name: "p0".to_owned() };
    let key = NamedObject::namespaced(Kind::Pod, "default", "p0");
    let outcome = Outcome::Done(answer.map(|answer| Answered(answer.to_string())));
    core.written(Some(Job::Evict(pod)), &Write { key, uid: "p0".to_owned(), op }, outcome, start());
}

/// By this process's clock the pod, which the server deleted a moment ago, goes later than its node may wait.
#[test]
fn a_clock_behind_the_server_s_deletes_no_pod_again_and_again() {
    let mut core = at_rest(1);
    assert_eq!(n_told(&mut core, Manner::Delete { grace: 20 }), 1);
    let answer = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p0", "namespace": "default",
        "uid": "p0", "resourceVersion": "2", "deletionTimestamp": "2026-01-01T00:02:00Z",
        "deletionGracePeriodSeconds": 20}, "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"}});
    was_told(&mut core, Op::Delete { grace: Some(20) }, Some(answer));
    assert_eq!(n_told(&mut core, Manner::Delete { grace: 20 }), 0);
}

/// The answer to an eviction has no pod in it, and the watch is late.
#[test]
fn a_late_watch_evicts_no_pod_again_and_again() {
    let mut core = at_rest(1);
    assert_eq!(n_told(&mut core, Manner::Evict), 1);
    was_told(&mut core, Op::Evict, None);
    assert_eq!(n_told(&mut core, Manner::Evict), 0);
    assert!(core.next_time().is_some(), "what was lost is said again");
}

fn reservation(at: usize) -> Object {
    Object::from(typed::<Reservation>(
        json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": format!("r{at}"), "uid": format!("r{at}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"phase": "Available", "nodeName": format!("n{at}")}}),
    ))
}

/// A cluster of so many nodes that has nothing to do, each with two pods and a Reservation.
pub(super) fn at_rest(n: usize) -> Core {
    at_rest_with(n, Options::default())
}

fn at_rest_with(n: usize, options: Options) -> Core {
    let cloud = FakeCloud::new(CloudConfig::default(), berth_cloudprovider_fake::catalogue());
    let mut core = Core::new(options, Arc::new(cloud));
    for kind in WATCHED {
        let objects: Vec<Object> = match kind {
            Kind::Node => (0..n).map(|at| node(at, 1, "2026-01-01T00:00:00Z")).collect(),
            Kind::NodeClaim => (0..n).map(claim).collect(),
            Kind::Pod => (0..2 * n).map(|at| pod(at, at % n)).collect(),
            Kind::Reservation => (0..n).map(reservation).collect(),
            Kind::NodePool => vec![Object::from(typed::<berth_api::NodePool>(json!({"apiVersion": "karpenter.sh/v1",
                "kind": "NodePool", "metadata": {"name": "web", "uid": "web", "resourceVersion": "1"},
                "spec": {"disruption": {"consolidateAfter": "0s"}, "template": {"spec": {"requirements": [],
                    "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}})))],
            _ => Vec::new(),
        };
        core.handle(Input::Observed(listed(*kind, objects, None)), start());
    }
    settle(&mut core, start());
    core
}

/// Answers what NodeClaims ask, until they ask nothing more. Writes stay unanswered: what they are for waits.
fn settle(core: &mut Core, now: Timestamp) {
    settled(core, now);
    assert!(!core.queue.is_running(&Job::Claim("web-0".to_owned())));
}

/// The same, and what is written.
fn settled(core: &mut Core, now: Timestamp) -> Vec<Write> {
    let mut writes = Vec::new();
    for _ in 0..4 {
        for effect in core.work(now) {
            match effect {
                Effect::Ask(job, question) if matches!(*question, Question::Drift(_)) => {
                    core.handle(Input::Answered(job, Box::new(Answer::Drift(Ok(None)))), now);
                }
                Effect::Write(_, write) => writes.push(*write),
                Effect::Ask(..) => {}
            }
        }
    }
    writes
}

/// What a heartbeat of one of so many nodes does: how many objects tables are gone through for, and what is to be done outside.
fn heartbeat(n: usize) -> (usize, Vec<String>) {
    let mut core = at_rest(n);
    let now = after(start(), Duration::from_secs(1));
    // A first one may find something to write down.
    core.handle(Input::Observed(Observed::Applied(node(0, 2, "2026-01-01T00:00:01Z"))), now);
    settle(&mut core, now);
    core.disrupting.take_change();
    let before = n_visits();
    core.handle(Input::Observed(Observed::Applied(node(0, 3, "2026-01-01T00:00:11Z"))), now);
    let jobs = core.work(now).into_iter().filter_map(|effect| match effect {
        // What a pool has is counted a moment after its NodeClaims came, which is now.
        Effect::Write(Some(Job::Pool(_)), _) => None,
        Effect::Write(job, _) => Some(format!("{job:?}")),
        Effect::Ask(job, _) => Some(format!("{job:?}")),
    });
    let jobs = jobs.collect();
    assert!(!core.disrupting.take_change(), "nobody looks at the nodes for it");
    (n_visits() - before, jobs)
}

#[test]
fn a_heartbeat_of_one_node_looks_at_no_other() {
    let (few, many) = (heartbeat(10), heartbeat(200));
    assert_eq!((few.1, many.1), (Vec::new(), Vec::new()));
    assert_eq!((few.0, many.0), (0, 0), "objects that tables are gone through for");
}

/// The regression: each list of the cloud's instances went through all pods, and held bindings up meanwhile.
#[test]
fn bound_pods_that_are_gone_are_forgotten_without_a_look_at_all_others() {
    let mut core = at_rest(50);
    let name = |name: &str| PodName { namespace: "default".to_owned(), name: name.to_owned() };
    let (there, uid) = core.view.pods.uids().next().map(|(name, uid)| (name.clone(), uid.to_owned())).unwrap();
    let another = "another".to_owned();
    for (uid, pod) in [(&uid, &there), (&another, &there), (&"gone".to_owned(), &name("gone"))] {
        core.own_bindings.insert(uid.clone(), pod.clone());
        core.starting.insert(uid.clone(), (pod.clone(), start()));
    }
    let before = n_visits();
    core.forget_placed();
    assert_eq!(n_visits() - before, 0, "objects that tables are gone through for");
    assert!(core.own_bindings.keys().eq([&uid]) && core.starting.keys().eq([&uid]));
}

/// The node class of all NodeClaims here.
const CLASS: &str = "berth.sh/FakeNodeClass/default";

/// How many NodeClaims ask whether they have drifted once the cloud has given an answer. Each is answered.
fn asks_after(core: &mut Core, job: Job, answer: Answer, now: Timestamp) -> usize {
    core.handle(Input::Answered(job, Box::new(answer)), now);
    let effects = core.work(now).into_iter();
    let asked = effects.filter_map(|effect| match effect {
        Effect::Ask(job, question) => matches!(*question, Question::Drift(_)).then_some(job),
        Effect::Write(..) => None,
    });
    let asked: Vec<Job> = asked.collect();
    let count = asked.len();
    for job in asked {
        core.handle(Input::Answered(job, Box::new(Answer::Drift(Ok(None)))), now);
    }
    settle(core, now);
    count
}

#[test]
fn drift_is_asked_for_again_where_the_node_class_has_changed() {
    let timings = crate::options::Timings { drift_period: None, ..crate::options::Timings::default() };
    let mut core = at_rest_with(5, Options { timings, ..Options::default() });
    let now = after(start(), Duration::from_secs(3600));
    let mut asks = |hash: &str| {
        let status = Answer::Status(Ok(NodeClassStatus::Ready { hash: hash.to_owned() }));
        asks_after(&mut core, Job::ClassStatus(CLASS.to_owned()), status, now)
    };
    asks("first");
    assert_eq!((asks("first"), asks("second"), asks("second")), (0, 5, 0));
}

#[test]
fn nodes_are_looked_at_where_their_reservations_end_at_another_time() {
    let mut core = at_rest(5);
    let now = after(start(), Duration::from_secs(1));
    let catalogue = Arc::new(berth_cloudprovider_fake::catalogue());
    let reservation = |used: u32, end: Option<Timestamp>| CapacityReservation {
        id: "cr".to_owned(),
        instance_types: vec!["m5.large".to_owned()],
        zones: Vec::new(),
        total: 3,
        used,
        includes: BTreeSet::new(),
        owner: None,
        kind: berth_cloudprovider::ReservationKind::CapacityBlock,
        matching: berth_cloudprovider::ReservationMatching::Targeted,
        state: berth_cloudprovider::ReservationState::Active,
        start: None,
        end,
    };
    let mut asks = |reservation: CapacityReservation| {
        for memory in core.memories.values_mut() {
            memory.drift_asked_at = None;
        }
        let types = InstanceTypes { catalogue: Arc::clone(&catalogue), reservations: vec![reservation] };
        asks_after(&mut core, Job::Offers(CLASS.to_owned()), Answer::Types(Ok(types)), now)
    };
    asks(reservation(0, None));
    let other_end = after(now, Duration::from_secs(86_400));
    assert_eq!((asks(reservation(1, None)), asks(reservation(1, Some(other_end)))), (0, 5));
}

/// The regression: nothing in a running cluster told that a NodeOverlay was left out.
#[test]
fn node_overlays_say_whether_they_do_what_they_say() {
    let convert = berth_convert::Options { node_overlay: true, ..berth_convert::Options::default() };
    let mut core = at_rest_with(1, Options { convert, ..Options::default() });
    let types = InstanceTypes { catalogue: Arc::new(berth_cloudprovider_fake::catalogue()), reservations: Vec::new() };
    core.handle(Input::Answered(Job::Offers(CLASS.to_owned()), Box::new(Answer::Types(Ok(types)))), start());
    let overlay = |name: &str, price: &str| {
        Object::from(typed::<berth_api::NodeOverlay>(
            json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"price": price, "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]}}),
        ))
    };
    let conditions = |core: &mut Core, overlays: Vec<Object>| {
        core.handle(Input::Observed(listed(Kind::NodeOverlay, overlays, None)), start());
        let writes = settled(core, start()).into_iter().filter(|write| write.key.kind == Kind::NodeOverlay);
        let told = writes.map(|write| match write.op {
            Op::MergeStatus(body) => {
                let all = body["status"]["conditions"].as_array().unwrap().iter();
                let one =
                    |own: &Value| format!("{}={}: {}", own["type"], own["status"], own["reason"]).replace('"', "");
                (write.key.name, all.map(one).collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        });
        told.collect::<BTreeMap<_, _>>()
    };
    let alone = conditions(&mut core, vec![overlay("a", "0.1")]);
    assert_eq!(alone["a"], ["Ready=True: Ready", "ValidationSucceeded=True: ValidationSucceeded"]);
    let mut core = at_rest_with(1, core.options.clone());
    let types = InstanceTypes { catalogue: Arc::new(berth_cloudprovider_fake::catalogue()), reservations: Vec::new() };
    core.handle(Input::Answered(Job::Offers(CLASS.to_owned()), Box::new(Answer::Types(Ok(types)))), start());
    let both = conditions(&mut core, vec![overlay("a", "0.1"), overlay("b", "0.2")]);
    assert_eq!(both["a"], ["Ready=False: UnhealthyDependents", "ValidationSucceeded=False: Conflict"]);
    assert_eq!(both["b"], ["Ready=True: Ready", "ValidationSucceeded=True: ValidationSucceeded"]);
}

#[test]
fn an_interruption_that_the_cloud_calls_off_is_forgotten() {
    use berth_catalogue::CapacityType;
    use berth_cloudprovider::{InstanceState, InterruptionReason, OfferingKey};
    let mut core = at_rest(2);
    let now = after(start(), Duration::from_secs(60));
    let instance = |interruption: Option<Timestamp>| Instance {
        provider_id: ProviderId("fake:///0".to_owned()),
        state: InstanceState::Running,
        offering: OfferingKey {
            instance_type: "m5.large".to_owned(),
            zone: None,
            capacity_type: CapacityType::OnDemand,
        },
        reservation: None,
        launched_at: start(),
        token: None,
        tags: BTreeMap::new(),
        image_id: None,
        labels: BTreeMap::new(),
        capacity: berth_api::ResourceList::new(),
        allocatable: berth_api::ResourceList::new(),
        interruption: interruption.map(|at| Interruption { reason: InterruptionReason::Maintenance, at }),
    };
    let [early, late] = [3600, 7200].map(|seconds| after(now, Duration::from_secs(seconds)));
    let ends = [Some(early), Some(late), None].map(|end| {
        core.note_interruptions([instance(end)].iter(), now);
        core.interrupted.values().map(|known| known.at).next()
    });
    assert_eq!(ends, [Some(early), Some(late), None]);
}

/// Whether nodes are planned a moment after a NodeClaim was deleted.
fn plans_after_deletion(core: &mut Core, at: usize) -> bool {
    let Object::NodeClaim(known) = claim(at) else { unreachable!("a NodeClaim was made") };
    let mut deleted = (*known).clone();
    deleted.metadata.resource_version = Some("2".to_owned());
    deleted.metadata.deletion_timestamp = Some(Time(start()));
    core.handle(Input::Observed(Observed::Applied(Object::from(deleted))), start());
    let now = after(start(), Duration::from_millis(200));
    std::iter::from_fn(|| core.queue.pop(now)).any(|job| job == Job::Provision)
}

/// The regression: nothing was planned for pods of a NodeClaim that somebody deleted before they were evicted, and waited.
#[test]
fn who_deletes_a_node_claim_has_its_pods_planned_for_in_a_moment() {
    assert!(plans_after_deletion(&mut at_rest(2), 0));
    let mut core = at_rest(2);
    for name in ["p0", "p2"] {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some(name.to_owned()),
            resource_version: Some("2".to_owned()),
            ..ObjectMeta::default()
        };
        core.handle(Input::Observed(Observed::Deleted(Kind::Pod, Box::new(metadata))), start());
    }
    assert!(!plans_after_deletion(&mut core, 0), "its node is empty");
}

/// The NodeClaims that are deleted by a time, whose questions are answered meanwhile.
fn claims_deleted_by(core: &mut Core, now: Timestamp) -> Vec<String> {
    let is_deletion = |write: &Write| write.key.kind == Kind::NodeClaim && matches!(write.op, Op::Delete { .. });
    let deletions = settled(core, now).into_iter().filter(is_deletion);
    deletions.map(|write| write.key.name).collect()
}

fn delete_at_once(core: &mut Core, n_nodes: usize) {
    for at in 0..n_nodes {
        let Object::Node(known) = node(at, 1, "2026-01-01T00:00:00Z") else { unreachable!("a node was made") };
        core.handle(Input::Observed(Observed::Deleted(Kind::Node, Box::new(known.metadata.clone()))), start());
    }
    settle(core, start());
}

/// Where most nodes are gone at once the fault is elsewhere: their machines may run well.
#[test]
fn no_claim_goes_while_most_nodes_are_gone_at_once() {
    let mut core = at_rest(4);
    delete_at_once(&mut core, 3);
    for seconds in [31, 61, 14 * 60] {
        let deleted = claims_deleted_by(&mut core, after(start(), Duration::from_secs(seconds)));
        assert_eq!(deleted, [""; 0], "{seconds}");
    }
    let later = claims_deleted_by(&mut core, after(start(), Duration::from_secs(16 * 60)));
    assert_eq!(later, ["web-0", "web-1", "web-2"], "for so long no storm lasts");
}

#[test]
fn a_claim_goes_half_a_minute_after_a_node_that_went_at_once() {
    let mut core = at_rest(2);
    delete_at_once(&mut core, 1);
    assert_eq!(claims_deleted_by(&mut core, after(start(), Duration::from_secs(29))), [""; 0]);
    assert_eq!(claims_deleted_by(&mut core, after(start(), Duration::from_secs(31))), ["web-0"]);
}

/// A pod that waits on a node for others to be gone.
fn nominated(node: &str) -> Object {
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": "urgent", "namespace": "default", "uid": "urgent", "resourceVersion": "2"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"nominatedNodeName": node}})))
}

#[test]
fn room_is_held_for_a_preemptor_for_five_minutes_also_where_another_process_nominated_it() {
    let mut core = at_rest(2);
    core.handle(Input::Observed(Observed::Applied(nominated("n0"))), start());
    core.recall_nominations(start());
    let withdraws = |core: &mut Core, seconds: u64| {
        let effects = core.work(after(start(), Duration::from_secs(seconds)));
        effects.into_iter().any(|effect| match effect {
            Effect::Write(Some(Job::Nominate(_)), write) => {
                write.op == crate::write::Op::MergeStatus(json!({"status": {"nominatedNodeName": null}}))
            }
            _ => false,
        })
    };
    assert!(!withdraws(&mut core, 299));
    assert!(withdraws(&mut core, 300));
    assert!(!withdraws(&mut core, 900), "once");
}

/// A pod of one controller: waiting, or not let in by its node.
fn owned(name: &str, version: u32, rejected_by: Option<&str>) -> Object {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(),
            "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if let Some(node) = rejected_by {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": "Failed", "reason": "OutOfcpu"});
    }
    Object::from(typed::<Pod>(pod))
}

#[test]
fn pods_of_a_controller_keep_off_a_node_that_did_not_let_one_in_for_five_minutes() {
    let mut core = at_rest(2);
    let kept_off = |core: &Core, name: &str| {
        let pod = core.state.pod("default", name).unwrap();
        let affinity = pod.spec().unwrap().affinity.as_ref();
        let required = affinity
            .and_then(|own| own.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref());
        let terms = required.into_iter().flat_map(|own| &own.node_selector_terms);
        let fields = terms.flat_map(|term| term.match_fields.iter().flatten());
        fields.flat_map(|field| field.values.iter().flatten().cloned()).collect::<Vec<_>>()
    };
    core.handle(Input::Observed(Observed::Applied(owned("early", 2, None))), start());
    assert_eq!(kept_off(&core, "early"), Vec::<String>::new());
    core.handle(Input::Observed(Observed::Applied(owned("refused", 3, Some("n0")))), start());
    core.handle(Input::Observed(Observed::Applied(owned("late", 4, None))), start());
    assert_eq!((kept_off(&core, "early"), kept_off(&core, "late")), (vec!["n0".to_owned()], vec!["n0".to_owned()]));
    core.end_avoiding(after(start(), Duration::from_secs(299)));
    assert_eq!(kept_off(&core, "late"), ["n0"]);
    core.end_avoiding(after(start(), Duration::from_secs(300)));
    assert_eq!((kept_off(&core, "early"), kept_off(&core, "late")), (Vec::new(), Vec::new()));
}

mod aside;
mod interleaved;
mod kept;
mod reasons;

/// An instance of a NodeClaim here, of so many labels of its own.
fn instance_of(at: usize, zone: &str) -> Arc<Instance> {
    use berth_catalogue::CapacityType;
    use berth_cloudprovider::{InstanceState, OfferingKey};
    let pairs =
        |all: &[(&str, &str)]| all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (name, uid) = (format!("web-{at}"), format!("c{at}"));
    Arc::new(Instance {
        provider_id: ProviderId(format!("fake:///{at}")),
        state: InstanceState::Running,
        offering: OfferingKey {
            instance_type: "m5.large".to_owned(),
            zone: Some(zone.to_owned()),
            capacity_type: CapacityType::OnDemand,
        },
        reservation: None,
        launched_at: start(),
        token: None,
        tags: pairs(&[
            (berth_cloudprovider::tag::NODE_CLAIM, &*name),
            (berth_cloudprovider::tag::NODE_CLAIM_UID, &*uid),
        ]),
        image_id: None,
        labels: BTreeMap::new(),
        capacity: berth_api::ResourceList::new(),
        allocatable: berth_api::ResourceList::new(),
        interruption: None,
    })
}

#[test]
fn instances_and_nodeclaims_are_compared_where_either_has_changed() {
    let mut core = at_rest(3);
    let now = after(start(), Duration::from_secs(3600));
    let mut instances: Vec<Arc<Instance>> = (0..3).map(|at| instance_of(at, "a")).collect();
    let unmatched = |core: &mut Core, instances: &[Arc<Instance>]| {
        let n = instances.iter().filter(|instance| !core.is_matched(instance)).count();
        core.listed(Ok(instances.to_vec()), now);
        n
    };
    assert_eq!((unmatched(&mut core, &instances), unmatched(&mut core, &instances)), (3, 0));
    instances[0] = instance_of(0, "b");
    let Object::NodeClaim(known) = claim(1) else { unreachable!("a NodeClaim was made") };
    let mut changed = (*known).clone();
    changed.metadata.resource_version = Some("2".to_owned());
    core.handle(Input::Observed(Observed::Applied(Object::from(changed))), now);
    assert_eq!((unmatched(&mut core, &instances), unmatched(&mut core, &instances)), (2, 0));
    // One whose NodeClaim is gone is garbage, whatever was found before.
    let metadata = Box::new(known.metadata.clone());
    core.handle(Input::Observed(Observed::Deleted(Kind::NodeClaim, metadata)), now);
    core.listed(Ok(instances.clone()), now);
    assert_eq!(core.garbage.iter().collect::<Vec<_>>(), ["fake:///1"]);
    // And what is not listed any more is forgotten.
    core.listed(Ok(instances.split_off(2)), now);
    assert_eq!(core.matched.len(), 1);
}
