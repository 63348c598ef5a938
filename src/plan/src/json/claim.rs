//! NodeClaims, one by one; what identical ones share is rendered once.

use std::rc::Rc;
use std::sync::Arc;

use berth_model::MemberKind;
use berth_provisioning::Claims as Group;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::{Allocations, Members, terms};
use crate::Plan;
use crate::decimal::Exact;
use berth_decisions::{Also, Assignment, PlannedNode, Share};

/// `nodeClaims`.
pub(super) struct Claims<'a> {
    plan: &'a Plan,
    assignment: &'a Assignment<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Offering<'a> {
    instance_type: &'a str,
    zone: Option<&'a str>,
    capacity_type: &'static str,
    #[serde(rename = "reservationID")]
    reservation_id: Option<&'a str>,
    price: Exact,
}

/// What the claims of a group share.
struct Common<'a> {
    node_pool: &'a str,
    offering: Box<RawValue>,
    instance_types: Rc<RawValue>,
    requirements: Box<RawValue>,
    taints: Box<RawValue>,
    requests: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claim<'a> {
    name: ClaimName<'a>,
    node_pool: &'a str,
    offering: &'a RawValue,
    instance_types: &'a RawValue,
    requirements: &'a RawValue,
    taints: &'a RawValue,
    requests: &'a RawValue,
    pods: Members<'a>,
    reservations: Members<'a>,
    allocations: Allocations<'a>,
}

/// `pool-00012`.
struct ClaimName<'a> {
    node_pool: &'a str,
    number: u64,
}

impl Serialize for ClaimName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{:05}", self.node_pool, self.number))
    }
}

// === impl Claims ===

impl<'a> Claims<'a> {
    pub(super) fn new(plan: &'a Plan, assignment: &'a Assignment<'a>) -> Self {
        Claims { plan, assignment }
    }

    fn common(&self, group: &Group, lists: &mut InstanceTypes) -> serde_json::Result<Common<'a>> {
        let cluster = &self.plan.cluster;
        let symbols = &cluster.symbols;
        let pool = cluster.node_pools.get(group.node_pool);
        let slots = group.slots.and_then(|slots| cluster.slots.get(slots.index()));
        let offering = Offering {
            instance_type: self.plan.type_name(group.instance_type),
            zone: group.zone.map(|zone| symbols.text(zone)),
            capacity_type: group.capacity_type.name(),
            reservation_id: slots.filter(|slots| slots.is_reservation).map(|slots| symbols.text(slots.id)),
            price: Exact(group.price),
        };
        Ok(Common {
            node_pool: pool.map_or("", |pool| symbols.text(pool.name)),
            offering: to_raw_value(&offering)?,
            instance_types: lists.render(self.plan, &group.instance_types)?,
            requirements: to_raw_value(&terms::requirements(cluster, &group.requirements))?,
            taints: to_raw_value(&terms::taints(cluster, pool.map_or(&[], |pool| &pool.taints)))?,
            requests: to_raw_value(&berth_decisions::quantities(cluster, &group.requests))?,
        })
    }

    fn claim<'b>(
        &'b self,
        common: &'b Common<'_>,
        shares: &'b [Share],
        node: u32,
        number: u64,
        (drawn, joined): (&'b [Also<'b>], &'b [Also<'b>]),
    ) -> Claim<'b> {
        let members = |kind, also| Members { assignment: self.assignment, shares, kind, node, also };
        Claim {
            name: ClaimName { node_pool: common.node_pool, number },
            node_pool: common.node_pool,
            offering: &common.offering,
            instance_types: &common.instance_types,
            requirements: &common.requirements,
            taints: &common.taints,
            requests: &common.requests,
            pods: members(MemberKind::Pod, drawn),
            reservations: members(MemberKind::Reservation, &[]),
            allocations: Allocations(drawn, joined),
        }
    }
}

impl Serialize for Claims<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut numbers = vec![0_u64; self.plan.cluster.node_pools.len()];
        let mut lists = InstanceTypes::default();
        let mut seq = serializer.serialize_seq(None)?;
        for (at, (group, shares)) in self.plan.solution.claims.iter().zip(&self.assignment.claims).enumerate() {
            let common = self.common(group, &mut lists).map_err(S::Error::custom)?;
            for node in 0..group.count {
                let mut number = 0;
                if let Some(last) = numbers.get_mut(group.node_pool) {
                    *last += 1;
                    number = *last;
                }
                let drawn = self.plan.allocation.with(self.assignment, shares, node, &self.plan.cluster);
                let joined: Vec<_> =
                    self.plan.allocation.joined(PlannedNode::Claim(at, node), &self.plan.cluster).collect();
                seq.serialize_element(&self.claim(&common, shares, node, number, (&drawn, &joined)))?;
            }
        }
        seq.end()
    }
}

/// Lists of instance types that were rendered: a few lists serve many groups, one after another.
#[derive(Default)]
struct InstanceTypes {
    last: Option<(Arc<[u32]>, Rc<RawValue>)>,
}

impl InstanceTypes {
    fn render(&mut self, plan: &Plan, types: &Arc<[u32]>) -> serde_json::Result<Rc<RawValue>> {
        if let Some((known, rendered)) = &self.last
            && (Arc::ptr_eq(known, types) || known == types)
        {
            return Ok(Rc::clone(rendered));
        }
        let names: Vec<&str> = types.iter().map(|&index| plan.type_name(index)).collect();
        let rendered: Rc<RawValue> = Rc::from(to_raw_value(&names)?);
        self.last = Some((Arc::clone(types), Rc::clone(&rendered)));
        Ok(rendered)
    }
}

impl Plan {
    /// The name of an instance type by index.
    pub(crate) fn type_name(&self, index: u32) -> &str {
        let instance_type = self.cluster.instance_types.get(index as usize);
        instance_type.map_or("", |instance_type| self.cluster.symbols.text(instance_type.name))
    }
}
