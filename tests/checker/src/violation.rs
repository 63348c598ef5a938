//! What the checker says when a plan breaks a rule.

use std::fmt;

/// One broken rule: which rule, about which object, with the numbers that show it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Violation {
    /// The rule's short name, for example `resources` or `topology-spread`.
    pub rule: &'static str,
    /// The object that breaks it: a pod `ns/name`, a claim, a node, a reservation or `summary`.
    pub object: String,
    /// One sentence with the numbers.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, object: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { rule, object: object.into(), detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule, self.object, self.detail)
    }
}
