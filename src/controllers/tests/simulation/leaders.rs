//! Two processes, of which one leads at a time.

use std::time::Duration;

use berth_cloudprovider_fake::cloud::CloudFaults;
use berth_controllers::Effort;

use crate::trouble::Rates;
use crate::world::World;
use crate::{repeat, scenarios, seeds};

/// A process that cannot reach its Lease, and all else it can, writes nothing once another may lead; the work goes on.
#[tokio::test(start_paused = true)]
async fn who_cannot_renew_its_lease_writes_no_more() {
    for seed in seeds(0..3) {
        let rates = Rates { late: 80, lost_answer: 20, ..Rates::default() };
        let mut world = World::with(seed, rates, CloudFaults::default(), scenarios::catalogue()).await;
        world.options.solve.effort = Effort::Low;
        world.start_two();
        world.create::<berth_api::NodePool>(scenarios::pool("web", &["on-demand", "reserved"])).await;
        world.deploy(scenarios::web(6)).await;
        for replicas in [10, 3, 14] {
            tokio::time::sleep(Duration::from_secs(50)).await;
            world.scale("web", replicas).await;
        }
        let runs = world.settles(20, async |world| world.all_run().await == Some(14)).await;
        assert!(runs, "{}; {}", scenarios::state_of(&world).await, repeat(seed));
        let table = world.trouble.table();
        assert!(table.keys().any(|(_, what)| *what == "lease cut"), "nobody lost the lead: {table:?}");
        assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
    }
}
