//! Weeks in which nothing may go to and fro.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers are not test functions to clippy.

use std::fmt::Write;

use berth_simulate::{Outcome, Simulation};

/// A choice of so many, by seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).unwrap()]
    }
}

/// Types of several sizes in two zones, on demand, as spot, and some in a reservation.
fn catalogue(dice: &mut Dice) -> String {
    let mut text = String::new();
    for (name, cpus) in [("small", 2), ("middle", 4), ("large", 8)] {
        writeln!(
            text,
            "- name: {name}\n  architecture: amd64\n  operatingSystems: [linux]\n  resources: {{cpu: '{cpus}', memory: {}Gi, pods: '30'}}\n  \
             offerings:",
            cpus * 4
        )
        .unwrap();
        for zone in ["a", "b"] {
            let mut offer = |capacity_type: &str, price: u64, more: &str, requirement: &str| {
                writeln!(
                    text,
                    "  - {{Price: {}.{:03}, {more}Requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: \
                     [{capacity_type}]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [{zone}]}}{requirement}]}}",
                    price / 1000,
                    price % 1000
                )
                .unwrap();
            };
            let price = cpus * (45 + dice.below(12));
            offer("on-demand", price, "", "");
            offer("spot", price * (25 + dice.below(30)) / 100, "", "");
            if dice.below(3) == 0 {
                let slots = format!("ReservationCapacity: {}, ", 1 + dice.below(3));
                let id =
                    format!(", {{key: berth.sh/capacity-reservation-id, operator: In, values: [cr-{name}-{zone}]}}");
                offer("reserved", price, &slots, &id);
            }
        }
    }
    text
}

/// Workloads that are scaled down after half an hour, or up and down once a day.
fn scenario(dice: &mut Dice, seed: u64, hours: u64, is_daily: bool) -> String {
    let gate = dice.one(&["", "SpotToSpotConsolidation=true"]);
    let mut text = format!(
        "apiVersion: berth.sh/v1alpha1\nkind: Scenario\nduration: {hours}h\nseed: {seed}\ninstanceTypes: catalogue.yaml\n\
         settings: {{featureGates: '{gate}'}}\nobjects:\n"
    );
    let types = dice.one(&["on-demand", "reserved, on-demand", "spot, on-demand", "reserved, spot, on-demand"]);
    let budget = dice.one(&["10%", "100%", "'1'"]);
    writeln!(
        text,
        "- apiVersion: karpenter.sh/v1\n  kind: NodePool\n  metadata: {{name: all}}\n  spec:\n    disruption: {{consolidateAfter: 30s, \
         budgets: [{{nodes: {budget}}}]}}\n    template:\n      spec:\n        expireAfter: Never\n        nodeClassRef: {{group: berth.sh, \
         kind: FakeNodeClass, name: default}}\n        requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [{types}]}}]"
    )
    .unwrap();
    let mut events = String::from("events:\n");
    for at in 0..5 {
        let replicas = 2 + dice.below(9);
        let cpus = dice.one(&["250m", "500m", "900m", "1500m"]);
        let spread = dice.one(&["", "", "zone", "hostname"]);
        let key = if spread == "zone" { "topology.kubernetes.io/zone" } else { "kubernetes.io/hostname" };
        let rule = dice.one(&["DoNotSchedule", "ScheduleAnyway"]);
        let spread = if spread.is_empty() {
            String::new()
        } else {
            format!(
                "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: {rule}, labelSelector: {{matchLabels: \
                 {{app: d{at}}}}}}}]"
            )
        };
        writeln!(
            text,
            "- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {{name: d{at}}}\n  spec:\n    replicas: {replicas}\n    selector: \
             {{matchLabels: {{app: d{at}}}}}\n    template:\n      metadata: {{labels: {{app: d{at}}}}}\n      spec:\n        containers: [{{name: \
             c, image: i, resources: {{requests: {{cpu: {cpus}, memory: 256Mi}}}}}}]\n        {spread}"
        )
        .unwrap();
        let least = dice.below(replicas);
        if is_daily {
            let more = replicas + dice.below(6);
            let (up, down) = (5 + dice.below(5), 15 + dice.below(6));
            writeln!(events, "- {{at: {up}h, every: 24h, scale: {{name: d{at}, replicas: {more}}}}}").unwrap();
            writeln!(events, "- {{at: {down}h, every: 24h, scale: {{name: d{at}, replicas: {least}}}}}").unwrap();
        } else {
            writeln!(events, "- {{at: {}m, scale: {{name: d{at}, replicas: {least}}}}}", 30 + dice.below(20)).unwrap();
        }
    }
    text + &events
}

fn run(seed: u64, hours: u64, is_daily: bool) -> Outcome {
    let folder = std::env::temp_dir().join(format!("berth-weeks-{}-{seed}-{hours}-{is_daily}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut dice = Dice(seed);
    std::fs::write(folder.join("catalogue.yaml"), catalogue(&mut dice)).unwrap();
    let path = folder.join("scenario.yaml");
    std::fs::write(&path, scenario(&mut dice, seed, hours, is_daily)).unwrap();
    let outcome = Simulation::read(&path).unwrap().run().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    outcome
}

/// What was done so far: nodes launched, pods evicted.
fn done(outcome: &Outcome) -> [u64; 2] {
    [outcome.nodes.launched, outcome.pods.evictions]
}

#[test]
fn nothing_moves_for_a_week_in_which_nothing_changes() {
    let mut n_evicted = 0;
    for seed in 1..3 {
        let settled = run(seed, 6, false);
        n_evicted += settled.pods.evictions;
        // Where moves go on for ever, a week of them takes many minutes to play.
        for hours in [9, 168] {
            assert_eq!(done(&run(seed, hours, false)), done(&settled), "seed {seed}, {hours} hours");
        }
    }
    assert!(n_evicted > 5, "there was something to consolidate: {n_evicted}");
}

/// The same day again and again costs no more moves each time.
#[test]
fn days_that_are_alike_cost_no_more_moves_one_after_another() {
    let [two, three, five] = [48, 72, 120].map(|hours| done(&run(1, hours, true)));
    for (what, slack, at) in [("launches", 2, 0), ("evictions", 6, 1)] {
        let (third, rest) = (three[at] - two[at], five[at] - three[at]);
        assert!(rest <= 2 * (third + slack), "{third} {what} on the third day, {rest} on two more");
    }
}
