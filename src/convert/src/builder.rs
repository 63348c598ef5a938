//! Objects are folded in one at a time, in any order; what they mean together is decided at the end.

use berth_model::Cluster;
use k8s_openapi::api::{apps, batch, core, scheduling, storage};

use crate::{ConvertError, Options};

/// Folds objects into a [`Cluster`]. Each `add_*` reads one object and keeps little of it. Of several objects of one
/// kind and name the last counts. Errors are those of the object given; nothing of it is kept then.
pub struct Builder {
    #[allow(dead_code)]
    options: Options,
}

/// What became of the objects.
pub struct Converted {
    /// The input of every decision.
    pub cluster: Cluster,
    /// What people should know, a line each, in a fixed order.
    pub warnings: Vec<String>,
}

macro_rules! adders {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {
        impl Builder {
            $($(#[$doc])* pub fn $name(&mut self, object: &$type) -> Result<(), ConvertError> { let _ = object; Ok(()) })*
        }
    };
}

adders! {
    /// A pod, pending or bound.
    add_pod(core::v1::Pod);
    /// A node.
    add_node(core::v1::Node);
    /// A namespace with its labels.
    add_namespace(core::v1::Namespace);
    /// A ReplicationController.
    add_replication_controller(core::v1::ReplicationController);
    /// A volume.
    add_persistent_volume(core::v1::PersistentVolume);
    /// A claim.
    add_persistent_volume_claim(core::v1::PersistentVolumeClaim);
    /// A Deployment.
    add_deployment(apps::v1::Deployment);
    /// A StatefulSet.
    add_stateful_set(apps::v1::StatefulSet);
    /// A ReplicaSet.
    add_replica_set(apps::v1::ReplicaSet);
    /// A DaemonSet.
    add_daemon_set(apps::v1::DaemonSet);
    /// A Job.
    add_job(batch::v1::Job);
    /// A CronJob.
    add_cron_job(batch::v1::CronJob);
    /// A PriorityClass.
    add_priority_class(scheduling::v1::PriorityClass);
    /// A StorageClass.
    add_storage_class(storage::v1::StorageClass);
    /// A CSINode with attach limits.
    add_csi_node(storage::v1::CSINode);
}
// To come when berth_api has the types, all with the same shape:
// add_node_pool(&NodePool), add_node_claim(&NodeClaim), add_node_overlay(&NodeOverlay), add_reservation(&Reservation),
// and set_catalogue(&mut self, &berth_catalogue::Catalogue).

impl Builder {
    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        Builder { options }
    }

    /// What all the objects mean together.
    ///
    /// # Errors
    /// Only what no single object could show.
    pub fn finish(self) -> Result<Converted, ConvertError> {
        Ok(Converted {
            cluster: Cluster::new(),
            warnings: Vec::new(),
        })
    }
}
