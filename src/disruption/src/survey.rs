//! All nodes of NodePools at a time, and the NodePools: looked at as a whole, or anew where commands changed them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{ConsolidationPolicy, DisruptionReason, NodeClaim, NodePool, labels};
use berth_model::{KeyedMap, Money};
use berth_state::{Key, NodeRecord, ObjectRef, PodRecord, State};
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::Options;
use crate::budget::{Budgets, PoolNodes};
use crate::candidate::{Candidate, Facts};
use crate::expiring;
use crate::pdb::Limits;
use crate::pods::{DisruptionCost, disrupted};
use crate::prices::{Price, Prices};
use crate::reason::{Reason, no_budget, unreadable_budgets};
use crate::rooms;
use crate::slot_users::SlotUsers;

/// A NodePool, as disruption sees it.
#[derive(Debug, PartialEq)]
pub(crate) struct Pool {
    pub(crate) budgets: Result<Budgets, String>,
    pub(crate) nodes: PoolNodes,
    pub(crate) is_balanced: bool,
    /// What all of its nodes cost, and what disrupting all of them would.
    pub(crate) price: Price,
    pub(crate) cost: DisruptionCost,
}

/// All of them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Survey {
    /// In the order of their nodes' names.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) pools: BTreeMap<String, Pool>,
    /// Those who have no place, where that was told.
    waiting: Arc<BTreeSet<Key>>,
    /// Who could use slots that nodes are on.
    slot_users: SlotUsers,
    /// Whether there are NodeClaims.
    knows_claims: bool,
}

// === impl Survey ===

impl Survey {
    /// Looks at every node that carries the label of a NodePool.
    pub(crate) fn of(state: &State, prices: &Prices, options: &Options, now: Timestamp) -> Self {
        let known = state.pods_with_observed();
        let all_pods: Vec<&PodRecord> = known.map(|(pod, observed)| newest_pod(pod, observed)).collect();
        let limits = Limits::of(state.all::<PodDisruptionBudget>().map(|budget| &**budget), &all_pods);
        let mut by_node: KeyedMap<&str, Vec<&PodRecord>> = state.keyed_map();
        for pod in &all_pods {
            if let Some(node) = pod.node() {
                by_node.entry(node).or_default().push(pod);
            }
        }
        let of_node = |node: &str| Some(by_node.get(node).cloned().unwrap_or_default());
        let nodes = state.nodes_with_observed();
        let mut survey = Self::of_each(state, nodes, (prices, &limits), of_node, options, now);
        survey.compare(state, options, now);
        survey
    }

    /// Counts those who have no place among those who could use slots that nodes are on.
    pub(crate) fn note_waiting(
        &mut self,
        state: &State,
        waiting: Arc<BTreeSet<Key>>,
        options: &Options,
        now: Timestamp,
    ) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.compare(state, options, now);
        }
    }

    /// Looks anew at these nodes, by name, which commands changed or launched since: what is known of others stands.
    pub(crate) fn refresh(
        &mut self,
        state: &State,
        (changed, launched): (&BTreeSet<String>, &BTreeSet<String>),
        prices: &Prices,
        options: &Options,
        now: Timestamp,
    ) {
        self.look_anew(state, changed, prices, options, now);
        self.slot_users.leave_out(launched);
    }

    fn look_anew(
        &mut self,
        state: &State,
        changed: &BTreeSet<String>,
        prices: &Prices,
        options: &Options,
        now: Timestamp,
    ) {
        // What a budget allows that no controller has counted follows from all pods.
        let follows_from_pods = state.all::<PodDisruptionBudget>().any(|budget| budget.status.is_none());
        let knows_claims = state.all::<NodeClaim>().next().is_some();
        if follows_from_pods || knows_claims != self.knows_claims {
            *self = self.made_anew(state, prices, options, now);
            return;
        }
        let limits = Limits::of(state.all::<PodDisruptionBudget>().map(|budget| &**budget), &[]);
        let rooms = rooms::by_node(state);
        for name in changed {
            let place = self.place_of(name);
            // What a command launches has no NodeClaim yet, and no node gets another one.
            let before = place.ok().map(|at| self.candidates.remove(at));
            let claim = before.and_then(|known| known.claim);
            let claim = claim.and_then(|claim| state.get_as::<NodeClaim>("", &claim.key.name));
            let Some((node, observed)) = state.node_with_observed(name) else { continue };
            let node = newest_node(node, observed);
            let Some(pool) = node.label(labels::NODEPOOL) else { continue };
            let pods: Vec<&PodRecord> = state.pods_on(name).map(|pod| newest_of(state, pod)).collect();
            let claim = (claim.map(|claim| &**claim), knows_claims);
            let rooms = rooms.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            let pool = (pool, state.get_as::<NodePool>("", pool).map(|pool| &**pool));
            let facts = Facts::of((node, pool), claim, (&pods, rooms), (options, now));
            let candidate = facts.candidate(prices, &limits);
            let (Ok(at) | Err(at)) = place;
            self.candidates.insert(at, candidate);
        }
        self.count_anew(state);
        self.compare(state, options, now);
        debug_assert_eq!(*self, self.made_anew(state, prices, options, now), "of {changed:?}");
    }

    fn made_anew(&self, state: &State, prices: &Prices, options: &Options, now: Timestamp) -> Self {
        let mut survey = Self::of(state, prices, options, now);
        survey.note_waiting(state, Arc::clone(&self.waiting), options, now);
        survey
    }

    /// Notes what follows from all nodes: which are replaced before they expire, and which could use slots of others.
    fn compare(&mut self, state: &State, options: &Options, now: Timestamp) {
        let pools = &self.pools;
        let allowed = |pool: &str| {
            let Pool { budgets, nodes, .. } = pools.get(pool)?;
            Some(budgets.as_ref().ok()?.allowed(DisruptionReason::Drifted, *nodes, now))
        };
        expiring::mark(&mut self.candidates, allowed, now);
        let may_move = |candidate: &Candidate| {
            let is_paid = candidate.price.is_some_and(|price| price.marginal > Money::ZERO);
            is_paid && !candidate.is_static && !candidate.is_empty && self.may_leave(candidate, now)
        };
        self.slot_users = SlotUsers::of(state, &self.candidates, (may_move, &self.waiting), options);
    }

    /// Whether nothing keeps a node with pods, its NodePool's budgets while none of its nodes is off included.
    fn may_leave(&self, candidate: &Candidate, now: Timestamp) -> bool {
        let budgets = self.pools.get(&candidate.pool).and_then(|pool| Some((pool, pool.budgets.as_ref().ok()?)));
        let allows = budgets.is_some_and(|(pool, budgets)| {
            budgets.allowed(candidate.method().reason(), PoolNodes { off: 0, ..pool.nodes }, now) > 0
        });
        let is_kept = || !(candidate.unripe.is_empty() && candidate.unconsolidatable.is_empty());
        allows && candidate.may_go() && (candidate.drift.is_some() || !is_kept())
    }

    /// Counts the nodes of each NodePool anew.
    fn count_anew(&mut self, state: &State) {
        let mut before = std::mem::take(&mut self.pools);
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        for candidate in &self.candidates {
            if !pools.contains_key(&candidate.pool) {
                let known = before.remove(&candidate.pool).map(Pool::without_nodes);
                let of_pool = || Pool::of(state.get_as::<NodePool>("", &candidate.pool).map(|pool| &**pool));
                pools.insert(candidate.pool.clone(), known.unwrap_or_else(of_pool));
            }
            let Some(counted) = pools.get_mut(&candidate.pool) else { continue };
            counted.count(candidate.is_initialized, candidate.is_going || !candidate.is_ready);
            counted.price += candidate.price.unwrap_or_default();
            counted.cost = [counted.cost, candidate.full_cost].into_iter().sum();
        }
        self.pools = pools;
    }

    /// Where the candidate of a node is, or would be.
    fn place_of(&self, node: &str) -> Result<usize, usize> {
        self.candidates.binary_search_by(|known| (*known.node.key.name).cmp(node))
    }

    /// Looks at these nodes alone, by name: what is on others, what they cost and when they expire is not known. Of
    /// NodePools it is known how many nodes there are, unless their budgets are not asked: then others are not looked at.
    pub(crate) fn of_nodes(
        state: &State,
        nodes: &BTreeSet<&str>,
        prices: &Prices,
        options: &Options,
        now: Timestamp,
    ) -> Self {
        // What a budget allows that no controller has counted follows from all pods.
        if state.all::<PodDisruptionBudget>().any(|budget| budget.status.is_none()) {
            return Self::of(state, prices, options, now);
        }
        let limits = Limits::of(state.all::<PodDisruptionBudget>().map(|budget| &**budget), &[]);
        let pods = |node: &str| state.pods_on(node).map(|pod| newest_of(state, pod)).collect();
        let of_node = |node: &str| nodes.contains(node).then(|| pods(node));
        if options.has_passed_budgets {
            let own = nodes.iter().filter_map(|name| state.node_with_observed(name));
            return Self::of_each(state, own, (prices, &limits), of_node, options, now);
        }
        Self::of_each(state, state.nodes_with_observed(), (prices, &limits), of_node, options, now)
    }

    /// Looks at those of these nodes that NodePools have, in order of name: only counts those whose pods are not told.
    fn of_each<'s>(
        state: &'s State,
        nodes: impl Iterator<Item = (&'s Arc<NodeRecord>, Option<&'s Arc<NodeRecord>>)>,
        (prices, limits): (&Prices, &Limits<'_>),
        pods_of: impl Fn(&str) -> Option<Vec<&'s PodRecord>>,
        options: &Options,
        now: Timestamp,
    ) -> Self {
        let claims = Claims::of(state);
        let rooms = rooms::by_node(state);
        let mut survey = Survey { knows_claims: claims.are_known(), ..Survey::default() };
        // Most nodes are of the same NodePool as the one before.
        let mut last: (&str, Option<&NodePool>) = ("", None);
        for (node, observed) in nodes {
            let node = newest_node(node, observed);
            let Some(name) = node.label(labels::NODEPOOL) else { continue };
            let node_name = &**node.name();
            let pods = pods_of(node_name);
            let claim = (claims.of_node(node), claims.are_known());
            if last.0 != name {
                last = (name, state.get_as::<NodePool>("", name).map(|pool| &**pool));
            }
            let on_it = (pods.as_deref().unwrap_or_default(), rooms.get(node_name).map_or(&[][..], Vec::as_slice));
            let facts = Facts::of((node, last), claim, on_it, (options, now));
            let counted = survey.count(&facts);
            let Some(counted) = counted.filter(|_| pods.is_some()) else { continue };
            let candidate = facts.candidate(prices, limits);
            counted.price += candidate.price.unwrap_or_default();
            counted.cost = [counted.cost, candidate.full_cost].into_iter().sum();
            survey.candidates.push(candidate);
        }
        debug_assert!(survey.candidates.is_sorted_by(|a, b| a.node.key.name < b.node.key.name));
        survey
    }

    /// Objects with a `karpenter.sh/do-not-disrupt` that means nothing, and what is wrong with it.
    pub(crate) fn faults(&self) -> Vec<(ObjectRef, String)> {
        self.candidates.iter().flat_map(|candidate| candidate.faults.iter().cloned()).collect()
    }

    /// What is known of a node; `None` where no NodePool has it.
    pub(crate) fn of_node(&self, node: &ObjectRef) -> Option<&Candidate> {
        self.of_name(&node.key.name).filter(|known| known.node == *node)
    }

    pub(crate) fn of_name(&self, node: &str) -> Option<&Candidate> {
        self.candidates.get(self.place_of(node).ok()?)
    }

    /// Whether somebody waits who could use the slot that this node would free, or a node that is paid for could move to it, and
    /// saves by that more than both disrupt. Where it could move to the slot of an empty node, that one goes.
    pub(crate) fn wants_slot_of(&self, slot: &Candidate, options: &Options) -> bool {
        self.waits_for_slot_of(slot) || self.wants_slot_beside(slot, &BTreeSet::new(), options)
    }

    /// Whether somebody waits who could use the slot of this node, as far as what is asked for tells.
    pub(crate) fn waits_for_slot_of(&self, slot: &Candidate) -> bool {
        slot.slot.as_ref().is_some_and(|kind| self.slot_users.is_waited_for(kind))
    }

    /// Whether only somebody who waits could use the slot that a node with pods would free. A what-if tells whether that gives them a
    /// place.
    pub(crate) fn is_slot_for_who_waits(&self, slot: &Candidate, options: &Options) -> bool {
        !slot.is_empty && self.waits_for_slot_of(slot) && !self.wants_slot_beside(slot, &BTreeSet::new(), options)
    }

    /// Whether a paid node could that is none of these, by name: the pods on the slot come to them.
    pub(crate) fn wants_slot_beside(&self, slot: &Candidate, others: &BTreeSet<&str>, options: &Options) -> bool {
        let least = disrupted(options.eviction_price, slot.cost);
        slot.slot.as_ref().is_some_and(|kind| self.slot_users.has_any_but(kind, least, others))
    }

    /// Whether a node that is paid for could move to the slot of an empty node.
    pub(crate) fn wants_slot_of_empty(&self, empty: &Candidate) -> bool {
        empty.slot.as_ref().is_some_and(|kind| self.slot_users.has_any(kind, Money::ZERO))
    }

    /// The reservations of nodes that are on their way out, once for each: their slots will be free. Until what replaces these nodes is
    /// there, their pods are planned for as well, but for those of undecided commands.
    pub(crate) fn left_slots<'s>(&'s self, undecided: &'s BTreeSet<String>) -> impl Iterator<Item = &'s str> + Clone {
        let going = self.candidates.iter().filter(|known| known.is_going && !undecided.contains(&*known.node.key.name));
        going.filter_map(|known| known.reservation.as_deref())
    }

    /// Why the budgets of its NodePool let a node not go now; `None` where they do.
    pub(crate) fn refused_by_budgets(&self, candidate: &Candidate, now: Timestamp) -> Option<Reason> {
        let pool = self.pools.get(&candidate.pool)?;
        match &pool.budgets {
            Err(error) => Some(unreadable_budgets(&candidate.pool, error)),
            Ok(budgets) if budgets.allowed(candidate.method().reason(), pool.nodes, now) == 0 => {
                let strictest = budgets.strictest(candidate.method().reason(), pool.nodes, now);
                Some(no_budget(&candidate.pool, strictest, candidate.drift.is_some()))
            }
            Ok(_) => None,
        }
    }

    /// Counts a node for its NodePool.
    fn count(&mut self, facts: &Facts<'_>) -> Option<&mut Pool> {
        if !self.pools.contains_key(facts.pool_name) {
            self.pools.insert(facts.pool_name.to_owned(), Pool::of(facts.pool));
        }
        let of_pool = self.pools.get_mut(facts.pool_name)?;
        of_pool.count(facts.is_initialized(), facts.is_going() || !facts.is_ready());
        Some(of_pool)
    }
}

impl Pool {
    fn count(&mut self, is_initialized: bool, is_off: bool) {
        self.nodes.total += usize::from(is_initialized);
        self.nodes.off += usize::from(is_initialized && is_off);
    }

    /// The same without its nodes.
    fn without_nodes(self) -> Self {
        let (nodes, price, cost) = (PoolNodes::default(), Price::default(), DisruptionCost::default());
        Pool { nodes, price, cost, ..self }
    }

    /// One without nodes.
    fn of(pool: Option<&NodePool>) -> Self {
        Pool {
            budgets: match pool {
                Some(pool) => Budgets::of(pool).map_err(|error| error.to_string()),
                None => Err("expected its NodePool, found none of that name".to_owned()),
            },
            nodes: PoolNodes::default(),
            is_balanced: pool
                .is_some_and(|pool| pool.spec.disruption.consolidation_policy == ConsolidationPolicy::Balanced),
            price: Price::default(),
            cost: DisruptionCost::default(),
        }
    }
}

/// The newest version of a pod: what a decision depends on does not change with each, but what may be disrupted does. One
/// that was moved in a what-if is as that has it.
fn newest_pod<'s>(pod: &'s PodRecord, observed: Option<&'s Arc<PodRecord>>) -> &'s PodRecord {
    let is_same =
        |newest: &&PodRecord| std::ptr::eq(*newest, pod) || newest.uid() == pod.uid() && newest.node() == pod.node();
    observed.map(|observed| &**observed).filter(is_same).unwrap_or(pod)
}

/// The same of one pod.
fn newest_of<'s>(state: &'s State, pod: &'s PodRecord) -> &'s PodRecord {
    newest_pod(pod, state.observed_pod(pod.namespace(), pod.name()))
}

/// The newest version of a node, unless a what-if changed it.
fn newest_node<'s>(node: &'s NodeRecord, observed: Option<&'s Arc<NodeRecord>>) -> &'s NodeRecord {
    let is_same =
        |newest: &&NodeRecord| std::ptr::eq(*newest, node) || newest.uid() == node.uid() && newest.has_spec_of(node);
    observed.map(|observed| &**observed).filter(is_same).unwrap_or(node)
}

/// NodeClaims by what their nodes know of them.
struct Claims<'s> {
    all: Vec<&'s NodeClaim>,
    by_provider_id: KeyedMap<&'s str, &'s NodeClaim>,
    /// Made for the first node that none has the provider id of.
    by_node: OnceCell<KeyedMap<&'s str, &'s NodeClaim>>,
    empty: KeyedMap<&'s str, &'s NodeClaim>,
}

impl<'s> Claims<'s> {
    fn of(state: &'s State) -> Self {
        let all: Vec<&NodeClaim> = state.all::<NodeClaim>().map(|claim| &**claim).collect();
        let mut by_provider_id = state.keyed_map();
        by_provider_id.reserve(all.len());
        by_provider_id.extend(all.iter().filter_map(|claim| {
            let id = claim.status.as_ref()?.provider_id.as_deref();
            Some((id.filter(|id| !id.is_empty())?, *claim))
        }));
        Claims { all, by_provider_id, by_node: OnceCell::new(), empty: state.keyed_map() }
    }

    /// Whether there are any: manifests of nodes alone are planned, too.
    fn are_known(&self) -> bool {
        !self.all.is_empty()
    }

    fn of_node(&self, node: &NodeRecord) -> Option<&'s NodeClaim> {
        let id = node.provider_id().unwrap_or_default();
        self.by_provider_id.get(id).or_else(|| self.by_node().get(&**node.name())).copied()
    }

    fn by_node(&self) -> &KeyedMap<&'s str, &'s NodeClaim> {
        self.by_node.get_or_init(|| {
            let mut by_node = self.empty.clone();
            by_node.extend(self.all.iter().filter_map(|claim| {
                let node = claim.status.as_ref()?.node_name.as_deref();
                Some((node.filter(|name| !name.is_empty())?, *claim))
            }));
            by_node
        })
    }
}
