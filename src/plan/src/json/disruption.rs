//! What would be disrupted, in the contract's form.

use berth_api::{Requirement, ResourceList};
use berth_decisions::Launch;
use berth_disruption::Disruption;
use berth_state::ObjectRef;
use k8s_openapi::api::core::v1::Taint;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::decimal::Exact;

/// `{"commands", "kept", "hourlyCost", "settledHourlyCost", "pendingHourlyCost", "settledPendingHourlyCost", "pricedHourlyCost",
/// "lowerBound"}`
pub(super) struct Disrupted<'a>(pub(super) &'a Disruption);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandJson<'a> {
    method: &'static str,
    nodes: Vec<&'a str>,
    replacements: Vec<ClaimJson<'a>>,
    savings: Exact,
    node_savings: Exact,
    evictions: usize,
    batch: usize,
}

/// As an entry of `nodeClaims`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimJson<'a> {
    name: &'a str,
    node_pool: &'a str,
    offering: OfferingJson<'a>,
    instance_types: &'a [String],
    requirements: &'a [Requirement],
    taints: &'a [Taint],
    requests: &'a ResourceList,
    pods: Vec<String>,
    reservations: Vec<String>,
    allocations: Vec<AllocationJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferingJson<'a> {
    instance_type: &'a str,
    zone: Option<&'a str>,
    capacity_type: &'a str,
    #[serde(rename = "reservationID")]
    reservation_id: Option<&'a str>,
    price: Exact,
}

#[derive(Serialize)]
struct AllocationJson {
    pod: String,
    reservation: String,
}

#[derive(Serialize)]
struct KeptJson<'a> {
    node: &'a str,
    reasons: Vec<ReasonJson<'a>>,
}

#[derive(Serialize)]
struct ReasonJson<'a> {
    reason: &'a str,
    count: usize,
}

fn names(objects: &[ObjectRef]) -> Vec<String> {
    objects.iter().map(|object| object.key.full_name()).collect()
}

fn claim<'a>(name: &'a str, launch: &'a Launch) -> ClaimJson<'a> {
    let offering = &launch.offering;
    let allocations = launch.draws.iter();
    ClaimJson {
        name,
        node_pool: &launch.node_pool.key.name,
        offering: OfferingJson {
            instance_type: &offering.instance_type,
            zone: offering.zone.as_deref(),
            capacity_type: &offering.capacity_type,
            reservation_id: offering.reservation_id.as_deref(),
            price: Exact(offering.price),
        },
        instance_types: &launch.instance_types,
        requirements: &launch.requirements,
        taints: &launch.taints,
        requests: &launch.requests,
        pods: names(&launch.pods),
        reservations: names(&launch.reservations),
        allocations: allocations
            .map(|draw| AllocationJson { pod: draw.pod.key.full_name(), reservation: draw.reservation.key.full_name() })
            .collect(),
    }
}

impl Serialize for Disrupted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let commands = self.0.commands.iter().map(|command| CommandJson {
            method: command.method.as_str(),
            nodes: command.nodes.iter().map(|node| &*node.key.name).collect(),
            replacements: command.replacements.iter().map(|(name, launch)| claim(name, launch)).collect(),
            savings: Exact(command.savings),
            node_savings: Exact(command.node_savings),
            evictions: command.evictions,
            batch: command.batch,
        });
        let kept = self.0.kept.iter().map(|kept| KeptJson {
            node: &kept.node.key.name,
            reasons: kept.reasons.iter().map(|r| ReasonJson { reason: &r.reason, count: r.count }).collect(),
        });
        let mut fields = serializer.serialize_struct("Disruption", 8)?;
        fields.serialize_field("commands", &commands.collect::<Vec<_>>())?;
        fields.serialize_field("kept", &kept.collect::<Vec<_>>())?;
        fields.serialize_field("hourlyCost", &Exact(self.0.hourly_cost))?;
        fields.serialize_field("settledHourlyCost", &Exact(self.0.settled_hourly_cost))?;
        fields.serialize_field("pendingHourlyCost", &Exact(self.0.pending_hourly_cost))?;
        fields.serialize_field("settledPendingHourlyCost", &Exact(self.0.settled_pending_hourly_cost))?;
        fields.serialize_field("pricedHourlyCost", &Exact(self.0.priced_hourly_cost))?;
        fields.serialize_field("lowerBound", &self.0.lower_bound.map(Exact))?;
        fields.end()
    }
}
