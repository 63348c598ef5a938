//! What a queue that is worked off knows beside tables, ledger and caches: whom it expects where, and who comes again. Only the
//! queue and those who make pods give way change it; between two queues there is nothing in it.

use berth_model::ClassId;

use super::expected::Expectations;
use super::first::First;
use super::replace::Replacements;

/// How the queue is worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, each on or off")]
pub struct Queue {
    /// Whether pods may make room by preemption. Those that come in place of who gave way are queued, too, if the universe
    /// knows their class (see [`super::expect_replacements`]).
    pub preempts: bool,
    /// Whether pods that a PodDisruptionBudget does not let go now never give way, as where evictions go through the API.
    /// kube-scheduler prefers others, and takes them if it must.
    pub keeps_budgets: bool,
    /// Whether the first pods of a self-affinity are placed only if all of them find room where the first goes, and
    /// else left to who can make more room.
    pub keeps_homes_whole: bool,
    /// Whether a pod may be placed on the node that it is nominated to, or on which it preempts others, before the pods
    /// that are being deleted there have gone, as in a plan: nothing is to be launched for it. Whoever binds must wait.
    pub counts_on_terminating: bool,
    /// Whether those who are expected on nodes come there before anybody else, whatever the priority of these.
    pub expected_first: bool,
}

/// What a queue that is worked off knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Intake {
    pub(super) expectations: Expectations,
    /// Whether the room of those who are expected is held against others now.
    pub(super) keeps_expected_room: bool,
    /// Pods that come before others of their priority.
    pub(super) first: First,
    /// Pods that come in place of those that gave way.
    pub(super) replacements: Replacements,
    /// Those who had their turn and did not come to where room was made for them.
    pub(super) unseated: Vec<(ClassId, usize)>,
    /// Whether pods may be placed where they count on the room of pods that are being deleted, as in a plan.
    pub(super) counts_on_terminating: bool,
}
