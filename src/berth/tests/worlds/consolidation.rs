//! Nodes that nobody needs go, and cheaper ones take the place of others.

use berth_api::{NodePool, labels};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::scenarios::{fleet, pool, uids, web};
use crate::witness::Witness;
use crate::world::World;

/// A NodePool of these instance types on demand, and by reservation where `on_slots`.
pub(crate) fn of_types(types: &[&str], on_slots: bool) -> Value {
    let mut own = pool("web", if on_slots { &["on-demand", "reserved"] } else { &["on-demand"] });
    let types = json!({"key": labels::INSTANCE_TYPE, "operator": "In", "values": types});
    own["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(types);
    own
}

/// Each of two Deployments fills a node. One ends; another comes and is half a node, as the first is then.
pub(crate) async fn fewer_nodes(world: &mut World) {
    world.create::<NodePool>(of_types(&["m5.xlarge"], false)).await;
    world.create_in::<Deployment>(web("stays", 3)).await;
    world.run(3).await;
    let before = (uids(world).await, world.node_names().await);
    world.create_in::<Deployment>(web("ends", 3)).await;
    world.run(6).await;
    let witness = Witness::start(&world.client).await;
    world.scale("ends", 0).await;
    world.comes("the end of the empty node", async |world| world.node_names().await == before.1).await;
    world.run(3).await;
    assert_eq!(uids(world).await, before.0, "nobody else was moved");
    world.create_in::<Deployment>(web("half", 2)).await;
    world.run(5).await;
    let two = world.node_names().await;
    assert_eq!((two.len(), witness.record().evicted.len()), (2, 0));
    world.scale("stays", 1).await;
    world.comes("one node", async |world| world.nodes().await.len() == 1).await;
    world.run(3).await;
    // The one pod came to the two.
    assert_eq!(world.node_names().await, &two - &before.1);
    let record = witness.record();
    assert_eq!(record.evicted.len(), 1, "{record:?}");
}

/// Two of three pods end, and the third needs but half of its node. The cheaper one takes four seconds to join.
pub(crate) async fn cheaper_node(world: &mut World) {
    world.create::<NodePool>(of_types(&["m5.large", "m5.xlarge"], false)).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    world.run(3).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "on-demand", 1)]));
    world.set_class(None, "4s").await;
    let witness = Witness::start(&world.client).await;
    world.scale("web", 1).await;
    let smaller = fleet(&[("m5.large", "on-demand", 1)]);
    world.comes("the smaller node", async |world| world.fleet().await == smaller).await;
    world.run(1).await;
    let record = witness.record();
    assert_eq!((record.evicted.len(), record.disrupted.len()), (1, 1), "{record:?}");
    assert!(record.replaced_first(&world.node_names().await), "{record:?}");
}
