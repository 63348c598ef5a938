//! Reservations that grow, shrink and end while nodes run.

use std::collections::BTreeSet;

use berth_api::{FakeCapacityReservation, NodePool, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::consolidation::of_types;
use crate::scenarios::{fleet, uids, web};
use crate::witness::Witness;
use crate::world::World;

fn in_minutes(n: i64) -> String {
    (Timestamp::now() + SignedDuration::from_mins(n)).to_string()
}

/// Two slots of m5.xlarge beside those of the catalogue, of which there are none any more.
async fn reserve(world: &World, kind: &str, end: Option<String>) {
    world.set_slots(0).await;
    let spec = json!({"instanceTypes": ["m5.xlarge"], "zones": ["port-1a"], "count": 2, "type": kind, "end": end});
    world.create::<FakeCapacityReservation>(json!({"metadata": {"name": "cr-own"}, "spec": spec})).await;
    is(world, |status| status["total"] == 2).await;
}

/// Changes that reservation.
async fn change(world: &World, spec: Value) {
    let all = Api::<FakeCapacityReservation>::all(world.client.clone());
    all.patch("cr-own", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

/// Waits until the cloud says so. Berth asks at once as it starts, and once a minute.
async fn is(world: &World, is_so: impl Fn(&Value) -> bool) {
    let all = Api::<FakeCapacityReservation>::all(world.client.clone());
    world
        .comes("the reservation", async |_| {
            is_so(&serde_json::to_value(all.get("cr-own").await.unwrap().status).unwrap())
        })
        .await;
}

async fn cancel(world: &World) {
    let all = Api::<FakeCapacityReservation>::all(world.client.clone());
    all.delete("cr-own", &DeleteParams::default()).await.unwrap();
}

/// Whoever is paid for by the hour moves to the slot that comes, and nobody else.
pub(crate) async fn grows(world: &mut World) {
    world.set_slots(0).await;
    world.create::<NodePool>(of_types(&["m5.xlarge"], true)).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "on-demand", 2)]));
    let before = world.node_names().await;
    let witness = Witness::start(&world.client).await;
    world.set_class(None, "4s").await;
    world.set_slots(1).await;
    world.restart_berth().await;
    let expected = fleet(&[("m5.xlarge", "cr-web", 1), ("m5.xlarge", "on-demand", 1)]);
    world.comes("one node on the slot", async |world| world.fleet().await == expected).await;
    world.run(6).await;
    let record = witness.record();
    assert_eq!((record.evicted.len(), record.disrupted.len()), (3, 1), "{record:?}");
    assert!(record.replaced_first(&(&world.node_names().await - &before)), "{record:?}");
}

/// Its instances run on, whatever its count; and once it has ended they are on demand.
pub(crate) async fn lets_go(world: &mut World) {
    reserve(world, "OnDemand", None).await;
    world.create::<NodePool>(of_types(&["m5.xlarge"], true)).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-own", 2)]));
    let before = (uids(world).await, world.node_names().await);
    let witness = Witness::start(&world.client).await;
    change(world, json!({"count": 1})).await;
    is(world, |status| status["total"] == 1).await;
    world.restart_berth().await;
    change(world, json!({"end": Timestamp::now().to_string()})).await;
    is(world, |status| status["state"] == "Ended").await;
    let expected = fleet(&[("m5.xlarge", "on-demand", 2)]);
    world.comes("nodes on demand", async |world| world.fleet().await == expected).await;
    for claim in world.claims().await {
        assert_eq!(claim.metadata.labels.unwrap()[labels::CAPACITY_TYPE], "on-demand");
    }
    world.run(6).await;
    assert_eq!((uids(world).await, world.node_names().await), before);
    let record = witness.record();
    assert_eq!(record.disrupted, BTreeSet::new(), "{record:?}");
    cancel(world).await;
}

/// A capacity block takes its instances with it: they are vacated an hour before, by nodes that join in four seconds.
pub(crate) async fn block_ends(world: &mut World) {
    reserve(world, "CapacityBlock", Some(in_minutes(180))).await;
    world.create::<NodePool>(of_types(&["m5.xlarge"], true)).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    world.run(3).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-own", 1)]));
    let before = world.node_names().await;
    let witness = Witness::start(&world.client).await;
    world.set_class(None, "4s").await;
    change(world, json!({"end": in_minutes(59)})).await;
    let expected = fleet(&[("m5.xlarge", "on-demand", 1)]);
    world.comes("a node on demand", async |world| world.fleet().await == expected).await;
    world.run(3).await;
    let record = witness.record();
    assert_eq!((record.evicted.len(), &record.disrupted), (3, &before), "{record:?}");
    assert!(record.replaced_first(&world.node_names().await), "{record:?}");
    assert_eq!(record.ended_otherwise, BTreeSet::new(), "the block ended nobody");
    cancel(world).await;
}
