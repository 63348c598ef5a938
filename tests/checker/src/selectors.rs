//! Label selectors and node selectors, read as the Kubernetes documentation has them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of one object.
pub(crate) type Labels = BTreeMap<String, String>;

/// A node as selectors see it: its name, and its labels in two layers of which the first wins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeView<'a> {
    pub(crate) name: &'a str,
    pub(crate) own: &'a Labels,
    pub(crate) base: &'a Labels,
}

impl NodeView<'_> {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.own.get(key).or_else(|| self.base.get(key)).map(String::as_str)
    }
}

/// Does the selector match? No selector matches nothing, an empty one everything.
pub(crate) fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|expression| {
            let value = labels.get(&expression.key);
            let listed = value.is_some_and(|v| expression.values.iter().flatten().any(|x| x == v));
            match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// One requirement of a node selector or a NodePool, against a value or its absence.
///
/// All eight operators; numbers are whole, and a value that is no number is outside every bound.
pub(crate) fn admits(operator: &str, values: &[String], value: Option<&str>) -> bool {
    let listed = value.is_some_and(|v| values.iter().any(|x| x == v));
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|v| v.parse::<i64>().ok());
        let value = value.and_then(|v| v.parse::<i64>().ok());
        bound.zip(value).is_some_and(|(bound, value)| holds(value, bound))
    };
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        "Gte" => compare(|value, bound| value >= bound),
        "Lte" => compare(|value, bound| value <= bound),
        _ => false,
    }
}

fn expression_holds(expression: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    admits(&expression.operator, expression.values.as_deref().unwrap_or_default(), value)
}

/// All expressions and fields of a term; a term with neither matches nothing.
pub(crate) fn term_holds(term: &NodeSelectorTerm, node: NodeView<'_>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|e| expression_holds(e, node.label(&e.key)))
        && fields.iter().all(|f| f.key == "metadata.name" && expression_holds(f, Some(node.name)))
}

/// Any term of a node selector.
pub(crate) fn node_selector_holds(selector: &NodeSelector, node: NodeView<'_>) -> bool {
    selector.node_selector_terms.iter().any(|term| term_holds(term, node))
}

/// The pod's required node affinity, where it has one.
pub(crate) fn required_node_affinity(spec: &PodSpec) -> Option<&NodeSelector> {
    spec.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Node selector and required node affinity together.
pub(crate) fn pod_selects_node(spec: &PodSpec, node: NodeView<'_>) -> bool {
    let labels = spec.node_selector.iter().flatten();
    labels.into_iter().all(|(key, value)| node.label(key) == Some(value.as_str()))
        && required_node_affinity(spec).is_none_or(|selector| node_selector_holds(selector, node))
}

/// The label keys that the pod's own node selection reads, with the values that it compares with.
pub(crate) fn selected_keys(spec: &PodSpec) -> Vec<(&str, Vec<&str>)> {
    let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, value) in spec.node_selector.iter().flatten() {
        keys.push((key, vec![value]));
    }
    for term in required_node_affinity(spec).iter().flat_map(|s| &s.node_selector_terms) {
        for e in term.match_expressions.iter().flatten() {
            keys.push((&e.key, e.values.iter().flatten().map(String::as_str).collect()));
        }
    }
    keys
}
