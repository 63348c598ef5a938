//! A cluster without a NodePool.

use berth_cloudprovider_fake::cloud::CloudFaults;

use crate::scenarios::web;
use crate::trouble::Rates;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn pods_of_a_cluster_without_a_node_pool_are_told_so() {
    let mut world = World::new(1, Rates::default(), CloudFaults::default()).await;
    world.start_controllers(false);
    world.deploy(web(2)).await;
    let told = world
        .settles(5, async |world| {
            let pods = world.pods().await;
            pods.len() == 2
                && pods.iter().all(|pod| {
                    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                    conditions.filter_map(|known| known.message.as_deref()).any(|why| why.contains("no NodePool"))
                })
        })
        .await;
    assert!(told, "{:#?}", world.pods().await);
}
