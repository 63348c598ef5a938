//! The best node for a class now.

use std::cell::OnceCell;

use berth_model::{ClassId, MemberKind, Sym};

use super::buckets::{Buckets, Version};
use super::caches::Caches;
use super::index::Index;
use super::shape::Shape;
use super::shared::choose_shared;
use super::tables::stands;
use super::weigh::{Lot, on_host};
use super::world::World;
use crate::reservation;

/// A class that may draw from more Reservations than this is looked at with all nodes.
const MOST_OWNED: usize = 64;

/// The node that a pod of the class goes to now, by index; `None` if none takes it. Nothing changes.
pub(super) fn choose(world: World<'_>, caches: &mut Caches, id: ClassId) -> Option<usize> {
    if !may_be_placed(world, id) {
        return None;
    }
    if let Some(node) = choose_among_owned(world, caches, id) {
        return Some(node);
    }
    if let Ok(chosen) = choose_shared(world, caches, id) {
        return chosen;
    }
    let index = caches.take_index(world, id)?;
    let index_id = caches.index_of(id);
    let mut cache = caches.indexes.take_buckets(index_id);
    let version = Version { nodes: world.ledger.groups.version(), launchable: None, generation: index.generation() };
    let known = caches.merges_cells.then(|| cache.take_for(&index.shape, version, &index, world.state));
    let buckets = known.flatten();
    let chosen = if let Some(buckets) = &buckets {
        best_of_buckets(world, &index, buckets)
    } else {
        let cells = world.feasible(&index);
        let lots: Vec<Lot<'_>> = cells.iter().map(|cell| Lot::from(*cell)).collect();
        let best = cells.iter().map(|cell| cell.best());
        world.best_of(&index.shape, &lots, None, best)
    };
    cache.keep(buckets);
    caches.indexes.keep_buckets(index_id, cache);
    caches.indexes.keep(index_id, index, world);
    chosen
}

fn best_of_buckets(world: World<'_>, index: &Index, buckets: &Buckets) -> Option<usize> {
    let (shape, counts) = (&index.shape, &buckets.counts);
    let values = shape.values_with(world.state, counts, |rule| index.least_on_hosts(rule, |_| None));
    let of_all = OnceCell::new();
    let (mut lots, mut best) = (Vec::new(), Vec::new());
    for (_, bucket, key) in buckets.iter(index) {
        let is_admitted = match key.alone {
            None => shape.obstacle_with(&values, counts, &key.domains, |id| on_host(shape, key, id)).is_none(),
            Some(node) => {
                let values = of_all.get_or_init(|| world.values(index));
                world.obstacle(index, values, node as usize).is_none()
            }
        };
        if bucket.nodes > 0 && is_admitted {
            lots.push(Lot { key, nodes: bucket.nodes });
            best.push(bucket.best(|_| None));
        }
    }
    world.best_of(shape, &lots, Some(counts), best.into_iter())
}

/// Whether nothing about the pod itself, or its claims, keeps it off every node.
pub(super) fn may_be_placed(world: World<'_>, id: ClassId) -> bool {
    let spec = world.universe.class(id).and_then(|class| world.cluster.spec(class.spec));
    spec.is_some_and(|spec| {
        let is_taken = |&claim: &Sym| {
            let users = world.state.claim_users(claim);
            let held = || world.owned(spec).filter(|&(_, owned)| world.holds_claim(owned, claim)).count();
            users > 0 && users as usize > held()
        };
        reservation::is_open(spec) && !spec.volumes.exclusive_claims.iter().any(is_taken)
    })
}

// The node of the one Reservation that gives most, of few that the class may draw from: its score outweighs all
// others together, so that other nodes need not be looked at.
fn choose_among_owned(world: World<'_>, caches: &Caches, id: ClassId) -> Option<usize> {
    let (class, spec) = world.class_and_spec(id)?;
    if spec.reservation.owner_of.len() > MOST_OWNED
        || class.kind != MemberKind::Pod
        || caches.indexes.contains(caches.index_of(id))
    {
        return None;
    }
    let mut nodes: Vec<usize> = world.owned(spec).map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if nodes.is_empty() {
        return None;
    }
    let index =
        Some(Index::bare(Shape::of(world.tables, id)?, world)).filter(|index| !index.shape.spreads_over_hosts())?;
    let values = world.values(&index);
    let stands = |node: &usize| world.cluster.node(*node).is_some_and(stands);
    let feasible = nodes.into_iter().filter(stands).filter(|&node| world.obstacle(&index, &values, node).is_none());
    let offers = feasible.filter_map(|node| {
        let seen = world.seen(node, spec)?;
        Some((node, world.room(node, &seen, spec).ok()??.node))
    });
    let (nodes, offers): (Vec<usize>, Vec<reservation::NodeOffer>) = offers.unzip();
    let scores = reservation::raw_scores(&offers);
    let best = scores.iter().copied().max().filter(|best| *best > 0)?;
    let mut of_best = nodes.into_iter().zip(scores).filter(|(_, score)| *score == best).map(|(node, _)| node);
    let node = of_best.next()?;
    of_best.next().is_none().then_some(node)
}
