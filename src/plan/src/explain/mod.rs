//! The whole story of one object: where it goes, what every node and offering says to it, which Reservations match it and
//! why the others do not, and what would have to change.

mod considered;
mod going;
mod matched;
mod node;
mod object;
mod subject;
mod text;
mod workload;

use std::io::{self, Write};

use serde::Serialize;

use crate::disrupt::node_of_claim;
use crate::provenance::Provenance;
use crate::terminal::{Paper, Terminal};
use crate::{Options, Plan};

use going::Going;

pub use object::{Kind, ObjectRef, ParseObjectError};

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The object is not in the input.
    #[error("no {kind} {name:?} in the {of}{hint}")]
    NotFound {
        /// Its kind.
        kind: &'static str,
        /// Its name as it was asked for.
        name: String,
        /// Where it was looked for: `input`, or `cluster`.
        of: &'static str,
        /// What is there instead, if something is near.
        hint: String,
    },
}

/// The story of one object.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    api_version: &'static str,
    kind: &'static str,
    /// The time of the plan.
    time: String,
    /// What the plan was made of and with.
    provenance: Provenance,
    /// `Pod default/web-0`.
    object: String,
    /// Whether it has a place, or is one.
    has_place: bool,
    /// In a sentence.
    outcome: String,
    /// What it is, in order: heading and text.
    facts: Vec<Fact>,
    /// What nodes say, existing ones and those to be launched apart.
    nodes: Vec<NodesSay>,
    node_pools: Vec<PoolSays>,
    reservations: Vec<ReservationSays>,
    /// Reservations that are for others.
    other_reservations: u32,
    /// Single changes that would help.
    changes: Vec<Change>,
    /// Of a node: the pods on it that the plan brings, and those that draw.
    pods: Vec<String>,
    /// Of a node: who has no place, and what this node says to them.
    refused: Vec<Refused>,
}

/// A property of the object.
#[derive(Debug, Serialize)]
struct Fact {
    name: &'static str,
    text: String,
}

/// What a set of nodes says.
#[derive(Debug, Serialize)]
struct NodesSay {
    /// `nodes that exist`, or `nodes to launch`.
    of: &'static str,
    total: u32,
    /// Those that would take it, the best first.
    admitting: Vec<Admitting>,
    reasons: Vec<Obstacle>,
}

#[derive(Debug, Serialize)]
struct Admitting {
    node: String,
    score: i64,
}

/// A reason with how many nodes or offerings give it, and some of them.
#[derive(Debug, Serialize)]
struct Obstacle {
    reason: String,
    count: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<String>,
}

/// What the offerings of a NodePool say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolSays {
    node_pool: String,
    offerings: u32,
    admitting: u32,
    reasons: Vec<Obstacle>,
}

/// What a Reservation says to a pod.
#[derive(Debug, Serialize)]
struct ReservationSays {
    reservation: String,
    node: Option<String>,
    matches: bool,
    /// Why it does not match, or what it has for a pod that it matches.
    says: String,
}

/// A change after which something would take the object.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(rename = "change")]
    what: String,
    nodes: Vec<String>,
    offerings: u32,
}

/// Alike objects that a node refuses.
#[derive(Debug, Serialize)]
struct Refused {
    object: String,
    count: u32,
    reasons: Vec<String>,
}

impl Explanation {
    /// Whether the object has a place, or is one.
    pub fn has_place(&self) -> bool {
        self.has_place
    }

    /// Writes one JSON object.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_json<W: Write>(&self, mut writer: W) -> io::Result<()> {
        serde_json::to_writer(&mut writer, self)?;
        writeln!(writer)
    }

    /// Writes it for people. Long lists end in a summary of the rest, unless `is_wide`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_text<W: Write>(&self, is_wide: bool, terminal: Terminal, writer: W) -> io::Result<()> {
        text::write(self, is_wide, Paper::new(writer, terminal))
    }

    fn of(object: String) -> Self {
        Explanation { api_version: "berth.sh/v1alpha1", kind: "Explanation", object, ..Explanation::default() }
    }

    fn add(&mut self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.facts.push(Fact { name, text });
        }
    }
}

impl Plan {
    /// Tells the story of an object, with the cluster as this plan leaves it, the object itself aside. The plan ends with
    /// that: its cluster becomes the one that is told of.
    ///
    /// # Errors
    /// There is no such object.
    pub fn explain(mut self, object: &ObjectRef, options: &Options) -> Result<Explanation, ExplainError> {
        let solving = berth_provisioning::Options {
            bound: false,
            proves: false,
            what_restrictions_cost: false,
            ..options.solving()
        };
        let (time, provenance) = (self.now.to_string(), self.provenance.clone());
        let state = self.state.take();
        let mut object = object.clone();
        if object.kind == Kind::Workload {
            object = workload::first_pod(&self, state.as_deref(), &object)?;
        }
        if object.kind == Kind::Node
            && let Some(node) = state.as_deref().and_then(|state| node_of_claim(state, &object.name))
        {
            object.name = node;
        }
        let going = state.as_deref().and_then(|state| Going::of(&self, state, &object));
        let story = match (going, object.kind) {
            (Some(going), _) => Ok(going.explain(self, &solving, &object)),
            (None, Kind::Reservation) => subject::reservation(self, &solving, &object),
            (None, Kind::Node) => node::explain(self, &object),
            (None, Kind::Pod | Kind::Workload) => subject::pod(self, &solving, &object),
        };
        Ok(Explanation { time, provenance, ..story? })
    }
}
