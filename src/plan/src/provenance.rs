//! What a plan was made of and with, so that an output says it when it is found alone.

use std::path::Path;

use berth_manifests::Input;
use serde::Serialize;

/// What a plan of what controllers know is made of.
const STATE: &str = "the controllers' state";
/// Inputs that a line names before the rest is counted.
const LISTED: usize = 4;

/// The version of Berth, the catalogue and the inputs of a plan, as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Provenance {
    version: &'static str,
    catalogue: String,
    inputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
}

impl Provenance {
    pub(crate) fn of(inputs: &[Input], changes: &[Input], catalogue: Option<&Path>) -> Self {
        let catalogue = catalogue.map(|file| file.display().to_string());
        Self::named(names(inputs), names(changes), catalogue)
    }

    /// Of objects in memory.
    pub(crate) fn of_objects(has_catalogue: bool) -> Self {
        Self::named(vec!["objects".to_owned()], Vec::new(), has_catalogue.then(|| "given with them".to_owned()))
    }

    /// Of what a controller knows.
    pub(crate) fn of_state() -> Self {
        Self::named(vec![STATE.to_owned()], Vec::new(), Some("the cloud's".to_owned()))
    }

    /// Whether it is of what a controller knows.
    pub(crate) fn is_of_state(&self) -> bool {
        self.inputs.first().is_some_and(|name| name == STATE)
    }

    fn named(inputs: Vec<String>, changes: Vec<String>, catalogue: Option<String>) -> Self {
        let catalogue = catalogue.unwrap_or_else(|| "the fake provider's (invented prices)".to_owned());
        Provenance { version: env!("CARGO_PKG_VERSION"), catalogue, inputs, changes }
    }

    /// Names and values, for people.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("Inputs", listed(&self.inputs))];
        if !self.changes.is_empty() {
            lines.push(("Changes", listed(&self.changes)));
        }
        lines.push(("Catalogue", self.catalogue.clone()));
        lines.push(("Made by", format!("berth {}", self.version)));
        lines
    }
}

fn listed(names: &[String]) -> String {
    let rest = names.len().saturating_sub(LISTED);
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{rest}", names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", "))
}

fn names(inputs: &[Input]) -> Vec<String> {
    let name = |input: &Input| match input {
        Input::Path(path) => path.display().to_string(),
        Input::Stdin => "standard input".to_owned(),
        // What was read of a cluster is an input for each kind: `context mine: pods`.
        Input::Text { name, is_of_server: true, .. } => name.split(": ").next().unwrap_or(name).to_owned(),
        Input::Text { name, .. } => name.clone(),
    };
    let mut names: Vec<String> = inputs.iter().map(name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_one_input_however_many_kinds_were_read() {
        let text = |name: &str| Input::Text { name: name.to_owned(), text: Vec::new(), is_of_server: true };
        let inputs = [text("context mine: pods"), text("context mine: nodes"), Input::from_arg("a.yaml")];
        let provenance = Provenance::of(&inputs, &[], None);
        assert_eq!(provenance.inputs, ["context mine", "a.yaml"]);
        assert!(provenance.catalogue.contains("invented prices"));
    }
}
