//! How many nodes of a NodePool may be disrupted now, by its budgets.

use berth_api::{Budget, DisruptionReason, NodePool};
use berth_schedule::{Schedule, zone_of};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// On a NodePool: the time zone of its budgets' schedules, by its name in the IANA's database; without, UTC. Karpenter's
/// schema has no field for it.
pub const BUDGET_TIME_ZONE: &str = "berth.sh/budget-time-zone";

/// The nodes of a NodePool, as its budgets count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolNodes {
    /// All that are initialised.
    pub total: usize,
    /// Those that are going or not ready: they are off already.
    pub off: usize,
}

/// The budgets of a NodePool, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    all: Vec<Known>,
}

/// A budget that cannot be read. Until it is mended nothing of its NodePool is disrupted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BudgetError {
    /// The field, such as `spec.disruption.budgets[1].schedule`, or the annotation.
    pub field: String,
    /// What was found and what was expected.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    most: Most,
    reasons: Vec<DisruptionReason>,
    /// Times of a schedule and how long it holds from each; `None` holds always.
    window: Option<(Schedule, SignedDuration, TimeZone)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Most {
    Nodes(usize),
    Percent(usize),
}

// === impl Budgets ===

impl Budgets {
    /// Reads the budgets of a NodePool.
    ///
    /// # Errors
    /// The first budget, or the time zone, that cannot be read.
    pub fn of(pool: &NodePool) -> Result<Self, BudgetError> {
        let zone = time_zone(pool)?;
        let all = pool.spec.disruption.budgets.iter().enumerate();
        let all: Result<Vec<Known>, BudgetError> = all.map(|(at, budget)| Known::of(at, budget, &zone)).collect();
        all.map(|all| Budgets { all }).map_err(|error| as_validated(pool, error))
    }

    /// How many more nodes may be disrupted for a reason: the strictest budget that is active counts, as in Karpenter.
    /// Without any it is `usize::MAX`.
    pub fn allowed(&self, reason: DisruptionReason, nodes: PoolNodes, now: Timestamp) -> usize {
        let most = self.active(reason, now).map(|(_, budget)| budget.most.of(nodes.total)).min().unwrap_or(usize::MAX);
        if most == usize::MAX { most } else { most.saturating_sub(nodes.off) }
    }

    /// The budget that counts for a reason, by its place in the list: the first of the strictest that are active.
    pub(crate) fn strictest(&self, reason: DisruptionReason, nodes: PoolNodes, now: Timestamp) -> Option<usize> {
        self.active(reason, now).min_by_key(|(_, budget)| budget.most.of(nodes.total)).map(|(at, _)| at)
    }

    fn active(&self, reason: DisruptionReason, now: Timestamp) -> impl Iterator<Item = (usize, &Known)> {
        self.all.iter().enumerate().filter(move |(_, budget)| budget.is_about(reason) && budget.is_active(now))
    }
}

/// The same in the words of the NodePool's validation, where that has any for the field: a fault is told in one wording.
fn as_validated(pool: &NodePool, error: BudgetError) -> BudgetError {
    let known = pool.validate().into_iter().find(|known| known.path == error.field);
    known.map_or(error, |known| BudgetError { field: known.path, message: known.message })
}

fn time_zone(pool: &NodePool) -> Result<TimeZone, BudgetError> {
    let annotations = pool.metadata.annotations.as_ref();
    let Some(name) = annotations.and_then(|all| all.get(BUDGET_TIME_ZONE)) else { return Ok(TimeZone::UTC) };
    let zone = if name.is_empty() { None } else { zone_of(name) };
    zone.ok_or_else(|| BudgetError {
        field: format!("metadata.annotations[{BUDGET_TIME_ZONE}]"),
        message: format!("expected a time zone such as Europe/Berlin, found {name:?}"),
    })
}

// === impl Known ===

impl Known {
    fn of(at: usize, budget: &Budget, zone: &TimeZone) -> Result<Self, BudgetError> {
        let wrong = |field: &str, expected: String, found: &str| BudgetError {
            field: format!("spec.disruption.budgets[{at}].{field}"),
            message: format!("expected {expected}, found {found:?}"),
        };
        let most = Most::parse(&budget.nodes).ok_or_else(|| {
            wrong("nodes", "a number of nodes, or a percentage from 0% to 100%".to_owned(), &budget.nodes)
        })?;
        let window = match (&budget.schedule, &budget.duration) {
            (None, None) => None,
            (Some(schedule), Some(duration)) => {
                let text = duration.as_str();
                let positive = duration.to_std().filter(|duration| !duration.is_zero());
                let duration = positive.and_then(|duration| SignedDuration::try_from(duration).ok());
                let duration =
                    duration.ok_or_else(|| wrong("duration", "a time above zero such as 8h".to_owned(), text))?;
                let times = Schedule::parse(schedule)
                    .map_err(|why| wrong("schedule", format!("five fields of cron ({why})"), schedule))?;
                Some((times, duration, zone.clone()))
            }
            (Some(_), None) => return Err(wrong("duration", "one beside a schedule".to_owned(), "")),
            (None, Some(duration)) => {
                return Err(wrong("schedule", "one beside a duration".to_owned(), duration.as_str()));
            }
        };
        Ok(Known { most, reasons: budget.reasons.clone(), window })
    }

    fn is_about(&self, reason: DisruptionReason) -> bool {
        self.reasons.is_empty() || self.reasons.contains(&reason)
    }

    /// Whether it holds now: always without a schedule, else for its duration from each time of its schedule.
    fn is_active(&self, now: Timestamp) -> bool {
        let Some((schedule, duration, zone)) = &self.window else { return true };
        // The first time after the beginning of the window; one at its very beginning is over now.
        let Ok(since) = now.checked_sub(*duration) else { return true };
        schedule.next(since, zone).is_some_and(|first| first <= now)
    }
}

// === impl Most ===

impl Most {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<usize>().ok())??;
        if text.ends_with('%') { (number <= 100).then_some(Most::Percent(number)) } else { Some(Most::Nodes(number)) }
    }

    /// Of so many nodes; shares are rounded up.
    fn of(self, total: usize) -> usize {
        match self {
            Most::Nodes(nodes) => nodes,
            Most::Percent(percent) => total.saturating_mul(percent).div_ceil(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pool(budgets: &Value, zone: Option<&str>) -> NodePool {
        let annotations = zone.map(|zone| json!({BUDGET_TIME_ZONE: zone}));
        let text = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"template": {"spec": {"requirements": []}}, "disruption": {"budgets": budgets}}});
        serde_json::from_value(text).unwrap()
    }

    fn allowed(budgets: &Value, zone: Option<&str>, (total, off): (usize, usize), now: &str) -> usize {
        let budgets = Budgets::of(&pool(budgets, zone)).unwrap();
        budgets.allowed(DisruptionReason::Empty, PoolNodes { total, off }, now.parse().unwrap())
    }

    const NOON: &str = "2026-01-01T12:00:00Z";

    #[rstest]
    #[case::share_rounds_up(json!([{"nodes": "10%"}]), (5, 0), 1)]
    #[case::share_of_nineteen(json!([{"nodes": "20%"}]), (19, 0), 4)]
    #[case::what_is_off_counts(json!([{"nodes": "50%"}]), (10, 2), 3)]
    #[case::never_below_zero(json!([{"nodes": "1"}]), (10, 4), 0)]
    #[case::the_strictest_counts(json!([{"nodes": "50%"}, {"nodes": "2"}]), (10, 0), 2)]
    #[case::of_another_reason(json!([{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "3"}]), (10, 0), 3)]
    #[case::of_this_reason_too(json!([{"nodes": "0", "reasons": ["Drifted", "Empty"]}, {"nodes": "3"}]), (10, 0), 0)]
    #[case::none(json!([]), (10, 3), usize::MAX)]
    #[case::all(json!([{"nodes": "100%"}]), (7, 0), 7)]
    fn a_budget_allows(#[case] budgets: Value, #[case] nodes: (usize, usize), #[case] expected: usize) {
        assert_eq!(allowed(&budgets, None, nodes, NOON), expected);
    }

    // Karpenter's own example: no disruption in the first ten minutes of each day.
    #[rstest]
    #[case(None, "2026-01-01T23:59:59Z", 10)]
    #[case(None, "2026-01-02T00:00:00Z", 0)]
    #[case(None, "2026-01-02T00:09:59Z", 0)]
    #[case(None, "2026-01-02T00:10:00Z", 10)]
    // Midnight in Berlin is an hour earlier, in summer two.
    #[case(Some("Europe/Berlin"), "2026-01-01T23:05:00Z", 0)]
    #[case(Some("Europe/Berlin"), "2026-01-02T00:05:00Z", 10)]
    #[case(Some("Europe/Berlin"), "2026-07-01T22:05:00Z", 0)]
    fn a_schedule_opens_and_closes_by_its_zone(#[case] zone: Option<&str>, #[case] now: &str, #[case] expected: usize) {
        let budgets = json!([{"nodes": "10"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}]);
        assert_eq!(allowed(&budgets, zone, (100, 0), now), expected);
    }

    #[rstest]
    #[case(json!([{"nodes": "many"}]), None, "spec.disruption.budgets[0].nodes", "many")]
    #[case(json!([{"nodes": "101%"}]), None, "spec.disruption.budgets[0].nodes", "101%")]
    #[case(json!([{"nodes": "1"}, {"nodes": "1", "schedule": "0 9 * *", "duration": "1h"}]), None,
        "spec.disruption.budgets[1].schedule", "0 9 * *")]
    #[case(json!([{"nodes": "1", "schedule": "@daily"}]), None, "spec.disruption.budgets[0].duration", "found only 'schedule'")]
    #[case(json!([{"nodes": "1", "duration": "1h0m"}]), None, "spec.disruption.budgets[0].schedule", "found only 'duration'")]
    #[case(json!([{"nodes": "1"}]), Some("Mars/Olympus"), "metadata.annotations[berth.sh/budget-time-zone]", "Mars/Olympus")]
    #[case(json!([{"nodes": "1"}]), Some(""), "metadata.annotations[berth.sh/budget-time-zone]", "")]
    fn what_cannot_be_read_is_told_by_field(
        #[case] budgets: Value,
        #[case] zone: Option<&str>,
        #[case] field: &str,
        #[case] found: &str,
    ) {
        let error = Budgets::of(&pool(&budgets, zone)).unwrap_err();
        assert!(error.field == field && error.message.contains(found), "{error}");
    }

    /// The regression: a schedule was told in other words than those of the NodePool's validation.
    #[test]
    fn a_budget_that_cannot_be_read_is_told_as_validation_tells_it() {
        let budgets = json!([{"nodes": "1"}, {"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]);
        let pool = pool(&budgets, None);
        let validated: Vec<String> = pool.validate().iter().map(ToString::to_string).collect();
        let told = Budgets::of(&pool).unwrap_err().to_string();
        assert!(validated.contains(&told), "{told}: {validated:?}");
        assert!(
            told.starts_with("spec.disruption.budgets[1].schedule: schedule \"0 25 * * *\": the hour is"),
            "{told}"
        );
    }
}
