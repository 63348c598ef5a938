//! DaemonSets that come, change and go: what nodes keep room for.

use k8s_openapi::api::apps::v1::DaemonSet;

use super::{Change, Live, Patched};
use crate::builder::Builder;
use crate::daemons;
use crate::maps::FxIndexSet;

impl Live {
    /// A DaemonSet was created, changed or deleted.
    pub fn daemon_set_changed(&mut self, before: Option<&DaemonSet>, after: Option<&DaemonSet>) -> Patched {
        let read = |reader: &mut Builder, object: Option<&DaemonSet>| {
            object.map_or(Ok(()), |object| reader.add_daemon_set(object))?;
            Ok(reader.workloads.pop())
        };
        let Some((before, after)) = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?))) else {
            return Patched::NeedsRebuild;
        };
        if before == after {
            return Patched::Done;
        }
        // One that another object owns counts as that.
        if self.rooms.owns_daemons || after.as_ref().is_some_and(|after| after.owner.is_some()) {
            return Patched::NeedsRebuild;
        }
        let workloads = &mut self.rooms.workloads;
        if let (Some(before), None) = (&before, &after) {
            workloads.want_none_of((before.kind, before.namespace, before.name));
        }
        if let Some(after) = after {
            workloads.add(after);
        }
        self.keep_room_again();
        if self.has_left_over_much() { Patched::NeedsRebuild } else { Patched::Done }
    }

    /// Whether the template of some DaemonSet has claims.
    pub(super) fn daemons_have_claims(&self) -> bool {
        let workloads = self.rooms.daemons.keys().filter_map(|workload| self.rooms.workloads.get(*workload));
        workloads.into_iter().any(|workload| self.rooms.resolver.has_claims(workload.draft))
    }

    /// What nodes keep room for is looked at again, on all of them.
    pub(super) fn keep_room_again(&mut self) {
        let mut warnings = FxIndexSet::default();
        self.cluster.daemons.clear();
        let daemons = daemons::add(&self.rooms.workloads, &mut self.rooms.resolver, &mut self.cluster, &mut warnings);
        self.rooms.existing.forget_daemons();
        let by_owner = std::mem::take(&mut self.by_daemon_set);
        for (owner, pods) in &by_owner {
            let owner = self.rooms.owners.get_index(*owner as usize);
            let daemon = owner.and_then(|owner| daemons.get(&self.rooms.workloads.root(owner)?).copied());
            for pod in pods {
                let Some(entry) = self.pods.get_mut(pod) else { continue };
                if let Some(more) = &mut entry.more {
                    more.daemon = daemon;
                }
                let place = entry.place;
                let Some(daemon) = daemon else { continue };
                for position in self.expected_on(place) {
                    self.rooms.existing.count_daemon(position, daemon, true);
                }
            }
        }
        (self.by_daemon_set, self.rooms.daemons) = (by_owner, daemons);
        for position in 0..self.cluster.nodes.len() {
            let free = self.cluster.nodes.get(position).map(|node| node.free.clone());
            self.rooms.existing.settle_room(position, &mut self.cluster);
            if free.as_ref() != self.cluster.nodes.get(position).map(|node| &node.free) {
                self.log.push(Change::Room(position));
            }
        }
        // New nodes keep room for them, too.
        self.log.push(Change::Offers);
    }
}
