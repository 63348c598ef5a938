//! Invariant 2: narrowing a set equals the union of narrowing its members.

use berth_checker::{Size, random_case};
use berth_model::{ClassId, Cluster, Column, ColumnTable, NodePool, Universe};
use berth_scheduling::{Demand, admit, demands};
use fixedbitset::FixedBitSet;

use crate::{Failure, failure, read};

/// Compares, for every demand and NodePool of the case, the columns that the whole catalogue admits with those that
/// catalogues of one offering each admit.
pub fn try_narrowing(seed: u64, size: Size) -> Vec<Failure> {
    let case = random_case(seed, size);
    let mut cluster = match read::cluster(&case.objects, Some(&case.catalogue)) {
        Ok(cluster) => cluster,
        Err(error) => return vec![failure("refused", &error)],
    };
    let universe = Universe::new(&mut cluster);
    let singles = single_offerings(&cluster);
    let ids = (0..).map(ClassId).take(universe.classes.len());
    let all: Vec<Demand> = ids.flat_map(|id| demands(&cluster, &universe, id)).collect();
    let mut failures = Vec::new();
    for index in 0..cluster.node_pools.len() {
        let Some(pool) = cluster.node_pools.get(index) else { continue };
        let whole = ColumnTable::new(&cluster, pool);
        let tables: Vec<(&Cluster, ColumnTable)> =
            singles.iter().map(|(_, single)| (single, ColumnTable::new(single, pool))).collect();
        for demand in &all {
            let together = admitted(&cluster, pool, &whole, demand, |column| column.instance_type);
            let mut apart: Vec<String> = Vec::new();
            for ((single, table), (instance_type, _)) in tables.iter().zip(&singles) {
                apart.extend(admitted(single, pool, table, demand, |_| *instance_type));
            }
            apart.sort();
            if together != apart {
                let name = cluster.symbols.text(pool.name);
                let only = |a: &[String], b: &[String]| {
                    a.iter().filter(|x| !b.contains(x)).take(3).cloned().collect::<Vec<_>>().join("; ")
                };
                let detail = format!(
                    "class {} ({} relaxed) in NodePool {name}: only together [{}], only apart [{}]",
                    demand.class.0,
                    demand.relaxed,
                    only(&together, &apart),
                    only(&apart, &together)
                );
                failures.push(failure("narrowing", &detail));
            }
        }
    }
    failures
}

/// The admitted columns by what they are, sorted.
fn admitted(
    cluster: &Cluster,
    pool: &NodePool,
    table: &ColumnTable,
    demand: &Demand,
    instance_type: impl Fn(&Column) -> u32,
) -> Vec<String> {
    let mut columns = FixedBitSet::with_capacity(table.columns.len());
    for admission in admit(cluster, pool, table, demand) {
        columns.union_with(&admission.columns);
    }
    let columns = columns.ones().filter_map(|index| table.columns.get(index));
    let mut names: Vec<String> = columns
        .map(|column| {
            let text = |sym: Option<_>| sym.map_or("", |sym| cluster.symbols.text(sym)).to_owned();
            let (os, zone) = (text(column.os), text(column.zone));
            format!("{} {os} {zone} {:?} {:?}", instance_type(column), column.capacity_type, column.slots)
        })
        .collect();
    names.sort();
    names
}

/// The cluster once for every offering, with that offering alone on offer, and the index of its type.
fn single_offerings(cluster: &Cluster) -> Vec<(u32, Cluster)> {
    let mut singles = Vec::new();
    for (index, instance_type) in cluster.instance_types.iter().enumerate() {
        for offering in &instance_type.offerings {
            let mut single = cluster.clone();
            let mut alone = instance_type.clone();
            alone.offerings = vec![offering.clone()];
            single.instance_types = vec![alone].into();
            singles.push((u32::try_from(index).unwrap_or(u32::MAX), single));
        }
    }
    singles
}
