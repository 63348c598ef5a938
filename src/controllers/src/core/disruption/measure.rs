//! What is counted of disruption, with Karpenter's labels.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{ConsolidationPolicy, DisruptionReason, NodeClaim};
use berth_disruption::{Disruption, Method, Why};

use super::{Command, Phase};
use crate::claim::fault;
use crate::core::Core;
use crate::metrics::Counter;
use crate::notice::Notice;
use crate::view::pool_of;

/// The reasons that budgets and metrics know, and their words.
pub(in crate::core) const REASONS: [(DisruptionReason, &str); 3] = [
    (DisruptionReason::Drifted, "drifted"),
    (DisruptionReason::Empty, "empty"),
    (DisruptionReason::Underutilized, "underutilized"),
];

/// What nodes are looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LooksFor {
    /// Whatever can go or be replaced.
    All,
    /// Empty nodes alone.
    Empty,
}

// === impl LooksFor ===

impl LooksFor {
    /// The word that metrics have for it, as reason and as type of consolidation.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Empty => "empty",
        }
    }
}

const fn word(reason: DisruptionReason) -> &'static str {
    match reason {
        DisruptionReason::Drifted => "drifted",
        DisruptionReason::Empty => "empty",
        DisruptionReason::Underutilized => "underutilized",
    }
}

/// How Karpenter calls the sort of consolidation; drift is none.
const fn consolidation_type(method: Method) -> &'static str {
    match method {
        Method::Emptiness => "empty",
        Method::Drift | Method::DriftInSlot => "",
        Method::MultiNodeConsolidation => "multi",
        Method::SingleNodeConsolidation => "single",
    }
}

const fn decision(n_launched: usize) -> &'static str {
    if n_launched > 0 { "replace" } else { "delete" }
}

/// How many nodes each reason could take, as a look found: those that make way for it, and, of those that were compared with
/// something cheaper, those that stay.
pub(super) fn eligible(found: &Disruption) -> BTreeMap<&'static str, usize> {
    let mut all: BTreeMap<&'static str, usize> = REASONS.iter().map(|(_, word)| (*word, 0)).collect();
    for command in &found.commands {
        *all.entry(word(command.method.reason())).or_default() += command.nodes.len();
    }
    let considered = found.kept.iter().filter(|kept| matches!(kept.why, Why::Budget | Why::Unconsolidatable)).count();
    *all.entry(word(DisruptionReason::Underutilized)).or_default() += considered;
    all
}

impl Core {
    /// A command was decided anew, and is carried out now.
    pub(super) fn count_decided(&mut self, command: &Command, n_launched: usize) {
        let (decision, reason) = (decision(n_launched), word(command.method.reason()));
        let of_type = ("consolidation_type", consolidation_type(command.method));
        self.counts.add(Counter::Disruptions, &[of_type, ("decision", decision), ("reason", reason)]);
        let claims = command.nodes.iter().filter_map(|going| self.view.claims.get(&going.claim));
        let pools: BTreeSet<String> = claims.filter_map(|claim| pool_of(&claim.metadata).map(str::to_owned)).collect();
        for pool in &pools {
            let labels = [of_type, ("decision", decision), ("nodepool", pool.as_str()), ("reason", reason)];
            self.counts.add(Counter::DisruptionsByPool, &labels);
        }
    }

    /// Nothing came of a command.
    pub(super) fn count_rolled_back(&mut self, command: &Command) {
        let of_type = ("consolidation_type", consolidation_type(command.method));
        match command.phase {
            Phase::Tainting | Phase::Settling(_) => {
                self.counts.add_many(Counter::DisruptionsInvalid, &[of_type], command.nodes.len());
            }
            Phase::Waiting(..) | Phase::Leaving => {
                let (decision, reason) = (decision(command.replacements.len()), word(command.method.reason()));
                self.counts.add(Counter::DisruptionsFailed, &[of_type, ("decision", decision), ("reason", reason)]);
            }
        }
    }

    /// A look at all nodes is over.
    pub(super) fn count_look(&mut self, found: &Disruption) {
        for of_type in ["multi", "single"] {
            // Several nodes together come first.
            let was_at_single = !found.asked.is_empty();
            let is_it = found.is_cut_off && was_at_single == (of_type == "single");
            self.counts.add_many(Counter::LooksCutOff, &[("consolidation_type", of_type)], usize::from(is_it));
        }
    }

    /// The same of one whose node is broken.
    fn count_unhealthy(&mut self, claim: &NodeClaim, node: &str) {
        let policies = self.provider.repair_policies();
        let fault = self.view.nodes.get(node).and_then(|node| fault(node, &policies));
        let condition = fault.map(|fault| snake_case(fault.condition())).unwrap_or_default();
        let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
        let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref()).unwrap_or_default();
        let labels = [
            ("capacity_type", label(berth_api::labels::CAPACITY_TYPE)),
            ("condition", &*condition),
            ("image_id", image),
            ("nodepool", label(berth_api::labels::NODEPOOL)),
        ];
        self.counts.add(Counter::NodeClaimsUnhealthy, &labels);
    }

    /// A NodeClaim is about to be deleted so that its node goes.
    pub(in crate::core) fn count_disrupted(&mut self, claim: &str, reason: &str) {
        let Some(claim) = self.view.claims.get(claim).cloned() else { return };
        let pool = pool_of(&claim.metadata).unwrap_or_default();
        let capacity_type = claim.metadata.labels.as_ref().and_then(|all| all.get(berth_api::labels::CAPACITY_TYPE));
        let is_consolidation = matches!(reason, "empty" | "underutilized");
        let policy = self.view.pools.get(pool).filter(|_| is_consolidation);
        let policy = policy.map_or("", |pool| match pool.spec.disruption.consolidation_policy {
            ConsolidationPolicy::WhenEmpty => "when_empty",
            ConsolidationPolicy::WhenEmptyOrUnderutilized => "when_empty_or_underutilized",
            ConsolidationPolicy::Balanced => "balanced",
        });
        let mode = match claim.spec.termination_grace_period.as_ref().and_then(berth_api::GoDuration::to_std) {
            None => "graceful",
            Some(grace) if grace.is_zero() => "forceful",
            Some(_) => "eventual",
        };
        let labels = [
            ("capacity_type", capacity_type.map_or("", String::as_str)),
            ("consolidation_policy", policy),
            ("nodepool", pool),
            ("reason", reason),
            ("termination_mode", mode),
        ];
        let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        let moving = self.view.pods_on(node).filter(|pod| pod.has_to_move() && pod.deletion.is_none()).count();
        self.counts.add(Counter::NodeClaimsDisrupted, &labels);
        if reason == "unhealthy" {
            self.count_unhealthy(&claim, node);
        }
        self.counts.add_many(Counter::PodsDisrupted, &labels, moving);
    }
}

/// `DiskPressure` as `disk_pressure`, as Karpenter writes conditions in labels.
fn snake_case(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// The NodeClaim that a notice says is to go, and why, in a word: a label has few values.
pub(in crate::core) fn disrupted(notice: &Notice) -> Option<(&str, &'static str)> {
    if notice.object.kind != crate::kind::Kind::NodeClaim {
        return None;
    }
    let reason = match notice.reason {
        "DisruptionTerminating" => word(notice.disrupted_for?),
        "Expired" => "expired",
        "Repairing" => "unhealthy",
        "InstanceVanished" => "garbage_collected",
        "InsufficientCapacityError" => "insufficient_capacity",
        "NodeClassNotReady" => "nodeclass_not_ready",
        "LaunchTimeout" => "launch_timeout",
        "RegistrationTimeout" => "registration_timeout",
        "SpotInterrupted" => "spot_interrupted",
        "CapacityBlockEnding" => "capacity_block_ending",
        "ReservationReclaimed" => "reservation_reclaimed",
        "InstanceRetiring" => "instance_retiring",
        "ScaledDown" => "scaled_down",
        _ => return None,
    };
    Some((&notice.object.name, reason))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::kind::Kind;

    #[test]
    fn a_reason_is_one_of_few_words() {
        let metadata = ObjectMeta { name: Some("web-1".to_owned()), ..ObjectMeta::default() };
        let about = |kind, reason| Notice::about(kind, &metadata, reason, "told");
        let word = |notice: Notice| disrupted(&notice).map(|(_, reason)| reason);
        for (reason, expected) in REASONS {
            let of = |kind| about(kind, "DisruptionTerminating").disrupted_for(reason);
            assert_eq!(word(of(Kind::NodeClaim)), Some(expected));
            assert_eq!(word(of(Kind::Node)), None, "it is told of its NodeClaim, too");
        }
        assert_eq!(word(about(Kind::NodeClaim, "Expired")), Some("expired"));
        assert_eq!(word(about(Kind::NodeClaim, "FailedDraining")), None);
        assert_eq!((snake_case("Ready"), snake_case("DiskPressure")), ("ready".to_owned(), "disk_pressure".to_owned()));
    }
}
