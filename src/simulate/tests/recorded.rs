//! What was recorded of a sandbox, played again.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_cloudprovider::Instance;
use berth_controllers::{Options as Controllers, parse_max_share};
use berth_sandbox::{Ended, Options};
use berth_simulate::{
    Client, CloudEvent, FakeCloud, Onlooker, Outcome, RecordOptions, Report, Simulation, Variation, record, variants,
};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

/// What came of decisions: when each instance was launched, and what it is.
type Launches = Vec<(String, String)>;

fn launch(instance: &Instance) -> (String, String) {
    (instance.launched_at.to_string(), instance.offering.to_string())
}

/// Plays the sandbox's story in virtual time, with requests that take up to so long, and records it.
async fn play_story(to: &Path, seed: u64, request_delay: Duration) -> Launches {
    let (on_begun, mut begun) = unbounded_channel();
    let options = Options {
        story: true,
        catalogue: berth_sandbox::story_catalogue().unwrap(),
        on_begun: Some(on_begun),
        seed,
        request_delay,
        ..Options::new("2026-01-01T00:00:00Z".parse().unwrap())
    };
    let record_options = RecordOptions::from(&options);
    let (stop, stopped) = oneshot::channel::<()>();
    let path = to.to_owned();
    let recorder = tokio::spawn(async move {
        let (client, cloud) = begun.recv().await.unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let until = async { drop(stopped.await) };
        record(client, cloud.clone(), record_options, file, until).await.unwrap();
        cloud
    });
    let ended = berth_sandbox::run(options, |_| {}, tokio::time::sleep(Duration::from_secs(1800))).await.unwrap();
    assert_eq!(ended, Ended::Settled);
    stop.send(()).unwrap();
    let cloud = recorder.await.unwrap();
    // The cloud remembers what has gone for an hour.
    let mut instances = cloud.instances();
    instances.sort_by_key(|instance| (instance.launched_at, instance.provider_id.0.clone()));
    instances.iter().map(launch).collect()
}

/// What was launched.
#[derive(Default)]
struct Seen(Vec<Instance>);

impl Onlooker for Seen {
    fn begin(&mut self, _: &Client, _: &FakeCloud) {}

    fn happened(&mut self, _: Timestamp, event: &CloudEvent) {
        if let CloudEvent::Launched { instance, .. } = event {
            self.0.push((**instance).clone());
        }
    }

    fn step(&mut self, _: &str) {}

    fn end(&mut self) {}
}

fn replay(simulation: &Simulation) -> (Launches, Outcome) {
    let mut seen = Seen::default();
    let outcome = simulation.run_watched(&mut seen);
    let mut launched = seen.0;
    launched.sort_by_key(|instance| (instance.launched_at, instance.provider_id.0.clone()));
    (launched.iter().map(launch).collect(), outcome.unwrap())
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

#[test]
fn a_recorded_story_is_decided_alike_and_otherwise_with_fewer_slots() {
    let path = Removed(std::env::temp_dir().join(format!("berth-recorded-{}.jsonl", std::process::id())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let story = runtime.block_on(play_story(&path.0, 0, Duration::ZERO));
    assert!(story.len() > 6, "{story:?}");

    let text = std::fs::read_to_string(&path.0).unwrap();
    assert!(text.contains("\"scale\"") && text.contains("\"stock\""), "{text}");
    // Of what controllers made there is nothing.
    for kind in ["ReplicaSet\"", "NodeClaim\"", "\"Pod\"", "\"Node\""] {
        assert!(!text.contains(&format!("\"kind\":\"{kind}")), "{kind}: {text}");
    }

    let simulation = Simulation::read(&path.0).unwrap();
    let (played, outcome) = replay(&simulation);
    assert_eq!(played, story);
    assert_eq!(outcome.pods.evictions, replay(&simulation).1.pods.evictions);

    // The reservation grows in the story: halved, it does so, too.
    let varied: Variation = "reservation.cr-web=100%,50%".parse().unwrap();
    let [whole, halved] = &variants(&simulation, &[varied]).unwrap()[..] else { panic!("two variants") };
    assert_eq!(replay(whole).0, story);
    let (with_half, less) = replay(halved);
    assert_ne!(with_half, story);
    let on_slots = |all: &Launches| all.iter().filter(|(_, what)| what.contains("reserved")).count();
    assert!(on_slots(&with_half) < on_slots(&story), "{with_half:?}");
    let most_used = [&outcome, &less].map(|own| own.reservations[0].most_used);
    assert!(most_used[0] == 7 && (2..=3).contains(&most_used[1]), "{most_used:?}");
    assert!(less.cost.nodes > outcome.cost.nodes, "{} and {}", less.cost.nodes, outcome.cost.nodes);
    // The report says what that is in dollars, slots included.
    let report = Report::new("story.jsonl", vec![outcome.clone(), less.clone()]);
    let difference = report.differences[0].total;
    assert!(
        (difference - (less.cost.total - outcome.cost.total)).abs() < 1e-6 && difference.abs() > 0.001,
        "{difference}"
    );
}

/// The regression: of a recording in real time, the rollout was decided otherwise, as old pods were gone in the instant in
/// which provisioning had waited long enough for their successors.
#[test]
fn a_story_whose_requests_take_their_time_is_decided_alike() {
    for seed in 0..4 {
        let path = Removed(std::env::temp_dir().join(format!("berth-slow-{seed}-{}.jsonl", std::process::id())));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let what = |launches: Launches| {
            let mut what: Vec<String> = launches.into_iter().map(|(_, what)| what).collect();
            what.sort();
            what
        };
        let story = what(runtime.block_on(play_story(&path.0, seed, Duration::from_millis(40))));
        let (replayed, _) = replay(&Simulation::read(&path.0).unwrap());
        assert_eq!(what(replayed), story, "seed {seed}");
    }
}

#[test]
fn the_catalogue_of_a_recorded_node_class_is_there_when_it_is_replayed() {
    let of_type = |name: &str| {
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let requirements =
            [requirement("karpenter.sh/capacity-type", "on-demand"), requirement("topology.kubernetes.io/zone", "a")];
        json!([{"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "4", "memory": "8Gi", "pods": "20"},
            "offerings": [{"Price": 0.2, "Available": true, "Requirements": requirements}]}])
    };
    let apply = |object: serde_json::Value| json!({"at": 0, "apply": object});
    let lines = [
        json!({"apiVersion": "berth.sh/v1alpha1", "kind": "Trace", "start": "2026-01-01T00:00:00Z",
            "scenario": {"seed": 1, "settings": {}, "cloud": {}}, "catalogue": of_type("common")}),
        apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "types", "namespace": "infra"},
            "data": {"types.json": of_type("own").to_string()}})),
        apply(json!({"apiVersion": "berth.sh/v1alpha1", "kind": "FakeNodeClass", "metadata": {"name": "own"},
            "spec": {"instanceTypes": {"namespace": "infra", "name": "types", "key": "types.json"}}})),
        apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "own"},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "own"}}}}})),
        json!({"template": "a", "pod": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}),
        json!({"at": 10, "create": "a", "name": "x"}),
        json!({"at": 600, "end": true}),
    ];
    let path = Removed(std::env::temp_dir().join(format!("berth-node-class-{}.jsonl", std::process::id())));
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(&path.0, lines.join("\n")).unwrap();
    let (launches, _) = replay(&Simulation::read(&path.0).unwrap());
    let [(_, what)] = &launches[..] else { panic!("{launches:?}") };
    assert!(what.contains("own"), "{what}");
}

/// Writes an object as `kubectl apply` does.
async fn apply(client: &Client, object: serde_json::Value) {
    let text = |path: &str| object.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let api = berth_sandbox::api_of(client, text("/apiVersion"), text("/kind"), namespace);
    let params = kube::api::PatchParams::apply("test").force();
    api.patch(text("/metadata/name"), &params, &kube::api::Patch::Apply(&object)).await.unwrap();
}

/// Plays a sandbox in virtual time for two minutes, and records it; what was launched.
async fn play<F: Future<Output = ()>>(to: &Path, controllers: Controllers, act: impl FnOnce(Client) -> F) -> Launches {
    let (on_begun, mut begun) = unbounded_channel();
    let options = Options {
        on_begun: Some(on_begun),
        kubeconfig: None,
        controllers: Controllers { timings: Options::new(Timestamp::UNIX_EPOCH).controllers.timings, ..controllers },
        ..Options::new("2026-01-01T00:00:00Z".parse().unwrap())
    };
    let record_options = RecordOptions::from(&options);
    let mut cloud = None;
    let until = async {
        let (client, of_this) = begun.recv().await.unwrap();
        cloud = Some(of_this.clone());
        let file = std::fs::File::create(to).unwrap();
        let acting = async {
            act(client.clone()).await;
            tokio::time::sleep(Duration::from_secs(120)).await;
        };
        record(client.clone(), of_this, record_options, file, acting).await.unwrap();
    };
    let ended = Box::pin(berth_sandbox::run(options, |_| {}, until)).await.unwrap();
    assert_eq!(ended, Ended::Interrupted);
    let mut instances = cloud.unwrap().instances();
    instances.sort_by_key(|instance| (instance.launched_at, instance.provider_id.0.clone()));
    instances.iter().map(launch).collect()
}

fn pool(capacity: &serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"requirements": capacity,
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}})
}

fn deployment(replicas: u32, volumes: &serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": volumes, "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}}}})
}

/// Records, replays, and compares what was launched: the same instances, in whatever second.
fn is_replayed<F: Future<Output = ()>>(
    name: &str,
    controllers: Controllers,
    act: impl FnOnce(Client) -> F,
) -> (Vec<String>, Outcome) {
    let path = Removed(std::env::temp_dir().join(format!("berth-{name}-{}.jsonl", std::process::id())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let what = |launches: Launches| {
        let mut what: Vec<String> = launches.into_iter().map(|(_, what)| what).collect();
        what.sort();
        what
    };
    let eviction_price = controllers.eviction_price.dollars();
    let played = what(runtime.block_on(play(&path.0, controllers, act)));
    let text = std::fs::read_to_string(&path.0).unwrap();
    let settings = format!("\"evictionPrice\":{eviction_price}");
    assert_eq!(text.contains(&settings), eviction_price > 0.0, "{text}");
    let (replayed, outcome) = replay(&Simulation::read(&path.0).unwrap());
    assert_eq!(what(replayed), played, "{}", std::fs::read_to_string(&path.0).unwrap());
    (played, outcome)
}

/// The regression: a pod whose gate was lifted stayed gated in the replay.
#[test]
fn what_is_changed_of_a_pod_is_replayed() {
    let (played, outcome) = is_replayed("pod-changes", Controllers::default(), async |client| {
        apply(&client, pool(&json!([]))).await;
        let gated = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "job", "namespace": "default", "labels": {"queue": "a", "old": "b"}},
            "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}], "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}});
        let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(client.clone());
        pods.create(&kube::api::PostParams::default(), &serde_json::from_value(gated).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let admitted = json!({"metadata": {"labels": {"old": null}, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            "spec": {"schedulingGates": null, "nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}}});
        pods.patch("job", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(admitted)).await.unwrap();
    });
    assert_eq!(played.len(), 1, "{played:?}");
    assert!(outcome.is_complete(), "{outcome:?}");
}

/// The regression: the replay knew none of these flags.
#[test]
fn a_recording_is_replayed_under_its_own_guards() {
    let mut controllers = Controllers::default();
    controllers.ceilings.of_each_pool.launches_per_hour = Some(2);
    controllers.solve.max_shares = vec![parse_max_share("zone=50%").unwrap()];
    controllers.convert.reservations.enable_preemption = true;
    controllers.eviction_price = "0.25".parse().unwrap();
    let (launches, outcome) = is_replayed("guards", controllers, |client| async move {
        apply(&client, pool(&json!([]))).await;
        apply(&client, deployment(12, &json!([]))).await;
    });
    assert_eq!(launches.len(), 2, "{launches:?}");
    assert!(!outcome.is_complete(), "what is over the ceiling waits");
}

/// The regression: claims were recorded, and their volumes not, so that their pods waited for ever.
#[test]
fn volumes_that_were_made_by_hand_are_replayed() {
    let (launches, outcome) = is_replayed("volumes", Controllers::default(), |client| async move {
        let zone = json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["port-1b"]}]}]);
        apply(&client, json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "csi": {"driver": "d", "volumeHandle": "h"}, "nodeAffinity": {"required": {"nodeSelectorTerms": zone}}}}))
            .await;
        apply(
            &client,
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"volumeName": "disk", "storageClassName": "", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        apply(&client, pool(&json!([]))).await;
        let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
        apply(&client, deployment(1, &volumes)).await;
    });
    assert!(launches.len() == 1 && launches[0].contains("port-1b"), "{launches:?}");
    assert!(outcome.is_complete(), "{:?}", outcome.unplaced);
}

/// The regression: a ConfigMap was read once, when its node class was applied.
#[test]
fn a_catalogue_that_comes_after_its_node_class_and_changes_is_replayed() {
    let catalogue = |name: &str, price: f64| {
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let requirements =
            [requirement("karpenter.sh/capacity-type", "on-demand"), requirement("topology.kubernetes.io/zone", "a")];
        let types = json!([{"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "4", "memory": "8Gi", "pods": "20"},
            "offerings": [{"Price": price, "Available": true, "Requirements": requirements}]}]);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "types", "namespace": "default"},
            "data": {"types.json": types.to_string(), "secret": "hunter2"}})
    };
    let (launches, outcome) = is_replayed("catalogue", Controllers::default(), |client| async move {
        apply(
            &client,
            json!({"apiVersion": "berth.sh/v1alpha1", "kind": "FakeNodeClass", "metadata": {"name": "default"},
            "spec": {"instanceTypes": {"namespace": "default", "name": "types", "key": "types.json"}}}),
        )
        .await;
        apply(&client, pool(&json!([]))).await;
        apply(&client, deployment(1, &json!([]))).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        apply(&client, catalogue("own", 3.6)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        apply(&client, catalogue("own", 36.0)).await;
    });
    assert!(launches.len() == 1 && launches[0].contains("own"), "{launches:?}");
    // Less than a minute at the first price, two minutes at ten times as much.
    assert!((1.2..1.4).contains(&outcome.cost.nodes), "{:?}", outcome.cost);
}
