//! Reads packing problems from standard input, one a line as JSON, and answers each with a plan and a bound. For checks
//! against other solvers: `hack/boundcheck` writes the problems.

use std::io::{BufRead, Write};

use berth_packing::{Budget, search};
use serde_json::{Value, json};

mod problems;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let value: Value = serde_json::from_str(&line?)?;
        let problem = problems::problem(&value).ok_or_else(|| format!("expected a packing problem, got {value}"))?;
        let answer = search(&problem, &[], budget(value["effort"].as_str().unwrap_or("default")));
        let plan: Vec<Value> = answer
            .plan
            .iter()
            .map(|(pattern, bins)| json!({"bin": pattern.bin, "items": pattern.items, "bins": bins}))
            .collect();
        writeln!(output, "{}", json!({"plan": plan, "bound": answer.bound, "relaxed": answer.relaxed}))?;
    }
    Ok(())
}

fn budget(effort: &str) -> Budget {
    match effort {
        "quick" => Budget { rounds: 3, dive_rounds: 0, dives: 1, steps: 3, nodes: 0, proofs: 0, ..Budget::default() },
        "thorough" => Budget { rounds: 300, dives: 300, share: 0.05, repairs: 30, gap: 1e-6, ..Budget::default() },
        _ => Budget::default(),
    }
}
