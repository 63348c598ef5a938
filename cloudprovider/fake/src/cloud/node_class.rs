//! Node classes: from which types, in which zones and how fast machines are made.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use berth_catalogue::{Catalogue, InstanceTypeEntry};
use berth_cloudprovider::{CloudError, NodeClassStatus, Result};

use super::reservation::FakeReservation;
use super::world::World;

/// How the cloud makes machines for a node class: what a FakeNodeClass object says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeClass {
    /// The types that it offers; `None` is the cloud's catalogue. Its reserved offerings are ignored: reservations are
    /// the cloud's.
    pub catalogue: Option<Arc<Catalogue>>,
    /// The zones that it may use; all where there are none.
    pub zones: Vec<String>,
    /// Zones where its machines never join.
    pub unreachable_zones: Vec<String>,
    /// How long a machine that runs takes to join as a node.
    pub registration_delay: Duration,
    /// The image that its machines run; a machine with another one has drifted.
    pub image: String,
    /// Why it cannot be used, as a condition's reason and message; `None` if it can.
    pub not_ready: Option<(String, String)>,
}

impl NodeClass {
    pub(super) fn has_zone(&self, zone: Option<&str>) -> bool {
        self.zones.is_empty() || zone.is_none_or(|zone| self.zones.iter().any(|own| own == zone))
    }

    /// All that a machine may have drifted from: image, zones and instance types.
    fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.image, &self.zones).hash(&mut hasher);
        for entry in self.catalogue.iter().flat_map(|own| own.types()) {
            entry.name.hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    pub(super) fn status(&self) -> NodeClassStatus {
        match &self.not_ready {
            Some((reason, message)) => NodeClassStatus::NotReady { reason: reason.clone(), message: message.clone() },
            None => NodeClassStatus::Ready { hash: self.digest() },
        }
    }
}

impl World {
    pub(super) fn node_class(&self, name: &str) -> Result<NodeClass> {
        match self.node_classes.get(name) {
            Some(class) => Ok(class.clone()),
            None if self.config.any_node_class => Ok(NodeClass::default()),
            None => Err(CloudError::NotFound { what: format!("FakeNodeClass {name}") }),
        }
    }

    /// A type that a node class offers.
    pub(super) fn instance_type<'a>(&'a self, class: &'a NodeClass, name: &str) -> Option<&'a InstanceTypeEntry> {
        self.types_of(class).iter().find(|entry| entry.name == name).map(|entry| &**entry)
    }

    /// All instance types and all zones that are offered, by the cloud or a node class.
    pub(super) fn offered(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let of_classes = self.node_classes.values().filter_map(|class| class.catalogue.as_deref());
        let (mut types, mut zones) = (BTreeSet::new(), BTreeSet::new());
        for entry in of_classes.chain([&self.catalogue]).flat_map(Catalogue::types) {
            types.insert(entry.name.clone());
            zones.extend(entry.offerings.iter().filter_map(|offering| offering.zone()).map(str::to_owned));
        }
        (types, zones)
    }

    /// Whether one of the instance types of a reservation, and one of its zones, is offered by the cloud or a node class.
    pub(super) fn is_offered(&self, reservation: &FakeReservation) -> bool {
        let FakeReservation { instance_types, zones, .. } = reservation;
        let entries = || {
            let of_classes = self.node_classes.values().filter_map(|class| class.catalogue.as_deref());
            of_classes.chain([&self.catalogue]).flat_map(Catalogue::types)
        };
        let is_in_zone = |zone: &str| zones.iter().any(|own| own == zone);
        let has_zone = |entry: &Arc<InstanceTypeEntry>| {
            entry.offerings.iter().filter_map(|offering| offering.zone()).any(is_in_zone)
        };
        (instance_types.is_empty() || entries().any(|entry| instance_types.contains(&entry.name)))
            && (zones.is_empty() || entries().any(has_zone))
    }

    /// Every type that a node class offers.
    pub(super) fn types_of<'a>(&'a self, class: &'a NodeClass) -> &'a [Arc<InstanceTypeEntry>] {
        class.catalogue.as_deref().unwrap_or(&self.catalogue).types()
    }
}
