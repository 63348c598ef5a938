//! Which disks two pods of one node may both mount.

use berth_model::{Disk, DiskId, Symbols};

/// Two disks are made of texts; whether pods that both only read them, and pods of which one writes, exclude each other.
fn conflicts(mk: impl Fn(&mut Symbols) -> [DiskId; 2]) -> (bool, bool) {
    let [a, b] = mk(&mut Symbols::default());
    let disk = |id: &DiskId, is_read_only| Disk { id: id.clone(), is_read_only };
    let (reader, writer) = (disk(&b, true), disk(&b, false));
    let of_one = disk(&a, true).conflicts(&writer);
    assert_eq!(of_one, disk(&a, false).conflicts(&reader), "whichever it is that writes");
    assert_eq!(of_one, disk(&a, false).conflicts(&writer), "or both");
    (disk(&a, true).conflicts(&reader), of_one)
}

fn rbd(symbols: &mut Symbols, monitors: &[&str], pool: &str, image: &str) -> DiskId {
    let mut monitors: Vec<_> = monitors.iter().map(|monitor| symbols.intern(monitor)).collect();
    monitors.sort_unstable();
    DiskId::Rbd { monitors, pool: symbols.intern(pool), image: symbols.intern(image) }
}

#[test]
fn google_disks_iscsi_and_rbd_are_shared_by_readers_alone() {
    assert_eq!(
        conflicts(|s| [DiskId::GcePersistentDisk(s.intern("x")), DiskId::GcePersistentDisk(s.intern("x"))]),
        (false, true)
    );
    assert_eq!(conflicts(|s| [DiskId::Iscsi(s.intern("x")), DiskId::Iscsi(s.intern("x"))]), (false, true));
    assert_eq!(conflicts(|s| [rbd(s, &["m"], "p", "i"), rbd(s, &["m"], "p", "i")]), (false, true));
}

#[test]
fn an_ebs_volume_is_not_shared_even_by_readers() {
    let same =
        |s: &mut Symbols| [DiskId::AwsElasticBlockStore(s.intern("x")), DiskId::AwsElasticBlockStore(s.intern("x"))];
    assert_eq!(conflicts(same), (true, true));
}

#[test]
fn disks_of_other_names_or_kinds_have_nothing_to_do_with_each_other() {
    assert_eq!(
        conflicts(|s| [DiskId::GcePersistentDisk(s.intern("x")), DiskId::GcePersistentDisk(s.intern("y"))]),
        (false, false)
    );
    assert_eq!(
        conflicts(|s| [DiskId::GcePersistentDisk(s.intern("x")), DiskId::AwsElasticBlockStore(s.intern("x"))]),
        (false, false)
    );
    assert_eq!(conflicts(|s| [DiskId::Iscsi(s.intern("x")), DiskId::Iscsi(s.intern("y"))]), (false, false));
}

#[test]
fn an_rbd_image_is_the_same_if_one_monitor_its_pool_and_its_name_are() {
    assert_eq!(conflicts(|s| [rbd(s, &["a", "b"], "p", "i"), rbd(s, &["c", "b"], "p", "i")]), (false, true));
    assert_eq!(conflicts(|s| [rbd(s, &["a", "b"], "p", "i"), rbd(s, &["c"], "p", "i")]), (false, false));
    assert_eq!(conflicts(|s| [rbd(s, &["a"], "p", "i"), rbd(s, &["a"], "q", "i")]), (false, false));
    assert_eq!(conflicts(|s| [rbd(s, &["a"], "p", "i"), rbd(s, &["a"], "p", "j")]), (false, false));
}
