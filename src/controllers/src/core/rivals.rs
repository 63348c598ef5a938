//! Other schedulers that bind pods to nodes on which Berth binds, too: neither knows what the other is about to do.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::Core;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::view::{PodRecord, pool_of};

impl Core {
    /// Warns on a node where a pod comes to it that Berth did not bind, though it binds there. To be asked before the view
    /// knows of it.
    pub(super) fn watch_rivals(&mut self, observed: &Observed, now: Timestamp) {
        let Observed::Applied(Object::Pod(pod)) = observed else { return };
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        if node_of(pod).is_none() || self.own_bindings.remove(uid).is_some() {
            return;
        }
        if let Some(notice) = self.rival(pod) {
            self.tell(notice, now);
        }
    }

    fn rival(&self, pod: &Pod) -> Option<Notice> {
        let record = PodRecord::new(pod)?;
        let known = self.view.pods.get(&record.name).filter(|known| known.uid == record.uid)?;
        // What was bound when it was first seen may have been bound by whoever made it, or before this process started.
        if known.node.is_some() || record.is_of_daemon_set || record.is_static {
            return None;
        }
        let node = self.view.nodes.get(record.node.as_ref()?)?;
        pool_of(&node.metadata)?;
        let is_ours = |pod: &PodRecord| {
            let names = self.options.scheduler_names.as_ref();
            names.is_none_or(|names| names.contains(&pod.scheduler_name))
        };
        let name = &record.scheduler_name;
        let who = if is_ours(&record) {
            format!("another process binds pods of scheduler {name:?} to this node")
        } else {
            let node = record.node.as_deref()?;
            let mut own = self.view.pods_on(node).filter(|pod| !pod.is_of_daemon_set && !pod.is_static);
            own.any(|pod| is_ours(pod)).then(|| format!("scheduler {name:?} binds pods to this node, too"))?
        };
        let message = format!(
            "{who}: it may take room that was planned for others. Keep their pods apart, by a taint on the NodePool for \
             instance"
        );
        Some(Notice::about(Kind::Node, &node.metadata, "AnotherSchedulerBinds", message))
    }

    /// Forgets bindings of pods that are gone.
    pub(super) fn forget_own_bindings(&mut self) {
        self.own_bindings.retain(|uid, pod| self.view.pods.uid(pod) == Some(uid));
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}
