//! Which pods go first where a workload has more than it wants, as kube-controller-manager's `ActivePodsWithRanks` says.
//!
//! It decides the order alone: how many go, and which pods a workload has, is for others to say. Pods of one [`Rank`] go by
//! whatever the caller orders them by next: kube-controller-manager takes their UIDs.
//!
//! ```
//! use berth_surplus::{Standing, deletion_cost};
//!
//! let cheap = Standing { cost: deletion_cost(Some("-5")), ..Standing::default() };
//! assert!(cheap.rank(0, None) < Standing::default().rank(0, None));
//! ```

use std::cmp::Reverse;

use jiff::Timestamp;

/// The annotation of a pod that says how late it goes.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How far a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It waits, or says nothing.
    #[default]
    Pending,
    /// Nothing is heard of it.
    Unknown,
    /// It runs.
    Running,
}

/// What decides when a pod goes, beside the other pods of its workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether it has a node.
    pub is_bound: bool,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Its [`deletion_cost`].
    pub cost: i32,
    /// How often the container that restarted most did.
    pub restarts: u32,
    /// Since when it has been ready or, where it is not, been there.
    pub since: Option<Timestamp>,
}

/// A place in the order: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    is_bound: bool,
    phase: Phase,
    is_ready: bool,
    cost: i32,
    beside: Reverse<usize>,
    restarts: Reverse<u32>,
    age: Age,
}

/// The younger first. What does not say since when is the youngest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Unsaid,
    /// Powers of two of nanoseconds.
    Log(u32),
    Since(Reverse<Timestamp>),
}

// === impl Phase ===

impl Phase {
    /// The phase of that name.
    pub fn of(name: Option<&str>) -> Self {
        match name {
            Some("Running") => Phase::Running,
            Some("Unknown") => Phase::Unknown,
            _ => Phase::Pending,
        }
    }
}

// === impl Standing ===

impl Standing {
    /// The pod's place: those without a node go first, then those that wait, that are not ready, that cost less, that share
    /// their node with more pods of the workload (`beside`), that restarted most (of pods that are not ready), that are
    /// younger. With a time ages are compared by powers of two, as ReplicaSets do, else exactly, as Jobs do.
    pub fn rank(&self, beside: usize, now: Option<Timestamp>) -> Rank {
        let age = match (self.since, now) {
            (None, _) => Age::Unsaid,
            (Some(since), Some(now)) => {
                let nanos = u128::try_from(now.duration_since(since).as_nanos()).ok();
                Age::Log(nanos.and_then(u128::checked_ilog2).map_or(0, |log| log + 1))
            }
            (Some(since), None) => Age::Since(Reverse(since)),
        };
        Rank {
            is_bound: self.is_bound,
            phase: self.phase,
            is_ready: self.is_ready,
            cost: self.cost,
            beside: Reverse(beside),
            restarts: Reverse(if self.is_ready { 0 } else { self.restarts }),
            age,
        }
    }
}

/// What [`DELETION_COST`] says; 0 where it is not there, or not a number as Kubernetes takes it.
pub fn deletion_cost(annotation: Option<&str>) -> i32 {
    let is_taken = |text: &&str| *text == "0" || text.starts_with(|first| matches!(first, '-' | '1'..='9'));
    annotation.filter(is_taken).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn ready() -> Standing {
        Standing {
            is_bound: true,
            phase: Phase::Running,
            is_ready: true,
            since: Timestamp::from_second(1_000).ok(),
            ..Standing::default()
        }
    }

    fn ready_at(second: i64) -> Standing {
        Standing { since: Timestamp::from_second(second).ok(), ..ready() }
    }

    #[rstest]
    #[case::without_a_node(Standing { is_bound: false, cost: 9, ..ready() }, 0)]
    #[case::waiting(Standing { phase: Phase::Pending, cost: 9, ..ready() }, 0)]
    #[case::unheard_of(Standing { phase: Phase::Unknown, cost: 9, ..ready() }, 0)]
    #[case::not_ready(Standing { is_ready: false, cost: 9, ..ready() }, 0)]
    #[case::cheaper(Standing { cost: -1, ..ready_at(1) }, 0)]
    #[case::beside_others(ready_at(1), 2)]
    #[case::younger(ready_at(1_900), 1)]
    #[case::of_unknown_age(Standing { since: None, ..ready() }, 1)]
    fn goes_before_a_pod_that_runs_beside_one(#[case] standing: Standing, #[case] beside: usize) {
        for now in [None, Timestamp::from_second(2_000).ok()] {
            assert!(standing.rank(beside, now) < ready().rank(1, now), "{now:?}");
        }
    }

    #[test]
    fn restarts_count_among_pods_that_are_not_ready() {
        let restarted = Standing { restarts: 3, ..ready() };
        assert_eq!(restarted.rank(0, None), ready().rank(0, None));
        let waiting = Standing { is_ready: false, ..ready() };
        assert!(Standing { restarts: 3, ..waiting }.rank(0, None) < waiting.rank(0, None));
    }

    #[test]
    fn ages_are_compared_by_powers_of_two_where_a_time_is_given() {
        let (a, b) = (ready_at(1_000), ready_at(1_001));
        assert_eq!(a.rank(0, Timestamp::from_second(2_000).ok()), b.rank(0, Timestamp::from_second(2_000).ok()));
        assert!(b.rank(0, None) < a.rank(0, None));
    }

    #[rstest]
    #[case(Some("-2147483648"), i32::MIN)]
    #[case(Some("100"), 100)]
    #[case(Some("+5"), 0)]
    #[case(Some("05"), 0)]
    #[case(Some("3000000000"), 0)]
    #[case(Some("a lot"), 0)]
    #[case(None, 0)]
    fn a_cost_is_read_as_kubernetes_reads_it(#[case] text: Option<&str>, #[case] cost: i32) {
        assert_eq!(deletion_cost(text), cost);
    }
}
