//! A plan: the cluster that was asked about, and the answer.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use berth_catalogue::Catalogue;
use berth_convert::Converted;
use berth_manifests::Input;
use berth_model::{Cluster, Money, Universe};
use berth_provisioning::Solution;
use jiff::Timestamp;
use serde_json::Value;

use crate::disrupt::{Asked, Live};
use crate::gather::{Gathered, Gatherer, read_catalogue};
use crate::max_share::{self, unknown_values};
use crate::provenance::Provenance;
use crate::repack::Fleet;
use crate::replicas::Replicas;
use crate::terminal::{Paper, Terminal};
use crate::{FeatureGates, Options, PlanError, Summary, hints, html, json, table};
use berth_decisions::Allocation;
use berth_state::State;

/// How long the parts of a plan took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// Reading and parsing files, the catalogue's included; what was read of a cluster before is not in it.
    pub read: Duration,
    /// From objects to the cluster.
    pub convert: Duration,
    /// From the cluster to the finished plan, classes and topology included.
    pub solve: Duration,
}

/// Which nodes would be launched, and who goes where.
#[derive(Debug)]
pub struct Plan {
    pub(crate) cluster: Cluster,
    pub(crate) universe: Universe,
    pub(crate) solution: Solution,
    pub(crate) allocation: Allocation,
    pub(crate) node_cost: Money,
    pub(crate) options: berth_provisioning::Options,
    pub(crate) gates: FeatureGates,
    /// What the catalogue says of itself, such as that prices are estimates.
    pub(crate) notes: Vec<String>,
    pub(crate) provenance: Provenance,
    /// What the nodes that exist cost.
    pub(crate) fleet: Fleet,
    /// How many of the cluster's nodes there are; those after them are launched for static NodePools.
    pub(crate) n_there: usize,
    /// The plan without the change, where there is one.
    pub(crate) before: Option<Box<Plan>>,
    /// The plan as if there were no nodes, where that was asked for.
    pub(crate) scratch: Option<Box<Plan>>,
    /// Which nodes would be disrupted, where that was asked.
    pub(crate) disruption: Option<berth_disruption::Disruption>,
    /// What would come of removing a node, where that was asked.
    pub(crate) removal: Option<berth_disruption::Removal>,
    /// What objects say of themselves, where that is kept.
    pub(crate) state: Option<Box<State>>,
    /// The time of the plan.
    pub(crate) now: Timestamp,
    warnings: Vec<String>,
    timings: Timings,
}

/// Plans files: those of `inputs`, streamed, with the catalogue in a file or else the fake provider's; and what `changes` do:
/// objects of the same kind, namespace and name take the place of those in `inputs`, others are added. The plan is the one with
/// the changes; without any it has nothing to compare.
///
/// # Errors
/// The first input that cannot be used.
pub fn plan_change(
    inputs: &[Input],
    changes: &[Input],
    catalogue: Option<&Path>,
    options: &Options,
) -> Result<Plan, PlanError> {
    let start = Instant::now();
    let offers = read_catalogue(catalogue)?;
    let of_catalogue = start.elapsed();
    let mut plan = plan_with_catalogue(inputs, changes, offers, options)?;
    plan.timings.read += of_catalogue;
    plan.provenance = Provenance::of(inputs, changes, catalogue);
    if catalogue.is_none() {
        let note = "no instance catalogue given: planning with the fake provider's (see `berth catalog`)";
        plan.warnings.insert(0, note.to_owned());
    }
    Ok(plan)
}

/// Plans inputs as [`plan_change`] does without changes, with a catalogue that was read already.
///
/// # Errors
/// The first input that cannot be used.
pub fn plan_offers(inputs: &[Input], catalogue: Catalogue, options: &Options) -> Result<Plan, PlanError> {
    plan_with_catalogue(inputs, &[], catalogue, options)
}

fn plan_with_catalogue(
    inputs: &[Input],
    changes: &[Input],
    catalogue: Catalogue,
    options: &Options,
) -> Result<Plan, PlanError> {
    let (options, time) = &options.at_a_time();
    let start = Instant::now();
    let mut gatherer = Gatherer::new(options);
    if !changes.is_empty() {
        gatherer.expect_change(options);
    }
    // First: a catalogue is small, and its errors should not wait for a million pods.
    gatherer.set_catalogue(catalogue)?;
    let read = berth_manifests::read(inputs, &reading(options), |source, object| {
        gatherer.add(source, &object);
        Ok(())
    });
    gatherer.note(read)?;
    if !changes.is_empty() {
        gatherer.begin_change();
        let read = berth_manifests::read(changes, &reading(options), |source, object| {
            gatherer.add(source, &object);
            Ok(())
        });
        gatherer.note(read)?;
    }
    // Objects are converted while others are read.
    let read = start.elapsed().saturating_sub(gatherer.time());
    let mut plan = Plan::new(gatherer.finish()?, options, *time)?;
    plan.timings.read = read;
    Ok(plan)
}

/// Plans the cluster of a live state as its controllers do: the pods that are there, and none that workloads would make.
///
/// # Errors
/// Shares of the options that cannot be kept.
pub fn plan_state(mut state: State, options: &Options) -> Result<Plan, PlanError> {
    let (options, now) = &options.at_a_time();
    let start = Instant::now();
    let converted = Converted {
        cluster: state.cluster(*now).clone(),
        warnings: state.warnings(*now).to_vec(),
        ..Converted::default()
    };
    let time = start.elapsed();
    let live = options.asks_state().then(|| Live::of(state));
    let gathered = Gathered { converted, live, time, ..Gathered::default() };
    Ok(Plan { provenance: Provenance::of_state(), ..Plan::new(gathered, options, *now)? })
}

/// Plans objects in memory, with a catalogue in the file's format or else the fake provider's; the answer is that of
/// `berth plan -o json` without measured times.
///
/// # Errors
/// The first object that cannot be used; it is called by its index in `items`.
pub fn plan_documents(objects: &[Value], catalogue: Option<&Value>, options: &Options) -> Result<Value, PlanError> {
    Ok(plan_objects(objects, catalogue, options)?.to_value()?)
}

/// Plans objects in memory, as [`plan_documents`] does.
///
/// # Errors
/// The first object that cannot be used; it is called by its index in `objects`.
pub fn plan_objects(objects: &[Value], catalogue: Option<&Value>, options: &Options) -> Result<Plan, PlanError> {
    let (options, time) = &options.at_a_time();
    let mut gatherer = Gatherer::new(options);
    let provenance = Provenance::of_objects(catalogue.is_some());
    let catalogue = match catalogue {
        Some(value) => berth_catalogue::read(&serde_json::to_vec(value)?, "catalogue.json")?,
        None => berth_cloudprovider_fake::catalogue(),
    };
    gatherer.set_catalogue(catalogue)?;
    if !objects.is_empty() {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let text = serde_json::to_vec(&list)?;
        let read = berth_manifests::read_from("objects", text.as_slice(), &reading(options), |source, object| {
            gatherer.add(source, &object);
            Ok(())
        });
        gatherer.note(read)?;
    }
    Ok(Plan { provenance, ..Plan::new(gatherer.finish()?, options, *time)? })
}

fn reading(options: &Options) -> berth_manifests::Options {
    let mut reading = berth_manifests::Options::default();
    reading.validate = options.validate;
    reading.recursive = options.recursive;
    reading
}

// === impl Plan ===

impl Plan {
    fn new(gathered: Gathered, options: &Options, now: Timestamp) -> Result<Self, PlanError> {
        let Gathered {
            converted,
            notes,
            repeats,
            catalogue_notes,
            before,
            scratch,
            live,
            time,
            replicas,
            replicas_before,
        } = gathered;
        // These are only compared.
        let compared = |converted: Converted, replicas| -> Result<Box<Plan>, PlanError> {
            let options = Options { bound: false, what_restrictions_cost: false, ..options.clone() };
            let gathered = Gathered { converted, replicas, ..Gathered::default() };
            Ok(Box::new(Plan::new(gathered, &options, now)?))
        };
        let before = before.map(|before| compared(before, replicas_before)).transpose()?;
        let scratch = scratch.map(|scratch| compared(scratch, replicas.clone())).transpose()?;
        let mut cluster = converted.cluster;
        let (fleet, n_there) = (Fleet::of(&cluster), cluster.nodes.len());
        let start = Instant::now();
        let solving = options.solving();
        max_share::check(&cluster, &solving)?;
        let mut replicas = Replicas::add(&mut cluster, &replicas, &solving);
        let missing = std::mem::take(&mut replicas.missing);
        let (universe, mut solution, allocation) = berth_decisions::solve(&mut cluster, &solving);
        replicas.join(&mut cluster, &mut solution, options.node_cost);
        let timings = Timings { convert: time, solve: start.elapsed(), ..Timings::default() };
        hints::add(&mut solution, (&cluster, &universe, &allocation), &options.gates);
        // Whoever changes an object gives it twice.
        let known = before.as_ref().map(|before| before.warnings.clone());
        let is_told = |warning: &String| {
            known.as_ref().is_none_or(|known| !warning.ends_with(berth_convert::REPEATED) || known.contains(warning))
        };
        let with_place = |warning: String| match repeats.get(&warning) {
            Some(place) => format!("{warning} ({place})"),
            None => warning,
        };
        let converted_warnings = converted.warnings.into_iter().filter(is_told).map(with_place);
        let warnings = notes
            .into_iter()
            .chain(missing)
            .chain(converted_warnings)
            .chain(unknown_values(&cluster, &options.max_shares));
        let (node_cost, mut warnings) = (options.node_cost, warnings.collect::<Vec<String>>());
        let asked = live.map(|live| live.ask(options, now, converted.ends_pods, &mut warnings)).transpose()?;
        let (disruption, removal, state) = match asked {
            Some(Asked { disruption, removal, state }) => (disruption, removal, Some(state)),
            None => (None, None, None),
        };
        Ok(Plan {
            cluster,
            universe,
            solution,
            allocation,
            node_cost,
            options: solving,
            gates: options.gates.clone(),
            provenance: Provenance::of_objects(false),
            fleet,
            n_there,
            before,
            scratch,
            now,
            notes: catalogue_notes,
            disruption,
            removal,
            state: state.filter(|_| options.keeps_objects),
            warnings,
            timings,
        })
    }

    /// The plan of a cluster that was made by hand, with what no API server would let in.
    #[cfg(test)]
    pub(crate) fn of(mut cluster: Cluster) -> Self {
        let options = berth_provisioning::Options::default();
        let (universe, solution, allocation) = berth_decisions::solve(&mut cluster, &options);
        let (notes, warnings, timings) = (Vec::new(), Vec::new(), Timings::default());
        let (node_cost, now) = (Money::ZERO, Timestamp::UNIX_EPOCH);
        let (fleet, n_there, before, scratch) = (Fleet::default(), cluster.nodes.len(), None, None);
        let provenance = Provenance::of_objects(false);
        Plan {
            cluster,
            universe,
            solution,
            allocation,
            node_cost,
            options,
            gates: FeatureGates::default(),
            notes,
            provenance,
            fleet,
            n_there,
            before,
            scratch,
            disruption: None,
            removal: None,
            state: None,
            now,
            warnings,
            timings,
        }
    }

    /// What people should know beside the plan, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How long it took.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Whether everything has a place.
    pub fn is_complete(&self) -> bool {
        self.solution.unschedulable.iter().all(|left| left.count == 0)
    }

    /// The figures of the whole.
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }

    /// Writes the JSON contract, one object on one line, as a stream: memory does not grow with pods. Measured times
    /// are in it only where asked for.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_json<W: Write>(&self, writer: W, with_timings: bool) -> io::Result<()> {
        json::write(self, with_timings, writer)
    }

    /// The JSON contract in memory, without measured times.
    ///
    /// # Errors
    /// None that is known; serialization asks for it.
    pub fn to_value(&self) -> serde_json::Result<Value> {
        let mut text = Vec::new();
        self.write_json(&mut text, false).map_err(serde_json::Error::io)?;
        serde_json::from_slice(&text)
    }

    /// Writes the JSON contract as YAML; it is in memory meanwhile.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_yaml<W: Write>(&self, mut writer: W, with_timings: bool) -> io::Result<()> {
        let mut text = Vec::new();
        self.write_json(&mut text, with_timings)?;
        let value: Value = serde_json::from_slice(&text)?;
        writer.write_all(serde_saphyr::to_string(&value).map_err(io::Error::other)?.as_bytes())?;
        writer.flush()
    }

    /// Writes tables for people. Long ones end in a summary of the rest, unless `is_wide`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_tables<W: Write>(&self, is_wide: bool, terminal: Terminal, writer: W) -> io::Result<()> {
        table::write(self, table::RowLimit::new(is_wide, terminal.width), Paper::new(writer, terminal))
    }

    /// Writes one self-contained page of HTML for people, as a stream. It grows with what differs: alike nodes are
    /// drawn once, and the pods of a controller are a name and a count.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_html<W: Write>(&self, writer: W) -> io::Result<()> {
        html::write(self, writer)
    }
}
