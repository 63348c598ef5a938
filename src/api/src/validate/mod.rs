//! What is wrong with an object, field by field.
//!
//! The rules are those of the kinds' published schemas and CEL rules, in the same words where those have words, and
//! what Karpenter checks at run time: label syntax, duplicate taints, known values. Kinds of values that serde rules
//! out (an unknown operator, a malformed quantity) are errors of reading instead.

mod budget;
mod ec2_node_class;
mod fake_capacity_reservation;
mod fake_node_class;
mod metadata;
mod node_claim;
mod node_overlay;
mod node_pool;
mod requirement;
mod reservation;
mod resources;
mod schedule;
mod syntax;
mod taint;

use std::fmt;

/// A field whose value breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where the field is, as in `spec.template.spec.requirements[2].operator`.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
    /// Which sort of rule it breaks.
    pub cause: Cause,
}

/// The sorts of rules that a field can break, as the API server's causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The value is malformed, out of range or contradicts another.
    Invalid,
    /// The field must be set.
    Required,
    /// The field may not be set, or the name is reserved.
    Forbidden,
    /// The same value occurs twice.
    Duplicate,
    /// There are too many of them.
    TooMany,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
struct Errors(Vec<FieldError>);

// === impl Errors ===

impl Errors {
    fn add(&mut self, cause: Cause, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { path: path.into(), message: message.into(), cause });
    }

    fn invalid(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Cause::Invalid, path, message);
    }

    fn required(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Cause::Required, path, message);
    }

    fn forbidden(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add(Cause::Forbidden, path, message);
    }

    /// Adds an error where a list is longer than its schema allows; whether it is.
    fn too_many(&mut self, path: &str, found: usize, most: usize) -> bool {
        if found > most {
            self.add(Cause::TooMany, path, format!("has {found} items, expected at most {most}"));
        }
        found > most
    }
}

/// A value for a message, cut where it is long.
fn shown(value: &str) -> String {
    const LONGEST: usize = 80;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("\"{}…\"", &value[..end]),
        None => format!("{value:?}"),
    }
}
