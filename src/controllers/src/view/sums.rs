//! What the launched NodeClaims of each NodePool have together, kept as they come, change and go.

use std::collections::BTreeMap;

use berth_api::{NodeClaim, ResourceList};
use berth_quantity::Quantity;

use super::pool_of;
use crate::claim::conditions;

/// What the launched nodes of a NodePool are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Has {
    pub(crate) nodes: i64,
    pub(crate) resources: ResourceList,
    /// Whether one of them has registered.
    pub(crate) is_healthy: bool,
}

/// By NodePool that has any.
#[derive(Debug, Default)]
pub(super) struct Sums {
    by_pool: BTreeMap<String, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    nodes: i64,
    registered: i64,
    /// How many have some of a resource, and how much in all; `None` once that was too much to count.
    resources: BTreeMap<String, (u64, Option<Quantity>)>,
}

/// Whether a NodePool has the same with either version of a NodeClaim.
pub(super) fn is_counted_alike(a: &NodeClaim, b: &NodeClaim) -> bool {
    fn counted(claim: &NodeClaim) -> Option<(bool, [bool; 2], &ResourceList)> {
        let status = claim.status.as_ref()?;
        let is_up = |type_| conditions::is_true(&status.conditions, type_);
        let is_up = [conditions::REGISTERED, conditions::INITIALIZED].map(is_up);
        Some((status.provider_id.is_some(), is_up, &status.capacity))
    }
    let is_going = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
    pool_of(&a.metadata) == pool_of(&b.metadata) && is_going(a) == is_going(b) && counted(a) == counted(b)
}

/// Its NodePool, what it has, and whether it has registered; `None` of one that is not launched.
fn counted(claim: &NodeClaim) -> Option<(&str, &ResourceList, bool)> {
    let status = claim.status.as_ref().filter(|status| status.provider_id.is_some())?;
    let is_registered = conditions::is_true(&status.conditions, conditions::REGISTERED);
    Some((pool_of(&claim.metadata)?, &status.capacity, is_registered))
}

// === impl Sums ===

impl Sums {
    pub(super) fn add(&mut self, claim: &NodeClaim) {
        let Some((pool, capacity, is_registered)) = counted(claim) else { return };
        if !self.by_pool.contains_key(pool) {
            self.by_pool.insert(pool.to_owned(), Sum::default());
        }
        let Some(sum) = self.by_pool.get_mut(pool) else { return };
        sum.nodes += 1;
        sum.registered += i64::from(is_registered);
        for (name, amount) in capacity {
            if let Some((count, all)) = sum.resources.get_mut(name) {
                *count += 1;
                *all = all.and_then(|all| all.checked_add(*amount));
            } else {
                sum.resources.insert(name.clone(), (1, Some(*amount)));
            }
        }
    }

    pub(super) fn subtract(&mut self, claim: &NodeClaim) {
        let Some((pool, capacity, is_registered)) = counted(claim) else { return };
        let Some(sum) = self.by_pool.get_mut(pool) else { return };
        sum.nodes -= 1;
        sum.registered -= i64::from(is_registered);
        for (name, amount) in capacity {
            let Some((count, all)) = sum.resources.get_mut(name) else { continue };
            *count = count.saturating_sub(1);
            *all = all.and_then(|all| all.checked_sub(*amount));
            if *count == 0 {
                sum.resources.remove(name);
            }
        }
        if sum.nodes == 0 {
            self.by_pool.remove(pool);
        }
    }

    /// What a NodePool has; `None` where that was too much to count.
    pub(super) fn of(&self, pool: &str) -> Option<Has> {
        let Some(sum) = self.by_pool.get(pool) else { return Some(Has::default()) };
        let resources = sum.resources.iter().map(|(name, (_, all))| Some((name.clone(), (*all)?)));
        let resources = resources.collect::<Option<ResourceList>>()?;
        Some(Has { nodes: sum.nodes, resources, is_healthy: sum.registered > 0 })
    }
}

/// The same, counted from all NodeClaims. What is too much to count is left out.
pub(super) fn count<'c>(claims: impl Iterator<Item = &'c NodeClaim>, pool: &str) -> Has {
    let mut has = Has::default();
    for (_, capacity, is_registered) in claims.filter_map(counted).filter(|(of, ..)| *of == pool) {
        has.nodes += 1;
        has.is_healthy |= is_registered;
        for (name, amount) in capacity {
            if let Some(sum) = has.resources.get_mut(name) {
                *sum = sum.checked_add(*amount).unwrap_or(*sum);
            } else {
                has.resources.insert(name.clone(), *amount);
            }
        }
    }
    has
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(pool: &str, cpu: Option<Quantity>) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.labels = Some([(berth_api::labels::NODEPOOL.to_owned(), pool.to_owned())].into());
        if let Some(cpu) = cpu {
            let status = claim.status.get_or_insert_default();
            status.provider_id = Some("id".to_owned());
            status.capacity.insert("cpu".to_owned(), cpu);
        }
        claim
    }

    #[test]
    fn sums_of_nodepools_are_those_of_their_launched_claims() {
        let cpu = |cores| Some(Quantity::from_value(cores));
        let all = [claim("a", cpu(4)), claim("b", cpu(8)), claim("a", None), claim("a", cpu(2))];
        let mut sums = Sums::default();
        for claim in &all {
            sums.add(claim);
        }
        for pool in ["a", "b", "c"] {
            assert_eq!(sums.of(pool), Some(count(all.iter(), pool)), "{pool}");
        }
        sums.subtract(&all[0]);
        sums.subtract(&all[1]);
        assert_eq!(sums.of("a"), Some(count(all[2..].iter(), "a")));
        assert_eq!(sums.of("b"), Some(Has::default()));
        assert!(!sums.by_pool.contains_key("b"), "nothing is kept of a NodePool without nodes");
    }

    #[test]
    fn what_is_too_much_to_add_up_is_counted_from_all() {
        let much = Some(Quantity::from_nanos(i128::MAX, berth_quantity::Format::DecimalSI));
        let mut sums = Sums::default();
        sums.add(&claim("a", much));
        sums.add(&claim("a", much));
        assert_eq!(sums.of("a"), None);
    }
}
