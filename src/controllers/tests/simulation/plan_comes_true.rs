//! Pods come to the nodes that were launched for them: what is planned once is all that is launched.

use berth_cloudprovider_fake::cloud::CloudFaults;
use serde_json::{Value, json};

use crate::scenarios::{pool, run, state_of};
use crate::trouble::Rates;
use crate::world::World;
use crate::{repeat, seeds};

struct Dice(u64);

impl Dice {
    fn of(&mut self, sides: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides).unwrap()
    }
}

/// A Deployment of some size; two in three of them spread over zones, want to be together, or apart.
fn deployment(name: &str, (least, more): (usize, u64), dice: &mut Dice) -> (Value, usize) {
    let replicas = least + dice.of(more);
    let labels = json!({"app": name});
    let (cpu, memory) = ([100, 250, 500, 1000][dice.of(4)], [128, 256, 512, 1024][dice.of(4)]);
    let mut spec = json!({"containers": [{"name": "c", "image": "c",
        "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}}]});
    let selector = json!({"matchLabels": labels});
    let term = |key: &str| {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": selector}]})
    };
    match dice.of(6) {
        0 | 1 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        }
        2 => spec["affinity"] = json!({"podAffinity": term("topology.kubernetes.io/zone")}),
        3 => spec["affinity"] = json!({"podAntiAffinity": term("kubernetes.io/hostname")}),
        _ => {}
    }
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": selector,
        "template": {"metadata": {"labels": labels}, "spec": spec}}});
    (deployment, replicas)
}

/// Deployments are made at once, in sizes from `least` on; no node may be launched more than two seconds after the first.
async fn play(seed: u64, n_deployments: usize, sizes: (usize, u64)) {
    let mut dice = Dice(seed);
    let catalogue = berth_cloudprovider_fake::catalogue();
    let mut world = World::with(seed, Rates::default(), CloudFaults::default(), catalogue).await;
    world.start_controllers(false);
    let mut pool = pool("web", &["on-demand", "spot"]);
    pool["spec"]["disruption"] = json!({"consolidateAfter": "Never"});
    world.create::<berth_api::NodePool>(pool).await;
    let mut n_pods = 0;
    for at in 0..n_deployments {
        let (deployment, replicas) = deployment(&format!("app-{at}"), sizes, &mut dice);
        world.deploy(deployment).await;
        n_pods += replicas;
    }
    run(&world, n_pods).await;
    let claims = world.claims().await;
    let created = |claim: &berth_api::NodeClaim| claim.metadata.creation_timestamp.as_ref().unwrap().0;
    let first = claims.iter().map(created).min().unwrap();
    let later: Vec<&str> = claims
        .iter()
        .filter(|claim| created(claim).duration_since(first).as_secs() > 2)
        .filter_map(|claim| claim.metadata.name.as_deref())
        .collect();
    assert_eq!(later, Vec::<&str>::new(), "of {}; {}; {}", claims.len(), repeat(seed), state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn no_more_nodes_are_launched_than_were_planned_at_once() {
    for seed in seeds(0..3) {
        play(seed, 10, (3, 20)).await;
    }
}

/// What few pods do not show: many decisions while nodes come up one after another, and places that pods swap.
#[tokio::test(start_paused = true)]
async fn no_more_nodes_are_launched_for_two_thousand_pods_than_were_planned_at_once() {
    for seed in seeds(0..1) {
        play(seed, 40, (10, 80)).await;
    }
}
