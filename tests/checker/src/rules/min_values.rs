//! `minValues`: a paid claim's list is as varied as its pool asks.

use std::collections::BTreeSet;

use crate::catalogue::{INSTANCE_TYPE, RESERVED, Requirement};
use crate::sites::{ClaimSite, Site};
use crate::violation::Violation;
use crate::world::World;

/// Distinct values of the key over the listed types, every offering of them counted.
fn distinct(world: &World, claim: &ClaimSite<'_>, requirement: &Requirement) -> Option<usize> {
    let names = &claim.claim.instance_types;
    if requirement.key == INSTANCE_TYPE {
        return Some(names.iter().collect::<BTreeSet<_>>().len());
    }
    if !world.catalogue.known_keys.contains(&requirement.key) {
        return None;
    }
    let types = names.iter().filter_map(|name| world.catalogue.types.get(name));
    let values = types.flat_map(|t| &t.candidates).filter_map(|c| c.labels.get(&requirement.key));
    Some(values.filter(|v| requirement.admits(Some(v))).collect::<BTreeSet<_>>().len())
}

/// Claims on a slot are pinned after the count, and are not checked.
pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for claim in sites.iter().filter_map(Site::claim).filter(|c| c.claim.offering.capacity_type != RESERVED) {
        for requirement in &claim.pool.requirements {
            let Some(least) = requirement.min_values else {
                continue;
            };
            if let Some(count) = distinct(world, claim, requirement)
                && count < least
            {
                let detail = format!("{count} values of {}, minValues is {least}", requirement.key);
                found.push(Violation::new("min-values", &claim.claim.name, detail));
            }
        }
    }
    found
}
