//! What a node class makes of a catalogue: what its nodes offer, and which reservations they may use.

use std::collections::BTreeSet;

use berth_api::{
    CapacityReservationSelectorTerm, EC2Kubelet, EC2NodeClass, EC2NodeClassStatus, EksNodeClass, NodeClassRef,
};
use berth_catalogue::{CapacityType, Catalogue, CatalogueError, InstanceTypeEntry, OfferingEntry, ReservationDetails};
use berth_quantity::Quantity;
use serde_json::Value;

use crate::allocatable::allocatable;
use crate::{AmiFamily, EvictionThreshold, NodeSettings};

/// A node class of EC2: Karpenter's, or EKS Auto Mode's.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeClass {
    /// `EC2NodeClass`.
    Ec2(Box<EC2NodeClass>),
    /// `NodeClass` of `eks.amazonaws.com`.
    Eks(Box<EksNodeClass>),
}

/// A catalogue as NodePools of a node class see it.
#[derive(Debug, Clone)]
pub struct ClassView {
    /// What they may launch.
    pub catalogue: Catalogue,
    /// What people should know, a line each.
    pub warnings: Vec<String>,
}

/// The settings that an `EC2NodeClass` adds to the cluster's, and what of it nothing acts on.
///
/// Settings of the whole cluster (memory overhead, reserved interfaces, prefix delegation) are `cluster`'s.
pub fn read_class(class: &EC2NodeClass, cluster: &NodeSettings) -> (NodeSettings, Vec<String>) {
    let spec = &class.spec;
    let mut ignored = spec.opaque_fields().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let alias = spec.ami_selector_terms.iter().find_map(|term| AmiFamily::of_alias(term.alias.as_deref()?));
    let named = spec.ami_family.as_deref().and_then(|family| family.parse().ok());
    let mut settings = NodeSettings {
        ami_family: named.or(alias).unwrap_or(AmiFamily::Custom),
        vm_memory_overhead: cluster.vm_memory_overhead,
        reserved_interfaces: cluster.reserved_interfaces,
        prefix_delegation: cluster.prefix_delegation,
        uses_instance_store: spec.instance_store_policy.as_deref() == Some("RAID0"),
        ..NodeSettings::default()
    };
    if let Some(kubelet) = &spec.kubelet {
        set_kubelet(&mut settings, kubelet, &mut ignored);
    }
    let devices = &spec.block_device_mappings;
    let volume = |device: &berth_api::BlockDeviceMapping| device.ebs.as_ref().and_then(|volume| volume.volume_size);
    let root = devices.iter().find(|device| device.root_volume).and_then(volume);
    let ephemeral = match settings.ami_family.ephemeral_device() {
        Some(name) => devices.iter().find(|device| device.device_name.as_deref() == Some(name)).and_then(volume),
        // Nobody knows which of its disks an image of one's own uses; Karpenter takes the last.
        None => devices.last().and_then(volume),
    };
    settings.volume = root.or(ephemeral);
    ignored.sort();
    (settings, ignored)
}

fn set_kubelet(settings: &mut NodeSettings, kubelet: &EC2Kubelet, ignored: &mut Vec<String>) {
    match &kubelet.max_pods {
        Some(Value::Number(pods)) => settings.max_pods = pods.as_u64().and_then(|pods| u32::try_from(pods).ok()),
        Some(Value::String(_)) => ignored.push("kubelet.maxPods (an expression)".to_owned()),
        _ => {}
    }
    settings.pods_per_core = kubelet.pods_per_core.and_then(|pods| u32::try_from(pods).ok());
    let lists = [
        ("kubeReserved", &kubelet.kube_reserved, &mut settings.kube_reserved),
        ("systemReserved", &kubelet.system_reserved, &mut settings.system_reserved),
    ];
    for (field, texts, amounts) in lists {
        for (name, text) in texts {
            match text.parse::<Quantity>() {
                Ok(amount) => _ = amounts.insert(name.clone(), amount),
                Err(_) => ignored.push(format!("kubelet.{field}.{name} (an expression)")),
            }
        }
    }
    let thresholds = kubelet.eviction_hard.iter();
    settings.eviction_hard = thresholds
        .filter_map(|(signal, text)| Some((signal.clone(), text.parse::<EvictionThreshold>().ok()?)))
        .collect();
    ignored.extend(kubelet.rest.keys().map(|field| format!("kubelet.{field}")));
}

// === impl NodeClass ===

impl NodeClass {
    /// How NodePools name it.
    pub fn reference(&self) -> NodeClassRef {
        let (group, kind, metadata) = match self {
            Self::Ec2(class) => ("karpenter.k8s.aws", "EC2NodeClass", &class.metadata),
            Self::Eks(class) => ("eks.amazonaws.com", "NodeClass", &class.metadata),
        };
        NodeClassRef { group: group.to_owned(), kind: kind.to_owned(), name: metadata.name.clone().unwrap_or_default() }
    }

    /// The catalogue as its NodePools see it: reservations that it selects and no others; in the zones of its subnets,
    /// where its status lists them; with the resources that its settings leave.
    ///
    /// # Errors
    /// None that is known, of a catalogue that was checked.
    pub fn view(&self, catalogue: &Catalogue) -> Result<ClassView, CatalogueError> {
        let NodeClassRef { kind, name, .. } = self.reference();
        let mut warnings = Vec::new();
        let (terms, status, ignored) = match self {
            Self::Ec2(class) => {
                let (_, ignored) = read_class(class, &NodeSettings::default());
                (&class.spec.capacity_reservation_selector_terms, class.status.as_ref(), ignored)
            }
            Self::Eks(class) => {
                let ignored: Vec<String> = class.spec.rest.keys().cloned().collect();
                (&class.spec.capacity_reservation_selector_terms, None, ignored)
            }
        };
        if !ignored.is_empty() {
            warnings.push(format!("{kind} {name}: a plan does not depend on {}", ignored.join(", ")));
        }
        let zones: BTreeSet<&str> =
            status.into_iter().flat_map(|status| &status.subnets).map(|subnet| subnet.zone.as_str()).collect();
        let selection = Selection { terms, status };
        let mut n_without_machine = 0_usize;
        let mut n_dropped = 0_usize;
        let mut types = Vec::with_capacity(catalogue.types().len());
        for entry in catalogue.types() {
            let mut entry = (**entry).clone();
            entry.offerings.retain(|offering| {
                let is_in_zone = zones.is_empty() || offering.zone().is_none_or(|zone| zones.contains(zone));
                is_in_zone && selection.admits(offering)
            });
            match self.resources(&entry) {
                Resources::Known(resources) => entry.resources.extend(resources),
                Resources::AsListed => {}
                Resources::UnknownMachine => n_without_machine += 1,
                Resources::Nothing => {
                    n_dropped += 1;
                    continue;
                }
            }
            types.push(entry);
        }
        if n_without_machine > 0 {
            let of = catalogue.types().len();
            warnings.push(format!(
                "{kind} {name}: the catalogue says nothing of the machines of {n_without_machine} of {of} instance types; \
                 these offer what the catalogue says, whatever kubelet and disks the class sets"
            ));
        }
        if n_dropped > 0 {
            warnings.push(format!(
                "{kind} {name}: {n_dropped} instance types have nothing left for pods, or run another \
                                   operating system"
            ));
        }
        if selection.needs_details() && lacks_details(catalogue) {
            warnings.push(format!(
                "{kind} {name}: the catalogue says nothing of the tags and owners of its reservations, so \
                 capacityReservationSelectorTerms select by id alone; `berth catalog --provider aws` says it"
            ));
        }
        Ok(ClassView { catalogue: Catalogue::new(types)?, warnings })
    }

    fn resources(&self, entry: &InstanceTypeEntry) -> Resources {
        let settings = match self {
            Self::Ec2(class) => read_class(class, &NodeSettings::default()).0,
            Self::Eks(class) => {
                // Auto Mode's own images: only the disk is the class's to say.
                let size = class.spec.ephemeral_storage.as_ref().and_then(|storage| storage.size);
                let (Some(size), Some(machine)) = (size, &entry.machine) else { return Resources::AsListed };
                let settings = NodeSettings { volume: Some(size), ..NodeSettings::default() };
                let storage = allocatable(machine, &settings).and_then(|mut left| left.remove("ephemeral-storage"));
                let known = storage.map(|storage| [("ephemeral-storage".to_owned(), storage)].into());
                return known.map_or(Resources::AsListed, Resources::Known);
            }
        };
        let os = if settings.ami_family.is_windows() { "windows" } else { "linux" };
        if !entry.operating_systems.iter().any(|known| known == os) {
            return Resources::Nothing;
        }
        match &entry.machine {
            Some(machine) => allocatable(machine, &settings).map_or(Resources::Nothing, Resources::Known),
            None => Resources::UnknownMachine,
        }
    }
}

/// What a type offers under a class.
enum Resources {
    Known(std::collections::BTreeMap<String, Quantity>),
    AsListed,
    UnknownMachine,
    Nothing,
}

/// Which reservations a class selects.
struct Selection<'a> {
    terms: &'a [CapacityReservationSelectorTerm],
    status: Option<&'a EC2NodeClassStatus>,
}

// === impl Selection ===

impl Selection<'_> {
    fn admits(&self, offering: &OfferingEntry) -> bool {
        if offering.capacity_type() != Some(CapacityType::Reserved) {
            return true;
        }
        let Some(id) = offering.reservation_id() else { return false };
        match &offering.reservation {
            Some(details) => self.terms.iter().any(|term| selects(term, id, Some(details))),
            // What Karpenter has selected stands where the catalogue says nothing.
            None => {
                self.terms.iter().any(|term| selects(term, id, None))
                    || (!self.terms.is_empty()
                        && self.status.is_some_and(|status| status.capacity_reservations.iter().any(|r| r.id == id)))
            }
        }
    }

    fn needs_details(&self) -> bool {
        self.terms.iter().any(|term| term.id.is_none())
    }
}

/// Whether a term selects a reservation. As in Karpenter, an id stands alone, and all else must hold together.
fn selects(term: &CapacityReservationSelectorTerm, id: &str, details: Option<&ReservationDetails>) -> bool {
    if let Some(wanted) = &term.id {
        return wanted == id;
    }
    let Some(details) = details else { return false };
    let has_tags =
        term.tags.iter().all(|(key, value)| details.tags.get(key).is_some_and(|found| value == "*" || found == value));
    let has_owner = term.owner_id.as_ref().is_none_or(|owner| *owner == details.owner_id);
    let has_criteria =
        term.instance_match_criteria.as_ref().is_none_or(|criteria| *criteria == details.instance_match_criteria);
    has_tags && has_owner && has_criteria
}

fn lacks_details(catalogue: &Catalogue) -> bool {
    let mut offerings = catalogue.types().iter().flat_map(|known| &known.offerings);
    offerings.any(|o| o.capacity_type() == Some(CapacityType::Reserved) && o.reservation.is_none())
}
