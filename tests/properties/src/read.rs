//! Objects as they are read, into the conversion.

use berth_convert::{Builder, Options};
use berth_manifests::Object;
use berth_model::Cluster;
use serde_json::{Value, json};

/// The cluster of objects in memory, with a catalogue or none.
///
/// # Errors
/// An object cannot be read or converted.
pub fn cluster(objects: &[Value], catalogue: Option<&Value>) -> anyhow::Result<Cluster> {
    let mut builder = Builder::new(Options::default());
    if let Some(catalogue) = catalogue {
        builder.set_catalogue(&berth_catalogue::read(&serde_json::to_vec(catalogue)?, "catalogue")?)?;
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let text = serde_json::to_vec(&list)?;
    let reading = berth_manifests::Options::default();
    berth_manifests::read_from("objects", text.as_slice(), &reading, |_, object| fold(&mut builder, &object))?;
    Ok(builder.finish()?.cluster)
}

/// Adds an object, if pods and Reservations are placed by it.
///
/// # Errors
/// The object cannot be converted.
pub fn fold(builder: &mut Builder, object: &Object) -> anyhow::Result<()> {
    match object {
        Object::Pod(object) => builder.add_pod(object)?,
        Object::Node(object) => builder.add_node(object)?,
        Object::Namespace(object) => builder.add_namespace(object)?,
        Object::PersistentVolume(object) => builder.add_persistent_volume(object)?,
        Object::PersistentVolumeClaim(object) => builder.add_persistent_volume_claim(object)?,
        Object::Deployment(object) => builder.add_deployment(object)?,
        Object::StatefulSet(object) => builder.add_stateful_set(object)?,
        Object::ReplicaSet(object) => builder.add_replica_set(object)?,
        Object::DaemonSet(object) => builder.add_daemon_set(object)?,
        Object::ReplicationController(object) => builder.add_replication_controller(object)?,
        Object::Service(object) => builder.add_service(object)?,
        Object::Job(object) => builder.add_job(object)?,
        Object::PriorityClass(object) => builder.add_priority_class(object)?,
        Object::StorageClass(object) => builder.add_storage_class(object)?,
        Object::PodDisruptionBudget(object) => builder.add_pod_disruption_budget(object)?,
        Object::CSINode(object) => builder.add_csi_node(object)?,
        Object::NodePool(object) => builder.add_node_pool(object)?,
        Object::Reservation(object) => builder.add_reservation(object)?,
        Object::Device(object) => builder.add_device(object)?,
        Object::NodeResourceTopology(object) => builder.add_node_resource_topology(object)?,
        _ => {}
    }
    Ok(())
}
