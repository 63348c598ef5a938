//! Room that a Reservation holds for one owner alone is free once that owner has come, and no sooner: the owner may run yet on a
//! node that goes away, wait for others, or be bound by another scheduler.

use std::collections::BTreeMap;

use berth_model::{Cluster, Holding, MemberKind, NodeRoom, Resources};

use crate::coming::{Comes, Placed};
use crate::decide::Answer;

impl Answer<'_> {
    /// Lets those wait who count on room that a Reservation gives up for an owner which does not come now. Says whether there are
    /// any.
    pub(crate) fn keep_held_room(&self, placed: &mut [Placed<'_>]) -> bool {
        let mut owners: BTreeMap<usize, Box<str>> = BTreeMap::new();
        for owner in placed.iter().filter(|placed| placed.comes != Comes::Now) {
            let drawn = owner.placement.draws_from.and_then(|id| self.cluster.reservation(id));
            if let Some(reservation) = drawn.filter(|known| known.allocate_once) {
                let (pod, room) = (&owner.object.key, self.cluster.symbols.text(reservation.name));
                let words = format!("waiting for pod {}/{} to draw from Reservation {room}", pod.namespace, pod.name);
                owners.entry(owner.placement.node).or_insert_with(|| words.into());
            }
        }
        let Some(before) = self.state.last_cluster().filter(|_| !owners.is_empty()) else { return false };
        let mut has_changed = false;
        for (node, words) in owners {
            let name = self.cluster.nodes.get(node).map_or("", |node| self.cluster.symbols.text(node.name));
            let Some(node_before) = before.nodes.iter().find(|known| before.symbols.text(known.name) == name) else {
                continue;
            };
            let mut room = NodeRoom::of_node(node_before);
            for coming in placed.iter_mut().filter(|placed| placed.placement.node == node) {
                if coming.comes == Comes::Now && !has_room(&mut room, coming, before) {
                    (coming.comes, coming.waits_for) = (Comes::Later, Some(words.clone()));
                    has_changed = true;
                }
            }
        }
        has_changed
    }
}

/// Whether one who comes now finds room beside those before it, and takes it.
fn has_room(room: &mut NodeRoom, coming: &Placed<'_>, before: &Cluster) -> bool {
    let name = &*coming.placement.name;
    if coming.placement.kind == MemberKind::Reservation {
        let known = before.symbols.get(name).and_then(|name| {
            (0_u32..).zip(&before.reservations).find(|(_, known)| known.name == name && known.pre_allocation.is_none())
        });
        // One that is bound to running pods takes what these have.
        let Some((id, reservation)) = known else { return true };
        let holding = Holding::new(id, reservation);
        return takes(room, &holding.held(), |room| room.hold(holding.clone()));
    }
    let Some(requests) = requests_of(before, name) else { return true };
    let draws_from = coming.placement.draws_from;
    let Some(id) = draws_from else {
        return takes(room, requests, |room| room.add_pod(requests, None));
    };
    room.add_pod(requests, draws_from);
    if before.reservation(id).is_some_and(|known| known.allocate_once) {
        room.release(id);
    }
    true
}

fn takes(room: &mut NodeRoom, requests: &Resources, take: impl FnOnce(&mut NodeRoom)) -> bool {
    let has_room = requests.fits(room.free());
    if has_room {
        take(room);
    }
    has_room
}

/// What a pending pod requests, by `namespace/name`.
fn requests_of<'c>(cluster: &'c Cluster, name: &str) -> Option<&'c Resources> {
    let (namespace, name) = name.split_once('/')?;
    let namespace = cluster.symbols.get(namespace)?;
    let mut rows = cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod && row.namespace == namespace);
    let row = rows.find(|row| row.members.iter().any(|run| run.numbers.is_none() && *run.name == *name))?;
    cluster.spec(row.spec).map(|spec| &spec.requests)
}
