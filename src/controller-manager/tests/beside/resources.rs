//! Histories by dice over custom resources: defaults, pruning, rules and finalizers, with owners and quotas.

use serde_json::{Value, json};

use crate::definitions;
use crate::history::{Step, What};
use crate::random::Dice;

/// Definitions that are there from the start: a garbage collector learns of new ones late.
pub(crate) const STANDING: u64 = 8;
/// Definitions of a history's own are numbered from here.
const OWN: u64 = 10_000;

/// What a history is about.
pub(crate) struct Subject {
    /// The definition of its widgets.
    pub(crate) definition: u64,
    /// Whether the definition comes and goes with the history.
    pub(crate) is_own: bool,
}

/// The definition that a history's widgets are of.
pub(crate) fn subject(seed: u64) -> Subject {
    let is_own = seed % 25 == 7;
    Subject { definition: if is_own { OWN + seed } else { seed % STANDING }, is_own }
}

fn api(definition: u64) -> String {
    format!("{}/v1", definitions::group(definition))
}

pub(crate) fn of(seed: u64) -> Vec<Step> {
    let Subject { definition, is_own } = subject(seed);
    let mut dice = Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut steps = Vec::new();
    if is_own {
        steps.push(Step { what: What::Define(definition), settles: true });
        let n_steps = 2 + dice.below(5);
        for _ in 0..n_steps {
            steps.push(Step { what: step(&mut dice, definition, false), settles: true });
        }
        steps.push(Step { what: What::Undefine(definition), settles: true });
        let n_steps = 1 + dice.below(5);
        for _ in 0..n_steps {
            steps.push(Step { what: step(&mut dice, definition, false), settles: true });
        }
        if dice.chance(30) {
            steps.push(Step { what: What::Define(definition), settles: true });
            steps.push(Step { what: create(&mut dice, definition, false), settles: true });
        }
        return steps;
    }
    // A quota's usage is counted late: what it refuses depends on when one asks.
    let has_quota = dice.chance(40);
    if has_quota {
        steps.push(Step { what: quota(&mut dice, definition), settles: true });
    }
    let n_steps = 5 + dice.below(8);
    for _ in 0..n_steps {
        let what = if has_quota && dice.chance(10) {
            change_quota(&mut dice, definition)
        } else {
            step(&mut dice, definition, true)
        };
        steps.push(Step { what, settles: has_quota || dice.chance(50) });
    }
    steps
}

fn step(dice: &mut Dice, definition: u64, has_owners: bool) -> What {
    match dice.below(20) {
        0..=6 => create(dice, definition, has_owners),
        7..=9 if has_owners => {
            let mut meta = json!({"name": format!("own-{}", dice.below(3))});
            meta["ownerReferences"] = owners(dice, definition);
            if dice.chance(20) {
                meta["finalizers"] = json!(["berth.test/hold"]);
            }
            What::Create("v1".to_owned(), "configmaps", json!({"metadata": meta}))
        }
        10..=13 => {
            let spec = definitions::spec(dice, 25);
            What::Patch(api(definition), "widgets", widget(dice), json!({"spec": spec}))
        }
        14 => {
            let status = json!({"status": {"phase": dice.one_of(&["On", "Off", "Broken"]), "unknown": 1}});
            let name = format!("{}/status", widget(dice));
            What::Patch(api(definition), "widgets", name, status)
        }
        15 | 16 => What::Patch(api(definition), "widgets", widget(dice), json!({"metadata": {"finalizers": null}})),
        17 if has_owners => {
            let name = format!("own-{}", dice.below(3));
            What::Patch("v1".to_owned(), "configmaps", name, json!({"metadata": {"finalizers": null}}))
        }
        n => {
            let policy = dice.one_of(&["Background", "Background", "Foreground", "Orphan"]);
            if has_owners && n == 18 {
                What::Delete("v1".to_owned(), "configmaps", format!("own-{}", dice.below(3)), policy)
            } else {
                What::Delete(api(definition), "widgets", widget(dice), policy)
            }
        }
    }
}

fn widget(dice: &mut Dice) -> String {
    format!("w-{}", dice.below(3))
}

fn create(dice: &mut Dice, definition: u64, has_owners: bool) -> What {
    let name = widget(dice);
    let mut object = definitions::object(dice, definition, &name);
    if dice.chance(15) {
        object["metadata"]["finalizers"] = json!(["berth.test/hold"]);
    }
    if has_owners && dice.chance(60) {
        object["metadata"]["ownerReferences"] = owners(dice, definition);
    }
    What::Create(api(definition), "widgets", object)
}

/// Up to two owners of both kinds; some never were.
fn owners(dice: &mut Dice, definition: u64) -> Value {
    let mut owners: Vec<Value> = (0..dice.below(3))
        .map(|_| {
            let blocks = dice.chance(50);
            if dice.chance(50) {
                let name = dice.one_of(&["own-0", "own-1", "own-2", "nobody"]);
                json!({"kind": "ConfigMap", "apiVersion": "v1", "name": name, "blockOwnerDeletion": blocks})
            } else {
                let name = dice.one_of(&["w-0", "w-1", "w-2", "nobody"]);
                json!({"kind": "Widget", "apiVersion": api(definition), "name": name, "blockOwnerDeletion": blocks})
            }
        })
        .collect();
    owners.dedup_by_key(|owner| (owner["kind"].clone(), owner["name"].clone()));
    owners.into()
}

fn hard(dice: &mut Dice, definition: u64) -> Value {
    let mut hard = json!({});
    hard[format!("count/widgets.{}", definitions::group(definition))] = dice.one_of(&["1", "2", "9"]).into();
    if dice.chance(50) {
        hard["count/configmaps"] = dice.one_of(&["1", "2", "9"]).into();
    }
    hard
}

fn quota(dice: &mut Dice, definition: u64) -> What {
    let object = json!({"metadata": {"name": "quota"}, "spec": {"hard": hard(dice, definition)}});
    What::Create("v1".to_owned(), "resourcequotas", object)
}

fn change_quota(dice: &mut Dice, definition: u64) -> What {
    match dice.below(3) {
        0 => What::Delete("v1".to_owned(), "resourcequotas", "quota".to_owned(), "Background"),
        1 => quota(dice, definition),
        _ => {
            let patch = json!({"spec": {"hard": hard(dice, definition)}});
            What::Patch("v1".to_owned(), "resourcequotas", "quota".to_owned(), patch)
        }
    }
}
