//! What if one node went: what becomes of each of its pods, what that would save, and what would have to change first.

use berth_decisions::{DecideError, Decider, Launch};
use berth_state::{ObjectRef, State, Time};

use crate::Options;
use crate::pending::{note_waiting, what_if_beside};
use crate::prices::Prices;
use crate::reason::Reason;
use crate::simulate;
use crate::survey::Survey;
use crate::verdict::{Verdict, kept, told};

/// What would come of removing a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// What keeps the node whatever would become of its pods; empty where nothing does.
    pub kept: Vec<Reason>,
    /// Whether its removal would pay, that aside.
    pub verdict: Verdict,
    /// Pods that find other nodes that are up, with these.
    pub moves: Vec<(ObjectRef, ObjectRef)>,
    /// Pods that find none.
    pub left: Vec<ObjectRef>,
    /// What would be launched for them.
    pub launches: Vec<Launch>,
}

/// What would come of removing a node; `None` where no node of a NodePool has this name.
///
/// # Errors
/// The state does not know every kind yet.
pub fn removal(state: &mut State, node: &str, options: &Options, now: Time) -> Result<Option<Removal>, DecideError> {
    let options = options.for_what_ifs();
    let prices = Prices::of(state.cluster(now));
    let mut survey = Survey::of(state, &prices, &options, now);
    let mut decider = Decider::new();
    note_waiting(&mut survey, (&mut *state, &mut decider), &options, &prices, now)?;
    let Some(candidate) = survey.candidates.iter().find(|candidate| *candidate.node.key.name == *node) else {
        return Ok(None);
    };
    let (mut moves, mut left) = (Vec::new(), Vec::new());
    if let Some(found) = decider.without_node(state, node, now)? {
        moves.extend(found.moves().map(|(pod, node)| (found.pod_ref(pod), found.node_ref(node))));
        left.extend(found.left().map(|pod| found.pod_ref(pod)));
    }
    let found = what_if_beside((&mut *state, &mut decider), &[candidate], &options.decisions, &prices, now)?;
    let launches = match &found {
        simulate::Verdict::Fails(_) => Vec::new(),
        simulate::Verdict::Fits(replacement) => {
            // Beside those who wait or move already, its pods may go elsewhere than they would alone.
            moves = replacement.moves.iter().map(|to| (to.object.clone(), to.node.clone())).collect();
            left.clear();
            replacement.launches.clone()
        }
    };
    let verdict = told((state, &mut decider), candidate, found, &options, (&prices, &survey), now)?;
    let mut kept = kept(candidate);
    kept.extend(survey.refused_by_budgets(candidate, now));
    Ok(Some(Removal { kept, verdict, moves, left, launches }))
}
