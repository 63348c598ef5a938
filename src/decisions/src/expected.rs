//! Pods and Reservations that nodes were launched for come to these nodes, and are planned for no others meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{
    BoundPod, Cluster, Holding, KeyedMap, KeyedSet, MemberKind, MemberRun, Node, NodeRoom, PendingRow, Phase, PodSpec,
    PreferencePolicy, ReservationId, Resources, RowId, Sym,
};
use berth_scheduling::{ComeFirst, Placement, Waiting};
use rustc_hash::FxHashMap;

use crate::come_first::{comes_later, is_last};
use crate::options::{ExpectedDrawers, ExpectedNodes, WaitedFor, Waits};
use crate::rest::{FreeRooms, Rest};

/// On which nodes somebody is counted who is expected there and found no place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountsOn {
    /// On any where there is room: others may give way there, or what keeps them off may end.
    AnyNode,
    /// On those that come up. On one that is up a rule keeps them off, and nothing is about to change that.
    NodesThatComeUp,
}

/// Where pods and Reservations of each row of the input are expected.
#[derive(Debug, Default)]
pub(crate) struct ExpectedRows {
    /// By row: how many are expected on a node, by index.
    counts: BTreeMap<RowId, BTreeMap<usize, u32>>,
    /// The row of each pod or Reservation that may come to such a node, if it was asked for.
    row_of: KeyedMap<Box<str>, RowId>,
    /// By row: Reservations that come later, most often as their nodes are not up yet, and these nodes, one for each pod that is to draw
    /// from them.
    drawers: BTreeMap<RowId, Vec<(usize, ReservationId)>>,
    /// By row: the names of those who are expected somewhere.
    own: BTreeMap<RowId, BTreeSet<Arc<str>>>,
}

// === impl CountsOn ===

impl CountsOn {
    fn counts(self, node: &Node) -> bool {
        self == CountsOn::AnyNode || node.is_coming_up
    }
}

// === impl ExpectedRows ===

impl ExpectedRows {
    /// Those of a cluster, before anything is placed, with what [`ExpectedRows::settle`] needs.
    pub(crate) fn new(cluster: &Cluster, names: &ExpectedNodes, drawers: &ExpectedDrawers) -> Self {
        let mut rows = ExpectedRows::on_all_nodes(cluster, names);
        for (id, places) in places_of_drawers(cluster, names, drawers) {
            let priority = cluster.row(id).and_then(|row| cluster.spec(row.spec)).map_or(0, |spec| spec.priority);
            // Who comes before its Reservation would take the room of that one.
            let comes_before = |id| cluster.reservation(id).is_some_and(|known| known.priority < priority);
            for (at, reservation) in places {
                if cluster.nodes.get(at).is_some_and(|node| node.is_coming_up) || comes_before(reservation) {
                    rows.drawers.entry(id).or_default().push((at, reservation));
                } else {
                    // One that is alike may draw in its place, and then it takes the room of that one.
                    *rows.counts.entry(id).or_default().entry(at).or_default() += 1;
                }
            }
        }
        let mut all: KeyedSet<&str> = cluster.keyed_set();
        all.extend(names.values().chain(drawers.values()).flat_map(|names| names.iter()).map(|name| &**name));
        let mut name = String::new();
        for id in rows.counts.keys().chain(rows.drawers.keys()) {
            let Some(row) = cluster.row(*id) else { continue };
            let own = rows.own.entry(*id).or_default();
            for run in row.members.iter().filter(|run| run.numbers.is_none()) {
                write_name(&mut name, cluster, row, run);
                if all.contains(&*name) {
                    own.insert(run.name.clone());
                }
                rows.row_of.insert(name.as_str().into(), *id);
            }
        }
        rows
    }

    /// The same, where [`ExpectedRows::settle`] is not asked.
    pub(crate) fn on_all_nodes(cluster: &Cluster, names: &ExpectedNodes) -> Self {
        ExpectedRows::on(cluster, names, |_| true)
    }

    /// Those who are expected on nodes that are up. Who is pending is looked through only where there are some.
    pub(crate) fn on_nodes_that_are_up(cluster: &Cluster, names: &ExpectedNodes) -> Self {
        ExpectedRows::on(cluster, names, |at| cluster.nodes.get(at).is_some_and(|node| !node.is_coming_up))
    }

    fn on(cluster: &Cluster, names: &ExpectedNodes, counts: impl Fn(usize) -> bool) -> Self {
        let mut rows = ExpectedRows { row_of: cluster.keyed_map(), ..ExpectedRows::default() };
        if names.is_empty() {
            return rows;
        }
        let by_name = names.iter().filter_map(|(node, pods)| Some((cluster.symbols.get(node)?, pods)));
        let by_name: FxHashMap<Sym, &Arc<BTreeSet<Box<str>>>> = by_name.collect();
        let mut node_of: KeyedMap<&str, usize> = cluster.keyed_map();
        // A pod expected on several nodes comes to one that is coming up: on one that is up it would be bound by now.
        let rank = |at: usize| {
            let node = cluster.nodes.get(at);
            node.map(|node| (!node.is_coming_up, cluster.symbols.text(node.name)))
        };
        for (at, node) in cluster.nodes.iter().enumerate() {
            for pod in by_name.get(&node.name).filter(|_| counts(at)).into_iter().flat_map(|pods| pods.iter()) {
                let known = node_of.entry(&**pod).or_insert(at);
                if rank(at) < rank(*known) {
                    *known = at;
                }
            }
        }
        if node_of.is_empty() {
            return rows;
        }
        let mut name = String::new();
        for (id, row) in cluster.rows() {
            for run in row.members.iter().filter(|run| run.numbers.is_none()) {
                write_name(&mut name, cluster, row, run);
                if let Some(node) = node_of.get(&*name).filter(|node| !keeps_room(cluster, row, **node)) {
                    *rows.counts.entry(id).or_default().entry(*node).or_default() += 1;
                }
            }
        }
        rows
    }

    /// As the scheduler takes them.
    pub(crate) fn to_schedule(&self) -> berth_scheduling::Expected {
        self.counts.iter().map(|(row, nodes)| (*row, nodes.iter().map(|(node, n)| (*node, *n)).collect())).collect()
    }

    /// These, and those who wait for a Reservation whose node is not up yet.
    pub(crate) fn with_drawers(&self, mut waiting: Waiting) -> Waiting {
        for (row, nodes) in &self.drawers {
            let count = waiting.left.entry(*row).or_default();
            *count = count.saturating_add(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        }
        waiting
    }

    /// Puts those who did not come yet onto their nodes in the cluster, where there is room: nothing else is planned for
    /// them. Others may draw from what Reservations hold there. Says who is to come where.
    pub(crate) fn settle<'p>(
        mut self,
        cluster: &mut Cluster,
        counts_on: CountsOn,
        placed: impl IntoIterator<Item = &'p Placement>,
    ) -> Vec<(Box<str>, usize)> {
        for placement in placed {
            let row = self.row_of.get(&placement.name).and_then(|row| self.counts.get_mut(row));
            if let Some(count) = row.and_then(|nodes| nodes.get_mut(&placement.node)) {
                *count = count.saturating_sub(1);
            }
        }
        for (id, own) in &self.own {
            if let Some(row) = cluster.row_mut(*id) {
                // Others that are alike may be new: what is planned for them now is theirs.
                row.members.sort_by_key(|run| !own.contains(&run.name));
            }
        }
        if self.counts.is_empty() && self.drawers.is_empty() {
            return Vec::new();
        }
        let ids = ids_by_name(cluster);
        let mut settled = Vec::new();
        for (id, nodes) in self.counts {
            let Cluster { pending, nodes: all, specs, symbols, reservations, .. } = &mut *cluster;
            let Some(row) = pending.get_mut(id.index()) else { continue };
            let Some(spec) = specs.get(row.spec.index()) else { continue };
            let (namespace, of) = (row.namespace, (row.spec, row.labels));
            let nodes = nodes.into_iter().filter(|(at, _)| all.get(*at).is_some_and(|node| counts_on.counts(node)));
            let mut rooms = Rooms::new(nodes.collect());
            row.members.retain(|run| {
                let free = |at: usize| all.get(at).map(|node| &node.free);
                let Some(at) = rooms.next_for(run, &spec.requests, free) else { return true };
                let Some(node) = all.get_mut(at) else { return true };
                if row.kind == MemberKind::Reservation {
                    let own = ids.get(&*run.name).filter(|_| node.is_coming_up);
                    match own.and_then(|id| Some((*id, reservations.get_mut(id.index())?))) {
                        Some((id, known)) => {
                            (known.node, known.phase) = (Some(node.name), Phase::Available);
                            change_room(node, |room| room.hold(Holding::new(id, known)));
                        }
                        None => node.free.subtract(&spec.requests),
                    }
                    settled.push((Box::from(&*run.name), at));
                    return false;
                }
                node.free.subtract(&spec.requests);
                node.pods.push(BoundPod::planned(namespace, run.name.clone(), of, None));
                settled.push((format!("{}/{}", symbols.text(row.namespace), run.name).into(), at));
                false
            });
        }
        for (id, places) in self.drawers {
            let Cluster { pending, nodes: all, specs, symbols, reservations, .. } = &mut *cluster;
            let Some(row) = pending.get_mut(id.index()) else { continue };
            let Some(spec) = specs.get(row.spec.index()) else { continue };
            let (namespace, of) = (row.namespace, (row.spec, row.labels));
            let (in_words, mut left) = (symbols.text(namespace), places.into_iter());
            row.members.retain(|run| {
                let Some((at, reservation)) = left.next().filter(|_| run.numbers.is_none()) else { return true };
                settled.push((format!("{in_words}/{}", run.name).into(), at));
                let Some((node, known)) = all.get_mut(at).zip(reservations.get_mut(reservation.index())) else {
                    return false;
                };
                if node.holdings.iter().any(|holding| holding.reservation == reservation) {
                    change_room(node, |room| room.add_pod(&spec.requests, Some(reservation)));
                    node.pods.push(BoundPod::planned(namespace, run.name.clone(), of, Some(reservation)));
                    if known.allocate_once {
                        change_room(node, |room| drop(room.release(reservation)));
                        known.phase = Phase::Succeeded;
                    }
                }
                false
            });
        }
        settled
    }

    /// Where those are to come who find no place now and are expected somewhere, and who else is left; nothing is changed.
    /// `None` where that is not told so easily: the whole is to be decided then.
    pub(crate) fn settle_beside(
        mut self,
        cluster: &Cluster,
        placed: &[Placement],
        names: &ExpectedNodes,
        (first, named_last): (&ComeFirst, &BTreeMap<RowId, BTreeSet<Arc<str>>>),
        counts_on: CountsOn,
    ) -> Option<Settled> {
        // Who draws from a Reservation takes no room of the node.
        if placed.iter().any(|placement| placement.draws_from.is_some()) {
            return None;
        }
        let mut nodes: BTreeSet<usize> = self.counts.values().flat_map(BTreeMap::keys).copied().collect();
        let mut came: KeyedMap<&str, usize> = cluster.keyed_map();
        came.extend(placed.iter().map(|placement| (&*placement.name, placement.node)));
        let mut free: BTreeMap<usize, Resources> = BTreeMap::new();
        let mut left: BTreeMap<RowId, Vec<(&MemberRun, Box<str>)>> = BTreeMap::new();
        for (id, row) in cluster.rows() {
            let requests = &cluster.spec(row.spec)?.requests;
            let namespace = cluster.symbols.text(row.namespace);
            for run in &row.members {
                let name: Box<str> = format!("{namespace}/{}", run.name).into();
                let Some(node) = came.get(&*name) else {
                    left.entry(id).or_default().push((run, name));
                    continue;
                };
                take(&mut free, *node, cluster, requests);
                if let Some(count) = self.counts.get_mut(&id).and_then(|nodes| nodes.get_mut(node)) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        let (mut settled, mut rest) = (Vec::new(), Rest::default());
        let mut own: KeyedSet<&str> = cluster.keyed_set();
        own.extend(names.values().flat_map(|names| names.iter()).map(|name| &**name));
        for (id, mut left) in left {
            let of_row = self.counts.remove(&id);
            if let Some(first) = first.get(&id) {
                left.sort_by_key(|(run, _)| comes_later(run, first));
            }
            if let Some(last) = named_last.get(&id) {
                left.sort_by_key(|(run, _)| is_last(run, last));
            }
            // As where the whole is decided, here as below: rows of which nobody is expected on a node that is known stay in
            // their order.
            if of_row.is_some() {
                left.sort_by_key(|(_, name)| !own.contains(&**name));
            }
            let requests = &cluster.spec(cluster.row(id)?.spec)?.requests;
            let nodes = of_row.unwrap_or_default().into_iter();
            let counts = |at: usize| cluster.nodes.get(at).is_some_and(|node| counts_on.counts(node));
            let mut nodes: Vec<(usize, u32)> = nodes.filter(|(at, _)| counts(*at)).collect();
            nodes.sort_by_key(|(at, _)| {
                cluster.nodes.get(*at).map(|node| (node.is_coming_up, cluster.symbols.text(node.name)))
            });
            let mut rooms = Rooms::new(nodes);
            let (mut others, mut coming) = (Vec::new(), Vec::new());
            for (run, name) in left {
                if run.numbers.is_some() {
                    return None;
                }
                let free_on = |at: usize| free.get(&at).or_else(|| cluster.nodes.get(at).map(|node| &node.free));
                if let Some(at) = rooms.next_for(run, requests, free_on) {
                    take(&mut free, at, cluster, requests);
                    settled.push((name, at));
                    if cluster.nodes.get(at).is_some_and(|node| node.is_coming_up) {
                        coming.push(run.clone());
                    }
                } else {
                    others.push(run.clone());
                }
            }
            if !others.is_empty() {
                rest.rows.push((id, others));
            }
            if !coming.is_empty() {
                rest.expected.push((id, coming));
            }
        }
        let coming_up = cluster.nodes.iter().enumerate().filter(|(_, node)| node.is_coming_up);
        nodes.extend(coming_up.map(|(at, _)| at));
        let mut rooms = FreeRooms::default();
        for at in nodes {
            let Some(node) = cluster.nodes.get(at) else { continue };
            let of_kind = if node.is_coming_up { &mut rooms.coming_up } else { &mut rooms.expected };
            of_kind.push(free.remove(&at).unwrap_or_else(|| node.free.clone()));
        }
        Some(Settled { free: rooms, places: settled, rest })
    }
}

/// Pods for whom nodes come up: those with preferences wait for these, and nobody takes room meanwhile from pods of lower priority.
pub(crate) fn waiting(cluster: &Cluster, expected: &ExpectedNodes, waited_for: &WaitedFor) -> Waiting {
    let mut waiting = Waiting::default();
    if waited_for.is_empty() {
        return waiting;
    }
    let rows = || cluster.rows().filter(|(_, row)| row.kind == MemberKind::Pod && !row.members.is_empty());
    // Below them there is nobody to take room from.
    let lowest = cluster.specs.iter().map(|spec| spec.priority).min();
    let is_lowest = |row: &PendingRow| cluster.spec(row.spec).map(|spec| spec.priority) <= lowest;
    let prefers = |row: &PendingRow| {
        let has_preferences = || cluster.spec(row.spec).is_some_and(PodSpec::has_preferences);
        cluster.preferences != PreferencePolicy::Ignore && has_preferences()
    };
    let mut by_pod: KeyedMap<&str, Waits> = cluster.keyed_map();
    for node in cluster.nodes.iter().filter(|node| node.is_coming_up) {
        let node = cluster.symbols.text(node.name);
        let (Some(pods), Some(waits)) = (expected.get(node), waited_for.get(node)) else { continue };
        by_pod.extend(pods.iter().map(|pod| (&**pod, *waits)));
    }
    if by_pod.is_empty() {
        return waiting;
    }
    let mut name = String::new();
    for (id, row) in rows() {
        let prefers = prefers(row);
        if !prefers && is_lowest(row) {
            continue;
        }
        for run in &row.members {
            write_name(&mut name, cluster, row, run);
            let rows = match by_pod.get(&*name) {
                Some(Waits::ForTheirNode) if prefers => {
                    if run.numbers.is_none() {
                        waiting.named_last.entry(id).or_default().insert(Arc::clone(&run.name));
                    }
                    &mut waiting.left
                }
                Some(_) => &mut waiting.have_nodes,
                None => continue,
            };
            *rows.entry(id).or_default() += 1;
        }
    }
    waiting
}

/// Whether the pods of a row are nominated to this node, which is up. A nomination holds their room already.
fn keeps_room(cluster: &Cluster, row: &PendingRow, node: usize) -> bool {
    let nominated = cluster.spec(row.spec).and_then(|spec| spec.nominated_node);
    let node = cluster.nodes.get(node).filter(|node| !node.is_coming_up);
    row.kind == MemberKind::Pod && node.is_some_and(|node| nominated == Some(node.name))
}

/// A Reservation by its name, a pod by its namespace, too.
pub(crate) fn write_name(name: &mut String, cluster: &Cluster, row: &PendingRow, run: &MemberRun) {
    name.clear();
    if row.kind == MemberKind::Pod {
        name.push_str(cluster.symbols.text(row.namespace));
        name.push('/');
    }
    name.push_str(&run.name);
}

/// What a node has is used, and held, otherwise.
fn change_room(node: &mut Node, change: impl FnOnce(&mut NodeRoom)) {
    let mut room = NodeRoom::of_node(node);
    change(&mut room);
    (node.free, node.holdings) = room.into_parts();
}

/// Reservations that wait for a node of their own, by name.
fn ids_by_name(cluster: &Cluster) -> BTreeMap<Box<str>, ReservationId> {
    let pending = cluster.reservations_with_ids().filter(|(_, known)| {
        known.phase == Phase::Pending && known.pre_allocation.is_none() && known.pod_namespace.is_none()
    });
    pending.map(|(id, known)| (cluster.symbols.text(known.name).into(), id)).collect()
}

/// By row: for each of its pods that is to draw from a pending Reservation, the node on which that is expected.
fn places_of_drawers(
    cluster: &Cluster,
    names: &ExpectedNodes,
    drawers: &ExpectedDrawers,
) -> BTreeMap<RowId, Vec<(usize, ReservationId)>> {
    let mut by_row: BTreeMap<RowId, Vec<(usize, ReservationId)>> = BTreeMap::new();
    if drawers.is_empty() {
        return by_row;
    }
    let pending = ids_by_name(cluster);
    let mut place_of: KeyedMap<&str, (usize, ReservationId)> = cluster.keyed_map();
    for (at, node) in cluster.nodes.iter().enumerate() {
        let expected = names.get(cluster.symbols.text(node.name)).into_iter().flat_map(|names| names.iter());
        for (name, id) in expected.filter_map(|name| Some((name, *pending.get(name)?))) {
            let pods = drawers.get(&**name).into_iter().flat_map(|pods| pods.iter());
            place_of.extend(pods.map(|pod| (&**pod, (at, id))));
        }
    }
    let mut name = String::new();
    for (id, row) in cluster.rows().filter(|(_, row)| row.kind == MemberKind::Pod) {
        for run in row.members.iter().filter(|run| run.numbers.is_none() && !place_of.is_empty()) {
            write_name(&mut name, cluster, row, run);
            if let Some(place) = place_of.get(&*name) {
                by_row.entry(id).or_default().push(*place);
            }
        }
    }
    by_row
}

/// What becomes of pods that find no place now, see [`ExpectedRows::settle_beside`].
#[derive(Debug)]
pub(crate) struct Settled {
    /// Who is to come where, by index of the node.
    pub(crate) places: Vec<(Box<str>, usize)>,
    /// Who is expected nowhere, or where there is no room.
    pub(crate) rest: Rest,
    /// What is left on nodes that come up, and on those where pods were expected.
    pub(crate) free: FreeRooms,
}

fn take(free: &mut BTreeMap<usize, Resources>, at: usize, cluster: &Cluster, requests: &Resources) {
    let known = || cluster.nodes.get(at).map(|node| node.free.clone()).unwrap_or_default();
    free.entry(at).or_insert_with(known).subtract(requests);
}

/// The places that the pods of a row are still expected to take, node by node.
struct Rooms(std::vec::IntoIter<(usize, u32)>, Option<(usize, u32)>);

impl Rooms {
    fn new(nodes: Vec<(usize, u32)>) -> Self {
        let mut nodes = nodes.into_iter();
        let first = nodes.next();
        Rooms(nodes, first)
    }

    /// The node of the next pod; nodes that are full, or not there, are passed over.
    fn next_for<'f>(
        &mut self,
        run: &MemberRun,
        requests: &Resources,
        free: impl Fn(usize) -> Option<&'f Resources>,
    ) -> Option<usize> {
        loop {
            let (at, count) = self.1.as_mut()?;
            if *count == 0 || free(*at).is_none_or(|free| !requests.fits(free)) {
                self.1 = self.0.next();
                continue;
            }
            if run.numbers.is_some() {
                return None;
            }
            *count -= 1;
            return Some(*at);
        }
    }
}
