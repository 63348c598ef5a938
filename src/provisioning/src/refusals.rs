//! Why a class could not be placed: each node's and each instance type's first obstacle, counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_model::{ClassId, ColumnId, Constraint, CounterId, HostCounts, Node, PoolId, Sym, host_allowance};
use berth_scheduling::filter::{self, Obstacle};
use berth_scheduling::reasons::{self, Insufficient};
use berth_scheduling::topology::Domains;
use berth_scheduling::{admits_node, demands};
use rustc_hash::FxHashMap;

use crate::domains::KnownDomains;
use crate::prepared::Prepared;
use crate::solution::Refusal;
use crate::tables::Tables;
use crate::world::World;

/// Why a node refuses pods.
#[derive(PartialEq, Eq, Hash)]
enum NodeReason {
    Lacks(Insufficient),
    Words(Vec<String>),
    Text(Cow<'static, str>),
}

/// An obstacle that is looked past, to find what else there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waived {
    /// What the pod requests.
    Requests,
    /// The limits of the NodePool.
    Limits,
}

/// The domains of a topology key, as they are open to pods.
struct Keyed {
    key: Sym,
    domains: Domains,
    /// By name: which of the domains it is.
    at: FxHashMap<Sym, usize>,
    /// What keeps pods off all of them, or else off some.
    in_the_way: Option<Constraint>,
}

impl Keyed {
    fn new(key: Sym, domains: Domains) -> Self {
        let at = domains.names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        Keyed { key, at, in_the_way: domains.in_the_way(), domains }
    }

    /// What keeps pods off the domain of a node.
    fn refusing(&self, node: &Node) -> Option<Constraint> {
        let domain = node.labels.get(self.key).and_then(|name| self.at.get(&name));
        domain.map_or(self.in_the_way, |at| self.domains.refusing(*at))
    }
}

/// What keeps pods off new nodes.
fn in_the_way(keyed: &[Keyed]) -> Option<Constraint> {
    keyed.iter().find_map(|keyed| keyed.in_the_way)
}

/// What keeps pods off a node of its own, by what is counted there: the first constraint that does so alone, or else the first.
fn on_host(counts: &HostCounts, host: &[Constraint], is_first: impl Fn(CounterId) -> bool) -> Option<&'static str> {
    let closes = |constraints: &[Constraint]| host_allowance(counts, constraints, &is_first) == 0;
    if !closes(host) {
        return None;
    }
    let alone = host.iter().position(|constraint| closes(std::slice::from_ref(constraint))).unwrap_or(0);
    Some(reasons::topology(host.get(alone..).unwrap_or_default()))
}

impl Tables<'_> {
    // Whether pods, or their volumes, tell nodes apart by name.
    fn names_nodes(&self, prepared: &Prepared<'_>) -> bool {
        let own = [self.cluster.well_known.hostname, self.cluster.well_known.field_name];
        let mut terms = prepared.demand.terms.iter().chain(prepared.spec.volumes.places().flatten());
        terms.any(|term| own.iter().any(|key| term.get(*key).is_some()))
    }
}

impl World<'_> {
    /// The reasons, counted, against the cluster as the plan leaves it and with no preference kept.
    pub(crate) fn refusals(self, id: ClassId, domains: &mut KnownDomains) -> Vec<Refusal> {
        let Some(demand) = demands(self.tables.cluster, self.tables.universe, id).pop() else { return Vec::new() };
        let prepared = Prepared::new(self.tables, &demand);
        if let Some(refusal) = &prepared.spec.refusal {
            return vec![Refusal { reason: refusal.0.clone(), count: 0 }];
        }
        let keyed = prepared.demand.keyed.iter().map(|(key, constraints)| {
            let names = domains.names(self, constraints);
            Keyed::new(*key, domains.loads(self, names, constraints))
        });
        let keyed: Vec<Keyed> = keyed.collect();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        // Counted before they are put into words, which takes longer.
        let mut by_reason: FxHashMap<NodeReason, u32> = FxHashMap::default();
        let mut admitted: FxHashMap<u32, bool> = FxHashMap::default();
        for index in 0..self.tables.cluster.nodes.len() {
            if let Some(reason) = self.node_reason((&prepared, &keyed), index, &mut admitted) {
                *by_reason.entry(reason).or_default() += 1;
            }
        }
        for (reason, count) in by_reason {
            let words = match reason {
                NodeReason::Lacks(lacks) => lacks.in_words(self.tables.cluster),
                NodeReason::Words(words) => words,
                NodeReason::Text(text) => vec![text.into_owned()],
            };
            for reason in words {
                *counts.entry(reason).or_default() += count;
            }
        }
        let mut out: Vec<Refusal> = counts.into_iter().map(|(reason, count)| Refusal { reason, count }).collect();
        out.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        for (pool, definition) in self.tables.cluster.node_pools.iter().enumerate() {
            let pool = PoolId::new(pool);
            let name = self.tables.cluster.symbols.text(definition.name);
            let mut of_pool: Vec<Refusal> = self
                .pool_reasons((&prepared, &keyed), pool)
                .into_iter()
                .map(|(reason, count)| Refusal { reason: reasons::of_pool(name, &reason), count })
                .collect();
            of_pool.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
            out.extend(of_pool);
        }
        if out.is_empty() {
            out.push(Refusal { reason: reasons::NO_NODES.to_owned(), count: 0 });
        }
        out
    }

    // `admitted` keeps what nodes of a kind say, where the pods tell none of them apart.
    fn node_reason(
        self,
        (prepared, keyed): (&Prepared<'_>, &[Keyed]),
        index: usize,
        admitted: &mut FxHashMap<u32, bool>,
    ) -> Option<NodeReason> {
        let text = |reason: &'static str| Some(NodeReason::Text(Cow::Borrowed(reason)));
        let (node, state) = (self.tables.cluster.nodes.get(index)?, self.ledger.state.nodes().get(index)?);
        let admits = || admits_node(self.tables.cluster, node, &prepared.demand);
        let kind = self.tables.node_kinds.get(index).filter(|_| !self.tables.names_nodes(prepared));
        let is_admitted = kind.map_or_else(admits, |kind| *admitted.entry(*kind).or_insert_with(admits));
        if !is_admitted {
            return Some(NodeReason::Text(filter::node_refusal(self.tables.cluster, node, &prepared.demand).into()));
        }
        match self.tables.nodes.fit(&self.ledger.state).load_obstacle(prepared.demand.class, index) {
            Some(Obstacle::Resources(lacks, _)) => return Some(NodeReason::Lacks(lacks)),
            Some(obstacle) => return Some(NodeReason::Words(obstacle.in_words(self.tables.cluster))),
            None => {}
        }
        let first = |counter: CounterId| self.ledger.state.total(counter) == 0;
        if let Some(reason) = on_host(&state.host_counts, &prepared.demand.host, first) {
            return text(reason);
        }
        match keyed.iter().find_map(|keyed| keyed.refusing(node)).or_else(|| in_the_way(keyed)) {
            Some(constraint) => text(reasons::topology(&[constraint])),
            None => text(berth_scheduling::reservation::reasons::POLICY_CONFLICT),
        }
    }

    // By instance type of the pool's table: the obstacle of the column that comes furthest.
    fn pool_reasons(self, (prepared, keyed): (&Prepared<'_>, &[Keyed]), pool: PoolId) -> Vec<(String, u32)> {
        let Some(definition) = self.tables.definition(pool) else { return Vec::new() };
        let table = self.tables.table(pool);
        let mut types: Vec<u32> = table.columns.iter().map(|column| column.instance_type).collect();
        types.sort_unstable();
        types.dedup();
        let n_types = u32::try_from(types.len()).unwrap_or(u32::MAX);
        if let Some(refusal) = &definition.refusal {
            return vec![(refusal.clone(), n_types)];
        }
        if types.is_empty() {
            return vec![(reasons::no_columns(table).to_owned(), 0)];
        }
        if let Some(reason) = reasons::pool_taint(self.tables.cluster, definition, &prepared.demand) {
            return vec![(reason, n_types)];
        }
        // Where nothing else is in the way of a node.
        let last = in_the_way(keyed).map_or(reasons::MIN_VALUES, |constraint| reasons::topology(&[constraint]));
        let mut furthest: FxHashMap<u32, (u8, String)> = FxHashMap::default();
        for (at, column) in table.with_ids() {
            let obstacle = self.obstacle_alone(prepared, pool, at).unwrap_or_else(|| (5, last.to_owned()));
            let known = furthest.entry(column.instance_type).or_insert_with(|| obstacle.clone());
            if obstacle.0 > known.0 {
                *known = obstacle;
            }
        }
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (_, (_, reason)) in furthest {
            *counts.entry(reason).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    fn why_kept_by_volumes(self, prepared: &Prepared<'_>) -> String {
        let cluster = self.tables.cluster;
        filter::selected_node(cluster, prepared.spec).map_or_else(
            || reasons::VOLUMES_OF_TYPES.to_owned(),
            |node| reasons::selected_node(cluster.symbols.text(node)),
        )
    }

    /// What keeps a pod off a new node of the column, whatever its domains; with how far it comes.
    pub(crate) fn obstacle_alone(self, prepared: &Prepared<'_>, pool: PoolId, at: ColumnId) -> Option<(u8, String)> {
        self.obstacle_but_for(None, prepared, pool, at)
    }

    /// As [`obstacle_alone`](Self::obstacle_alone), were it not for one kind of obstacle.
    pub(crate) fn obstacle_but_for(
        self,
        waived: Option<Waived>,
        prepared: &Prepared<'_>,
        pool: PoolId,
        at: ColumnId,
    ) -> Option<(u8, String)> {
        let table = self.tables.table(pool);
        let column = table.column(at);
        let admits = prepared.admissions.get(pool.index()).and_then(Option::as_ref);
        if !admits.is_some_and(|admission| admission.columns.contains(at.index())) {
            let (how_far, why) = match prepared.daemon_refusal(self.tables, pool, at) {
                Some(reason) => (2, reason.to_owned()),
                None if prepared.is_kept_by_volumes(self.tables, pool, at) => (1, self.why_kept_by_volumes(prepared)),
                None => (0, reasons::AFFINITY_OF_TYPES.to_owned()),
            };
            return Some((how_far, why));
        }
        if waived != Some(Waived::Requests)
            && let Some(reason) =
                Insufficient::first_of(&prepared.asked, &column.room).in_words(self.tables.cluster).into_iter().next()
        {
            return Some((2, reason));
        }
        if self.tables.accelerators.kept_from(prepared.demand.class, pool).is_some_and(|kept| kept.contains(at.index()))
        {
            return Some((3, "GPU types are for pods that ask for GPUs (--gpu-types-for-any-pod)".to_owned()));
        }
        if let Some(slot) = column.slots
            && self.ledger.state.free_slots(slot) == 0
        {
            let id = self
                .tables
                .cluster
                .slots
                .get(slot.index())
                .map_or("", |slots| self.tables.cluster.symbols.text(slots.id));
            return Some((3, reasons::exhausted(id, table.is_reserved(at))));
        }
        if waived != Some(Waived::Limits)
            && let Some(limit) = self.exceeded_limit(pool, at)
        {
            return Some((4, reasons::limit(&limit)));
        }
        if let Some(reason) = self.exceeded_share(prepared.demand.class, pool, at) {
            return Some((4, reason));
        }
        if prepared.spec.volumes.exclusive_claims.iter().any(|&claim| self.ledger.state.is_claim_used(claim)) {
            return Some((5, reasons::EXCLUSIVE_CLAIM.to_owned()));
        }
        let first = |counter: CounterId| self.ledger.state.total(counter) == 0;
        on_host(&HostCounts::default(), &prepared.demand.host, first).map(|reason| (5, reason.to_owned()))
    }
}
