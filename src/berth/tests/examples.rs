//! The examples, run as the README says, print what is in `golden/`. `UPDATE_GOLDEN=1 cargo test` rewrites those files.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use rstest::rstest;

const NOW: &str = "2026-01-01T00:00:00Z";
const FOUR_SLOTS: &str = "examples/catalogues/four-slots.yaml";
const ONE_SLOT: &str = "examples/catalogues/one-slot.yaml";

#[rstest]
#[case::four_slots_come_before_paid_capacity("reserved-first", FOUR_SLOTS, 0)]
#[case::without_paid_capacity_what_exceeds_the_slots_waits("reserved-only", FOUR_SLOTS, 1)]
#[case::three_pools_share_one_reservation("three-pools", FOUR_SLOTS, 0)]
#[case::one_slot_takes_one_of_a_hundred_lonely_pods("one-slot", ONE_SLOT, 0)]
#[case::a_pending_reservation_is_placed_like_a_pod("room", FOUR_SLOTS, 0)]
fn example(#[case] name: &str, #[case] catalogue: &str, #[case] code: i32) {
    let file = format!("examples/{name}");
    let run = common::berth(&["plan", "-f", &file, "--instance-types", catalogue, "--now", NOW]);
    assert_eq!((run.code, run.stderr.as_str()), (code, ""));
    is_golden(name, &run);
}

#[test]
fn shares_keep_a_plan_from_one_pool_of_one_zone_and_cost_what_they_say() {
    let shares = ["--max-share", "zone=50%", "--max-share", "capacityType=spot=70%", "--what-restrictions-cost"];
    let run = common::berth(&[&["plan", "-f", "examples/max-share", "--now", NOW][..], &shares].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    is_golden("max-share", &run);
}

fn is_golden(name: &str, run: &common::Run) {
    let widest = run.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(120), "{}", run.stdout);
    let golden = common::root().join("src/berth/tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &run.stdout).unwrap();
    }
    assert_eq!(run.stdout, std::fs::read_to_string(&golden).unwrap());
}
