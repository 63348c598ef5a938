//! States that go on with what a replica has converted, whenever its answer comes: at once, after the state has moved on, after
//! the replica was asked something else, after there is another replica, or never.

use berth_decisions::{Decider, Problem, Refreshed, Replica};
use berth_state::{Kind, Time};
use proptest::prelude::*;

use crate::world::World;
use crate::{cases, decides_as_rebuilt, decision_of, difference, options, step};

/// One thing that happens between a question and its answer. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Move {
    /// An object comes, changes or goes, and the state is told.
    Event(Kind, u8, u8, u8),
    /// The replica is told all, and asked.
    Begin,
    /// The replica is told a part.
    Tell(usize),
    /// What it was asked is answered, to be adopted later.
    Answer,
    /// The answer does not come, and the replica is gone with it.
    BreakOff,
    /// The state goes on with an answer.
    Adopt(u8),
    /// Something had everything converted anew.
    Forget,
    /// Pods are bound meanwhile.
    AtOnce,
}

fn moves() -> impl Strategy<Value = Move> {
    let kind = prop_oneof![
        5 => Just(Kind::Pod),
        3 => Just(Kind::Node),
        1 => Just(Kind::NodeClaim),
        3 => Just(Kind::Reservation),
        2 => prop::sample::select(Kind::ALL),
    ];
    prop_oneof![
        12 => (kind, any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(kind, name, variant, what)| {
            Move::Event(kind, name % 6, variant, what)
        }),
        4 => Just(Move::Begin),
        1 => (0..8_usize).prop_map(Move::Tell),
        4 => Just(Move::Answer),
        1 => Just(Move::BreakOff),
        5 => any::<u8>().prop_map(Move::Adopt),
        2 => Just(Move::Forget),
        2 => Just(Move::AtOnce),
    ]
}

/// A state, its replica, and what is on its way between them.
struct Exchange {
    world: World,
    replica: Option<Replica>,
    asked: Option<(Problem, Time)>,
    answers: Vec<(Refreshed, u64)>,
    /// How often a replica was made, told or asked: an answer can be adopted while that is as it was when it was asked.
    n_told: u64,
    /// Whether nothing happened since it was asked last.
    is_quiet: bool,
}

impl Exchange {
    fn take(&mut self, next: &Move) {
        match *next {
            Move::Event(kind, name, variant, what) => {
                self.is_quiet = false;
                self.world.event(kind, name, variant, what);
            }
            Move::Begin => {
                if let Some(replica) = self.replica.take() {
                    self.n_told += 1;
                    self.is_quiet = true;
                    self.asked = Some((replica.begin(&mut self.world.state), self.world.now));
                }
            }
            Move::Tell(most) => {
                if let Some(replica) = self.replica.take() {
                    self.n_told += 1;
                    self.replica = Some(replica.catch_up(&mut self.world.state, most).ask(|_, _| ()).0);
                }
            }
            Move::Answer => {
                if let Some((problem, then)) = self.asked.take() {
                    let (replica, refreshed) = problem.refresh(&options(), &[].into(), then);
                    self.replica = Some(replica);
                    self.answers.push((refreshed, self.n_told));
                }
            }
            Move::BreakOff => {
                self.asked = None;
                self.n_told += 1;
                self.replica = Some(Replica::of(&mut self.world.state));
            }
            Move::Adopt(which) => self.adopt(which),
            Move::Forget => self.world.state.forget_cluster(),
            Move::AtOnce => {
                self.world.decide_at_once();
            }
        }
    }

    fn adopt(&mut self, which: u8) {
        // Only a replica that is there may have what is left.
        let Some(replica) = &mut self.replica else { return };
        if self.answers.is_empty() {
            return;
        }
        let (refreshed, n_told) = self.answers.remove(usize::from(which) % self.answers.len());
        let is_adopted = self.world.adopt(refreshed, replica);
        assert_eq!(
            is_adopted,
            n_told == self.n_told,
            "what is adopted is of the last question to the replica there is"
        );
        if is_adopted && self.is_quiet {
            assert!(self.world.decide_at_once(), "nothing has changed since, and all is to be looked at again");
        }
        self.hold();
    }

    /// Holds what is decided to what a copy decides that looks at everything anew.
    fn hold(&mut self) {
        self.world.decide_at_once();
        let is = self.world.decision();
        let anew = decision_of(&mut self.world.state.snapshot(), &mut Decider::new(), self.world.now);
        assert!(is == anew, "{}", difference(&is, &anew));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_state_that_goes_on_with_what_was_converted_elsewhere_decides_as_what_there_is(
        first in prop::collection::vec(step(), 1..30),
        moves in prop::collection::vec(moves(), 1..40),
    ) {
        let mut world = World::new();
        for step in first {
            world.take(step);
        }
        world.settle(0);
        let replica = Some(Replica::of(&mut world.state));
        let mut exchange = Exchange { world, replica, asked: None, answers: Vec::new(), n_told: 0, is_quiet: false };
        for next in moves {
            exchange.take(&next);
        }
        // What came last is adopted, too.
        for next in [Move::Answer, Move::Begin, Move::Answer, Move::Adopt(u8::MAX)] {
            exchange.take(&next);
        }
        exchange.hold();
        let mut world = exchange.world;
        world.settle(1);
        decides_as_rebuilt(&mut world)?;
    }
}
