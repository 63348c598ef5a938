//! Claims, volumes and storage classes: what a pod's volumes ask of its node, or why it cannot run at all.
//!
//! The reasons are kube-scheduler's own (VolumeBinding, VolumeRestrictions).

mod existing;
mod records;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{Refusal, Requirement, Requirements, Sym, Symbols, Volumes};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Problem;
pub use existing::VolumeOn;
use existing::{Answers, Wanting};
pub(crate) use existing::{Free, NO_VOLUME_TO_BIND, Question, Want, value_of};
pub(crate) use records::{ClaimRecord, ClaimTemplate, ClassRecord, VolumeRecord};

const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";
const VOLUME_MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
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

/// What a pod's claims come to.
struct Asking<'a, 'v> {
    volumes: &'v mut Volumes,
    /// Those that are to be bound to volumes that are there.
    wanting: Vec<Wanting<'a>>,
    answers: Answers,
}

/// Everything about storage in the input.
#[derive(Clone, Default)]
pub(crate) struct Storage {
    claims: FxHashMap<(Sym, Sym), ClaimRecord>,
    /// Those of them that have no volume as far as they are known.
    unbound: BTreeSet<(Sym, Sym)>,
    volumes: FxHashMap<Sym, VolumeRecord>,
    /// By class: the names of its volumes.
    by_class: BTreeMap<Sym, BTreeSet<Sym>>,
    /// By claim: the names of volumes that name it.
    naming: BTreeMap<(Sym, Sym), BTreeSet<Sym>>,
    answers: Answers,
    /// What the pod that was resolved last wants of volumes that are there; in a plan alone.
    wants: Vec<Want>,
    classes: FxHashMap<Sym, ClassRecord>,
    default_class: Option<(i64, Sym)>,
    /// Drivers with an attach limit on some node; the volumes of others need not be counted.
    pub(crate) limited_drivers: FxHashSet<Sym>,
    /// Claims of pods that run where nothing is planned, for ReadWriteOncePod.
    in_use: FxHashSet<(Sym, Sym)>,
    /// By node: the claims whose volumes are being made for it.
    selecting: BTreeMap<Sym, BTreeSet<(Sym, Sym)>>,
    /// The names of the nodes that there are.
    nodes: FxHashSet<Sym>,
    /// Whether claims that no API server knows yet are created and bound before their pods are placed, as in a plan.
    pub(crate) binds_new: bool,
}

impl Storage {
    /// Takes the claim out that was added last, to one that had none before.
    pub(crate) fn take_claim(&mut self, id: (Sym, Sym)) -> Option<ClaimRecord> {
        let claim = self.claims.remove(&id)?;
        self.unbound.remove(&id);
        if let Some(node) = claim.selected_node
            && let Some(claims) = self.selecting.get_mut(&node)
        {
            claims.remove(&id);
            if claims.is_empty() {
                self.selecting.remove(&node);
            }
        }
        Some(claim)
    }

    /// Takes the volume out that was added last, to one that had none before.
    pub(crate) fn take_volume(&mut self, name: Sym) -> Option<VolumeRecord> {
        let volume = self.volumes.remove(&name)?;
        self.forget_volume(name, &volume);
        Some(volume)
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
        self.take_claim(id);
        let Some(claim) = claim else { return };
        if let Some(node) = claim.selected_node {
            self.selecting.entry(node).or_default().insert(id);
        }
        if claim.asks.volume.is_none() {
            self.unbound.insert(id);
        }
        self.claims.insert(id, claim);
    }

    /// These are all the nodes that there are.
    pub(crate) fn set_nodes(&mut self, names: impl Iterator<Item = Sym>) {
        self.nodes = names.collect();
    }

    /// A node is there from now on, or gone. Returns the claims to whose pods it matters.
    pub(crate) fn set_node(&mut self, name: Sym, is_there: bool) -> Vec<(Sym, Sym)> {
        let has_changed = if is_there { self.nodes.insert(name) } else { self.nodes.remove(&name) };
        self.selecting.get(&name).filter(|_| has_changed).into_iter().flatten().copied().collect()
    }

    /// A volume is this from now on, or gone.
    pub(crate) fn set_volume(&mut self, name: Sym, volume: Option<VolumeRecord>) {
        self.take_volume(name);
        if let Some(volume) = volume {
            self.index_volume(name, &volume);
            self.volumes.insert(name, volume);
        }
    }

    /// Whether a claim is bound to a volume.
    pub(crate) fn is_bound_to(&self, id: (Sym, Sym), volume: Sym) -> bool {
        self.claims.get(&id).is_some_and(|claim| claim.asks.volume == Some(volume))
    }

    /// Whether a claim has no volume as far as it is known, or is not known.
    pub(crate) fn is_unbound(&self, id: (Sym, Sym)) -> bool {
        self.claims.get(&id).is_none_or(|claim| claim.asks.volume.is_none())
    }

    /// The class of a volume whose claims that are not bound yet may come to it.
    pub(crate) fn class_to_bind(&self, volume: &VolumeRecord) -> Option<Sym> {
        let class = self.classes.get(&volume.storage_class)?;
        let is_of_use = volume.is_available || volume.is_bound;
        (is_of_use && class.binds_what_is_there()).then_some(volume.storage_class)
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
        let record = ClaimRecord::new(claim, cluster);
        self.set_claim(id, Some(record));
    }

    pub(crate) fn add_volume(
        &mut self,
        name: Sym,
        volume: &PersistentVolume,
        symbols: &mut Symbols,
    ) -> Result<(), Problem> {
        let record = VolumeRecord::new(volume, symbols)?;
        self.set_volume(name, Some(record));
        Ok(())
    }

    pub(crate) fn add_class(&mut self, name: Sym, class: &StorageClass, symbols: &mut Symbols) {
        let record = ClassRecord::new(class, symbols);
        self.set_class(name, Some(record));
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
        &mut self,
        claims: &[Claim],
        namespace: Sym,
        pod: &str,
        volumes: &mut Volumes,
        symbols: &mut Symbols,
    ) -> Result<(), Refusal> {
        volumes.attachments.retain(|(driver, _)| self.limited_drivers.contains(driver));
        let mut asking = Asking { volumes, wanting: Vec::new(), answers: std::mem::take(&mut self.answers) };
        let mut refused = Ok(());
        for claim in claims {
            let (name, template) = claim_name(claim, pod, symbols);
            refused = refused.and(self.resolve_one((namespace, name), template, &mut asking, symbols));
        }
        let Asking { volumes, wanting, mut answers } = asking;
        let refused = refused.and(self.bind_each_its_own(&wanting, (volumes, &mut answers), symbols));
        self.wants = if self.binds_new { self.wants_of(&wanting, symbols) } else { Vec::new() };
        self.answers = answers;
        volumes.attachments.sort_unstable();
        volumes.attachments.dedup();
        volumes.exclusive_claims.sort_unstable();
        volumes.exclusive_claims.dedup();
        for places in [&mut volumes.topologies, &mut volumes.unbound, &mut volumes.zones] {
            places.sort_unstable();
            places.dedup();
        }
        refused.map_err(Refusal)
    }

    fn resolve_one<'a>(
        &'a self,
        id: (Sym, Sym),
        template: Option<&'a ClaimTemplate>,
        to: &mut Asking<'a, '_>,
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
            to.volumes.exclusive_claims.push(claim_handle(id, symbols));
        }
        self.resolve_volume(id, (asks, self.is_new(record)), to, symbols)?;
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

    fn resolve_volume<'a>(
        &'a self,
        id: (Sym, Sym),
        (asks, is_new): (&'a ClaimTemplate, bool),
        to: &mut Asking<'a, '_>,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        match asks.volume {
            Some(volume) => {
                let volume = self.volumes.get(&volume).ok_or(VOLUME_MISSING)?;
                to.volumes.topologies.extend(volume.topology.clone());
                to.volumes.zones.extend(volume.zones.clone().map(|zones| vec![zones]));
                let attachment = volume.attachment;
                to.volumes.attachments.extend(attachment.filter(|(driver, _)| self.limited_drivers.contains(driver)));
                Ok(())
            }
            None => self.resolve_unbound(id, (asks, is_new), to, symbols),
        }
    }

    fn resolve_unbound<'a>(
        &'a self,
        id: (Sym, Sym),
        (asks, is_new): (&'a ClaimTemplate, bool),
        to: &mut Asking<'a, '_>,
        symbols: &mut Symbols,
    ) -> Result<(), String> {
        // One that is bound at once, which is none of the scheduler's business, is bound by the time that its pod is placed.
        let bind_at_once = |class: Sym, to: &mut Asking<'a, '_>, symbols: &Symbols| {
            let wants = Wanting { id, class, asks };
            let bound = if is_new { self.bind_existing(wants, to, symbols) } else { Err(String::new()) };
            bound.map_err(|_| UNBOUND_IMMEDIATE.to_owned())
        };
        let Some(name) = self.class_of(asks, symbols) else {
            let none = symbols.intern("");
            return bind_at_once(none, to, symbols);
        };
        let Some(class) = self.classes.get(&name) else {
            let name = symbols.text(name);
            return Err(format!("storageclass.storage.k8s.io {name:?} not found"));
        };
        let is_made_before = is_new && class.makes_volumes;
        if !class.waits_for_consumer && !is_made_before {
            return bind_at_once(name, to, symbols);
        }
        if class.waits_for_consumer
            && let Some(node) = self.selected_node(id)
        {
            let mut only = Requirements::new();
            only.add(symbols.intern("metadata.name"), Requirement::value(node), symbols);
            to.volumes.unbound.push(vec![only]);
        }
        if !class.makes_volumes {
            return self.bind_existing(Wanting { id, class: name, asks }, to, symbols);
        }
        to.volumes.unbound.extend(class.topologies.clone());
        if self.limited_drivers.contains(&class.driver) {
            let handle = claim_handle(id, symbols);
            to.volumes.attachments.push((class.driver, handle));
        }
        Ok(())
    }

    /// The node for which the volume of a claim is being made: until it is there or its provisioner gives that node up, no other
    /// will do. A provisioner gives up a node that is gone, so that one does not hold pods back.
    fn selected_node(&self, id: (Sym, Sym)) -> Option<Sym> {
        self.claims.get(&id)?.selected_node.filter(|node| self.nodes.contains(node))
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
