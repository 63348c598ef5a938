//! Does a pod fit, and from which of the Reservations that it matches may it draw?

use berth_model::{AllocatePolicy, Holding, ResourceId, ResourceNames, Resources, Room, Symbols};

/// Amounts behind a refusal: CPU in milli-CPU, everything else in its whole unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// What the pod asks for.
    pub requested: i64,
    /// What owners have.
    pub used: i64,
    /// What owners may have together.
    pub capacity: i64,
}

/// What a pod lacks, of its node or of a Reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The node has too little, that of the Reservation included.
    ByNode(ResourceId),
    /// A Restricted Reservation has too little; with amounts where the pod asks for that Reservation by name.
    InReservation(ResourceId, Option<Amounts>),
}

/// What of the pod's requests and of the policy matters for a fit.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The pod's requests, one of `pods` included.
    pub requests: &'a Resources,
    /// Whether it must draw from a Reservation.
    pub must_draw: bool,
    /// Whether it asks for one by name; refusals have amounts then.
    pub is_named: bool,
    /// Extended resources that are not looked at (`ignoredResources` of the configuration).
    pub ignored: &'a [ResourceId],
}

/// What a node has for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It may draw from any of these holdings, by position.
    Draws(Vec<usize>),
    /// None of its Reservations can serve it, or it has none here; there is free room all the same.
    FreeRoom,
    /// Neither.
    Refused(Vec<Lack>),
}

/// What a pod lacks that draws from the holding at a position, or from none.
fn node_lacks(room: Room<'_>, holding: Option<usize>, claim: &Claim<'_>) -> Vec<Lack> {
    let free = holding.map_or_else(|| room.free.clone(), |holding| room.free_with(holding));
    let asked = claim.requests.iter().filter(|(id, amount)| *amount > 0 && !claim.ignored.contains(id));
    asked.filter(|&(id, amount)| amount > free.get(id)).map(|(id, _)| Lack::ByNode(id)).collect()
}

/// What a Restricted Reservation lacks for a pod.
fn reservation_lacks(holding: &Holding, claim: &Claim<'_>) -> Vec<Lack> {
    if holding.policy() != AllocatePolicy::Restricted {
        return Vec::new();
    }
    let available = holding.available();
    // The number of owners is limited though the options do not name it.
    let is_limited = |id: ResourceId| match id {
        ResourceId::PODS => holding.limits_pods(),
        _ => holding.restricts(id) && !claim.ignored.contains(&id),
    };
    let asked = claim.requests.iter().filter(|&(id, amount)| amount > 0 && is_limited(id));
    let short = asked.filter(|&(id, amount)| amount > available.get(id));
    let lack = |(id, requested)| {
        let used = holding.allocated().get(id).max(0);
        let amounts = Amounts { requested, used, capacity: holding.capacity(id) };
        Lack::InReservation(id, claim.is_named.then_some(amounts))
    };
    short.map(lack).collect()
}

/// Whether a pod fits on a node where it matches the holdings at these positions.
///
/// One that can serve it is enough; without any the pod may still use free room, unless it must draw from a Reservation.
/// A Reservation that reserves nothing of what the pod requests is of use only to a pod that must draw from one.
pub fn fit<'a>(room: impl Into<Room<'a>>, matched: &[usize], claim: &Claim<'_>) -> Fit {
    let room = room.into();
    let (mut serving, mut by_node, mut in_reservations) = (Vec::new(), Vec::new(), Vec::new());
    for &position in matched {
        let Some(holding) = room.holdings.get(position) else { continue };
        if !claim.must_draw && !holding.shares_resource(claim.requests) {
            continue;
        }
        let (node, reservation) = (node_lacks(room, Some(position), claim), reservation_lacks(holding, claim));
        if node.is_empty() && reservation.is_empty() {
            serving.push(position);
        }
        by_node.extend(node);
        in_reservations.extend(reservation);
    }
    if !serving.is_empty() {
        return Fit::Draws(serving);
    }
    if claim.must_draw {
        by_node.extend(in_reservations);
        return Fit::Refused(without_repeats(by_node));
    }
    // What a Reservation and the node together cannot give, the node alone cannot.
    let alone = node_lacks(room, None, claim);
    if alone.is_empty() {
        return Fit::FreeRoom;
    }
    Fit::Refused(without_repeats(if by_node.is_empty() { alone } else { by_node }))
}

fn without_repeats(lacks: Vec<Lack>) -> Vec<Lack> {
    let mut distinct = Vec::with_capacity(lacks.len());
    for lack in lacks {
        // Each Reservation counts, the node but once.
        if matches!(lack, Lack::InReservation(..)) || !distinct.contains(&lack) {
            distinct.push(lack);
        }
    }
    distinct
}

/// Whether a Reservation of this policy may share a node with those that are there: those without a policy only with
/// their like.
pub fn may_share_node(policy: AllocatePolicy, others: &[Holding]) -> bool {
    others.iter().all(|other| may_share(policy, other.policy()))
}

/// Whether Reservations of these policies may be on one node.
pub fn may_share(policy: AllocatePolicy, other: AllocatePolicy) -> bool {
    (policy == AllocatePolicy::Unset) == (other == AllocatePolicy::Unset)
}

impl Lack {
    /// The node's resource that is short; `None` where it is the Reservation's.
    pub fn resource(&self) -> Option<ResourceId> {
        match *self {
            Lack::ByNode(id) => Some(id),
            Lack::InReservation(..) => None,
        }
    }

    /// In Koordinator's words.
    pub fn in_words(&self, names: &ResourceNames, symbols: &Symbols) -> String {
        let name = |id| names.name(id).map_or("", |name| symbols.text(name));
        match *self {
            Lack::ByNode(id) => format!("Insufficient {} by node", name(id)),
            Lack::InReservation(id, amounts) => {
                let what =
                    if id == ResourceId::PODS { "Too many pods".into() } else { format!("Insufficient {}", name(id)) };
                let amounts = amounts.map_or_else(String::new, |Amounts { requested, used, capacity }| {
                    format!(", requested: {requested}, used: {used}, capacity: {capacity}")
                });
                format!("Reservation(s) {what}{amounts}")
            }
        }
    }
}

/// Why a pod does not fit: what the node lacks by name, then what Reservations lack; or that none of them will do.
pub fn in_words(lacks: &[Lack], names: &ResourceNames, symbols: &Symbols) -> Vec<String> {
    let is_of_node = |lack: &&Lack| matches!(lack, Lack::ByNode(_));
    let mut words: Vec<String> = lacks.iter().filter(is_of_node).map(|lack| lack.in_words(names, symbols)).collect();
    words.sort();
    words.extend(lacks.iter().filter(|lack| !is_of_node(lack)).map(|lack| lack.in_words(names, symbols)));
    if words.is_empty() {
        words.push(super::reasons::NONE_MEETS.to_owned());
    }
    words
}
