//! Between the cloud and the objects that change it: FakeNodeClass, FakeCapacityReservation, and nodes that say that their spot
//! instance is taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{
    CatalogueReference, FakeCapacityReservation, FakeCapacityReservationStatus, FakeNodeClass, FakeReservationMatching,
    FakeReservationType, GoDuration,
};
use berth_catalogue::Catalogue;
use berth_cloudprovider::{CapacityReservation, ProviderId, ReservationKind, ReservationMatching, ReservationState};
use berth_cloudprovider_fake::cloud::{FakeCloud, FakeReservation, NodeClass};
use berth_manifests::Object;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::cluster::Seen;
use crate::overlays::{Overlays, PriceSeen};

/// The annotation of a node by which its spot instance is taken back, after so long a notice.
const INTERRUPT_IN: &str = "berth.sh/interrupt-in";

/// The reason of a reservation whose spec cannot be used.
const INVALID: &str = "Invalid";
/// The reason of a reservation of what nobody offers.
const NOT_OFFERED: &str = "NotOffered";
/// How many names a message lists at most.
const MOST_LISTED: usize = 5;

/// Who owns the statuses.
const MANAGER: &str = "fake-cloud";

/// Between the cloud and the objects that change it: what the objects said last, and what their statuses say.
pub struct Bridge {
    client: Client,
    cloud: FakeCloud,
    /// Whether statuses are written.
    writes: bool,
    /// By object name: the reservation's id and what was told to the cloud; `None` where the object cannot be used.
    reservations: BTreeMap<String, (String, Option<FakeReservation>)>,
    /// By object name: what is wrong with it.
    mistakes: BTreeMap<String, Mistake>,
    /// By object name: the status that was written, but for the time.
    written: BTreeMap<String, (FakeCapacityReservationStatus, Verdict)>,
    classes: BTreeMap<String, NodeClass>,
    /// By name: the node classes that take their instance types from a ConfigMap.
    catalogued: BTreeMap<String, FakeNodeClass>,
    /// By name of a node: the notice that it gives its instance, as it says it.
    interrupted: BTreeMap<String, String>,
    overlays: Overlays,
}

/// Instance types and zones.
type Offered = (BTreeSet<String>, BTreeSet<String>);
/// What is wrong with a FakeCapacityReservation: a condition's reason and message.
type Mistake = (&'static str, String);
/// Status, reason and message of a condition.
type Verdict = (&'static str, &'static str, String);

// === impl Bridge ===

impl Bridge {
    /// Nothing is known of any object yet. Statuses are written where `writes` says so.
    pub fn new(client: Client, cloud: FakeCloud, writes: bool) -> Self {
        Self {
            client,
            cloud,
            writes,
            reservations: BTreeMap::new(),
            mistakes: BTreeMap::new(),
            written: BTreeMap::new(),
            classes: BTreeMap::new(),
            catalogued: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            overlays: Overlays::default(),
        }
    }

    /// Takes in what a watch of its objects has seen; all else is not its own. Says what is wrong with a node, if something is.
    pub(crate) async fn take(&mut self, seen: Seen) -> Option<String> {
        match seen {
            Seen::Class(Event::Apply(class) | Event::InitApply(class)) => self.class_applied(&class).await,
            Seen::Class(Event::Delete(class)) => self.class_deleted(&class.name_any()),
            Seen::ConfigMap(Event::Apply(map) | Event::Delete(map)) => {
                self.config_map_changed(&map.namespace().unwrap_or_default(), &map.name_any()).await;
            }
            // Some may have changed or gone before the list.
            Seen::ConfigMap(Event::InitDone) => self.catalogues_changed(|_| true).await,
            Seen::Slots(Event::Apply(own) | Event::InitApply(own)) => self.reservation_applied(&own),
            Seen::Slots(Event::Delete(own)) => self.reservation_deleted(&own.name_any()),
            Seen::Node(Event::Apply(node) | Event::InitApply(node)) => return self.node_applied(&node),
            Seen::Node(Event::Delete(node)) => self.node_deleted(&node.name_any()),
            Seen::Price(seen) => self.price_changed(seen),
            _ => {}
        }
        None
    }

    /// Takes in the NodeOverlays among the objects of the start, and the NodePools by whose labels they select.
    pub fn begin_prices(&mut self, objects: &[Object]) {
        if self.overlays.read(objects) {
            self.overlays.tell(&self.cloud);
        }
    }

    /// A NodeOverlay or a NodePool was made, changed or deleted.
    pub fn price_changed(&mut self, seen: PriceSeen) {
        if self.overlays.take(seen) {
            self.overlays.tell(&self.cloud);
        }
    }

    /// A node class was made or changed.
    pub async fn class_applied(&mut self, object: &FakeNodeClass) {
        let name = object.name_any();
        if object.spec.instance_types.is_some() {
            self.catalogued.insert(name.clone(), object.clone());
        } else {
            self.catalogued.remove(&name);
        }
        let class = self.read_class(object).await;
        if self.classes.get(&name) == Some(&class) {
            return;
        }
        let (status, reason, message) = match &class.not_ready {
            None => ("True", "Ready".to_owned(), String::new()),
            Some((reason, message)) => ("False", reason.clone(), message.clone()),
        };
        let ready = self.ready(status, reason, message, object.metadata.generation);
        self.cloud.set_node_class(&name, class.clone());
        self.classes.insert(name.clone(), class);
        self.look_for_mistakes();
        if !self.writes {
            return;
        }
        let api = Api::<FakeNodeClass>::all(self.client.clone());
        let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        // The next change tries again.
        drop(api.patch_status(&name, &PatchParams::apply(MANAGER), &patch).await);
    }

    /// A ConfigMap was made, changed or deleted.
    pub async fn config_map_changed(&mut self, namespace: &str, name: &str) {
        self.catalogues_changed(|of| of.namespace == namespace && of.name == name).await;
    }

    /// ConfigMaps were made, changed or deleted: node classes that take their instance types from one are read anew.
    async fn catalogues_changed(&mut self, is_changed: impl Fn(&CatalogueReference) -> bool) {
        let classes = self.catalogued.values();
        let changed = classes.filter(|class| class.spec.instance_types.as_ref().is_some_and(&is_changed));
        for class in changed.cloned().collect::<Vec<_>>() {
            self.class_applied(&class).await;
        }
    }

    /// A node class is gone.
    pub fn class_deleted(&mut self, name: &str) {
        self.classes.remove(name);
        self.catalogued.remove(name);
        self.cloud.remove_node_class(name);
        self.look_for_mistakes();
    }

    /// A node was made or changed. An instance that is taken back already, or can not be, stays as it is. Says what is wrong
    /// with what the node says, once.
    pub fn node_applied(&mut self, node: &Node) -> Option<String> {
        let (name, text) = (node.name_any(), node.annotations().get(INTERRUPT_IN)?);
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone())?;
        if self.interrupted.insert(name.clone(), text.clone()).as_ref() == Some(text) {
            return None;
        }
        let Some(notice) = text.parse::<GoDuration>().ok().and_then(|parsed| parsed.to_std()) else {
            let expected = "expected a duration such as 90s or 2m";
            return Some(format!("node {name}: the annotation {INTERRUPT_IN} is {text:?}, {expected}"));
        };
        self.cloud.interrupt_in(&ProviderId(id), notice);
        None
    }

    /// A node is gone.
    pub fn node_deleted(&mut self, name: &str) {
        self.interrupted.remove(name);
    }

    async fn read_class(&self, object: &FakeNodeClass) -> NodeClass {
        let catalogue = match &object.spec.instance_types {
            Some(reference) if object.validate().is_empty() => Some(self.read_catalogue(reference).await),
            _ => None,
        };
        class_of(object, catalogue)
    }

    async fn read_catalogue(&self, reference: &CatalogueReference) -> Result<Catalogue, String> {
        let CatalogueReference { namespace, name, .. } = reference;
        let place = format!("spec.instanceTypes: ConfigMap {namespace}/{name}");
        let map = Api::<ConfigMap>::namespaced(self.client.clone(), namespace).get_opt(name).await;
        let map = map.map_err(|error| format!("{place}: {error}"))?.ok_or_else(|| format!("{place} not found"))?;
        catalogue_in(&map, reference)
    }

    /// A reservation was made or changed.
    pub fn reservation_applied(&mut self, object: &FakeCapacityReservation) {
        let (name, id) = (object.name_any(), object.id().to_owned());
        let error = object.validate().into_iter().next();
        let definition = error.is_none().then(|| definition(object));
        if let Some(error) = error {
            self.mistakes.insert(name.clone(), (INVALID, error.to_string()));
        }
        let known = self.reservations.get(&name);
        if known.is_some_and(|(known_id, known)| *known_id == id && *known == definition) {
            return;
        }
        if let Some((old, _)) = known.filter(|(known, _)| *known != id) {
            self.cloud.remove_reservation(old);
        }
        if let Some(definition) = &definition {
            self.cloud.set_reservation(&id, definition.clone());
        }
        if let Some(definition) = &definition {
            note_not_offered(&mut self.mistakes, &name, definition, &self.cloud.offered());
        }
        self.reservations.insert(name, (id, definition));
    }

    /// Looks anew whether what reservations ask for is offered, as that depends on node classes, too.
    fn look_for_mistakes(&mut self) {
        if self.reservations.is_empty() {
            return;
        }
        let offered = self.cloud.offered();
        for (name, (_, definition)) in &self.reservations {
            if let Some(definition) = definition {
                note_not_offered(&mut self.mistakes, name, definition, &offered);
            }
        }
    }

    /// A reservation is gone.
    pub fn reservation_deleted(&mut self, name: &str) {
        self.written.remove(name);
        self.mistakes.remove(name);
        if let Some((id, _)) = self.reservations.remove(name) {
            self.cloud.remove_reservation(&id);
        }
    }

    /// Writes the counts that have changed, and says them: id, used and total.
    pub async fn write_counts(&mut self) -> Vec<(String, u32, u32)> {
        let counts: BTreeMap<String, _> =
            self.cloud.reservation_counts().into_iter().map(|count| (count.id.clone(), count)).collect();
        let mut changed = Vec::new();
        for (name, (id, definition)) in &self.reservations {
            let count = counts.get(id);
            let mut status = count.map(status_of).unwrap_or_default();
            let verdict = verdict(definition.as_ref(), self.mistakes.get(name));
            let known = self.written.get(name);
            if known.is_some_and(|(known, told)| *known == status && *told == verdict) {
                continue;
            }
            if let Some(count) = count
                && known.is_none_or(|(known, _)| (known.total, known.used) != (status.total, status.used))
            {
                changed.push((id.clone(), count.used, count.total));
            }
            self.written.insert(name.clone(), (status.clone(), verdict.clone()));
            if !self.writes {
                continue;
            }
            let (holds, reason, message) = verdict;
            status.conditions = vec![self.ready(holds, reason.to_owned(), message, None)];
            let api = Api::<FakeCapacityReservation>::all(self.client.clone());
            let patch = Patch::Merge(json!({"status": status}));
            if api.patch_status(name, &PatchParams::apply(MANAGER), &patch).await.is_err() {
                self.written.remove(name);
            }
        }
        changed
    }

    fn ready(&self, status: &str, reason: String, message: String, generation: Option<i64>) -> Condition {
        Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason,
            message,
            observed_generation: generation,
            last_transition_time: Time(whole_seconds(self.cloud.now())),
        }
    }
}

/// A node class among the objects of the start, as a watch will see it; `None` where its instance types are not among them.
pub(crate) fn class_among(objects: &[Object], object: &FakeNodeClass) -> Option<NodeClass> {
    let Some(reference) = &object.spec.instance_types else { return Some(class_of(object, None)) };
    let mut maps = objects.iter().filter_map(|object| match object {
        Object::ConfigMap(map) => Some(map),
        _ => None,
    });
    let namespace = |map: &ConfigMap| map.namespace().unwrap_or_else(|| "default".to_owned());
    let map = maps.find(|map| map.name_any() == reference.name && namespace(map) == reference.namespace)?;
    Some(class_of(object, Some(catalogue_in(map, reference))))
}

/// A node class as its object says it, and the instance types that it names.
fn class_of(object: &FakeNodeClass, catalogue: Option<Result<Catalogue, String>>) -> NodeClass {
    let spec = &object.spec;
    let mut class = NodeClass {
        zones: spec.zones.clone(),
        unreachable_zones: spec.unreachable_zones.clone(),
        registration_delay: spec.registration_delay.as_ref().and_then(GoDuration::to_std).unwrap_or_default(),
        image: spec.image.clone().unwrap_or_default(),
        ..NodeClass::default()
    };
    match (object.validate().first(), catalogue) {
        (Some(error), _) => class.not_ready = Some(("Invalid".to_owned(), error.to_string())),
        (None, Some(Ok(catalogue))) => class.catalogue = Some(Arc::new(catalogue)),
        (None, Some(Err(message))) => class.not_ready = Some(("InstanceTypesUnusable".to_owned(), message)),
        (None, None) => {}
    }
    class
}

fn catalogue_in(map: &ConfigMap, reference: &CatalogueReference) -> Result<Catalogue, String> {
    let CatalogueReference { namespace, name, key } = reference;
    let text = map.data.as_ref().and_then(|data| data.get(key));
    let text = text.ok_or_else(|| format!("spec.instanceTypes: ConfigMap {namespace}/{name} has no key {key}"))?;
    berth_catalogue::read(text.as_bytes(), &format!("{namespace}/{name}/{key}")).map_err(|error| error.to_string())
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What is counted of a reservation.
fn status_of(count: &CapacityReservation) -> FakeCapacityReservationStatus {
    FakeCapacityReservationStatus {
        total: i64::from(count.total),
        used: i64::from(count.used),
        free: i64::from(count.free_after(&count.includes)),
        state: state(count.state).to_owned(),
        conditions: Vec::new(),
    }
}

/// What a reservation's condition Ready says.
fn verdict(definition: Option<&FakeReservation>, mistake: Option<&Mistake>) -> Verdict {
    if let Some((reason, message)) = mistake {
        return ("False", *reason, message.clone());
    }
    let over = definition.filter(|known| known.used_by_others > known.total).map(|known| {
        let (others, total) = (known.used_by_others, known.total);
        format!("spec.usedByOthers: is {others}, more than spec.count, {total}: no slot is free until it is less")
    });
    ("True", "Ready", over.unwrap_or_default())
}

/// Notes that a reservation asks for what nobody offers, or that it does not any more.
fn note_not_offered(
    mistakes: &mut BTreeMap<String, Mistake>,
    name: &str,
    definition: &FakeReservation,
    offered: &Offered,
) {
    match not_offered(definition, offered) {
        Some(message) => drop(mistakes.insert(name.to_owned(), (NOT_OFFERED, message))),
        None => drop(mistakes.remove(name)),
    }
}

/// The first field of a reservation that names what nobody offers, and what is expected; `None` where all is offered.
fn not_offered(of: &FakeReservation, (types, zones): &Offered) -> Option<String> {
    let unknown = |field: &str, what: &str, asked: &[String], offered: &BTreeSet<String>| {
        let (index, name) = asked.iter().enumerate().find(|(_, name)| !offered.contains(*name))?;
        let listed: Vec<&str> = offered.iter().take(MOST_LISTED).map(String::as_str).collect();
        let expected = match offered.len() {
            0 => "it has none".to_owned(),
            n if n <= MOST_LISTED => format!("expected one of {}", listed.join(", ")),
            n => format!("expected one of {n} such as {}", listed.join(", ")),
        };
        Some(format!("spec.{field}[{index}]: {name:?} is no {what} of the cloud, {expected}"))
    };
    unknown("instanceTypes", "instance type", &of.instance_types, types)
        .or_else(|| unknown("zones", "zone", &of.zones, zones))
}

pub(crate) fn definition(object: &FakeCapacityReservation) -> FakeReservation {
    let spec = &object.spec;
    let count = |count: i64| u32::try_from(count.max(0)).unwrap_or(u32::MAX);
    FakeReservation {
        instance_types: spec.instance_types.clone(),
        zones: spec.zones.clone(),
        total: count(spec.count),
        used_by_others: count(spec.used_by_others),
        owner: spec.owner.clone(),
        kind: match spec.reservation_type {
            FakeReservationType::OnDemand => ReservationKind::OnDemand,
            FakeReservationType::CapacityBlock => ReservationKind::CapacityBlock,
            FakeReservationType::Interruptible => ReservationKind::Interruptible,
        },
        matching: match spec.matching {
            FakeReservationMatching::Targeted => ReservationMatching::Targeted,
            FakeReservationMatching::Open => ReservationMatching::Open,
        },
        start: spec.start.as_ref().map(|time| time.0),
        end: spec.end.as_ref().map(|time| time.0),
    }
}

const fn state(state: ReservationState) -> &'static str {
    match state {
        ReservationState::Scheduled => "Scheduled",
        ReservationState::Active => "Active",
        ReservationState::Expiring => "Expiring",
        ReservationState::Ended => "Ended",
    }
}

#[cfg(test)]
mod tests {
    use berth_cloudprovider_fake::cloud::CloudConfig;
    use kube::api::PostParams;
    use serde_json::Value;

    use super::*;
    use crate::{Parts, PartsOptions};

    const CATALOGUE: &str = r#"[{"name": "a.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [{"Price": 1, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z-1"]}]}]}]"#;

    #[tokio::test(start_paused = true)]
    async fn what_is_wrong_with_a_reservation_is_its_condition() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let parts = Parts::start(PartsOptions { without_berth: true, ..PartsOptions::new(now) }).await.unwrap();
        let catalogue = berth_catalogue::read(CATALOGUE.as_bytes(), "test").unwrap();
        let cloud = FakeCloud::new(CloudConfig::default(), catalogue);
        let mut bridge = Bridge::new(parts.client.clone(), cloud, true);
        let api = Api::<FakeCapacityReservation>::all(parts.client.clone());
        let spec = |instance_type: &str, zone: &str, others: i64| json!({"instanceTypes": [instance_type], "zones": [zone], "count": 1, "usedByOthers": others});
        let mut shown = async |name: &str, spec: Value| {
            let object = json!({"apiVersion": "berth.sh/v1alpha1", "kind": "FakeCapacityReservation",
                "metadata": {"name": name}, "spec": spec});
            let made = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
            bridge.reservation_applied(&made);
            let counted = bridge.write_counts().await.into_iter().any(|(id, ..)| id == name);
            // Its own status is no change.
            bridge.reservation_applied(&api.get(name).await.unwrap());
            bridge.write_counts().await;
            let status = api.get(name).await.unwrap().status.unwrap();
            // What nobody offers has no slots, and none are told.
            let ready = status.conditions.into_iter().next().unwrap();
            let has_slots = ready.status == "True" || made.spec.zones.len() > 1;
            assert_eq!((counted, status.total > 0), (has_slots, has_slots), "{name}");
            [ready.status, ready.reason, ready.message]
        };
        assert_eq!(shown("right", spec("a.large", "z-1", 1)).await, ["True", "Ready", ""]);
        let message = "spec.instanceTypes[0]: \"b.large\" is no instance type of the cloud, expected one of a.large";
        assert_eq!(shown("type", spec("b.large", "z-1", 0)).await, ["False", "NotOffered", message]);
        let message = "spec.zones[0]: \"mars\" is no zone of the cloud, expected one of z-1";
        assert_eq!(shown("zone", spec("a.large", "mars", 0)).await, ["False", "NotOffered", message]);
        let both = json!({"instanceTypes": ["a.large"], "zones": ["mars", "z-1"], "count": 1});
        assert_eq!(shown("both", both).await, ["False", "NotOffered", message]);
        let message = "spec.usedByOthers: is 5, more than spec.count, 1: no slot is free until it is less";
        assert_eq!(shown("others", spec("a.large", "z-1", 5)).await, ["True", "Ready", message]);
    }
}
