//! A look at the nodes: what disruption would do. Where there are threads it is found aside from the loop that takes in events
//! and binds pods, by a copy of the state; what it finds is decided anew before anything is launched, see [`super::command`].

use berth_decisions::{DecideError, Decider};
use berth_disruption::{Disruption, Options};
use berth_state::State;
use jiff::Timestamp;

/// What is looked at, and how.
#[derive(Debug)]
pub(crate) enum Look {
    /// To be found in another thread, which converts the cluster.
    Aside(Box<State>, Box<Options>, Timestamp, tracing::Span),
    /// Found already, where everything takes turns.
    Had(Box<Disruption>),
    /// Nothing can be decided yet.
    Failed(DecideError),
}

/// What was found; `None` where the search broke off.
pub(crate) type Found = Option<Result<Disruption, DecideError>>;

// === impl Look ===

impl Look {
    /// Of what there is now, at once: nothing is copied, and the state is left as it was.
    pub(super) fn at_once(state: &mut State, decider: &mut Decider, options: &Options, now: Timestamp) -> Self {
        match berth_disruption::disrupt_with(state, decider, options, now) {
            Ok(found) => Look::Had(Box::new(found)),
            Err(error) => Look::Failed(error),
        }
    }

    /// Looks. May take long.
    pub(crate) fn run(self) -> Result<Disruption, DecideError> {
        match self {
            Look::Had(found) => Ok(*found),
            Look::Failed(error) => Err(error),
            Look::Aside(mut state, options, now, span) => {
                span.in_scope(|| berth_disruption::disrupt(&mut state, &options, now))
            }
        }
    }
}
