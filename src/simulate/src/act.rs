//! What a step does to the cluster and to the cloud.

use std::borrow::Cow;
use std::collections::BTreeSet;

use berth_api::FakeCapacityReservation;
use berth_catalogue::{CapacityType, Catalogue, InstanceTypeEntry, Money};
use berth_cloudprovider::{Instance, InstanceState, OfferingKey, ProviderId};
use berth_cloudprovider_fake::cloud::FakeReservation;
use berth_kubelet::annotation::RUNS_FOR;
use berth_manifests::Object;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::load::Simulation;
use crate::meter::SlotPrices;
use crate::scenario::{Consolidation, Machines, Scaled};
use crate::step::{Action, Arrival, Offering, Propagation, Step};
use crate::world::{TracePod, World};

/// Does what a step says; or says why it cannot be done.
pub(crate) async fn perform(world: &mut World<'_>, step: &Step) -> Result<(), String> {
    match &step.action {
        Action::Pod(arrival) => create(world, arrival).await,
        Action::Scale { kind, namespace, name, replicas } => scale(world, *kind, namespace, name, *replicas).await,
        Action::Apply(objects) => {
            let objects = as_varied(world.simulation(), objects, &mut world.varied);
            let passed_over = berth_sandbox::apply_objects(&world.parts.client, &objects).await;
            for object in passed_over.map_err(|error| error.to_string())? {
                world.notes.push(format!("{object} is passed over: the cluster has no such resource"));
            }
            Ok(())
        }
        Action::Catalogue(map) => {
            write_catalogue(&world.parts.client, map).await?;
            let text = |path: &str| map.pointer(path).and_then(Value::as_str).unwrap_or_default();
            world.bridge.config_map_changed(text("/metadata/namespace"), text("/metadata/name")).await;
            reprice(world);
            Ok(())
        }
        Action::Patch { api_version, kind, namespace, name, may_be_gone, fields } => {
            if &**kind == "Pod" {
                // One that comes again is like this.
                world.change_pod(namespace, name, fields);
            }
            let api = berth_sandbox::api_of(&world.parts.client, api_version, kind, namespace);
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&**fields)).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if *may_be_gone && status.code == 404 => Ok(()),
                Err(error) => Err(format!("unable to change {kind} {name}: {}", said(&error))),
            }
        }
        Action::Delete { api_version, kind, namespace, name, may_be_gone, propagation } => {
            if &**kind == "Pod" {
                // It does not come again.
                world.of_trace.remove(&(namespace.to_string(), name.to_string()));
                if world.kept_out.forget(namespace, name) {
                    return Ok(());
                }
            }
            let api = berth_sandbox::api_of(&world.parts.client, api_version, kind, namespace);
            let how = match propagation {
                Propagation::Background => DeleteParams::background(),
                Propagation::Orphan => DeleteParams::orphan(),
            };
            match api.delete(name, &how).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if *may_be_gone && status.code == 404 => Ok(()),
                Err(error) => Err(format!("unable to delete {kind} {name}: {}", said(&error))),
            }
        }
        Action::Reservation { id, count, used_by_others } => reserve(world, id, *count, *used_by_others).await,
        Action::Stock(offering, left) => {
            for key in keys(&world.simulation().catalogue, offering)? {
                world.parts.cloud.set_stock(&key, *left);
            }
            Ok(())
        }
        Action::Price(offering, price) => {
            for key in keys(&world.simulation().catalogue, offering)? {
                world.parts.cloud.set_price(&key, *price);
            }
            reprice(world);
            Ok(())
        }
        Action::Interrupt(which) => {
            let cloud = world.parts.cloud.clone();
            let may_be =
                |instance: &Instance| instance.interruption.is_none() && cloud.is_interruptible(&instance.provider_id);
            for id in pick(world, which, "interruptible instance", may_be).await {
                world.parts.cloud.interrupt(&id);
            }
            Ok(())
        }
        Action::Kill(which) => {
            let dead = world.dead.clone();
            for id in pick(world, which, "machine", |instance| !dead.contains(&instance.provider_id)).await {
                world.parts.cloud.kill(&id);
            }
            Ok(())
        }
    }
}

/// Prices have changed.
pub(crate) fn reprice(world: &mut World<'_>) {
    world.advance();
    let cloud = world.parts.cloud.clone();
    world.meter.reprice(|id| cloud.prices(id));
}

/// Writes the ConfigMap with the catalogue of a node class.
pub(crate) async fn write_catalogue(client: &Client, map: &Value) -> Result<(), String> {
    let text = |path: &str| map.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
    let of_map = Object::from(Namespace { metadata, ..Namespace::default() });
    berth_sandbox::apply_objects(client, &[of_map]).await.map_err(|error| error.to_string())?;
    let api = berth_sandbox::api_of(client, "v1", "ConfigMap", namespace);
    let patch = PatchParams::apply("berth-simulate").force();
    let written = api.patch(name, &patch, &Patch::Apply(map)).await;
    written.map(drop).map_err(|error| format!("unable to write ConfigMap {namespace}/{name}: {}", said(&error)))
}

/// Creates a pod of a trace.
pub(crate) async fn create(world: &mut World<'_>, arrival: &Arrival) -> Result<(), String> {
    let Arrival { template, name, runs_for } = arrival;
    let mut pod = template.pod.clone();
    if runs_for.is_some() {
        crate::trace::end_for_good(&mut pod);
    }
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), (&**name).into());
        if let Some(millis) = runs_for {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(RUNS_FOR.to_owned(), format!("{millis}ms").into());
            }
        }
    }
    let path = format!("/api/v1/namespaces/{}/pods", template.namespace);
    let body = serde_json::to_vec(&pod).map_err(|error| error.to_string())?;
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| error.to_string())?;
    let created = world.parts.client.request::<Value>(request).await;
    let created = match created {
        Ok(created) => created,
        Err(kube::Error::Api(status)) if crate::kept_out::is_quota(&status) => {
            world.kept_out.add(arrival.clone(), status.message.clone());
            return Ok(());
        }
        Err(error) => return Err(format!("unable to create pod {name}: {}", said(&error))),
    };
    let uid = created.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    world.of_trace.insert((template.namespace.clone(), name.to_string()), TracePod::new(arrival.clone(), uid));
    Ok(())
}

async fn scale(world: &World<'_>, kind: Scaled, namespace: &str, name: &str, replicas: u32) -> Result<(), String> {
    let (api_version, kind, field) = match kind {
        Scaled::Deployment => ("apps/v1", "Deployment", "replicas"),
        Scaled::StatefulSet => ("apps/v1", "StatefulSet", "replicas"),
        Scaled::ReplicaSet => ("apps/v1", "ReplicaSet", "replicas"),
        Scaled::Job => ("batch/v1", "Job", "parallelism"),
    };
    let api = berth_sandbox::api_of(&world.parts.client, api_version, kind, namespace);
    let patch = Patch::Merge(json!({"spec": {field: replicas}}));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("unable to scale {kind} {namespace}/{name}: {}", said(&error))),
    }
}

async fn reserve(world: &World<'_>, id: &str, count: Option<u32>, used_by_others: Option<u32>) -> Result<(), String> {
    let api = Api::<FakeCapacityReservation>::all(world.parts.client.clone());
    let all = api.list(&ListParams::default()).await.map_err(|error| said(&error))?;
    let known: Vec<&str> = all.items.iter().map(FakeCapacityReservation::id).collect();
    let Some(object) = all.items.iter().find(|object| object.id() == id) else {
        return Err(format!("there is no reservation {id}, expected {}", listed(&known)));
    };
    let varied = world.simulation().counts.get(id);
    let count = count.map(|count| varied.map_or(count, |varied| varied.part_of(count)));
    let mut spec = serde_json::Map::new();
    spec.extend(count.map(|count| ("count".to_owned(), count.into())));
    spec.extend(used_by_others.map(|count| ("usedByOthers".to_owned(), count.into())));
    let patch = Patch::Merge(json!({"spec": spec}));
    let name = object.name_any();
    api.patch(&name, &PatchParams::default(), &patch).await.map(drop).map_err(|error| said(&error))
}

/// What a catalogue offers of a type, in the zone that is named or in all.
pub(crate) fn keys(catalogue: &Catalogue, offering: &Offering) -> Result<Vec<OfferingKey>, String> {
    let types = catalogue.types();
    let Some(entry) = types.iter().find(|entry| entry.name == offering.instance_type) else {
        return Err(no_type(&offering.instance_type, types.iter().map(|entry| entry.name.as_str())));
    };
    let is_meant = |zone: Option<&str>| offering.zone.is_none() || zone == offering.zone.as_deref();
    let of_kind = entry.offerings.iter().filter(|own| own.capacity_type() == Some(offering.capacity_type));
    let zones: Vec<Option<String>> =
        of_kind.map(|own| own.zone().map(str::to_owned)).filter(|zone| is_meant(zone.as_deref())).collect();
    if zones.is_empty() {
        let zone = offering.zone.as_ref().map_or(String::new(), |zone| format!(" in {zone}"));
        return Err(format!("{} is not offered as {}{zone}", entry.name, offering.capacity_type.as_str()));
    }
    let key = |zone| OfferingKey { instance_type: entry.name.clone(), zone, capacity_type: offering.capacity_type };
    Ok(zones.into_iter().map(key).collect())
}

/// Machines that run and are meant, by chance where there are more.
async fn pick(
    world: &mut World<'_>,
    which: &Machines,
    noun: &str,
    fits: impl Fn(&Instance) -> bool,
) -> Vec<ProviderId> {
    let of_node = match &which.node {
        None => None,
        Some(name) => {
            let node = Api::<Node>::all(world.parts.client.clone()).get_opt(name).await.ok().flatten();
            Some(node.and_then(|node| node.spec?.provider_id).unwrap_or_default())
        }
    };
    let is_meant = |instance: &Instance| {
        instance.state == InstanceState::Running
            && fits(instance)
            && of_node.as_ref().is_none_or(|id| instance.provider_id.0 == *id)
            && which.instance_type.as_ref().is_none_or(|own| instance.offering.instance_type == *own)
            && which.zone.as_ref().is_none_or(|zone| instance.offering.zone.as_ref() == Some(zone))
            && which
                .node_pool
                .as_ref()
                .is_none_or(|pool| instance.tags.get(berth_cloudprovider::tag::NODE_POOL) == Some(pool))
    };
    let instances = world.parts.cloud.instances();
    let mut left: Vec<ProviderId> =
        instances.into_iter().filter(is_meant).map(|instance| instance.provider_id).collect();
    let mut picked = Vec::new();
    let now = world.parts.cloud.now().as_second().unsigned_abs();
    let mut state = world.simulation().seed ^ now.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..which.count.unwrap_or(1) {
        if left.is_empty() {
            break;
        }
        let index = usize::try_from(crate::chance::next(&mut state) % left.len() as u64).unwrap_or(0);
        picked.push(left.swap_remove(index));
    }
    let wanted = which.count.unwrap_or(1) as usize;
    if picked.len() < wanted {
        let at = world.parts.cloud.now();
        world.notes.push(format!("{at}: {wanted} × {noun} wanted, {} found", picked.len()));
    }
    picked
}

/// What a slot of a reservation costs: what the scenario says, else the list prices of its types in the catalogue.
pub(crate) fn slot_prices(
    simulation: &Simulation,
    catalogue: &Catalogue,
    (id, definition): (&str, &FakeReservation),
) -> SlotPrices {
    if let Some(price) = simulation.reservation_prices.get(id) {
        return SlotPrices::Fixed(*price);
    }
    let types = catalogue.types().iter().filter(|entry| definition.instance_types.contains(&entry.name));
    let prices = types.filter_map(|entry| Some((entry.name.clone(), list_price(entry, id, definition)?)));
    SlotPrices::ByType(prices.collect())
}

/// What an instance of a type is worth in a reservation: the on-demand price in its zones, where there is one, else what the
/// catalogue says of the reservation, else the on-demand price of another zone.
fn list_price(entry: &InstanceTypeEntry, id: &str, definition: &FakeReservation) -> Option<Money> {
    let is_in_zone = |zone: Option<&str>| {
        definition.zones.is_empty() || zone.is_none_or(|zone| definition.zones.iter().any(|own| own == zone))
    };
    let on_demand = || entry.offerings.iter().filter(|own| own.capacity_type() == Some(CapacityType::OnDemand));
    let in_zones = on_demand().filter(|own| is_in_zone(own.zone())).map(|own| own.price).min();
    let reserved =
        || entry.offerings.iter().filter(|own| own.reservation_id() == Some(id)).map(|own| entry.list_price(own));
    in_zones.or_else(|| reserved().min()).or_else(|| on_demand().map(|own| own.price).min())
}

/// Objects as they are in this variant of the scenario. What a reservation has at its start is varied, and `begun` are those
/// that have begun: what is written of them later stays as it is, but for shares of it.
pub(crate) fn as_varied<'o>(
    simulation: &Simulation,
    objects: &'o [Object],
    begun: &mut BTreeSet<String>,
) -> Cow<'o, [Object]> {
    if simulation.counts.is_empty() && simulation.consolidation == Consolidation::AsWritten {
        return Cow::Borrowed(objects);
    }
    let mut objects = objects.to_vec();
    for object in &mut objects {
        match object {
            Object::NodePool(pool) => crate::vary::set_consolidation(pool, simulation.consolidation),
            Object::FakeCapacityReservation(own) => {
                if let Some(count) = simulation.counts.get(own.id()) {
                    // What cannot be a count is refused as it is.
                    let is_new = begun.insert(own.id().to_owned());
                    let varied = |written| if is_new { count.instead_of(written) } else { count.part_of(written) };
                    own.spec.count =
                        u32::try_from(own.spec.count).map_or(own.spec.count, |written| i64::from(varied(written)));
                }
            }
            _ => {}
        }
    }
    Cow::Owned(objects)
}

/// That the catalogue has no such instance type.
pub(crate) fn no_type<'t>(name: &str, known: impl Iterator<Item = &'t str> + Clone) -> String {
    let hint = match berth_manifests::nearest(name, known.clone()) {
        Some(near) => format!(": did you mean {near}?"),
        None => known.clone().next().map_or(String::new(), |first| format!(", such as {first}")),
    };
    format!("there is no instance type {name}, expected one of the catalogue's {}{hint}", known.count())
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        "one of the catalogue, or a FakeCapacityReservation: there is none".to_owned()
    } else {
        format!("one of {}", names.join(", "))
    }
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
