//! DaemonSets that come, change and go: what nodes keep room for.

use k8s_openapi::api::apps::v1::DaemonSet;

use super::{Change, Live, Patched, Rooms};
use crate::builder::Builder;
use crate::daemons::{self, NewestPod};
use crate::maps::Texts;

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

    /// The newest pod of each DaemonSet.
    fn newest_daemons(&self) -> daemons::Newest {
        let mut newest = daemons::Newest::default();
        for (owner, pods) in &self.by_daemon_set {
            let owner = self.rooms.owners.get_index(*owner as usize);
            let workload = owner.and_then(|owner| self.rooms.workloads.root(owner));
            let Some((workload, (age, name, namespace))) = workload.zip(pods.last()) else { continue };
            let more = self.pods.get(&(*namespace, name.clone())).and_then(|entry| entry.more.as_ref());
            if let Some(more) = more {
                let pod = NewestPod { age: *age, name: name.clone(), draft: more.draft };
                daemons::note_newest(&mut newest, workload, pod);
            }
        }
        newest
    }

    /// Room is kept for pods as the newest of each DaemonSet.
    pub(super) fn follow_newest_daemons(&mut self) {
        let (newest, Rooms { workloads, resolver, daemons, .. }) = (self.newest_daemons(), &self.rooms);
        let is_other = |(workload, at): (&usize, &usize)| {
            let template = workloads.get(*workload).map(|workload| workload.draft);
            let newest = newest.get(workload).map(|pod| pod.draft);
            let requests = template.and_then(|template| daemons::requests_of(template, newest, resolver));
            let known = self.cluster.daemons.get(*at).and_then(|daemon| self.cluster.spec(daemon.spec));
            known.map(|known| &known.requests) != requests.as_ref()
        };
        if daemons.iter().any(is_other) {
            self.keep_room_again();
        }
    }

    /// What nodes keep room for is looked at again, on all of them.
    pub(super) fn keep_room_again(&mut self) {
        let mut warnings = Texts::with_hasher(self.cluster.symbols.hasher().clone());
        self.cluster.daemons.clear();
        let newest = self.newest_daemons();
        let Rooms { workloads, resolver, .. } = &mut self.rooms;
        let daemons = daemons::add(workloads, &newest, resolver, &mut self.cluster, &mut warnings);
        self.rooms.existing.forget_daemons();
        let by_owner = std::mem::take(&mut self.by_daemon_set);
        for (owner, pods) in &by_owner {
            let owner = self.rooms.owners.get_index(*owner as usize);
            let daemon = owner.and_then(|owner| daemons.get(&self.rooms.workloads.root(owner)?).copied());
            for (_, name, namespace) in pods {
                let Some(entry) = self.pods.get_mut(&(*namespace, name.clone())) else { continue };
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
