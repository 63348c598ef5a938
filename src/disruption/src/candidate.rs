//! The nodes of NodePools as disruption sees them: what each costs, what moving its pods costs, and what keeps it.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{ConsolidationPolicy, NodeClaim, NodePool, Reservation, labels};
use berth_state::{Key, Kind, NodeRecord, ObjectRef, PodRecord};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Options;
use crate::command::Method;
use crate::drift::drift;
use crate::pdb::Limits;
use crate::pods::{self, DisruptionCost};
use crate::prices::{Price, Prices};
use crate::reason::{Cause, Reason, reason};
use crate::rooms;
use crate::slot_kind::{SlotKind, slot_kind};

/// On a NodePool, `true`: its empty nodes on capacity reservations stay, as removing them saves no rent.
pub const KEEP_EMPTY_RESERVED: &str = "berth.sh/keep-empty-reserved-nodes";

/// On a NodePool, `true`: its drifted nodes on capacity reservations whose pods find no other place go before what replaces
/// them is there, and that takes their slots.
pub const REPLACE_IN_SLOT: &str = "berth.sh/replace-drifted-in-slot";

/// A pod that nobody makes again is drained with a node that must go, and is no reason to save by.
const NO_CONTROLLER: &str = "pod has no controller that would make another in its place";

/// In what-ifs, the taint of nodes that another command is about to decide about: no pod comes, and theirs stay.
pub(crate) const UNDECIDED: &str = "berth.sh/undecided";

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
    /// What that is a slot of; told of every node that says it is on one.
    pub(crate) slot: Option<SlotKind>,
    /// Whether what replaces it may wait for its slot.
    pub(crate) may_leave_first: bool,
    /// Whether it is on its way out already.
    pub(crate) is_going: bool,
    pub(crate) is_initialized: bool,
    pub(crate) is_ready: bool,
    /// `None` where the catalogue does not have its offering.
    pub(crate) price: Option<Price>,
    /// What it costs to disrupt it, the less the sooner it expires: nodes are ranked by it, and it has a price.
    pub(crate) cost: DisruptionCost,
    /// The same at the start of its lifetime.
    pub(crate) full_cost: DisruptionCost,
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
    /// Pods that it is to wait for until shortly before its `terminationGracePeriod` ends: nothing is planned for them until then.
    pub(crate) left_behind: Vec<ObjectRef>,
    /// When it was made, by which drifted nodes are ordered.
    pub(crate) created: Option<Timestamp>,
    /// What keeps it, but for drift.
    pub(crate) blocked: Vec<Reason>,
    /// The last so many of these do not keep it from drift: they are its pods', and its `terminationGracePeriod` ends their stay.
    pub(crate) n_passing: usize,
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

    /// What keeps it from a method.
    pub(crate) fn blocked_from(&self, method: Method) -> &[Reason] {
        let n_passing = if method.is_drift() { self.n_passing } else { 0 };
        self.blocked.get(..self.blocked.len().saturating_sub(n_passing)).unwrap_or_default()
    }

    /// Whether a method could take it.
    pub(crate) fn may_go(&self) -> bool {
        self.blocked.is_empty() || (self.drift.is_some() && self.blocked_from(Method::Drift).is_empty())
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

/// What is wrong with a node's or a NodeClaim's `karpenter.sh/do-not-disrupt`, if it means nothing: it protects until it is mended.
pub fn check_do_not_disrupt_on_node(annotations: Option<&BTreeMap<String, String>>) -> Option<String> {
    let value = annotations?.get(labels::DO_NOT_DISRUPT)?;
    (!matches!(value.as_str(), "true" | "false")).then(|| unreadable_on_node(value))
}

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

/// What is known of a node.
pub(crate) struct Facts<'a> {
    node: &'a NodeRecord,
    claim: Option<&'a NodeClaim>,
    knows_claims: bool,
    pub(crate) pool: Option<&'a NodePool>,
    pub(crate) pool_name: &'a str,
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
    pub(crate) fn of(
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

    pub(crate) fn candidate(&self, prices: &Prices, limits: &Limits<'_>) -> Candidate {
        let moved: Vec<&PodRecord> = self.pods.iter().copied().filter(|pod| pods::is_moved(pod)).collect();
        let none = BTreeMap::new();
        let node_labels = self.node.labels().unwrap_or(&none);
        let claim = self.claim.and_then(|claim| {
            let key = Key::new(Kind::NodeClaim, "", claim.metadata.name.as_deref()?);
            Some(key.with_uid(claim.metadata.uid.as_deref()))
        });
        let full_cost = DisruptionCost::of_node(moved.iter().copied());
        let expires = self.claim.and_then(expiry);
        let price = prices.of_labels(node_labels);
        let mut blocked = self.blocked();
        let by_pods = self.blocked_by_pods(limits);
        let ends_their_stay = self.claim.is_some_and(|claim| claim.spec.termination_grace_period.is_some());
        let n_passing = if ends_their_stay { by_pods.len() } else { 0 };
        blocked.extend(by_pods);
        Candidate {
            node: self.node.reference(),
            claim,
            pool: self.pool_name.to_owned(),
            capacity_type: node_labels.get(labels::CAPACITY_TYPE).cloned().unwrap_or_default(),
            reservation: labels::reservation_id(node_labels).cloned(),
            slot: slot_kind(node_labels),
            may_leave_first: self.pool.is_some_and(|pool| {
                let may = pool.metadata.annotations.as_ref().and_then(|all| all.get(REPLACE_IN_SLOT));
                may.is_some_and(|value| value == "true")
            }),
            is_going: self.is_going(),
            is_initialized: self.is_initialized(),
            is_ready: self.is_ready(),
            price,
            cost: of_lifetime(full_cost, expires, self.now),
            full_cost,
            n_evictions: moved.len(),
            // Pods that cost nothing to move do not count, as in Karpenter.
            is_empty: self.rooms.is_empty() && full_cost == DisruptionCost::ONE,
            drift: self.pool.and_then(|pool| drift(self.claim, node_labels, pool, self.with_reserved)),
            expires,
            is_static: self.pool.is_some_and(|pool| pool.spec.is_static()),
            left_behind: self.left_behind(&moved, limits),
            held: self.rooms.iter().map(|room| reference(Kind::Reservation, &room.metadata)).collect(),
            created: self.node.created(),
            blocked,
            n_passing,
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
            faults.extend(check_do_not_disrupt_on_node(annotations).map(|fault| (object, fault)));
        }
        faults
    }

    pub(crate) fn is_going(&self) -> bool {
        self.node.deletion().is_some()
            || self.claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
            || self.node.taints().iter().any(|taint| matches!(taint.key.as_str(), labels::DISRUPTED_TAINT | UNDECIDED))
    }

    /// Unless its kubelet says that it is not.
    pub(crate) fn is_ready(&self) -> bool {
        self.node.conditions().iter().all(|condition| condition.type_ != "Ready" || condition.status == "True")
    }

    pub(crate) fn is_initialized(&self) -> bool {
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
    fn blocked(&self) -> Vec<Reason> {
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
        reasons.extend(self.rooms.iter().filter_map(|room| rooms::stays(room, pool, self.pods)).map(reason));
        reasons
    }

    /// The pods that stay until shortly before its `terminationGracePeriod` ends, were it told to go now.
    fn left_behind(&self, moved: &[&PodRecord], limits: &Limits<'_>) -> Vec<ObjectRef> {
        let given = self.claim.and_then(|claim| claim.spec.termination_grace_period.as_ref()?.to_std());
        let Some(given) = given else { return Vec::new() };
        let given = SignedDuration::try_from(given).unwrap_or(SignedDuration::MAX);
        let deadline = self.now.checked_add(given).unwrap_or(Timestamp::MAX);
        limits.who_stays(moved, Some(deadline), self.now).0.into_iter().map(PodRecord::reference).collect()
    }

    /// What keeps its pods where they are, in Karpenter's words, and how many of them.
    fn blocked_by_pods(&self, limits: &Limits<'_>) -> Vec<Reason> {
        let mut of_pods: BTreeMap<(String, Cause), usize> = BTreeMap::new();
        for pod in self.pods {
            if let Some(kept) = limits.why_kept(pod, self.now) {
                *of_pods.entry(kept).or_default() += 1;
            }
        }
        of_pods.into_iter().map(|((reason, cause), count)| Reason { reason, count, cause }).collect()
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
        let count = self.pods.iter().filter(|pod| pods::is_moved(pod) && pod.controller().is_none()).count();
        if count > 0 {
            reasons.push(Reason { reason: NO_CONTROLLER.to_owned(), count, cause: Cause::Other });
        }
        reasons
    }
}

/// The part of a cost that counts at that time, by when its node expires and how long it lives; all of it where that has no end.
pub(crate) fn of_lifetime(
    cost: DisruptionCost,
    expires: Option<(Timestamp, SignedDuration)>,
    now: Timestamp,
) -> DisruptionCost {
    expires.map_or(cost, |(expires, lifetime)| cost.over(expires.duration_since(now), lifetime))
}

/// When a NodeClaim will be older than its `expireAfter`, and how long that is.
fn expiry(claim: &NodeClaim) -> Option<(Timestamp, SignedDuration)> {
    let age = SignedDuration::try_from(claim.spec.expire_after.duration()?.to_std()?).ok()?;
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    Some((created.checked_add(age).ok()?, age))
}
