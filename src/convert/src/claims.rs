//! Claims, volumes and storage classes: what a pod's volumes ask of its node, or why it cannot run at all.
//!
//! The reasons are kube-scheduler's own (VolumeBinding, VolumeRestrictions).

use berth_model::{Refusal, Requirement, Requirements, Sym, Symbols, Volumes};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec};
use k8s_openapi::api::storage::v1::StorageClass;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::terms::{impossible, node_key, node_terms};
use crate::{Problem, drivers, quantities};

const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";
const VOLUME_MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const NO_VOLUME_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const EXCLUSIVE_IN_USE: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";

/// What one of a pod's volumes stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// A claim by name.
    Named(Sym),
    /// A generic ephemeral volume: the claim `pod-volume`, made for the pod.
    Ephemeral { volume: Sym, template: ClaimTemplate },
    /// A claim template of a StatefulSet: the claim `template-pod`, made once for the pod's ordinal.
    Templated { template_name: Sym, template: ClaimTemplate },
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClaimTemplate {
    /// `None`: the default class. The symbol of the empty string: no class.
    storage_class: Option<Sym>,
    volume: Option<Sym>,
    access_modes: AccessModes,
    is_block: bool,
    nanos: i128,
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct AccessModes(u8);

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

    fn is_exclusive(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0
    }

    fn are_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClaimRecord {
    asks: ClaimTemplate,
    /// Whether no API server knows it yet.
    is_new: bool,
    is_lost: bool,
    is_deleting: bool,
    /// The node for which its volume is being made, as long as it has none.
    selected_node: Option<Sym>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VolumeRecord {
    topology: Option<Vec<Requirements>>,
    zones: Option<Requirements>,
    attachment: Option<(Sym, Sym)>,
    storage_class: Sym,
    claim: Option<(Sym, Sym)>,
    is_available: bool,
    access_modes: AccessModes,
    is_block: bool,
    nanos: i128,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassRecord {
    driver: Sym,
    makes_volumes: bool,
    waits_for_consumer: bool,
    topologies: Option<Vec<Requirements>>,
    /// Set on default classes: when it was made, in seconds.
    default_since: Option<i64>,
}

/// Everything about storage in the input.
#[derive(Clone, Default)]
pub(crate) struct Storage {
    claims: FxHashMap<(Sym, Sym), ClaimRecord>,
    volumes: FxHashMap<Sym, VolumeRecord>,
    /// Names of volumes in order of the input.
    volume_order: Vec<Sym>,
    classes: FxHashMap<Sym, ClassRecord>,
    default_class: Option<(i64, Sym)>,
    /// Drivers with an attach limit on some node; the volumes of others need not be counted.
    pub(crate) limited_drivers: FxHashSet<Sym>,
    /// Claims of pods that run where nothing is planned, for ReadWriteOncePod.
    in_use: FxHashSet<(Sym, Sym)>,
    /// The names of the nodes that there are.
    nodes: FxHashSet<Sym>,
    /// Whether claims that no API server knows yet are created and bound before their pods are placed, as in a plan.
    pub(crate) binds_new: bool,
}

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
        }
    }
}

// === impl Storage ===

impl Storage {
    /// Takes the claim out that was added last, to one that had none before.
    pub(crate) fn take_claim(&mut self, id: (Sym, Sym)) -> Option<ClaimRecord> {
        self.claims.remove(&id)
    }

    /// Takes the volume out that was added last, to one that had none before.
    pub(crate) fn take_volume(&mut self, name: Sym) -> Option<VolumeRecord> {
        self.volume_order.retain(|known| *known != name);
        self.volumes.remove(&name)
    }

    /// Takes the class out that was added last, to one that had none before.
    pub(crate) fn take_class(&mut self, name: Sym) -> Option<ClassRecord> {
        self.classes.remove(&name)
    }

    /// A class is this from now on, or gone. [`Storage::settle_default`] is to be asked then.
    pub(crate) fn set_class(&mut self, name: Sym, class: Option<ClassRecord>) {
        match class {
            Some(class) => drop(self.classes.insert(name, class)),
            None => drop(self.classes.remove(&name)),
        }
    }

    /// Whether a claim is of a class as far as it is known, or leaves that open.
    pub(crate) fn may_be_of(&self, id: (Sym, Sym), class: Sym) -> bool {
        let known = self.claims.get(&id).and_then(|claim| claim.asks.storage_class);
        known.is_none_or(|own| own == class)
    }

    /// A claim is this from now on, or gone.
    pub(crate) fn set_claim(&mut self, id: (Sym, Sym), claim: Option<ClaimRecord>) {
        match claim {
            Some(claim) => drop(self.claims.insert(id, claim)),
            None => drop(self.claims.remove(&id)),
        }
    }

    /// These are all the nodes that there are.
    pub(crate) fn set_nodes(&mut self, names: impl Iterator<Item = Sym>) {
        self.nodes = names.collect();
    }

    /// A node is there from now on, or gone. Returns the claims to whose pods it matters.
    pub(crate) fn set_node(&mut self, name: Sym, is_there: bool) -> Vec<(Sym, Sym)> {
        let has_changed = if is_there { self.nodes.insert(name) } else { self.nodes.remove(&name) };
        let selecting = self.claims.iter().filter(|(_, claim)| has_changed && claim.selected_node == Some(name));
        selecting.map(|(id, _)| *id).collect()
    }

    /// A volume is this from now on, or gone.
    pub(crate) fn set_volume(&mut self, name: Sym, volume: Option<VolumeRecord>) {
        if let Some(volume) = volume {
            if self.volumes.insert(name, volume).is_none() {
                self.volume_order.push(name);
            }
        } else {
            self.take_volume(name);
        }
    }

    /// The claims that are bound to a volume.
    pub(crate) fn bound_to(&self, volume: Sym) -> Vec<(Sym, Sym)> {
        let claims = self.claims.iter().filter(|(_, claim)| claim.asks.volume == Some(volume));
        claims.map(|(id, _)| *id).collect()
    }

    /// Whether a volume may be bound to claims of its class that are not bound yet.
    pub(crate) fn may_be_bound(&self, volume: &VolumeRecord) -> bool {
        let class = self.classes.get(&volume.storage_class);
        volume.is_available && class.is_some_and(|class| class.waits_for_consumer && !class.makes_volumes)
    }

    /// The names of the claims that a pod's volumes stand for.
    pub(crate) fn names(claims: &[Claim], pod: &str, symbols: &mut Symbols) -> Vec<Sym> {
        claims.iter().map(|claim| claim_name(claim, pod, symbols).0).collect()
    }

    pub(crate) fn add_claim(
        &mut self,
        id: (Sym, Sym),
        claim: &PersistentVolumeClaim,
        cluster: &mut berth_model::Cluster,
    ) {
        const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
        const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
        let mut asks = claim.spec.as_ref().map(|spec| ClaimTemplate::new(spec, cluster)).unwrap_or_default();
        if let Some(class) = claim.metadata.annotations.iter().find_map(|a| a.get(CLASS)) {
            asks.storage_class = Some(cluster.symbols.intern(class));
        }
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let selected = claim.metadata.annotations.iter().find_map(|all| all.get(SELECTED_NODE));
        let selected = selected.filter(|node| !node.is_empty() && asks.volume.is_none());
        let record = ClaimRecord {
            selected_node: selected.map(|node| cluster.symbols.intern(node)),
            asks,
            is_new: claim.metadata.uid.is_none() && phase.is_none(),
            is_lost: phase == Some("Lost"),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
        };
        self.claims.insert(id, record);
    }

    pub(crate) fn add_volume(
        &mut self,
        name: Sym,
        volume: &PersistentVolume,
        symbols: &mut Symbols,
    ) -> Result<(), Problem> {
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
        let storage = spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        let record = VolumeRecord {
            topology,
            zones: zone_labels(volume, symbols),
            attachment: drivers::of_persistent_volume(spec)
                .map(|(driver, handle)| (symbols.intern(driver), symbols.intern(handle))),
            storage_class: symbols.intern(spec.storage_class_name.as_deref().unwrap_or_default()),
            claim: spec.claim_ref.as_ref().and_then(|claim| {
                let namespace = symbols.intern(claim.namespace.as_deref().unwrap_or("default"));
                Some((namespace, symbols.intern(claim.name.as_deref()?)))
            }),
            is_available: matches!(phase, None | Some("" | "Available" | "Pending"))
                && volume.metadata.deletion_timestamp.is_none(),
            access_modes: AccessModes::new(spec.access_modes.as_ref()),
            is_block: spec.volume_mode.as_deref() == Some("Block"),
            nanos: storage.map_or(0, |quantity| quantities::parse(&quantity.0).unwrap_or(0)),
        };
        if self.volumes.insert(name, record).is_none() {
            self.volume_order.push(name);
        }
        Ok(())
    }

    pub(crate) fn add_class(&mut self, name: Sym, class: &StorageClass, symbols: &mut Symbols) {
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
        let record = ClassRecord {
            driver: symbols.intern(drivers::of_provisioner(&class.provisioner)),
            makes_volumes: class.provisioner != drivers::NO_PROVISIONER,
            waits_for_consumer: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies,
            default_since: is_default.then(|| created.map_or(0, |time| time.0.as_second())),
        };
        self.classes.insert(name, record);
    }

    /// Whether there is no class at all, and a claim leaves its class to the cluster.
    pub(crate) fn lacks_default<'a>(&self, mut claims: impl Iterator<Item = &'a Claim>) -> bool {
        let leaves_open = |asks: &ClaimTemplate| asks.storage_class.is_none() && asks.volume.is_none();
        self.classes.is_empty()
            && (self.claims.values().any(|claim| leaves_open(&claim.asks))
                || claims.any(|claim| match claim {
                    Claim::Named(_) => false,
                    Claim::Ephemeral { template, .. } | Claim::Templated { template, .. } => leaves_open(template),
                }))
    }

    /// Adds a default class, as nearly every cluster has one: it makes volumes where their pods come to be.
    pub(crate) fn assume_default(&mut self, symbols: &mut Symbols) {
        let record = ClassRecord {
            driver: symbols.intern("kubernetes.io/assumed"),
            makes_volumes: true,
            waits_for_consumer: true,
            topologies: None,
            default_since: Some(0),
        };
        self.classes.insert(symbols.intern("standard"), record);
    }

    /// Settles which class is the default: the newest of those that say so, then the first by name, as the API server.
    pub(crate) fn settle_default(&mut self, symbols: &Symbols) {
        self.default_class =
            self.classes.iter().filter_map(|(name, class)| Some((class.default_since?, *name))).max_by(
                |(since, name), (other_since, other)| {
                    since.cmp(other_since).then_with(|| symbols.text(*other).cmp(symbols.text(*name)))
                },
            );
    }

    /// Notes that a pod uses its claims that runs where nothing is planned.
    pub(crate) fn use_claims(&mut self, claims: &[Claim], namespace: Sym, pod: &str, symbols: &mut Symbols) {
        for claim in claims {
            let (name, _) = claim_name(claim, pod, symbols);
            self.in_use.insert((namespace, name));
        }
    }

    /// The classes that limit where volumes are made, and where, by name.
    pub(crate) fn topologies(&self, symbols: &Symbols) -> Vec<(Sym, Vec<Requirements>)> {
        let limited = self.classes.iter().filter_map(|(name, class)| Some((*name, class.topologies.clone()?)));
        let mut limited: Vec<_> = limited.collect();
        limited.sort_by(|(a, _), (b, _)| symbols.text(*a).cmp(symbols.text(*b)));
        limited
    }

    /// The classes that bind these claims before their pod is placed, to volumes that are yet to be made.
    pub(crate) fn binding_at_once(
        &self,
        claims: &[Claim],
        namespace: Sym,
        pod: &str,
        symbols: &mut Symbols,
    ) -> Vec<Sym> {
        let is_at_once = |class: &&ClassRecord| class.makes_volumes && !class.waits_for_consumer;
        if !self.binds_new || !self.classes.values().any(|class| is_at_once(&class)) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for claim in claims {
            let (name, template) = claim_name(claim, pod, symbols);
            let record = self.claims.get(&(namespace, name));
            let Some(asks) = record.map(|record| &record.asks).or(template) else { continue };
            let is_new = self.is_new(record) && asks.volume.is_none();
            found.extend(
                self.class_of(asks, symbols)
                    .filter(|class| is_new && self.classes.get(class).as_ref().is_some_and(is_at_once)),
            );
        }
        found
    }

    /// Whether the answer of [`Storage::resolve`] depends on the pod's name.
    pub(crate) fn is_per_pod(claims: &[Claim]) -> bool {
        claims.iter().any(|claim| !matches!(claim, Claim::Named(_)))
    }

    /// Adds to `volumes` what the claims ask for.
    ///
    /// # Errors
    /// Why a pod with these claims is not scheduled anywhere. What was resolved before is in `volumes` all the same.
    pub(crate) fn resolve(
        &self,
        claims: &[Claim],
        namespace: Sym,
        pod: &str,
        volumes: &mut Volumes,
        symbols: &mut Symbols,
    ) -> Result<(), Refusal> {
        volumes.attachments.retain(|(driver, _)| self.limited_drivers.contains(driver));
        let mut refused = Ok(());
        for claim in claims {
            let (name, template) = claim_name(claim, pod, symbols);
            let outcome = self.resolve_one((namespace, name), template, volumes, symbols);
            refused = refused.and(outcome.map_err(Refusal));
        }
        volumes.attachments.sort_unstable();
        volumes.attachments.dedup();
        volumes.exclusive_claims.sort_unstable();
        volumes.exclusive_claims.dedup();
        for places in [&mut volumes.topologies, &mut volumes.unbound, &mut volumes.zones] {
            places.sort_unstable();
            places.dedup();
        }
        refused
    }

    fn resolve_one(
        &self,
        id: (Sym, Sym),
        template: Option<&ClaimTemplate>,
        volumes: &mut Volumes,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        let record = self.claims.get(&id);
        let name = symbols.text(id.1).to_owned();
        let asks = match (record, template) {
            (Some(record), _) => &record.asks,
            (None, Some(template)) => template,
            (None, None) => return Err(format!("persistentvolumeclaim {name:?} not found")),
        };
        if record.is_some_and(|record| record.is_lost) {
            let volume = asks.volume.map_or("", |volume| symbols.text(volume));
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if record.is_some_and(|record| record.is_deleting) {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        let is_exclusive = asks.access_modes.is_exclusive();
        if is_exclusive {
            volumes.exclusive_claims.push(claim_handle(id, symbols));
        }
        self.resolve_volume(id, (asks, self.is_new(record)), volumes, symbols)?;
        if is_exclusive && self.in_use.contains(&id) {
            return Err(EXCLUSIVE_IN_USE.to_owned());
        }
        Ok(())
    }

    /// Whether a claim, which is not there or has this record, is created and bound before its pod is placed.
    fn is_new(&self, record: Option<&ClaimRecord>) -> bool {
        self.binds_new && record.is_none_or(|record| record.is_new)
    }

    /// The class of a claim, if it has one.
    fn class_of(&self, asks: &ClaimTemplate, symbols: &Symbols) -> Option<Sym> {
        let default = self.default_class.map(|(_, name)| name);
        asks.storage_class.or(default).filter(|name| !symbols.text(*name).is_empty())
    }

    fn resolve_volume(
        &self,
        id: (Sym, Sym),
        (asks, is_new): (&ClaimTemplate, bool),
        volumes: &mut Volumes,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        match asks.volume {
            Some(volume) => {
                let volume = self.volumes.get(&volume).ok_or(VOLUME_MISSING)?;
                volumes.topologies.extend(volume.topology.clone());
                volumes.zones.extend(volume.zones.clone().map(|zones| vec![zones]));
                let attachment = volume.attachment;
                volumes.attachments.extend(attachment.filter(|(driver, _)| self.limited_drivers.contains(driver)));
                Ok(())
            }
            None => self.resolve_unbound(id, (asks, is_new), volumes, symbols),
        }
    }

    fn resolve_unbound(
        &self,
        id: (Sym, Sym),
        (asks, is_new): (&ClaimTemplate, bool),
        volumes: &mut Volumes,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        // One that is bound at once, which is none of the scheduler's business, is bound by the time that its pod is placed.
        let bind_at_once = |class: Sym, volumes: &mut Volumes| {
            let bound = if is_new { self.bind_existing(id, class, asks, volumes) } else { Err(String::new()) };
            bound.map_err(|_| UNBOUND_IMMEDIATE.to_owned())
        };
        let Some(name) = self.class_of(asks, symbols) else {
            return bind_at_once(symbols.intern(""), volumes);
        };
        let Some(class) = self.classes.get(&name) else {
            let name = symbols.text(name);
            return Err(format!("storageclass.storage.k8s.io {name:?} not found"));
        };
        let is_made_before = is_new && class.makes_volumes;
        if !class.waits_for_consumer && !is_made_before {
            return bind_at_once(name, volumes);
        }
        if class.waits_for_consumer
            && let Some(node) = self.selected_node(id)
        {
            let mut only = Requirements::new();
            only.add(symbols.intern("metadata.name"), Requirement::value(node), symbols);
            volumes.unbound.push(vec![only]);
        }
        if !class.makes_volumes {
            return self.bind_existing(id, name, asks, volumes);
        }
        volumes.unbound.extend(class.topologies.clone());
        if self.limited_drivers.contains(&class.driver) {
            let handle = claim_handle(id, symbols);
            volumes.attachments.push((class.driver, handle));
        }
        Ok(())
    }

    /// The node for which the volume of a claim is being made: until it is there or its provisioner gives that node up, no other
    /// will do. A provisioner gives up a node that is gone, so that one does not hold pods back.
    fn selected_node(&self, id: (Sym, Sym)) -> Option<Sym> {
        self.claims.get(&id)?.selected_node.filter(|node| self.nodes.contains(node))
    }

    /// A class without provisioner: one of the volumes that are there and large enough must be near.
    fn bind_existing(
        &self,
        id: (Sym, Sym),
        class: Sym,
        asks: &ClaimTemplate,
        volumes: &mut Volumes,
    ) -> Result<(), String> {
        let mut alternatives = Vec::new();
        let mut is_anywhere = false;
        let fitting = self.volume_order.iter().filter_map(|name| self.volumes.get(name)).filter(|volume| {
            volume.is_available
                && volume.storage_class == class
                && volume.claim.is_none_or(|claim| claim == id)
                && volume.nanos >= asks.nanos
                && volume.is_block == asks.is_block
                && asks.access_modes.are_within(volume.access_modes)
        });
        let mut n_fitting = 0;
        for volume in fitting {
            n_fitting += 1;
            match &volume.topology {
                None => is_anywhere = true,
                Some(terms) => alternatives.extend(terms.iter().cloned()),
            }
        }
        if n_fitting == 0 {
            return Err(NO_VOLUME_TO_BIND.to_owned());
        }
        if !is_anywhere {
            alternatives.sort_unstable();
            alternatives.dedup();
            volumes.unbound.push(alternatives);
        }
        Ok(())
    }
}

/// The name of the claim that a volume of the pod stands for, and what it asks for if it is not there.
fn claim_name<'a>(claim: &'a Claim, pod: &str, symbols: &mut Symbols) -> (Sym, Option<&'a ClaimTemplate>) {
    match claim {
        Claim::Named(name) => (*name, None),
        Claim::Ephemeral { volume, template } => {
            let name = format!("{pod}-{}", symbols.text(*volume));
            (symbols.intern(&name), Some(template))
        }
        Claim::Templated { template_name, template } => {
            let name = format!("{}-{pod}", symbols.text(*template_name));
            (symbols.intern(&name), Some(template))
        }
    }
}

fn claim_handle((namespace, name): (Sym, Sym), symbols: &mut Symbols) -> Sym {
    let handle = format!("{}/{}", symbols.text(namespace), symbols.text(name));
    symbols.intern(&handle)
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
