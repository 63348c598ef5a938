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
                let bound = bound(&problem, &[], Budget::bound_of_different_items());
                println!("bound {bound:.4} in {:?}", start.elapsed());
                continue;
            }
            let budget = match effort.as_str() {
                "high" => Budget::long_for_different_items(),
                _ => Budget::quick_for_different_items(),
            };
            let answer = search(&problem, &[], budget);
            let cost = problem.cost_of(&answer.plan);
            println!("{effort} {cost:.4} master {:.4} {:?} in {:?}", answer.relaxed, answer.stop, start.elapsed());
        }
    }
    Ok(())
}
