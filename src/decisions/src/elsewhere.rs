//! Decisions that take long, made in another thread: the state goes on meanwhile, and what was decided is checked against what it
//! is by then.
//!
//! [`Replica::begin`] freezes a state: it costs what has changed since the last time. [`Problem::solve`] decides from that
//! alone. [`Solved::finish`] leaves out what does not hold any more, and says that it did.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_state::{ObjectRef, State, Time, Update};

use crate::Decider;
use crate::at_once::waiting_reservations;
use crate::decision::{DecideError, Decision};
use crate::options::{Options, expect_synced};
use crate::since::{Finished, Since};

/// A second state that follows a first one, and what is kept between the decisions that are made from it.
#[derive(Debug)]
pub struct Replica {
    state: State,
    decider: Decider,
    /// What the state that it follows had before it adopted something else: the next question begins with letting it go.
    left: Option<Box<Refreshed>>,
}

/// A state as it was when the problem was begun, whatever becomes of it. It may go to another thread.
#[derive(Debug)]
pub struct Problem {
    replica: Replica,
    update: Update,
}

/// What was decided from a frozen state.
#[derive(Debug)]
pub struct Solved {
    replica: Replica,
    decision: Result<Decision, DecideError>,
}

/// A converted cluster and a decider that knows it, made in another thread: see [`Problem::refresh`].
#[derive(Debug)]
pub struct Refreshed {
    state: State,
    decider: Decider,
}

// === impl Refreshed ===

impl Refreshed {
    /// Lets a state and its decider go on with them. What has changed since is taken in: it costs as much as if each of these
    /// objects changed once. What they had before is left to the replica, to be let go in another thread.
    ///
    /// False, and nothing changes, where the replica is another one now, or was asked something else since.
    pub fn adopt(mut self, state: &mut State, decider: &mut Decider, replica: &mut Replica) -> bool {
        let is_adopted = state.adopt(&mut self.state);
        if is_adopted {
            decider.go_on_with(&mut self.decider);
        }
        replica.left = Some(Box::new(self));
        is_adopted
    }
}

// === impl Replica ===

impl Replica {
    /// A replica of a state. There is one at a time: who had one before has it no more.
    pub fn of(state: &mut State) -> Self {
        Replica { state: state.replica(), decider: Decider::new(), left: None }
    }

    /// Freezes the state as it is now.
    pub fn begin(self, state: &mut State) -> Problem {
        Problem { replica: self, update: state.take_update(usize::MAX) }
    }

    /// Tells the replica of so many changed objects at most. It may not know all of the state then, and can only be told more.
    pub fn catch_up(self, state: &mut State, most: usize) -> Problem {
        Problem { replica: self, update: state.take_update(most) }
    }

    /// Whether there is something to be let go in another thread.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// The state as it was when the problem was begun.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What has changed since then in the state that it follows.
    pub fn since<'s>(&'s self, state: &'s mut State, now: Time) -> Since<'s> {
        Since::new(&self.state, state, now)
    }
}

// === impl Problem ===

impl Problem {
    /// Decides as [`crate::decide()`] would have at once.
    pub fn solve(self, options: &Options, now: Time) -> Solved {
        let (replica, decision) = self.ask(|state, decider| {
            expect_synced(state)?;
            decider.decide(state, options, now)
        });
        Solved { replica, decision }
    }

    /// Converts the cluster, looks at everything, and decides what can be decided at once, where a state and its decider have to
    /// do so again: they adopt what comes of it, in place of doing it themselves.
    pub fn refresh(self, options: &Options, asked: &BTreeSet<Arc<str>>, now: Time) -> (Replica, Refreshed) {
        self.ask(|state, decider| {
            decider.refresh(state, now);
            // So that what its classes ask of nodes is known. The decision is made again of what there is by then.
            drop(decider.decide_at_once(state, options, asked, now));
            let mut copy = state.converted();
            let mut decider = std::mem::take(decider);
            decider.follow_copy(&mut copy, now);
            Refreshed { state: copy, decider }
        })
    }

    /// Asks something else. The state is to be left as it was.
    pub fn ask<T>(self, ask: impl FnOnce(&mut State, &mut Decider) -> T) -> (Replica, T) {
        let Problem { mut replica, update } = self;
        drop(replica.left.take());
        replica.state.follow(update);
        let answer = ask(&mut replica.state, &mut replica.decider);
        (replica, answer)
    }
}

// === impl Solved ===

impl Solved {
    /// The Reservations, by name, that waited for a node when the problem was begun: they have had their turn.
    pub fn waiting_reservations(&self) -> BTreeSet<Arc<str>> {
        let cluster = self.replica.state.last_cluster();
        let rows = cluster.into_iter().flat_map(waiting_reservations);
        rows.flat_map(|(_, row)| &row.members).map(|run| run.name.clone()).collect()
    }

    /// Lets the decision go.
    pub fn into_replica(self) -> Replica {
        self.replica
    }

    /// Those that the decision gives a place: on a node that is up or comes up, or on one that is to be launched.
    pub fn placed(&self) -> Vec<ObjectRef> {
        let decision = self.decision.iter();
        let placed = decision.flat_map(|decision| {
            let bound = decision.bindings.iter().map(|binding| &binding.object);
            let nominated = decision.nominations.iter().map(|nomination| &nomination.object);
            let launched = decision.launches.iter().flat_map(|launch| launch.pods.iter().chain(&launch.reservations));
            bound.chain(nominated).chain(launched)
        });
        placed.cloned().collect()
    }

    /// What of the decision still holds in the state as it is now. Where nothing has changed that decisions depend on, all of it
    /// does, to the byte.
    ///
    /// - A binding holds where the pod is as it was, and so are its node and who is on it; one with rules on other pods where
    ///   none came or went near them.
    /// - Who is to give way does so where that node is as it was.
    /// - A launch holds where its pods still wait, its NodePool is as it was, and its slot is free: no more are launched on a
    ///   reservation than it has by now.
    ///
    /// # Errors
    /// The state did not know every kind.
    pub fn finish(self, state: &mut State, now: Time) -> (Result<Finished, DecideError>, Replica) {
        let Solved { replica, decision } = self;
        let finished = decision.map(|decision| replica.since(state, now).kept_of(decision));
        (finished, replica)
    }
}
