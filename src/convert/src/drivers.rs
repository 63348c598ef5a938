//! Volumes of in-tree kinds as the CSI drivers that serve them today, as k8s.io/csi-translation-lib.

use berth_model::{Disk, DiskId, Symbols};
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const AZURE_DISK: &str = "disk.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";

/// In-tree provisioners and their CSI drivers.
const PROVISIONERS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS),
    ("kubernetes.io/gce-pd", GCE),
    ("kubernetes.io/azure-disk", AZURE_DISK),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", CINDER),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// A provisioner that makes nothing: volumes of its classes exist beforehand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The CSI driver of a StorageClass's provisioner.
pub(crate) fn of_provisioner(provisioner: &str) -> &str {
    PROVISIONERS.iter().find(|(in_tree, _)| *in_tree == provisioner).map_or(provisioner, |(_, driver)| driver)
}

/// The driver and handle of a pod's own volume, where it is attached: an inline `csi` volume is not, as
/// kube-scheduler counts.
pub(crate) fn of_volume(volume: &Volume) -> Option<(&str, &str)> {
    if let Some(disk) = &volume.aws_elastic_block_store {
        Some((EBS, &disk.volume_id))
    } else if let Some(disk) = &volume.gce_persistent_disk {
        Some((GCE, &disk.pd_name))
    } else if let Some(disk) = &volume.azure_disk {
        Some((AZURE_DISK, &disk.disk_uri))
    } else if let Some(disk) = &volume.cinder {
        Some((CINDER, &disk.volume_id))
    } else {
        None
    }
}

/// A pod's own volume as a disk that other pods on the node may not mount as they like: kube-scheduler knows of four
/// kinds. A monitor is what its text says.
pub(crate) fn disk(volume: &Volume, symbols: &mut Symbols) -> Option<Disk> {
    const DEFAULT_POOL: &str = "rbd";
    let (id, is_read_only) = if let Some(disk) = &volume.gce_persistent_disk {
        (DiskId::GcePersistentDisk(symbols.intern(&disk.pd_name)), disk.read_only)
    } else if let Some(disk) = &volume.aws_elastic_block_store {
        (DiskId::AwsElasticBlockStore(symbols.intern(&disk.volume_id)), disk.read_only)
    } else if let Some(disk) = &volume.iscsi {
        (DiskId::Iscsi(symbols.intern(&disk.iqn)), disk.read_only)
    } else {
        let disk = volume.rbd.as_ref()?;
        let mut monitors: Vec<_> = disk.monitors.iter().map(|monitor| symbols.intern(monitor)).collect();
        monitors.sort_unstable();
        monitors.dedup();
        let pool = disk.pool.as_deref().filter(|pool| !pool.is_empty()).unwrap_or(DEFAULT_POOL);
        let (pool, image) = (symbols.intern(pool), symbols.intern(&disk.image));
        (DiskId::Rbd { monitors, pool, image }, disk.read_only)
    };
    Some(Disk { id, is_read_only: is_read_only == Some(true) })
}

/// The driver and handle of a PersistentVolume, where it is attached.
pub(crate) fn of_persistent_volume(spec: &PersistentVolumeSpec) -> Option<(&str, &str)> {
    if let Some(csi) = &spec.csi {
        Some((&csi.driver, &csi.volume_handle))
    } else if let Some(disk) = &spec.aws_elastic_block_store {
        Some((EBS, &disk.volume_id))
    } else if let Some(disk) = &spec.gce_persistent_disk {
        Some((GCE, &disk.pd_name))
    } else if let Some(disk) = &spec.azure_disk {
        Some((AZURE_DISK, &disk.disk_uri))
    } else if let Some(disk) = &spec.cinder {
        Some((CINDER, &disk.volume_id))
    } else {
        None
    }
}
