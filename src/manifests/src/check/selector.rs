//! Label selectors and node selectors.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Problems, metadata, syntax};
use crate::error::Problem;
use crate::path::{item, shorten};

const LABEL_OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
const NODE_OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

pub(super) fn check_label_selector(path: &str, selector: &LabelSelector, problems: &mut Problems) {
    if let Some(labels) = &selector.match_labels {
        metadata::check_labels(&format!("{path}.matchLabels"), labels, problems);
    }
    for (idx, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = item(&format!("{path}.matchExpressions"), idx);
        syntax::check_key(&format!("{path}.key"), &expression.key, problems);
        let values = expression.values.as_deref().unwrap_or_default();
        check_operator(&path, &expression.operator, LABEL_OPERATORS, values, problems);
        for (idx, value) in values.iter().enumerate() {
            syntax::check_value(&item(&format!("{path}.values"), idx), value, problems);
        }
    }
}

/// Does a well-formed selector that is not empty match these labels?
pub(super) fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let label = |key: &String| labels.and_then(|labels| labels.get(key));
    let pairs = || selector.match_labels.iter().flatten();
    let expressions = || selector.match_expressions.iter().flatten();
    (pairs().next().is_some() || expressions().next().is_some())
        && pairs().all(|(key, value)| label(key) == Some(value))
        && expressions().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            let is_listed = label(&expression.key).is_some_and(|value| values.contains(value));
            match expression.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => label(&expression.key).is_some(),
                _ => label(&expression.key).is_none(),
            }
        })
}

pub(super) fn check_node_selector(path: &str, selector: &NodeSelector, problems: &mut Problems) {
    if selector.node_selector_terms.is_empty() {
        let path = format!("{path}.nodeSelectorTerms");
        problems.push(Problem::new(path, "found none, expected at least one term"));
    }
    for (idx, term) in selector.node_selector_terms.iter().enumerate() {
        check_node_term(&item(&format!("{path}.nodeSelectorTerms"), idx), term, problems);
    }
}

pub(super) fn check_node_term(path: &str, term: &NodeSelectorTerm, problems: &mut Problems) {
    for (idx, expression) in term.match_expressions.iter().flatten().enumerate() {
        let path = item(&format!("{path}.matchExpressions"), idx);
        syntax::check_key(&format!("{path}.key"), &expression.key, problems);
        check_node_requirement(&path, expression, NODE_OPERATORS, problems);
    }
    for (idx, field) in term.match_fields.iter().flatten().enumerate() {
        let path = item(&format!("{path}.matchFields"), idx);
        syntax::check_enum(&format!("{path}.key"), &field.key, &["metadata.name"], problems);
        check_node_requirement(&path, field, &["In", "NotIn"], problems);
        let n_values = field.values.as_ref().map_or(0, Vec::len);
        if n_values > 1 {
            let message = format!("found {n_values}, expected one value");
            problems.push(Problem::new(format!("{path}.values"), message));
        }
    }
}

fn check_node_requirement(path: &str, requirement: &NodeSelectorRequirement, known: &[&str], problems: &mut Problems) {
    let values = requirement.values.as_deref().unwrap_or_default();
    check_operator(path, &requirement.operator, known, values, problems);
    if let ("Gt" | "Lt", [value]) = (requirement.operator.as_str(), values)
        && value.parse::<i64>().is_err()
    {
        let message = format!("found {:?}, expected an integer", shorten(value));
        problems.push(Problem::new(format!("{path}.values[0]"), message));
    }
}

/// The operator is known and has as many values as it needs.
fn check_operator(path: &str, operator: &str, known: &[&str], values: &[String], problems: &mut Problems) {
    syntax::check_enum(&format!("{path}.operator"), operator, known, problems);
    let expected = match (operator, values.len()) {
        ("In" | "NotIn", 0) => "at least one value",
        ("Exists" | "DoesNotExist", 1..) => "no values",
        ("Gt" | "Lt", n_values) if n_values != 1 => "exactly one value",
        _ => return,
    };
    let message = format!("found {}, but {operator} needs {expected}", values.len());
    problems.push(Problem::new(format!("{path}.values"), message));
}
