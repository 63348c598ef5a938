//! Random histories of one node, held to a recount from scratch.

use berth_model::{
    AllocatePolicy, Holding, NodeRoom, Phase, Reservation, ReservationId, ResourceId, Resources, Symbols,
};
use berth_scheduling::reservation::{Claim, Fit, fit};
use proptest::prelude::*;

const N_RESOURCES: usize = 3;
const ALLOCATABLE: [i64; N_RESOURCES] = [16, 32, 12];

/// What is asked for in one step; numbers that mean nobody are passed over.
#[derive(Clone, Debug)]
enum Step {
    Reserve { amounts: [i64; N_RESOURCES], kept: i64, policy: AllocatePolicy, restricted: Vec<u16> },
    Bind { amounts: [i64; 2], owner_of: Vec<bool>, must_draw: bool },
    Delete(usize),
    Expire(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let policy =
        prop_oneof![Just(AllocatePolicy::Unset), Just(AllocatePolicy::Aligned), Just(AllocatePolicy::Restricted)];
    let reserve = (
        0..9_i64,
        0..9_i64,
        prop_oneof![3 => Just(0), 1 => 1..4_i64],
        0..3_i64,
        policy,
        prop::collection::vec(0..2_u16, 0..2),
    )
        .prop_map(|(cpu, memory, pods, kept, policy, restricted)| Step::Reserve {
            amounts: [cpu, memory, pods],
            kept,
            policy,
            restricted,
        });
    let bind = (0..7_i64, 0..7_i64, prop::collection::vec(any::<bool>(), 6), prop::bool::weighted(0.2))
        .prop_map(|(cpu, memory, owner_of, must_draw)| Step::Bind { amounts: [cpu, memory], owner_of, must_draw });
    let step = prop_oneof![
        2 => reserve,
        6 => bind,
        3 => (0..20_usize).prop_map(Step::Delete),
        1 => (0..6_usize).prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 1..60)
}

/// A Reservation and a pod as the naive books have them.
struct Book {
    reservations: Vec<(ReservationId, Reservation)>,
    pods: Vec<(Resources, Option<ReservationId>, bool)>,
}

impl Book {
    /// Free room by definition: what is there, less what pods request, less what each Reservation reserves and its
    /// owners do not have, resource by resource.
    fn free(&self) -> Vec<i64> {
        let mut free = ALLOCATABLE.to_vec();
        for (i, amount) in free.iter_mut().enumerate() {
            let id = ResourceId(u16::try_from(i).unwrap());
            *amount -= self.pods.iter().map(|(requests, ..)| requests.get(id)).sum::<i64>();
            for (number, reservation) in &self.reservations {
                let owners = self.pods.iter().filter(|(_, draws_from, _)| draws_from == &Some(*number));
                let drawn: i64 = owners.map(|(requests, ..)| requests.get(id)).sum();
                let mut reserved = reservation.allocatable.get(id);
                if id == ResourceId::PODS {
                    reserved = reserved.max(1);
                }
                let kept = reservation.kept.get(id).min(reserved);
                *amount -= kept + (reserved - kept - drawn).max(0);
            }
        }
        free
    }
}

fn mk_reservation(amounts: [i64; N_RESOURCES], kept: i64, policy: AllocatePolicy, restricted: &[u16]) -> Reservation {
    let mut symbols = Symbols::default();
    let mut reservation = Reservation::new(symbols.intern("r"));
    reservation.phase = Phase::Available;
    reservation.allocatable = Resources::from_amounts(&amounts);
    reservation.kept = Resources::from_amounts(&[kept.min(amounts[0])]);
    reservation.policy = policy;
    reservation.restricted = restricted.iter().map(|&id| ResourceId(id)).collect();
    reservation
}

fn amounts_of(resources: &Resources) -> Vec<i64> {
    (0..N_RESOURCES).map(|i| resources.get(ResourceId(u16::try_from(i).unwrap()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// No history overcommits the node, hands room to one that is no owner, counts any twice, or loses what is freed.
    #[test]
    fn books_equal_a_recount_and_nothing_is_handed_out_twice(steps in steps()) {
        let mut room = NodeRoom::new(Resources::from_amounts(&ALLOCATABLE));
        let mut book = Book { reservations: Vec::new(), pods: Vec::new() };
        let mut next = 0_u32;
        for step in steps {
            match step {
                Step::Reserve { amounts, kept, policy, restricted } => {
                    let reservation = mk_reservation(amounts, kept, policy, &restricted);
                    let mut wants = reservation.allocatable.clone();
                    wants.set(ResourceId::PODS, amounts[2].max(1));
                    if book.reservations.len() < 6 && wants.fits(room.free()) {
                        room.hold(Holding::new(ReservationId(next), &reservation));
                        book.reservations.push((ReservationId(next), reservation));
                        next += 1;
                    }
                }
                Step::Bind { amounts: [cpu, memory], owner_of, must_draw } => {
                    let requests = Resources::from_amounts(&[cpu, memory, 1]);
                    let matched: Vec<usize> = (0..room.holdings().len()).filter(|&i| owner_of.get(i) == Some(&true)).collect();
                    let claim = Claim { requests: &requests, must_draw, is_named: false, ignored: &[] };
                    match fit(&room, &matched, &claim) {
                        Fit::Draws(serving) => {
                            prop_assert!(serving.iter().all(|position| matched.contains(position)));
                            for &position in &serving {
                                let holding = &room.holdings()[position];
                                for (id, amount) in requests.iter().filter(|(id, _)| holding.restricts(*id)) {
                                    prop_assert!(amount <= holding.available().get(id), "restricted");
                                }
                            }
                            let id = room.holdings()[serving[0]].reservation;
                            room.add_pod(&requests, Some(id));
                            book.pods.push((requests, Some(id), true));
                        }
                        Fit::FreeRoom => {
                            prop_assert!(!must_draw);
                            prop_assert!(requests.fits(room.free()), "nothing that is held");
                            room.add_pod(&requests, None);
                            book.pods.push((requests, None, false));
                        }
                        Fit::Refused(lacks) => {
                            prop_assert!(!lacks.is_empty() || matched.is_empty() || must_draw);
                            let alone = requests.fits(room.free());
                            prop_assert!(must_draw || !alone, "free room is for everybody");
                        }
                    }
                }
                Step::Delete(i) if !book.pods.is_empty() => {
                    let (requests, draws_from, _) = book.pods.remove(i % book.pods.len());
                    let before = room.clone();
                    let position = draws_from.and_then(|id| room.position(id));
                    room.remove_pod(&requests, draws_from);
                    // It can come back to where it was: what it freed is there for its like.
                    let claim = Claim { requests: &requests, must_draw: position.is_some(), is_named: false, ignored: &[] };
                    let matched: Vec<usize> = position.into_iter().collect();
                    prop_assert!(!matches!(fit(&room, &matched, &claim), Fit::Refused(_)));
                    let mut again = room.clone();
                    again.add_pod(&requests, draws_from);
                    prop_assert_eq!(again, before);
                }
                Step::Expire(i) if !book.reservations.is_empty() => {
                    let (id, _) = book.reservations.remove(i % book.reservations.len());
                    let released = room.release(id).unwrap();
                    let drawn = book.pods.iter_mut().filter(|(_, draws_from, _)| *draws_from == Some(id));
                    let mut n_owners = 0;
                    for (_, draws_from, _) in drawn {
                        *draws_from = None;
                        n_owners += 1;
                    }
                    prop_assert_eq!(released.owners(), n_owners);
                }
                Step::Delete(_) | Step::Expire(_) => {}
            }
            let free = amounts_of(room.free());
            prop_assert_eq!(&free, &book.free());
            prop_assert!(free.iter().all(|amount| *amount >= 0), "never overcommitted: {:?}", free);
        }
    }
}
