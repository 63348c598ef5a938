//! Who found no place, in the room that Reservations on launched nodes do not hold any more once their owners have come.

use std::cmp::Reverse;

use berth_model::{ClassId, Cluster, Constraint, PodSpec, Resources, Universe};
use berth_provisioning::{Claims, Solution};

/// A solution with those of the unschedulable that fit beside their like on nodes of which Reservations give room back:
/// `owners_came` is the same solution in which claims request that much less. `None` where nobody does.
pub(crate) fn fill(
    cluster: &Cluster,
    universe: &Universe,
    solution: &Solution,
    owners_came: &Solution,
) -> Option<Solution> {
    if solution.unschedulable.is_empty() {
        return None;
    }
    let mut left: Vec<Left<'_>> = solution
        .unschedulable
        .iter()
        .filter_map(|left| {
            let spec = joins_its_like(cluster, universe, left.class)?;
            Some(Left { class: left.class, spec, count: left.count })
        })
        .collect();
    left.sort_by_key(|left| Reverse(left.spec.priority));
    let mut claims: Vec<Claims> = Vec::with_capacity(solution.claims.len());
    let mut is_filled = false;
    for (own, came) in solution.claims.iter().zip(&owners_came.claims) {
        let gives_back = own.requests != came.requests && !asks_for_many_types(own);
        let mut n_alike = 0;
        for copy in 0..own.count {
            let filled = gives_back.then(|| fill_one(cluster, own, came, &mut left)).flatten();
            let Some(filled) = filled else {
                // What one copy does not take no later one does.
                n_alike = own.count - copy;
                break;
            };
            is_filled = true;
            claims.push(filled);
        }
        if n_alike > 0 {
            claims.push(Claims { count: n_alike, ..own.clone() });
        }
    }
    if !is_filled {
        return None;
    }
    let mut filled = Solution { claims, ..solution.clone() };
    for known in &mut filled.unschedulable {
        if let Some(left) = left.iter().find(|left| left.class == known.class) {
            known.count = left.count;
        }
    }
    filled.unschedulable.retain(|left| left.count > 0);
    Some(filled)
}

/// Pods of a class that have no place.
struct Left<'a> {
    class: ClassId,
    spec: &'a PodSpec,
    count: u32,
}

/// One node of an entry with those who fit beside their like; `None` if nobody does.
fn fill_one(cluster: &Cluster, own: &Claims, came: &Claims, left: &mut [Left<'_>]) -> Option<Claims> {
    let mut room = room_of(cluster, own, own.instance_type)?;
    room.subtract(&came.requests);
    let mut filled = Claims { count: 1, ..own.clone() };
    let mut added = Resources::new();
    for left in left.iter_mut() {
        let Some((_, count)) = filled.contents.iter_mut().find(|(class, _)| *class == left.class) else { continue };
        let n = left.spec.requests.times_in(&room, left.count);
        let Some(more) = count.checked_add(n) else { continue };
        *count = more;
        left.count -= n;
        room.add_times(&left.spec.requests, -i64::from(n));
        added.add_times(&left.spec.requests, i64::from(n));
    }
    if added == Resources::new() {
        return None;
    }
    filled.requests.add(&added);
    let mut wanted = came.requests.clone();
    wanted.add(&added);
    let holds = |of_type: &u32| room_of(cluster, own, *of_type).is_some_and(|room| wanted.fits(&room));
    filled.instance_types = own.instance_types.iter().copied().filter(holds).collect();
    Some(filled)
}

/// What a node of a type has for pods, in the NodePool of a claim.
fn room_of(cluster: &Cluster, claims: &Claims, of_type: u32) -> Option<Resources> {
    let mut room = cluster.instance_types.get(of_type as usize)?.resources.clone();
    room.subtract(&cluster.node_pools.get(claims.node_pool)?.reserved);
    Some(room)
}

/// The spec of a class, where one more of its pods may go wherever one is, as far as there is room.
fn joins_its_like<'a>(cluster: &'a Cluster, universe: &Universe, class: ClassId) -> Option<&'a PodSpec> {
    let class = universe.class(class).filter(|class| class.kind == berth_model::MemberKind::Pod)?;
    let spec = cluster.specs.get(class.spec as usize)?;
    let counts_its_like = class.required.iter().any(|constraint| match constraint {
        Constraint::Spread { .. } => true,
        Constraint::Apart { counts_self, .. } => *counts_self,
        Constraint::Together { .. } => false,
    });
    let has_own = spec.volumes != berth_model::Volumes::default() || spec.units != berth_model::UnitsAsk::default();
    let must_draw = spec.reservation.affinity.is_some();
    (spec.refusal.is_none() && !counts_its_like && !spec.excludes_its_like() && !has_own && !must_draw).then_some(spec)
}

/// Whether a claim has to leave a number of types to choose from, which more pods could make fewer.
fn asks_for_many_types(claims: &Claims) -> bool {
    claims.requirements.iter().any(|(_, asked)| asked.min_values().is_some())
}
