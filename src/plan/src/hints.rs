//! What a pod that has no place may have been meant to ask for: labels that nothing has, with the nearest that exists;
//! more than any instance type has; and the limits that are in its way.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{Allocation, quantities};
use berth_manifests::nearest;
use berth_model::{
    Cluster, Constraint, CounterId, InstanceType, Money, NodePool, PendingRow, PodClass, PodSpec, PodTerm, Requirement,
    Requirements, ResourceId, Resources, Selector, Sym, Universe,
};
use berth_provisioning::{Refusal, Solution, nearest_room};
use berth_scheduling::reasons;

use crate::pool_hints::{PoolHints, in_words as requirement_in_words};
use crate::{FeatureGates, decimal};

/// Hints a class gets at most, and values that a hint lists.
const MOST_HINTS: usize = 3;
const MOST_VALUES: usize = 5;
const TAKEN: &str = "would be taken";
/// What is said of who wants reserved capacity while the gate is off.
pub(crate) const NO_RESERVED: &str = "there is no reserved capacity, the feature gate ReservedCapacity is off";
const DEAREST: Money = Money::from_pico(i128::MAX);
const NOTHING: &str = "no node, NodePool or instance type has";

/// The labels that nodes have or may have.
struct Known<'a> {
    cluster: &'a Cluster,
    gates: &'a FeatureGates,
    /// By key: the values.
    values: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The same of what is sold out.
    sold_out: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Keys of which any value may be chosen for a new node.
    open: BTreeSet<&'a str>,
    /// What nodes and launchable instance types have when empty, with kind, name and list price: that of nodes is beyond any.
    rooms: Vec<(&'a Resources, &'static str, Sym, Money)>,
}

/// Adds to the reasons of what has no place which labels it asks for that nothing has, and what else there is less of than
/// it takes.
pub(crate) fn add(
    solution: &mut Solution,
    (cluster, universe, allocation): (&Cluster, &Universe, &Allocation),
    gates: &FeatureGates,
) {
    let mut known = None;
    let limits = Limits::of(solution, cluster);
    let mut pools = PoolHints::new(cluster, gates);
    let asked_for = AskedFor::new(universe);
    for left in &mut solution.unschedulable {
        let class = universe.class(left.class);
        let reached: Vec<Refusal> = left.reasons.iter().filter_map(|refusal| limits.reached(&refusal.reason)).collect();
        let of_pools = left.reasons.iter().filter_map(|refusal| pools.of_reason(&refusal.reason));
        let of_pools: Vec<Refusal> = of_pools.map(|reason| Refusal { reason, count: 0 }).collect();
        left.reasons.extend(reached.into_iter().take(MOST_HINTS));
        left.reasons.extend(of_pools.into_iter().take(MOST_HINTS));
        let spec = class.and_then(|class| cluster.spec(class.spec));
        if let Some(node) = spec.and_then(|spec| only_node(spec, cluster)) {
            // No new node is that one, so what NodePools say says nothing.
            left.reasons.retain(|refusal| reasons::said_by_pool(&refusal.reason).is_none());
            let reason = format!("only node {} may take it", cluster.symbols.text(node));
            left.reasons.push(Refusal { reason, count: 0 });
        }
        let row = class.and_then(|class| class.rows.iter().find_map(|row| cluster.row(*row)));
        let of_budgets = row.and_then(|row| of_budgets(cluster, allocation, row));
        let of_affinity = class.and_then(|class| asked_for.nobody(cluster, class));
        left.reasons.extend(of_budgets.into_iter().chain(of_affinity).map(|reason| Refusal { reason, count: 0 }));
        let Some(spec) = spec.filter(|spec| spec.refusal.is_none()) else { continue };
        let known = known.get_or_insert_with(|| Known::of(cluster, gates));
        let hints = known.hints(spec).into_iter().take(MOST_HINTS);
        left.reasons.extend(hints.map(|reason| Refusal { reason, count: 0 }));
    }
}

/// The node that alone may take a pod, where it names one, as those of DaemonSets do.
fn only_node(spec: &PodSpec, cluster: &Cluster) -> Option<Sym> {
    match &*spec.required_terms {
        [term] => term.get(cluster.well_known.field_name)?.single(),
        _ => None,
    }
}

/// Hints for one pod that has no place.
pub(crate) fn of(cluster: &Cluster, gates: &FeatureGates, spec: &PodSpec) -> Vec<String> {
    Known::of(cluster, gates).hints(spec).into_iter().take(MOST_HINTS).collect()
}

/// Whom pod affinity asks for.
pub(crate) struct AskedFor {
    /// The counters in which some pod counts.
    counted: BTreeSet<CounterId>,
}

// === impl AskedFor ===

impl AskedFor {
    pub(crate) fn new(universe: &Universe) -> Self {
        AskedFor { counted: universe.classes.iter().flat_map(|class| &class.counts_in).copied().collect() }
    }

    /// What the required pod affinity of a class asks for, where no pod at all is like that.
    pub(crate) fn nobody(&self, cluster: &Cluster, class: &PodClass) -> Option<String> {
        let spec = cluster.spec(class.spec)?;
        let namespace = class.rows.iter().find_map(|row| cluster.row(*row))?.namespace;
        let nobody_counts = |constraint: &Constraint| match constraint {
            Constraint::Affinity { counter, .. } => !self.counted.contains(counter),
            _ => false,
        };
        // One pod must be what all terms ask for.
        let is_for_nobody = !spec.affinity.is_empty() && class.required.iter().any(nobody_counts);
        let asked = || spec.affinity.iter().map(|term| term_in_words(cluster, term, namespace)).collect::<Vec<_>>();
        is_for_nobody.then(|| format!("podAffinity: no pod {}", asked().join(" and ")))
    }
}

/// `in namespace shop matches app=db`.
fn term_in_words(cluster: &Cluster, term: &PodTerm, own: Sym) -> String {
    let text = |sym: &Sym| cluster.symbols.text(*sym).to_owned();
    let selector = |selector: &Selector| match &selector.requirements {
        None => "nothing".to_owned(),
        Some(all) if all.is_empty() => "everything".to_owned(),
        Some(all) => {
            let words = all.iter().map(|(key, asked)| requirement_in_words(cluster, key, asked));
            words.collect::<Vec<_>>().join(", ")
        }
    };
    let mut asked = vec![selector(&term.selector)];
    asked.extend(term.match_label_keys.iter().map(|key| format!("the pod's own {}", text(key))));
    asked.extend(term.mismatch_label_keys.iter().map(|key| format!("another {} than the pod's own", text(key))));
    let names: Vec<String> = term.namespaces.iter().map(text).collect();
    let namespaces = match (&term.namespace_selector, names.as_slice()) {
        (None, []) => format!("in namespace {}", text(&own)),
        (None, [one]) => format!("in namespace {one}"),
        (None, several) => format!("in namespaces {}", several.join(", ")),
        (Some(by_label), _) if by_label.requirements.as_ref().is_some_and(Requirements::is_empty) => {
            "in any namespace".to_owned()
        }
        (Some(by_label), []) => format!("in namespaces with {}", selector(by_label)),
        (Some(by_label), several) => {
            format!("in namespaces {} and those with {}", several.join(", "), selector(by_label))
        }
    };
    format!("{namespaces} matches {}", asked.join(", "))
}

/// Who would give way to pods of a row but for PodDisruptionBudgets, in words.
pub(crate) fn of_budgets(cluster: &Cluster, allocation: &Allocation, row: &PendingRow) -> Option<String> {
    let kept = allocation.kept_by_budgets(row)?;
    let pods = some_of(&kept.pods);
    let node = cluster.symbols.text(kept.node);
    Some(match kept.budgets.as_slice() {
        [(budget, allowed)] => {
            let evictions =
                if *allowed == 1 { "1 eviction".to_owned() } else { format!("{} evictions", (*allowed).max(0)) };
            format!("on node {node} {pods} would give way, but PodDisruptionBudget {budget} allows {evictions} now")
        }
        several => {
            let budgets: Vec<&str> = several.iter().map(|(budget, _)| &**budget).collect();
            format!("on node {node} {pods} would give way, but for PodDisruptionBudgets {}", budgets.join(" and "))
        }
    })
}

/// `default/a, default/b and 2 more`.
pub(crate) fn some_of(names: &[Box<str>]) -> String {
    let listed: Vec<&str> = names.iter().take(MOST_HINTS).map(|name| &**name).collect();
    let rest = match names.len().saturating_sub(MOST_HINTS) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{}{rest}", listed.join(", "))
}

/// What NodePools may hold and what they hold once the plan is carried out, in words, by the reason that a limit gives.
struct Limits(BTreeMap<String, String>);

impl Limits {
    fn of(solution: &Solution, cluster: &Cluster) -> Self {
        let mut limits = BTreeMap::new();
        for (at, pool) in cluster.node_pools.iter().enumerate() {
            let (mut used, mut nodes) = (pool.used.clone(), u64::from(pool.nodes));
            for claims in solution.claims.iter().filter(|claims| claims.node_pool == at) {
                let of_type = cluster.instance_types.get(claims.instance_type as usize);
                if let Some(of_type) = of_type {
                    used.add_times(&of_type.resources, i64::from(claims.count));
                }
                nodes = nodes.saturating_add(u64::from(claims.count));
            }
            let pool_name = cluster.symbols.text(pool.name);
            let mut add = |resource: &str, limit: String, used: String| {
                let reason = reasons::of_pool(pool_name, &reasons::limit(resource));
                let says = format!("limits.{resource} of NodePool {pool_name} is {limit}, of which {used} {TAKEN}");
                limits.insert(reason, says);
            };
            if let Some(limit) = pool.node_limit {
                add("nodes", limit.to_string(), nodes.to_string());
            }
            for &(id, limit) in &pool.limits {
                let name = cluster.resource_names.name(id).map_or("", |name| cluster.symbols.text(name));
                add(name, amount(cluster, id, limit), amount(cluster, id, used.get(id)));
            }
        }
        Limits(limits)
    }

    fn reached(&self, reason: &str) -> Option<Refusal> {
        self.0.get(reason).map(|says| Refusal { reason: says.clone(), count: 0 })
    }
}

/// An amount of a resource as Kubernetes writes it.
fn amount(cluster: &Cluster, id: ResourceId, amount: i64) -> String {
    let mut resources = Resources::new();
    resources.set(id, amount);
    quantities(cluster, &resources).into_values().next().map_or_else(|| "0".to_owned(), decimal::amount)
}

impl<'a> Known<'a> {
    fn of(cluster: &'a Cluster, gates: &'a FeatureGates) -> Self {
        let text = |sym: Sym| cluster.symbols.text(sym);
        let (values, sold_out) = (BTreeMap::new(), BTreeMap::new());
        let mut known = Known { cluster, gates, values, sold_out, open: BTreeSet::new(), rooms: Vec::new() };
        let mut add = |key: Sym, value: Sym| {
            known.values.entry(text(key)).or_default().insert(text(value));
        };
        for node in &cluster.nodes {
            node.labels.iter().for_each(|(key, value)| add(key, value));
        }
        for instance_type in &cluster.instance_types {
            instance_type.labels.iter().for_each(|(key, value)| add(key, value));
            instance_type.operating_systems.iter().for_each(|os| add(cluster.well_known.os, *os));
            for offering in &instance_type.offerings {
                offering.labels.iter().for_each(|(key, value)| add(key, value));
            }
        }
        let sold_out = cluster.instance_types.iter().flat_map(|of_type| &of_type.sold_out);
        for (key, value) in sold_out.flat_map(|offering| offering.labels.iter()) {
            known.sold_out.entry(text(key)).or_default().insert(text(value));
        }
        for pool in &cluster.node_pools {
            for (key, requirement) in pool.requirements.iter() {
                match requirement.finite_values() {
                    Some(values) => values.iter().for_each(|value| add(key, *value)),
                    None => {
                        known.open.insert(text(key));
                    }
                }
            }
        }
        let launched = cluster.instance_types.iter().filter(|of_type| {
            !of_type.offerings.is_empty() && cluster.node_pools.iter().any(|pool| known.may_launch(pool, of_type))
        });
        let launched = launched.map(|of_type| {
            let price = of_type.offerings.iter().map(|offering| offering.list_price).min().unwrap_or(DEAREST);
            (&of_type.resources, "instance type", of_type.name, price)
        });
        let nodes = cluster.nodes.iter().map(|node| (&node.allocatable, "node", node.name, DEAREST));
        known.rooms = launched.chain(nodes).collect();
        // Of these, types decide.
        known.open.retain(|key| !known.values.contains_key(key));
        known.open.insert(text(cluster.well_known.hostname));
        known.open.insert(text(cluster.well_known.field_name));
        known
    }

    fn hints(&self, spec: &PodSpec) -> BTreeSet<String> {
        let mut hints = BTreeSet::new();
        if self.values.is_empty() {
            return hints;
        }
        hints.extend(self.hint_of_size(spec));
        let spread = spec.spread.iter().filter(|constraint| constraint.is_required);
        let spread = spread.filter_map(|constraint| self.hint_of_key(constraint.key));
        hints.extend(spread.map(|hint| format!("topologySpreadConstraints: {hint}")));
        let affinity = spec.affinity.iter().filter_map(|term| self.hint_of_key(term.key));
        hints.extend(affinity.map(|hint| format!("podAffinity: {hint}")));
        let apart = spec.anti_affinity.iter().filter_map(|term| self.hint_of_key(term.key));
        hints.extend(apart.map(|hint| format!("podAntiAffinity: {hint}")));
        hints.extend(spec.node_selector.iter().filter_map(|(key, asked)| self.hint(key, asked)));
        hints.extend(self.hints_of_any(&spec.required_terms));
        for places in spec.volumes.places() {
            let found = self.hints_of_any(places);
            if !found.is_empty() {
                hints.extend(found.iter().map(|hint| format!("{}: {hint}", self.whose(places))));
            }
        }
        hints
    }

    // The first resource of which no node and no instance type that a NodePool launches has enough, however empty, and which
    // of them is nearest to holding the pod.
    fn hint_of_size(&self, spec: &PodSpec) -> Option<String> {
        let cluster = self.cluster;
        let asked: Vec<(ResourceId, i64)> =
            spec.requests.iter().filter(|(id, asked)| *asked > 0 && *id != ResourceId::PODS).collect();
        let most = |id: ResourceId| self.rooms.iter().map(|room| room.0.get(id)).max();
        let &(id, amount_asked) = asked.iter().find(|&&(id, asked)| most(id).is_some_and(|most| most < asked))?;
        let resource = cluster.resource_names.name(id).map_or("", |name| cluster.symbols.text(name));
        let amount_asked = amount(cluster, id, amount_asked);
        if most(id)? <= 0 {
            return Some(format!(
                "it requests {resource} {amount_asked}: no node and no instance type to launch has any"
            ));
        }
        let rooms = self.rooms.iter().filter(|room| room.0.get(id) > 0);
        let (resources, kind, name, _) =
            nearest_room(&asked, rooms.map(|room| (room, room.0, room.3, cluster.symbols.text(room.2))))?;
        let (name, there) = (cluster.symbols.text(*name), amount(cluster, id, resources.get(id)));
        Some(format!("it requests {resource} {amount_asked}: {kind} {name} is nearest, with {there}"))
    }

    // As far as the labels of types say.
    fn may_launch(&self, pool: &NodePool, of_type: &InstanceType) -> bool {
        let symbols = &self.cluster.symbols;
        let is_of_class = pool.node_class == of_type.node_class;
        let label = |key| {
            let is_name = key == self.cluster.well_known.instance_type;
            if is_name { Some(of_type.name) } else { of_type.labels.get(key) }
        };
        is_of_class
            && pool.requirements.iter().all(|(key, asked)| label(key).is_none_or(|value| asked.has(value, symbols)))
    }

    // One of the terms must hold: hints are given where none can.
    fn hints_of_any(&self, terms: &[Requirements]) -> BTreeSet<String> {
        let of_term = |term: &Requirements| term.iter().find_map(|(key, asked)| self.hint(key, asked));
        terms.iter().map(of_term).collect::<Option<BTreeSet<String>>>().unwrap_or_default()
    }

    // A label that nothing has or may have.
    fn hint_of_key(&self, key: Sym) -> Option<String> {
        let key = self.cluster.symbols.text(key);
        if self.open.contains(key) || self.values.contains_key(key) || self.sold_out.contains_key(key) {
            return None;
        }
        let near = nearest(key, self.values.keys().chain(&self.open).copied());
        let instead = near.map_or_else(|| giver(key).to_owned(), |near| format!("did you mean {near}?"));
        Some(format!("{NOTHING} the label {key}: {instead}"))
    }

    fn hint(&self, key: Sym, asked: &Requirement) -> Option<String> {
        if asked.allows_absent() {
            return None;
        }
        if let Some(hint) = self.hint_of_key(key) {
            return Some(hint);
        }
        let (key, symbols) = (self.cluster.symbols.text(key), &self.cluster.symbols);
        if self.open.contains(key) {
            return None;
        }
        let none = BTreeSet::new();
        let [values, sold_out] = [&self.values, &self.sold_out].map(|known| known.get(key).unwrap_or(&none));
        let is_asked = |value: &&&str| symbols.get(value).is_some_and(|value| asked.has(value, symbols));
        if values.iter().any(|value| is_asked(&value)) {
            return None;
        }
        if let Some(value) = sold_out.iter().find(is_asked) {
            return Some(reasons::sold_out_with(key, value));
        }
        let values: BTreeSet<&str> = values.union(sold_out).copied().collect();
        let wanted: Vec<&str> = asked.finite_values().into_iter().flatten().map(|value| symbols.text(*value)).collect();
        let is_reserved = key == symbols.text(self.cluster.well_known.capacity_type) && wanted.contains(&"reserved");
        if is_reserved && !self.gates.reserved_capacity {
            return Some(format!("{key}=reserved: {NO_RESERVED}"));
        }
        let near = wanted.iter().find_map(|wanted| nearest(wanted, values.iter().copied()));
        let instead = match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there is {}", listed(&values)),
        };
        Some(match wanted.as_slice() {
            [] => format!("{NOTHING} a {key} as it is asked for: {instead}"),
            [one] => format!("{NOTHING} {key}={one}: {instead}"),
            several => format!("{NOTHING} {key} in ({}): {instead}", several.join(", ")),
        })
    }

    // Whose topology it is.
    fn whose(&self, places: &[Requirements]) -> String {
        let classes = self.cluster.storage_topologies.iter();
        let names = classes.filter(|(_, known)| known == places).map(|(name, _)| self.cluster.symbols.text(*name));
        match names.min() {
            Some(name) => format!("allowedTopologies of StorageClass {name}"),
            None => "a volume's node affinity".to_owned(),
        }
    }
}

/// Who gives nodes a label of this key.
fn giver(key: &str) -> &'static str {
    const OF_CLOUDS: [&str; 4] = ["kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws"];
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    if OF_CLOUDS.into_iter().any(is_of) {
        "instance types of a catalogue would have it"
    } else {
        "labels or requirements of a NodePool would give it"
    }
}

/// Some of the values that there are.
pub(crate) fn listed(values: &BTreeSet<&str>) -> String {
    let listed: Vec<&str> = values.iter().take(MOST_VALUES).copied().collect();
    let rest = match values.len().saturating_sub(MOST_VALUES) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{}{rest}", listed.join(", "))
}
