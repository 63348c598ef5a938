//! Alike nodes together: one offering, the same pods by class, the same types to fall back on.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::{CapacityType, ClassId, Money};
use berth_provisioning::Claims;

use crate::Plan;
use berth_decisions::{Assignment, Share};

/// Consecutive nodes of a NodePool, and the members of the first.
pub(super) struct Part<'a> {
    /// The number in the first node's name.
    pub(super) number: u64,
    pub(super) count: u32,
    /// In the order of the group's contents.
    pub(super) shares: Vec<&'a Share>,
}

/// Alike nodes.
pub(super) struct Group<'a> {
    /// One of the claims; the others differ from it in who their pods are.
    pub(super) claims: &'a Claims,
    pub(super) contents: Vec<(ClassId, u32)>,
    pub(super) parts: Vec<Part<'a>>,
}

/// In the order of the page: by NodePool, zone and capacity type, then what costs most.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey<'a> {
    node_pool: &'a str,
    zone: Option<&'a str>,
    capacity_type: CapacityType,
    slots: Option<&'a str>,
    instance_type: u32,
    price: Money,
    contents: Vec<(ClassId, u32)>,
    instance_types: &'a [u32],
}

impl Group<'_> {
    pub(super) fn count(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }

    /// The capacity reservation that its nodes draw from.
    pub(super) fn reservation<'a>(&self, plan: &'a Plan) -> Option<&'a str> {
        reservation(plan, self.claims)
    }
}

/// The nodes to be launched, in the order of the page. Numbers of nodes are those of the JSON contract.
pub(super) fn groups<'a>(plan: &'a Plan, assignment: &'a Assignment<'_>) -> Vec<Group<'a>> {
    let symbols = &plan.cluster.symbols;
    let mut numbers = vec![1_u64; plan.cluster.node_pools.len()];
    let mut groups: BTreeMap<GroupKey<'a>, Group<'a>> = BTreeMap::new();
    for (claims, shares) in plan.solution.claims.iter().zip(&assignment.claims).filter(|(claims, _)| claims.count > 0) {
        let mut shares: Vec<&Share> = shares.iter().collect();
        shares.sort_by_key(|share| (share.class, share.count, share.first));
        let contents: Vec<(ClassId, u32)> = shares.iter().map(|share| (share.class, share.count)).collect();
        let mut number = 1;
        if let Some(next) = numbers.get_mut(claims.node_pool) {
            number = *next;
            *next += u64::from(claims.count);
        }
        let key = GroupKey {
            node_pool: plan.pool_name(claims.node_pool),
            zone: claims.zone.map(|zone| symbols.text(zone)),
            capacity_type: claims.capacity_type,
            slots: reservation(plan, claims),
            instance_type: claims.instance_type,
            price: claims.price,
            contents: contents.clone(),
            instance_types: &claims.instance_types,
        };
        let group = groups.entry(key).or_insert_with(|| Group { claims, contents, parts: Vec::new() });
        group.parts.push(Part { number, count: claims.count, shares });
    }
    let mut groups: Vec<(GroupKey<'a>, Group<'a>)> = groups.into_iter().collect();
    groups.sort_by(|(a, x), (b, y)| {
        let cost = |group: &Group<'_>| group.claims.list_price.times(group.count());
        let section = (a.node_pool, a.zone, a.capacity_type).cmp(&(b.node_pool, b.zone, b.capacity_type));
        section.then_with(|| cost(y).cmp(&cost(x)))
    });
    groups.into_iter().map(|(_, group)| group).collect()
}

fn reservation<'a>(plan: &'a Plan, claims: &Claims) -> Option<&'a str> {
    let slots = claims.slots.and_then(|slots| plan.cluster.slots.get(slots.index()))?;
    slots.is_reservation.then(|| plan.cluster.symbols.text(slots.id))
}

/// The lists of instance types that claims keep, each once.
#[derive(Default)]
pub(super) struct Lists {
    ids: BTreeMap<Arc<[u32]>, usize>,
    pub(super) lists: Vec<Arc<[u32]>>,
}

impl Lists {
    pub(super) fn id(&mut self, list: &Arc<[u32]>) -> usize {
        *self.ids.entry(Arc::clone(list)).or_insert_with(|| {
            self.lists.push(Arc::clone(list));
            self.lists.len() - 1
        })
    }
}

impl Plan {
    /// The name of a NodePool by index.
    pub(crate) fn pool_name(&self, index: usize) -> &str {
        self.cluster.node_pools.get(index).map_or("", |pool| self.cluster.symbols.text(pool.name))
    }
}
