//! The order of documents decides nothing: the same objects in any order give the same plan, to the byte.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_checker::{Case, Size, random_case};
use berth_plan::{Effort, Options, PlanError, plan_documents};
use serde_json::Value;

use crate::{Failure, failure, gpu_types_for_any_pod, has_reserved_capacity, panic_message, shares_of};

/// Plans a case with its documents as they are, back to front, and shuffled, and lists where the plans differ.
pub fn try_any_order(seed: u64, size: Size) -> Vec<Failure> {
    let case = random_case(seed, size);
    let mut options = Options { now: "2026-01-01T12:00:00Z".parse().ok(), ..Options::default() };
    options.gates.reserved_capacity = has_reserved_capacity(seed);
    options.effort = if seed.is_multiple_of(4) { Effort::Low } else { Effort::Default };
    options.max_shares = shares_of(seed);
    options.gpu_types_for_any_pod = gpu_types_for_any_pod(seed);
    options.bound = seed.is_multiple_of(3);
    let tried = catch_unwind(AssertUnwindSafe(|| try_orders(&case, &options, seed)));
    tried.unwrap_or_else(|panic| vec![failure("panic", &panic_message(panic.as_ref()))])
}

fn try_orders(case: &Case, options: &Options, seed: u64) -> Vec<Failure> {
    let plan = |objects: &[Value]| plan_documents(objects, Some(&case.catalogue), options);
    let first = match plan(&case.objects) {
        Ok(first) => first,
        Err(PlanError::Shares(_)) => return Vec::new(),
        Err(error) => return vec![failure("refused", &error)],
    };
    let mut reversed = case.objects.clone();
    reversed.reverse();
    let mut shuffled = case.objects.clone();
    shuffle(&mut shuffled, seed);
    let (mut failures, bytes) = (Vec::new(), first.to_string());
    for (order, objects) in [("back to front", reversed), ("shuffled", shuffled)] {
        match plan(&objects) {
            Ok(other) => {
                let found = other.to_string();
                if found == bytes {
                    continue;
                }
                let (path, was, is) = first_difference("", &first, &other);
                failures.push(failure("order", &format!("documents {order}: {path} is {is}, was {was}")));
            }
            Err(error) => failures.push(failure("refused", &error)),
        }
    }
    failures
}

/// Where two values differ first, and what stands there.
fn first_difference(path: &str, a: &Value, b: &Value) -> (String, String, String) {
    let within = match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            let mut both = a.iter().filter_map(|(key, value)| Some((format!("{path}.{key}"), value, b.get(key)?)));
            both.find(|(_, a, b)| a != b)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut both = a.iter().zip(b).enumerate().map(|(at, (a, b))| (format!("{path}[{at}]"), a, b));
            both.find(|(_, a, b)| a != b)
        }
        _ => None,
    };
    if let Some((path, a, b)) = within {
        return first_difference(&path, a, b);
    }
    let short = |value: &Value| value.to_string().chars().take(300).collect();
    (path.to_owned(), short(a), short(b))
}

fn shuffle(objects: &mut [Value], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for at in (1..objects.len()).rev() {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let other = usize::try_from(state >> 33).unwrap_or(0) % (at + 1);
        objects.swap(at, other);
    }
}
