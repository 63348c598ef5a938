//! Random clusters, planned in process and checked: what must hold for every plan.
//!
//! A case is a seed and a size of [`berth_checker::random_case`]. [`try_case`] plans it and lists every rule that the
//! plan breaks; [`narrowing`] compares what a NodePool's whole catalogue admits with what its offerings admit one by
//! one. The `soak` binary runs many cases and counts failures by rule; the tests run a few, or `BERTH_CASES` of each.

pub mod acceptance;
pub mod agreement;
pub mod kube;
pub mod narrowing;
pub mod order;
mod read;

pub use read::{cluster as cluster_of, fold};

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_checker::{Case, Size, random_case};
use berth_plan::{Effort, MaxShare, Options, PlanError, parse_max_share, plan_documents};
use serde_json::Value;

/// One thing that is wrong with the plan of a case.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Failure {
    /// The checker's rule, or `refused`, `panic`, `not-deterministic`, `narrowing`.
    pub rule: String,
    /// What it is about, in one sentence.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

fn failure(rule: &str, detail: &dyn fmt::Display) -> Failure {
    Failure { rule: rule.to_owned(), detail: detail.to_string() }
}

/// Whether the gate `ReservedCapacity` is on for a seed: off for one in five.
pub fn has_reserved_capacity(seed: u64) -> bool {
    seed % 5 != 4
}

/// The effort that a seed is planned with: high for one in four, low for one in eight.
pub fn effort_of(seed: u64) -> Effort {
    match seed % 8 {
        1 | 6 => Effort::High,
        3 => Effort::Low,
        _ => Effort::Default,
    }
}

/// The shares that a seed is planned with: some for one in three.
pub fn shares_of(seed: u64) -> Vec<MaxShare> {
    let texts: &[&str] = match (seed % 3, seed / 3 % 7) {
        (2, 0) => &["zone=50%"],
        (2, 1) => &["zone=34%", "capacityType=spot=30%"],
        (2, 2) => &["instanceType=25%"],
        (2, 3) => &["capacityType=60%"],
        (2, 4) => &["zone=zone-a=0", "instanceType=50%"],
        (2, 5) => &["capacityType=spot=0%"],
        (2, _) => &["zone=zone-b=10%", "capacityType=reserved=20%", "instanceType=40%"],
        _ => &[],
    };
    texts.iter().filter_map(|text| parse_max_share(text).ok()).collect()
}

fn checked_share(share: &MaxShare) -> berth_checker::MaxShare {
    berth_checker::MaxShare {
        key: share.key.name().to_owned(),
        value: share.value.clone(),
        billionths: share.billionths,
    }
}

/// Whether types with GPUs may be launched for any pod: for one seed in seven.
pub fn gpu_types_for_any_pod(seed: u64) -> bool {
    seed % 7 == 3
}

/// Plans the case twice and lists all that is wrong: the input refused, a panic, bytes that differ between the two,
/// every violation that the checker finds, whom the scheduler refuses where the plan has them, a bound above the cost, and
/// a plan worse than that of first fit alone.
pub fn try_case(seed: u64, size: Size) -> Vec<Failure> {
    let case = random_case(seed, size);
    let mut options = Options { now: "2026-01-01T12:00:00Z".parse().ok(), ..Options::default() };
    options.gates.reserved_capacity = has_reserved_capacity(seed);
    options.effort = effort_of(seed);
    options.max_shares = shares_of(seed);
    options.gpu_types_for_any_pod = gpu_types_for_any_pod(seed);
    options.what_restrictions_cost = seed % 11 == 5 && size != Size::Medium;
    options.bound = seed.is_multiple_of(3);
    let tried = catch_unwind(AssertUnwindSafe(|| try_plan(&case, &options)));
    tried.unwrap_or_else(|panic| vec![failure("panic", &panic_message(panic.as_ref()))])
}

fn try_plan(case: &Case, options: &Options) -> Vec<Failure> {
    let plan = |options: &Options| plan_documents(&case.objects, Some(&case.catalogue), options);
    let (first, second) = match (plan(options), plan(options)) {
        (Ok(first), Ok(second)) => (first, second),
        // No plan keeps these shares, which is told before anything is planned.
        (Err(PlanError::Shares(_)), Err(PlanError::Shares(_))) => return Vec::new(),
        (Err(error), _) | (_, Err(error)) => return vec![failure("refused", &error)],
    };
    let checked = berth_checker::Options {
        reserved_capacity: options.gates.reserved_capacity,
        gpu_types_for_any_pod: options.gpu_types_for_any_pod,
        max_shares: options.max_shares.iter().map(checked_share).collect(),
        ..berth_checker::Options::default()
    };
    let found = berth_checker::check(&case.objects, &case.catalogue, &first, &checked);
    let mut failures: Vec<Failure> =
        found.into_iter().map(|v| failure(v.rule, &format!("{}: {}", v.object, v.detail))).collect();
    failures.extend(acceptance::try_acceptance(case, &first, options.max_shares.is_empty()));
    if first.to_string().as_bytes() != second.to_string().as_bytes() {
        failures.push(failure("not-deterministic", &"a second plan of the same input differs"));
    }
    let cost = first["summary"]["hourlyCost"].as_f64().unwrap_or(f64::NAN);
    if let Some(bound) = first["summary"]["lowerBound"].as_f64().filter(|bound| *bound > cost) {
        failures.push(failure("bound", &format!("{bound} $/h is said to be the least, and {cost} is paid")));
    }
    let lower: &[Effort] = match options.effort {
        Effort::Low => &[],
        Effort::Default => &[Effort::Low],
        Effort::High => &[Effort::Low, Effort::Default],
    };
    for &effort in lower {
        match plan(&Options { effort, bound: false, ..options.clone() }) {
            Ok(less) => failures.extend(worse_than(&less, &first, case, effort)),
            Err(error) => failures.push(failure("refused", &error)),
        }
    }
    failures
}

/// Plans the case by every effort, each with a bound, and lists bounds above what some plan of the same pods costs. Efforts
/// differ in the plans that a bound begins with and is proved from.
pub fn try_bounds(seed: u64, size: Size) -> Vec<Failure> {
    let case = random_case(seed, size);
    let mut options = Options { now: "2026-01-01T12:00:00Z".parse().ok(), bound: true, ..Options::default() };
    options.gates.reserved_capacity = has_reserved_capacity(seed);
    options.max_shares = shares_of(seed);
    options.gpu_types_for_any_pod = gpu_types_for_any_pod(seed);
    let tried = catch_unwind(AssertUnwindSafe(|| try_efforts(&case, &options)));
    tried.unwrap_or_else(|panic| vec![failure("panic", &panic_message(panic.as_ref()))])
}

fn try_efforts(case: &Case, options: &Options) -> Vec<Failure> {
    let mut plans: Vec<(Effort, Value)> = Vec::new();
    for effort in [Effort::Low, Effort::Default, Effort::High] {
        match plan_documents(&case.objects, Some(&case.catalogue), &Options { effort, ..options.clone() }) {
            Ok(plan) => plans.push((effort, plan)),
            Err(PlanError::Shares(_)) => return Vec::new(),
            Err(error) => return vec![failure("refused", &error)],
        }
    }
    let number = |plan: &Value, name: &str| plan["summary"][name].as_f64();
    let places_all = |(_, plan): &&(Effort, Value)| plan["unschedulable"].as_array().is_some_and(Vec::is_empty);
    let costs =
        plans.iter().filter(places_all).filter_map(|(effort, plan)| Some((number(plan, "hourlyCost")?, effort)));
    // Where some leave pods out, each bound is of other pods.
    let Some((least, by)) =
        costs.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| plans.iter().all(|plan| places_all(&plan)))
    else {
        return Vec::new();
    };
    let above = plans.iter().filter_map(|(effort, plan)| Some((effort, number(plan, "lowerBound")?)));
    let above = above.filter(|(_, bound)| *bound > least);
    above
        .map(|(effort, bound)| {
            let detail = format!("{bound} $/h is the bound of effort {effort:?}, and {least} is paid by effort {by:?}");
            failure("bound", &detail)
        })
        .collect()
}

// What is worse in a plan than in that of less effort. Weights and wishes come before cost, so cost is compared where
// there are none; priorities before numbers, so numbers where all are the same.
fn worse_than(low: &Value, plan: &Value, case: &Case, effort: Effort) -> Option<Failure> {
    let text = serde_json::to_string(&case.objects).unwrap_or_default();
    let has = |word: &str| text.contains(word);
    let number = |plan: &Value, name: &str| plan["summary"][name].as_f64().unwrap_or(f64::NAN);
    let of_both = |name| (number(low, name), number(plan, name));
    let (placed_low, placed) = of_both("placed");
    if placed < placed_low && !has("priority") {
        let detail = format!("{placed} pods are placed, {placed_low} by effort {effort:?}");
        return Some(failure("fewer-than-with-less-effort", &detail));
    }
    let has_wishes = ["\"weight\"", "ScheduleAnyway", "PreferNoSchedule"].into_iter().any(has);
    let (cost_low, cost) = of_both("hourlyCost");
    let is_dearer = placed <= placed_low && cost > cost_low * (1.0 + 1e-9) && !has_wishes;
    (is_dearer && !(has("priority") && placed < placed_low))
        .then(|| failure("dearer-than-with-less-effort", &format!("{cost} $/h, {cost_low} by effort {effort:?}")))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "with no message".to_owned())
}

/// The number of cases of a test: `few`, or what the environment variable `BERTH_CASES` says.
pub fn n_cases(few: u64) -> u64 {
    std::env::var("BERTH_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}
