//! A node in the eyes of a class: whether it is feasible, in which cell of an index it belongs, and its score of its own.

use berth_model::{Cluster, Node, PodSpec};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cell::CellKey;
use super::shape::Shape;
use super::world::World;
use crate::node_fit::Seen;
use crate::{filter, score};

/// Verdicts that nothing has any more, beside as many as twice the kinds.
const MOST_LEFT_OVER: usize = 256;

/// What a class may expect of nodes of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Verdict {
    pub(super) admits: bool,
    taints: i64,
    affinity: i64,
    /// For its images.
    pub(super) image: i64,
    domains: SmallVec<[u32; 2]>,
}

/// Verdicts on many kinds of nodes, or on nodes: few differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// By kind, or node.
    of: FxHashMap<u32, u32>,
    list: Vec<Verdict>,
    ids: FxHashMap<Verdict, u32>,
}

// === impl Verdicts ===

impl Verdicts {
    pub(super) fn clear(&mut self) {
        *self = Verdicts::default();
    }

    /// On how many kinds, or nodes.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    pub(super) fn get(&self, id: u32) -> Option<&Verdict> {
        self.list.get(*self.of.get(&id)? as usize)
    }

    /// The verdict on a kind, or a node, that is found where it is not known.
    pub(super) fn get_or(&mut self, id: u32, find: impl FnOnce() -> Verdict) -> Option<&Verdict> {
        let at = if let Some(&at) = self.of.get(&id) {
            at
        } else {
            let at = intern(&mut self.list, &mut self.ids, find());
            self.of.insert(id, at);
            at
        };
        self.list.get(at as usize)
    }

    /// It is another one.
    pub(super) fn forget(&mut self, id: u32) {
        self.of.remove(&id);
    }

    /// Takes in what images are worth now, `None` where there is no such node any more. Says what changed.
    pub(super) fn weigh_images<C: Default + Extend<u32>>(&mut self, worth: impl Fn(u32) -> Option<i64>) -> C {
        let Verdicts { of, list, ids } = self;
        let mut changed = C::default();
        of.retain(|&id, at| {
            let (Some(image), Some(known)) = (worth(id), list.get(*at as usize)) else { return false };
            if known.image != image {
                let verdict = Verdict { image, ..known.clone() };
                *at = intern(list, ids, verdict);
                changed.extend([id]);
            }
            true
        });
        if self.list.len() > 2 * self.of.len() + MOST_LEFT_OVER {
            self.tidy();
        }
        changed
    }

    // Forgets verdicts that nothing has any more.
    fn tidy(&mut self) {
        let before = std::mem::take(self);
        for (id, at) in before.of {
            if let Some(verdict) = before.list.get(at as usize) {
                let at = intern(&mut self.list, &mut self.ids, verdict.clone());
                self.of.insert(id, at);
            }
        }
    }
}

fn intern(list: &mut Vec<Verdict>, ids: &mut FxHashMap<Verdict, u32>, verdict: Verdict) -> u32 {
    if let Some(&known) = ids.get(&verdict) {
        return known;
    }
    let next = u32::try_from(list.len()).unwrap_or(u32::MAX);
    list.push(verdict.clone());
    ids.insert(verdict, next);
    next
}

/// What each image of a class weighs on a node that has it.
pub(super) fn image_weights(shape: &Shape, world: World<'_>) -> SmallVec<[i64; 2]> {
    let n_nodes = world.cluster.nodes.len();
    shape.spec.images.names.iter().map(|image| score::image_weight(world.tables.images.get(*image), n_nodes)).collect()
}

/// In which cell a node belongs that is so in the eyes of a class, and its score of its own; `None` where it is not feasible.
pub(super) fn placed(
    shape: &Shape,
    verdict: &Verdict,
    at: usize,
    seen: &Seen<'_>,
    world: World<'_>,
) -> Option<(CellKey, i64)> {
    let spec = &*shape.spec;
    if !verdict.admits || world.reserve_obstacle(shape.class, at).is_some() {
        return None;
    }
    let node = world.cluster.node(at)?;
    let on_node = &*seen.state;
    // Most that do not fit, without saying what is short.
    if seen.matched.is_empty() && !spec.requests.fits(&on_node.free) {
        return None;
    }
    let is_open = filter::ports_are_free(&spec.host_ports, &on_node.ports)
        && filter::disks_are_free(&spec.volumes.disks, &on_node.disks)
        && filter::attachments_fit(&spec.volumes.attachments, &on_node.attached, &node.attach_limits)
        && filter::pools_have(&spec.volumes.kept, &on_node.attached, &node.volume_pools)
        && !shape.is_kept_apart(|counter| on_node.host_counts.get(counter))
        && (spec.volumes.exclusive_claims.is_empty() || !world.is_claim_taken(seen, spec));
    if !is_open {
        return None;
    }
    let offer = world.room(at, seen, spec).ok()?;
    let scored = seen.scored();
    let own =
        verdict.image + score::least_allocated(node, &scored, spec) + score::balanced_allocation(node, &scored, spec);
    // What is held beside is looked at when the cell is.
    let holds = world.held(at, spec.priority).next().is_some();
    let key = CellKey {
        taints: verdict.taints,
        affinity: verdict.affinity,
        domains: verdict.domains.clone(),
        hosts: shape.counts_on_hosts(|counter| on_node.host_counts.get(counter)),
        alone: holds.then(|| u32::try_from(at).unwrap_or(u32::MAX)),
        offer: offer.map(|offer| offer.node),
    };
    Some((key, own))
}

/// How much a node is worth to a class for the images that it has.
pub(super) fn image_locality(node: &Node, spec: &PodSpec, world: World<'_>) -> i64 {
    score::image_locality(node, spec, world.cluster.nodes.len(), |image| world.tables.images.get(image))
}

/// Whether a node admits pods of a spec, as far as its load does not matter.
pub(super) fn admits(cluster: &Cluster, node: &Node, spec: &PodSpec) -> bool {
    filter::before_load(cluster, node, spec).is_none() && filter::volumes(cluster, node, spec).is_none()
}

/// What a class may expect of a node, whatever is on it.
pub(super) fn verdict(shape: &Shape, node: &Node, world: World<'_>) -> Verdict {
    let (cluster, spec) = (world.cluster, &*shape.spec);
    Verdict {
        admits: admits(cluster, node, spec),
        taints: score::untolerated_preferences(&node.taints, spec, &cluster.symbols),
        affinity: score::preferred_terms(cluster, node, spec),
        image: image_locality(node, spec, world),
        domains: shape.domains_of(node),
    }
}
