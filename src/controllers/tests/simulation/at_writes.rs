//! All kinds of faults at all steps that write, by seed; 260 plays hit each kind at each step at least twenty times.
//!
//! A play has all that writes something: pods that come and go, slots, a Reservation that is drawn from and two that expire, a
//! volume, preemption, a drain that a PodDisruptionBudget holds up and one that a grace period ends. `cargo test
//! -p berth-controllers --test simulation at_each_write -- --nocapture` prints the table; it takes some nine CPU minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_api::{NodePool, Reservation};
use berth_cloudprovider_fake::cloud::CloudFaults;
use berth_controllers::Effort;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::disruption::set_slots;
use crate::trouble::{FAULTS, FAULTS_OF_CLOUD, FAULTS_OF_LAUNCH, Rates, Table};
use crate::world::{World, is_initialized};
use crate::{cloud_faults, held, scenarios, seeds};

/// How often each kind of fault befalls each step in all plays, at least.
const LEAST: u32 = 20;
/// Volumes of one Deployment.
const VOLUMES: [&str; 3] = ["data", "log", "index"];

fn room(name: &str, ttl: &str, owner: &str) -> Value {
    json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": name}, "spec": {
        "ttl": ttl, "allocateOnce": false, "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
        "template": {"spec": {"containers": [{
            "name": "room", "image": "pause", "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}}}})
}

fn named(name: &str, replicas: u32, change: impl FnOnce(&mut Value)) -> Value {
    let mut own = scenarios::web(replicas);
    own["metadata"]["name"] = json!(name);
    own["spec"]["selector"]["matchLabels"]["app"] = json!(name);
    own["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
    change(&mut own["spec"]["template"]["spec"]);
    own
}

/// Creates it; a name that is there is as good.
async fn create_in<K>(world: &World, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api = Api::<K>::default_namespaced(world.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn set_up(world: &World) {
    let mut pool = scenarios::pool("web", &["on-demand", "reserved"]);
    pool["spec"]["limits"] = json!({"cpu": "24"});
    pool["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("45s");
    world.create::<NodePool>(pool).await;
    world.create::<PriorityClass>(json!({"metadata": {"name": "high"}, "value": 1000})).await;
    let class = json!({"metadata": {"name": "disks"}, "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer"});
    world.create::<StorageClass>(class).await;
    for name in VOLUMES {
        let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": "disks",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        create_in::<PersistentVolumeClaim>(world, claim).await;
    }
    let budget = json!({"metadata": {"name": "db"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}}});
    create_in::<PodDisruptionBudget>(world, budget).await;
}

/// A NodePool in which nothing may be launched.
async fn create_spare(world: &World, name: &str) {
    let mut pool = scenarios::pool(name, &["on-demand"]);
    pool["spec"]["limits"] = json!({"cpu": "0"});
    world.create::<NodePool>(pool).await;
}

/// Everything that writes, while faults last.
async fn stir(world: &World) {
    let wait = async |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds)).await;
    world.create::<Reservation>(room("kept", "0s", "web")).await;
    for name in ["brief", "briefer"] {
        world.create::<Reservation>(room(name, "45s", "nobody")).await;
    }
    world.deploy(named("web", 6, |_| {})).await;
    world
        .deploy(named("db", 2, |pod| {
            let volume = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            pod["volumes"] = json!(VOLUMES.map(volume));
        }))
        .await;
    wait(50).await;
    create_spare(world, "second").await;
    // The budget holds up the drain of its nodes until their grace period ends; some slots go meanwhile.
    world.delete_claims().await;
    set_slots(world, 2);
    wait(60).await;
    create_spare(world, "third").await;
    // More than the NodePool may have: who is urgent makes others give way.
    world.scale("web", 13).await;
    wait(25).await;
    world.deploy(named("urgent", 2, |pod| pod["priorityClassName"] = json!("high"))).await;
    wait(35).await;
    // What is left moves to the slots that come.
    world.scale("web", 3).await;
    set_slots(world, 4);
    let rooms = Api::<Reservation>::all(world.client.clone());
    let _ = rooms.delete("kept", &DeleteParams::default()).await;
    wait(40).await;
}

async fn play(seed: u64) -> Table {
    let rates = Rates { at_writes: 8, ..Rates::default() };
    let mut world = World::with(seed, rates, cloud_faults(), scenarios::catalogue()).await;
    world.options.solve.effort = Effort::Low;
    if seed.is_multiple_of(2) {
        world.start_two();
    } else {
        world.start_controllers(true);
    }
    set_up(&world).await;
    stir(&world).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let settled = world
        .settles(60, async |world| {
            let claims = world.claims().await;
            world.all_run().await == Some(7)
                && claims.iter().all(|claim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none())
                && world.alive().len() == claims.len()
        })
        .await;
    let (table, _) = held(&world, settled, seed).await;
    table
}

/// A row for each step, a column for each fault.
fn print(table: &Table) {
    let columns: BTreeSet<&str> = table.keys().map(|(_, what)| *what).collect();
    let mut rows: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for ((step, what), n) in table {
        rows.entry(step).or_default().insert(what, *n);
    }
    let width = |column: &&str| column.len().max(5);
    let head: Vec<String> = columns.iter().map(|column| format!("{column:>w$}", w = width(column))).collect();
    println!("{:26} {}", "step", head.join(" "));
    for (step, row) in rows {
        let cells = columns.iter().map(|column| {
            let n = row.get(column).map_or_else(String::new, u32::to_string);
            format!("{n:>w$}", w = width(column))
        });
        println!("{step:26} {}", cells.collect::<Vec<_>>().join(" "));
    }
}

/// Plays seeds side by side, each in a runtime of its own: what a play comes to depends on its seed alone. Also those
/// that failed.
fn play_all(range: Range<u64>) -> (Table, BTreeSet<u64>) {
    let (next, all) = (AtomicU64::new(range.start), Mutex::new((Table::new(), BTreeSet::new())));
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            let thread = std::thread::Builder::new().name(name.clone());
            let played = thread.spawn_scoped(scope, || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.end {
                        return;
                    }
                    // The others are played nevertheless.
                    let befell = std::panic::catch_unwind(|| {
                        let mut builder = tokio::runtime::Builder::new_current_thread();
                        builder.enable_all().start_paused(true).build().unwrap().block_on(play(seed))
                    });
                    let (table, failed) = &mut *all.lock();
                    match befell {
                        Ok(befell) => {
                            for (key, n) in befell {
                                *table.entry(key).or_default() += n;
                            }
                        }
                        Err(_) => {
                            failed.insert(seed);
                        }
                    }
                }
            });
            played.unwrap();
        }
    });
    all.into_inner()
}

#[test]
fn at_each_write_all_kinds_of_faults_leave_nothing_behind() {
    let range = seeds(0..260);
    let is_whole = range.end - range.start >= 260;
    let (all, failed) = play_all(range);
    print(&all);
    assert!(failed.is_empty(), "of {failed:?} each says above how to repeat it");
    let steps: BTreeSet<&str> = all.keys().map(|(step, _)| step.as_str()).filter(|step| step.contains(' ')).collect();
    let kinds = |step: &str| match step {
        "cloud create" => [&FAULTS_OF_CLOUD[..], &FAULTS_OF_LAUNCH].concat(),
        "cloud delete" => FAULTS_OF_CLOUD.to_vec(),
        _ => FAULTS.to_vec(),
    };
    let cells = steps.into_iter().flat_map(|step| kinds(step).into_iter().map(move |fault| (step, fault)));
    let counted = cells.map(|(step, fault)| (all.get(&(step.to_owned(), fault)).copied().unwrap_or(0), fault, step));
    let counted: Vec<(u32, &str, &str)> = counted.collect();
    println!("{} cells, the least: {:?}", counted.len(), counted.iter().min());
    let seldom: Vec<_> = counted.into_iter().filter(|(n, _, _)| *n < LEAST).collect();
    assert!(!is_whole || seldom.is_empty(), "less than {LEAST} times: {seldom:?}");
}
