use berth_apiserver::{ApiServer, Config, FaultRates, Faults};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn options(identity: &str) -> LeaseOptions {
    LeaseOptions { identity: identity.to_owned(), ..LeaseOptions::default() }
}

fn candidate(server: &ApiServer, identity: &str) -> (Candidate, Fence) {
    candidate_of(Client::new(server.clone(), "default"), identity)
}

fn candidate_of(client: Client, identity: &str) -> (Candidate, Fence) {
    let fence = Fence::closed();
    let clock = Clock::starting_at(at("2026-01-01T00:00:00Z"));
    (Candidate::new(client, clock, options(identity), fence.clone()), fence)
}

#[test]
fn a_lease_is_taken_when_no_renewal_was_seen_for_its_duration() {
    let now = at("2026-01-01T00:00:00Z");
    // The time in the Lease is far ahead: another's clock is not trusted.
    let far = at("2030-01-01T00:00:00Z");
    let lease = Lease { spec: Some(spec(&options("other"), far, far, 3)), ..Lease::default() };
    let me = options("me");
    assert_eq!(step(Some(&lease), Duration::from_secs(15), &me, now), Step::Wait);
    let Step::Replace(taken) = step(Some(&lease), Duration::from_millis(15_001), &me, now) else { panic!("taken") };
    let taken = taken.spec.unwrap();
    assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("me"), Some(4)));
    assert_eq!(taken.acquire_time.unwrap().0, now);
}

#[test]
fn a_renewal_keeps_when_the_lease_was_acquired() {
    let (then, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:01:00Z"));
    let lease = Lease { spec: Some(spec(&options("me"), then, then, 3)), ..Lease::default() };
    let Step::Replace(kept) = step(Some(&lease), Duration::ZERO, &options("me"), now) else { panic!("kept") };
    let kept = kept.spec.unwrap();
    assert_eq!((kept.acquire_time.unwrap().0, kept.renew_time.unwrap().0), (then, now));
    assert_eq!(kept.lease_transitions, Some(3));
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_takes_over_when_it_falls_silent() {
    let server = ApiServer::new(Config::default());
    let (mut first, first_fence) = candidate(&server, "first");
    let (mut second, second_fence) = candidate(&server, "second");
    first.acquire().await;
    assert!(first_fence.deadline().is_ok());
    let fell_silent = Instant::now();
    // The first renews no more: the second must wait until nobody's fence is open.
    second.acquire().await;
    assert!(fell_silent.elapsed() >= Duration::from_secs(15));
    assert!(first_fence.deadline().is_err());
    assert!(second_fence.deadline().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_up_is_taken_at_once() {
    let server = ApiServer::new(Config::default());
    let (mut first, first_fence) = candidate(&server, "first");
    let (mut second, _) = candidate(&server, "second");
    first.acquire().await;
    first.release().await;
    assert!(first_fence.deadline().is_err());
    let start = Instant::now();
    second.acquire().await;
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn who_was_given_the_lease_too_late_does_not_lead_yet() {
    let rates = FaultRates { latency: 1000, latency_max: Duration::from_secs(40), ..FaultRates::default() };
    for seed in 0..8 {
        let server = Faults::seeded(seed, rates).around(ApiServer::new(Config::default()));
        let (mut candidate, fence) = candidate_of(Client::new(server, "default"), "me");
        candidate.acquire().await;
        assert!(fence.deadline().is_ok(), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn never_are_two_fences_open_whatever_befalls_the_requests() {
    for seed in 0..4 {
        let rates = FaultRates {
            latency: 300,
            latency_max: Duration::from_secs(8),
            too_many_requests: 100,
            conflict: 100,
            error_before: 200,
            error_after: 200,
            ..FaultRates::default()
        };
        let server = Faults::seeded(seed, rates).around(ApiServer::new(Config::default()));
        let mut fences = Vec::new();
        for n in 0..3 {
            let (mut candidate, fence) =
                candidate_of(Client::new(server.clone(), "default"), &format!("candidate-{n}"));
            fences.push(fence);
            tokio::spawn(async move {
                loop {
                    candidate.acquire().await;
                    candidate.hold().await;
                }
            });
        }
        let mut n_led = 0;
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let n_open = fences.iter().filter(|fence| fence.deadline().is_ok()).count();
            assert!(n_open <= 1, "seed {seed}: {n_open} fences are open");
            n_led += n_open;
        }
        assert!(n_led > 200, "seed {seed}: somebody led at {n_led} of 2000 looks");
    }
}
