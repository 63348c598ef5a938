//! Pods that are Reservations say who draws from them, as Koordinator's schedulers read it. What they hold depends on whether
//! that pod is there, not on what is still written.

use std::sync::Arc;

use berth_api::ReservationReference;
use berth_api::labels::koordinator::RESERVATION_CURRENT_OWNER;
use serde_json::{Value, json};

use super::{Core, Job};
use crate::kind::{Kind, NamedObject};
use crate::view::{PodName, PodRecord};
use crate::write::{Op, Write};

impl Core {
    /// Writes to a pod that is a Reservation who draws from it, or that nobody does any more.
    pub(super) fn tell_owner(&mut self, pod: &PodName) {
        let job = Job::CurrentOwner(pod.clone());
        let Some(record) = self.view.pods.get(pod).cloned() else { return self.queue.forget(&job) };
        let (Some(node), Some(told)) = (&record.node, &record.room) else { return };
        if record.is_finished || record.deletion.is_some() || !self.is_scheduler_served(Some(&record.scheduler_name)) {
            return;
        }
        if self.is_there(told, &record) {
            return;
        }
        let owner = self.owner_on(node, &record);
        if owner.is_none() && **told == ReservationReference::default() {
            return;
        }
        let owner = owner.map_or(Value::Null, |owner| {
            let PodName { namespace, name } = &owner.name;
            json!({"namespace": namespace, "name": name, "uid": owner.uid}).to_string().into()
        });
        let patch = json!({"metadata": {"annotations": {RESERVATION_CURRENT_OWNER: owner}}});
        let key = NamedObject::namespaced(Kind::Pod, pod.namespace.clone(), pod.name.clone());
        self.write(job, Write { key, uid: record.uid.clone(), op: Op::Merge(patch) });
    }

    /// The pod on a node that draws from a pod there.
    fn owner_on(&self, node: &str, room: &PodRecord) -> Option<Arc<PodRecord>> {
        let mut on_node = self.view.pods_on(node).filter(|other| other.is_active());
        on_node
            .find(|other| other.draws_from.as_deref().is_some_and(|from| from.names(&room.name.name, &room.uid)))
            .cloned()
    }

    /// Whether the pod that has come, as is told, has not ended yet.
    fn is_there(&self, told: &ReservationReference, room: &PodRecord) -> bool {
        let namespace = if told.namespace.is_empty() { &room.name.namespace } else { &told.namespace };
        let owner = self.view.pods.get(&PodName { namespace: namespace.clone(), name: told.name.clone() });
        owner.is_some_and(|owner| owner.is_active() && (told.uid.is_empty() || told.uid == owner.uid))
    }
}
