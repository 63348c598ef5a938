//! Evaluates the rules of a schema and those below it, within one budget.

use std::fmt::Write;

use serde_json::Value;

use super::Structural;
use crate::cel::{Budget, Told};
use crate::status::Cause;

/// A value with the older one that it replaces, where that can be told.
#[derive(Clone, Copy)]
struct Pair<'v> {
    value: &'v Value,
    old: Option<&'v Value>,
    /// The nearest values around, old and new, that can be compared.
    around: Option<(&'v Value, &'v Value)>,
}

/// The budget is spent, and what it had to say was told.
struct Over;

/// Evaluates all rules for an object.
pub(in crate::crd) fn check_rules(object: &Value, schema: &Structural, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let pair = Pair { value: object, old, around: None };
    // What it says when the budget is spent is among the causes.
    let _ = check(pair, schema, &mut String::new(), &mut Budget::default(), causes);
}

/// Evaluates all rules for a new value, which is at a path.
pub(in crate::crd) fn check_rules_at(value: &Value, schema: &Structural, path: &mut String, causes: &mut Vec<Cause>) {
    let _ = check(Pair { value, old: None, around: None }, schema, path, &mut Budget::default(), causes);
}

fn check(
    pair: Pair<'_>,
    schema: &Structural,
    path: &mut String,
    budget: &mut Budget,
    causes: &mut Vec<Cause>,
) -> Result<(), Over> {
    if !schema.has_rules || pair.value.is_null() {
        return Ok(());
    }
    if let Some(rules) = &schema.rules {
        let unchanged = || match (pair.old, pair.around) {
            (Some(old), _) => old == pair.value,
            (None, Some((old, new))) => old == new,
            (None, None) => false,
        };
        let mut told = Told { path, unchanged: &unchanged, causes };
        rules.check(pair.value, pair.old, budget, &mut told).map_err(|_| Over)?;
    }
    for schema in &schema.all_of {
        check(Pair { around: None, ..pair }, schema, path, budget, causes)?;
    }
    let around = pair.old.map(|old| (old, pair.value)).or(pair.around);
    let length = path.len();
    match pair.value {
        Value::Object(map) => {
            for (key, value) in map {
                let Some(schema) = schema.below(key).filter(|schema| schema.has_rules) else { continue };
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                let old = pair.old.and_then(|old| old.get(key));
                check(Pair { value, old, around }, schema, path, budget, causes)?;
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.items.as_deref().filter(|items| items.has_rules) else { return Ok(()) };
            for (index, value) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                let old = schema.old_item(value, pair.old);
                check(Pair { value, old, around }, of_items, path, budget, causes)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}
