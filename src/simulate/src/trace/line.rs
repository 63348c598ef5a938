//! What a line of a trace may say.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scenario::{Paid, Scaled};
use crate::step::Propagation;

/// One line of a trace.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Line {
    /// Of the first line, as all up to `catalogue`.
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    /// What the clock showed.
    pub(super) start: Option<String>,
    /// What the recorder knew: `seed`, `settings`, `cloud` and `reservationPrices`, as in a scenario.
    pub(super) scenario: Option<Map<String, Value>>,
    /// The instance catalogue, as its file.
    pub(super) catalogue: Option<Value>,
    /// The name of a template, with `pod`.
    pub(super) template: Option<String>,
    /// A Pod without name.
    pub(super) pod: Option<Value>,
    /// Seconds after the start.
    pub(super) at: Option<f64>,
    /// The template of a pod that comes.
    pub(super) create: Option<String>,
    /// The name of a pod that comes.
    pub(super) name: Option<String>,
    /// Seconds that it runs.
    pub(super) runs_for: Option<f64>,
    /// A workload gets so many replicas.
    pub(super) scale: Option<Scale>,
    /// An object is created or changed.
    pub(super) apply: Option<Value>,
    /// Fields of an object are changed.
    pub(super) patch: Option<Patched>,
    /// An object is deleted.
    pub(super) delete: Option<Deleted>,
    /// A pod of a workload has ended, or a pod that came before.
    pub(super) ran: Option<Ran>,
    /// An offering has so many instances left.
    pub(super) stock: Option<Stock>,
    /// An offering has another price.
    pub(super) price: Option<Price>,
    /// The trace ends here.
    pub(super) end: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Scale {
    #[serde(default)]
    pub(super) kind: Scaled,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) replicas: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Patched {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Of what has one; in `default` where none is named.
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) name: String,
    /// It may be gone already.
    #[serde(default)]
    pub(super) if_there: bool,
    /// A JSON merge patch.
    pub(super) fields: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Deleted {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Of what has one; in `default` where none is named.
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) name: String,
    /// It may be gone already.
    #[serde(default)]
    pub(super) if_there: bool,
    /// What becomes of what it made.
    #[serde(default)]
    pub(super) propagation_policy: Propagation,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ran {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) seconds: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Stock {
    pub(super) instance_type: String,
    pub(super) zone: Option<String>,
    #[serde(default)]
    pub(super) capacity_type: Paid,
    pub(super) left: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Price {
    pub(super) instance_type: String,
    pub(super) zone: Option<String>,
    #[serde(default)]
    pub(super) capacity_type: Paid,
    pub(super) dollars: f64,
}

// === impl Line ===

impl Line {
    /// A line says one thing; fields of another would be lost without a word.
    pub(super) fn check_one_action(&self) -> Result<(), String> {
        let actions = [
            ("create", self.create.is_some()),
            ("scale", self.scale.is_some()),
            ("apply", self.apply.is_some()),
            ("patch", self.patch.is_some()),
            ("delete", self.delete.is_some()),
            ("ran", self.ran.is_some()),
            ("stock", self.stock.is_some()),
            ("price", self.price.is_some()),
            ("end", self.end.is_some()),
        ];
        let found: Vec<&str> = actions.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
        if let [first, second, ..] = found[..] {
            return Err(format!("found {first} and {second}, expected one of them"));
        }
        let of_create = [("name", self.name.is_some()), ("runsFor", self.runs_for.is_some())];
        match of_create.into_iter().find(|(_, is_there)| *is_there && self.create.is_none()) {
            Some((field, _)) => Err(format!("{field}: expected create beside it")),
            None => Ok(()),
        }
    }
}
