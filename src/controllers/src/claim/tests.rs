//! One step at a time: what is seen of a NodeClaim, and what is done next.

use std::collections::BTreeMap;

use berth_cloudprovider::{CloudError, Instance, InstanceState, InstanceTypes, LaunchTarget, Launched, OfferingKey};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::view::Table;

mod hydrate;
mod terminate;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_750_000_000 + seconds).unwrap()
}

fn text(seconds: i64) -> String {
    at(seconds).to_string()
}

/// What a step sees; tests change it and look at what is done.
struct Scene {
    claim: Value,
    nodes: Vec<Value>,
    pods: Vec<Value>,
    attachments: Vec<Value>,
    offers: Option<Offers>,
    memory: Memory,
    nodeless_since: Option<i64>,
    interruption: Option<berth_cloudprovider::Interruption>,
    pool: Option<NodePool>,
    last_pod_event: Option<i64>,
    health: Option<repair::Health>,
    repair_policies: Vec<RepairPolicy>,
    adoption: ReservationAdoption,
    timings: Timings,
    now: i64,
}

/// The label that names the node class.
const CLASS: &str = "berth.sh/fakenodeclass";
const LAG: Duration = Duration::from_secs(5);

impl Scene {
    fn new() -> Self {
        let spec = json!({
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
            "requirements": [{"key": "team", "operator": "In", "values": ["web"]}],
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "agent", "effect": "NoSchedule"}],
            "resources": {"requests": {"cpu": "1"}}, "expireAfter": "Never",
        });
        let metadata = json!({
            "name": "c", "uid": "uid-c", "resourceVersion": "7", "creationTimestamp": text(0),
            "finalizers": [labels::TERMINATION_FINALIZER], "labels": {labels::NODEPOOL: "web", CLASS: "default"},
            "annotations": {labels::NODEPOOL_HASH_VERSION: berth_disruption::HASH_VERSION},
        });
        let types = json!([{"name": "small", "resources": {"cpu": "2", "memory": "4Gi"}, "offerings": [{
            "Price": 0.1, "Requirements": [
                {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                {"key": labels::ZONE, "operator": "In", "values": ["a"]}]}]}]);
        let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types").unwrap();
        let types = InstanceTypes { catalogue: Arc::new(catalogue), reservations: Vec::new() };
        Self {
            claim: json!({"metadata": metadata, "spec": spec}),
            nodes: Vec::new(),
            pods: Vec::new(),
            attachments: Vec::new(),
            offers: Some(Offers::of(types, Timestamp::UNIX_EPOCH)),
            memory: Memory::default(),
            nodeless_since: None,
            interruption: None,
            pool: None,
            last_pod_event: None,
            health: None,
            repair_policies: policies(&[("Ready", "False", 1800), ("Ready", "Unknown", 1800)]),
            adoption: ReservationAdoption::Never,
            timings: Timings::default(),
            now: 1,
        }
    }

    fn with(mut self, change: &Value) -> Self {
        json_patch::merge(&mut self.claim, change);
        self
    }

    fn with_token(self, attempt: u32) -> Self {
        self.with(&json!({"metadata": {"annotations": {TOKEN_ANNOTATION: format!("uid-c.{attempt}")}}}))
    }

    fn launched(self) -> Self {
        self.with(&json!({"status": {"providerID": "fake:///i-1", "conditions": [
            condition("Launched", "True"), condition("Registered", "Unknown")]}}))
    }

    fn registered(self) -> Self {
        self.with(&json!({"status": {"providerID": "fake:///i-1", "nodeName": "n", "conditions": [
            condition("Launched", "True"), condition("Registered", "True"), condition("Initialized", "Unknown")]}}))
    }

    fn deleted(self, at: i64) -> Self {
        self.with(&json!({"metadata": {"deletionTimestamp": text(at)}}))
    }

    fn node(mut self, change: &Value) -> Self {
        let mut node = json!({
            "metadata": {"name": "n", "uid": "uid-n", "resourceVersion": "9", "labels": {CLASS: "default"}},
            "spec": {"providerID": "fake:///i-1", "taints": [{"key": labels::UNREGISTERED_TAINT, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2"}},
        });
        json_patch::merge(&mut node, change);
        self.nodes.push(node);
        self
    }

    fn registered_node(self, change: &Value) -> Self {
        let mut all = json!({
            "metadata": {"finalizers": [labels::TERMINATION_FINALIZER], "labels": {labels::REGISTERED: "true"}},
            "spec": {"taints": []},
        });
        json_patch::merge(&mut all, change);
        self.node(&all)
    }

    fn pod(mut self, change: &Value) -> Self {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", "creationTimestamp": text(0)},
            "spec": {"containers": [], "nodeName": "n"}, "status": {"phase": "Running"},
        });
        json_patch::merge(&mut pod, change);
        self.pods.push(pod);
        self
    }

    fn todo(&self) -> Todo {
        let claim: NodeClaim = serde_json::from_value(self.claim.clone()).unwrap();
        let nodes: Vec<Arc<Node>> =
            self.nodes.iter().map(|node| Arc::new(serde_json::from_value(node.clone()).unwrap())).collect();
        let pods: Vec<Arc<PodRecord>> = self
            .pods
            .iter()
            .map(|pod| Arc::new(PodRecord::new(&serde_json::from_value::<Pod>(pod.clone()).unwrap()).unwrap()))
            .collect();
        let attachments: Vec<Arc<VolumeAttachment>> =
            self.attachments.iter().map(|one| Arc::new(serde_json::from_value(one.clone()).unwrap())).collect();
        let mut volumes = Table::default();
        volumes.put(PodName { namespace: "default".to_owned(), name: "data".to_owned() }, "v", 1, "pv".to_owned());
        step(&Facts {
            claim: &claim,
            nodes: nodes.iter().collect(),
            pods: pods.iter().collect(),
            left_behind: if nodes.is_empty() { pods.clone() } else { Vec::new() },
            attachments: attachments.iter().collect(),
            volumes: &volumes,
            pool: self.pool.as_ref(),
            last_pod_event: self.last_pod_event.map(at),
            offers: self.offers.as_ref(),
            overlaid: std::collections::BTreeSet::new(),
            memory: &self.memory,
            nodeless_since: self.nodeless_since.map(at),
            interruption: self.interruption.as_ref(),
            unplaced: std::collections::BTreeSet::new(),
            adoption: self.adoption,
            with_reserved: true,
            health: self.health,
            repair_policies: &self.repair_policies,
            timings: &self.timings,
            lag: LAG,
            now: at(self.now),
        })
    }

    fn next(&self) -> Next {
        self.todo().next
    }

    /// Kind, verb and patch of the next step, which must be a write.
    fn write(&self) -> (Kind, &'static str, Value) {
        match self.next() {
            Next::Write(write) => {
                let patch = match &write.op {
                    Op::Merge(patch) | Op::MergeStatus(patch) => patch.clone(),
                    _ => Value::Null,
                };
                (write.key.kind, write.op.verb(), patch)
            }
            other => panic!("expected a write, found {other:?}"),
        }
    }

    fn question(&self) -> Question {
        match self.next() {
            Next::Ask(question) => *question,
            other => panic!("expected a question, found {other:?}"),
        }
    }
}

fn policies(of: &[(&str, &str, u64)]) -> Vec<RepairPolicy> {
    let policy = |(type_, status, seconds): &(&str, &str, u64)| RepairPolicy {
        condition_type: (*type_).to_owned(),
        condition_status: (*status).to_owned(),
        toleration: Duration::from_secs(*seconds),
    };
    of.iter().map(policy).collect()
}

fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": text(1)})
}

/// What a patch says of a condition.
fn condition_of(patch: &Value, type_: &str) -> String {
    let all = patch["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|condition| condition["type"] == type_).unwrap();
    found["status"].as_str().unwrap().to_owned()
}

fn pool(consolidate_after: &str) -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "web"},
        "spec": {"template": {"spec": {"requirements": []}}, "disruption": {"consolidateAfter": consolidate_after}}}))
    .unwrap()
}

fn instance(id: &str) -> Instance {
    Instance {
        provider_id: ProviderId(id.to_owned()),
        state: InstanceState::Running,
        offering: OfferingKey {
            instance_type: "small".to_owned(),
            zone: Some("a".to_owned()),
            capacity_type: berth_catalogue::CapacityType::OnDemand,
        },
        reservation: None,
        launched_at: at(1),
        token: None,
        tags: BTreeMap::new(),
        image_id: Some("image".to_owned()),
        labels: BTreeMap::from([(labels::INSTANCE_TYPE.to_owned(), "small".to_owned())]),
        capacity: BTreeMap::new(),
        allocatable: BTreeMap::new(),
        interruption: None,
    }
}

// Launch.

#[test]
fn who_may_be_on_slots_joins_the_group_where_the_cloud_has_one_and_who_may_not_avoids_them() {
    let mut scene = Scene::new().with_token(1);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let mut joins = |adoption, capacity_types: &[&str]| {
        let mut pool = pool("0s");
        pool.spec.template.spec.requirements = serde_json::from_value(json!([
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": capacity_types}]))
        .unwrap();
        (scene.pool, scene.adoption) = (Some(pool), adoption);
        let Question::Create(request) = scene.question() else { panic!("a launch") };
        (request.joins_group, request.avoids_reservations)
    };
    assert_eq!(joins(ReservationAdoption::Group, &["on-demand", "reserved"]), (true, false));
    assert_eq!(joins(ReservationAdoption::Group, &["on-demand"]), (false, true), "it would take a slot from others");
    assert_eq!(joins(ReservationAdoption::Relabel, &["on-demand", "reserved"]), (false, false));
    assert_eq!(joins(ReservationAdoption::Never, &["on-demand"]), (false, true), "of an open reservation, too");
}

#[test]
fn a_node_for_pods_that_are_to_be_on_demand_avoids_reservations() {
    let keeps_off = json!({"metadata": {"annotations": {labels::KEEPS_OFF_SLOTS: "true"}}});
    let mut scene = Scene::new().with_token(1).with(&keeps_off);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    (scene.pool, scene.adoption) = (Some(pool("0s")), ReservationAdoption::Group);
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    assert!(!request.joins_group && request.avoids_reservations);
}

#[test]
fn the_finalizer_comes_before_anything_else() {
    let scene = Scene::new().with(&json!({"metadata": {"finalizers": null}}));
    let (kind, verb, patch) = scene.write();
    assert_eq!((kind, verb), (Kind::NodeClaim, "patch"));
    assert_eq!(patch["metadata"]["finalizers"], json!([labels::TERMINATION_FINALIZER]));
}

#[test]
fn a_token_is_persisted_before_the_cloud_is_asked() {
    let mut scene = Scene::new();
    let (_, _, patch) = scene.write();
    assert_eq!(patch["metadata"]["annotations"][TOKEN_ANNOTATION], "uid-c.1");
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let scene = scene.with_token(1);
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    assert_eq!(request.token.to_string(), "uid-c.1");
    assert!(matches!(request.target, LaunchTarget::Paid(offerings) if offerings.len() == 1));
}

#[test]
fn what_an_earlier_process_left_is_looked_for_until_it_would_have_shown() {
    let mut scene = Scene::new().with_token(1);
    assert_eq!(scene.question(), Question::Find { uid: "uid-c".to_owned() });
    scene.memory.found(Ok(Vec::new()), at(1));
    assert_eq!(scene.next(), Next::Wait(at(6)));
    scene.now = 6;
    assert_eq!(scene.question(), Question::Find { uid: "uid-c".to_owned() });
    scene.memory.found(Ok(Vec::new()), at(6));
    // Nobody knows what was asked for with the first token.
    let (_, _, patch) = scene.write();
    assert_eq!(patch["metadata"]["annotations"][TOKEN_ANNOTATION], "uid-c.2");
    scene.memory.own_token = Some("uid-c.2".to_owned());
    let scene = scene.with_token(2);
    assert!(matches!(scene.question(), Question::Create(request) if request.token.attempt() == 2));
}

#[test]
fn what_an_earlier_process_launched_is_adopted() {
    let mut scene = Scene::new().with_token(1);
    let gone = Instance { state: InstanceState::Terminated, ..instance("fake:///i-0") };
    scene.memory.found(Ok(vec![gone, instance("fake:///i-1")]), at(1));
    let (_, verb, patch) = scene.write();
    assert_eq!((verb, &patch["metadata"]["labels"][labels::INSTANCE_TYPE]), ("patch", &json!("small")));
    assert_eq!(patch["metadata"]["labels"]["team"], "web");
    let scene = scene.with(&json!({"metadata": {"labels": patch["metadata"]["labels"]}}));
    let (_, verb, patch) = scene.write();
    assert_eq!((verb, &patch["status"]["providerID"]), ("patch status", &json!("fake:///i-1")));
    assert_eq!(patch["status"]["conditions"][0]["type"], "Launched");
}

#[test]
fn a_lost_answer_is_looked_for_and_the_same_request_repeated() {
    let mut scene = Scene::new().with_token(1);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    scene.memory.launched(request.clone(), Err(CloudError::OutcomeUnknown { message: "lost".to_owned() }));
    // It is told in a condition first.
    let (_, verb, patch) = scene.write();
    assert_eq!((verb, &patch["status"]["conditions"][0]["reason"]), ("patch status", &json!("OutcomeUnknown")));
    let mut scene = scene.with(&json!({"status": patch["status"]}));
    assert_eq!(scene.question(), Question::Find { uid: "uid-c".to_owned() });
    scene.memory.found(Ok(Vec::new()), at(2));
    assert_eq!(scene.question(), Question::Create(request));
}

#[test]
fn a_claim_that_the_cloud_refuses_for_good_goes_at_once() {
    let mut scene = Scene::new().with_token(1);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    let full = CloudError::ReservationFull { reservation: "cr-1".to_owned(), message: String::new() };
    scene.memory.launched(request, Err(full));
    assert_eq!(scene.write().1, "delete");
    assert_eq!(scene.todo().notices[0].reason, "InsufficientCapacityError");
    // Nothing was launched, so nothing has to be looked for.
    let scene = scene.deleted(2);
    assert_eq!(scene.write().2["metadata"]["finalizers"], json!([]));
}

#[test]
fn a_claim_without_any_offering_goes_at_once() {
    let mut scene = Scene::new().with_token(1).with(&json!({"spec": {"resources": {"requests": {"cpu": "100"}}}}));
    scene.memory.own_token = Some("uid-c.1".to_owned());
    assert_eq!(scene.write().1, "delete");
}

#[test]
fn a_claim_that_is_not_launched_in_time_goes() {
    let mut scene = Scene::new().with_token(1);
    scene.offers = None;
    scene.memory.own_token = Some("uid-c.1".to_owned());
    scene.now = 299;
    assert_eq!(scene.next(), Next::Wait(at(300)));
    scene.now = 300;
    assert_eq!((scene.write().1, scene.todo().notices[0].reason), ("delete", "LaunchTimeout"));
    // What was launched is recorded even then.
    scene.memory.launch = Launch::Done(Box::new(instance("fake:///i-1")));
    assert_eq!(scene.write().1, "patch");
}

#[test]
fn a_clock_that_is_far_ahead_of_the_server_s_does_not_keep_a_claim_from_being_launched() {
    let mut scene = Scene::new();
    scene.now = 3 * 3600;
    assert_eq!(scene.write().1, "patch", "its token is written");
    scene = scene.with_token(1);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    // It is asked for once; after that its age counts.
    scene.memory.launched(request, Err(CloudError::OutcomeUnknown { message: "lost".to_owned() }));
    assert_eq!((scene.write().1, scene.todo().notices[0].reason), ("delete", "LaunchTimeout"));
}

#[test]
fn a_token_that_was_used_for_another_request_is_not_used_again() {
    let mut scene = Scene::new().with_token(1);
    scene.memory.own_token = Some("uid-c.1".to_owned());
    let Question::Create(request) = scene.question() else { panic!("a launch") };
    scene.memory.launched(request, Err(CloudError::invalid("token", "used")));
    scene.memory.trouble = None;
    assert_eq!(scene.question(), Question::Find { uid: "uid-c".to_owned() });
}

// Registration and initialisation.

#[test]
fn a_node_gets_all_that_its_claim_promises_in_one_write() {
    let scene = Scene::new().launched().node(&json!({}));
    let (kind, _, patch) = scene.write();
    assert_eq!(kind, Kind::Node);
    assert_eq!(patch["metadata"]["resourceVersion"], "9");
    let wanted = json!({labels::NODEPOOL: "web", labels::REGISTERED: "true", CLASS: "default"});
    assert_eq!(patch["metadata"]["labels"], wanted);
    assert_eq!(patch["metadata"]["finalizers"], json!([labels::TERMINATION_FINALIZER]));
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "uid-c");
    let keys: Vec<&Value> = patch["spec"]["taints"].as_array().unwrap().iter().map(|taint| &taint["key"]).collect();
    assert_eq!(keys, ["dedicated", "agent"]);
    assert_eq!(scene.todo().notices, []);
}

#[test]
fn taints_are_left_alone_where_the_node_says_so() {
    let scene = Scene::new().launched().node(&json!({"metadata": {"labels": {labels::DO_NOT_SYNC_TAINTS: "true"}}}));
    assert_eq!(scene.write().2["spec"]["taints"], json!([]));
}

#[test]
fn a_node_that_was_open_to_pods_is_told_of() {
    let scene = Scene::new().launched().node(&json!({"spec": {"taints": null}}));
    assert_eq!(scene.todo().notices[0].reason, "UnregisteredTaintMissing");
}

#[test]
fn a_claim_is_registered_once_its_node_has_everything() {
    let scene = Scene::new().launched().registered_node(&json!({}));
    let (kind, verb, patch) = scene.write();
    assert_eq!((kind, verb, &patch["status"]["nodeName"]), (Kind::NodeClaim, "patch status", &json!("n")));
}

#[test]
fn a_node_that_never_joins_costs_its_claim() {
    let mut scene = Scene::new().launched();
    assert_eq!(scene.next(), Next::Wait(at(901)));
    scene.now = 901;
    assert_eq!((scene.write().1, scene.todo().notices[0].reason), ("delete", "RegistrationTimeout"));
}

#[test]
fn a_node_has_its_time_to_join_from_its_launch_whatever_the_server_s_clock_says() {
    let hours = 3 * 3600;
    let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "",
        "lastTransitionTime": text(hours)});
    let mut scene = Scene::new().with(&json!({"status": {"providerID": "fake:///i-1", "conditions": [launched]}}));
    scene.now = hours + 1;
    assert_eq!(scene.next(), Next::Wait(at(hours + 900)));
}

#[test]
fn two_nodes_of_one_instance_are_a_fault() {
    let scene = Scene::new().launched().node(&json!({})).node(&json!({"metadata": {"name": "n2"}}));
    let conditions = scene.write().2["status"]["conditions"].clone();
    assert!(conditions.to_string().contains("MultipleNodesFound"));
}

#[rstest::rstest]
#[case::not_ready(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), "NodeNotReady")]
#[case::startup(json!({"spec": {"taints": [{"key": "agent", "effect": "NoSchedule"}]}}), "StartupTaintsExist")]
#[case::ephemeral(
    json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}),
    "KnownEphemeralTaintsExist"
)]
#[case::resources(json!({"status": {"allocatable": {"cpu": "0"}}}), "ResourceNotRegistered")]
fn a_node_is_not_initialised(#[case] node: Value, #[case] reason: &str) {
    let mut scene = Scene::new().registered().registered_node(&node);
    // It may change the next moment.
    assert_eq!(scene.next(), Next::Wait(at(11)));
    scene.now = 11;
    assert!(scene.write().2["status"]["conditions"].to_string().contains(reason));
}

#[test]
fn a_node_that_comes_up_as_expected_costs_three_writes_of_its_status() {
    let mut scene = Scene::new().launched().registered_node(&json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    // That it is launched was the first.
    let (_, verb, patch) = scene.write();
    assert_eq!((verb, condition_of(&patch, "Registered")), ("patch status", "True".to_owned()));
    scene = scene.with(&json!({"status": patch["status"]}));
    scene.now = 3;
    assert!(matches!(scene.next(), Next::Wait(_) | Next::Idle), "{:?}", scene.next());
    scene.nodes[0]["status"]["conditions"][0]["status"] = "True".into();
    assert!(matches!(scene.next(), Next::Wait(_)), "the taint is still there: {:?}", scene.next());
    scene.nodes[0]["spec"]["taints"] = json!([]);
    scene.nodes[0]["metadata"]["labels"][labels::INITIALIZED] = "true".into();
    scene.last_pod_event = Some(4);
    scene.now = 5;
    let (_, verb, patch) = scene.write();
    assert_eq!((verb, condition_of(&patch, "Initialized")), ("patch status", "True".to_owned()));
    assert_eq!(patch["status"]["lastPodEventTime"], text(4));
    scene = scene.with(&json!({"status": patch["status"]}));
    scene.memory.drift_asked_at = Some(at(0));
    // More pods come; nobody will ask when.
    scene.pool = Some(pool("Never"));
    scene.last_pod_event = Some(40);
    scene.now = 40;
    assert!(matches!(scene.next(), Next::Wait(_)), "{:?}", scene.next());
    scene.pool = Some(pool("1h"));
    assert_eq!(scene.write().2["status"]["lastPodEventTime"], text(40));
}

#[test]
fn a_node_is_labelled_and_then_its_claim_is_initialised() {
    let scene = Scene::new().registered().registered_node(&json!({}));
    assert_eq!(scene.write().2["metadata"]["labels"], json!({labels::INITIALIZED: "true"}));
    let labels = json!({"metadata": {"labels": {labels::INITIALIZED: "true"}}});
    let scene = Scene::new().registered().registered_node(&labels);
    let conditions = scene.write().2["status"]["conditions"].clone();
    assert!(conditions.as_array().unwrap().iter().all(|condition| condition["status"] == "True"), "{conditions}");
}

#[test]
fn a_node_that_is_not_ready_for_long_is_repaired_unless_too_many_are_not() {
    let since = json!({"status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": text(0)}]}});
    let done = json!({"status": {"providerID": "fake:///i-1", "conditions": [condition("Launched", "True"),
        condition("Registered", "True"), condition("Initialized", "True"), condition("Consolidatable", "True")]}});
    let mut scene = Scene::new().registered().with(&done).registered_node(&since);
    scene.now = 1_800;
    let reasons = |scene: &Scene| scene.todo().notices.iter().map(|notice| notice.reason).collect::<Vec<_>>();
    let is_deleted = |scene: &Scene| matches!(scene.next(), Next::Write(write) if write.op.verb() == "delete");
    assert!(!is_deleted(&scene), "the gate is off");
    let health = |total, broken| Some(repair::Health { total, broken });
    scene.health = health(10, 3);
    assert!(!is_deleted(&scene) && reasons(&scene).contains(&"NodeRepairBlocked"));
    scene.health = health(10, 2);
    assert_eq!(scene.write().2["metadata"]["annotations"][labels::TERMINATION_TIMESTAMP], text(1_800));
    let scene = scene.with(&json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: text(1_800)}}}));
    assert!(is_deleted(&scene) && reasons(&scene).contains(&"Repairing"));
    let scene = Scene { now: 1_799, ..scene };
    assert!(!is_deleted(&scene), "not for long yet");
}

#[test]
fn a_node_that_is_smaller_than_promised_says_so() {
    let done = json!({"spec": {"resources": {"requests": {"memory": "1Gi"}}},
        "status": {"providerID": "fake:///i-1", "capacity": {"cpu": "2", "memory": "10Gi"}, "conditions": [
        condition("Launched", "True"), condition("Registered", "True"), condition("Initialized", "True"),
        condition("Ready", "True")]}});
    let of = |memory: &str| json!({"status": {"capacity": {"cpu": "2", "memory": memory}}});
    let scene = |memory: &str| Scene::new().registered().with(&done).registered_node(&of(memory));
    let told = |scene: &Scene| {
        let notices = scene.todo().notices.into_iter().map(|notice| notice.reason);
        notices.filter(|reason| *reason == "FailedConsistencyCheck").count()
    };
    assert_eq!(told(&scene("9Gi")), 0, "nine tenths are enough");
    let small = scene("8Gi");
    let (kind, _, patch) = small.write();
    assert_eq!(
        (kind, condition_of(&patch, "ConsistentStateFound"), told(&small)),
        (Kind::NodeClaim, "False".to_owned(), 1)
    );
    let message = "expected 10Gi of resource memory, but found 8Gi (80% of expected)";
    assert!(patch.to_string().contains(message), "{patch}");
    let again = scene("10Gi").with(&json!({"status": patch["status"]}));
    assert_eq!(condition_of(&again.write().2, "ConsistentStateFound"), "True");
}

#[test]
fn which_nodes_are_repaired_and_when_is_what_the_cloud_says() {
    let ready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": text(0)},
        {"type": "AcceleratedHardwareReady", "status": "False", "lastTransitionTime": text(0)}]}});
    let done = json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: text(600)}},
        "status": {"providerID": "fake:///i-1", "conditions": [condition("Launched", "True"),
        condition("Registered", "True"), condition("Initialized", "True"), condition("Consolidatable", "True")]}});
    let mut scene = Scene::new().registered().with(&done).registered_node(&ready);
    scene.health = Some(repair::Health { total: 10, broken: 1 });
    scene.now = 600;
    let is_deleted = |scene: &Scene| matches!(scene.next(), Next::Write(write) if write.op.verb() == "delete");
    assert!(!is_deleted(&scene), "the cloud says nothing of this condition");
    scene.repair_policies = policies(&[("Ready", "False", 1800), ("AcceleratedHardwareReady", "False", 600)]);
    assert!(is_deleted(&scene));
    let told = scene.todo().notices.into_iter().map(|notice| notice.message).collect::<String>();
    assert!(told.contains("AcceleratedHardwareReady is False"), "{told}");
    assert!(!is_deleted(&Scene { now: 599, ..scene }));
}

#[test]
fn an_expired_claim_goes() {
    let mut scene = Scene::new().registered().with(&json!({"spec": {"expireAfter": "1h"}}));
    scene.now = 3599;
    assert_eq!(scene.write().1, "patch status");
    scene.now = 3600;
    assert_eq!((scene.write().1, scene.todo().notices[0].reason), ("delete", "Expired"));
}

#[test]
fn a_claim_goes_with_its_node() {
    let deleted = json!({"metadata": {"deletionTimestamp": text(1)}});
    let scene = Scene::new().registered().registered_node(&deleted);
    assert_eq!((scene.write().0, scene.write().1), (Kind::NodeClaim, "delete"));
}

/// The regression: a node that went at once, without its finalizer, left a NodeClaim whose node pods waited for in vain.
#[test]
fn a_claim_whose_node_is_gone_goes_too() {
    let mut scene = Scene::new().registered();
    scene.nodeless_since = Some(100);
    scene.now = 129;
    assert_ne!(scene.write().1, "delete", "its node may come again");
    scene.now = 130;
    assert_eq!((scene.write().1, scene.todo().notices[0].reason), ("delete", "NodeVanished"));
}

// Consolidation.

#[test]
fn a_node_that_pods_leave_alone_for_long_enough_is_consolidatable() {
    let initialised = json!({"status": {"conditions": [condition("Initialized", "True"), condition("Launched", "True"),
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": text(1)},
        condition("Registered", "True")]}});
    let mut scene = Scene::new().registered().with(&initialised).registered_node(&json!({}));
    scene.memory.drift_asked_at = Some(at(0));
    let asks_for_drift_again = Next::Wait(at(300));
    assert_eq!(scene.next(), asks_for_drift_again);
    scene.timings.drift_period = None;
    assert_eq!(scene.next(), Next::Idle);
    scene.timings = Timings::default();
    scene.pool = Some(pool("30s"));
    assert_eq!(scene.next(), Next::Wait(at(31)));
    scene.last_pod_event = Some(20);
    let (_, _, patch) = scene.write();
    assert_eq!(patch["status"]["lastPodEventTime"], text(20));
    let mut scene = scene.with(&json!({"status": patch["status"]}));
    scene.now = 49;
    assert_eq!(scene.next(), Next::Wait(at(50)));
    scene.now = 50;
    let (_, _, patch) = scene.write();
    assert!(patch["status"]["conditions"].to_string().contains("Consolidatable"));
    let mut scene = scene.with(&json!({"status": patch["status"]}));
    assert_eq!(scene.next(), asks_for_drift_again);
    // A pod comes, or the pool changes its mind.
    scene.last_pod_event = Some(50);
    assert!(!scene.write().2["status"]["conditions"].to_string().contains("Consolidatable"));
    // Where nodes need not be left alone it stays, with the time of the last pod.
    scene.pool = Some(pool("0s"));
    let (_, _, patch) = scene.write();
    assert_eq!(patch["status"]["lastPodEventTime"], text(50));
    assert!(patch["status"]["conditions"].to_string().contains("Consolidatable"));
    // As coarsely as is wanted, as no decision asks for it.
    scene.timings.pod_event_grain = Duration::from_secs(31);
    assert_eq!(scene.next(), asks_for_drift_again);
    scene.last_pod_event = None;
    scene.pool = Some(pool("Never"));
    assert!(!scene.write().2["status"]["conditions"].to_string().contains("Consolidatable"));
}

#[test]
fn what_the_cloud_says_of_drift_is_a_condition_for_as_long_as_it_says_so() {
    let initialised = json!({"status": {"conditions": [condition("Initialized", "True"), condition("Launched", "True"),
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": text(1)},
        condition("Registered", "True")]}});
    let mut scene = Scene::new().registered().with(&initialised).registered_node(&json!({}));
    assert!(matches!(scene.next(), Next::Ask(question) if matches!(*question, Question::Drift(_))));
    let differs = berth_cloudprovider::Drift { reason: "ImageDrift".to_owned(), message: "image-1".to_owned() };
    scene.memory.drifted(Ok(Some(differs)), at(10));
    let (_, _, patch) = scene.write();
    let written = patch["status"]["conditions"].to_string();
    assert!(written.contains("Drifted") && written.contains("ImageDrift"), "{written}");
    let mut scene = scene.with(&json!({"status": patch["status"]}));
    scene.now = 10;
    assert_eq!(scene.next(), Next::Wait(at(310)));
    scene.memory.drifted(Ok(None), at(310));
    let written = scene.write().2["status"]["conditions"].to_string();
    assert!(!written.contains("Drifted"), "{written}");
}
