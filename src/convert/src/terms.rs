//! Selectors and node selector terms to requirements.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_model::{Labels, Operator, Requirement, Requirements, Selector, Sym, Symbols};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::Problem;

/// The key of a node's label, under today's name.
pub(crate) fn node_key(key: &str, symbols: &mut Symbols) -> Sym {
    symbols.intern(labels::normalized(key))
}

/// One requirement from its operator's name and values.
pub(crate) fn requirement<'a>(
    operator: &str,
    values: impl IntoIterator<Item = &'a String>,
    symbols: &mut Symbols,
) -> Result<Requirement, Problem> {
    let Ok(operator) = operator.parse::<Operator>() else {
        return Err(Problem::new(
            "operator",
            format!("found {operator:?}, expected In, NotIn, Exists, DoesNotExist, Gt or Lt"),
        ));
    };
    let values: Vec<Sym> = values.into_iter().map(|value| symbols.intern(value)).collect();
    Ok(Requirement::new(operator, values, symbols))
}

/// A label selector over pods or namespaces; an absent one selects nothing.
pub(crate) fn selector(selector: Option<&LabelSelector>, symbols: &mut Symbols) -> Result<Selector, Problem> {
    let Some(selector) = selector else {
        return Ok(Selector { requirements: None });
    };
    let mut requirements = Requirements::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        let (key, value) = (symbols.intern(key), symbols.intern(value));
        requirements.add(key, Requirement::value(value), symbols);
    }
    for (i, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let key = symbols.intern(&expression.key);
        let requirement = requirement(&expression.operator, expression.values.iter().flatten(), symbols)
            .map_err(|problem| problem.under(format!("matchExpressions[{i}]")))?;
        requirements.add(key, requirement, symbols);
    }
    Ok(Selector { requirements: Some(requirements) })
}

/// A `nodeSelector`.
pub(crate) fn node_selector(pairs: Option<&BTreeMap<String, String>>, symbols: &mut Symbols) -> Requirements {
    let mut requirements = Requirements::new();
    for (key, value) in pairs.into_iter().flatten() {
        let (key, value) = (node_key(key, symbols), symbols.intern(value));
        requirements.add(key, Requirement::value(value), symbols);
    }
    requirements
}

/// A node selector term; `None` for an empty one, which matches nothing.
pub(crate) fn node_term(term: &NodeSelectorTerm, symbols: &mut Symbols) -> Result<Option<Requirements>, Problem> {
    let mut requirements = Requirements::new();
    let mut add = |list: &Option<Vec<NodeSelectorRequirement>>, field: &str, symbols: &mut Symbols| {
        for (i, expression) in list.iter().flatten().enumerate() {
            let key = node_key(&expression.key, symbols);
            let requirement = requirement(&expression.operator, expression.values.iter().flatten(), symbols)
                .map_err(|problem| problem.under(format!("{field}[{i}]")))?;
            requirements.add(key, requirement, symbols);
        }
        Ok::<(), Problem>(())
    };
    add(&term.match_expressions, "matchExpressions", symbols)?;
    add(&term.match_fields, "matchFields", symbols)?;
    Ok((!requirements.is_empty()).then_some(requirements))
}

/// Terms of which one must hold. Where there are terms but none that can hold, one that never does. Problems are told of `field`.
pub(crate) fn node_terms(
    terms: &[NodeSelectorTerm],
    field: &str,
    symbols: &mut Symbols,
) -> Result<Vec<Requirements>, Problem> {
    let mut alternatives = Vec::with_capacity(terms.len());
    for (i, term) in terms.iter().enumerate() {
        let term = node_term(term, symbols).map_err(|problem| problem.under(format!("{field}[{i}]")))?;
        alternatives.extend(term);
    }
    if alternatives.is_empty() {
        alternatives.push(impossible(symbols));
    }
    Ok(alternatives)
}

/// Requirements that no node meets.
pub(crate) fn impossible(symbols: &mut Symbols) -> Requirements {
    let name = symbols.intern("metadata.name");
    let mut requirements = Requirements::new();
    requirements.add(name, Requirement::exists(), symbols);
    requirements.add(name, Requirement::does_not_exist(), symbols);
    requirements
}

/// A pod's or a namespace's labels.
pub(crate) fn labels_of(pairs: Option<&BTreeMap<String, String>>, symbols: &mut Symbols) -> Labels {
    let pairs: Vec<(Sym, Sym)> =
        pairs.into_iter().flatten().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
    Labels::new(pairs)
}

/// A node's labels under today's names; a label under today's name wins over its former names.
pub(crate) fn node_labels<'a>(
    pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
    symbols: &mut Symbols,
) -> Vec<(Sym, Sym)> {
    let mut named: Vec<(bool, Sym, Sym)> = pairs
        .into_iter()
        .map(|(key, value)| {
            let today = labels::normalized(key);
            (today == key, symbols.intern(today), symbols.intern(value))
        })
        .collect();
    // Of several pairs for one key the last holds.
    named.sort_by_key(|(is_today, ..)| *is_today);
    named.into_iter().map(|(_, key, value)| (key, value)).collect()
}
