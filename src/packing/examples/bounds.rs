//! Reads packing problems as `answers` does; says what a plan of them costs, and its bound, by the budgets for many different items.

use std::io::BufRead;
use std::time::Instant;

use berth_packing::{Budget, bound, search};
use serde_json::Value;

mod problems;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let which: Vec<String> = std::env::args().skip(1).collect();
    for line in std::io::stdin().lock().lines() {
        let value: Value = serde_json::from_str(&line?)?;
        let problem = problems::problem(&value).ok_or_else(|| format!("expected a packing problem, got {value}"))?;
        for effort in &which {
            let start = Instant::now();
            if effort == "bound" {
                let bound = bound(&problem, &[], Budget { rounds: 200, fills: 0, ..high() });
                println!("bound {bound:.4} in {:?}", start.elapsed());
                continue;
            }
            let answer = search(&problem, &[], if effort == "high" { high() } else { default() });
            let cost = problem.cost_of(&answer.plan);
            println!("{effort} {cost:.4} master {:.4} {:?} in {:?}", answer.relaxed, answer.stop, start.elapsed());
        }
    }
    Ok(())
}

fn default() -> Budget {
    Budget {
        work: 80_000,
        rounds: 6,
        types: 64,
        fills: 2,
        exact_fills: false,
        dives: 0,
        repairs: 4,
        ruins: 100_000_000,
        steps: 40,
        deep_steps: 0,
        nodes: 0,
        proofs: 0,
        ..Budget::default()
    }
}

fn high() -> Budget {
    Budget {
        work: 200_000,
        rounds: 100,
        types: 96,
        fills: 4,
        dives: 60,
        dive_rounds: 2,
        share: 0.08,
        repairs: 10,
        ruins: 1_000_000_000,
        steps: 60,
        deep_steps: 4_000_000,
        nodes: 0,
        proofs: 8,
        proof_nodes: 5_000,
        prices: 1_500,
        ..Budget::default()
    }
}
