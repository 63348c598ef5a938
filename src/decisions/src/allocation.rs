//! Owners of Reservations: who draws from which, on nodes that exist and with Reservations that are placed by the plan.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Assigned, ClassId, Cluster, LabelsId, MemberKind, Money, PendingRow, ReservationId, Resources, SpecId, Sym,
    Universe,
};
use berth_provisioning::{Launching, NodePlan, Options, Solution, Unschedulable};
use berth_scheduling::Placement;
use berth_scheduling::reservation::{Before, Beyond, Bundled, Draws, How, WithRules, bundle};

use crate::assignment::{Assignment, MemberName, Share};
use crate::existing::{self, Existing, Kept};
use crate::joining::{Joined, PlannedNode, join};
use crate::options::{ExpectedDrawers, ExpectedNodes, Placing, WaitedFor};
use crate::plans::Plans;
use crate::unseen::hide_from_owners;

/// Who draws from which Reservation, as pods and Reservations are called in the answer.
#[derive(Debug, Default)]
pub struct Allocation {
    /// What was bound to nodes that exist.
    existing: Existing,
    /// Who goes with pending Reservations.
    draws: Draws,
    /// Pending Reservations that have owners in the plan, by name.
    by_name: BTreeMap<Box<str>, ReservationId>,
    /// Who draws where it was placed by itself.
    joined: Joined,
    /// How many owners are left out until it is known where their Reservations come.
    n_held_back: u32,
}

/// A pod or a Reservation beside those that are assigned, and the Reservation that a pod draws from.
#[derive(Clone, Copy, Debug)]
pub struct Also<'a> {
    /// `namespace/name` of a pod, the name of a Reservation.
    pub name: &'a str,
    /// The name of the Reservation.
    pub draws_from: Option<&'a str>,
    /// The CPUs and devices that it has to itself, of a node that exists.
    pub assigned: Option<&'a Assigned>,
}

/// Binds what finds a node that exists, gives pending Reservations their owners, and plans what is left. Reservations
/// that no place takes together with their owners are planned without.
pub fn solve(cluster: &mut Cluster, options: &Options) -> (Universe, Solution, Allocation) {
    let launching = Launching::new(cluster);
    solve_beside(
        cluster,
        options,
        &launching,
        Placing {
            expected: &ExpectedNodes::new(),
            waited_for: &WaitedFor::new(),
            drawers: &ExpectedDrawers::new(),
            come_first: &BTreeSet::new(),
            spares_others: false,
            expected_first: false,
            names_budgets: true,
            holds_back: false,
        },
        None,
    )
}

/// Does the same beside pods and Reservations that are expected on nodes which were launched for them.
pub(crate) fn solve_beside(
    cluster: &mut Cluster,
    options: &Options,
    launching: &Launching,
    placing: Placing<'_>,
    plans: Option<&mut Plans>,
) -> (Universe, Solution, Allocation) {
    let existing = existing::bind(cluster, launching, placing);
    hide_from_owners(cluster);
    let with_rules = WithRules::AllBut(BTreeSet::new());
    let mut how = How { beyond: Beyond::Nothing, with_rules, holds_back: placing.holds_back };
    let mut draws = Draws::default();
    let mut bundled = bundle(cluster, &mut draws, &how);
    let mut allocation = Allocation::new(existing, draws, cluster);
    let plan = |cluster: &mut Cluster, draws: &Draws| {
        berth_provisioning::solve_giving_back(cluster, options, launching, |cluster, universe, solution| {
            given_back(cluster, universe, options, draws, solution)
        })
    };
    let (mut universe, mut solution) = match plans {
        Some(plans) => plans.plan(cluster, options, |cluster| plan(cluster, &allocation.draws)),
        None => plan(cluster, &allocation.draws),
    };
    while let Some(before) = bundled.take() {
        let n_held_back = before.n_held_back();
        let left = allocation.left(cluster, &universe, &solution, n_held_back > 0);
        if left.is_empty() {
            allocation.n_held_back = n_held_back;
            // Owners may get more than is reserved, on the node that the Reservation gets anyway.
            let beyond = How { beyond: Beyond::OnSameType, ..how.clone() };
            let known = rank(&solution, options);
            let better = allocation.plan_otherwise(cluster, before.clone(), (known, &beyond), (options, &plan));
            (universe, solution) = better.unwrap_or((universe, solution));
            if before.has_rules() {
                // Rules may keep Reservations apart that would share a node without their owners.
                let apart = How { with_rules: WithRules::Never, holds_back: false, ..how };
                let known = rank(&solution, options);
                if let Some(better) = allocation.plan_otherwise(cluster, before, (known, &apart), (options, &plan)) {
                    (universe, solution) = better;
                    allocation.n_held_back = 0;
                }
            }
            break;
        }
        let next = (before.has_rules() || n_held_back > 0).then(|| how.with_rules.narrower(left));
        before.restore(cluster, &mut allocation.draws);
        if let Some(next) = next {
            how.with_rules = next;
            bundled = bundle(cluster, &mut allocation.draws, &how);
        }
        allocation.set_names(cluster);
        (universe, solution) = plan(cluster, &allocation.draws);
    }
    allocation.joined = let_owners_come(cluster, &universe, options, &mut allocation.draws, &mut solution);
    // Owners may have gone to others.
    allocation.set_names(cluster);
    for &node in allocation.existing.on_nodes.keys().chain(allocation.existing.preempted.keys()) {
        if let Err(at) = solution.nodes.binary_search_by_key(&node, |entry| entry.node) {
            solution.nodes.insert(at, NodePlan { node, contents: Vec::new(), came: Vec::new() });
        }
    }
    (universe, solution, allocation)
}

/// How good a plan is, the best first: how many have no place, what it costs, and how many nodes it launches.
fn rank(solution: &Solution, options: &Options) -> (u64, Money, u64) {
    let left = solution.unschedulable.iter().map(|left| u64::from(left.count)).sum();
    let nodes = solution.claims.iter().map(|claims| u64::from(claims.count)).sum();
    let price = solution.claims.iter().map(|claims| (claims.price + options.node_cost).times(claims.count.into()));
    (left, price.sum(), nodes)
}

/// Says who draws on launched nodes: these request what Reservations hold once their owners have come.
fn let_owners_come(
    cluster: &Cluster,
    universe: &Universe,
    options: &Options,
    draws: &mut Draws,
    solution: &mut Solution,
) -> Joined {
    // Shares count those that were placed by themselves by what they request, whatever they draw.
    let joined = if options.max_shares.is_empty() { join(cluster, universe, draws, solution) } else { Joined::new() };
    for claims in &mut solution.claims {
        claims.requests.subtract(&spent(cluster, universe, &claims.contents));
    }
    joined
}

/// By entry of the claims: what Reservations hold no more on each of its nodes once their owners have come.
fn given_back(
    cluster: &Cluster,
    universe: &Universe,
    options: &Options,
    draws: &Draws,
    solution: &Solution,
) -> Vec<Resources> {
    if cluster.reservations.is_empty() || !options.max_shares.is_empty() {
        return Vec::new();
    }
    let (mut draws, mut come) = (draws.clone(), solution.clone());
    let_owners_come(cluster, universe, options, &mut draws, &mut come);
    let entries = solution.claims.iter().zip(&come.claims);
    let given = entries.map(|(before, after)| {
        let mut given = before.requests.clone();
        given.subtract(&after.requests);
        given
    });
    given.collect()
}

/// What Reservations for one owner alone no longer hold once it has come: a node has to have it, its pods do not use it.
fn spent(cluster: &Cluster, universe: &Universe, contents: &[(ClassId, u32)]) -> Resources {
    let mut spent = Resources::new();
    for &(class, count) in contents {
        let spec = universe.class(class).and_then(|class| cluster.spec(class.spec));
        let Some(spec) = spec.filter(|spec| spec.reservation.owners_request != Resources::new()) else { continue };
        let reservation = spec.reservation.reserves.and_then(|index| cluster.reservation(index));
        if reservation.is_some_and(|reservation| reservation.allocate_once) {
            spent.add_times(&spec.requests, i64::from(count));
            spent.add_times(&spec.reservation.owners_request, -i64::from(count));
        }
    }
    spent
}

impl Allocation {
    fn new(existing: Existing, draws: Draws, cluster: &Cluster) -> Self {
        let mut allocation =
            Allocation { existing, draws, by_name: BTreeMap::new(), joined: Joined::new(), n_held_back: 0 };
        allocation.set_names(cluster);
        allocation
    }

    /// Where nodes that exist alone were asked.
    pub(crate) fn of_existing(existing: Existing) -> Self {
        Allocation { existing, ..Allocation::default() }
    }

    /// What was bound to existing nodes, by node.
    pub(crate) fn on_existing(&self) -> impl Iterator<Item = (usize, &[Placement])> {
        self.existing.on_nodes.iter().map(|(node, placements)| (*node, placements.as_slice()))
    }

    /// What was bound to an existing node.
    pub(crate) fn placed_on(&self, node: usize) -> &[Placement] {
        self.existing.on_nodes.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Whether owners are left out until it is known where their Reservations come.
    pub(crate) fn holds_back(&self) -> bool {
        self.n_held_back > 0
    }

    /// Who is to come to a node that was launched for it.
    pub(crate) fn settled(&self) -> &[(Box<str>, usize)] {
        &self.existing.settled
    }

    /// Who gives way, by node.
    pub(crate) fn all_preempted(&self) -> impl Iterator<Item = (usize, &[Box<str>])> {
        self.existing.preempted.iter().map(|(node, pods)| (*node, pods.as_slice()))
    }

    fn set_names(&mut self, cluster: &Cluster) {
        let reservations = self.draws.with.keys().filter_map(|&index| {
            let name = cluster.reservation(index)?.name;
            Some((cluster.symbols.text(name).into(), index))
        });
        self.by_name = reservations.collect();
    }

    /// Plans anew with owners that are bundled otherwise; `None` where that is no better than the plan of this rank.
    fn plan_otherwise(
        &mut self,
        cluster: &mut Cluster,
        before: Before,
        (known, how): ((u64, Money, u64), &How),
        (options, plan): (&Options, &impl Fn(&mut Cluster, &Draws) -> (Universe, Solution)),
    ) -> Option<(Universe, Solution)> {
        let (rows, draws) = (Before::of(cluster), self.draws.clone());
        before.restore(cluster, &mut self.draws);
        bundle(cluster, &mut self.draws, how);
        let is_worth_it = how.beyond == Beyond::Nothing || self.draws.len() > draws.len();
        if is_worth_it && self.draws != draws {
            self.set_names(cluster);
            let (universe, solution) = plan(cluster, &self.draws);
            if self.left(cluster, &universe, &solution, false).is_empty() && rank(&solution, options) < known {
                return Some((universe, solution));
            }
        }
        rows.restore(cluster, &mut self.draws);
        self.draws = draws;
        self.set_names(cluster);
        None
    }

    /// The Reservations with owners that have no place, by name; where some are held back, all that have none.
    fn left(
        &self,
        cluster: &Cluster,
        universe: &Universe,
        solution: &Solution,
        holds_back: bool,
    ) -> BTreeSet<Box<str>> {
        if solution.unschedulable.is_empty() {
            return BTreeSet::new();
        }
        let assignment = Assignment::new(cluster, universe, solution);
        let left = assignment.unschedulable.iter();
        if holds_back {
            let left = left.filter(|share| assignment.kind(**share) == MemberKind::Reservation);
            return left.flat_map(|share| assignment.members(*share)).map(|name| name.to_string().into()).collect();
        }
        left.flat_map(|share| self.with(&assignment, &[*share], 0, cluster))
            .filter_map(|also| also.draws_from.map(Box::from))
            .collect()
    }

    /// How many of a kind have their place without being assigned.
    pub fn count(&self, kind: MemberKind) -> u64 {
        let with = if kind == MemberKind::Pod { self.draws.len() as u64 } else { 0 };
        self.existing.count(kind) + with
    }

    /// Whether some go to nodes that exist.
    pub fn uses_existing(&self) -> bool {
        self.existing.on_nodes.values().any(|placements| !placements.is_empty())
    }

    /// The pods that give way on an existing node to others of higher priority.
    pub fn preempted(&self, node: usize) -> &[Box<str>] {
        self.existing.preempted(node)
    }

    /// How many pods give way.
    pub fn n_preempted(&self) -> usize {
        self.existing.preempted.values().map(Vec::len).sum()
    }

    /// The existing node on which a pod gives way.
    pub fn gives_way_on(&self, pod: &str) -> Option<usize> {
        let has = |(_, pods): &(&usize, &Vec<Box<str>>)| pods.iter().any(|known| **known == *pod);
        self.existing.preempted.iter().find(has).map(|(node, _)| *node)
    }

    /// Why pods of a spec that must draw cannot.
    pub fn refusals(&self, spec: SpecId) -> Option<&[(String, u32)]> {
        self.existing.refusals.get(&spec).map(Vec::as_slice)
    }

    /// Who would give way on an existing node to pods of a pending row but for PodDisruptionBudgets.
    pub fn kept_by_budgets(&self, row: &PendingRow) -> Option<&Kept> {
        self.existing.kept.get(&(row.namespace, row.spec, row.labels))
    }

    /// Why members of a class have no place, with counts; a count of 0 is about neither nodes nor instance types.
    pub fn reasons<'a>(
        &'a self,
        left: &'a Unschedulable,
        cluster: &'a Cluster,
        universe: &'a Universe,
    ) -> impl Iterator<Item = (&'a str, u32)> {
        let spec = universe.class(left.class).and_then(|class| cluster.spec(class.spec));
        let refusals = universe.class(left.class).and_then(|class| self.refusals(class.spec));
        let own = spec.and_then(|spec| spec.refusal.as_ref()).filter(|_| left.reasons.is_empty() && refusals.is_none());
        // Why a pod finds no Reservation to draw from says more than that it finds none.
        let given = left.reasons.iter().filter(move |_| refusals.is_none());
        let given = given.map(|refusal| (refusal.reason.as_str(), refusal.count));
        let refusals = refusals.into_iter().flatten().map(|(reason, count)| (reason.as_str(), *count));
        given.chain(own.map(|refusal| (refusal.0.as_str(), 0))).chain(refusals)
    }

    /// The pods that go with a pending Reservation.
    pub fn bundled_with(&self, reservation: ReservationId) -> &[Bundled] {
        self.draws.with.get(&reservation).map_or(&[][..], Vec::as_slice)
    }

    /// The existing node that something was bound to.
    pub fn node_of(&self, kind: MemberKind, name: &str) -> Option<usize> {
        let has = |node: &usize| self.existing.on_node(*node, kind).any(|known| *known.name == *name);
        self.existing.on_nodes.keys().copied().find(has)
    }

    /// Namespace, spec and labels of the pod that stood in for a Reservation that was bound to a node.
    pub fn row_of(&self, reservation: &str) -> Option<(Sym, SpecId, LabelsId)> {
        self.existing.stand_ins.get(reservation).copied()
    }

    /// The pods that draw from a Reservation, running ones included.
    pub fn drawn_from(&self, reservation: ReservationId, cluster: &Cluster) -> Vec<String> {
        let pods = cluster.nodes.iter().flat_map(|node| &node.pods);
        let pods = pods.filter(|pod| pod.draws_from == Some(reservation));
        let mut names: Vec<String> =
            pods.map(|pod| format!("{}/{}", cluster.symbols.text(pod.namespace), pod.name)).collect();
        names.extend(self.bundled_with(reservation).iter().map(|pod| pod.name.to_string()));
        let joined = self.joined.values().flatten().filter(|(_, drawn)| *drawn == reservation);
        names.extend(joined.map(|(pod, _)| pod.to_string()));
        names
    }

    /// Who of the pods that were placed by themselves draws on a node.
    pub fn joined<'a>(&'a self, place: PlannedNode, cluster: &'a Cluster) -> impl Iterator<Item = Also<'a>> {
        let drawn = self.joined.get(&place).into_iter().flatten();
        drawn.map(|(name, reservation)| Also { name, draws_from: Some(name_of(*reservation, cluster)), assigned: None })
    }

    /// The Reservation that a pod which was placed by itself draws from on a node.
    pub fn joins(&self, place: PlannedNode, pod: MemberName<'_>) -> Option<ReservationId> {
        let (drawn, pod) = (self.joined.get(&place)?, pod.to_string());
        drawn.iter().find(|(known, _)| **known == *pod).map(|(_, reservation)| *reservation)
    }

    /// What of a kind was bound to an existing node.
    pub fn on_node<'a>(&'a self, node: usize, kind: MemberKind, cluster: &'a Cluster) -> Vec<Also<'a>> {
        let bound = self.existing.on_node(node, kind);
        let also = bound.map(|placement| Also {
            name: &placement.name,
            draws_from: placement.draws_from.map(|reservation| name_of(reservation, cluster)),
            assigned: Some(&placement.assigned),
        });
        also.collect()
    }

    /// Who draws from the Reservations in the shares of a node.
    pub fn with<'a>(
        &'a self,
        assignment: &Assignment<'_>,
        shares: &[Share],
        node: u32,
        cluster: &'a Cluster,
    ) -> Vec<Also<'a>> {
        if self.by_name.is_empty() {
            return Vec::new();
        }
        let mut pairs = Vec::new();
        for share in shares.iter().filter(|share| assignment.kind(**share) == MemberKind::Reservation) {
            for member in assignment.members(share.of_node(node)) {
                let Some(&index) = self.by_name.get(member.to_string().as_str()) else { continue };
                let draws_from = Some(name_of(index, cluster));
                let pods = self.bundled_with(index).iter();
                pairs.extend(pods.map(|pod| Also { name: &pod.name, draws_from, assigned: None }));
            }
        }
        pairs
    }
}

fn name_of(reservation: ReservationId, cluster: &Cluster) -> &str {
    cluster.reservation(reservation).map_or("", |known| cluster.symbols.text(known.name))
}
