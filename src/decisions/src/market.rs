//! What new nodes would cost for pods that find no place: a bound first, then whether a single node or a quick packing costs less,
//! then whether whole nodes that cost less could have the room at all. A search is for what is left.

use std::cell::OnceCell;

use berth_model::{ClassId, Cluster, KeyedMap, MemberKind, Money, Phase, Resources, Universe};
use berth_provisioning::{Floor, Launching, NewNodes, Trials};
use berth_scheduling::{Counted, Scheduler};

use crate::beside;
use crate::options::Options;

/// A node to ask about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its name.
    pub node: &'a str,
    /// New nodes are of interest where they cost less than this, in dollars an hour.
    pub below: Money,
    /// Whether any new nodes that cost less will do, whatever they are. Else they are to be named.
    pub takes_any: bool,
    /// New nodes on slots alone are of interest also where they cost less than this by the price list.
    pub below_on_slots: Option<Money>,
}

/// Pods that need new nodes, by class.
pub(crate) type Left = Vec<(ClassId, u32)>;

/// What was found of a node, by position.
pub(crate) enum Found {
    Unknown,
    /// New nodes that cost less, by a quick packing or a search.
    Cheaper {
        node: usize,
        pods: usize,
        nodes: NewNodes,
        is_searched: bool,
    },
    Fits {
        node: usize,
        pods: usize,
    },
    NoPlace {
        node: usize,
        pods: usize,
    },
    Dearer {
        node: usize,
        pods: usize,
        floor: Money,
        is_searched: bool,
    },
    /// Pods by position on the node, and their classes: new nodes are to be planned for them.
    Open {
        node: usize,
        pods: Vec<usize>,
        left: Left,
    },
}

impl Found {
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Found::Unknown => None,
            Found::Fits { node, .. }
            | Found::NoPlace { node, .. }
            | Found::Dearer { node, .. }
            | Found::Cheaper { node, .. }
            | Found::Open { node, .. } => Some(*node),
        }
    }
}

/// What may be launched for pods that find no place.
pub(crate) struct Market<'a> {
    cluster: &'a Cluster,
    /// The same without nodes, once it is asked for.
    supply: &'a OnceCell<Cluster>,
    universe: &'a Universe,
    launching: &'a Launching,
    options: &'a Options,
    floor: Floor<'a>,
    /// Of free slots, by the price list.
    floor_on_slots: Floor<'a>,
    trials: Option<Trials<'a>>,
    /// Whether the floor is of prices alone.
    is_of_prices: bool,
    /// Whether nothing that is not on a node has a say in what is launched: nobody waits for a place, or nodes were launched
    /// for all who do.
    nobody_waits: bool,
    /// Whether new nodes may be planned as if there were no others: no limits count those that are there.
    is_separable: bool,
    /// What is left on nodes that come up, which take pods before any is launched.
    coming_up: Vec<Resources>,
    most_searches: usize,
    n_searched: usize,
}

// === impl Market ===

impl<'a> Market<'a> {
    pub(crate) fn new(
        (cluster, supply): (&'a Cluster, &'a OnceCell<Cluster>),
        universe: &'a Universe,
        launching: &'a Launching,
        options: &'a Options,
        most_searches: usize,
    ) -> Self {
        let (waits, coming_up) = settled(cluster, options);
        let is_limited = cluster.node_pools.iter().any(|pool| !pool.limits.is_empty() || pool.node_limit.is_some());
        let has_reservations = cluster.reservations.iter().any(|known| known.phase == Phase::Pending);
        Market {
            cluster,
            supply,
            universe,
            launching,
            options,
            floor: Floor::new(cluster, universe, launching, &options.solve),
            floor_on_slots: Floor::of_slots(cluster, universe, launching, &options.solve),
            trials: None,
            is_of_prices: options.solve.node_cost == Money::ZERO,
            nobody_waits: !waits && !has_reservations,
            is_separable: !is_limited && options.solve.max_shares.is_empty(),
            coming_up,
            most_searches,
            n_searched: 0,
        }
    }

    /// Whether somebody waits for a place for whom no node was launched.
    pub(crate) fn others_wait(&self) -> bool {
        !self.nobody_waits
    }

    /// How many searches were made.
    pub(crate) fn n_searched(&self) -> usize {
        self.n_searched
    }

    /// What becomes of the pods of a node that come again, each with the node that it finds.
    pub(crate) fn ask(
        &mut self,
        scheduler: &mut Scheduler<'a>,
        node: usize,
        (again, places): (&[(usize, ClassId)], &[Option<usize>]),
        question: &Question<'_>,
    ) -> Found {
        let mut left: Left = Vec::new();
        let (mut pods, mut moved) = (Vec::new(), Vec::new());
        for ((pod, id), place) in again.iter().zip(places) {
            if let Some(place) = place {
                moved.push((*id, *place));
                continue;
            }
            pods.push(*pod);
            match left.iter_mut().find(|(known, _)| known == id) {
                Some((_, count)) => *count += 1,
                None => left.push((*id, 1)),
            }
        }
        if left.is_empty() {
            return Found::Fits { node, pods: again.len() };
        }
        if !self.nobody_waits {
            return Found::Unknown;
        }
        left.sort_unstable();
        let elsewhere = |id: ClassId| {
            let requests = self.spec(id).map(|spec| &spec.requests);
            requests.is_none_or(|requests| self.coming_up.iter().any(|free| requests.fits(free)))
        };
        let is_elsewhere = left.iter().any(|(id, _)| elsewhere(*id));
        let sure: Left = left.iter().filter(|(id, _)| !is_elsewhere || !elsewhere(*id)).copied().collect();
        let (below, n_pods) = (question.below, pods.len());
        let dearer = |floor: Money, is_searched: bool| Found::Dearer { node, pods: n_pods, floor, is_searched };
        let cheaper = |nodes: NewNodes, is_searched: bool| Found::Cheaper { node, pods: n_pods, nodes, is_searched };
        let Some(floor) = self.floor.of(&sure) else { return Found::NoPlace { node, pods: n_pods } };
        let on_slots = question.below_on_slots.is_some_and(|below| self.may_cost_less_on_slots(&sure, floor, below));
        if (floor >= below || is_as_good(floor, below)) && !on_slots {
            return dearer(floor, false);
        }
        let is_beside = !is_elsewhere && self.is_separable;
        let counted =
            if is_beside && question.takes_any { self.counted(scheduler, (node, &moved), &left) } else { None };
        let packed = counted.as_ref().and_then(|counted| self.trials().below(&left, counted, below));
        if let Some(nodes) = packed {
            return cheaper(nodes, false);
        }
        if question.below_on_slots.is_none() && !self.floor.may_cost_less(&sure, below) {
            return dearer(below, false);
        }
        if !is_beside {
            return Found::Unknown;
        }
        if left.iter().all(|(id, _)| beside::is_plain(self.cluster, self.universe, *id)) {
            return Found::Open { node, pods, left };
        }
        // Where some pods find other nodes, a whole decision may send others there.
        let Some(counted) = counted.filter(|_| moved.is_empty() && self.n_searched < self.most_searches) else {
            return Found::Unknown;
        };
        self.n_searched += 1;
        match self.trials().search(&left, &counted) {
            Some(nodes) => {
                let cost = nodes.price + self.options.solve.node_cost.times(u64::from(nodes.count));
                if cost < below { cheaper(nodes, true) } else { dearer(cost, true) }
            }
            None => Found::Unknown,
        }
    }

    // What decides where pods of a node that are left may go on new nodes; `None` where that cannot be said by counters.
    fn counted(
        &mut self,
        scheduler: &mut Scheduler<'a>,
        (node, moved): (usize, &[(ClassId, usize)]),
        left: &Left,
    ) -> Option<Vec<Counted>> {
        let counters = self.trials().counters(left)?;
        Some(scheduler.counted_without(node, moved, &counters))
    }

    fn trials(&mut self) -> &mut Trials<'a> {
        let (cluster, universe) = (self.cluster, self.universe);
        self.trials.get_or_insert_with(|| {
            let supply = self.supply.get_or_init(|| cluster.without_nodes());
            Trials::new(supply, cluster, universe, self.launching, &self.options.solve)
        })
    }

    /// Whether free slots may hold these pods whose list prices add up to less than that. They do not where some of the pods
    /// need what is paid for.
    fn may_cost_less_on_slots(&mut self, pods: &Left, floor: Money, below: Money) -> bool {
        let is_paid = self.is_of_prices && floor > Money::ZERO;
        !is_paid && self.floor_on_slots.of(pods).is_some_and(|floor| floor < below)
    }

    fn spec(&self, id: ClassId) -> Option<&'a berth_model::PodSpec> {
        self.cluster.spec(self.universe.class(id)?.spec)
    }
}

/// Whether anybody waits for whom no node was launched, and what is left on nodes that come up beside those who are expected
/// there.
fn settled(cluster: &Cluster, options: &Options) -> (bool, Vec<Resources>) {
    let mut of_pod: KeyedMap<&str, &str> = cluster.keyed_map();
    for (node, pods) in &options.expected {
        of_pod.extend(pods.iter().map(|pod| (&**pod, &**node)));
    }
    let mut taken: KeyedMap<&str, Resources> = cluster.keyed_map();
    let (mut waits, mut name) = (false, String::new());
    for row in &cluster.pending {
        let requests = cluster.spec(row.spec).map(|spec| &spec.requests);
        for run in row.members.iter().filter(|run| !run.is_empty()) {
            name.clear();
            name.extend([cluster.symbols.text(row.namespace), "/", &run.name]);
            let node = of_pod.get(name.as_str()).filter(|_| row.kind == MemberKind::Pod && run.numbers.is_none());
            match (node, requests) {
                (Some(node), Some(requests)) => taken.entry(node).or_default().add(requests),
                _ => waits = true,
            }
        }
    }
    let left = |node: &berth_model::Node| {
        let mut left = node.free.clone();
        if let Some(taken) = taken.get(cluster.symbols.text(node.name)) {
            left.subtract(taken);
        }
        left
    };
    (waits, cluster.nodes.iter().filter(|node| node.is_coming_up).map(left).collect())
}

/// Whether a bound is so near to a price that no saving of note is left: a hundred-thousandth.
fn is_as_good(floor: Money, below: Money) -> bool {
    floor.pico() >= below.pico() - below.pico() / 100_000
}
