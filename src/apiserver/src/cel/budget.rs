//! Which rules a definition may have: they must compile, and their estimated cost must be within the real server's limits.

use serde_json::Value;

use super::compile::Compiler;
use super::types::{Kind, Type};
use crate::status::Cause;

/// What one rule may cost at most, over all values of its schema in one object.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost at most.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Rules that are told where their sum is too much.
const MAX_TOLD: usize = 4;

/// The rules of one version's schema.
#[derive(Default)]
struct Total {
    cost: u64,
    /// Those that take a hundredth of the limit or more.
    expensive: Vec<(u64, String)>,
}

// === impl Total ===

impl Total {
    /// Takes in the cost of one expression, which must itself be within the limit.
    fn observe(&mut self, place: String, what: &str, cost: u64, causes: &mut Vec<Cause>) {
        if cost > RULE_LIMIT {
            causes.push(Cause::forbidden(place.clone(), &over_budget(what, cost, RULE_LIMIT)));
        }
        self.cost = self.cost.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, place));
        }
    }
}

/// Checks all rules of a version's schema, which is at a path of the definition.
pub(crate) fn check_schema(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut total = Total::default();
    check(schema, path, true, Some(1), &mut total, causes);
    if total.cost <= SCHEMA_LIMIT {
        return;
    }
    total.expensive.sort_by(|a, b| b.cmp(a));
    for (_, rule) in total.expensive.into_iter().take(MAX_TOLD) {
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        causes.push(Cause::forbidden(rule, why));
    }
    let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    causes.push(Cause::forbidden(path, &over_budget(name, total.cost, SCHEMA_LIMIT)));
}

/// Checks the rules of a schema and those below it; `often` says how many of its values there can be, where that is bounded.
fn check(
    schema: &Value,
    path: &str,
    is_resource: bool,
    often: Option<u64>,
    total: &mut Total,
    causes: &mut Vec<Cause>,
) {
    let is_resource = is_resource || schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).filter(|rules| !rules.is_empty());
    if let Some(rules) = rules {
        match Type::of(schema, is_resource) {
            Some(ty) => {
                let often = often.unwrap_or_else(|| ty.max_cardinality());
                for (index, rule) in rules.iter().enumerate() {
                    let place = format!("{path}.x-kubernetes-validations[{index}]");
                    check_rule(rule, &ty, &place, often, total, causes);
                }
            }
            None => causes.push(Cause::invalid(
                format!("{path}.x-kubernetes-validations"),
                &Value::Null,
                "rules cannot see values of this schema",
            )),
        }
    }
    let more = |bound: &str| often?.checked_mul(schema.get(bound)?.as_u64()?);
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(child, &format!("{path}.properties[{name}]"), false, often, total, causes);
    }
    if let Some(items) = schema.get("items") {
        check(items, &format!("{path}.items"), false, more("maxItems"), total, causes);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        check(values, &format!("{path}.additionalProperties"), false, more("maxProperties"), total, causes);
    }
}

fn check_rule(rule: &Value, ty: &Type, place: &str, often: u64, total: &mut Total, causes: &mut Vec<Cause>) {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_old_optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
    if text("rule").trim().is_empty() {
        causes.push(Cause::required(format!("{place}.rule"), "rule is not specified"));
        return;
    }
    let mut compiler = Compiler::new(ty, is_old_optional);
    match compiler.compile(text("rule"), Kind::Bool) {
        Ok((_, cost)) => {
            let cost = cost.saturating_mul(often);
            total.observe(format!("{place}.rule"), "estimated rule cost", cost, causes);
        }
        Err(why) => {
            let why = if why.starts_with("cel expression") { why } else { format!("compilation failed: {why}") };
            causes.push(Cause::invalid(format!("{place}.rule"), &text("rule").into(), &why));
            return;
        }
    }
    if is_old_optional && !compiler.uses_old_self {
        let why = "may not be set if oldSelf is not used in rule";
        causes.push(Cause::invalid(format!("{place}.optionalOldSelf"), &Value::Bool(true), why));
    }
    if text("messageExpression").is_empty() {
        return;
    }
    match Compiler::new(ty, is_old_optional).compile(text("messageExpression"), Kind::String) {
        Ok((_, cost)) => {
            total.observe(format!("{place}.messageExpression"), "estimated messageExpression cost", cost, causes);
        }
        Err(why) => {
            let why = format!("messageExpression compilation failed: {why}");
            causes.push(Cause::invalid(format!("{place}.messageExpression"), &text("messageExpression").into(), &why));
        }
    }
}

#[allow(clippy::cast_precision_loss)] // It is printed.
fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
