//! How far a Reservation has come: a state machine over what is seen of it, with the clock as an argument.
//!
//! Times are seconds of Unix time, as the API server keeps them.

use std::time::Duration;

use berth_model::{Lifetime, Phase, Resources};

/// The condition's reason once it has a node.
pub const SCHEDULED: &str = "Scheduled";
/// The condition's reason while no node will do.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// The condition's reason while owners may draw from it.
pub const AVAILABLE: &str = "Available";
/// The condition's reason while pods that it is bound to still run.
pub const WAITING: &str = "Waiting";
/// The condition's reason while pods that are not its owners use its room.
pub const ROOM_TAKEN: &str = "RoomTaken";
/// The condition's reason once its one owner has come.
pub const SUCCEEDED: &str = "Succeeded";
/// The condition's reason once it expired, or its node is gone.
pub const EXPIRED: &str = "Expired";

/// How soon and how late a Reservation is looked at again.
const NEXT_CHECK: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(15));

/// One thing observed of a Reservation, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// True or False.
    pub status: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence for people; may be empty.
    pub message: String,
    /// When it was last looked at.
    pub last_probe: i64,
    /// When its status last changed.
    pub last_transition: i64,
}

/// A pod that draws from a Reservation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CurrentOwner {
    /// The uid, by which owners are sorted.
    pub uid: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What does not change over a Reservation's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When it was created.
    pub created: i64,
    /// When it expires, whatever the ttl says.
    pub expires: Option<i64>,
    /// How long it lives from its creation; zero is for ever.
    pub ttl: Duration,
    /// Whether only the first owner may draw from it.
    pub allocate_once: bool,
}

/// The status of a Reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// How far it has come.
    pub phase: Phase,
    /// Whether it has a node.
    pub scheduled: Option<Condition>,
    /// Whether owners may draw from it.
    pub ready: Option<Condition>,
    /// The node that its room is on.
    pub node: Option<String>,
    /// What it reserves.
    pub allocatable: Resources,
    /// What pods draw from it, of the resources that it reserves.
    pub allocated: Resources,
    /// The pods that draw from it, by uid.
    pub current_owners: Vec<CurrentOwner>,
}

/// A pod on the Reservation's node that is annotated as drawing from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenOwner {
    /// Who it is.
    pub owner: CurrentOwner,
    /// Its requests, where they are known.
    pub requests: Option<Resources>,
    /// Whether it ran before, and the Reservation was bound to it.
    pub ran_before: bool,
    /// Whether it is to leave the node, which goes away.
    pub leaves: bool,
}

/// What is seen of a Reservation's node and owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The pods that draw from it now.
    pub owners: Vec<SeenOwner>,
    /// Whether its node is gone.
    pub is_node_lost: bool,
    /// Whether its node goes away for good, and its room can move.
    pub is_node_going: bool,
    /// Whether other pods use room that it holds.
    pub is_room_taken: bool,
    /// How many of these are running pods whose room it inherits as they go: it pre-allocates.
    pub n_predecessors: usize,
}

/// The Reservation found a node. Bound to pods that already run, it waits until they have gone.
pub fn scheduled(status: &Status, node: &str, allocatable: Resources, n_bound_pods: usize, now: i64) -> Status {
    let mut next = status.clone();
    if next.phase.is_terminal() {
        return next;
    }
    next.node = Some(node.to_owned());
    next.allocatable = allocatable;
    set(&mut next.scheduled, true, SCHEDULED, String::new(), now);
    settle(&mut next, n_bound_pods, false, now);
    next
}

/// No node will do; a Reservation that has one keeps it, and only the probe time changes.
pub fn unschedulable(status: &Status, message: &str, now: i64) -> Status {
    let mut next = status.clone();
    if next.phase.is_terminal() {
        return next;
    }
    match &mut next.scheduled {
        Some(condition) if condition.status => condition.last_probe = now,
        scheduled => set(scheduled, false, UNSCHEDULABLE, message.to_owned(), now),
    }
    next
}

/// What becomes of a Reservation of which so much is seen. Terminal ones stay as they are; others expire, whether they
/// are pending, waiting or available, and with the loss of their node; else owners and amounts are counted. The first
/// owner of one that is for one owner alone spends it, for good. Where its node goes away it is pending again, unless somebody draws from
/// it who stays there: those who are made anew in place of the others draw from it where it comes.
pub fn sync(terms: &Terms, status: &Status, seen: &Seen, now: i64) -> Status {
    let mut next = status.clone();
    if next.phase.is_terminal() {
        return next;
    }
    if is_expired(terms, now) || (next.node.is_some() && seen.is_node_lost) {
        let message = if is_expired(terms, now) { String::new() } else { "the node is gone".to_owned() };
        next.phase = Phase::Failed;
        set(&mut next.ready, false, EXPIRED, message, now);
        return next;
    }
    if next.node.is_none() {
        return next;
    }
    next.current_owners = seen.owners.iter().map(|seen| seen.owner.clone()).collect();
    next.current_owners.sort_unstable();
    let requests: Option<Vec<&Resources>> = seen.owners.iter().map(|owner| owner.requests.as_ref()).collect();
    // Of some whose node goes away it may not be known: then it is what was written last.
    if let Some(requests) = requests {
        next.allocated = Resources::new();
        for (id, _) in next.allocatable.iter() {
            let drawn = requests.iter().map(|own| own.get(id)).fold(0_i64, i64::saturating_add);
            next.allocated.set(id, drawn);
        }
    }
    let n_bound_pods = seen.owners.iter().filter(|owner| owner.ran_before).count();
    if terms.allocate_once && n_bound_pods < seen.owners.len() {
        next.phase = Phase::Succeeded;
        set(&mut next.ready, false, SUCCEEDED, String::new(), now);
        return next;
    }
    if seen.is_node_going && seen.owners.iter().all(|owner| owner.leaves) {
        return without_node(next, |node| format!("node {node}, where it held room, goes away"), now);
    }
    let n_predecessors = if seen.is_room_taken { seen.n_predecessors } else { 0 };
    settle(&mut next, n_bound_pods.saturating_add(n_predecessors), seen.is_room_taken, now);
    next
}

/// Available, or waiting for its room.
fn settle(status: &mut Status, n_bound_pods: usize, is_room_taken: bool, now: i64) {
    if n_bound_pods > 0 {
        status.phase = Phase::Waiting;
        set(&mut status.ready, false, WAITING, format!("{n_bound_pods} running pod(s) still hold the room"), now);
    } else if is_room_taken {
        status.phase = Phase::Waiting;
        let message = "pods that are not its owners use the room that it holds".to_owned();
        set(&mut status.ready, false, ROOM_TAKEN, message, now);
    } else {
        status.phase = Phase::Available;
        set(&mut status.ready, true, AVAILABLE, String::new(), now);
    }
}

fn set(condition: &mut Option<Condition>, status: bool, reason: &'static str, message: String, now: i64) {
    let same_since = condition.as_ref().filter(|known| known.status == status).map(|known| known.last_transition);
    let last_transition = same_since.unwrap_or(now);
    *condition = Some(Condition { status, reason, message, last_probe: now, last_transition });
}

/// Whether its time is over: after `expires` where that is set, else after the ttl, of which zero never ends.
pub fn is_expired(terms: &Terms, now: i64) -> bool {
    ends(terms).is_some_and(|end| now > end)
}

fn ends(terms: &Terms) -> Option<i64> {
    let Terms { created, expires, ttl, .. } = *terms;
    Lifetime { created: Some(created), expires, ttl }.ends(created)
}

/// When to look again: when its time is over, but not before 3 seconds and not after 15; `None` where nothing changes
/// with time.
pub fn next_check(terms: &Terms, status: &Status, now: i64) -> Option<Duration> {
    let end = ends(terms).filter(|_| !status.phase.is_terminal())?;
    let left = Duration::from_secs(u64::try_from(end.saturating_sub(now)).unwrap_or(0));
    Some(left.clamp(NEXT_CHECK.0, NEXT_CHECK.1))
}

/// Whether a Reservation whose room was taken may be given another node: nobody draws from it.
pub fn may_be_planned_again(status: &Status) -> bool {
    let is_taken = status.ready.as_ref().is_some_and(|ready| !ready.status && ready.reason == ROOM_TAKEN);
    status.phase == Phase::Waiting && is_taken && status.current_owners.is_empty()
}

/// How long room is seen as taken until the Reservation is planned again: what is told late may put it right.
const TAKEN_FOR: i64 = 10;

/// When a Reservation whose room was taken gives its node up; `None` where it does not.
pub fn gives_up_at(status: &Status) -> Option<i64> {
    let ready = status.ready.as_ref().filter(|_| may_be_planned_again(status))?;
    Some(ready.last_transition.saturating_add(TAKEN_FOR))
}

/// A Reservation whose room was taken is without a node again, and says why.
pub fn planned_again(status: &Status, now: i64) -> Status {
    if !may_be_planned_again(status) {
        return status.clone();
    }
    let why = |node: &str| format!("pods that are not its owners took the room that it held on node {node}");
    without_node(status.clone(), why, now)
}

/// Pending again; `why` is given the name of the node that it had.
fn without_node(mut status: Status, why: impl FnOnce(&str) -> String, now: i64) -> Status {
    let node = status.node.take().unwrap_or_default();
    status.phase = Phase::Pending;
    status.ready = None;
    status.current_owners.clear();
    (status.allocatable, status.allocated) = (Resources::new(), Resources::new());
    set(&mut status.scheduled, false, UNSCHEDULABLE, why(&node), now);
    status
}

/// Whether it may be deleted: spent or expired for longer than `after`, or its node is gone, too. One that failed for
/// another reason is left to people.
pub fn is_garbage(status: &Status, is_node_lost: bool, after: Duration, now: i64) -> bool {
    let Some(ready) = &status.ready else { return false };
    if !matches!((status.phase, ready.reason), (Phase::Failed, EXPIRED) | (Phase::Succeeded, SUCCEEDED)) {
        return false;
    }
    // One that waited was not ready before, so the last transition may be older than the end.
    let age = u64::try_from(now.saturating_sub(ready.last_probe)).unwrap_or(0);
    (is_node_lost && status.node.is_some()) || age > after.as_secs()
}
