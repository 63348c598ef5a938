//! Nodes to be launched, alike ones together, and existing nodes that get pods.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use berth_model::{CapacityType, MemberKind, Money, ResourceId, Resources};
use berth_provisioning::{Claims, NodePlan};

use super::grid::{Column, Grid};
use super::{RowLimit, counted};
use crate::Plan;
use crate::decimal::{amount, rounded, thousands};
use berth_decisions::{Assignment, Share, quantities};

/// Reservations that a row names.
const MOST_NAMES: usize = 2;

/// What tells rows apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeRowKey<'a> {
    pub(crate) node_pool: &'a str,
    pub(crate) capacity_type: CapacityType,
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) price: Money,
}

/// What a row sums.
#[derive(Clone, Default)]
pub(crate) struct Row {
    pub(crate) nodes: u64,
    pub(crate) pods: u64,
    requests: Resources,
    room: Resources,
}

impl Row {
    pub(crate) fn add(&mut self, other: &Row) {
        self.nodes += other.nodes;
        self.pods += other.pods;
        self.requests.add(&other.requests);
        self.room.add(&other.room);
    }

    /// How much of the room for a resource is requested, in whole percents; `None` where there is no room.
    pub(crate) fn percent(&self, resource: ResourceId) -> Option<i128> {
        let (used, room) = (i128::from(self.requests.get(resource)), i128::from(self.room.get(resource)));
        (room > 0).then(|| used * 100 / room)
    }

    fn used(&self, resource: ResourceId) -> String {
        self.percent(resource).map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
    }

    fn cells(&self, names: [&str; 4], price: String, total: Money) -> [String; 10] {
        let [node_pool, instance_type, zone, capacity_type] = names.map(str::to_owned);
        [
            node_pool,
            instance_type,
            zone,
            capacity_type,
            thousands(self.nodes),
            thousands(self.pods),
            self.used(ResourceId::CPU),
            self.used(ResourceId::MEMORY),
            price,
            rounded(total, 4),
        ]
    }
}

/// Writes the table of nodes to launch, where there are any.
pub(super) fn write_claims<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let groups = groups(plan);
    if groups.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[
        Column::Text("NODEPOOL"),
        Column::Text("INSTANCE TYPE"),
        Column::Text("ZONE"),
        Column::Text("CAPACITY"),
        Column::Number("NODES"),
        Column::Number("PODS"),
        Column::Number("CPU"),
        Column::Number("MEMORY"),
        Column::Money("$/H EACH"),
        Column::Money("$/H"),
    ]);
    let cost = |key: &NodeRowKey<'_>, row: &Row| key.price.times(row.nodes);
    let shown = rows.shown(groups.len());
    let (mut all, mut others) = (Row::default(), Row::default());
    let (mut all_cost, mut other_cost) = (Money::ZERO, Money::ZERO);
    for (index, (key, row)) in groups.iter().enumerate() {
        all.add(row);
        all_cost += cost(key, row);
        if index < shown {
            let names = [key.node_pool, key.instance_type, key.zone, key.capacity_type.name()];
            grid.row(row.cells(names, rounded(key.price, 4), cost(key, row)));
        } else {
            others.add(row);
            other_cost += cost(key, row);
        }
    }
    if groups.len() > shown {
        let rest = format!("{} more rows", groups.len() - shown);
        grid.row(others.cells(["…", &rest, "", ""], String::new(), other_cost));
    }
    if groups.len() > 1 {
        grid.row(all.cells(["", "TOTAL", "", ""], String::new(), all_cost));
    }
    grid.write("Nodes to launch", rows, writer)?;
    write_alternatives(plan, writer)
}

/// What costs most first; slots, which cost nothing, by NodePool at the end.
pub(crate) fn groups(plan: &Plan) -> Vec<(NodeRowKey<'_>, Row)> {
    let mut rows: BTreeMap<NodeRowKey<'_>, Row> = BTreeMap::new();
    let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
    for (claims, shares) in plan.solution.claims.iter().zip(&assignment.claims).filter(|(claims, _)| claims.count > 0) {
        let (key, mut row) = row_of(plan, claims);
        let drawn = |node| plan.allocation.with(&assignment, shares, node, &plan.cluster).len() as u64;
        row.pods += (0..claims.count).map(drawn).sum::<u64>();
        rows.entry(key).or_default().add(&row);
    }
    let mut rows: Vec<(NodeRowKey<'_>, Row)> = rows.into_iter().collect();
    let total = |key: &NodeRowKey<'_>, row: &Row| key.price.times(row.nodes);
    rows.sort_by(|(a, x), (b, y)| {
        let costs = total(b, y).cmp(&total(a, x));
        let pools = || (a.node_pool, a.capacity_type).cmp(&(b.node_pool, b.capacity_type));
        costs.then_with(pools).then_with(|| y.nodes.cmp(&x.nodes)).then_with(|| a.cmp(b))
    });
    rows
}

fn row_of<'a>(plan: &'a Plan, claims: &Claims) -> (NodeRowKey<'a>, Row) {
    let cluster = &plan.cluster;
    let text = |sym| cluster.symbols.text(sym);
    let key = NodeRowKey {
        node_pool: cluster.node_pools.get(claims.node_pool).map_or("", |pool| text(pool.name)),
        capacity_type: claims.capacity_type,
        instance_type: plan.type_name(claims.instance_type),
        zone: claims.zone.map_or("-", text),
        price: claims.price,
    };
    let mut row = Row { nodes: u64::from(claims.count), ..Row::default() };
    row.pods = plan.pods_in(&claims.contents) * u64::from(claims.count);
    row.requests.add_times(&claims.requests, i64::from(claims.count));
    if let Some(instance_type) = cluster.instance_types.get(claims.instance_type as usize) {
        row.room.add_times(&instance_type.resources, i64::from(claims.count));
    }
    (key, row)
}

/// How much freedom the claims leave to the cloud.
fn write_alternatives<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let paid = plan.solution.claims.iter().filter(|claims| claims.capacity_type != CapacityType::Reserved);
    let lengths = paid.map(|claims| claims.instance_types.len() as u64);
    let Some((least, most)) = lengths.fold(None, |range: Option<(u64, u64)>, length| {
        Some(range.map_or((length, length), |(least, most)| (least.min(length), most.max(length))))
    }) else {
        return Ok(());
    };
    let kept = if least == most { counted(most, "instance type") } else { format!("{least} to {most} instance types") };
    writeln!(writer, "Each claim on paid capacity keeps {kept} to choose from, cheapest first.")
}

/// Writes the tables of nodes that get pods, those that exist and those that are launched for static NodePools.
pub(super) fn write_used<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let there = ("Existing nodes that get pods", "Existing nodes that get pods or Reservations");
    write_used_of(plan, there, 0..plan.n_there, rows, writer)?;
    let of_static = (
        "Nodes to launch for static NodePools that get pods",
        "Nodes to launch for static NodePools that get pods or Reservations",
    );
    write_used_of(plan, of_static, plan.n_there..usize::MAX, rows, writer)?;
    write_preempted(plan, rows, writer)
}

fn write_used_of<W: Write>(
    plan: &Plan,
    (of_pods, of_both): (&str, &str),
    nodes: Range<usize>,
    rows: RowLimit,
    writer: &mut W,
) -> io::Result<()> {
    let cluster = &plan.cluster;
    let assignment = Assignment::new(cluster, &plan.universe, &plan.solution);
    let entries = plan.solution.nodes.iter().zip(&assignment.nodes).map(|(node, shares)| {
        let there = plan.allocation.on_node(node.node, MemberKind::Pod, cluster).len();
        let drawn = there + plan.allocation.with(&assignment, shares, 0, cluster).len();
        (node, drawn as u64, reservations_on(plan, &assignment, node, shares))
    });
    let n_preempted = |node: usize| plan.allocation.preempted(node).len() as u64;
    let gets_any = |(node, drawn, reservations): &(&NodePlan, u64, Vec<String>)| {
        !node.contents.is_empty() || *drawn > 0 || !reservations.is_empty() || n_preempted(node.node) > 0
    };
    let used: Vec<_> = entries.filter(|(node, ..)| nodes.contains(&node.node)).filter(gets_any).collect();
    if used.is_empty() {
        return Ok(());
    }
    let preempts = plan.allocation.n_preempted() > 0;
    let reserves = used.iter().any(|(.., reservations)| !reservations.is_empty());
    let columns = [Column::Text("NODE"), Column::Text("NODEPOOL"), Column::Number("NEW PODS")];
    let left = [Column::Number("CPU LEFT"), Column::Number("MEMORY LEFT")];
    let gone = preempts.then_some(Column::Number("PREEMPTED"));
    let held = reserves.then_some(Column::Text("RESERVATIONS"));
    let columns: Vec<Column> = columns.into_iter().chain(gone).chain(left).chain(held).collect();
    let mut grid = Grid::new(&columns);
    let shown = rows.shown(used.len());
    for (entry, drawn, reservations) in used.iter().take(shown) {
        let Some(node) = cluster.nodes.get(entry.node) else { continue };
        let pool = node.node_pool.and_then(|pool| cluster.node_pools.get(pool as usize));
        let mut left = node.free.clone();
        for (class, count) in &entry.contents {
            let spec = plan.universe.class(*class).and_then(|class| cluster.spec(class.spec));
            if let Some(spec) = spec {
                left.add_times(&spec.requests, -i64::from(*count));
            }
        }
        left.floor_at_zero();
        let left = quantities(cluster, &left);
        let of = |name| left.get(name).map_or_else(|| "0".to_owned(), |left| amount(*left));
        let is_coming_up = entry.node < plan.n_there && node.is_coming_up;
        let first = [
            cluster.symbols.text(node.name).to_owned() + if is_coming_up { " (on its way)" } else { "" },
            pool.map_or("-", |pool| cluster.symbols.text(pool.name)).to_owned(),
            thousands(plan.pods_in(&entry.contents) + drawn),
        ];
        let gone = preempts.then(|| thousands(n_preempted(entry.node)));
        let left = [of("cpu"), of("memory")];
        let held = reserves.then(|| short(reservations));
        let cells: Vec<String> = first.into_iter().chain(gone).chain(left).chain(held).collect();
        grid.row(cells);
    }
    if used.len() > shown {
        let rest: u64 = used.iter().skip(shown).map(|(entry, drawn, _)| plan.pods_in(&entry.contents) + drawn).sum();
        let rows = format!("… {} more", used.len() - shown);
        let gone: u64 = used.iter().skip(shown).map(|(entry, ..)| n_preempted(entry.node)).sum();
        let gone = preempts.then(|| thousands(gone));
        let first = [rows, String::new(), thousands(rest)];
        let n_held: usize = used.iter().skip(shown).map(|(.., reservations)| reservations.len()).sum();
        let held = reserves.then(|| thousands(n_held as u64));
        let cells: Vec<String> =
            first.into_iter().chain(gone).chain([const { String::new() }; 2]).chain(held).collect();
        grid.row(cells);
    }
    grid.write(if reserves { of_both } else { of_pods }, rows, writer)
}

/// The Reservations that come to an existing node, by name.
fn reservations_on(plan: &Plan, assignment: &Assignment<'_>, entry: &NodePlan, shares: &[Share]) -> Vec<String> {
    let bound = plan.allocation.on_node(entry.node, MemberKind::Reservation, &plan.cluster);
    let own = shares.iter().filter(|share| assignment.kind(**share) == MemberKind::Reservation);
    let own = own.flat_map(|share| assignment.members(share.of_node(0))).map(|member| member.to_string());
    bound.iter().map(|also| also.name.to_owned()).chain(own).collect()
}

/// The first of some names, and how many more there are.
fn short(names: &[String]) -> String {
    let listed = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => listed,
        rest => format!("{listed} and {} more", thousands(rest as u64)),
    }
}

// Who gives way, by node.
fn write_preempted<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    if plan.allocation.n_preempted() == 0 {
        return Ok(());
    }
    writeln!(writer, "\nPods that give way to others of higher priority")?;
    let nodes = plan.solution.nodes.iter().map(|entry| (entry.node, plan.allocation.preempted(entry.node)));
    let pods: Vec<(usize, &str)> = nodes.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, &**pod))).collect();
    let shown = rows.shown(pods.len());
    for (node, pod) in pods.iter().take(shown) {
        let name = plan.cluster.nodes.get(*node).map_or("", |node| plan.cluster.symbols.text(node.name));
        writeln!(writer, "  {pod} on node {name}")?;
    }
    let rest = pods.len().saturating_sub(shown);
    if rest > 0 { writeln!(writer, "  … {rest} more") } else { Ok(()) }
}

impl Plan {
    /// How many pods there are in contents; Reservations are none.
    fn pods_in<'a>(&self, contents: impl IntoIterator<Item = &'a (berth_model::ClassId, u32)>) -> u64 {
        let is_pod = |class| self.universe.class(class).is_some_and(|class| class.kind == MemberKind::Pod);
        contents.into_iter().filter(|(class, _)| is_pod(*class)).map(|(_, count)| u64::from(*count)).sum()
    }
}
