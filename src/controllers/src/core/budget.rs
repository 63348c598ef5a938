//! How many nodes of a NodePool may be disrupted now, by its budgets.

use std::time::Duration;

use berth_api::{Budget, DisruptionReason};
use berth_schedule::Schedule;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// The nodes of a NodePool, as its budgets count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// All that are initialised.
    pub(crate) total: usize,
    /// Those that are going or not ready: they are off already.
    pub(crate) off: usize,
}

/// How many more nodes may be disrupted for a reason: the strictest budget that is active counts. A budget that cannot
/// be read allows none.
pub(crate) fn allowed(budgets: &[Budget], reason: DisruptionReason, nodes: Nodes, now: Timestamp) -> usize {
    let active = budgets
        .iter()
        .filter(|budget| budget.reasons.is_empty() || budget.reasons.contains(&reason))
        .filter(|budget| is_active(budget, now));
    let most = active.map(|budget| share(&budget.nodes, nodes.total)).min().unwrap_or(usize::MAX);
    most.saturating_sub(nodes.off)
}

/// A number, or a share of all nodes, rounded up.
fn share(text: &str, total: usize) -> usize {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<usize>().map_or(0, |percent| (total.saturating_mul(percent)).div_ceil(100)),
        None => text.parse().unwrap_or(0),
    }
}

/// Whether a budget holds now: always without a schedule, else for its duration from each time of its schedule. One
/// whose schedule cannot be read holds always.
fn is_active(budget: &Budget, now: Timestamp) -> bool {
    let (Some(schedule), Some(duration)) = (&budget.schedule, &budget.duration) else { return true };
    let Some(duration) = duration.to_std() else { return true };
    began(schedule, duration, now).unwrap_or(true)
}

/// Whether a time of the schedule lies in the last `duration`.
fn began(schedule: &str, duration: Duration, now: Timestamp) -> Option<bool> {
    let schedule = Schedule::parse(schedule).ok()?;
    let duration = SignedDuration::try_from(duration).ok()?;
    // The first time after the beginning of the window; one at its very beginning is over now.
    let first = schedule.next(now.checked_sub(duration).ok()?, &TimeZone::UTC);
    Some(first.is_some_and(|first| first <= now))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn allow(budgets: Value, total: usize, off: usize, now: &str) -> usize {
        let budgets: Vec<Budget> = serde_json::from_value(budgets).unwrap();
        allowed(&budgets, DisruptionReason::Empty, Nodes { total, off }, now.parse().unwrap())
    }

    const NOON: &str = "2026-01-01T12:00:00Z";

    #[rstest]
    #[case::share_rounds_up(json!([{"nodes": "10%"}]), 5, 0, 1)]
    #[case::what_is_off_counts(json!([{"nodes": "50%"}]), 10, 2, 3)]
    #[case::never_below_zero(json!([{"nodes": "1"}]), 10, 4, 0)]
    #[case::the_strictest_counts(json!([{"nodes": "50%"}, {"nodes": "2"}]), 10, 0, 2)]
    #[case::of_another_reason(json!([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "3"}]), 10, 0, 3)]
    #[case::none(json!([]), 10, 0, usize::MAX)]
    fn a_budget_allows(#[case] budgets: Value, #[case] total: usize, #[case] off: usize, #[case] expected: usize) {
        assert_eq!(allow(budgets, total, off, NOON), expected);
    }

    #[rstest]
    #[case("2026-01-01T08:59:59Z", usize::MAX)]
    #[case("2026-01-01T09:00:00Z", 0)]
    #[case("2026-01-01T16:59:59Z", 0)]
    #[case("2026-01-01T17:00:00Z", usize::MAX)]
    fn a_schedule_opens_and_closes(#[case] now: &str, #[case] expected: usize) {
        let budgets = json!([{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]);
        assert_eq!(allow(budgets, 10, 0, now), expected);
        let daily = json!([{"nodes": "0", "schedule": "@daily", "duration": "24h"}]);
        assert_eq!(allow(daily, 10, 0, now), 0);
    }
}
