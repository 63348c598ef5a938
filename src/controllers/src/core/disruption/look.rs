//! A look at the nodes: what disruption would do, found aside from the loop that takes in events and binds pods. It asks a
//! copy of the state; what it finds is decided anew before anything is launched, see [`super::command`].

use berth_decisions::DecideError;
use berth_disruption::{Disruption, Options};
use berth_state::State;
use jiff::Timestamp;

/// What is looked at, and how.
#[derive(Debug)]
pub(crate) struct Look {
    state: State,
    options: Options,
    now: Timestamp,
}

/// What was found; `None` where the search broke off.
pub(crate) type Found = Option<Result<Disruption, DecideError>>;

// === impl Look ===

impl Look {
    /// Of what there is now. Who looks in another thread has the cluster converted there; who takes turns has it copied.
    pub(super) fn new(state: &State, options: Options, is_aside: bool, now: Timestamp) -> Self {
        let state = if is_aside { state.snapshot() } else { state.snapshot_converted() };
        Look { state, options, now }
    }

    /// Looks. May take long.
    pub(crate) fn run(mut self) -> Result<Disruption, DecideError> {
        let span = tracing::info_span!("disrupting");
        let _entered = span.enter();
        berth_disruption::disrupt(&mut self.state, &self.options, self.now)
    }
}
