//! Everything a decision is made from: the cluster as it stands, the catalogue, and who is pending.

use rustc_hash::FxHashMap;

use crate::{
    Daemon, DefaultSpread, DisruptionBudget, InstanceType, Keyed, KeyedMap, KeyedSet, Labels, LabelsId, MemberKind,
    Namespace, Node, NodePool, PendingRow, PodSpec, PreferencePolicy, Requirements, Reservation, ReservationId,
    ReservationRules, ResourceNames, RowId, Shared, Slots, SpecId, Sym, Symbols,
};

/// The label keys that decisions know by meaning, interned.
#[derive(Clone, Debug)]
pub struct WellKnown {
    /// `kubernetes.io/hostname`
    pub hostname: Sym,
    /// `topology.kubernetes.io/zone`
    pub zone: Sym,
    /// `karpenter.sh/capacity-type`
    pub capacity_type: Sym,
    /// `karpenter.sh/nodepool`
    pub node_pool: Sym,
    /// `node.kubernetes.io/instance-type`
    pub instance_type: Sym,
    /// `kubernetes.io/os`
    pub os: Sym,
    /// `kubernetes.io/arch`
    pub arch: Sym,
    /// `metadata.name`, the field that node affinity can match
    pub field_name: Sym,
    /// `berth.sh/capacity-reservation-id`
    pub reservation_id: Sym,
    /// `reserved`
    pub reserved: Sym,
}

impl WellKnown {
    /// Interns the keys.
    pub fn new(symbols: &mut Symbols) -> Self {
        WellKnown {
            hostname: symbols.intern("kubernetes.io/hostname"),
            zone: symbols.intern("topology.kubernetes.io/zone"),
            capacity_type: symbols.intern("karpenter.sh/capacity-type"),
            node_pool: symbols.intern("karpenter.sh/nodepool"),
            instance_type: symbols.intern("node.kubernetes.io/instance-type"),
            os: symbols.intern("kubernetes.io/os"),
            arch: symbols.intern("kubernetes.io/arch"),
            field_name: symbols.intern("metadata.name"),
            reservation_id: symbols.intern("berth.sh/capacity-reservation-id"),
            reserved: symbols.intern("reserved"),
        }
    }
}

/// The input of every decision. Built by the convert crate, or by hand in tests. Clones share what is large and seldom
/// changes.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// All strings.
    pub symbols: Shared<Symbols>,
    /// The keys known by meaning.
    pub well_known: WellKnown,
    /// All resources.
    pub resource_names: ResourceNames,
    /// Namespaces with labels; one that is not listed has only `kubernetes.io/metadata.name`.
    pub namespaces: Shared<Vec<Namespace>>,
    /// The catalogue.
    pub instance_types: Shared<Vec<InstanceType>>,
    /// Capacity reservations and other finite supplies.
    pub slots: Vec<Slots>,
    /// NodePools, by name.
    pub node_pools: Shared<Vec<NodePool>>,
    /// Nodes, in the order in which they are tried: initialized first, then by name. A cluster that follows what changes has
    /// them in no order, see [`Cluster::sort_nodes`].
    pub nodes: Vec<Node>,
    /// Reservations that are not over, by name.
    pub reservations: Vec<Reservation>,
    /// What the scheduler's configuration says of them.
    pub rules: ReservationRules,
    /// What it says of pods without spread constraints of their own.
    pub default_spread: DefaultSpread,
    /// Whether nodes are launched and kept for what pods prefer.
    pub preferences: PreferencePolicy,
    /// StorageClasses that limit where volumes are made, and where; decisions do not look at them, reasons do.
    pub storage_topologies: Vec<(Sym, Vec<Requirements>)>,
    /// Whether volumes that are there were shared out among pods beforehand: another share might cost less.
    pub has_shared_out_volumes: bool,
    /// PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// DaemonSets.
    pub daemons: Shared<Vec<Daemon>>,
    /// Distinct pod specs.
    pub specs: Shared<Vec<PodSpec>>,
    /// Distinct label sets of pods. Pods with equal labels that are spread by default from others have two.
    pub label_sets: Shared<Vec<Labels>>,
    /// Who is pending.
    pub pending: Vec<PendingRow>,
    spec_ids: Shared<KeyedMap<PodSpec, SpecId>>,
    label_set_ids: Shared<KeyedMap<Labels, LabelsId>>,
    /// By label set: from whom such pods are spread by default.
    spread_from: Shared<FxHashMap<LabelsId, Requirements>>,
    /// By label set and from whom its pods are spread by default.
    spreading_ids: Shared<FxHashMap<(LabelsId, Requirements), LabelsId>>,
    row_ids: FxHashMap<(MemberKind, Sym, SpecId, LabelsId), RowId>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// An empty cluster, which hashes with a key that everyone knows.
    pub fn new() -> Self {
        Self::with_hash_key([0; 4])
    }

    /// An empty cluster that hashes what others choose with this key. No answer depends on it.
    pub fn with_hash_key(key: [u64; 4]) -> Self {
        let keyed = Keyed::with_key(key);
        let mut symbols = Symbols::with_hasher(keyed.clone());
        let well_known = WellKnown::new(&mut symbols);
        let resource_names = ResourceNames::new(&mut symbols);
        Cluster {
            symbols: symbols.into(),
            well_known,
            resource_names,
            namespaces: Shared::default(),
            instance_types: Shared::default(),
            slots: Vec::new(),
            node_pools: Shared::default(),
            nodes: Vec::new(),
            reservations: Vec::new(),
            rules: ReservationRules::default(),
            default_spread: DefaultSpread::default(),
            preferences: PreferencePolicy::default(),
            storage_topologies: Vec::new(),
            has_shared_out_volumes: false,
            budgets: Vec::new(),
            daemons: Shared::default(),
            specs: Shared::default(),
            label_sets: Shared::default(),
            pending: Vec::new(),
            spec_ids: KeyedMap::with_hasher(keyed.clone()).into(),
            label_set_ids: KeyedMap::with_hasher(keyed).into(),
            spread_from: Shared::default(),
            spreading_ids: Shared::default(),
            row_ids: FxHashMap::default(),
        }
    }

    /// An empty map of names, which hashes as the cluster does.
    pub fn keyed_map<K, V>(&self) -> KeyedMap<K, V> {
        KeyedMap::with_hasher(self.symbols.hasher().clone())
    }

    /// The same of a set.
    pub fn keyed_set<K>(&self) -> KeyedSet<K> {
        KeyedSet::with_hasher(self.symbols.hasher().clone())
    }

    /// Brings nodes into the order in which they are tried.
    pub fn sort_nodes(&mut self) {
        let symbols = &self.symbols;
        let key = |node: &Node| (node.is_coming_up, symbols.text(node.name));
        if !self.nodes.is_sorted_by(|a, b| key(a) <= key(b)) {
            self.nodes.sort_by(|a, b| key(a).cmp(&key(b)));
        }
    }

    /// The same without nodes, and nobody pending: what could be launched. What is large is shared with this cluster.
    #[must_use]
    pub fn without_nodes(&self) -> Self {
        Cluster {
            symbols: self.symbols.clone(),
            well_known: self.well_known.clone(),
            resource_names: self.resource_names.clone(),
            namespaces: self.namespaces.clone(),
            instance_types: self.instance_types.clone(),
            slots: self.slots.clone(),
            node_pools: self.node_pools.clone(),
            nodes: Vec::new(),
            reservations: self.reservations.clone(),
            rules: self.rules.clone(),
            default_spread: self.default_spread.clone(),
            preferences: self.preferences,
            storage_topologies: self.storage_topologies.clone(),
            has_shared_out_volumes: self.has_shared_out_volumes,
            budgets: Vec::new(),
            daemons: self.daemons.clone(),
            specs: self.specs.clone(),
            label_sets: self.label_sets.clone(),
            pending: Vec::new(),
            spec_ids: self.spec_ids.clone(),
            label_set_ids: self.label_set_ids.clone(),
            spread_from: self.spread_from.clone(),
            spreading_ids: self.spreading_ids.clone(),
            row_ids: FxHashMap::default(),
        }
    }

    /// The node at an index. Whoever has an index has it of this cluster, as it is.
    pub fn node(&self, at: usize) -> Option<&Node> {
        listed(&self.nodes, at, "node")
    }

    /// What pods of a spec ask for. Whoever has an id has it of this cluster.
    pub fn spec(&self, id: SpecId) -> Option<&PodSpec> {
        listed(&self.specs, id.index(), "spec")
    }

    /// A Reservation. Whoever has an id has it of this cluster.
    pub fn reservation(&self, id: ReservationId) -> Option<&Reservation> {
        listed(&self.reservations, id.index(), "Reservation")
    }

    /// What can be changed of a Reservation.
    pub fn reservation_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        listed_mut(&mut self.reservations, id.index(), "Reservation")
    }

    /// All Reservations, each with its id.
    pub fn reservations_with_ids(&self) -> impl DoubleEndedIterator<Item = (ReservationId, &Reservation)> {
        self.reservations.iter().enumerate().map(|(at, known)| (ReservationId::new(at), known))
    }

    /// A label set. Whoever has an id has it of this cluster.
    pub fn labels(&self, id: LabelsId) -> Option<&Labels> {
        listed(&self.label_sets, id.index(), "label set")
    }

    /// A pending row. Whoever has an id has it of this cluster, as it is.
    pub fn row(&self, id: RowId) -> Option<&PendingRow> {
        listed(&self.pending, id.index(), "pending row")
    }

    /// What can be changed of a pending row.
    pub fn row_mut(&mut self, id: RowId) -> Option<&mut PendingRow> {
        listed_mut(&mut self.pending, id.index(), "pending row")
    }

    /// All pending rows, each with its id.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (RowId, &PendingRow)> {
        self.pending.iter().enumerate().map(|(at, row)| (RowId::new(at), row))
    }

    /// The id of a spec, new or known.
    pub fn intern_spec(&mut self, spec: PodSpec) -> SpecId {
        if let Some(&id) = self.spec_ids.get(&spec) {
            return id;
        }
        let id = SpecId::new(self.specs.len());
        self.specs.push(spec.clone());
        self.spec_ids.insert(spec, id);
        id
    }

    /// The id of a label set, new or known.
    pub fn intern_labels(&mut self, labels: Labels) -> LabelsId {
        if let Some(&id) = self.label_set_ids.get(&labels) {
            return id;
        }
        let id = LabelsId::new(self.label_sets.len());
        self.label_sets.push(labels.clone());
        self.label_set_ids.insert(labels, id);
        id
    }

    /// The id of the same label set for pods that are spread by default from those that `selector` matches in their
    /// namespace: Services and controllers select them.
    pub fn intern_spreading(&mut self, labels: LabelsId, selector: Requirements) -> LabelsId {
        if let Some(&id) = self.spreading_ids.get(&(labels, selector.clone())) {
            return id;
        }
        let Some(own) = self.labels(labels).cloned() else { return labels };
        let id = LabelsId::new(self.label_sets.len());
        self.label_sets.push(own);
        self.spread_from.insert(id, selector.clone());
        self.spreading_ids.insert((labels, selector), id);
        id
    }

    /// From whom pods of a label set are spread where they have no spread constraints of their own; `None`: from nobody.
    pub fn spread_from(&self, labels: LabelsId) -> Option<&Requirements> {
        self.spread_from.get(&labels)
    }

    /// The id of the pending row of these properties, if there is one.
    pub fn row_of(&self, kind: MemberKind, namespace: Sym, spec: SpecId, labels: LabelsId) -> Option<RowId> {
        self.row_ids.get(&(kind, namespace, spec, labels)).copied()
    }

    /// Takes these rows in place of the pending ones. No two may be alike in kind, namespace, spec and labels.
    pub fn set_pending(&mut self, rows: Vec<PendingRow>) {
        let ids = (0..).map(RowId).zip(&rows);
        self.row_ids = ids.map(|(id, row)| ((row.kind, row.namespace, row.spec, row.labels), id)).collect();
        self.pending = rows;
    }

    /// The pending row of these properties, new or known, to add members to.
    pub fn pending_row(
        &mut self,
        kind: MemberKind,
        namespace: Sym,
        spec: SpecId,
        labels: LabelsId,
    ) -> Option<&mut PendingRow> {
        let next = RowId::new(self.pending.len());
        let id = *self.row_ids.entry((kind, namespace, spec, labels)).or_insert(next);
        if id == next {
            self.pending.push(PendingRow { kind, namespace, spec, labels, members: Vec::new() });
        }
        self.pending.get_mut(id.index())
    }
}

/// What a list has at an index that was made for it: a debug build says where it has nothing.
pub(crate) fn listed<'l, T>(list: &'l [T], at: usize, what: &str) -> Option<&'l T> {
    let found = list.get(at);
    debug_assert!(found.is_some(), "no {what} has index {at} among {}", list.len());
    found
}

/// The same, to be changed.
pub(crate) fn listed_mut<'l, T>(list: &'l mut [T], at: usize, what: &str) -> Option<&'l mut T> {
    debug_assert!(at < list.len(), "no {what} has index {at} among {}", list.len());
    list.get_mut(at)
}
