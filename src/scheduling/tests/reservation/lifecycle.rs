//! How far a Reservation has come.

use std::time::Duration;

use berth_model::{Phase, ResourceId, Resources};
use berth_scheduling::reservation::lifecycle::{
    Condition, CurrentOwner, Seen, SeenOwner, Status, Terms, is_expired, is_garbage, may_be_planned_again, next_check,
    scheduled, sync, unschedulable,
};
use rstest::rstest;

use crate::mk::{GI, res};

const HOUR: i64 = 3600;
const DAY: Duration = Duration::from_secs(86_400);

/// Created at 0, for a day.
fn terms(allocate_once: bool) -> Terms {
    Terms { created: 0, expires: None, ttl: DAY, allocate_once }
}

fn owner(uid: &str, requests: Resources, ran_before: bool) -> SeenOwner {
    let owner = CurrentOwner { uid: uid.into(), namespace: "default".into(), name: format!("pod-{uid}") };
    SeenOwner { owner, requests: Some(requests), ran_before, leaves: false }
}

fn available() -> Status {
    scheduled(&Status::default(), "node-0", res(4000, 8), 0, 10)
}

fn seen(owners: Vec<SeenOwner>) -> Seen {
    Seen { owners, ..Seen::default() }
}

/// Status and reason of a condition.
type Word = Option<(bool, &'static str)>;

fn conditions(status: &Status) -> (Word, Word) {
    let word = |condition: &Option<Condition>| condition.as_ref().map(|known| (known.status, known.reason));
    (word(&status.scheduled), word(&status.ready))
}

#[test]
fn a_node_makes_it_available() {
    let status = available();
    assert_eq!((status.phase, status.node.as_deref()), (Phase::Available, Some("node-0")));
    assert_eq!(conditions(&status), (Some((true, "Scheduled")), Some((true, "Available"))));
}

#[test]
fn while_no_node_will_do_the_condition_says_why() {
    let first = unschedulable(&Status::default(), "0/3 nodes are available: 3 Insufficient cpu.", 10);
    assert_eq!(first.phase, Phase::Pending);
    assert_eq!(conditions(&first), (Some((false, "Unschedulable")), None));
    let again = unschedulable(&first, "0/4 nodes are available: 4 Insufficient cpu.", 20);
    let condition = again.scheduled.unwrap();
    assert_eq!((condition.last_transition, condition.last_probe), (10, 20));
    assert_eq!(condition.message, "0/4 nodes are available: 4 Insufficient cpu.");
    let kept = unschedulable(&available(), "no", 30);
    assert_eq!(conditions(&kept).0, Some((true, "Scheduled")), "it has a node");
}

#[test]
fn case_19_owners_and_amounts_are_counted_and_the_first_spends_what_is_for_one_alone() {
    let status = scheduled(&Status::default(), "node-0", res(10_000, 10), 0, 10);
    let requests = Resources::from_amounts(&[2000, 2 * GI, 1, 10 * GI]);
    let owners: Vec<_> = ["d", "b", "a", "c"].map(|uid| owner(uid, requests.clone(), false)).to_vec();
    let next = sync(&terms(true), &status, &seen(owners.clone()), 20);
    assert_eq!(next.allocated, res(8000, 8), "only what it reserves");
    let uids: Vec<&str> = next.current_owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(uids, ["a", "b", "c", "d"]);
    assert_eq!(next.phase, Phase::Succeeded);
    assert_eq!(conditions(&next).1, Some((false, "Succeeded")));
    let reusable = sync(&terms(false), &status, &seen(owners), 20);
    assert_eq!((reusable.phase, reusable.current_owners.len()), (Phase::Available, 4));
}

#[test]
fn what_is_spent_stays_spent_when_its_owner_has_gone() {
    let spent = sync(&terms(true), &available(), &seen(vec![owner("a", res(1000, 0), false)]), 20);
    assert_eq!(sync(&terms(true), &spent, &seen(Vec::new()), 30), spent);
    assert_eq!(scheduled(&spent, "node-1", res(1, 1), 0, 40), spent);
}

#[test]
fn what_owners_free_is_for_others_again() {
    let drawn = sync(&terms(false), &available(), &seen(vec![owner("a", res(1000, 2), false)]), 20);
    assert_eq!(drawn.allocated, res(1000, 2));
    let freed = sync(&terms(false), &drawn, &seen(Vec::new()), 30);
    assert_eq!((freed.allocated, freed.phase), (Resources::new(), Phase::Available));
}

#[rstest]
#[case::pending(Status::default())]
#[case::available(available())]
#[case::waiting(scheduled(&Status::default(), "node-0", res(4000, 8), 1, 10))]
fn case_20_time_ends_every_phase(#[case] status: Status) {
    let late = 24 * HOUR + 1;
    let next = sync(&terms(true), &status, &seen(Vec::new()), late);
    assert_eq!((next.phase, conditions(&next).1), (Phase::Failed, Some((false, "Expired"))));
    assert_eq!(next.ready.as_ref().unwrap().last_probe, late);
    assert!(!is_garbage(&next, false, Duration::from_secs(10), late + 10), "however long it waited before");
    assert!(is_garbage(&next, false, Duration::from_secs(10), late + 11));
}

#[test]
fn case_20_a_fresh_one_is_looked_at_again_after_15_seconds_and_one_that_ends_soon_not_before_3() {
    assert_eq!(next_check(&terms(true), &available(), 100), Some(Duration::from_secs(15)));
    let end = 24 * HOUR;
    assert_eq!(next_check(&terms(true), &available(), end - 5), Some(Duration::from_secs(5)));
    assert_eq!(next_check(&terms(true), &available(), end), Some(Duration::from_secs(3)));
    let endless = Terms { ttl: Duration::ZERO, ..terms(true) };
    assert_eq!(next_check(&endless, &available(), 100), None);
}

#[test]
fn case_20_without_its_node_it_has_failed() {
    let lost = Seen { is_node_lost: true, ..Seen::default() };
    let next = sync(&terms(true), &available(), &lost, 20);
    assert_eq!((next.phase, conditions(&next).1), (Phase::Failed, Some((false, "Expired"))));
    let pending = sync(&terms(true), &Status::default(), &lost, 20);
    assert_eq!(pending.phase, Phase::Pending, "it has none to lose");
}

#[rstest]
#[case::ttl_alone(None, 24, 25, true)]
#[case::within_the_ttl(None, 24, 24, false)]
#[case::no_ttl(None, 0, 1000, false)]
#[case::expires_is_sooner(Some(1), 24, 2, true)]
#[case::expires_is_later_than_the_ttl(Some(48), 24, 25, false)]
#[case::expires_counts_though_the_ttl_is_off(Some(1), 0, 2, true)]
fn expires_decides_alone_where_it_is_set(
    #[case] expires: Option<i64>,
    #[case] ttl: u64,
    #[case] hours: i64,
    #[case] expected: bool,
) {
    let terms = Terms {
        created: 0,
        expires: expires.map(|hours| hours * HOUR),
        ttl: Duration::from_secs(ttl * 3600),
        allocate_once: true,
    };
    assert_eq!(is_expired(&terms, hours * HOUR), expected);
}

#[test]
fn bound_to_running_pods_it_waits_until_they_have_gone_and_is_not_spent() {
    let status = scheduled(&Status::default(), "node-0", res(4000, 8), 2, 10);
    assert_eq!((status.phase, conditions(&status).1), (Phase::Waiting, Some((false, "Waiting"))));
    let running = vec![owner("a", res(2000, 4), true), owner("b", res(2000, 4), true)];
    let waiting = sync(&terms(true), &status, &seen(running.clone()), 20);
    assert_eq!((waiting.phase, &waiting.allocated), (Phase::Waiting, &res(4000, 8)));
    let one_left = sync(&terms(true), &waiting, &seen(running[1..].to_vec()), 30);
    assert_eq!(one_left.phase, Phase::Waiting);
    let ready = sync(&terms(true), &one_left, &seen(Vec::new()), 40);
    assert_eq!((ready.phase, conditions(&ready).1), (Phase::Available, Some((true, "Available"))));
    assert_eq!(ready.ready.as_ref().unwrap().last_transition, 40);
    let spent = sync(&terms(true), &ready, &seen(vec![owner("c", res(1000, 0), false)]), 50);
    assert_eq!(spent.phase, Phase::Succeeded);
}

#[test]
fn while_others_use_its_room_it_waits_and_may_be_planned_again() {
    let taken = Seen { is_room_taken: true, ..Seen::default() };
    let status = sync(&terms(false), &available(), &taken, 20);
    assert_eq!((status.phase, conditions(&status).1), (Phase::Waiting, Some((false, "RoomTaken"))));
    assert!(may_be_planned_again(&status));
    let with_owner = Seen { owners: vec![owner("a", res(1000, 0), false)], ..taken };
    assert!(!may_be_planned_again(&sync(&terms(false), &status, &with_owner, 30)), "its owner stays where it is");
    let elsewhere = scheduled(&status, "node-1", res(4000, 8), 0, 40);
    assert_eq!((elsewhere.phase, elsewhere.node.as_deref()), (Phase::Available, Some("node-1")));
    assert_eq!(sync(&terms(false), &status, &seen(Vec::new()), 40).phase, Phase::Available, "they left");
}

#[test]
fn spent_and_expired_ones_are_deleted_after_the_configured_time() {
    let spent = sync(&terms(true), &available(), &seen(vec![owner("a", res(1000, 0), false)]), 100);
    let day = 24 * HOUR;
    assert!(!is_garbage(&spent, false, DAY, 100 + day));
    assert!(is_garbage(&spent, false, DAY, 101 + day));
    assert!(is_garbage(&spent, false, Duration::from_secs(10), 111), "the time is configured");
    assert!(is_garbage(&spent, true, DAY, 101), "its node is gone");
    let expired = sync(&terms(true), &available(), &seen(Vec::new()), day + 1);
    assert!(is_garbage(&expired, false, DAY, 2 * day + 2));
    assert!(!is_garbage(&available(), false, DAY, 1000 * day));
    let failed = Status { phase: Phase::Failed, ..available() };
    assert!(!is_garbage(&failed, false, DAY, 1000 * day), "why it failed is for people to look at");
}

#[test]
fn pods_are_counted_where_they_are_reserved() {
    let mut reserved = res(4000, 8);
    reserved.set(ResourceId::PODS, 3);
    let status = scheduled(&Status::default(), "node-0", reserved, 0, 10);
    let mut requests = res(1000, 1);
    requests.set(ResourceId::PODS, 1);
    let next = sync(&terms(false), &status, &seen(vec![owner("a", requests.clone(), false)]), 20);
    assert_eq!(next.allocated, requests);
}

#[test]
fn where_its_node_goes_it_is_pending_again_unless_an_owner_stays_or_has_spent_it() {
    let leaves = |uid: &str, leaves: bool| SeenOwner { leaves, ..owner(uid, res(1000, 1), false) };
    let going = |owners: Vec<SeenOwner>| Seen { is_node_going: true, ..seen(owners) };
    for (owners, allocate_once, phase, n_owners) in [
        (vec![], false, Phase::Pending, 0),
        (vec![leaves("a", true), leaves("b", true)], false, Phase::Pending, 0),
        (vec![leaves("a", true), leaves("b", false)], false, Phase::Available, 2),
        (vec![leaves("a", true)], true, Phase::Succeeded, 1),
    ] {
        let next = sync(&terms(allocate_once), &available(), &going(owners.clone()), 20);
        assert_eq!((next.phase, next.current_owners.len()), (phase, n_owners), "{owners:?}");
        assert_eq!(next.node.is_some(), phase != Phase::Pending, "{owners:?}");
        assert_eq!(next.allocated == Resources::new(), n_owners == 0, "{owners:?}");
    }
}
