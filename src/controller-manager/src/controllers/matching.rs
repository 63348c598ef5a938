//! Whether nodes match selectors, and whether taints are tolerated.

use berth_quantity::Operator;
use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, Taint, Toleration};

/// The value of a node's label.
fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether a node has all of some labels.
pub(crate) fn has_labels<'s>(node: &Node, mut labels: impl Iterator<Item = (&'s String, &'s String)>) -> bool {
    labels.all(|(key, value)| label(node, key) == Some(value))
}

/// Whether a node fits one of the terms of a node selector.
pub(crate) fn fits(selector: &NodeSelector, node: &Node) -> bool {
    let name = node.metadata.name.as_deref();
    selector.node_selector_terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|expression| holds(expression, label(node, &expression.key)))
            && fields.iter().all(|field| field.key == "metadata.name" && holds(field, name))
    })
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let operator: Option<Operator> = requirement.operator.parse().ok();
    operator.is_some_and(|operator| operator.admits(requirement.values.as_deref().unwrap_or_default(), value))
}

/// Whether a toleration is of a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let effect = text(&toleration.effect);
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = text(&toleration.key);
    match text(&toleration.operator).as_str() {
        "Exists" => key.is_empty() || key == taint.key,
        "" | "Equal" => key == taint.key && text(&toleration.value) == text(&taint.value),
        operator @ ("Gt" | "Lt") => {
            let numbers = (text(&taint.value).parse::<i64>(), text(&toleration.value).parse::<i64>());
            let (Ok(taint_value), Ok(own)) = numbers else { return false };
            key == taint.key && if operator == "Gt" { taint_value > own } else { taint_value < own }
        }
        _ => false,
    }
}

/// The taints of a node.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}
