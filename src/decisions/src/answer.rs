//! A decision said in names and uids, as far as it is the same wherever it was made: objects, and launches.

use berth_api::{Operator, Requirement, labels};
use berth_model::{Cluster, MemberKind, Reservation};
use berth_provisioning::{Claims, Solution};
use berth_state::{Kind, ObjectRef, State};

use crate::allocation::Allocation;
use crate::assignment::{Assignment, Share};
use crate::decision::{Decision, Launch, Nomination, OfferingName, ReservationDraw};
use crate::displaced::reference;
use crate::joining::PlannedNode;
use crate::options::Options;
use crate::terms;

/// What a decision is said of.
pub(crate) struct Answer<'a> {
    pub(crate) state: &'a State,
    pub(crate) options: &'a Options,
    pub(crate) cluster: &'a Cluster,
    pub(crate) allocation: &'a Allocation,
}

impl Answer<'_> {
    fn reference(&self, kind: Kind, namespace: &str, name: &str) -> ObjectRef {
        reference(self.state, kind, namespace, name)
    }

    /// A pod by `namespace/name`, or a Reservation by name.
    pub(crate) fn member(&self, kind: MemberKind, name: &str) -> ObjectRef {
        match (kind, name.split_once('/')) {
            (MemberKind::Pod, Some((namespace, name))) => self.reference(Kind::Pod, namespace, name),
            (MemberKind::Pod, None) => self.reference(Kind::Pod, "", name),
            (MemberKind::Reservation, _) => self.reference(Kind::Reservation, "", name),
        }
    }

    /// A Reservation, or the pod that is one.
    pub(crate) fn room(&self, known: &Reservation) -> ObjectRef {
        let text = |sym| self.cluster.symbols.text(sym);
        match known.pod_namespace {
            Some(namespace) => self.reference(Kind::Pod, text(namespace), text(known.name)),
            None => self.reference(Kind::Reservation, "", text(known.name)),
        }
    }

    /// A node, or the NodeClaim that it is to be of.
    pub(crate) fn node(&self, index: usize) -> ObjectRef {
        let name = self.cluster.nodes.get(index).map_or("", |node| self.cluster.symbols.text(node.name));
        let node = self.reference(Kind::Node, "", name);
        let is_claim = !self.state.has(&node.key);
        if is_claim { self.reference(Kind::NodeClaim, "", name) } else { node }
    }

    /// Whether a pod is on no node yet, and one of those that are bound here.
    pub(crate) fn is_bound_here(&self, object: &ObjectRef) -> bool {
        let Some(pod) = self.state.pod(&object.key.namespace, &object.key.name) else { return false };
        self.options.scheduler_names.as_ref().is_none_or(|names| names.contains(pod.scheduler_name()))
    }

    /// Whether a pod is on a node already: one that goes away, and it is planned as it will be made anew.
    pub(crate) fn is_yet_to_be_remade(&self, object: &ObjectRef) -> bool {
        let pod = self.state.pod(&object.key.namespace, &object.key.name);
        pod.is_some_and(|pod| pod.node().is_some())
    }

    /// What is planned on nodes beyond what goes there now: those that come up.
    pub(crate) fn planned_on_nodes(&self, assignment: &Assignment<'_>, solution: &Solution, decision: &mut Decision) {
        for (entry, shares) in solution.nodes.iter().zip(&assignment.nodes) {
            for share in shares {
                let kind = assignment.kind(*share);
                for member in assignment.members(*share) {
                    let drawn = self.allocation.joins(PlannedNode::Node(entry.node), member);
                    let drawn = drawn.filter(|_| kind == MemberKind::Pod).and_then(|id| self.cluster.reservation(id));
                    let object = self.member(kind, &member.to_string());
                    let moves = kind == MemberKind::Pod && self.is_yet_to_be_remade(&object);
                    let of_kind = if moves { &mut decision.moves } else { &mut decision.nominations };
                    let node = self.node(entry.node);
                    of_kind.push(Nomination {
                        object,
                        node,
                        draws_from: drawn.map(|known| self.room(known)),
                        after_evictions: false,
                        waits_for: None,
                        is_kept_out: false,
                    });
                }
            }
        }
    }

    pub(crate) fn launch(
        &self,
        assignment: &Assignment<'_>,
        claims: &Claims,
        shares: &[Share],
        (at, copy): (usize, u32),
    ) -> Launch {
        let cluster = self.cluster;
        let text = |sym| cluster.symbols.text(sym).to_owned();
        let type_name =
            |id: u32| cluster.instance_types.get(id as usize).map_or_else(String::new, |of_type| text(of_type.name));
        let pool = cluster.node_pools.get(claims.node_pool);
        let slots = claims.slots.and_then(|slots| cluster.slots.get(slots.index()));
        let offering = OfferingName {
            instance_type: type_name(claims.instance_type),
            zone: claims.zone.map(text),
            capacity_type: claims.capacity_type.name().to_owned(),
            reservation_id: slots.filter(|slots| slots.is_reservation).map(|slots| text(slots.id)),
            price: claims.price,
        };
        let instance_types: Vec<String> = claims.instance_types.iter().map(|&id| type_name(id)).collect();
        let mut requirements = terms::requirements(cluster, &claims.requirements);
        narrow_types(&mut requirements, &offering, &instance_types);
        forget_unreachable_counts(&mut requirements, offering.reservation_id.is_some());
        let members = |kind: MemberKind| {
            let shares = shares.iter().filter(move |share| assignment.kind(**share) == kind);
            let names = shares.flat_map(move |share| assignment.members(share.of_node(copy)));
            names.map(move |member| self.member(kind, &member.to_string()))
        };
        let drawn = self.allocation.with(assignment, shares, copy, cluster);
        let mut pods: Vec<ObjectRef> = members(MemberKind::Pod).collect();
        pods.extend(drawn.iter().map(|also| self.member(MemberKind::Pod, also.name)));
        let joined: Vec<_> = self.allocation.joined(PlannedNode::Claim(at, copy), cluster).collect();
        let allocations = drawn.iter().chain(&joined).filter_map(|also| {
            let reservation = self.member(MemberKind::Reservation, also.draws_from?);
            Some(ReservationDraw { pod: self.member(MemberKind::Pod, also.name), reservation })
        });
        Launch {
            node_pool: self.reference(Kind::NodePool, "", pool.map_or("", |pool| cluster.symbols.text(pool.name))),
            instance_types,
            requirements,
            taints: terms::taints(cluster, pool.map_or(&[], |pool| &pool.taints)),
            requests: terms::quantities(cluster, &claims.requests)
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
            pods,
            reservations: members(MemberKind::Reservation).collect(),
            draws: allocations.collect(),
            offering,
        }
    }
}

/// minValues were counted before a slot was chosen, as Karpenter counts them: a NodeClaim whose values are fewer would be refused,
/// and clouds that count what is left to a claim on a slot, as Karpenter's for AWS, would never launch it.
fn forget_unreachable_counts(requirements: &mut [Requirement], is_on_slot: bool) {
    for requirement in requirements {
        let n_values = i64::try_from(requirement.values.len()).unwrap_or(i64::MAX);
        let is_reachable = |least: &i64| match requirement.operator {
            Operator::In => *least <= n_values,
            _ => !is_on_slot,
        };
        requirement.min_values = requirement.min_values.filter(is_reachable);
    }
}

/// Names the instance types: all that may be launched, on a slot the one that the slot is of.
fn narrow_types(requirements: &mut Vec<Requirement>, offering: &OfferingName, instance_types: &[String]) {
    let mut values = if offering.reservation_id.is_some() || instance_types.is_empty() {
        vec![offering.instance_type.clone()]
    } else {
        instance_types.to_vec()
    };
    values.sort_unstable();
    let of_type = |requirement: &Requirement| requirement.key == labels::INSTANCE_TYPE;
    let min_values = requirements.iter().find(|known| of_type(known)).and_then(|known| known.min_values);
    requirements.retain(|known| !of_type(known));
    let at = requirements.partition_point(|known| known.key.as_str() < labels::INSTANCE_TYPE);
    let key = labels::INSTANCE_TYPE.to_owned();
    requirements.insert(at, Requirement { key, operator: Operator::In, values, min_values });
}
