//! Types with GPUs are for pods that ask for GPUs.

use berth_provisioning::Restriction;

use crate::mk::{mk_world, pod};

const GPU: &str = "nvidia.com/gpu";

#[test]
fn a_gpu_type_is_not_launched_for_others_even_where_it_is_cheapest() {
    for (for_any, expected) in [(false, "1 × plain on-demand a: web:4"), (true, "1 × gpu on-demand a: web:4")] {
        let mut world = mk_world();
        world.options.gpu_types_for_any_pod = for_any;
        world.mk_pool("default");
        world.mk_type("gpu", 4).with(GPU, 1).on_demand("a", 50);
        world.mk_type("plain", 4).on_demand("a", 100);
        world.mk_pods("web", 4, &pod(1000));
        assert_eq!(world.plan().claims(), [expected]);
    }
}

#[test]
fn a_free_slot_of_a_gpu_type_is_for_anyone() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("gpu", 4).with(GPU, 1).reserved("a", "cr", 1, 900).on_demand("a", 50);
    world.mk_type("plain", 4).on_demand("a", 100);
    world.mk_pods("web", 8, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × gpu cr a: web:4", "1 × plain on-demand a: web:4"]);
    // What is launched where the slot is gone is paid for.
    for claims in &plan.solution.claims {
        let listed = claims.instance_types.iter().map(|at| plan.cluster.instance_types[*at as usize].name);
        assert_eq!(listed.map(|name| plan.cluster.symbols.text(name)).collect::<Vec<_>>(), ["plain"]);
    }
}

#[test]
fn others_use_the_room_that_is_left_on_gpu_nodes() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("gpu", 8).with(GPU, 1).on_demand("a", 900);
    world.mk_type("plain", 8).on_demand("a", 300);
    world.mk_pods("trains", 1, &pod(1000).resource(GPU, 1));
    world.mk_pods("web", 7, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × gpu on-demand a: trains:1 web:7"]);
}

#[test]
fn a_daemon_that_asks_for_gpus_opens_no_gpu_type() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("gpu", 4).with(GPU, 1).on_demand("a", 50);
    world.mk_daemon(&pod(100).resource(GPU, 1));
    world.mk_pods("web", 1, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.left(), ["1 × web"]);
    assert_eq!(
        plan.reasons(),
        ["1 × NodePool default: GPU types are for pods that ask for GPUs (--gpu-types-for-any-pod)"]
    );
}

#[test]
fn gpu_types_restrict_who_is_pending_not_who_runs() {
    for (is_pending, expected) in [(false, false), (true, true)] {
        let mut world = mk_world();
        world.options.what_restrictions_cost = true;
        world.mk_pool("default");
        world.mk_type("gpu", 4).with(GPU, 1).on_demand("a", 50);
        world.mk_type("plain", 4).on_demand("a", 100);
        world.mk_node("n", "a", 0, &[pod(1000)]);
        world.mk_pods("trains", 1, &pod(1000).resource(GPU, 1));
        if is_pending {
            world.mk_pods("web", 4, &pod(1000));
        }
        let plan = world.plan();
        let restricts = plan.solution.restrictions.iter().any(|known| known.restriction == Restriction::GpuTypes);
        assert_eq!(restricts, expected);
    }
}
