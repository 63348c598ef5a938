//! Shares that no plan can keep, which is told before anything is planned.

use std::collections::BTreeMap;

use berth_model::{Cluster, ColumnTable, MemberKind, PodSpec, ResourceId, Sym};

use crate::max_share::{ALL, ShareKey, weight_of_cpu};
use crate::options::Options;

/// Shares of one key that cannot hold what is pending, however it is packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfeasibleShares {
    /// The key of the shares.
    pub key: ShareKey,
    /// The shares of that key, by position in the options.
    pub rules: Vec<usize>,
    /// The values on offer by name, with the least share of each in billionths.
    pub values: Vec<(String, u32)>,
    /// What is to be put on new nodes requests at least, in milli-CPU.
    pub requested: i128,
    /// The most that the values may have together, each rounded up to a whole pod, in milli-CPU.
    pub most: i128,
}

/// Whether some plan may keep the shares: for each key, whether the values that NodePools may launch can hold together
/// what is sure to need new nodes.
///
/// # Errors
/// The first key whose shares cannot.
pub fn check_shares(cluster: &Cluster, options: &Options) -> Result<(), InfeasibleShares> {
    if options.max_shares.is_empty() {
        return Ok(());
    }
    let offered = offered(cluster);
    let (requested, mut largest) = requested(cluster);
    largest.sort_unstable_by(|a, b| b.cmp(a));
    for key in [ShareKey::Zone, ShareKey::InstanceType, ShareKey::CapacityType] {
        let rules: Vec<usize> =
            (0..).zip(&options.max_shares).filter(|(_, share)| share.key == key).map(|(at, _)| at).collect();
        let names = offered.get(&key);
        let (false, Some(names)) = (rules.is_empty(), names) else { continue };
        let least = |name: &str| {
            let of = rules.iter().filter_map(|&rule| options.max_shares.get(rule));
            let of = of.filter(|share| share.value.as_deref().is_none_or(|named| named == name));
            of.map(|share| share.billionths).min().unwrap_or(1_000_000_000)
        };
        let values: Vec<(String, u32)> = names.iter().map(|name| ((*name).to_owned(), least(name))).collect();
        let mut most = 0_i128;
        for &(_, share) in values.iter().filter(|(_, share)| *share > 0) {
            // Without its smallest pod a value has less than its share.
            most += (i128::from(share) * requested + ALL - 1) / ALL - 1;
        }
        let n_values = values.iter().filter(|(_, share)| *share > 0).count();
        most +=
            largest.iter().flat_map(|&(weight, count)| std::iter::repeat_n(weight, count)).take(n_values).sum::<i128>();
        if most < requested {
            return Err(InfeasibleShares { key, rules, values, requested, most });
        }
    }
    Ok(())
}

// By key, the values that NodePools may launch, by name.
fn offered(cluster: &Cluster) -> BTreeMap<ShareKey, std::collections::BTreeSet<&str>> {
    let text = |sym: Sym| cluster.symbols.text(sym);
    let mut offered: BTreeMap<ShareKey, std::collections::BTreeSet<&str>> = BTreeMap::new();
    for pool in cluster.node_pools.iter().filter(|pool| pool.refusal.is_none()) {
        for column in &ColumnTable::new(cluster, pool).columns {
            let name = cluster.instance_types.get(column.instance_type as usize).map(|known| text(known.name));
            let zone = column.zone.map(text);
            for (key, value) in [
                (ShareKey::Zone, zone),
                (ShareKey::InstanceType, name),
                (ShareKey::CapacityType, Some(column.capacity_type.name())),
            ] {
                // What is in no zone counts for no share of one but for its own.
                offered.entry(key).or_default().insert(value.unwrap_or(""));
            }
        }
    }
    offered
}

// What is sure to need new nodes: what no existing node may take, and who draws on no Reservation; with the weights of
// all that may be there, and how many there are of each.
fn requested(cluster: &Cluster) -> (i128, Vec<(i128, usize)>) {
    let cpu = |spec: &PodSpec| spec.requests.get(ResourceId::CPU);
    let (mut sum, mut weights) = (0_i128, BTreeMap::new());
    for row in &cluster.pending {
        let Some(spec) = cluster.spec(row.spec).filter(|spec| spec.refusal.is_none()) else { continue };
        let count: u64 = row.members.iter().map(|run| u64::from(run.len())).sum();
        let weight = i128::from(weight_of_cpu(cpu(spec)));
        *weights.entry(weight).or_insert(0_usize) += usize::try_from(count).unwrap_or(usize::MAX);
        if row.kind == MemberKind::Pod && cpu(spec) > 0 && spec.reservation.owner_of.is_empty() {
            sum += weight * i128::from(count);
        }
    }
    let existing: i128 =
        cluster.nodes.iter().map(|node| i128::from(node.allocatable.get(ResourceId::CPU).max(0))).sum();
    ((sum - existing).max(0), weights.into_iter().collect())
}
