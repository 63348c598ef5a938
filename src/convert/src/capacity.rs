//! Which nodes and NodeClaims are capacity, and as what: a NodeClaim is until its node is there.

use berth_model::{Cluster, Node, Resources, Sym, Symbols, Taint, Units};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::maps::FxIndexMap;
use crate::node_record::{NodeClaimRecord, NodeRecord};
use crate::units::node_policy;

/// Nodes and NodeClaims by what they find each other by: the provider's id, else the name of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// By node: its provider id.
    nodes: FxHashMap<Sym, Option<Sym>>,
    /// By NodeClaim: its provider id, and the name of its node.
    claims: FxHashMap<Sym, (Option<Sym>, Option<Sym>)>,
    nodes_by_provider: FxHashMap<Sym, Vec<Sym>>,
    claims_by_provider: FxHashMap<Sym, Vec<Sym>>,
    claims_by_node: FxHashMap<Sym, Vec<Sym>>,
}

fn link(map: &mut FxHashMap<Sym, Vec<Sym>>, key: Option<Sym>, name: Sym) {
    if let Some(key) = key {
        map.entry(key).or_default().push(name);
    }
}

fn unlink(map: &mut FxHashMap<Sym, Vec<Sym>>, key: Option<Sym>, name: Sym) {
    let Some(key) = key else { return };
    if let Some(names) = map.get_mut(&key) {
        names.retain(|known| *known != name);
        if names.is_empty() {
            map.remove(&key);
        }
    }
}

// === impl Links ===

impl Links {
    /// Of these.
    pub(crate) fn of(nodes: &FxIndexMap<Sym, NodeRecord>, claims: &FxIndexMap<Sym, NodeClaimRecord>) -> Self {
        let mut links = Links::default();
        nodes.iter().for_each(|(name, node)| links.set_node(*name, Some(node)));
        claims.iter().for_each(|(name, claim)| links.set_claim(*name, Some(claim)));
        links
    }

    /// A node is there, or is not.
    pub(crate) fn set_node(&mut self, name: Sym, node: Option<&NodeRecord>) {
        if let Some(before) = self.nodes.remove(&name) {
            unlink(&mut self.nodes_by_provider, before, name);
        }
        if let Some(node) = node {
            self.nodes.insert(name, node.provider_id);
            link(&mut self.nodes_by_provider, node.provider_id, name);
        }
    }

    /// A NodeClaim is there, or is not.
    pub(crate) fn set_claim(&mut self, name: Sym, claim: Option<&NodeClaimRecord>) {
        if let Some((provider, node)) = self.claims.remove(&name) {
            unlink(&mut self.claims_by_provider, provider, name);
            unlink(&mut self.claims_by_node, node, name);
        }
        if let Some(claim) = claim {
            let (provider, node) = (claim.node.provider_id, claim.node_name);
            self.claims.insert(name, (provider, node));
            link(&mut self.claims_by_provider, provider, name);
            link(&mut self.claims_by_node, node, name);
        }
    }

    /// The NodeClaim of a node: of several the last by name.
    pub(crate) fn claim_of(&self, node: Sym, symbols: &Symbols) -> Option<Sym> {
        let provider = self.nodes.get(&node).copied().flatten();
        let by_provider = provider.and_then(|provider| self.claims_by_provider.get(&provider));
        let claims = by_provider.or_else(|| self.claims_by_node.get(&node))?;
        claims.iter().copied().max_by(|a, b| symbols.text(*a).cmp(symbols.text(*b)))
    }

    /// Whether a NodeClaim has a node, or there is one of its name.
    pub(crate) fn has_node(&self, claim: Sym, symbols: &Symbols) -> bool {
        self.nodes.contains_key(&claim)
            || self.nodes_of(claim).iter().any(|node| self.claim_of(*node, symbols) == Some(claim))
    }

    /// The nodes that may be a NodeClaim's.
    fn nodes_of(&self, claim: Sym) -> Vec<Sym> {
        let Some(&(provider, node)) = self.claims.get(&claim) else { return Vec::new() };
        let by_provider = provider.and_then(|provider| self.nodes_by_provider.get(&provider));
        let named = node.filter(|node| self.nodes.contains_key(node));
        by_provider.into_iter().flatten().copied().chain(named).collect()
    }

    /// All that may count otherwise if the node or the NodeClaim of this name changes, it included; as things are now.
    pub(crate) fn around(&self, name: Sym) -> Vec<Sym> {
        let mut nodes = self.nodes_of(name);
        nodes.push(name);
        let mut found = vec![name];
        for node in nodes {
            found.push(node);
            let provider = self.nodes.get(&node).copied().flatten();
            found.extend(provider.and_then(|provider| self.claims_by_provider.get(&provider)).into_iter().flatten());
            found.extend(self.claims_by_node.get(&node).into_iter().flatten());
        }
        found
    }
}

/// What makes nodes of records, beside the records.
pub(crate) struct Site<'a> {
    /// By NodePool: the taints that its nodes start with.
    pub(crate) startup_taints: &'a FxHashMap<Sym, Vec<Taint>>,
    /// The images that some pod runs or is to run.
    pub(crate) wanted: &'a FxHashSet<Sym>,
}

impl Site<'_> {
    /// The node of a record, without any pod.
    pub(crate) fn node(
        &self,
        record: &NodeRecord,
        is_coming_up: bool,
        claim: Option<&NodeClaimRecord>,
        attach_limits: Vec<(Sym, u32)>,
        units: Option<Units>,
        cluster: &Cluster,
    ) -> Node {
        let mut free = if is_coming_up { with_claimed(&record.allocatable, claim) } else { record.allocatable.clone() };
        record.kept.trim(&mut free);
        let mut node = Node {
            name: record.name,
            labels: record.all_labels(cluster),
            open: record.open.clone(),
            taints: if is_coming_up {
                record.lasting_taints(self.startup_taints_of(record, claim, cluster), &cluster.symbols)
            } else {
                record.taints.clone()
            },
            allocatable: free.clone(),
            free,
            capacity: record.capacity.clone(),
            cordon: record.cordon,
            is_coming_up,
            is_leaving: false,
            images: record.images.iter().filter(|(name, _)| self.wanted.contains(name)).copied().collect(),
            node_pool: None,
            attach_limits,
            volume_pools: Vec::new(),
            holdings: Vec::new(),
            units: units.unwrap_or_else(|| Units { is_unknown: is_coming_up, ..Units::default() }),
            pods: Vec::new(),
        };
        let label = cluster.symbols.get(berth_api::labels::koordinator::NUMA_TOPOLOGY_POLICY);
        let named = label.and_then(|label| node.labels.get(label)).map(|name| cluster.symbols.text(name));
        node.units.policy = node_policy(named, node.units.policy);
        record.kept.take_off(&mut node.units);
        node
    }

    /// A node that is going away, for the pods that stay there: nothing else fits.
    pub(crate) fn leaving_node(
        &self,
        record: &NodeRecord,
        attach_limits: Vec<(Sym, u32)>,
        units: Option<Units>,
        cluster: &Cluster,
    ) -> Node {
        let node = self.node(record, false, None, attach_limits, units, cluster);
        Node { free: Resources::new(), allocatable: Resources::new(), is_leaving: true, ..node }
    }

    fn startup_taints_of<'t>(
        &'t self,
        record: &NodeRecord,
        claim: Option<&'t NodeClaimRecord>,
        cluster: &Cluster,
    ) -> &'t [Taint] {
        let of_claim = claim.map(|claim| claim.startup_taints.as_slice());
        let pool = record.label(cluster.well_known.node_pool);
        let of_pool = pool.and_then(|pool| self.startup_taints.get(&pool)).map(Vec::as_slice);
        of_claim.or(of_pool).unwrap_or_default()
    }
}

/// What a node that comes up does not report yet its NodeClaim promises: devices appear last.
fn with_claimed(allocatable: &Resources, claim: Option<&NodeClaimRecord>) -> Resources {
    let mut all = allocatable.clone();
    for (id, amount) in claim.into_iter().flat_map(|claim| claim.node.allocatable.iter()) {
        if all.get(id) == 0 {
            all.set(id, amount);
        }
    }
    all
}

/// A NodeClaim in flight that does not say what it will have is what its type has in the catalogue.
pub(crate) fn with_type(mut record: NodeRecord, cluster: &Cluster) -> NodeRecord {
    let named = record.label(cluster.well_known.instance_type);
    let found = cluster.instance_types.iter().find(|known| Some(known.name) == named);
    if let Some(found) = found.filter(|_| record.allocatable == Resources::new()) {
        record.allocatable = found.resources.clone();
    }
    if record.capacity == Resources::new() {
        record.capacity = record.allocatable.clone();
    }
    record
}
