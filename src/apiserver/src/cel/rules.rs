//! The rules of one schema.

use serde_json::Value;

use super::compile::{Compiler, Node};
use super::eval::{CALL_LIMIT, Evaluation, Failed};
use super::types::{Kind, Type};
use super::value::{Val, wrap};
use crate::status::Cause;

/// What all rules of one object may cost together.
const OBJECT_LIMIT: u64 = 10_000_000;
/// A message of an expression is no longer.
const MAX_MESSAGE: usize = 5 * 1024;

/// What is left to be spent on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget(u64);

/// The rules of one schema, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Rules {
    ty: Type,
    /// The type of the schema, as messages say it.
    type_name: Box<str>,
    listed: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// What is wrong with it comes up for every value, where a definition was stored before it was checked.
    condition: Result<Node, String>,
    message: Option<Node>,
    /// What is said without a message expression.
    text: Box<str>,
    /// How messages name the rule.
    name: Box<str>,
    reason: Option<Box<str>>,
    field_path: Box<str>,
    uses_old_self: bool,
    is_old_optional: bool,
}

/// Where a rule is evaluated, for what it tells.
pub(crate) struct Told<'c> {
    /// The path of the value; empty at the root.
    pub(crate) path: &'c str,
    /// Whether an update left the value as it was: then only rules that look at both are told.
    pub(crate) unchanged: &'c dyn Fn() -> bool,
    pub(crate) causes: &'c mut Vec<Cause>,
}

/// The budget is spent: no more rules are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent;

impl Default for Budget {
    fn default() -> Self {
        Self(OBJECT_LIMIT)
    }
}

// === impl Rules ===

impl Rules {
    /// The rules of a schema, where it has any and rules can see its values.
    pub(crate) fn compile(schema: &Value, is_resource: bool) -> Option<Self> {
        let listed =
            schema.get("x-kubernetes-validations").and_then(Value::as_array).filter(|rules| !rules.is_empty())?;
        let ty = Type::of(schema, is_resource)?;
        let rules = listed.iter().filter_map(|rule| Rule::compile(rule, &ty)).collect();
        let type_name = schema.get("type").and_then(Value::as_str).unwrap_or_default().into();
        Some(Self { ty, type_name, listed: rules })
    }

    /// Evaluates the rules for a value and the one that it replaces.
    pub(crate) fn check(
        &self,
        value: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
        told: &mut Told<'_>,
    ) -> Result<(), Spent> {
        if value.is_null() {
            return Ok(());
        }
        let (own, before) = (wrap(value, &self.ty), old.filter(|old| !old.is_null()).map(|old| wrap(old, &self.ty)));
        for rule in &self.listed {
            let old = match (&before, rule.is_old_optional) {
                (old, true) => Val::Optional(old.clone().map(std::sync::Arc::new)),
                (Some(old), false) => old.clone(),
                (None, false) if rule.uses_old_self => continue,
                (None, false) => Val::Null,
            };
            let tell = |told: &mut Told<'_>, why: String| {
                let value = Value::from(&*self.type_name);
                told.causes.push(Cause::invalid(shown(told.path), &value, &why));
            };
            let condition = match &rule.condition {
                Ok(condition) => condition,
                Err(why) => {
                    tell(told, format!("rule compile error: {why}"));
                    continue;
                }
            };
            let mut evaluation = Evaluation::new(own.clone(), old.clone(), CALL_LIMIT.min(budget.0));
            let found = evaluation.value(condition);
            let spent = evaluation.cost;
            match found {
                Err(Failed::Limit) if budget.0 <= CALL_LIMIT => {
                    tell(told, OUT_OF_BUDGET.to_owned());
                    return Err(Spent);
                }
                Err(Failed::Limit) => {
                    let name = &rule.name;
                    tell(
                        told,
                        format!(
                            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                        ),
                    );
                    return Err(Spent);
                }
                _ => budget.0 = budget.0.saturating_sub(spent),
            }
            match found {
                Ok(Val::Bool(true)) | Err(Failed::Limit) => {}
                Ok(_) => {
                    if rule.uses_old_self || !(told.unchanged)() {
                        let message = rule.message(&own, &old, budget);
                        rule.tell(value, message, told);
                    }
                }
                Err(Failed::Error(why)) if why.starts_with("no such overload") => {
                    let name = &rule.name;
                    tell(
                        told,
                        format!(
                            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                        ),
                    );
                }
                Err(Failed::Error(why)) => tell(told, format!("{why} evaluating rule: {}", rule.name)),
            }
        }
        Ok(())
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

// === impl Rule ===

impl Rule {
    fn compile(rule: &Value, ty: &Type) -> Option<Self> {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        let condition = text("rule");
        if condition.trim().is_empty() {
            return None;
        }
        let is_old_optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let mut compiler = Compiler::new(ty, is_old_optional);
        let checked = compiler.compile(condition, Kind::Bool).map(|(node, _)| node);
        let uses_old_self = compiler.uses_old_self;
        let message = Some(text("messageExpression")).filter(|text| !text.is_empty());
        let name = if text("message").is_empty() { condition.trim() } else { text("message").trim() };
        Some(Self {
            condition: checked,
            message: message.and_then(|text| {
                let said = Compiler::new(ty, is_old_optional).compile(text, Kind::String);
                said.ok().map(|(node, _)| node)
            }),
            text: if text("message").is_empty() { format!("failed rule: {name}").into() } else { name.into() },
            name: name.into(),
            reason: rule.get("reason").and_then(Value::as_str).map(Into::into),
            field_path: text("fieldPath").trim_start_matches('.').into(),
            uses_old_self,
            is_old_optional,
        })
    }

    /// What the message expression says, where it says anything that can be told.
    fn message<'a>(&'a self, own: &Val<'a>, old: &Val<'a>, budget: &mut Budget) -> Option<String> {
        let mut evaluation = Evaluation::new(own.clone(), old.clone(), CALL_LIMIT.min(budget.0));
        let found = evaluation.value(self.message.as_ref()?);
        budget.0 = budget.0.saturating_sub(evaluation.cost);
        let Ok(Val::Str(text)) = found else { return None };
        let text = text.trim();
        (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
    }

    fn tell(&self, value: &Value, message: Option<String>, told: &mut Told<'_>) {
        let field = match (told.path, &*self.field_path) {
            (path, "") => shown(path),
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        let message = message.unwrap_or_else(|| self.text.to_string());
        told.causes.push(match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(field, &message),
            Some("FieldValueRequired") => Cause::required(field, &message),
            Some("FieldValueDuplicate") => Cause::duplicate(field, value),
            _ if value.is_object() || value.is_array() => {
                // Maps and lists are not printed.
                Cause { reason: "FieldValueInvalid", message: format!("Invalid value: {message}"), field }
            }
            _ => Cause::invalid(field, value, &message),
        });
    }
}
