//! The rules of custom resources (`x-kubernetes-validations`), in CEL.
//!
//! The parser and the libraries of functions are those of the crates cel and kube-cel. The evaluator is of our own, for
//! what theirs does not do: it works on the object in place, patterns and lists of texts are compiled once with the rule,
//! and every step is counted, so that a rule ends when its budget does. What a rule may cost at most is estimated when its
//! definition is created, and refused there where it is too much, with the figures of the real server.
//!
//! ```text
//! types      what rules see of a schema, and how large it can be
//! compile    text → syntax tree → nodes, with an estimate of each
//! estimate   sizes and costs
//! calls      functions
//! eval       nodes → value, within a budget
//! rules      the rules of one schema: compiled once, evaluated for each value
//! budget     which rules a definition may have
//! ```

mod budget;
mod calls;
mod compile;
mod estimate;
mod eval;
mod rules;
mod time;
mod types;
mod value;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub(crate) use budget::check_schema;
pub(crate) use rules::{Budget, Rules, Told};
pub(crate) use time::parse_duration;
