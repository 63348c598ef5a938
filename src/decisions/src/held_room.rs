//! Room that a Reservation holds for one owner alone is free once that owner has come, and no sooner: the owner may run yet on a
//! node that goes away, wait for others, or be bound by another scheduler. And room that is kept for pods which run yet on such a
//! node: who finds none for it is told.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Holding, MemberKind, NodeRoom, ResourceId, Resources, Sym, Universe};
use berth_scheduling::{admits_node, demands};
use rustc_hash::FxHashMap;

use crate::answer::Answer;
use crate::coming::{Comes, Placed};
use crate::decision::Decision;

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
            let mut on_node: Vec<&mut Placed<'_>> =
                placed.iter_mut().filter(|placed| placed.placement.node == node).collect();
            // In the order of the decision: who uses what an owner's Reservation gives up comes after that one.
            on_node.sort_by_key(|placed| placed.placement.nth);
            for coming in on_node {
                if coming.comes == Comes::Now && !has_room(&mut room, coming, before) {
                    (coming.comes, coming.waits_for) = (Comes::Later, Some(words.clone()));
                    has_changed = true;
                }
            }
        }
        has_changed
    }
}

/// Room on nodes that is kept for pods which are to move there.
#[derive(Debug, Default)]
pub(crate) struct KeptForMoves {
    /// By node: what is kept, and for whom, by `namespace/name`.
    by_node: BTreeMap<usize, (Resources, String)>,
}

impl KeptForMoves {
    /// What the moves of a decision keep.
    pub(crate) fn of(answer: &Answer<'_>, decision: &Decision) -> Self {
        let mut by_node: BTreeMap<usize, (Resources, String)> = BTreeMap::new();
        let Some(before) = answer.state.last_cluster().filter(|_| !decision.moves.is_empty()) else {
            return KeptForMoves::default();
        };
        let (nodes, symbols) = (&answer.cluster.nodes, &answer.cluster.symbols);
        let there = nodes.iter().enumerate().filter(|(_, node)| node.is_up());
        let there: FxHashMap<Sym, usize> = there.map(|(at, node)| (node.name, at)).collect();
        let moving: BTreeMap<(&str, &str), usize> = decision
            .moves
            .iter()
            .filter_map(|moves| {
                let node = *there.get(&symbols.get(&moves.node.key.name)?)?;
                Some(((&*moves.object.key.namespace, &*moves.object.key.name), node))
            })
            .collect();
        for row in before.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
            let (namespace, spec) = (before.symbols.text(row.namespace), before.spec(row.spec));
            for run in row.members.iter().filter(|run| run.numbers.is_none()) {
                let (Some(node), Some(spec)) = (moving.get(&(namespace, &*run.name)), spec) else { continue };
                let pod = || format!("{namespace}/{}", run.name);
                by_node.entry(*node).or_insert_with(|| (Resources::new(), pod())).0.add(&spec.requests);
            }
        }
        KeptForMoves { by_node }
    }

    /// What a pod that finds no room is told, if it would find some were nothing kept.
    pub(crate) fn reason(&self, class: ClassId, cluster: &Cluster, universe: &Universe) -> Option<String> {
        if self.by_node.is_empty() {
            return None;
        }
        // With all preferences given up.
        let demand = demands(cluster, universe, class).pop()?;
        let spec = cluster.spec(demand.spec)?;
        let (node, (_, pod)) = self.by_node.iter().find(|(node, (kept, _))| {
            cluster.nodes.get(**node).is_some_and(|node| {
                let mut free = node.free.clone();
                free.add(kept);
                !spec.requests.fits(&node.free) && spec.requests.fits(&free) && admits_node(cluster, node, &demand)
            })
        })?;
        let node = cluster.symbols.text(cluster.nodes.get(*node)?.name);
        Some(format!("room on node {node} is kept for pod {pod}, which runs yet on a node that goes away"))
    }
}

/// Whether one who comes now finds room beside those before it, and takes it.
fn has_room(room: &mut NodeRoom, coming: &Placed<'_>, before: &Cluster) -> bool {
    let name = &*coming.placement.name;
    if coming.placement.kind == MemberKind::Reservation {
        let known = before.symbols.get(name).and_then(|name| {
            before.reservations_with_ids().find(|(_, known)| known.name == name && known.pre_allocation.is_none())
        });
        // One that is bound to running pods takes what these have.
        let Some((id, reservation)) = known else { return true };
        let holding = Holding::new(id, reservation);
        let has_room = holding.held().fits(room.free());
        return take_if(has_room, || room.hold(holding));
    }
    let Some(requests) = requests_of(before, name) else { return true };
    // One that draws may need more than its Reservation has: what another one gives up.
    let draws_from = coming.placement.draws_from;
    let holding = draws_from.and_then(|id| room.position(id));
    let free = holding.map_or_else(|| room.free().clone(), |holding| room.free_with(holding));
    let is_met = |(id, amount): (ResourceId, i64)| amount <= free.get(id) || before.rules.ignored.contains(&id);
    let has_room = requests.iter().filter(|(_, amount)| *amount > 0).all(is_met);
    take_if(has_room, || {
        room.add_pod(requests, draws_from);
        let spent = draws_from.filter(|id| before.reservation(*id).is_some_and(|known| known.allocate_once));
        spent.map(|id| room.release(id));
    })
}

fn take_if(has_room: bool, take: impl FnOnce()) -> bool {
    if has_room {
        take();
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
