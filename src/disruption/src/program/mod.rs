//! The cluster as a packing program: which nodes may go, what their pods ask for, what room other nodes have, and what
//! new nodes would cost.
//!
//! It sees what does not depend on other pods: requests, taints, labels, volumes. Topology, ports and the scheduler's own
//! choice are beyond it, so what it finds is a proposal that what-ifs check.

mod anew;
mod bound;
mod offers;
mod places;

pub(crate) use bound::lower_bound;

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::ExpectedNodes;
use berth_model::{BoundPod, Cluster, Insists, Labels, MemberKind, Node, PodSpec, SpecId, Sym};
use berth_packing::{Consolidated, Consolidation, ExistingNode, Movable, Offer, Problem, consolidate};
use berth_scheduling::filter;
use berth_state::{State, is_remade};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use self::offers::offers;
use self::places::{Domains, GroupId, Places};
use crate::Options;
use crate::candidate::Candidate;
use crate::simulate::{self, Insisting};
use crate::survey::Survey;
use crate::worth::cost_of;

/// Nodes times sorts of pods above which there is no program: it would take longer than what-ifs.
const MOST_CELLS: usize = 20_000_000;
/// Nodes that a search may look at, once for each pod that is placed.
struct Work {
    without_new: u64,
    /// Each search that may launch new nodes.
    with_new: u64,
}
const WORK: Work = Work { without_new: 40_000_000, with_new: 15_000_000 };
/// Where spot may make way for spot, nearly every node may be replaced: so there is more to find with new nodes.
const WORK_OF_SPOT: Work = Work { without_new: 100_000_000, with_new: 100_000_000 };
/// The same where it is asked again and again.
const WORK_NOW: Work = Work { without_new: 3_000_000, with_new: 3_000_000 };
const WORK_OF_SPOT_NOW: Work = Work { without_new: 10_000_000, with_new: 10_000_000 };
/// By how much more a pod costs on a new node than its dual price says, as shares: that price is of nodes that are shared to
/// the last, and where all is the same no node is launched. A larger share launches fewer nodes, which are fuller.
const MARGINS: [f64; 6] = [0.01, 0.0, 0.02, 0.03, 0.06, 0.1];
/// The same where it is asked again and again, or the cluster is large.
const MARGINS_NOW: [f64; 1] = [0.01];
/// Nodes times sorts of pods above which a cluster is large in that respect.
const MANY_CELLS: usize = 1_000_000;
/// Searches in turn that find what was proposed before, after which there is no other.
const MOST_SAME: usize = 3;
/// A price of an eviction to choose between ends that cost the same: this share of what all costs, for each pod.
const LEAST_PRICE: f64 = 1e-6;

/// A pod that moves, and the node that it moves to, by name.
pub(crate) type Move = (Box<str>, String);

/// The same in a second round, whose prices are those of the pods that the first one would launch nodes for.
const MARGINS_AGAIN: [f64; 3] = [0.0, 0.02, 0.05];

/// The program of a cluster.
pub(crate) struct Program {
    problem: Consolidation,
    /// New nodes for all pods that could move, from which their prices are.
    packing: Problem,
    /// By bin: the node's name.
    names: Vec<String>,
    work: Work,
    /// By how much more than estimated a pod costs on a new node, as a share: a proposal for each.
    margins: &'static [f64],
    /// By bin that may be emptied: its pods that come again.
    pods: Vec<Vec<Pod>>,
    domains: Domains,
    /// By bin: the candidate, by index.
    candidates: Vec<Option<usize>>,
    /// Whether it knows all about every candidate, but what depends on other pods.
    is_whole: bool,
}

/// A pod that comes again where its node goes.
struct Pod {
    /// `namespace/name`.
    name: Box<str>,
    sort: u32,
    group: Option<GroupId>,
}

/// Nodes to remove where new ones are launched, one proposal after another: each takes a search of its own.
pub(crate) struct Proposals<'p> {
    program: &'p Program,
    /// The same program at other prices, once these are tried.
    again: Option<Consolidation>,
    margins: std::slice::Iter<'static, f64>,
    /// By sort: how many pods come to new nodes in the first proposal.
    first: Option<Vec<u32>>,
    /// What was found without new nodes.
    without: Consolidated,
    /// The margin at which nothing is launched, nor at a larger one.
    too_dear: f64,
    given: Vec<Vec<Leaving>>,
    /// Searches in turn that have found what was given before.
    n_same: usize,
    /// What is saved most, in dollars an hour.
    most: f64,
}

/// A node that is to go, as the program would have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaving {
    /// The candidate, by index.
    pub(crate) candidate: usize,
    /// Where its pods go that come to nodes that are there.
    pub(crate) moves: Vec<Move>,
    /// Whether some of its pods come to new nodes.
    pub(crate) launches: bool,
}

/// What makes pods of one sort: what they ask for, and by whom they may not be joined.
type Kind = (SpecId, Option<(Sym, KeptAway)>);

/// Of each rule that keeps others off the node: whether that is about a pod like this; and how many such pods a node holds at most.
type KeptAway = (Vec<bool>, u32);

// === impl Program ===

impl Program {
    /// The program in which these candidates may go, whatever budgets let go at a time, and these pods keep what they prefer. `None`
    /// where the cluster is too large for it.
    pub(crate) fn of(
        state: &State,
        (candidates, insists): (&[Candidate], &[Insisting]),
        (survey, options): (&Survey, &Options),
    ) -> Option<Self> {
        let cluster = state.last_cluster()?;
        let nodes = nodes_by_name(cluster);
        let symbols = &cluster.symbols;
        let by_name: BTreeMap<Sym, usize> = candidates
            .iter()
            .enumerate()
            .filter_map(|(at, candidate)| Some((symbols.get(&candidate.node.key.name)?, at)))
            .collect();
        let mut pools: BTreeMap<&str, u32> = BTreeMap::new();
        for candidate in candidates {
            let next = u32::try_from(pools.len()).unwrap_or(u32::MAX);
            pools.entry(&candidate.pool).or_insert(next);
        }
        let held = held_rooms(cluster, &options.decisions.expected);
        let mut sorts = Sorts::new(cluster);
        let insists: BTreeMap<Box<str>, Insists> =
            insists.iter().map(|(pod, on)| (simulate::by_name(&pod.key), *on)).collect();
        let mut program = Program {
            problem: Consolidation::default(),
            packing: Problem::default(),
            work: match (options.only_now, options.spot_to_spot) {
                (false, false) => WORK,
                (false, true) => WORK_OF_SPOT,
                (true, false) => WORK_NOW,
                (true, true) => WORK_OF_SPOT_NOW,
            },
            margins: &MARGINS_NOW,
            names: Vec::new(),
            pods: Vec::new(),
            domains: Domains::default(),
            candidates: Vec::new(),
            is_whole: true,
        };
        let mut groups = Vec::with_capacity(nodes.len());
        for &node in &nodes {
            let candidate = by_name.get(&node.name).copied();
            let known = candidate.and_then(|at| candidates.get(at));
            let mut holds: BTreeMap<u32, u32> = BTreeMap::new();
            let mut pods: Vec<Pod> = Vec::new();
            // In an order that does not depend on what was tried before.
            let mut again: Vec<&BoundPod> = node.pods.iter().filter(|pod| pod.replaced_by.is_some()).collect();
            again.sort_by(|a, b| (symbols.text(a.namespace), &a.name).cmp(&(symbols.text(b.namespace), &b.name)));
            let of_node = program.domains.groups_of(cluster, &again);
            for (pod, group) in again.into_iter().zip(&of_node) {
                let name: Box<str> = format!("{}/{}", symbols.text(pod.namespace), pod.name).into();
                let sort = sorts.id_of(pod, insists.get(&name).copied().unwrap_or_default())?;
                *holds.entry(sort).or_default() += 1;
                pods.push(Pod { name, sort, group: *group });
            }
            groups.push(of_node);
            let is_told = node.holdings.is_empty() && !node.pods.iter().any(|pod| is_beyond(state, cluster, pod));
            program.is_whole &= is_told || known.is_none();
            let pool = known.filter(|_| is_told).and_then(|known| pools.get(known.pool.as_str()).copied());
            let mut room = node.free.clone();
            held.get(&node.name).into_iter().flatten().for_each(|spec| room.subtract(&spec.requests));
            program.problem.bins.push(ExistingNode {
                cost: known.map_or(0.0, |known| cost_of(known, options).dollars()),
                disruption: known.map_or(0.0, |known| known.cost.in_pods()),
                holds: holds.into_iter().collect(),
                free: room.amounts().to_vec(),
                pool,
                ..ExistingNode::default()
            });
            program.names.push(symbols.text(node.name).to_owned());
            program.pods.push(if pool.is_some() { pods } else { Vec::new() });
            program.candidates.push(candidate);
        }
        program.domains.count_all(&nodes, &groups);
        let bins = &program.problem.bins;
        let all: f64 = bins.iter().map(|bin| bin.cost).sum();
        let disruption: f64 = bins.iter().map(|bin| bin.disruption).sum();
        let least = LEAST_PRICE * all / disruption.max(1.0);
        program.problem.price = options.eviction_price.dollars().max(least);
        program.problem.most = vec![u32::MAX; pools.len()];
        let specs: Vec<&PodSpec> = sorts.movables.iter().map(|(spec, _)| *spec).collect();
        program.problem.items = sorts.into_items(&nodes)?;
        let mut offers = offers(cluster, &specs, (survey, &BTreeSet::new()), options);
        program.merge_sorts(&mut offers);
        if !options.only_now && nodes.len().saturating_mul(program.problem.items.len()) <= MANY_CELLS {
            program.margins = &MARGINS;
        }
        program.add_new_nodes(offers, options);
        Some(program)
    }

    /// Makes one of sorts that differ by what the program does not see, as by the selector of a spread: each sort is looked for
    /// by itself.
    fn merge_sorts(&mut self, offers: &mut [Offer]) {
        let problem = &mut self.problem;
        let mut offered: Vec<Vec<usize>> = vec![Vec::new(); problem.items.len()];
        for (at, offer) in offers.iter().enumerate() {
            offer.admits.ones().for_each(|sort| offered.get_mut(sort).into_iter().for_each(|known| known.push(at)));
        }
        let mut merged: Vec<Movable> = Vec::new();
        let mut known: FxHashMap<_, u32> = FxHashMap::default();
        let mut of: Vec<u32> = Vec::with_capacity(offered.len());
        for ((item, offered), own) in problem.items.iter().zip(offered).zip(0_u32..) {
            // Of those of which a node holds one at most each is counted by itself.
            let own = (item.at_most != u32::MAX).then_some(own);
            let next = u32::try_from(merged.len()).unwrap_or(u32::MAX);
            let id = *known.entry((&item.size, &item.admitted_by, offered, own)).or_insert(next);
            if id == next {
                merged.push(item.clone());
            }
            of.push(id);
        }
        let of = |sort: u32| of.get(sort as usize).copied().unwrap_or(sort);
        for bin in &mut problem.bins {
            let mut holds: BTreeMap<u32, u32> = BTreeMap::new();
            bin.holds.iter().for_each(|(sort, count)| *holds.entry(of(*sort)).or_default() += count);
            bin.holds = holds.into_iter().collect();
        }
        self.pods.iter_mut().flatten().for_each(|pod| pod.sort = of(pod.sort));
        for offer in offers {
            let mut admits = FixedBitSet::with_capacity(merged.len());
            admits.extend(offer.admits.ones().filter_map(|sort| Some(of(u32::try_from(sort).ok()?) as usize)));
            offer.admits = admits;
        }
        problem.items = merged;
    }

    /// How many sorts of pods it tells apart.
    #[cfg(test)]
    pub(crate) fn n_sorts(&self) -> usize {
        self.problem.items.len()
    }

    /// Whether it knows all about every candidate, but what depends on other pods.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The nodes to remove, those first that save most for what they disrupt: without new nodes, and proposals with them. There
    /// are several of these, as what pods cost on new nodes is an estimate.
    pub(crate) fn solve(&self) -> (Vec<Leaving>, Proposals<'_>) {
        let mut without_new = self.problem.clone();
        without_new.bins.truncate(self.names.len());
        without_new.items.iter_mut().for_each(|item| item.anew = None);
        let without = consolidate(&without_new, None, self.work.without_new);
        let leaving = self.leaving(without.clone());
        (leaving, Proposals::new(self, without))
    }

    fn leaving(&self, Consolidated { emptied, moved, .. }: Consolidated) -> Vec<Leaving> {
        let mut places = Places::new(&self.domains, &moved);
        let mut leaving = Vec::with_capacity(emptied.len());
        // As one command after another has it: those that go later are yet where they are.
        for bin in emptied {
            let Some(candidate) = self.candidates.get(bin).copied().flatten() else { continue };
            let pods = self.pods.get(bin).map_or(&[][..], Vec::as_slice);
            pods.iter().filter_map(|pod| pod.group).for_each(|group| places.leave(group, bin));
            let moves = pods.iter().filter_map(|pod| {
                let to = places.take(pod.sort, pod.group, bin)?;
                Some((pod.name.clone(), self.names.get(to)?.clone()))
            });
            let moves: Vec<Move> = moves.collect();
            leaving.push(Leaving { candidate, launches: moves.len() < pods.len(), moves });
        }
        leaving
    }
}

// === impl Proposals ===

impl<'p> Proposals<'p> {
    /// Whether there was any.
    pub(crate) fn has_given(&self) -> bool {
        !self.given.is_empty()
    }

    /// What new nodes may save at most beside what is saved without, as the program estimates it, in dollars an hour.
    pub(crate) fn hoped(&self) -> f64 {
        self.most - self.without.saved
    }

    fn new(program: &'p Program, without: Consolidated) -> Self {
        let problem = &program.problem;
        let has_new = problem.bins.len() > program.names.len() || problem.items.iter().any(|item| item.anew.is_some());
        let margins = if has_new { program.margins } else { &[] };
        Proposals {
            program,
            again: None,
            margins: margins.iter(),
            first: None,
            too_dear: f64::INFINITY,
            given: Vec::new(),
            n_same: 0,
            most: without.saved,
            without,
        }
    }

    /// Goes on with the prices of the pods that the first proposal would launch nodes for, where there is time for more than
    /// one proposal.
    fn begin_again(&mut self) -> Option<()> {
        let is_open = self.again.is_none() && self.program.margins.len() > 1;
        let first = self.first.take().filter(|anew| is_open && anew.iter().any(|count| *count > 0))?;
        self.again = Some(self.program.priced_for(&first)?);
        self.margins = MARGINS_AGAIN.iter();
        self.too_dear = f64::INFINITY;
        Some(())
    }
}

impl Iterator for Proposals<'_> {
    type Item = Vec<Leaving>;

    /// The next one that launches nodes and was not given yet.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(margin) = self.margins.find(|margin| **margin < self.too_dear) else {
                self.begin_again()?;
                continue;
            };
            let problem = dearer(self.again.as_ref().unwrap_or(&self.program.problem), *margin);
            // Not from the last one: of ends that cost the same, decisions make more or less.
            let found = consolidate(&problem, Some(&self.without), self.program.work.with_new);
            self.first.get_or_insert_with(|| found.anew.clone());
            self.most = self.most.max(found.saved);
            let leaving = self.program.leaving(found);
            if !leaving.iter().any(|leaving| leaving.launches) {
                self.too_dear = *margin;
            } else if self.given.contains(&leaving) {
                self.n_same += 1;
            } else {
                self.n_same = 0;
                self.given.push(leaving.clone());
                return Some(leaving);
            }
            if self.n_same >= MOST_SAME {
                return None;
            }
        }
    }
}

/// A program in which pods cost more on new nodes, by a share.
fn dearer(problem: &Consolidation, margin: f64) -> Consolidation {
    let mut problem = problem.clone();
    for price in problem.items.iter_mut().filter_map(|item| item.anew.as_mut()) {
        *price *= 1.0 + margin;
    }
    problem
}

/// By node: the specs of pending pods that are expected there, whose room is nobody else's.
fn held_rooms<'c>(cluster: &'c Cluster, expected: &ExpectedNodes) -> BTreeMap<Sym, Vec<&'c PodSpec>> {
    let mut held: BTreeMap<Sym, Vec<&PodSpec>> = BTreeMap::new();
    if expected.is_empty() {
        return held;
    }
    let known = expected.iter().filter_map(|(node, pods)| Some((cluster.symbols.get(node)?, pods)));
    let node_of: BTreeMap<&str, Sym> =
        known.flat_map(|(node, pods)| pods.iter().map(move |pod| (&**pod, node))).collect();
    let mut name = String::new();
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
        let Some(spec) = cluster.spec(row.spec) else { continue };
        for run in row.members.iter().filter(|run| run.numbers.is_none()) {
            name.clear();
            name.extend([cluster.symbols.text(row.namespace), "/", &run.name]);
            if let Some(node) = node_of.get(&*name) {
                held.entry(*node).or_default().push(spec);
            }
        }
    }
    held
}

/// The nodes that take pods.
fn nodes_by_name(cluster: &Cluster) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = cluster.nodes.iter().filter(|node| node.is_up()).collect();
    nodes.sort_by_key(|node| cluster.symbols.text(node.name));
    nodes
}

/// Whether what becomes of a pod is beyond the program, should its node go: nobody makes another, or it draws from a
/// Reservation.
fn is_beyond(state: &State, cluster: &Cluster, pod: &BoundPod) -> bool {
    if pod.draws_from.is_some() {
        return true;
    }
    let record = || state.pod(cluster.symbols.text(pod.namespace), &pod.name);
    pod.replaced_by.is_none() && record().is_some_and(|record| is_remade(record))
}

/// The sorts of pods that come again.
struct Sorts<'c> {
    cluster: &'c Cluster,
    ids: BTreeMap<Kind, u32>,
    /// By sort: the spec, and how many a node holds at most.
    movables: Vec<(&'c PodSpec, u32)>,
}

// === impl Sorts ===

impl<'c> Sorts<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        Sorts { cluster, ids: BTreeMap::new(), movables: Vec::new() }
    }

    fn id_of(&mut self, pod: &BoundPod, insists: Insists) -> Option<u32> {
        let id = pod.replaced_by?;
        let spec = self.cluster.spec(id)?;
        let labels = self.cluster.labels(pod.labels)?;
        let keeps_away = self.keeps_away(spec, labels, insists);
        let (_, at_most) = keeps_away;
        // Who keeps its like away is of one sort with its like alone, whatever else they are called: each pod of a StatefulSet has
        // a label of its own.
        let own = (at_most != u32::MAX).then_some((pod.namespace, keeps_away));
        let next = u32::try_from(self.movables.len()).ok()?;
        let movables = &mut self.movables;
        Some(*self.ids.entry((id, own)).or_insert_with(|| {
            movables.push((spec, at_most));
            next
        }))
    }

    fn keeps_away(&self, spec: &PodSpec, labels: &Labels, insists: Insists) -> KeptAway {
        let Cluster { symbols, well_known, .. } = self.cluster;
        let [_, _, anti_affinity, spread] = spec.places_of_preferences();
        let preferred = (anti_affinity..).zip(&spec.preferred_anti_affinity).filter(|(place, _)| insists.has(*place));
        let terms = spec.anti_affinity.iter().chain(preferred.map(|(_, (_, term))| term));
        let terms = terms.filter(|term| term.key == well_known.hostname);
        let rules: Vec<bool> = terms.map(|term| term.selector.matches(labels, symbols)).collect();
        if spec.excludes_its_like() || rules.contains(&true) {
            return (rules, 1);
        }
        let preferred = spec.spread.iter().filter(|spread| !spread.is_required);
        let held = (spread..).zip(preferred).filter(|(place, _)| insists.has(*place)).map(|(_, spread)| spread);
        let held = held.filter(|spread| spread.key == well_known.hostname && spread.selector.matches(labels, symbols));
        (rules, held.map(|spread| spread.max_skew).min().unwrap_or(u32::MAX))
    }

    /// `None` where there would be too much to look at.
    fn into_items(self, nodes: &[&Node]) -> Option<Vec<Movable>> {
        if nodes.len().saturating_mul(self.movables.len()) > MOST_CELLS {
            return None;
        }
        let admits = |spec: &PodSpec| {
            let mut admitted_by = FixedBitSet::with_capacity(nodes.len());
            for (at, node) in nodes.iter().enumerate() {
                let has_obstacle = filter::before_load(self.cluster, node, spec).is_some()
                    || filter::volumes(self.cluster, node, spec).is_some();
                admitted_by.set(at, !has_obstacle);
            }
            admitted_by
        };
        let movable = |(spec, at_most): &(&PodSpec, u32)| Movable {
            size: spec.requests.amounts().to_vec(),
            admitted_by: admits(spec),
            at_most: *at_most,
            anew: None,
        };
        Some(self.movables.iter().map(movable).collect())
    }
}
