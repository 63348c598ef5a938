//! Rules that limit a bin as a resource does.

use crate::problem::Problem;
use crate::tuning::pricing::RULES_AS_RESOURCES;

/// Items of which a bin holds only so many together, whatever else is in it: the subjects of a rule that count in it. Rules
/// that concern most items come first; a rule of one item alone is a limit of that item.
pub(crate) fn as_resources(problem: &Problem) -> Vec<(Vec<u32>, u32)> {
    let mut limits: Vec<(Vec<u32>, u32)> = Vec::new();
    for rule in problem.rules.iter().filter(|rule| rule.at_most > 0) {
        let counted = |item: &&u32| rule.counted.binary_search(item).is_ok();
        let both: Vec<u32> = rule.subjects.iter().filter(counted).copied().collect();
        if both.len() > 1 && !limits.iter().any(|(items, at_most)| *items == both && *at_most <= rule.at_most) {
            limits.push((both, rule.at_most));
        }
    }
    let count = |items: &[u32]| -> u64 {
        items.iter().filter_map(|item| problem.items.get(*item as usize)).map(|item| u64::from(item.count)).sum()
    };
    limits.sort_by_cached_key(|(items, _)| std::cmp::Reverse(count(items)));
    limits.truncate(RULES_AS_RESOURCES);
    limits
}
