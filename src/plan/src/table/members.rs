//! Who goes where, pod by pod and Reservation by Reservation.

use std::collections::BTreeMap;
use std::io::{self, Write};

use berth_decisions::{Also, Assignment, Share};
use berth_model::MemberKind;

use crate::Plan;

/// Writes the pods and Reservations of every node, new ones by the names that claims have in the JSON contract.
pub(super) fn write<W: Write>(plan: &Plan, assignment: &Assignment<'_>, writer: &mut W) -> io::Result<()> {
    let cluster = &plan.cluster;
    let mut is_first = true;
    let mut numbers: BTreeMap<usize, u64> = BTreeMap::new();
    for (group, shares) in plan.solution.claims.iter().zip(&assignment.claims) {
        for node in 0..group.count {
            let number = numbers.entry(group.node_pool).or_default();
            *number += 1;
            let drawn = plan.allocation.with(assignment, shares, node, cluster);
            let zone = group.zone.map_or("-", |zone| cluster.symbols.text(zone));
            let (pool, instance_type) = (plan.pool_name(group.node_pool), plan.type_name(group.instance_type));
            let title = format!("{pool}-{number:05} ({instance_type}, {zone}, {})", group.capacity_type.name());
            write_node(assignment, &title, shares, node, [&drawn, &[]], &mut is_first, writer)?;
        }
    }
    for (entry, shares) in plan.solution.nodes.iter().zip(&assignment.nodes) {
        let mut also = plan.allocation.on_node(entry.node, MemberKind::Pod, cluster);
        also.extend(plan.allocation.with(assignment, shares, 0, cluster));
        let rooms = plan.allocation.on_node(entry.node, MemberKind::Reservation, cluster);
        let name = cluster.nodes.get(entry.node).map_or("", |node| cluster.symbols.text(node.name));
        let is_coming_up = cluster.nodes.get(entry.node).is_some_and(|node| node.is_coming_up);
        let what = match entry.node {
            node if node >= plan.n_there => "of a static NodePool, to launch",
            _ if is_coming_up => "on its way",
            _ => "exists",
        };
        write_node(assignment, &format!("{name} ({what})"), shares, 0, [&also, &rooms], &mut is_first, writer)?;
    }
    Ok(())
}

fn write_node<W: Write>(
    assignment: &Assignment<'_>,
    title: &str,
    shares: &[Share],
    node: u32,
    [also, rooms]: [&[Also<'_>]; 2],
    is_first: &mut bool,
    writer: &mut W,
) -> io::Result<()> {
    let of_kind = |kind| {
        let own = shares.iter().filter(move |share| assignment.kind(**share) == kind);
        own.flat_map(|share| assignment.members(share.of_node(node))).map(|member| member.to_string())
    };
    let pods = of_kind(MemberKind::Pod).chain(also.iter().map(|also| also.name.to_owned()));
    let rooms = of_kind(MemberKind::Reservation).chain(rooms.iter().map(|room| room.name.to_owned()));
    let mut names = pods.chain(rooms.map(|name| format!("Reservation {name}")));
    let Some(first) = names.next() else { return Ok(()) };
    if std::mem::take(is_first) {
        writeln!(writer, "\nPods by node")?;
    }
    write!(writer, "{title}\n  {first}")?;
    for name in names {
        write!(writer, ", {name}")?;
    }
    writeln!(writer)
}
