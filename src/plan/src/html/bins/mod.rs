//! The data that the page's script draws, as one JSON object: what it says of pods is a class of alike ones with runs
//! of names, of nodes a group of alike ones with who their pods are, and names are assigned where somebody looks.

mod bound;
mod groups;

use std::collections::BTreeMap;
use std::io::{self, Write};

use berth_model::{ClassId, MemberKind, ResourceId, Sym};
use berth_provisioning::NodePlan;
use serde::{Serialize, Serializer};

use self::bound::{Bound, BoundClass};
use self::groups::{Group, Lists};
use crate::Plan;
use crate::decimal::Exact;
use berth_decisions::{Assignment, MemberName, Share, Unit};

/// Writes the data. Short keys: there may be a line for each of thousands of nodes.
pub(super) fn write<W: Write>(plan: &Plan, assignment: &Assignment<'_>, writer: W) -> io::Result<()> {
    let groups = groups::groups(plan, assignment);
    let bound = Bound::of(plan);
    let mut lists = Lists::default();
    let ids: Vec<usize> = groups.iter().map(|group| lists.id(&group.claims.instance_types)).collect();
    let types = Types::used(&groups, &lists);
    let data = Data {
        resources: plan.cluster.resource_names.iter().map(|(id, name)| resource(plan, id, name)).collect(),
        types: TypesJson(plan, &types),
        lists: lists.lists.iter().map(|list| list.iter().map(|&index| types.id(index)).collect()).collect(),
        classes: Classes(plan, assignment, &bound),
        groups: Groups { plan, all: &groups, lists: &ids, types: &types },
        nodes: Nodes(plan, assignment, &bound),
    };
    Ok(serde_json::to_writer(writer, &data)?)
}

#[derive(Serialize)]
struct Data<'a> {
    /// Name and unit; amounts are in this order.
    resources: Vec<(&'a str, Unit)>,
    types: TypesJson<'a>,
    /// Lists of types to fall back on, cheapest first.
    lists: Vec<Vec<usize>>,
    classes: Classes<'a>,
    groups: Groups<'a>,
    nodes: Nodes<'a>,
}

fn resource(plan: &Plan, id: ResourceId, name: Sym) -> (&str, Unit) {
    let name = plan.cluster.symbols.text(name);
    (name, Unit::of(id, name))
}

/// The instance types that the page names, numbered in the order of the catalogue.
struct Types(BTreeMap<u32, usize>);

impl Types {
    fn used(groups: &[Group<'_>], lists: &Lists) -> Self {
        let planned = groups.iter().map(|group| group.claims.instance_type);
        let listed = lists.lists.iter().flat_map(|list| list.iter().copied());
        let mut types: BTreeMap<u32, usize> = planned.chain(listed).map(|index| (index, 0)).collect();
        for (at, id) in types.values_mut().enumerate() {
            *id = at;
        }
        Types(types)
    }

    fn id(&self, index: u32) -> usize {
        self.0.get(&index).copied().unwrap_or(0)
    }
}

/// `[[name, amounts]]`: what pods and daemons may use of each.
struct TypesJson<'a>(&'a Plan, &'a Types);

impl Serialize for TypesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TypesJson(plan, types) = *self;
        serializer.collect_seq(types.0.keys().map(|&index| {
            let resources = plan.cluster.instance_types.get(index as usize).map(|known| known.resources.amounts());
            (plan.type_name(index), resources.unwrap_or_default())
        }))
    }
}

/// Classes of alike pods, by number.
struct Classes<'a>(&'a Plan, &'a Assignment<'a>, &'a Bound<'a>);

#[derive(Serialize)]
struct ClassJson<'a> {
    /// Whether they are Reservations.
    #[serde(rename = "r", skip_serializing_if = "std::ops::Not::not")]
    is_reservation: bool,
    #[serde(rename = "q")]
    requests: &'a [i64],
    #[serde(rename = "m")]
    members: Vec<Names<'a>>,
}

/// One name, or the beginning of numbered ones with the first number and how many.
#[derive(Serialize)]
#[serde(untagged)]
enum Names<'a> {
    One(MemberName<'a>),
    Bound(&'a str),
    Numbered(MemberName<'a>, u32, u32),
}

impl Serialize for Classes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Classes(plan, assignment, bound) = *self;
        let classes = plan.universe.classes.iter().take(bound.n_pending);
        let of_bound = bound.classes.iter().map(bound_class);
        let of_plan = classes.enumerate().map(|(index, class)| {
            let names = assignment.names(ClassId(u32::try_from(index).unwrap_or(u32::MAX)));
            let names = names.map(|(name, count)| match name.split() {
                (name, None) => Names::One(name),
                (name, Some(first)) => Names::Numbered(name, first, count),
            });
            ClassJson {
                is_reservation: class.kind == MemberKind::Reservation,
                requests: plan.cluster.spec(class.spec).map_or(&[], |spec| spec.requests.amounts()),
                members: names.collect(),
            }
        });
        serializer.collect_seq(of_plan.chain(of_bound))
    }
}

fn bound_class<'a>(class: &'a BoundClass<'_>) -> ClassJson<'a> {
    ClassJson {
        is_reservation: class.is_reservation,
        requests: class.requests.amounts(),
        members: class.names.iter().map(|name| Names::Bound(name)).collect(),
    }
}

/// Alike nodes to be launched.
struct Groups<'a> {
    plan: &'a Plan,
    all: &'a [Group<'a>],
    /// By group, its list of types.
    lists: &'a [usize],
    types: &'a Types,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    #[serde(rename = "p")]
    node_pool: &'a str,
    #[serde(rename = "t")]
    instance_type: usize,
    #[serde(rename = "z")]
    zone: Option<&'a str>,
    #[serde(rename = "c")]
    capacity_type: &'static str,
    #[serde(rename = "v", skip_serializing_if = "Option::is_none")]
    reservation: Option<&'a str>,
    #[serde(rename = "d")]
    price: Exact,
    #[serde(rename = "l")]
    list_price: Exact,
    #[serde(rename = "f")]
    fallback: usize,
    /// Requests of pods and daemons, and what the pool's nodes keep from pods.
    #[serde(rename = "q")]
    taken: Vec<i64>,
    /// Class and how many of it on each node.
    #[serde(rename = "k")]
    contents: Vec<(u32, u32)>,
    /// Number of the first node, how many, and the position of the first node's first member, by entry of contents.
    #[serde(rename = "n")]
    parts: Vec<(u64, u32, Vec<u32>)>,
}

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.plan;
        serializer.collect_seq(self.all.iter().zip(self.lists).map(|(group, &fallback)| {
            let claims = group.claims;
            let mut taken = claims.requests.clone();
            if let Some(pool) = plan.cluster.node_pools.get(claims.node_pool) {
                taken.add(&pool.reserved);
            }
            let firsts = |shares: &[&Share]| shares.iter().map(|share| share.first).collect();
            GroupJson {
                node_pool: plan.pool_name(claims.node_pool),
                instance_type: self.types.id(claims.instance_type),
                zone: claims.zone.map(|zone| plan.cluster.symbols.text(zone)),
                capacity_type: claims.capacity_type.name(),
                reservation: group.reservation(plan),
                price: Exact(claims.price),
                list_price: Exact(claims.list_price),
                fallback,
                taken: taken.amounts().to_vec(),
                contents: numbers(&group.contents),
                parts: group.parts.iter().map(|part| (part.number, part.count, firsts(&part.shares))).collect(),
            }
        }))
    }
}

fn numbers(contents: &[(ClassId, u32)]) -> Vec<(u32, u32)> {
    contents.iter().map(|&(class, count)| (class.0, count)).collect()
}

/// Existing nodes that get pods, and those that are launched for static NodePools.
struct Nodes<'a>(&'a Plan, &'a Assignment<'a>, &'a Bound<'a>);

#[derive(Serialize)]
struct NodeJson<'a> {
    #[serde(rename = "o")]
    name: &'a str,
    #[serde(rename = "p")]
    node_pool: Option<&'a str>,
    #[serde(rename = "t")]
    instance_type: Option<&'a str>,
    #[serde(rename = "z")]
    zone: Option<&'a str>,
    #[serde(rename = "c")]
    capacity_type: Option<&'a str>,
    /// Free before the plan.
    #[serde(rename = "a")]
    free: Vec<i64>,
    #[serde(rename = "b")]
    allocatable: &'a [i64],
    #[serde(rename = "k")]
    contents: Vec<(u32, u32)>,
    #[serde(rename = "n")]
    firsts: Vec<u32>,
    /// It is launched for a static NodePool, and not there yet.
    #[serde(rename = "l", skip_serializing_if = "std::ops::Not::not")]
    is_launched: bool,
    /// It is a NodeClaim, or a node that is not ready yet.
    #[serde(rename = "u", skip_serializing_if = "std::ops::Not::not")]
    is_coming_up: bool,
    /// Who gives way.
    #[serde(rename = "e", skip_serializing_if = "<[_]>::is_empty")]
    preempted: &'a [Box<str>],
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Nodes(plan, assignment, bound) = *self;
        let entries = plan.solution.nodes.iter().zip(&assignment.nodes);
        serializer.collect_seq(entries.filter_map(|(entry, shares)| node(plan, bound, entry, shares)))
    }
}

fn node<'a>(plan: &'a Plan, bound: &Bound<'_>, entry: &'a NodePlan, shares: &[Share]) -> Option<NodeJson<'a>> {
    let cluster = &plan.cluster;
    let also = bound.on_nodes.get(&entry.node).map_or(&[][..], Vec::as_slice);
    let preempted = plan.allocation.preempted(entry.node);
    let has_any = !entry.contents.is_empty() || !also.is_empty() || !preempted.is_empty();
    let node = cluster.nodes.get(entry.node).filter(|_| has_any)?;
    let contents = numbers(&entry.contents).into_iter();
    let contents =
        contents.chain(also.iter().map(|&(id, count, _)| (u32::try_from(bound.n_pending + id).unwrap_or(0), count)));
    let mut free = node.free.clone();
    free.add(&bound.requests(entry.node));
    let label = |key: Sym| node.labels.get(key).map(|value| cluster.symbols.text(value));
    Some(NodeJson {
        name: cluster.symbols.text(node.name),
        node_pool: node.node_pool.map(|pool| plan.pool_name(pool as usize)),
        instance_type: label(cluster.well_known.instance_type),
        zone: label(cluster.well_known.zone),
        capacity_type: label(cluster.well_known.capacity_type),
        free: free.amounts().to_vec(),
        allocatable: node.allocatable.amounts(),
        contents: contents.collect(),
        firsts: shares.iter().map(|share| share.first).chain(also.iter().map(|(.., first)| *first)).collect(),
        is_launched: entry.node >= plan.n_there,
        is_coming_up: entry.node < plan.n_there && node.is_coming_up,
        preempted,
    })
}
