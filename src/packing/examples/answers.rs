//! Reads packing problems from standard input, one a line as JSON, and answers each with a plan and a bound. For checks
//! against other solvers: `hack/boundcheck` writes the problems.

use std::io::{BufRead, Write};

use berth_packing::{BinType, Budget, Item, Need, Problem, Rule, search};
use fixedbitset::FixedBitSet;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let value: Value = serde_json::from_str(&line?)?;
        let problem = problem(&value).ok_or_else(|| format!("expected a packing problem, got {value}"))?;
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

fn problem(value: &Value) -> Option<Problem> {
    let items: Vec<Item> = value["items"].as_array()?.iter().map(item).collect::<Option<_>>()?;
    let bins: Vec<BinType> =
        value["bins"].as_array()?.iter().map(|bin| bin_type(bin, &items)).collect::<Option<_>>()?;
    let rule = |rule: &Value| {
        let at_most = u32::try_from(rule["atMost"].as_u64()?).ok()?;
        Some(Rule { subjects: indices(&rule["subjects"])?, counted: indices(&rule["counted"])?, at_most })
    };
    let need =
        |need: &Value| Some(Need { bins: set(&need["bins"], bins.len())?, items: set(&need["items"], items.len())? });
    Some(Problem {
        stocks: value["stocks"].as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?,
        rules: value["rules"].as_array()?.iter().map(rule).collect::<Option<_>>()?,
        needs: value["needs"].as_array()?.iter().map(need).collect::<Option<_>>()?,
        items,
        bins,
    })
}

fn item(value: &Value) -> Option<Item> {
    let at_most = value["atMost"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
    Some(Item {
        count: u32::try_from(value["count"].as_u64()?).ok()?,
        size: amounts(&value["size"])?,
        at_most,
        load: value["load"].as_f64()?,
    })
}

fn bin_type(value: &Value, items: &[Item]) -> Option<BinType> {
    let draw = |draw: &Value| Some((usize::try_from(draw[0].as_u64()?).ok()?, draw[1].as_f64()?));
    Some(BinType {
        cost: value["cost"].as_f64()?,
        bias: 0.0,
        room: amounts(&value["room"])?,
        admits: set(&value["admits"], items.len())?,
        draws: value["draws"].as_array()?.iter().map(draw).collect::<Option<_>>()?,
        loads: indices(&value["loads"])?.into_iter().map(|stock| stock as usize).collect(),
    })
}

fn amounts(value: &Value) -> Option<Vec<i64>> {
    value.as_array()?.iter().map(Value::as_i64).collect()
}

fn indices(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|index| index.as_u64().and_then(|index| u32::try_from(index).ok())).collect()
}

fn set(value: &Value, length: usize) -> Option<FixedBitSet> {
    let mut set = FixedBitSet::with_capacity(length);
    for index in indices(value)? {
        set.insert(index as usize);
    }
    Some(set)
}
