//! NodePools.

use berth_api::labels;
use berth_api::{NodeClassRef, NodePool, Requirement as ApiRequirement};
use berth_model::{Cluster, Labels, Requirement, Requirements, Resources, Sym, Symbols, Taint};

use crate::node_reservation::Kept;
use crate::quantities::{Amounts, Named, resource_id};
use crate::taints::read_taints;
use crate::terms::{node_key, requirement};
use crate::{Options, Problem};

const STATIC: &str = "NodePool is static: it keeps its replicas and launches nothing for pods";
const DELETING: &str = "NodePool is being deleted";

/// A NodePool, with what the model's has no place for.
#[derive(Clone, PartialEq)]
pub(crate) struct PoolRecord {
    pub(crate) pool: berth_model::NodePool,
    pub(crate) startup_taints: Vec<Taint>,
    /// The labels of its template, and its own name.
    pub(crate) labels: Labels,
}

pub(crate) fn read_pool(
    name: &str,
    object: &NodePool,
    options: &Options,
    cluster: &mut Cluster,
) -> Result<PoolRecord, Problem> {
    let spec = &object.spec;
    let template = &spec.template.spec;
    let nodes = spec.limits.get("nodes").map(|quantity| quantity.value_floor());
    let node_limit = nodes.map(|nodes| {
        let nodes = nodes.unwrap_or(i64::MAX).max(0);
        u32::try_from(nodes).unwrap_or(u32::MAX)
    });
    let mut resources = spec.limits.clone();
    resources.remove("nodes");
    let amounts = Amounts::read_exact(&resources, Named::Offered, cluster)
        .map_err(|problem| problem.under("spec.limits"))?
        .rounded_down();
    let mut limits = Vec::with_capacity(resources.len());
    for name in resources.keys() {
        limits.extend(resource_id(name, Named::Offered, cluster).map(|id| (id, amounts.get(id))));
    }
    limits.sort_unstable();
    let reserved = Kept::read(Some(&spec.template.metadata.annotations), cluster)
        .map_err(|problem| problem.under("spec.template"))?
        .amounts;
    let symbols = &mut cluster.symbols;
    let mut requirements = requirements_of(&template.requirements, symbols)
        .map_err(|problem| problem.under("spec.template.spec.requirements"))?;
    let mut require = |key: &str, value: &str| {
        let (key, value) = (node_key(key, symbols), symbols.intern(value));
        requirements.add(key, Requirement::value(value), symbols);
    };
    for (key, value) in &spec.template.metadata.labels {
        require(key, value);
    }
    require(labels::NODEPOOL, name);
    if let Some(class) = &template.node_class_ref {
        require(&labels::node_class(&class.group, &class.kind), &class.name);
    }
    let own = std::iter::once((node_key(labels::NODEPOOL, symbols), symbols.intern(name)));
    let mut given = Vec::new();
    for (key, value) in &spec.template.metadata.labels {
        given.push((node_key(key, symbols), symbols.intern(value)));
    }
    let labels = Labels::new(given.into_iter().chain(own));
    let refusal = if object.metadata.deletion_timestamp.is_some() {
        Some(DELETING.to_owned())
    } else if spec.is_static() && options.static_capacity {
        Some(STATIC.to_owned())
    } else if spec.is_static() {
        Some(format!("{STATIC}; the feature gate StaticCapacity is off"))
    } else {
        None
    };
    Ok(PoolRecord {
        labels,
        startup_taints: read_taints(&template.startup_taints, symbols)
            .map_err(|problem| problem.under("spec.template.spec.startupTaints"))?,
        pool: berth_model::NodePool {
            name: symbols.intern(name),
            weight: u32::try_from(spec.weight()).unwrap_or(0),
            requirements,
            taints: read_taints(&template.taints, symbols)
                .map_err(|problem| problem.under("spec.template.spec.taints"))?,
            limits,
            node_limit,
            used: Resources::new(),
            nodes: 0,
            reserved,
            node_class: template.node_class_ref.as_ref().map(|class| class_name(class, symbols)),
            refusal,
        },
    })
}

/// Requirements as NodePools and NodeClaims list them.
pub(crate) fn requirements_of(list: &[ApiRequirement], symbols: &mut Symbols) -> Result<Requirements, Problem> {
    let mut requirements = Requirements::new();
    for (i, entry) in list.iter().enumerate() {
        let key = node_key(&entry.key, symbols);
        let min_values = entry.min_values.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let requirement = requirement(entry.operator.as_str(), &entry.values, symbols)
            .map_err(|problem| problem.under(format!("[{i}]")))?
            .with_min_values(min_values);
        requirements.add(key, requirement, symbols);
    }
    Ok(requirements)
}

/// The name by which pools and instance types of a node class find each other.
pub(crate) fn class_name(class: &NodeClassRef, symbols: &mut Symbols) -> Sym {
    symbols.intern(&format!("{}={}", labels::node_class(&class.group, &class.kind), class.name))
}

/// The name of the pool that stands in where the input has none.
const OPEN_POOL: &str = "default";

/// The labels that NodeOverlays know that pool by.
pub(crate) fn open_labels(symbols: &mut Symbols) -> Labels {
    let own = (node_key(labels::NODEPOOL, symbols), symbols.intern(OPEN_POOL));
    Labels::new([own])
}

/// The pool that stands in where the input has none: anything that runs Linux on amd64.
pub(crate) fn open_pool(cluster: &mut Cluster) -> berth_model::NodePool {
    let symbols = &mut cluster.symbols;
    let mut requirements = Requirements::new();
    for (key, value) in [(labels::OS, "linux"), (labels::ARCH, "amd64"), (labels::NODEPOOL, OPEN_POOL)] {
        let (key, value): (Sym, Sym) = (symbols.intern(key), symbols.intern(value));
        requirements.add(key, Requirement::value(value), symbols);
    }
    berth_model::NodePool {
        name: symbols.intern(OPEN_POOL),
        weight: 0,
        requirements,
        taints: Vec::new(),
        limits: Vec::new(),
        node_limit: None,
        used: Resources::new(),
        nodes: 0,
        reserved: Resources::new(),
        node_class: None,
        refusal: None,
    }
}
