//! Resource vectors: exact, and stopping at the ends of the integers.

use berth_model::{ResourceId, ResourceNames, Resources, Symbols};
use proptest::collection::vec;
use proptest::prelude::*;

fn amounts() -> impl Strategy<Value = Resources> {
    vec(prop_oneof![Just(0), 1..5_i64, 0..1000_i64], 0..6).prop_map(|amounts| Resources::from_amounts(&amounts))
}

fn room() -> impl Strategy<Value = Resources> {
    vec(prop_oneof![Just(0), -20..50_i64, 0..5000_i64], 0..7).prop_map(|amounts| Resources::from_amounts(&amounts))
}

proptest! {
    #[test]
    fn a_request_fits_as_often_as_it_can_be_subtracted(request in amounts(), room in room(), limit in 0..30_u32) {
        let (mut left, mut times) = (room.clone(), 0);
        while times < limit && request.fits(&left) {
            left.subtract(&request);
            times += 1;
        }
        prop_assert_eq!(request.times_in(&room, limit), times);
    }

    #[test]
    fn what_was_added_can_be_subtracted(a in room(), b in room(), count in 0..1000_i64) {
        let mut sum = a.clone();
        sum.add_times(&b, count);
        for id in (0..8).map(ResourceId) {
            prop_assert_eq!(sum.get(id), a.get(id) + b.get(id) * count);
        }
        sum.add_times(&b, -count);
        prop_assert_eq!(&sum, &a, "equal amounts are equal vectors, whatever zeros they went through");
    }

    #[test]
    fn raising_takes_the_larger_of_each_amount(a in amounts(), b in amounts()) {
        let mut raised = a.clone();
        raised.raise_to(&b);
        for id in (0..8).map(ResourceId) {
            prop_assert_eq!(raised.get(id), a.get(id).max(b.get(id)));
        }
        prop_assert!(a.fits(&raised) && b.fits(&raised));
    }
}

#[test]
fn an_overdrawn_resource_matters_only_to_who_asks_for_it() {
    let room = Resources::from_amounts(&[1000, -1, 10]);
    assert!(Resources::from_amounts(&[500, 0, 1]).fits(&room));
    assert!(!Resources::from_amounts(&[500, 1, 1]).fits(&room));
    assert_eq!(Resources::from_amounts(&[0, 1]).times_in(&room, 9), 0);
}

#[test]
fn sums_stop_at_the_ends_of_the_integers() {
    let most = Resources::from_amounts(&[i64::MAX, i64::MAX]);
    let mut sum = most.clone();
    sum.add_times(&most, i64::MAX);
    assert_eq!(sum.amounts(), [i64::MAX, i64::MAX]);
    sum.add_times(&most, i64::MIN);
    sum.add_times(&most, i64::MIN);
    assert_eq!(sum.amounts(), [i64::MIN, i64::MIN]);
    assert!(!Resources::from_amounts(&[1]).fits(&sum));
    sum.floor_at_zero();
    assert_eq!(sum, Resources::new());
}

#[test]
fn who_asks_for_nothing_fits_as_often_as_wanted() {
    assert_eq!(Resources::new().times_in(&Resources::from_amounts(&[-1]), u32::MAX), u32::MAX);
}

#[test]
fn cpu_memory_and_pods_are_the_first_resources_of_every_universe() {
    let mut symbols = Symbols::default();
    let mut names = ResourceNames::new(&mut symbols);
    let gpu = symbols.intern("nvidia.com/gpu");
    assert_eq!(names.intern(gpu), ResourceId(3));
    assert_eq!(names.intern(gpu), ResourceId(3));
    let text = |id| names.name(id).map(|name| symbols.text(name).to_owned());
    assert_eq!(text(ResourceId::CPU).as_deref(), Some("cpu"));
    assert_eq!(text(ResourceId::MEMORY).as_deref(), Some("memory"));
    assert_eq!(text(ResourceId::PODS).as_deref(), Some("pods"));
    assert_eq!((names.len(), names.name(ResourceId(4))), (4, None));
}
