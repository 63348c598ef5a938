//! What a topology spread puts into each domain at least, whatever the plan.

use berth_model::{ClassId, Constraint, Sym};
use berth_scheduling::Demand;
use rustc_hash::FxHashMap;

use crate::domains::KnownDomains;
use crate::world::World;

/// Pods of a class that must be in a domain at least, by key and domain.
pub(super) type Least = ((Sym, Sym), u32);

/// How many of the pods of a class any plan must have in each domain of a spread that the class is alone in: with
/// `count` of them placed the emptiest domain can only be so empty. Looks at the state before any was placed.
pub(super) fn least_in_domains(
    world: World<'_>,
    domains: &mut KnownDomains,
    class: ClassId,
    count: u32,
    demands: &FxHashMap<ClassId, Demand>,
) -> Vec<Least> {
    let Some(demand) = demands.get(&class) else { return Vec::new() };
    for (key, constraints) in &demand.keyed {
        if !world.tables.columns.iter().all(|table| table.decides(*key)) {
            continue;
        }
        for constraint in constraints {
            let &Constraint::Spread { counter, max_skew, min_domains, counts_self: true } = constraint else {
                continue;
            };
            let is_alone =
                demands.iter().all(|(other, demand)| *other == class || !demand.keyed_counts.contains(&counter));
            let names = domains.of(world, counter);
            if !is_alone || min_domains.is_some_and(|least| names.len() < least as usize) {
                continue;
            }
            let loads: FxHashMap<Sym, u32> = world.ledger.state.domains(counter).collect();
            let loads: Vec<u32> = names.iter().map(|name| loads.get(name).copied().unwrap_or(0)).collect();
            let emptiest = emptiest(&loads, max_skew, count);
            let least = names.iter().zip(&loads).map(|(&name, load)| ((*key, name), emptiest.saturating_sub(*load)));
            return least.filter(|(_, pods)| *pods > 0).collect();
        }
    }
    Vec::new()
}

// What the emptiest domain holds at least once `count` more pods are placed: one domain holds just that, the others no
// more than the skew above it.
fn emptiest(loads: &[u32], max_skew: u32, count: u32) -> u32 {
    let placeable = |least: u32| {
        let most = |load: &u32| u64::from(least.saturating_add(max_skew).saturating_sub(*load));
        let sum: u64 = loads.iter().map(most).sum();
        sum.saturating_sub(u64::from(max_skew))
    };
    let Some(&start) = loads.iter().min() else { return 0 };
    if loads.len() < 2 {
        return 0;
    }
    // Grows with `least`: halve the range.
    let (mut below, mut above) = (start, start.saturating_add(count));
    while below < above {
        let middle = below + (above - below) / 2;
        if placeable(middle) >= u64::from(count) { above = middle } else { below = middle + 1 }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::emptiest;

    // The least minimum over all ways to add pods one at a time within the skew.
    fn by_trying(loads: &[u32], max_skew: u32, count: u32) -> Option<u32> {
        let least = *loads.iter().min()?;
        if count == 0 {
            return Some(least);
        }
        let mut found = None;
        for at in 0..loads.len() {
            if loads[at] + 1 - least.min(loads[at] + 1) <= max_skew {
                let mut next = loads.to_vec();
                next[at] += 1;
                let here = by_trying(&next, max_skew, count - 1);
                found = match (found, here) {
                    (Some(known), Some(here)) => Some(u32::min(known, here)),
                    (known, here) => known.or(here),
                };
            }
        }
        found
    }

    #[test]
    fn no_order_of_placing_leaves_a_domain_emptier() {
        for loads in [vec![0, 0], vec![0, 0, 0], vec![3, 0, 1], vec![2, 2, 5], vec![0, 7]] {
            for max_skew in 1..4 {
                for count in 0..8 {
                    let bound = emptiest(&loads, max_skew, count);
                    let least = by_trying(&loads, max_skew, count).unwrap_or(bound);
                    assert!(bound <= least, "{loads:?} skew {max_skew} count {count}: {bound} > {least}");
                    if loads.iter().all(|load| *load == 0) {
                        assert_eq!(bound, least, "{loads:?} skew {max_skew} count {count}");
                    }
                }
            }
        }
    }
}
