//! What a report was made of and with, so that it says so when it is found alone.

use serde::{Deserialize, Serialize};

use crate::load::Simulation;

/// The version of Berth, the catalogue and the files of a simulation, as they were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The version of Berth.
    pub version: String,
    /// The instance catalogue.
    pub catalogue: String,
    /// The scenario's file, and those that it names.
    pub inputs: Vec<String>,
}

// === impl Provenance ===

impl Provenance {
    /// Of a simulation, by the name of its scenario's file.
    pub fn of(scenario: &str, simulation: &Simulation) -> Self {
        let files = simulation.manifests.iter().chain(&*simulation.traces).filter(|name| *name != scenario);
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            catalogue: simulation.catalogue_name.clone(),
            inputs: std::iter::once(scenario.to_owned()).chain(files.cloned()).collect(),
        }
    }

    /// Names and values, for people.
    pub(super) fn lines(&self) -> [(&'static str, String); 3] {
        [
            ("Inputs", self.inputs.join(", ")),
            ("Catalogue", self.catalogue.clone()),
            ("Made by", format!("berth {}", self.version)),
        ]
    }
}
