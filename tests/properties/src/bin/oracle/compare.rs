//! One case planned by both, and which plan is worse.

use std::collections::BTreeSet;

use berth_checker::Case;
use serde_json::Value;

use crate::decisions::{Both, Decision, explain};
use crate::outcome::{Outcome, as_plan, priorities};
use crate::peer::Peer;

/// Prices that differ by less are the same, in US dollars per hour.
const SAME_COST: f64 = 1e-9;

/// Berth's plan beside Karpenter's.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// Fewer pods at a priority, and no more at any higher one.
    Fewer,
    /// The same pods at a higher cost.
    Dearer,
    /// As many pods at each priority, though not the same ones: their costs do not compare.
    OtherPods,
    Equal,
    Cheaper,
    /// More pods at a priority, and no fewer at any higher one.
    More,
}

impl Verdict {
    /// Whether Berth owes an explanation.
    pub(crate) fn is_worse(self) -> bool {
        matches!(self, Self::Fewer | Self::Dearer)
    }

    /// The heading in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fewer => "fewer pods",
            Self::Dearer => "dearer",
            Self::OtherPods => "as many, other pods",
            Self::Equal => "equal",
            Self::Cheaper => "cheaper",
            Self::More => "more pods",
        }
    }
}

/// What came of one case.
pub(crate) struct Comparison {
    pub(crate) verdict: Verdict,
    pub(crate) decision: Option<Decision>,
    pub(crate) berth: Outcome,
    pub(crate) peer: Outcome,
}

impl Comparison {
    /// Worse, and no decision says why.
    pub(crate) fn is_unexplained(&self) -> bool {
        self.verdict.is_worse() && self.decision.is_none()
    }
}

/// Plans the case with both; an error if either refuses it.
pub(crate) fn compare(peer: &mut Peer, case: &Case) -> anyhow::Result<Comparison> {
    let plan: Value =
        berth_plan::plan_documents(&case.objects, Some(&case.catalogue), &berth_plan::Options::default())?;
    let report = peer.solve(case)?;
    let (ours, theirs) = (Outcome::of_plan(&plan), Outcome::of_report(&report));
    let verdict = verdict(case, &ours, &theirs);
    let peer_plan = as_plan(case, &report);
    let both = Both { case, verdict, berth: &ours, peer: &theirs, berth_plan: &plan, peer_plan: &peer_plan };
    let decision = if verdict.is_worse() { explain(&both) } else { None };
    Ok(Comparison { verdict, decision, berth: ours, peer: theirs })
}

/// Pods by priority from the highest, then cost.
pub(crate) fn verdict(case: &Case, berth: &Outcome, peer: &Outcome) -> Verdict {
    let priorities = priorities(case);
    let (ours, theirs) = (berth.placed(), peer.placed());
    let levels: BTreeSet<i64> = priorities.values().copied().collect();
    for level in levels.iter().rev() {
        let at_level = |pod: &&&str| priorities.get(**pod) == Some(level);
        let (ours, theirs) = (ours.keys().filter(at_level).count(), theirs.keys().filter(at_level).count());
        if ours != theirs {
            return if ours > theirs { Verdict::More } else { Verdict::Fewer };
        }
    }
    let saved = peer.cost - berth.cost;
    if saved.abs() < SAME_COST {
        Verdict::Equal
    } else if !ours.keys().eq(theirs.keys()) {
        Verdict::OtherPods
    } else if saved > 0.0 {
        Verdict::Cheaper
    } else {
        Verdict::Dearer
    }
}
