//! Objects are folded in one at a time, in any order; what they mean together is decided at the end.

use std::hash::BuildHasher;

use berth_api::{
    Device, FieldError, NodeClaim, NodeClassRef, NodeOverlay, NodePool, NodeResourceTopology, Reservation,
};
use berth_catalogue::Catalogue;
use berth_model::{
    Assigned, Cluster, DisruptionBudget, Keyed, Labels, Namespace, OwnerReference, Refusal, Reservation as Held, Sym,
};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use indexmap::{IndexMap, IndexSet};
use k8s_openapi::api::{core, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::admission::Admission;
use crate::autoscalers::Autoscaler;
use crate::claims::Storage;
use crate::node::{NodeClaimRecord, NodeRecord};
use crate::overlay::OverlayRecord;
use crate::pod::Draft;
use crate::pool::PoolRecord;
use crate::reservation::ReservationRecord;
use crate::workloads::{Owner, Workloads};
use crate::{
    ConvertError, Options, Problem, ask, catalogue, memo, node, operating, overlay, pod, pool, reservation, resize,
    terms, units,
};

/// kube-scheduler's default namespace and kubectl's.
const DEFAULT_NAMESPACE: &str = "default";
/// Koordinator's reason where a pod asks for a Reservation and none matches.
const NO_RESERVATION: &str = "node(s) no reservations match reservation affinity";

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;
pub(crate) type FxIndexSet<T> = IndexSet<T, FxBuildHasher>;

/// Folds objects into a [`Cluster`]. Each `add_*` reads one object and keeps little of it. Of several objects of one
/// kind and name the last counts, and a warning says so.
///
/// # Errors
/// Every `add_*` fails where a field of the object cannot be understood, and names it; the object counts as not given
/// then.
#[derive(Clone)]
pub struct Builder {
    pub(crate) options: Options,
    /// CPUs and NUMA nodes, and devices, by node.
    pub(crate) topologies: FxHashMap<Sym, berth_model::Units>,
    pub(crate) devices: FxHashMap<Sym, Vec<berth_model::Device>>,
    pub(crate) cluster: Cluster,
    pub(crate) warnings: FxIndexSet<String>,
    pub(crate) drafts: FxIndexSet<Draft>,
    pub(crate) owners: FxIndexSet<Owner>,
    pub(crate) references: FxIndexSet<Vec<OwnerReference>>,
    pub(crate) pods: Vec<PodRecord>,
    /// Positions in `pods`, by namespace and name.
    pod_ids: HashTable<u32>,
    names: Keyed,
    pub(crate) memo: memo::Memo,
    n_generated: u32,
    namespaces: FxIndexMap<Sym, Labels>,
    pub(crate) workloads: Workloads,
    pub(crate) storage: Storage,
    pub(crate) priorities: FxHashMap<Sym, i32>,
    pub(crate) default_priority: Option<i32>,
    pub(crate) budgets: FxIndexMap<(Sym, Sym), DisruptionBudget>,
    pub(crate) nodes: FxIndexMap<Sym, NodeRecord>,
    pub(crate) node_claims: FxIndexMap<Sym, NodeClaimRecord>,
    pub(crate) attach_limits: FxHashMap<Sym, Vec<(Sym, u32)>>,
    pub(crate) pools: FxIndexMap<Sym, PoolRecord>,
    pub(crate) reservations: FxIndexMap<Sym, ReservationRecord>,
    pub(crate) overlays: FxIndexMap<Sym, OverlayRecord>,
    supplies: catalogue::Supplies,
    /// By finite supply: what the catalogue counted.
    pub(crate) counted: Vec<u32>,
    /// The node classes with a catalogue of their own.
    pub(crate) class_catalogues: FxIndexSet<Sym>,
    pub(crate) autoscalers: FxIndexMap<(Sym, Sym), Autoscaler>,
    pub(crate) expansion: Expansion,
    pub(crate) admission: Admission,
}

/// Which pods are planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// Those of the input, and those that its Deployments, Jobs and other workloads still want. A pod of a DaemonSet of
    /// the input is not: each node keeps room for one. Without a NodePool there is an open one.
    #[default]
    Workloads,
    /// Those that exist, as in a running cluster, where controllers make the others: pods of DaemonSets, too. Without a
    /// NodePool nothing is launched.
    PodsThatExist,
}

/// How warnings of objects end that were given before.
pub const REPEATED: &str = "given more than once; the last counts";

/// What became of the objects.
#[derive(Debug, Default)]
pub struct Converted {
    /// The input of every decision.
    pub cluster: Cluster,
    /// What people should know, a line each, in a fixed order.
    pub warnings: Vec<String>,
}

/// A pod that runs or is to run.
#[derive(Clone, Debug)]
pub(crate) struct PodRecord {
    pub(crate) namespace: Sym,
    pub(crate) name: Box<str>,
    pub(crate) draft: u32,
    pub(crate) labels: u32,
    /// The node that it is bound to.
    pub(crate) node: Option<Sym>,
    /// The node on which room was made for it.
    pub(crate) nominated_node: Option<Sym>,
    /// Index into the owners.
    pub(crate) owner: Option<u32>,
    /// Whether it has ended.
    pub(crate) is_gone: bool,
    /// Whether it is being deleted.
    pub(crate) is_terminating: bool,
    /// Whether it is a static pod's mirror, which no other node takes.
    pub(crate) is_static: bool,
    /// When it started, in nanoseconds since 1970; `i64::MAX` if it has not.
    pub(crate) started: i64,
    /// When it was created, in nanoseconds since 1970; `i64::MAX` if that is not said.
    pub(crate) created: i64,
    /// The name of the Reservation that it draws from, and its uid.
    pub(crate) draws_from: Option<(Sym, Option<Sym>)>,
    /// Index of its owner references.
    pub(crate) references: u32,
    /// Its uid.
    pub(crate) uid: Option<Box<str>>,
    /// Set where the cluster's label says that Reservations may be bound to it: its priority among such pods.
    pub(crate) pre_allocatable: Option<i64>,
    /// The CPUs and devices that it has to itself.
    pub(crate) assigned: Option<Box<Assigned>>,
    /// The Reservation that it is, but for what it reserves.
    pub(crate) operating: Option<Box<Held>>,
}

impl PodRecord {
    /// Whether no API server knows it yet.
    pub(crate) fn is_new(&self) -> bool {
        self.uid.is_none() && self.node.is_none() && self.created == i64::MAX
    }
}

pub(crate) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn problems(kind: &'static str, name: &str, errors: Vec<FieldError>) -> Result<(), ConvertError> {
    if errors.is_empty() {
        return Ok(());
    }
    let problems = errors.into_iter().map(|error| Problem::new(error.path, error.message));
    Err(ConvertError::new(kind, name, problems.collect()))
}

pub(crate) fn name_of<'a>(kind: &'static str, metadata: &'a ObjectMeta) -> Result<&'a str, ConvertError> {
    metadata.name.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
        ConvertError::new(kind, "without a name", vec![Problem::new("metadata.name", "expected a name")])
    })
}

pub(crate) fn namespace_of(metadata: &ObjectMeta) -> &str {
    let namespace = metadata.namespace.as_deref().filter(|name| !name.is_empty());
    namespace.unwrap_or(DEFAULT_NAMESPACE)
}

fn started(pod: &core::v1::Pod) -> i64 {
    nanoseconds(pod.status.as_ref().and_then(|status| status.start_time.as_ref()))
}

fn nanoseconds(time: Option<&Time>) -> i64 {
    time.and_then(|time| i64::try_from(time.0.as_nanosecond()).ok()).unwrap_or(i64::MAX)
}

// === impl Builder ===

impl Builder {
    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        Builder {
            options,
            cluster: Cluster::new(),
            warnings: FxIndexSet::default(),
            drafts: FxIndexSet::default(),
            owners: FxIndexSet::default(),
            references: std::iter::once(Vec::new()).collect(),
            pods: Vec::new(),
            pod_ids: HashTable::new(),
            names: Keyed::default(),
            memo: memo::Memo::default(),
            n_generated: 0,
            namespaces: FxIndexMap::default(),
            workloads: Workloads::default(),
            storage: Storage::default(),
            priorities: FxHashMap::default(),
            default_priority: None,
            budgets: FxIndexMap::default(),
            nodes: FxIndexMap::default(),
            node_claims: FxIndexMap::default(),
            attach_limits: FxHashMap::default(),
            pools: FxIndexMap::default(),
            reservations: FxIndexMap::default(),
            topologies: FxHashMap::default(),
            devices: FxHashMap::default(),
            overlays: FxIndexMap::default(),
            supplies: catalogue::Supplies::default(),
            counted: Vec::new(),
            class_catalogues: FxIndexSet::default(),
            autoscalers: FxIndexMap::default(),
            expansion: Expansion::default(),
            admission: Admission::default(),
        }
    }

    /// Says which pods are planned; at first those that workloads want, too.
    pub fn set_expansion(&mut self, expansion: Expansion) {
        self.expansion = expansion;
    }

    pub(crate) fn warn_of_repeat(&mut self, kind: &str, name: &str) {
        self.warnings.insert(format!("{kind} {name}: {REPEATED}"));
    }

    /// The index of an object's owner references; the first are none.
    fn intern_references(&mut self, metadata: &ObjectMeta) -> u32 {
        let references = ask::read_references(metadata, &mut self.cluster);
        index(self.references.insert_full(references).0)
    }

    pub(crate) fn owner_of(&mut self, metadata: &ObjectMeta, namespace: Sym) -> Option<Owner> {
        Owner::of(metadata, namespace, &mut self.cluster.symbols)
    }

    /// A pod. One that is bound takes room on its node until it is gone, one that is not is planned unless it is being
    /// deleted; one that has ended counts for nothing.
    pub fn add_pod(&mut self, object: &core::v1::Pod) -> Result<(), ConvertError> {
        let metadata = &object.metadata;
        let name = match (metadata.name.as_deref(), metadata.generate_name.as_deref()) {
            (None | Some(""), Some(prefix)) => {
                self.n_generated += 1;
                format!("{prefix}{}", self.n_generated - 1).into_boxed_str()
            }
            _ => name_of("Pod", metadata)?.into(),
        };
        let namespace = self.cluster.symbols.intern(namespace_of(metadata));
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        let mut record = PodRecord {
            namespace,
            name,
            draft: 0,
            labels: 0,
            node: None,
            nominated_node: None,
            owner: None,
            is_gone: matches!(phase, Some("Succeeded" | "Failed")),
            is_terminating: metadata.deletion_timestamp.is_some(),
            started: started(object),
            created: nanoseconds(metadata.creation_timestamp.as_ref()),
            draws_from: None,
            references: 0,
            uid: None,
            pre_allocatable: None,
            assigned: None,
            operating: None,
            is_static: metadata.annotations.as_ref().is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        };
        if !record.is_gone {
            let default;
            let resized;
            let spec = if let Some(spec) = &object.spec {
                resized = resize::resized(object);
                resized.as_ref().unwrap_or(spec)
            } else {
                default = core::v1::PodSpec::default();
                &default
            };
            record.draft = self.draft_of(metadata, spec, &record)?;
            let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
            record.node = node.map(|name| self.cluster.symbols.intern(name));
            let nominated = object.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
            record.nominated_node =
                nominated.filter(|name| !name.is_empty()).map(|name| self.cluster.symbols.intern(name));
            let labels = terms::labels_of(metadata.labels.as_ref(), &mut self.cluster.symbols);
            record.labels = self.cluster.intern_labels(labels);
            if ask::may_ask(metadata) {
                self.add_extensions(object, &mut record).map_err(|problem| {
                    let name = format!("{}/{}", namespace_of(metadata), record.name);
                    ConvertError::new("Pod", name, vec![problem])
                })?;
            }
            record.references = self.intern_references(metadata);
            record.uid = metadata.uid.as_deref().map(Into::into);
            record.pre_allocatable = record.node.and_then(|_| ask::pre_allocatable(metadata, &self.options));
            let owner = self.owner_of(metadata, namespace);
            record.owner = owner.map(|owner| index(self.owners.insert_full(owner).0));
        }
        self.keep_pod(record);
        Ok(())
    }

    // What Koordinator's annotations and labels say of a pod beside its spec.
    fn add_extensions(&mut self, object: &core::v1::Pod, record: &mut PodRecord) -> Result<(), Problem> {
        let metadata = &object.metadata;
        let assigned = units::read_assigned(metadata, &mut self.cluster)?;
        record.assigned = (record.node.is_some() && !assigned.is_empty()).then(|| Box::new(assigned));
        record.draws_from = ask::read_allocated(metadata, &mut self.cluster)?;
        if record.node.is_some() && operating::is_operating(metadata) {
            record.operating = Some(Box::new(operating::read_operating(object, record, &mut self.cluster)?));
        }
        Ok(())
    }

    fn draft_of(
        &mut self,
        metadata: &ObjectMeta,
        spec: &core::v1::PodSpec,
        record: &PodRecord,
    ) -> Result<u32, ConvertError> {
        // Annotations and labels may change the draft.
        let fingerprint = (!ask::may_ask(metadata)).then(|| memo::fingerprint(spec));
        if let Some(known) = fingerprint.and_then(|fingerprint| self.memo.get(fingerprint, spec)) {
            return Ok(known);
        }
        let wrong = |problem| {
            let name = format!("{}/{}", namespace_of(metadata), record.name);
            ConvertError::new("Pod", name, vec![problem])
        };
        let mut draft = pod::draft(spec, &mut self.cluster).map_err(|problem| wrong(problem.under("spec")))?;
        add_ask(metadata, &mut draft, &mut self.cluster).map_err(wrong)?;
        // Pods that exist have been let in.
        if self.expansion == Expansion::Workloads && (fingerprint.is_some() || metadata.uid.is_none()) {
            draft.shape = self.shape_of(spec);
        }
        let draft = self.intern_draft(draft);
        if let Some(fingerprint) = fingerprint {
            self.memo.insert(fingerprint, spec, draft);
        }
        Ok(draft)
    }

    /// Reads a pod without keeping it.
    pub(crate) fn read_pod(&mut self, object: &core::v1::Pod) -> Result<Option<PodRecord>, ConvertError> {
        self.add_pod(object)?;
        self.pod_ids.clear();
        Ok(self.pods.pop())
    }

    fn keep_pod(&mut self, record: PodRecord) {
        let (pods, names) = (&self.pods, &self.names);
        let hash_of = |pod: &PodRecord| names.hash_one((pod.namespace, &pod.name));
        let is_it = |at: &u32| {
            let known = pods.get(*at as usize);
            known.is_some_and(|pod| pod.namespace == record.namespace && pod.name == record.name)
        };
        let hash_at = |at: &u32| pods.get(*at as usize).map_or(0, hash_of);
        let at = match self.pod_ids.entry(hash_of(&record), is_it, hash_at) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(index(pods.len()));
                self.pods.push(record);
                return;
            }
        };
        let namespace = self.cluster.symbols.text(record.namespace);
        let name = format!("{namespace}/{}", record.name);
        if let Some(pod) = self.pods.get_mut(at as usize) {
            *pod = record;
        }
        self.warn_of_repeat("Pod", &name);
    }

    pub(crate) fn intern_draft(&mut self, draft: Draft) -> u32 {
        index(self.drafts.insert_full(draft).0)
    }

    /// A namespace with its labels.
    pub fn add_namespace(&mut self, object: &core::v1::Namespace) -> Result<(), ConvertError> {
        let name = name_of("Namespace", &object.metadata)?;
        let symbols = &mut self.cluster.symbols;
        let name = symbols.intern(name);
        let own = (symbols.intern("kubernetes.io/metadata.name"), name);
        let labels = terms::labels_of(object.metadata.labels.as_ref(), symbols);
        let labels = Labels::new(labels.iter().chain([own]));
        self.namespaces.insert(name, labels);
        Ok(())
    }

    /// A PriorityClass.
    pub fn add_priority_class(&mut self, object: &scheduling::v1::PriorityClass) -> Result<(), ConvertError> {
        let name = name_of("PriorityClass", &object.metadata)?;
        let name = self.cluster.symbols.intern(name);
        self.priorities.insert(name, object.value);
        if object.global_default == Some(true) {
            // Of several defaults the API server takes the lowest.
            let lowest = self.default_priority.map_or(object.value, |known| known.min(object.value));
            self.default_priority = Some(lowest);
        }
        Ok(())
    }

    /// A PodDisruptionBudget, for preemption.
    pub fn add_pod_disruption_budget(&mut self, object: &policy::v1::PodDisruptionBudget) -> Result<(), ConvertError> {
        let name = name_of("PodDisruptionBudget", &object.metadata)?;
        let symbols = &mut self.cluster.symbols;
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = terms::selector(selector, symbols)
            .map_err(|problem| ConvertError::new("PodDisruptionBudget", name, vec![problem.under("spec.selector")]))?;
        let status = object.status.as_ref();
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref()).into_iter().flatten();
        let budget = DisruptionBudget {
            namespace: symbols.intern(namespace_of(&object.metadata)),
            selector,
            allowed: status.map_or(0, |status| status.disruptions_allowed),
            disrupted: disrupted.map(|(pod, _)| pod.as_str().into()).collect(),
        };
        let id = (budget.namespace, symbols.intern(name));
        if self.budgets.insert(id, budget).is_some() {
            self.warn_of_repeat("PodDisruptionBudget", name);
        }
        Ok(())
    }

    /// A StorageClass.
    pub fn add_storage_class(&mut self, object: &storage::v1::StorageClass) -> Result<(), ConvertError> {
        let name = name_of("StorageClass", &object.metadata)?;
        let name = self.cluster.symbols.intern(name);
        self.storage.add_class(name, object, &mut self.cluster.symbols);
        Ok(())
    }

    /// A volume.
    pub fn add_persistent_volume(&mut self, object: &core::v1::PersistentVolume) -> Result<(), ConvertError> {
        let name = name_of("PersistentVolume", &object.metadata)?;
        let sym = self.cluster.symbols.intern(name);
        self.storage
            .add_volume(sym, object, &mut self.cluster.symbols)
            .map_err(|problem| ConvertError::new("PersistentVolume", name, vec![problem]))
    }

    /// A claim.
    pub fn add_persistent_volume_claim(
        &mut self,
        object: &core::v1::PersistentVolumeClaim,
    ) -> Result<(), ConvertError> {
        let name = name_of("PersistentVolumeClaim", &object.metadata)?;
        let symbols = &mut self.cluster.symbols;
        let id = (symbols.intern(namespace_of(&object.metadata)), symbols.intern(name));
        self.storage.add_claim(id, object, &mut self.cluster);
        Ok(())
    }

    /// A CSINode, for its attach limits.
    pub fn add_csi_node(&mut self, object: &storage::v1::CSINode) -> Result<(), ConvertError> {
        let name = name_of("CSINode", &object.metadata)?;
        let name = self.cluster.symbols.intern(name);
        let limits = node::read_attach_limits(object, &mut self.cluster.symbols);
        self.storage.limited_drivers.extend(limits.iter().map(|(driver, _)| *driver));
        self.attach_limits.insert(name, limits);
        Ok(())
    }

    /// A node.
    pub fn add_node(&mut self, object: &core::v1::Node) -> Result<(), ConvertError> {
        let name = name_of("Node", &object.metadata)?;
        let sym = self.cluster.symbols.intern(name);
        let record = node::read_node(sym, object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("Node", name, vec![problem]))?;
        if self.nodes.insert(sym, record).is_some() {
            self.warn_of_repeat("Node", name);
        }
        Ok(())
    }

    /// A NodeClaim: a node in flight, where it is launched and has no node yet.
    pub fn add_node_claim(&mut self, object: &NodeClaim) -> Result<(), ConvertError> {
        let name = name_of("NodeClaim", &object.metadata)?;
        let sym = self.cluster.symbols.intern(name);
        let record = node::read_node_claim(sym, object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("NodeClaim", name, vec![problem]))?;
        if self.node_claims.insert(sym, record).is_some() {
            self.warn_of_repeat("NodeClaim", name);
        }
        Ok(())
    }

    /// A NodePool, validated as the API server and Karpenter would.
    pub fn add_node_pool(&mut self, object: &NodePool) -> Result<(), ConvertError> {
        let name = name_of("NodePool", &object.metadata)?;
        problems("NodePool", name, object.validate())?;
        let record = pool::read_pool(name, object, &self.options, &mut self.cluster)
            .map_err(|problem| ConvertError::new("NodePool", name, vec![problem]))?;
        if self.pools.insert(record.pool.name, record).is_some() {
            self.warn_of_repeat("NodePool", name);
        }
        if let Some(replicas) = object.spec.replicas.filter(|n| *n > 0 && self.expansion == Expansion::Workloads) {
            self.warnings.insert(format!(
                "NodePool {name}: static, with replicas {replicas}: of these nodes only those in the input are in the plan"
            ));
        }
        Ok(())
    }

    /// A NodeOverlay; without the gate it is validated and changes nothing.
    pub fn add_node_overlay(&mut self, object: &NodeOverlay) -> Result<(), ConvertError> {
        let name = name_of("NodeOverlay", &object.metadata)?;
        problems("NodeOverlay", name, object.validate())?;
        let record = overlay::read_overlay(name, object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("NodeOverlay", name, vec![problem]))?;
        if self.options.node_overlay {
            let sym = self.cluster.symbols.intern(name);
            self.overlays.insert(sym, record);
        } else {
            self.warnings.insert("NodeOverlays change nothing: the feature gate NodeOverlay is off".to_owned());
        }
        Ok(())
    }

    /// A Reservation of Koordinator.
    pub fn add_reservation(&mut self, object: &Reservation) -> Result<(), ConvertError> {
        let name = name_of("Reservation", &object.metadata)?;
        problems("Reservation", name, object.validate())?;
        let drafts = &mut self.drafts;
        let mut intern = |draft| index(drafts.insert_full(draft).0);
        let sym = self.cluster.symbols.intern(name);
        let record = reservation::read_reservation(sym, object, &mut self.cluster, &mut intern)
            .map_err(|problem| ConvertError::new("Reservation", name, vec![problem]))?;
        if self.reservations.insert(sym, record).is_some() {
            self.warn_of_repeat("Reservation", name);
        }
        Ok(())
    }

    /// The CPUs and NUMA nodes of a node.
    pub fn add_node_resource_topology(&mut self, object: &NodeResourceTopology) -> Result<(), ConvertError> {
        let name = name_of("NodeResourceTopology", &object.metadata)?;
        let topology = units::read_topology(object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("NodeResourceTopology", name, vec![problem]))?;
        let sym = self.cluster.symbols.intern(name);
        if self.topologies.insert(sym, topology).is_some() {
            self.warn_of_repeat("NodeResourceTopology", name);
        }
        Ok(())
    }

    /// The devices of a node.
    pub fn add_device(&mut self, object: &Device) -> Result<(), ConvertError> {
        let name = name_of("Device", &object.metadata)?;
        let devices = units::read_devices(object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("Device", name, vec![problem]))?;
        let sym = self.cluster.symbols.intern(name);
        if self.devices.insert(sym, devices).is_some() {
            self.warn_of_repeat("Device", name);
        }
        Ok(())
    }

    /// The instance types that every NodePool may launch; a later catalogue takes the place of an earlier one.
    ///
    /// # Errors
    /// Amounts that cannot be counted with; none in a catalogue that was checked.
    pub fn set_catalogue(&mut self, catalogue: &Catalogue) -> Result<(), ConvertError> {
        let with_reserved = self.options.reserved_capacity;
        self.cluster.instance_types.clear();
        self.supplies = catalogue::Supplies::default();
        self.class_catalogues.clear();
        catalogue::convert(catalogue, None, with_reserved, &mut self.supplies, &mut self.cluster, &mut self.warnings)
            .map_err(|problem| ConvertError::new("Catalogue", "of instance types", vec![problem]))
    }

    /// What the catalogue is to NodePools of one node class, in place of that of [`set_catalogue`](Self::set_catalogue),
    /// which comes first. A reservation, or a finite supply of a type and zone, that both have is one.
    ///
    /// # Errors
    /// As `set_catalogue`.
    pub fn add_class_catalogue(&mut self, class: &NodeClassRef, catalogue: &Catalogue) -> Result<(), ConvertError> {
        let with_reserved = self.options.reserved_capacity;
        let name = pool::class_name(class, &mut self.cluster.symbols);
        self.class_catalogues.insert(name);
        let (supplies, cluster) = (&mut self.supplies, &mut self.cluster);
        catalogue::convert(catalogue, Some(name), with_reserved, supplies, cluster, &mut self.warnings).map_err(
            |problem| ConvertError::new("Catalogue", format!("of {} {}", class.kind, class.name), vec![problem]),
        )
    }

    /// Sets how many instances of each finite supply of the catalogue may still be launched: `free` is given the id of
    /// the supply and the catalogue's count.
    pub fn adjust_slots(&mut self, mut free: impl FnMut(&str, u32) -> u32) {
        let Cluster { slots, symbols, .. } = &mut self.cluster;
        self.counted = slots.iter().map(|supply| supply.free).collect();
        for supply in slots {
            supply.free = free(symbols.text(supply.id), supply.free);
        }
    }

    /// Says which NodeClaims that are not launched as far as they show take nothing of a finite supply any more, as its
    /// count leaves out their instance already: `is_counted` is given the id of the supply and the NodeClaim's name. All
    /// NodeClaims were added before.
    pub fn leave_out_counted(&mut self, is_counted: impl Fn(&str, &str) -> bool) {
        let Cluster { slots, symbols, .. } = &self.cluster;
        for (name, claim) in self.node_claims.iter_mut().filter(|(_, claim)| !claim.is_launched) {
            let ids = slots.iter().zip((0..).map(berth_model::SlotId));
            let counted = ids.filter(|(supply, _)| is_counted(symbols.text(supply.id), symbols.text(*name)));
            claim.asked.counted = counted.map(|(_, id)| id).collect();
        }
    }

    pub(crate) fn take_namespaces(&mut self) -> Vec<Namespace> {
        let namespaces = std::mem::take(&mut self.namespaces).into_iter();
        namespaces.map(|(name, labels)| Namespace { name, labels }).collect()
    }
}

/// What a pod of this metadata asks of Reservations becomes part of its draft. One that must draw from a Reservation
/// has no place where none is matched.
pub(crate) fn add_ask(metadata: &ObjectMeta, draft: &mut Draft, cluster: &mut Cluster) -> Result<(), Problem> {
    units::add_ask(metadata, draft)?;
    draft.spec.reservation = ask::read_ask(metadata, cluster)?;
    if draft.spec.reservation.affinity.is_some() {
        draft.spec.refusal.get_or_insert(Refusal(NO_RESERVATION.to_owned()));
    }
    Ok(())
}
