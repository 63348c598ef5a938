//! The nodes of NodePools as disruption sees them: what each costs, what moving its pods costs, and what keeps it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{ConsolidationPolicy, NodeClaim, NodePool, Reservation, labels};
use berth_model::{KeyedMap, Money};
use berth_state::{Key, Kind, NodeRecord, ObjectRef, PodRecord, State};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Options;
use crate::budget::{Budgets, PoolNodes};
use crate::command::Method;
use crate::drift::drift;
use crate::expiring::{self, expiry};
use crate::pdb::Limits;
use crate::pods::{self, DisruptionCost, Protection};
use crate::prices::{Price, Prices};
use crate::recheck::UNDECIDED;
use crate::rooms;

/// On a NodePool, `true`: its empty nodes on capacity reservations stay, as removing them saves no rent.
pub const KEEP_EMPTY_RESERVED: &str = "berth.sh/keep-empty-reserved-nodes";

/// On a NodePool, `true`: its drifted nodes on capacity reservations whose pods find no other place go before what replaces
/// them is there, and that takes their slots.
pub const REPLACE_IN_SLOT: &str = "berth.sh/replace-drifted-in-slot";

/// Why something stays, and how many pods it is about (0: about none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub reason: String,
    /// How many pods.
    pub count: usize,
}

/// A node of a NodePool.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Candidate {
    pub(crate) node: ObjectRef,
    pub(crate) claim: Option<ObjectRef>,
    pub(crate) pool: String,
    pub(crate) capacity_type: String,
    /// The capacity reservation that it has a slot of.
    pub(crate) reservation: Option<String>,
    /// Whether what replaces it may wait for its slot.
    pub(crate) may_leave_first: bool,
    /// Whether it is on its way out already.
    pub(crate) is_going: bool,
    pub(crate) is_initialized: bool,
    pub(crate) is_ready: bool,
    /// `None` where the catalogue does not have its offering.
    pub(crate) price: Option<Price>,
    pub(crate) cost: DisruptionCost,
    /// Of the pods that move, how many are worth something where they are.
    pub(crate) n_evictions: usize,
    pub(crate) is_empty: bool,
    pub(crate) drift: Option<&'static str>,
    /// When it will be older than its `expireAfter`, and how long that is.
    pub(crate) expires: Option<(Timestamp, SignedDuration)>,
    /// Whether its NodePool keeps a number of nodes whatever pods need.
    pub(crate) is_static: bool,
    /// The Reservations that hold room on it: what keeps none of them where it is moves with the pods.
    pub(crate) held: Vec<ObjectRef>,
    /// When it was made, by which drifted nodes are ordered.
    pub(crate) created: Option<Timestamp>,
    /// What keeps it whatever the method.
    pub(crate) blocked: Vec<Reason>,
    /// What keeps it from being removed as empty, and from consolidation.
    pub(crate) unripe: Vec<Reason>,
    /// What keeps it from consolidation while pods are on it.
    pub(crate) unconsolidatable: Vec<Reason>,
    /// Objects with a `karpenter.sh/do-not-disrupt` that means nothing, and what is wrong with it.
    pub(crate) faults: Vec<(ObjectRef, String)>,
}

impl Candidate {
    /// Whether its rent is paid whether it is there or not.
    pub(crate) fn is_reserved(&self) -> bool {
        self.capacity_type == labels::RESERVED
    }

    /// The method that would take it by itself.
    pub(crate) fn method(&self) -> Method {
        if self.drift.is_some() {
            Method::Drift
        } else if self.is_empty {
            Method::Emptiness
        } else {
            Method::SingleNodeConsolidation
        }
    }
}

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
    /// The list price of the smallest node that is paid for and that nothing keeps.
    smallest_paid: Option<Money>,
    /// Whether there are NodeClaims.
    knows_claims: bool,
}

fn reason(text: impl Into<String>) -> Reason {
    Reason { reason: text.into(), count: 0 }
}

/// Budgets of a NodePool that let none of its nodes go now.
pub(crate) fn no_budget(pool: &str) -> Reason {
    reason(format!("no budget of NodePool {pool:?} lets a node go for this now"))
}

/// Budgets of a NodePool that cannot be read.
pub(crate) fn unreadable_budgets(pool: &str, error: &str) -> Reason {
    reason(format!("NodePool {pool:?}: {error}"))
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
        let mut survey = Self::with_pods(state, (prices, &limits), of_node, options, now);
        survey.compare(now);
        survey
    }

    /// Looks anew at these nodes, by name, which commands changed since: what is known of others stands.
    pub(crate) fn refresh(
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
            *self = Self::of(state, prices, options, now);
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
        self.compare(now);
        debug_assert_eq!(*self, Self::of(state, prices, options, now), "of {changed:?}");
    }

    /// Notes what follows from all nodes: which are replaced before they expire, and which is the smallest.
    fn compare(&mut self, now: Timestamp) {
        expiring::mark(self, now);
        let free = self.candidates.iter().filter(|candidate| candidate.blocked.is_empty() && !candidate.is_static);
        let paid = free.filter_map(|candidate| candidate.price).filter(|price| price.marginal > Money::ZERO);
        self.smallest_paid = paid.map(|price| price.list).min();
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
            counted.cost = [counted.cost, candidate.cost].into_iter().sum();
        }
        self.pools = pools;
    }

    /// Where the candidate of a node is, or would be.
    fn place_of(&self, node: &str) -> Result<usize, usize> {
        self.candidates.binary_search_by(|known| (*known.node.key.name).cmp(node))
    }

    /// Looks at these nodes alone, by name: what is on others, what they cost and when they expire is not known. Of
    /// NodePools it is known how many nodes there are.
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
        Self::with_pods(state, (prices, &limits), of_node, options, now)
    }

    /// Looks at the nodes of NodePools, at those alone whose pods are told.
    fn with_pods<'s>(
        state: &'s State,
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
        for (node, observed) in state.nodes_with_observed() {
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
            counted.cost = [counted.cost, candidate.cost].into_iter().sum();
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
        let known = self.candidates.get(self.place_of(&node.key.name).ok()?)?;
        (known.node == *node).then_some(known)
    }

    /// Whether a node that is paid for may move to the slot that this one would free: one that is no larger by the price
    /// list.
    pub(crate) fn wants_slot_of(&self, slot: &Candidate) -> bool {
        self.smallest_paid.is_some_and(|smallest| smallest <= slot.price.unwrap_or_default().list)
    }

    /// How many slots of a reservation nodes of it leave that are on their way out: until what replaces these is there, their
    /// pods are planned for as well, but for those of undecided commands.
    pub(crate) fn n_leaving(&self, reservation: &str, undecided: &BTreeSet<String>) -> usize {
        let on_it = self.candidates.iter().filter(|candidate| candidate.reservation.as_deref() == Some(reservation));
        on_it.filter(|known| known.is_going && !undecided.contains(&*known.node.key.name)).count()
    }

    /// Why the budgets of its NodePool let a node not go now; `None` where they do.
    pub(crate) fn refused_by_budgets(&self, candidate: &Candidate, now: Timestamp) -> Option<Reason> {
        let pool = self.pools.get(&candidate.pool)?;
        match &pool.budgets {
            Err(error) => Some(unreadable_budgets(&candidate.pool, error)),
            Ok(budgets) if budgets.allowed(candidate.method().reason(), pool.nodes, now) == 0 => {
                Some(no_budget(&candidate.pool))
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

/// What is wrong with a node's or a NodeClaim's `karpenter.sh/do-not-disrupt`.
fn unreadable_on_node(value: &str) -> String {
    format!(
        "metadata.annotations[{}]: expected \"true\", found {value:?}: the node is not disrupted",
        labels::DO_NOT_DISRUPT
    )
}

fn reference(kind: Kind, metadata: &ObjectMeta) -> ObjectRef {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    Key::new(kind, namespace, metadata.name.as_deref().unwrap_or_default()).with_uid(metadata.uid.as_deref())
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

/// What is known of a node.
struct Facts<'a> {
    node: &'a NodeRecord,
    claim: Option<&'a NodeClaim>,
    knows_claims: bool,
    pool: Option<&'a NodePool>,
    pool_name: &'a str,
    pods: &'a [&'a PodRecord],
    rooms: &'a [&'a Reservation],
    /// Why the caller keeps it.
    kept: Option<&'a str>,
    with_reserved: bool,
    with_static: bool,
    now: Timestamp,
}

// === impl Facts ===

impl<'a> Facts<'a> {
    fn of(
        (node, (pool_name, pool)): (&'a NodeRecord, (&'a str, Option<&'a NodePool>)),
        (claim, knows_claims): (Option<&'a NodeClaim>, bool),
        (pods, rooms): (&'a [&'a PodRecord], &'a [&'a Reservation]),
        (options, now): (&'a Options, Timestamp),
    ) -> Self {
        Facts {
            node,
            claim,
            knows_claims,
            pool,
            pool_name,
            pods,
            rooms,
            kept: options.kept.get(&**node.name()).map(String::as_str),
            with_reserved: options.reserved_capacity,
            with_static: options.static_capacity,
            now,
        }
    }

    fn candidate(&self, prices: &Prices, limits: &Limits<'_>) -> Candidate {
        let moved: Vec<&PodRecord> = self.pods.iter().copied().filter(|pod| pods::is_moved(pod)).collect();
        let none = BTreeMap::new();
        let node_labels = self.node.labels().unwrap_or(&none);
        let claim = self.claim.and_then(|claim| {
            let key = Key::new(Kind::NodeClaim, "", claim.metadata.name.as_deref()?);
            Some(key.with_uid(claim.metadata.uid.as_deref()))
        });
        let cost = DisruptionCost::of_node(moved.iter().copied());
        let price = prices.of_labels(node_labels);
        Candidate {
            node: self.node.reference(),
            claim,
            pool: self.pool_name.to_owned(),
            capacity_type: node_labels.get(labels::CAPACITY_TYPE).cloned().unwrap_or_default(),
            reservation: labels::RESERVATION_IDS.iter().find_map(|key| node_labels.get(*key)).cloned(),
            may_leave_first: self.pool.is_some_and(|pool| {
                let may = pool.metadata.annotations.as_ref().and_then(|all| all.get(REPLACE_IN_SLOT));
                may.is_some_and(|value| value == "true")
            }),
            is_going: self.is_going(),
            is_initialized: self.is_initialized(),
            is_ready: self.is_ready(),
            price,
            cost,
            n_evictions: moved.len(),
            // Pods that cost nothing to move do not count, as in Karpenter.
            is_empty: self.rooms.is_empty() && cost == DisruptionCost::ONE,
            drift: self.pool.and_then(|pool| drift(self.claim, node_labels, pool, self.with_reserved)),
            expires: self.claim.and_then(expiry),
            is_static: self.pool.is_some_and(|pool| pool.spec.is_static()),
            held: self.rooms.iter().map(|room| reference(Kind::Reservation, &room.metadata)).collect(),
            created: self.node.created(),
            blocked: self.blocked(limits),
            unripe: self.unripe(node_labels, moved.is_empty() && self.rooms.is_empty()),
            unconsolidatable: self.unconsolidatable(node_labels, price.is_some()),
            faults: self.faults(),
        }
    }

    /// What people should mend.
    fn faults(&self) -> Vec<(ObjectRef, String)> {
        let annotated = self.pods.iter().filter(|pod| pod.annotation(labels::DO_NOT_DISRUPT).is_some());
        let of_pods = annotated.filter_map(|pod| Some((pod.reference(), pods::check_do_not_disrupt(pod)?)));
        let mut faults: Vec<(ObjectRef, String)> = of_pods.collect();
        let node = Some((self.node.reference(), self.node.annotations()));
        let of_claim = |claim: &NodeClaim| reference(Kind::NodeClaim, &claim.metadata);
        let claim = self.claim.map(|claim| (of_claim(claim), claim.metadata.annotations.as_ref()));
        for (object, annotations) in node.into_iter().chain(claim) {
            let value = annotations.and_then(|all| all.get(labels::DO_NOT_DISRUPT));
            if let Some(value) = value.filter(|value| !matches!(value.as_str(), "true" | "false")) {
                faults.push((object, unreadable_on_node(value)));
            }
        }
        faults
    }

    fn is_going(&self) -> bool {
        self.node.deletion().is_some()
            || self.claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
            || self.node.taints().iter().any(|taint| matches!(taint.key.as_str(), labels::DISRUPTED_TAINT | UNDECIDED))
    }

    /// Unless its kubelet says that it is not.
    fn is_ready(&self) -> bool {
        self.node.conditions().iter().all(|condition| condition.type_ != "Ready" || condition.status == "True")
    }

    fn is_initialized(&self) -> bool {
        let has_label = self.node.label(labels::INITIALIZED);
        match self.claim {
            Some(claim) => {
                let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
                let told = conditions.iter().find(|condition| condition.type_ == "Initialized");
                told.map_or(has_label.is_some_and(|value| value == "true"), |told| told.status == "True")
            }
            None => !self.knows_claims || has_label.is_some_and(|value| value == "true"),
        }
    }

    /// What keeps the node whatever the method, in Karpenter's words.
    fn blocked(&self, limits: &Limits<'_>) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let Some(pool) = self.pool else {
            return vec![reason(format!("NodePool {:?} not found", self.pool_name))];
        };
        if self.is_going() {
            reasons.push(reason("node is deleting or marked for deletion"));
        }
        reasons.extend(self.kept.map(reason));
        if self.claim.is_none() && self.knows_claims {
            reasons.push(reason("node has no NodeClaim"));
        } else if !self.is_initialized() {
            reasons.push(reason("node isn't initialized"));
        }
        if pool.metadata.deletion_timestamp.is_some() {
            reasons.push(reason(format!("NodePool {:?} is being deleted", self.pool_name)));
        }
        if pool.spec.is_static() && !self.with_static {
            let text = format!("NodePool {:?} is static, and the feature gate StaticCapacity is off", self.pool_name);
            reasons.push(reason(text));
        }
        let own = [self.node.annotations(), self.claim.and_then(|claim| claim.metadata.annotations.as_ref())];
        let values = own.into_iter().flatten().filter_map(|annotations| annotations.get(labels::DO_NOT_DISRUPT));
        let values: BTreeSet<&str> = values.map(String::as_str).filter(|value| *value != "false").collect();
        for value in values {
            reasons.push(reason(if value == "true" {
                format!("disruption is blocked through the {:?} annotation", labels::DO_NOT_DISRUPT)
            } else {
                unreadable_on_node(value)
            }));
        }
        let mut of_pods: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.pods {
            let protection = match pods::protection(pod, self.now) {
                Some(Protection::Annotation) => Some(format!("pod has {:?} annotation", labels::DO_NOT_DISRUPT)),
                Some(Protection::Unreadable(found)) => Some(format!(
                    "pod has {:?} annotation: expected \"true\" or a time such as 1h, found {found:?}",
                    labels::DO_NOT_DISRUPT
                )),
                None => limits.refusal(pod),
            };
            if let Some(text) = protection {
                *of_pods.entry(text).or_default() += 1;
            }
        }
        reasons.extend(of_pods.into_iter().map(|(reason, count)| Reason { reason, count }));
        reasons.extend(self.rooms.iter().filter_map(|room| rooms::stays(room, pool, self.pods)).map(reason));
        reasons
    }

    /// What keeps a node that may be removed once pods have left it alone.
    fn unripe(&self, node_labels: &BTreeMap<String, String>, is_empty: bool) -> Vec<Reason> {
        let Some(pool) = self.pool else { return Vec::new() };
        let mut reasons = Vec::new();
        if pool.spec.is_static() {
            reasons.push(reason(format!("NodePool {:?} is static", self.pool_name)));
        }
        let after = &pool.spec.disruption.consolidate_after;
        match after.duration() {
            None => reasons.push(reason(format!("NodePool {:?} has consolidation disabled", self.pool_name))),
            Some(wait) if !self.is_consolidatable(wait.to_std()) => {
                let text = format!("pods came or went less than consolidateAfter ({}) ago", wait.as_str());
                reasons.push(reason(text));
            }
            Some(_) => {}
        }
        let keeps = pool.metadata.annotations.as_ref().and_then(|all| all.get(KEEP_EMPTY_RESERVED));
        let is_reserved = node_labels.get(labels::CAPACITY_TYPE).is_some_and(|value| value == labels::RESERVED);
        if is_empty && is_reserved && keeps.is_some_and(|value| value == "true") {
            reasons.push(reason(format!("empty and reserved, and NodePool {:?} keeps such nodes", self.pool_name)));
        }
        reasons
    }

    /// By its condition; else by the time of the last pod event; nodes that say neither are.
    fn is_consolidatable(&self, wait: Option<std::time::Duration>) -> bool {
        let Some(status) = self.claim.and_then(|claim| claim.status.as_ref()) else { return true };
        if let Some(told) = status.conditions.iter().find(|condition| condition.type_ == "Consolidatable") {
            return told.status == "True";
        }
        let initialized = status.conditions.iter().find(|condition| condition.type_ == "Initialized");
        let since = status.last_pod_event_time.as_ref().map(|time| time.0);
        let since = since.max(initialized.map(|condition| condition.last_transition_time.0));
        let wait = wait.and_then(|wait| SignedDuration::try_from(wait).ok());
        let ripe = since.zip(wait).and_then(|(since, wait)| since.checked_add(wait).ok());
        ripe.is_none_or(|ripe| ripe <= self.now)
    }

    fn unconsolidatable(&self, node_labels: &BTreeMap<String, String>, has_price: bool) -> Vec<Reason> {
        let Some(pool) = self.pool else { return Vec::new() };
        let mut reasons = Vec::new();
        if pool.spec.disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty {
            reasons.push(reason(format!("NodePool {:?} has non-empty consolidation disabled", self.pool_name)));
        }
        if !has_price {
            let label = |key: &str| node_labels.get(key).map_or("none", String::as_str);
            reasons.push(reason(format!(
                "no price is known of instance type {} in zone {} as {}",
                label(labels::INSTANCE_TYPE),
                label(labels::ZONE),
                label(labels::CAPACITY_TYPE)
            )));
        }
        reasons
    }
}
