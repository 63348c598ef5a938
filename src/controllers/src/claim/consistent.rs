//! Whether a node is as large as its cloud said it would be. One that is smaller was planned for too many pods.

use super::conditions::{self, CONSISTENT, Status};
use super::{Facts, Next, Todo};
use crate::kind::Kind;
use crate::notice::Notice;

/// The least share of what was promised that a node may have, in percent, as in Karpenter.
const LEAST_PERCENT: i64 = 90;

/// What a node lacks of what its NodeClaim says it has, in words; empty where it lacks nothing.
pub(super) fn missing(facts: &Facts<'_>) -> String {
    let Some(capacity) = facts.node().and_then(|node| node.status.as_ref()?.capacity.as_ref()) else {
        return String::new();
    };
    let asked = &facts.claim.spec.resources.requests;
    let promised = facts.status().capacity.iter().filter(|(name, _)| asked.contains_key(*name));
    let lacking = promised.filter_map(|(name, promised)| {
        let found = capacity.get(name).map_or("0", |amount| amount.0.as_str());
        let has = found.parse::<berth_quantity::Quantity>().ok()?.milli_ceil()?;
        let wanted = promised.milli_ceil().filter(|wanted| *wanted > 0)?;
        let is_less = i128::from(has) * 100 < i128::from(wanted) * i128::from(LEAST_PERCENT);
        let percent = i128::from(has) * 100 / i128::from(wanted);
        is_less.then(|| format!("expected {promised} of resource {name}, but found {found} ({percent}% of expected)"))
    });
    lacking.collect::<Vec<_>>().join("; ")
}

/// Tells that the node is not, or is again, what was promised; else `todo`.
pub(super) fn step(facts: &Facts<'_>, todo: Todo) -> Todo {
    if matches!(todo.next, Next::Write(_)) {
        return todo;
    }
    let missing = missing(facts);
    let known = conditions::get(&facts.status().conditions, CONSISTENT);
    if missing.is_empty() {
        // Said with the initialisation; a write of its own only where it was not so.
        let was_missing = known.is_some_and(|known| known.status == "False");
        let again = was_missing.then(|| facts.condition(CONSISTENT, Status::True, CONSISTENT, "")).flatten();
        return again.map_or(todo, Todo::write);
    }
    match (facts.condition(CONSISTENT, Status::False, "ConsistencyCheckFailed", &missing), facts.node()) {
        (Some(write), Some(node)) => {
            let notice = Notice::about(Kind::Node, &node.metadata, "FailedConsistencyCheck", missing);
            Todo { next: Next::Write(Box::new(write)), ..todo }.telling(notice)
        }
        _ => todo,
    }
}
