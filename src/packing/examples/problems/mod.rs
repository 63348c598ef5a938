//! Packing problems as JSON.

use berth_packing::{BinType, Item, Need, Problem, Rule};
use fixedbitset::FixedBitSet;
use serde_json::Value;

/// A problem from an object as `hack/boundcheck/packings.py` writes it; `None` where a field is missing.
pub(crate) fn problem(value: &Value) -> Option<Problem> {
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
