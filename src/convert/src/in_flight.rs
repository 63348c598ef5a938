//! NodeClaims that are not launched yet: capacity in flight. Each takes the slot of the reservation that it is pinned to,
//! and counts as what it promises: the offering that was planned, where it says so, else the least of all that it may
//! become.

use berth_api::labels;
use berth_api::{NodeClaim, PlannedOffering};
use berth_model::{Cluster, InstanceType, Offering, Requirement, Requirements, Resources, SlotId, Sym};

use crate::Problem;
use crate::annotations;
use crate::maps::Texts;
use crate::node_record::{Asked, NodeRecord};
use crate::pool::requirements_of;
use crate::quantities::{Amounts, Named};

/// One thing that a claim may become.
struct Candidate<'c> {
    resources: &'c Resources,
    slots: Option<SlotId>,
    labels: Vec<(Sym, Sym)>,
}

pub(crate) fn read_asked(claim: &NodeClaim, pairs: &[(Sym, Sym)], cluster: &mut Cluster) -> Result<Asked, Problem> {
    let requests = Amounts::read_exact(&claim.spec.resources.requests, Named::Offered, cluster)
        .map_err(|problem| problem.under("spec.resources.requests"))?
        .rounded_up();
    let example = r#"{"instanceType":"m5.large","zone":"us-east-1a","capacityType":"on-demand"}"#;
    let notes = claim.metadata.annotations.as_ref();
    let planned: Option<PlannedOffering> = annotations::read(notes, labels::PLANNED_OFFERING, example)?;
    let symbols = &mut cluster.symbols;
    let mut requirements =
        requirements_of(&claim.spec.requirements, symbols).map_err(|problem| problem.under("spec.requirements"))?;
    for &(key, value) in pairs {
        requirements.add(key, Requirement::value(value), symbols);
    }
    if let Some(planned) = planned {
        let PlannedOffering { instance_type, zone, capacity_type, reservation_id } = planned;
        let mut require = |key: &str, value: &str| {
            let (key, value) = (symbols.intern(key), symbols.intern(value));
            // It is what the claim asks for, one way or another: of a claim on a slot, the listed types are those to fall
            // back on.
            requirements.set(key, Requirement::value(value));
        };
        require(labels::INSTANCE_TYPE, &instance_type);
        require(labels::CAPACITY_TYPE, &capacity_type);
        if let Some(zone) = &zone {
            require(labels::ZONE, zone);
        }
        if let Some(id) = &reservation_id {
            require(labels::RESERVATION_ID, id);
        }
    }
    Ok(Asked { requirements, requests, counted: Vec::new() })
}

/// The node that a claim may count as, and the supply of which it takes an instance; `None` where nothing is known of what
/// it will have.
pub(crate) fn promised(
    mut record: NodeRecord,
    asked: &Asked,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> Option<(NodeRecord, Option<SlotId>)> {
    let name = cluster.symbols.text(record.name).to_owned();
    let candidates = candidates(&asked.requirements, cluster);
    let Some(first) = candidates.first() else {
        if asked.requests == Resources::new() {
            warnings.insert(format!(
                "NodeClaim {name}: not launched yet, and the catalogue has nothing that it may become; it is no capacity"
            ));
            return None;
        }
        warnings.insert(format!(
            "NodeClaim {name}: not launched yet, and the catalogue has nothing that it may become; it counts with what \
             it requests"
        ));
        record.allocatable.clone_from(&asked.requests);
        record.capacity.clone_from(&asked.requests);
        (record.labels, record.open) = settle(&asked.requirements, &[], cluster);
        return Some((record, None));
    };
    let slots = first.slots.filter(|slots| candidates.iter().all(|other| other.slots == Some(*slots)));
    let (mut least, mut most) = (first.resources.clone(), first.resources.clone());
    for candidate in &candidates {
        let ids: Vec<_> = least.iter().chain(candidate.resources.iter()).map(|(id, _)| id).collect();
        for id in ids {
            let amount = candidate.resources.get(id);
            least.set(id, least.get(id).min(amount));
            most.set(id, most.get(id).max(amount));
        }
    }
    let (labels, open) = settle(&asked.requirements, &candidates, cluster);
    (record.labels, record.open) = (labels, open);
    (record.allocatable, record.capacity) = (least, most);
    Some((record, slots.filter(|slots| !asked.counted.contains(slots))))
}

/// All of the catalogue that requirements admit.
fn candidates<'c>(requirements: &Requirements, cluster: &'c Cluster) -> Vec<Candidate<'c>> {
    let known = &cluster.well_known;
    let has = |key: Sym, value: Option<Sym>| {
        requirements
            .get(key)
            .is_none_or(|asked| value.map_or(asked.allows_absent(), |value| asked.has(value, &cluster.symbols)))
    };
    let mut found = Vec::new();
    for of_type in cluster.instance_types.iter().filter(|of_type| has(known.instance_type, Some(of_type.name))) {
        let systems: Vec<Option<Sym>> = match of_type.operating_systems.as_slice() {
            [] => vec![None],
            systems => systems.iter().copied().map(Some).collect(),
        };
        for offering in &of_type.offerings {
            for os in systems.iter().filter(|os| has(known.os, **os)) {
                let labels = labels_of(of_type, offering, *os, cluster);
                if labels.iter().all(|(key, value)| has(*key, Some(*value))) {
                    found.push(Candidate { resources: &of_type.resources, slots: offering.slots, labels });
                }
            }
        }
    }
    // What an id is asked of is no offering without one.
    let asks_id = requirements.get(known.reservation_id).is_some_and(|asked| !asked.allows_absent());
    found.retain(|candidate| !asks_id || candidate.labels.iter().any(|(key, _)| *key == known.reservation_id));
    found
}

fn labels_of(of_type: &InstanceType, offering: &Offering, os: Option<Sym>, cluster: &Cluster) -> Vec<(Sym, Sym)> {
    let known = &cluster.well_known;
    let own = [Some((known.instance_type, of_type.name)), os.map(|os| (known.os, os))];
    of_type.labels.iter().chain(offering.labels.iter()).chain(own.into_iter().flatten()).collect()
}

/// The labels that the node will have for certain, and what is left open of the others.
fn settle(asked: &Requirements, candidates: &[Candidate<'_>], cluster: &Cluster) -> (Vec<(Sym, Sym)>, Requirements) {
    let symbols = &cluster.symbols;
    let mut keys: Vec<Sym> = candidates.iter().flat_map(|c| c.labels.iter().map(|(key, _)| *key)).collect();
    keys.extend(asked.iter().map(|(key, _)| key));
    keys.sort_unstable();
    keys.dedup();
    let (mut labels, mut open) = (Vec::new(), Requirements::new());
    for key in keys {
        let value_of =
            |candidate: &Candidate<'_>| candidate.labels.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let mut values: Vec<Option<Sym>> = candidates.iter().map(value_of).collect();
        values.sort_unstable();
        values.dedup();
        let decided: Vec<Sym> = values.iter().flatten().copied().collect();
        match (values.as_slice(), asked.get(key)) {
            ([Some(value)], _) => labels.push((key, *value)),
            ([] | [None], Some(asked)) => match asked.single() {
                Some(value) => labels.push((key, value)),
                None => open.add(key, asked.clone().with_min_values(None), symbols),
            },
            ([] | [None], None) => {}
            _ => open.add(key, Requirement::one_of(decided), symbols),
        }
    }
    (labels, open)
}
