//! Stand-ins against the API server in memory, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_apiserver::{ApiServer, Config, FaultRates, Faults};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{KubeletConfig, Kubelets, NodeSpec};

struct World {
    client: Client,
    kubelets: Kubelets,
}

impl World {
    fn new() -> Self {
        let client = Client::new(ApiServer::new(Config::default()), "default");
        let kubelets = Kubelets::start(client.clone(), KubeletConfig::default());
        Self { client, kubelets }
    }

    async fn node(&self, name: &str) {
        let amounts = BTreeMap::from([("cpu", "2"), ("memory", "4Gi"), ("pods", "3")])
            .into_iter()
            .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
            .collect::<BTreeMap<_, _>>();
        self.kubelets.join(NodeSpec {
            name: name.to_owned(),
            provider_id: format!("fake:///a/{name}"),
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            capacity: amounts.clone(),
            allocatable: amounts,
            ..NodeSpec::default()
        });
        sleep(3).await;
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// A pod on node `a` that asks for so much CPU.
    async fn pod(&self, name: &str, cpu: &str, change: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": "a", "terminationGracePeriodSeconds": 30,
                     "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut pod, change);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn status(&self, name: &str) -> Value {
        let pod = self.pods().get_opt(name).await.unwrap();
        pod.map_or(Value::Null, |pod| serde_json::to_value(pod.status).unwrap())
    }

    async fn phase(&self, name: &str) -> String {
        self.status(name).await["phase"].as_str().unwrap_or("gone").to_owned()
    }
}

fn merge(base: &mut Value, change: Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, change) => *base = change,
    }
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn condition(status: &Value, name: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|own| own["type"] == name).map_or(Value::Null, |own| own["status"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_becomes_ready_and_renews_its_lease() {
    let world = World::new();
    world.node("a").await;
    let nodes = Api::<Node>::all(world.client.clone());
    let node = nodes.get("a").await.unwrap();
    assert_eq!(node.metadata.labels.as_ref().unwrap()["kubernetes.io/hostname"], "a");
    assert_eq!(node.spec.as_ref().unwrap().provider_id.as_deref(), Some("fake:///a/a"));
    let status = serde_json::to_value(&node.status).unwrap();
    assert_eq!(condition(&status, "Ready"), "True");
    assert_eq!(status["allocatable"]["cpu"], "2");
    let leases = Api::<Lease>::namespaced(world.client.clone(), "kube-node-lease");
    let renewed = async || leases.get("a").await.unwrap().spec.unwrap().renew_time.unwrap().0;
    let first = renewed().await;
    assert_eq!(leases.get("a").await.unwrap().metadata.owner_references.unwrap()[0].uid, node.metadata.uid.unwrap());
    sleep(60).await;
    assert_eq!(renewed().await.duration_since(first).as_secs(), 60);
    world.kubelets.power_off("a");
    sleep(1).await;
    let last = renewed().await;
    sleep(60).await;
    assert_eq!(renewed().await, last, "a node without power renewed its lease");
    // The machine comes back under its name: its Node is taken up.
    world.node("a").await;
    sleep(60).await;
    assert!(renewed().await > last);
}

#[tokio::test(start_paused = true)]
async fn the_leases_of_nodes_that_join_together_are_not_renewed_together() {
    let world = World::new();
    for n in 0..50 {
        world.kubelets.join(NodeSpec { name: format!("n{n}"), ..NodeSpec::default() });
    }
    sleep(25).await;
    let leases = Api::<Lease>::namespaced(world.client.clone(), "kube-node-lease");
    let leases = leases.list(&ListParams::default()).await.unwrap().items;
    let mut renewed: Vec<i64> = leases
        .iter()
        .map(|lease| lease.spec.as_ref().unwrap().renew_time.as_ref().unwrap().0.as_millisecond())
        .collect();
    renewed.sort_unstable();
    let most = renewed.iter().map(|at| renewed.iter().filter(|other| (*at..at + 1000).contains(other)).count()).max();
    assert_eq!(renewed.len(), 50);
    assert!(most.unwrap() <= 8, "{most:?} of 50 within a second of ten");
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_with_an_address_and_is_ready() {
    let world = World::new();
    world.node("a").await;
    world.pod("p", "1", json!({})).await;
    world.pod("slow", "1", annotated("berth.sh/ready-after", "20s")).await;
    sleep(2).await;
    let status = world.status("p").await;
    assert_eq!(status["phase"], "Running");
    assert_eq!(condition(&status, "Ready"), "True");
    assert!(status["podIP"].as_str().unwrap().starts_with("10."));
    assert_eq!(status["containerStatuses"][0]["ready"], true);
    let slow = world.status("slow").await;
    assert_eq!((slow["phase"].as_str(), condition(&slow, "Ready")), (Some("Running"), json!("False")));
    assert_ne!(slow["podIP"], status["podIP"]);
    sleep(20).await;
    assert_eq!(condition(&world.status("slow").await, "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn that_containers_are_being_created_is_told_unless_it_is_left_out() {
    for tells_starting in [true, false] {
        let mut world = World::new();
        let start_delay = Duration::from_secs(5);
        let config = KubeletConfig { start_delay, tells_starting, ..KubeletConfig::default() };
        world.kubelets = Kubelets::start(world.client.clone(), config);
        world.node("a").await;
        world.pod("p", "1", json!({})).await;
        sleep(3).await;
        assert_eq!(world.status("p").await["startTime"].is_string(), tells_starting);
        sleep(3).await;
        let status = world.status("p").await;
        assert_eq!((&status["phase"], status["startTime"].is_string()), (&json!("Running"), true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_fit_is_rejected_as_kubelet_does() {
    let world = World::new();
    world.node("a").await;
    world.pod("first", "1500m", json!({})).await;
    world.pod("second", "600m", json!({})).await;
    sleep(2).await;
    let status = world.status("second").await;
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert_eq!(
        status["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
    );
    // A rejected pod takes nothing: the number of pods is what runs out next.
    world.pod("third", "100m", json!({})).await;
    world.pod("fourth", "100m", json!({})).await;
    world.pod("fifth", "100m", json!({})).await;
    sleep(2).await;
    assert_eq!(world.phase("fourth").await, "Running");
    assert_eq!(world.status("fifth").await["reason"], "OutOfpods");
    let events = Api::<Event>::default_namespaced(world.client.clone()).list(&ListParams::default()).await.unwrap();
    assert!(events.items.iter().any(|event| event.reason.as_deref() == Some("OutOfcpu")));
}

#[tokio::test(start_paused = true)]
async fn a_pod_in_operating_mode_reservation_takes_nothing_from_who_comes_into_its_room() {
    let world = World::new();
    world.node("a").await;
    let mode = json!({"metadata": {"labels": {"scheduling.koordinator.sh/operating-mode": "Reservation"}}});
    world.pod("room", "1500m", mode).await;
    sleep(2).await;
    world.pod("owner", "1500m", json!({})).await;
    sleep(2).await;
    assert_eq!([world.phase("room").await, world.phase("owner").await], ["Running", "Running"]);
    world.pod("stranger", "1", json!({})).await;
    sleep(2).await;
    assert_eq!(world.status("stranger").await["reason"], "OutOfcpu");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_counts_until_it_is_gone() {
    let world = World::new();
    world.node("a").await;
    world.pod("old", "1500m", annotated("berth.sh/stops-after", "20s")).await;
    sleep(2).await;
    world.pods().delete("old", &DeleteParams::default()).await.unwrap();
    sleep(10).await;
    world.pod("early", "1", json!({})).await;
    sleep(5).await;
    assert_eq!(world.status("early").await["reason"], "OutOfcpu");
    assert_eq!(world.phase("old").await, "Running");
    sleep(10).await;
    assert_eq!(world.phase("old").await, "gone");
    world.pod("late", "1", json!({})).await;
    sleep(2).await;
    assert_eq!(world.phase("late").await, "Running");
}

#[tokio::test(start_paused = true)]
async fn stopping_takes_no_longer_than_the_grace_period() {
    let world = World::new();
    world.node("a").await;
    world.pod("p", "1", annotated("berth.sh/stops-after", "1h")).await;
    sleep(2).await;
    world.pods().delete("p", &DeleteParams::default()).await.unwrap();
    sleep(29).await;
    assert_eq!(world.phase("p").await, "Running");
    sleep(2).await;
    assert_eq!(world.phase("p").await, "gone");
    // A second deletion with a shorter grace shortens the wait.
    world.pod("q", "1", annotated("berth.sh/stops-after", "1h")).await;
    sleep(2).await;
    world.pods().delete("q", &DeleteParams::default()).await.unwrap();
    world.pods().delete("q", &DeleteParams::default().grace_period(5)).await.unwrap();
    sleep(6).await;
    assert_eq!(world.phase("q").await, "gone");
}

#[rstest]
#[case::runs("berth.sh/runs-for", "Never", "Succeeded", 0)]
#[case::fails("berth.sh/fails-after", "Never", "Failed", 0)]
#[case::succeeds_once("berth.sh/runs-for", "OnFailure", "Succeeded", 0)]
#[case::restarts("berth.sh/fails-after", "OnFailure", "Running", 1)]
#[case::restarts_always("berth.sh/runs-for", "Always", "Running", 1)]
#[tokio::test(start_paused = true)]
async fn containers_end_as_annotated(
    #[case] key: &str,
    #[case] policy: &str,
    #[case] phase: &str,
    #[case] restarts: i64,
) {
    let world = World::new();
    world.node("a").await;
    let mut change = annotated(key, "30s");
    merge(&mut change, json!({"spec": {"restartPolicy": policy}}));
    world.pod("p", "1", change).await;
    sleep(20).await;
    assert_eq!(world.phase("p").await, "Running");
    // The end after 31 s, a restart ten seconds later.
    sleep(25).await;
    let status = world.status("p").await;
    assert_eq!(
        (status["phase"].as_str(), &status["containerStatuses"][0]["restartCount"]),
        (Some(phase), &json!(restarts))
    );
    if restarts == 0 {
        let code = i64::from(phase == "Failed");
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], code);
        // What has ended takes no room.
        world.pod("next", "2", json!({})).await;
        sleep(2).await;
        assert_eq!(world.phase("next").await, "Running");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_job_ends_by_itself() {
    let world = World::new();
    world.node("a").await;
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
    world.pod("p", "1", json!({"metadata": {"ownerReferences": owner}, "spec": {"restartPolicy": "Never"}})).await;
    sleep(5).await;
    assert_eq!(world.phase("p").await, "Running");
    sleep(10).await;
    assert_eq!(world.phase("p").await, "Succeeded");
}

#[rstest]
#[case::runs("1s", 40)]
#[case::stops_slowly("5s", 44)]
#[tokio::test(start_paused = true)]
async fn a_pod_fails_that_is_active_for_longer_than_it_may(#[case] stops_after: &str, #[case] runs: u64) {
    let world = World::new();
    world.node("a").await;
    let mut change = annotated("berth.sh/stops-after", stops_after);
    merge(&mut change, json!({"spec": {"activeDeadlineSeconds": 40}}));
    world.pod("p", "2", change).await;
    sleep(runs).await;
    let status = world.status("p").await;
    assert_eq!((&status["phase"], condition(&status, "Ready")), (&json!("Running"), json!("True")));
    sleep(2).await;
    let status = world.status("p").await;
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
    assert_eq!(status["message"], "Pod was active on the node longer than the specified deadline");
    assert_eq!(condition(&status, "Ready"), "False");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    let events = Api::<Event>::default_namespaced(world.client.clone()).list(&ListParams::default()).await.unwrap();
    let told: Vec<_> = events.items.iter().map(|event| (event.reason.as_deref(), event.type_.as_deref())).collect();
    assert_eq!(told, [(Some("DeadlineExceeded"), Some("Normal"))]);
    // It takes no room any more, and does not start again.
    world.pod("next", "2", json!({})).await;
    sleep(100).await;
    assert_eq!([world.phase("p").await, world.phase("next").await], ["Failed", "Running"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_start_of_the_pod_and_may_be_set_while_it_runs() {
    let world = World::new();
    world.pod("late", "1", json!({"spec": {"activeDeadlineSeconds": 40}})).await;
    sleep(100).await;
    world.node("a").await;
    world.pod("set", "1", json!({})).await;
    sleep(30).await;
    assert_eq!(world.phase("late").await, "Running");
    let patch = kube::api::Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 20}}));
    world.pods().patch("set", &kube::api::PatchParams::default(), &patch).await.unwrap();
    sleep(2).await;
    assert_eq!(world.status("set").await["reason"], "DeadlineExceeded");
    sleep(20).await;
    assert_eq!(world.status("late").await["reason"], "DeadlineExceeded");
}

/// A restart policy, containers that wait for their next start, and an end by itself do not get around it.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_containers_end_again_and_again_fails_at_its_deadline() {
    let world = World::new();
    world.node("a").await;
    let mut change = annotated("berth.sh/fails-after", "3s");
    merge(&mut change, json!({"spec": {"activeDeadlineSeconds": 40}}));
    world.pod("p", "1", change).await;
    sleep(42).await;
    assert_eq!(world.status("p").await["reason"], "DeadlineExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_with_a_finalizer_shows_that_it_ended() {
    let world = World::new();
    world.node("a").await;
    let change = json!({"metadata": {"finalizers": ["example.com/keep"]}, "spec": {"restartPolicy": "Never"}});
    world.pod("p", "1", change).await;
    sleep(2).await;
    world.pods().delete("p", &DeleteParams::default()).await.unwrap();
    sleep(5).await;
    assert_eq!(world.phase("p").await, "Failed");
    let patch = json!({"metadata": {"finalizers": null}});
    world.pods().patch("p", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    sleep(2).await;
    assert_eq!(world.phase("p").await, "gone");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_no_duration_is_told_and_ignored() {
    let world = World::new();
    world.node("a").await;
    world.pod("p", "1", annotated("berth.sh/runs-for", "soon")).await;
    sleep(60).await;
    assert_eq!(world.phase("p").await, "Running");
    let events = Api::<Event>::default_namespaced(world.client.clone()).list(&ListParams::default()).await.unwrap();
    let told: Vec<&str> = events.items.iter().filter_map(|event| event.message.as_deref()).collect();
    assert_eq!(told, ["berth.sh/runs-for is \"soon\", expected a duration such as 90s or 1m30s"]);
}

/// Bound before the node is there, a pod is admitted once it is, and on a node without power nothing moves.
#[tokio::test(start_paused = true)]
async fn pods_wait_for_their_node() {
    let world = World::new();
    world.pod("early", "1", json!({})).await;
    sleep(5).await;
    assert_eq!(world.phase("early").await, "Pending");
    world.node("a").await;
    sleep(2).await;
    assert_eq!(world.phase("early").await, "Running");
    world.kubelets.power_off("a");
    world.pod("late", "1", json!({})).await;
    world.pods().delete("early", &DeleteParams::default()).await.unwrap();
    sleep(100).await;
    assert_eq!(world.phase("early").await, "Running");
    assert_eq!(world.phase("late").await, "Pending");
}

/// `kubectl drain`: cordon, evict, and wait until the pods are gone.
#[tokio::test(start_paused = true)]
async fn a_drain_ends() {
    let world = World::new();
    world.node("a").await;
    for name in ["p", "q"] {
        world.pod(name, "500m", annotated("berth.sh/stops-after", "10s")).await;
    }
    sleep(2).await;
    Api::<Node>::all(world.client.clone()).cordon("a").await.unwrap();
    for name in ["p", "q"] {
        world.pods().evict(name, &kube::api::EvictParams::default()).await.unwrap();
    }
    sleep(9).await;
    assert_eq!(world.phase("p").await, "Running");
    sleep(2).await;
    assert_eq!((world.phase("p").await, world.phase("q").await), ("gone".to_owned(), "gone".to_owned()));
}

/// Whatever the API server does to requests and watches, in the end everything is as it should be.
#[rstest]
#[case::refusals(FaultRates { too_many_requests: 100, conflict: 200, error_before: 100, timeout_before: 50, ..FaultRates::default() })]
#[case::unknown_outcomes(FaultRates { error_after: 150, timeout_after: 150, lost_before: 50, lost_after: 100, ..FaultRates::default() })]
#[case::watches(FaultRates { watch_end: 100, watch_expired: 100, stale_read: 0, ..FaultRates::default() })]
#[tokio::test(start_paused = true)]
async fn faults_of_the_server_delay_and_lose_nothing(#[case] rates: FaultRates) {
    for seed in 0..10 {
        let server = ApiServer::new(Config::default());
        let faulty = Client::new(Faults::seeded(seed, rates).around(server.clone()), "default");
        let kubelets = Kubelets::start(faulty, KubeletConfig::default());
        let world = World { client: Client::new(server, "default"), kubelets };
        world.node("a").await;
        for name in ["p", "q"] {
            world.pod(name, "500m", json!({})).await;
        }
        world
            .pod(
                "job",
                "500m",
                json!({"metadata": {"annotations": {"berth.sh/runs-for": "5s"}}, "spec": {"restartPolicy": "Never"}}),
            )
            .await;
        sleep(120).await;
        let phases = (world.phase("p").await, world.phase("q").await, world.phase("job").await);
        assert_eq!(phases, ("Running".to_owned(), "Running".to_owned(), "Succeeded".to_owned()), "seed {seed}");
        for name in ["p", "q", "job"] {
            world.pods().delete(name, &DeleteParams::default()).await.unwrap();
        }
        sleep(120).await;
        assert_eq!(world.pods().list(&ListParams::default()).await.unwrap().items.len(), 0, "seed {seed}");
    }
}
