//! How all that could be launched looks to one class: every offering of every NodePool, counted by what is in its way.

use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Universe};
use berth_scheduling::{demands, reasons};
use fixedbitset::FixedBitSet;

use crate::Options;
use crate::planner::Planner;
use crate::prepared::Prepared;
use crate::shares::Taken;
use crate::solution::Refusal;

/// How the offerings of a NodePool look to a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The NodePool, by index.
    pub node_pool: usize,
    /// Instance type × zone × capacity type that it may launch.
    pub offerings: u32,
    /// Those of which a new node would take a pod.
    pub open: u32,
    /// What is in the way of the others, each by the first obstacle; or of the NodePool as a whole, with a count of 0.
    pub reasons: Vec<Refusal>,
}

/// What each NodePool could launch for a pod of the class as the cluster stands, with no preference kept; `taken` of shares
/// is what a plan has launched.
pub fn consider(
    cluster: &Cluster,
    universe: &Universe,
    class: ClassId,
    options: &Options,
    taken: &[Taken],
) -> Vec<Considered> {
    let Some(demand) = demands(cluster, universe, class).pop() else { return Vec::new() };
    let mut planner = Planner::new(cluster, universe, options);
    planner.count_taken(taken, class);
    let ways = Prepared::alternatives(&planner, &demand);
    (0..cluster.node_pools.len()).map(|pool| planner.considered(&ways, pool)).collect()
}

impl Planner<'_> {
    fn considered(&mut self, ways: &[Prepared<'_>], pool: usize) -> Considered {
        let n_columns = self.tables.get(pool).map_or(0, |table| table.columns.len());
        let offerings = u32::try_from(n_columns).unwrap_or(u32::MAX);
        let whole = |reason: String| {
            let reasons = vec![Refusal { reason, count: 0 }];
            Considered { node_pool: pool, offerings, open: 0, reasons }
        };
        let Some((definition, demand)) = self.cluster.node_pools.get(pool).zip(ways.first().map(|way| &way.demand))
        else {
            return whole(String::new());
        };
        if let Some(refusal) = &definition.refusal {
            return whole(refusal.clone());
        }
        if n_columns == 0 {
            return whole("no instance type meets its requirements".to_owned());
        }
        if let Some(taint) = reasons::pool_taint(self.cluster, definition, demand) {
            return whole(taint);
        }
        let in_domains = ways.first().map(|way| self.columns_in_open_domains(way, pool)).unwrap_or_default();
        let (mut open, mut counts) = (0, BTreeMap::<String, u32>::new());
        for at in 0..n_columns {
            let Some(table) = self.tables.get(pool) else { break };
            let Some(column) = table.columns.get(at) else { break };
            // Where there are several ways, the one that comes furthest.
            let alone = ways.iter().map(|way| self.obstacle_alone(way, pool, table, at, column));
            let furthest = alone.reduce(|a, b| if a.is_none() || b.is_none() { None } else { a.max(b) }).flatten();
            let topology = in_domains.iter().find(|(columns, _)| !columns.contains(at)).map(|(_, reason)| *reason);
            match furthest.map(|(_, reason)| reason).or_else(|| topology.map(str::to_owned)) {
                None => open += 1,
                Some(reason) => *counts.entry(reason).or_default() += 1,
            }
        }
        let mut reasons: Vec<Refusal> = counts.into_iter().map(|(reason, count)| Refusal { reason, count }).collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        Considered { node_pool: pool, offerings, open, reasons }
    }

    // By topology key: the columns whose nodes would be in a domain that is open to a pod now.
    fn columns_in_open_domains(&mut self, prepared: &Prepared<'_>, pool: usize) -> Vec<(FixedBitSet, &'static str)> {
        let mut found = Vec::new();
        for (key, constraints) in &prepared.demand.keyed {
            let names = self.domain_names(constraints);
            let domains = self.domains_of(names.clone(), constraints);
            let Some(table) = self.tables.get(pool) else { break };
            let mut columns = FixedBitSet::with_capacity(table.columns.len());
            if table.open.get(*key).is_some() {
                // The value is chosen when the node is launched.
                columns.insert_range(..);
            }
            for name in names.iter().enumerate().filter(|(at, _)| domains.allows(*at)).map(|(_, name)| name) {
                let of_value = table.values(*key).iter().filter(|(value, _)| value == name);
                of_value.for_each(|(_, set)| columns.union_with(set));
            }
            found.push((columns, reasons::topology(constraints)));
        }
        found
    }
}
