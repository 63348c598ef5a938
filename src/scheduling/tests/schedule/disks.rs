//! Disks that pods mount without a claim, as kube-scheduler's VolumeRestrictions has them.

use berth_model::{Disk, DiskId, PodSpec};
use berth_scheduling::Verdict;

use crate::mk::{FIRST, World, mk_pod};

fn with_disk(world: &mut World, is_read_only: bool) -> PodSpec {
    let id = DiskId::GcePersistentDisk(world.sym("x"));
    let mut spec = mk_pod(100, 1);
    spec.volumes.disks.push(Disk { id, is_read_only });
    spec
}

#[test]
fn a_disk_that_is_written_has_one_pod_on_a_node() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_node("n2", "a", 4000, 8);
    let spec = with_disk(&mut world, false);
    world.mk_pods("writer", 3, &spec);
    assert_eq!(world.run(true), (vec!["n1: 1".to_owned(), "n2: 1".to_owned()], 1, Vec::new()));
}

#[test]
fn a_disk_that_is_read_alone_has_many_and_none_that_writes() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    let reader = with_disk(&mut world, true);
    world.mk_running("reader", &reader, 0);
    world.mk_pods("reader", 3, &reader);
    assert_eq!(world.run(false), (vec!["n1: 3".to_owned()], 0, Vec::new()));
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    let (reader, writer) = (with_disk(&mut world, true), with_disk(&mut world, false));
    world.mk_running("reader", &reader, 0);
    world.mk_pods("writer", 1, &writer);
    let said = world.scheduled(|scheduler, cluster| match &scheduler.assess(FIRST)[0].verdict {
        Verdict::Refused(obstacle) => (obstacle.plugin().name(), obstacle.in_words(cluster)),
        other => panic!("{other:?}"),
    });
    assert_eq!(said, ("VolumeRestrictions", vec!["node(s) had no available disk".to_owned()]));
}

#[test]
fn a_less_important_pod_gives_its_disk_up_and_then_another_may_not_have_it() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    let low = with_disk(&mut world, false);
    world.mk_running("low", &low, 0);
    world.mk_running("bystander", &mk_pod(100, 1), 0);
    world.mk_pods("urgent", 2, &PodSpec { priority: 100, ..low });
    assert_eq!(world.run(true), (vec!["n1: 1".to_owned()], 1, vec!["n1/low-0".to_owned()]));
}

#[test]
fn what_gives_way_frees_its_disk_alone() {
    let mut world = World::new();
    world.mk_node("n1", "a", 1000, 8);
    let reader = with_disk(&mut world, true);
    world.mk_running("first", &PodSpec { priority: 5, ..reader.clone() }, 0);
    world.mk_running("second", &PodSpec { requests: mk_pod(900, 1).requests, ..reader }, 0);
    let writer = with_disk(&mut world, false);
    world.mk_pods("writer", 1, &PodSpec { priority: 3, requests: mk_pod(900, 1).requests, ..writer });
    assert_eq!(world.run(true), (Vec::new(), 1, Vec::new()), "the first still reads it");
}
