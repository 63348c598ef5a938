//! On which NUMA nodes a pod lies under a policy: on as few as hold all that it requests, its CPUs and devices included; of
//! as few, on those that are left the emptiest.

use berth_model::{NumaNode, NumaPolicy, ResourceId, Resources, Units, UnitsAsk, UnitsState};

use super::lack::{NumaChoice, UnitsLack};
use super::seeker::{Given, Seeker, is_restricted};

/// With more NUMA nodes, only single ones and all together are looked at.
const MOST_NODES: usize = 12;

/// The policy that holds for a pod on a node.
///
/// # Errors
/// Both have one, and they differ.
pub(super) fn policy(units: &Units, ask: &UnitsAsk) -> Result<Option<NumaPolicy>, UnitsLack> {
    match (units.policy, ask.policy) {
        (Some(node), Some(pod)) if node != pod => Err(UnitsLack::NumaPolicy),
        (node, pod) => Ok(pod.or(node)),
    }
}

/// What a pod gets under a policy.
pub(super) fn align(seeker: &Seeker<'_>, requests: &Resources, policy: NumaPolicy) -> Result<Given, UnitsLack> {
    let nodes = &seeker.units.numa;
    if nodes.is_empty() {
        return if policy == NumaPolicy::BestEffort { seeker.on(None) } else { Err(UnitsLack::NumaNodes) };
    }
    let is_listed = |id: ResourceId| nodes.iter().any(|node| node.reported.contains(&id));
    let mut asked = Resources::new();
    for (id, amount) in requests.iter().filter(|(id, amount)| *amount > 0 && is_listed(*id)) {
        asked.set(id, amount);
    }
    let left: Vec<Resources> = nodes.iter().map(|node| left_on(seeker, node)).collect();
    let mut possible: Vec<NumaNodes> = Vec::new();
    for set in sets(nodes.len()) {
        // Larger sets are of no use once a smaller one does, but to say why where none is good enough.
        let is_enough = possible.iter().any(|known| known.is_good && known.size() < set.count_ones());
        if is_enough {
            break;
        }
        possible.extend(choice(seeker, &asked, &left, set, policy));
    }
    let smallest = possible.iter().filter(|choice| choice.is_good).map(NumaNodes::size).min();
    let best = possible.iter().enumerate().filter(|(_, choice)| choice.is_good && Some(choice.size()) == smallest);
    if let Some((at, _)) = best.max_by_key(|(at, choice)| (choice.score, std::cmp::Reverse(*at))) {
        return Ok(possible.swap_remove(at).given);
    }
    if policy == NumaPolicy::BestEffort {
        return seeker.on(None);
    }
    let ids = || asked.iter().map(|(id, _)| id);
    if possible.is_empty() {
        // Amounts may do where CPUs or devices do not.
        let all = seeker.on(None).err();
        return Err(all.unwrap_or_else(|| UnitsLack::NumaAmounts(ids().collect())));
    }
    let fewest = possible.iter().map(NumaNodes::size).min();
    let is_preferred = |choice: &&NumaNodes| policy == NumaPolicy::Restricted || Some(choice.size()) == fewest;
    let all = NumaChoice {
        preferred: possible.iter().filter(is_preferred).map(|choice| choice.set).collect(),
        possible: possible.iter().map(|choice| choice.set).collect(),
    };
    Err(UnitsLack::NumaAlignment(ids().map(|id| (id, all.clone())).collect(), policy))
}

/// A set of NUMA nodes, by position, that holds the pod.
struct NumaNodes {
    set: u64,
    given: Given,
    /// Whether the policy lets the pod lie there, and the pods there do.
    is_good: bool,
    score: i64,
}

impl NumaNodes {
    fn size(&self) -> u32 {
        self.set.count_ones()
    }
}

fn choice(
    seeker: &Seeker<'_>,
    asked: &Resources,
    left: &[Resources],
    set: u64,
    policy: NumaPolicy,
) -> Option<NumaNodes> {
    let in_set = |at: &usize| set & (1 << at) != 0;
    let members: Vec<usize> = (0..left.len()).filter(in_set).collect();
    // None of them is there for nothing.
    let lacks_any = |at: &usize| left.get(*at).is_none_or(|left| asked.iter().any(|(id, _)| left.get(id) <= 0));
    if members.iter().any(lacks_any) {
        return None;
    }
    let parts = split(seeker, asked, left, &members)?;
    let mut given = seeker.on(Some(&parts)).ok()?;
    given.assigned.numa = parts;
    let is_few = policy != NumaPolicy::SingleNode || members.len() == 1;
    let is_good = is_few && (!seeker.ask.is_exclusive || is_left_alone(seeker, &members));
    Some(NumaNodes { set, is_good, score: score(seeker, asked, left, &members), given })
}

/// The parts of a request on each of the NUMA nodes, as even as what is left of them allows.
fn split(
    seeker: &Seeker<'_>,
    asked: &Resources,
    left: &[Resources],
    members: &[usize],
) -> Option<Vec<(u32, Resources)>> {
    let nodes = &seeker.units.numa;
    let mut parts: Vec<(u32, Resources)> =
        members.iter().filter_map(|&at| Some((nodes.get(at)?.id, Resources::new()))).collect();
    for (id, amount) in asked.iter() {
        // CPUs of its own are whole.
        let unit = if id == ResourceId::CPU && seeker.ask.cpus > 0 { 1000 } else { 1 };
        let room = |position: usize| members.get(position).and_then(|&at| left.get(at)).map_or(0, |left| left.get(id));
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&position| room(position));
        let mut rest = amount;
        for (turn, position) in order.into_iter().enumerate() {
            let share = rest / i64::try_from(members.len() - turn).unwrap_or(1);
            let is_last = turn + 1 == members.len();
            let part = if is_last { rest } else { share - share % unit };
            let part = part.min(room(position) - room(position) % unit);
            if let Some((_, amounts)) = parts.get_mut(position) {
                amounts.set(id, part);
            }
            rest -= part;
        }
        if rest > 0 {
            return None;
        }
    }
    parts.retain(|(_, amounts)| amounts.iter().any(|(_, amount)| amount > 0));
    Some(parts)
}

/// What of a NUMA node neither pods nor other Reservations have; of a Restricted Reservation, what it has itself.
fn left_on(seeker: &Seeker<'_>, node: &NumaNode) -> Resources {
    let own = seeker.own;
    if let Some(own) = own.filter(|own| is_restricted(Some(own)) && !own.reserved.numa.is_empty()) {
        return own.numa_left(node.id);
    }
    let mut left = node.amounts.clone();
    left.subtract(&seeker.state.used.of_numa(node.id));
    for held in &seeker.state.held {
        if own.is_none_or(|own| own.reservation != held.reservation) {
            left.subtract(&held.numa_left(node.id));
        }
    }
    left
}

/// LeastAllocated over CPU and memory of the NUMA nodes together.
fn score(seeker: &Seeker<'_>, asked: &Resources, left: &[Resources], members: &[usize]) -> i64 {
    let sum = |amounts: &dyn Fn(usize) -> i64| members.iter().map(|&at| amounts(at)).fold(0, i64::saturating_add);
    let share = |id: ResourceId| {
        let all = sum(&|at| seeker.units.numa.get(at).map_or(0, |node| node.amounts.get(id)));
        let rest = sum(&|at| left.get(at).map_or(0, |left| left.get(id))).saturating_sub(asked.get(id));
        if all <= 0 { 0 } else { rest.max(0).saturating_mul(100) / all }
    };
    i64::midpoint(share(ResourceId::CPU), share(ResourceId::MEMORY))
}

/// Whether pods on one NUMA node and pods on several would not meet.
fn is_left_alone(seeker: &Seeker<'_>, members: &[usize]) -> bool {
    let UnitsState { lying, .. } = seeker.state;
    let counts = |at: &usize| {
        let id = seeker.units.numa.get(*at).map(|node| node.id);
        lying.iter().find(|(known, _)| Some(*known) == id).map_or([0, 0], |(_, counts)| *counts)
    };
    members
        .iter()
        .map(counts)
        .all(|[alone, spread]| if members.len() > 1 { alone == 0 || spread > 0 } else { spread == 0 })
}

/// Sets of so many, the smallest first, then by their first members.
fn sets(nodes: usize) -> Vec<u64> {
    if nodes > MOST_NODES {
        let nodes = nodes.min(63);
        return (0..nodes).map(|at| 1 << at).chain([(1 << nodes) - 1]).collect();
    }
    let mut sets: Vec<u64> = (1..1 << nodes).collect();
    sets.sort_by_key(|set: &u64| (set.count_ones(), *set));
    sets
}
