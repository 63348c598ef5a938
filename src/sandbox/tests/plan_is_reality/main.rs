//! Plan = reality: what `berth plan` says beforehand is what the sandbox ends up with, for clusters by chance.
//!
//! `BERTH_SEEDS=0..100 cargo test -p berth-sandbox --test plan_is_reality` plays other seeds than the usual few.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

mod clouds;
mod clusters;
mod consolidated;
mod dice;
mod outcome;

use std::ops::Range;
use std::path::Path;

use dice::Dice;
use outcome::Outcome;
use serde_json::{Value, json};

fn seeds(usual: Range<u64>) -> Range<u64> {
    let text = std::env::var("BERTH_SEEDS").ok();
    let range = text.as_deref().and_then(|text| text.split_once("..")).map(|(from, to)| (from.parse(), to.parse()));
    match range {
        Some((Ok(from), Ok(to))) => from..to,
        _ => usual,
    }
}

/// The cluster of a seed: objects and catalogue.
fn cluster(seed: u64, with_reservations: bool) -> (Vec<Value>, Value) {
    let mut dice = Dice::new(seed);
    let catalogue = clouds::catalogue(&mut dice);
    (clusters::objects(&mut dice, with_reservations), catalogue)
}

/// Writes a cluster for `berth plan` and `berth sandbox`, and says how to look at it.
fn repeat(seed: u64, objects: &[Value], catalogue: &Value) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (files, types) = (folder.join(format!("plan-{seed}.json")), folder.join(format!("types-{seed}.json")));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&files, list.to_string()).unwrap();
    std::fs::write(&types, catalogue.to_string()).unwrap();
    format!(
        "repeat it with: BERTH_SEEDS={seed}..{} cargo test -p berth-sandbox --test plan_is_reality; look at it with: \
         berth plan -f {} --instance-types {}",
        seed + 1,
        files.display(),
        types.display()
    )
}

/// What differs, a line each: what is planned and what has come.
fn differences(planned: &Outcome, played: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    for (what, planned, played) in
        [("nodes", &planned.nodes, &played.nodes), ("pods of", &planned.placed, &played.placed)]
    {
        let mut keys: Vec<&String> = planned.keys().chain(played.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let [was, came] = [planned, played].map(|of| of.get(key).copied().unwrap_or_default());
            if was != came {
                found.push(format!("{what} {key}: {was} planned, {came} came"));
            }
        }
    }
    if planned.reservations != played.reservations {
        found.push(format!("Reservations: {:?} planned, {:?} came", planned.reservations, played.reservations));
    }
    if planned.cost != played.cost {
        found.push(format!("cost in $/h: {} planned, {} came", dollars(planned.cost), dollars(played.cost)));
    }
    found
}

#[expect(clippy::cast_precision_loss, reason = "a few dollars")]
fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Plays the cluster of a seed. Says what differs from its plan, and all that tells why; nothing if nothing does.
async fn compare(seed: u64, with_reservations: bool) -> String {
    let (objects, catalogue) = cluster(seed, with_reservations);
    let (planned, planned_nodes) = outcome::planned(&objects, &catalogue);
    let (played, left, nodes) = outcome::played(seed, &objects, &catalogue).await;
    let found = differences(&planned, &played);
    let (n_nodes, n_pods) = (played.nodes.values().sum::<usize>(), played.n_placed());
    println!(
        "seed {seed}: {n_nodes} nodes, {n_pods} pods placed, {} workloads left, {} differences",
        left.len(),
        found.len()
    );
    if found.is_empty() {
        return String::new();
    }
    let repeat = repeat(seed, &objects, &catalogue);
    format!("{found:#?}; planned {planned_nodes:#?}; came {nodes:#?}; left {left:#?}; {repeat}")
}

/// Plays clusters, and says which of them end otherwise than they were planned.
async fn different(seeds: Range<u64>, with_reservations: bool) -> Vec<u64> {
    let mut different = Vec::new();
    for seed in seeds {
        let told = compare(seed, with_reservations).await;
        if !told.is_empty() {
            println!("{told}");
            different.push(seed);
        }
    }
    different
}

#[tokio::test(start_paused = true)]
async fn what_is_planned_is_what_the_sandbox_ends_up_with() {
    let all = seeds(0..6);
    assert_eq!(different(all.clone(), false).await, Vec::<u64>::new(), "of {} clusters", all.count());
}

/// In these clusters room has to be held for Reservations on nodes that come up, and those who are to draw from them have to
/// leave other places to others.
#[tokio::test(start_paused = true)]
async fn with_reservations_what_is_planned_comes_true_too() {
    let all = seeds(16..21);
    assert_eq!(different(all.clone(), true).await, Vec::<u64>::new(), "of {} clusters", all.count());
}

/// Nodes make way until nothing more is to be had: that costs what a plan said, whether they go at once or three in ten at a
/// time.
#[tokio::test(start_paused = true)]
async fn what_is_planned_to_make_way_is_what_makes_way() {
    let all = seeds(0..6);
    let (mut n_same, mut worse, mut sums) = (0, Vec::new(), [0.0; 3]);
    for seed in all.clone() {
        for share in ["100%", "30%"] {
            let (costs, told) = consolidated::play(seed, share).await;
            println!("seed {seed} {share}: {costs:?}");
            n_same += usize::from((costs.planned - costs.lived).abs() < 1e-6);
            for (sum, cost) in sums.iter_mut().zip([costs.before, costs.planned, costs.lived]) {
                *sum += cost;
            }
            if costs.lived > costs.planned + 1e-6 {
                println!("{told}");
                worse.push((seed, share));
            }
        }
    }
    println!("{n_same} of {} the same; before, planned, came: {sums:?}; dearer: {worse:?}", 2 * all.count());
    assert_eq!(worse, Vec::new());
}
