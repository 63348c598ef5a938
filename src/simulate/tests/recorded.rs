//! What was recorded of a sandbox, played again.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_cloudprovider::Instance;
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

/// Plays the sandbox's story in virtual time, and records it.
async fn play_story(to: &Path) -> Launches {
    let (on_begun, mut begun) = unbounded_channel();
    let catalogue = berth_sandbox::story_catalogue().unwrap();
    let options = Options {
        story: true,
        catalogue: catalogue.clone(),
        on_begun: Some(on_begun),
        ..Options::new("2026-01-01T00:00:00Z".parse().unwrap())
    };
    let record_options = RecordOptions {
        seed: options.seed,
        controllers: options.controllers.clone(),
        boot_delay: options.boot_delay,
        adoption: options.adoption,
        catalogue,
    };
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
    let story = runtime.block_on(play_story(&path.0));
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
