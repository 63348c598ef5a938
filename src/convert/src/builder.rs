//! Objects are folded in one at a time, in any order; what they mean together is decided at the end.

use berth_api::{
    Device, FieldError, NodeClaim, NodeClassRef, NodeOverlay, NodePool, NodeResourceTopology, Reservation,
};
use berth_catalogue::Catalogue;
use berth_model::{Cluster, DisruptionBudget, Keyed, Labels, Namespace, OwnerReference, Sym};
use hashbrown::HashTable;
use indexmap::IndexSet;
use k8s_openapi::api::{core, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustc_hash::FxHashMap;

use crate::admission::Admission;
use crate::budgets::Uncounted;
use crate::claims::Storage;
use crate::draft::{ClassPriority, Draft, Drafts};
use crate::existing::{Staying, StayingPods, staying};
use crate::maps::{FxIndexMap, FxIndexSet, Texts, index};
use crate::metadata::{name_of, namespace_of};
use crate::node_record::{NodeClaimRecord, NodeRecord};
use crate::options::Expansion;
use crate::overlay::OverlayRecord;
use crate::pod_record::PodRecord;
use crate::pool::PoolRecord;
use crate::reservation::ReservationRecord;
use crate::selecting::Selecting;
use crate::workloads::{Autoscaler, Owner, Workloads};
use crate::{ConvertError, Options, Problem, ask, catalogue, memo, node, overlay, pool, reservation, terms, units};

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
    pub(crate) warnings: Texts,
    /// The last warning of an object that was given before, until it is taken.
    repeated: Option<String>,
    pub(crate) drafts: Drafts,
    pub(crate) owners: FxIndexSet<Owner>,
    pub(crate) references: FxIndexSet<Vec<OwnerReference>>,
    pub(crate) pods: Vec<PodRecord>,
    /// Positions in `pods`, by namespace and name.
    pub(crate) pod_ids: HashTable<u32>,
    pub(crate) names: Keyed,
    pub(crate) memo: memo::Memo,
    pub(crate) alike: memo::AllAlike,
    pub(crate) n_generated: u32,
    namespaces: FxIndexMap<Sym, Labels>,
    /// Those that are being deleted, where pods are planned for workloads.
    pub(crate) terminating: FxIndexSet<Sym>,
    pub(crate) workloads: Workloads,
    pub(crate) selecting: Selecting,
    pub(crate) storage: Storage,
    pub(crate) priorities: FxHashMap<Sym, ClassPriority>,
    pub(crate) default_priority: Option<ClassPriority>,
    pub(crate) budgets: FxIndexMap<(Sym, Sym), DisruptionBudget>,
    pub(crate) uncounted: Uncounted,
    pub(crate) nodes: FxIndexMap<Sym, NodeRecord>,
    pub(crate) node_claims: FxIndexMap<Sym, NodeClaimRecord>,
    pub(crate) attach_limits: FxHashMap<Sym, Vec<(Sym, u32)>>,
    pub(crate) staying: Staying,
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
    /// Whether what comes now takes the place of what came before, and whether that is to come.
    pub(crate) is_change: bool,
    pub(crate) expects_change: bool,
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
    /// Whether a change ends pods that run.
    pub ends_pods: bool,
}

fn problems(kind: &'static str, name: &str, errors: Vec<FieldError>) -> Result<(), ConvertError> {
    if errors.is_empty() {
        return Ok(());
    }
    let problems = errors.into_iter().map(|error| Problem::new(error.path, error.message));
    Err(ConvertError::new(kind, name, problems.collect()))
}

// === impl Builder ===

impl Builder {
    /// A change is to come, so that pods may go. To be called before anything is added.
    pub fn expect_change(&mut self) {
        self.expects_change = true;
    }

    /// What comes now is a change of what came before: controllers remake the pods of workloads whose template is another, and
    /// let go of those that are too many.
    pub fn begin_change(&mut self) {
        self.is_change = true;
    }

    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        let keyed = Keyed::with_key(options.hash_key);
        let mut cluster = Cluster::with_hash_key(options.hash_key);
        cluster.resource_names.set_limit(options.resource_limit);
        Builder {
            cluster,
            options,
            warnings: Texts::with_hasher(keyed.clone()),
            repeated: None,
            drafts: IndexSet::with_hasher(keyed.clone()),
            owners: FxIndexSet::default(),
            references: std::iter::once(Vec::new()).collect(),
            pods: Vec::new(),
            pod_ids: HashTable::new(),
            admission: Admission { shapes: Texts::with_hasher(keyed.clone()), ..Admission::default() },
            names: keyed,
            memo: memo::Memo::default(),
            alike: memo::AllAlike::default(),
            n_generated: 0,
            namespaces: FxIndexMap::default(),
            terminating: FxIndexSet::default(),
            workloads: Workloads::default(),
            selecting: Selecting::default(),
            storage: Storage::default(),
            priorities: FxHashMap::default(),
            default_priority: None,
            budgets: FxIndexMap::default(),
            uncounted: Uncounted::default(),
            nodes: FxIndexMap::default(),
            node_claims: FxIndexMap::default(),
            attach_limits: FxHashMap::default(),
            staying: Staying::default(),
            pools: FxIndexMap::default(),
            reservations: FxIndexMap::default(),
            topologies: FxHashMap::default(),
            devices: FxHashMap::default(),
            overlays: FxIndexMap::default(),
            supplies: catalogue::Supplies::default(),
            counted: Vec::new(),
            class_catalogues: FxIndexSet::default(),
            autoscalers: FxIndexMap::default(),
            is_change: false,
            expects_change: false,
            expansion: Expansion::default(),
        }
    }

    /// Says which pods are planned; at first those that workloads want, too.
    pub fn set_expansion(&mut self, expansion: Expansion) {
        self.expansion = expansion;
    }

    pub(crate) fn warn_of_repeat(&mut self, kind: &str, name: &str) {
        let warning = format!("{kind} {name}: {REPEATED}");
        self.warnings.insert(warning.clone());
        self.repeated = Some(warning);
    }

    /// The warning of an object that was given before, if one was since this was asked last.
    pub fn take_repeated(&mut self) -> Option<String> {
        self.repeated.take()
    }

    /// The index of an object's owner references; the first are none.
    pub(crate) fn intern_references(&mut self, metadata: &ObjectMeta) -> u32 {
        let references = ask::read_references(metadata, &mut self.cluster);
        index(self.references.insert_full(references).0)
    }

    pub(crate) fn owner_of(&mut self, metadata: &ObjectMeta, namespace: Sym) -> Option<Owner> {
        Owner::of(metadata, namespace, &mut self.cluster.symbols)
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
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_terminating = object.metadata.deletion_timestamp.is_some() || phase == Some("Terminating");
        if is_terminating && self.expansion == Expansion::Workloads {
            self.terminating.insert(name);
        } else {
            self.terminating.swap_remove(&name);
        }
        Ok(())
    }

    /// A PriorityClass.
    pub fn add_priority_class(&mut self, object: &scheduling::v1::PriorityClass) -> Result<(), ConvertError> {
        let name = name_of("PriorityClass", &object.metadata)?;
        let name = self.cluster.symbols.intern(name);
        let never_preempts = object.preemption_policy.as_deref() == Some("Never");
        let priority = ClassPriority { value: object.value, never_preempts };
        self.priorities.insert(name, priority);
        if object.global_default == Some(true) {
            // Of several defaults the API server takes the lowest.
            let lowest = self.default_priority.map_or(priority, |known| known.min(priority));
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
            name: symbols.intern(name),
            namespace: symbols.intern(namespace_of(&object.metadata)),
            selector,
            allowed: status.map_or(0, |status| status.disruptions_allowed),
            disrupted: disrupted.map(|(pod, _)| pod.as_str().into()).collect(),
        };
        let id = (budget.namespace, budget.name);
        match &object.spec {
            Some(spec) if status.is_none() => self.uncounted.insert(id, spec.clone()),
            _ => self.uncounted.remove(&id),
        };
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
        let is_told = self.expansion == Expansion::Workloads && !self.options.static_capacity;
        if let Some(replicas) = object.spec.replicas.filter(|n| *n > 0 && is_told) {
            self.warnings.insert(format!(
                "NodePool {name}: static, with replicas {replicas}: with the feature gate StaticCapacity off, of these nodes only \
                 those in the input are in the plan"
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

    /// Says which pods nothing lets leave their nodes, though these go away: they count where they run, and nothing is planned for them.
    pub fn keep_staying(&mut self, pods: &StayingPods) {
        self.staying = staying(pods, &mut self.cluster.symbols);
    }

    pub(crate) fn take_namespaces(&mut self) -> Vec<Namespace> {
        let namespaces = std::mem::take(&mut self.namespaces).into_iter();
        namespaces.map(|(name, labels)| Namespace { name, labels }).collect()
    }
}
