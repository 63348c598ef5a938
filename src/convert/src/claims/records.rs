//! What of claims, volumes and storage classes decides where pods may run.

use berth_model::{Labels, Requirement, Requirements, Selector, Sym, Symbols};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::terms::{impossible, node_key, node_terms};
use crate::{Problem, drivers, quantities, terms};

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClaimTemplate {
    /// `None`: the default class. The symbol of the empty string: no class.
    pub(super) storage_class: Option<Sym>,
    pub(super) volume: Option<Sym>,
    pub(super) access_modes: AccessModes,
    pub(super) is_block: bool,
    pub(super) nanos: i128,
    /// Which volumes will do; `None`: whatever their labels.
    pub(super) selector: Option<Selector>,
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AccessModes(u8);

impl AccessModes {
    const EXCLUSIVE: u8 = 8;

    fn new(modes: Option<&Vec<String>>) -> Self {
        let bit = |mode: &String| match mode.as_str() {
            "ReadWriteOnce" => 1,
            "ReadOnlyMany" => 2,
            "ReadWriteMany" => 4,
            "ReadWriteOncePod" => Self::EXCLUSIVE,
            _ => 0,
        };
        AccessModes(modes.into_iter().flatten().fold(0, |all, mode| all | bit(mode)))
    }

    pub(super) fn is_exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0
    }

    pub(super) fn are_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimRecord {
    pub(super) asks: ClaimTemplate,
    /// Whether no API server knows it yet.
    pub(super) is_new: bool,
    pub(super) is_lost: bool,
    pub(super) is_deleting: bool,
    /// The node for which its volume is being made, as long as it has none.
    pub(super) selected_node: Option<Sym>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VolumeRecord {
    pub(super) topology: Option<Vec<Requirements>>,
    pub(super) zones: Option<Requirements>,
    pub(super) attachment: Option<(Sym, Sym)>,
    pub(super) storage_class: Sym,
    pub(super) claim: Option<(Sym, Sym)>,
    pub(super) is_available: bool,
    /// Whether it is bound to the claim that it names.
    pub(super) is_bound: bool,
    pub(super) access_modes: AccessModes,
    pub(super) is_block: bool,
    pub(super) nanos: i128,
    pub(super) labels: Labels,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassRecord {
    pub(super) driver: Sym,
    pub(super) makes_volumes: bool,
    pub(super) waits_for_consumer: bool,
    pub(super) topologies: Option<Vec<Requirements>>,
    /// Set on default classes: when it was made, in seconds.
    pub(super) default_since: Option<i64>,
}

// === impl ClassRecord ===

impl ClassRecord {
    /// Whether its claims are bound to volumes that are there, where their pods come to.
    pub(super) fn binds_what_is_there(&self) -> bool {
        self.waits_for_consumer && !self.makes_volumes
    }
}

// === impl ClaimTemplate ===

impl ClaimTemplate {
    pub(crate) fn new(spec: &PersistentVolumeClaimSpec, cluster: &mut berth_model::Cluster) -> Self {
        let symbols = &mut cluster.symbols;
        let storage = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("storage"));
        ClaimTemplate {
            storage_class: spec.storage_class_name.as_deref().map(|class| symbols.intern(class)),
            volume: spec.volume_name.as_deref().filter(|name| !name.is_empty()).map(|name| symbols.intern(name)),
            access_modes: AccessModes::new(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            nanos: storage.map_or(0, |quantity| quantities::parse(&quantity.0).unwrap_or(0)),
            // No server takes one that cannot be read: it selects nothing.
            selector: spec
                .selector
                .as_ref()
                .map(|own| terms::selector(Some(own), symbols).unwrap_or(Selector { requirements: None })),
        }
    }
}

// === impl ClaimRecord ===

impl ClaimRecord {
    pub(super) fn new(claim: &PersistentVolumeClaim, cluster: &mut berth_model::Cluster) -> Self {
        const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
        const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
        let mut asks = claim.spec.as_ref().map(|spec| ClaimTemplate::new(spec, cluster)).unwrap_or_default();
        if let Some(class) = claim.metadata.annotations.iter().find_map(|a| a.get(CLASS)) {
            asks.storage_class = Some(cluster.symbols.intern(class));
        }
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let selected = claim.metadata.annotations.iter().find_map(|all| all.get(SELECTED_NODE));
        let selected = selected.filter(|node| !node.is_empty() && asks.volume.is_none());
        ClaimRecord {
            selected_node: selected.map(|node| cluster.symbols.intern(node)),
            asks,
            is_new: claim.metadata.uid.is_none() && phase.is_none(),
            is_lost: phase == Some("Lost"),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl VolumeRecord ===

impl VolumeRecord {
    /// The claim that it names.
    pub(crate) fn claim(&self) -> Option<(Sym, Sym)> {
        self.claim
    }

    pub(super) fn new(volume: &PersistentVolume, symbols: &mut Symbols) -> Result<Self, Problem> {
        let Some(spec) = &volume.spec else {
            return Err(Problem::new("spec", "expected a volume source"));
        };
        let mut topology = None;
        if let Some(required) = spec.node_affinity.as_ref().and_then(|a| a.required.as_ref()) {
            let terms = node_terms(&required.node_selector_terms, "nodeSelectorTerms", symbols)
                .map_err(|problem| problem.under("spec.nodeAffinity.required"))?;
            topology = Some(terms);
        }
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_staying = volume.metadata.deletion_timestamp.is_none();
        let labels = volume.metadata.labels.iter().flatten();
        let labels: Vec<_> = labels.map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
        let storage = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        Ok(VolumeRecord {
            topology,
            zones: zone_labels(volume, symbols),
            attachment: drivers::of_persistent_volume(spec)
                .map(|(driver, handle)| (symbols.intern(driver), symbols.intern(handle))),
            storage_class: symbols.intern(spec.storage_class_name.as_deref().unwrap_or_default()),
            claim: spec.claim_ref.as_ref().and_then(|claim| {
                let namespace = symbols.intern(claim.namespace.as_deref().unwrap_or("default"));
                Some((namespace, symbols.intern(claim.name.as_deref()?)))
            }),
            is_available: matches!(phase, None | Some("" | "Available" | "Pending")) && is_staying,
            is_bound: phase == Some("Bound") && is_staying,
            access_modes: AccessModes::new(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            nanos: storage.map_or(0, |quantity| quantities::parse(&quantity.0).unwrap_or(0)),
            labels: Labels::new(labels),
        })
    }
}

// === impl ClassRecord ===

impl ClassRecord {
    pub(super) fn new(class: &StorageClass, symbols: &mut Symbols) -> Self {
        let is_default = class.metadata.annotations.iter().flatten().any(|(key, value)| {
            let is_key = matches!(
                key.as_str(),
                "storageclass.kubernetes.io/is-default-class" | "storageclass.beta.kubernetes.io/is-default-class"
            );
            is_key && value == "true"
        });
        let topologies = class.allowed_topologies.as_ref().filter(|t| !t.is_empty()).map(|terms| {
            let mut alternatives: Vec<Requirements> = Vec::new();
            for term in terms {
                let mut requirements = Requirements::new();
                for label in term.match_label_expressions.iter().flatten() {
                    let key = node_key(&label.key, symbols);
                    let values: Vec<Sym> = label.values.iter().map(|v| symbols.intern(v)).collect();
                    requirements.add(key, Requirement::one_of(values), symbols);
                }
                // A term without labels matches nothing.
                if !requirements.is_empty() {
                    alternatives.push(requirements);
                }
            }
            if alternatives.is_empty() {
                alternatives.push(impossible(symbols));
            }
            alternatives
        });
        let created = class.metadata.creation_timestamp.as_ref();
        ClassRecord {
            driver: symbols.intern(drivers::of_provisioner(&class.provisioner)),
            makes_volumes: class.provisioner != drivers::NO_PROVISIONER,
            waits_for_consumer: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies,
            default_since: is_default.then(|| created.map_or(0, |time| time.0.as_second())),
        }
    }
}

/// The zone and region labels of a volume that has no node affinity for them, as kube-scheduler's VolumeZone: several
/// zones are joined by two underscores.
fn zone_labels(volume: &PersistentVolume, symbols: &mut Symbols) -> Option<Requirements> {
    let mut requirements = Requirements::new();
    for (label, value) in volume.metadata.labels.iter().flatten() {
        let today = berth_api::labels::normalized(label);
        if today == berth_api::labels::ZONE || today == berth_api::labels::REGION {
            let key = symbols.intern(today);
            let values: Vec<Sym> = value.split("__").map(|zone| symbols.intern(zone.trim())).collect();
            requirements.add(key, Requirement::one_of(values), symbols);
        }
    }
    (!requirements.is_empty()).then_some(requirements)
}
