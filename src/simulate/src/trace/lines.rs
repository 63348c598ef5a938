//! The trace file: JSON lines, in the order of time or not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::Arc;

use berth_catalogue::{MAX_PRICE, Money};
use berth_manifests::{Settings, nearest};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::line::{Line, Ran};
use super::{Fault, NAME, Read, Recorded, is_name, objects};
use crate::check::is_price;
use crate::error::shown;
use crate::scenario;
use crate::step::{Action, Arrival, MOST_PODS, MOST_STEPS, Origin, Step, Template, offering};

/// The longest line: an object as the API server takes it, and a little more.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// What a trace begins with, at least.
const HEADER: &str = r#"{"apiVersion":"berth.sh/v1alpha1","kind":"Trace"}"#;

/// What names a workload or a pod: kind, namespace and name.
type Name = (String, String, String);

/// Reads a trace, which is the file with this index among those of the scenario, and adds what happens to the steps.
pub(super) fn read(mut reader: impl BufRead, name: &str, file: usize, steps: &mut Vec<Step>) -> Result<Read, Fault> {
    let mut reading = Reading {
        name,
        file,
        first: steps.len(),
        steps,
        templates: BTreeMap::new(),
        created: BTreeMap::new(),
        ran: BTreeMap::new(),
        skipped: BTreeSet::new(),
        kinds: berth_manifests::known_kinds().collect(),
        read: Read::default(),
        latest: 0,
        end: None,
    };
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let mut limited = std::io::Read::take(&mut reader, LONGEST_LINE as u64);
        if limited.read_until(b'\n', &mut text).map_err(Fault::Io)? == 0 {
            break;
        }
        if text.len() >= LONGEST_LINE {
            return Err(Fault::line(number, format!("expected a line of at most {LONGEST_LINE} bytes")));
        }
        if number > 1 && text.trim_ascii().is_empty() {
            continue;
        }
        let bytes = if number == 1 { text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text) } else { &text };
        let line: Line = serde_json::from_slice(bytes).map_err(|error| {
            let words = in_words(&error);
            Fault::line(
                number,
                if number == 1 { format!("expected {HEADER} as the first line: {words}") } else { words },
            )
        })?;
        let read = if number == 1 { reading.header(line) } else { reading.line(number, line) };
        read.map_err(|message| Fault::line(number, message))?;
    }
    Ok(reading.finish())
}

/// Milliseconds as a trace has them.
fn secs(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

/// What was read so far.
struct Reading<'r> {
    name: &'r str,
    file: usize,
    /// How many steps there were before.
    first: usize,
    steps: &'r mut Vec<Step>,
    templates: BTreeMap<String, Arc<Template>>,
    /// Where pods that came are in the steps, by namespace and name.
    created: BTreeMap<(String, String), usize>,
    /// How long pods of workloads ran, in milliseconds.
    ran: BTreeMap<Name, Vec<u64>>,
    skipped: BTreeSet<String>,
    /// What is read, as API version and kind.
    kinds: BTreeSet<(&'static str, &'static str)>,
    read: Read,
    /// When the latest thing happens so far.
    latest: u64,
    /// When the trace says that it ends, and in which line.
    end: Option<(u64, usize)>,
}

impl Reading<'_> {
    fn header(&mut self, line: Line) -> Result<(), String> {
        let header = (line.api_version.as_deref(), line.kind.as_deref());
        if header != (Some(scenario::API_VERSION), Some("Trace")) {
            return Err(format!("expected {HEADER} as the first line"));
        }
        if let Some(start) = line.start {
            let start: Timestamp = start
                .parse()
                .map_err(|_| format!("start: found {start:?}, expected a time such as 2026-01-31T12:00:00Z"))?;
            self.read.start = Some(start);
        }
        if let Some(fields) = line.scenario {
            self.read.recorded = Some(Box::new(recorded(self.name, fields, line.catalogue)?));
        }
        Ok(())
    }

    fn line(&mut self, number: usize, mut line: Line) -> Result<(), String> {
        if self.steps.len() >= MOST_STEPS {
            return Err(format!("found more than {MOST_STEPS} things that happen, expected at most as many"));
        }
        if let Some(template) = line.template {
            let pod = line.pod.ok_or("template: expected pod beside it")?;
            let template_of = self::template(&template, pod, self.read.recorded.is_some())?;
            self.templates.insert(template, Arc::new(template_of));
            return Ok(());
        }
        let at = line.at.ok_or("expected at, in seconds after the start")?;
        let at = millis(at).ok_or_else(|| {
            format!("at: found {}, expected seconds after the start, 0 or more and less than 1e10", shown(at))
        })?;
        self.read.end = self.read.end.max(at);
        if let Some((end, of)) = self.end {
            if line.end == Some(true) {
                return Err(format!("end: found a second one, expected one: line {of} has it"));
            }
            if at > end {
                return Err(format!("at: found {}, expected at most {}, the end in line {of}", secs(at), secs(end)));
            }
        }
        if line.end != Some(true) {
            self.latest = self.latest.max(at);
        }
        line.check_one_action()?;
        let action = if let Some(create) = line.create {
            self.create(&create, line.name, line.runs_for)?
        } else if let Some(scale) = line.scale {
            let replicas = u32::try_from(scale.replicas).ok().filter(|count| u64::from(*count) <= MOST_PODS);
            let replicas = replicas.ok_or_else(|| {
                format!("scale.replicas: found {}, expected a count from 0 to {MOST_PODS}", scale.replicas)
            })?;
            Action::Scale {
                kind: scale.kind,
                namespace: scenario::namespace_of(&scale.namespace).into(),
                name: scale.name.into(),
                replicas,
            }
        } else if let Some(value) = line.apply.take_if(|value| self.read.recorded.is_some() && is_config_map(value)) {
            Action::Catalogue(Arc::new(value))
        } else if let Some(value) = line.apply {
            let place = format!("{}:{number}", self.name);
            let objects =
                objects::read(&place, &value, &mut self.skipped).map_err(|error| format!("apply: {error}"))?;
            Action::Apply(Arc::new(objects))
        } else if let Some(patch) = line.patch {
            if !self.is_made(&patch.api_version, &patch.kind) {
                return Ok(());
            }
            Action::Patch {
                api_version: patch.api_version.into(),
                kind: patch.kind.into(),
                namespace: scenario::namespace_of(&patch.namespace).into(),
                name: patch.name.into(),
                may_be_gone: patch.if_there,
                fields: Arc::new(patch.fields.into()),
            }
        } else if let Some(delete) = line.delete {
            if !self.is_made(&delete.api_version, &delete.kind) {
                return Ok(());
            }
            Action::Delete {
                api_version: delete.api_version.into(),
                kind: delete.kind.into(),
                namespace: scenario::namespace_of(&delete.namespace).into(),
                name: delete.name.into(),
                may_be_gone: delete.if_there,
                propagation: delete.propagation_policy,
            }
        } else if let Some(ran) = line.ran {
            return self.ran(ran);
        } else if let Some(own) = line.stock {
            Action::Stock(offering(&own.instance_type, own.zone.as_ref(), own.capacity_type), own.left)
        } else if let Some(own) = line.price {
            let price = Money::from_f64(own.dollars).filter(|price| is_price(*price));
            let price = price.ok_or_else(|| {
                let found = shown(own.dollars);
                format!("price.dollars: found {found}, expected dollars an hour, 0 to {MAX_PRICE}")
            })?;
            Action::Price(offering(&own.instance_type, own.zone.as_ref(), own.capacity_type), price)
        } else if line.end == Some(true) {
            if at < self.latest {
                let latest = secs(self.latest);
                return Err(format!("at: found {}, expected {latest} or more: something happens then", secs(at)));
            }
            self.end = Some((at, number));
            return Ok(());
        } else {
            return Err("expected create, scale, apply, patch, delete, ran, stock, price or end".to_owned());
        };
        if let Action::Pod(arrival) = &action {
            let ended = at.saturating_add(arrival.runs_for.unwrap_or(0));
            self.read.end = self.read.end.max(ended);
            self.created.insert((arrival.template.namespace.clone(), arrival.name.to_string()), self.steps.len());
        }
        self.steps.push(Step { at, origin: Origin::Trace(self.file, number), action });
        Ok(())
    }

    /// Whether objects of a kind are made at all; those that are not are told once.
    fn is_made(&mut self, api_version: &str, kind: &str) -> bool {
        let is_made = self.kinds.contains(&(api_version, kind));
        if !is_made {
            self.skipped.insert(kind.to_owned());
        }
        is_made
    }

    fn create(&self, create: &str, name: Option<String>, runs_for: Option<f64>) -> Result<Action, String> {
        let template = self.templates.get(create).cloned();
        let template =
            template.ok_or_else(|| format!("create: found {create:?}, expected a template of a line before"))?;
        let name = name.ok_or("create: expected name beside it")?;
        if !is_name(&name) {
            return Err(format!("name: found {name:?}, expected {NAME}"));
        }
        let runs_for = match runs_for {
            None => None,
            Some(seconds) => Some(millis(seconds).ok_or_else(|| {
                format!(
                    "runsFor: found {}, expected seconds, 0 or more and less than 1e10: a pod ends after it came",
                    shown(seconds)
                )
            })?),
        };
        Ok(Action::Pod(Arrival { template, name: name.into(), runs_for }))
    }

    /// Something has ended: the pod that came, or one of a workload.
    fn ran(&mut self, ran: Ran) -> Result<(), String> {
        let Ran { kind, namespace, name, seconds } = ran;
        let Some(millis) = millis(seconds) else {
            return Err(format!(
                "ran.seconds: found {}, expected seconds, 0 or more and less than 1e10: a pod ends after it began",
                shown(seconds)
            ));
        };
        if kind == "Pod" {
            let step = self.created.get(&(namespace, name)).and_then(|index| self.steps.get_mut(*index));
            if let Some(Step { action: Action::Pod(arrival), .. }) = step {
                arrival.runs_for = Some(millis.max(1));
            }
        } else {
            self.ran.entry((kind, namespace, name)).or_default().push(millis.max(1));
        }
        Ok(())
    }

    fn finish(self) -> Read {
        let Self { steps, first, ran, skipped, mut read, end, .. } = self;
        // Pods may run for longer.
        if let Some((end, _)) = end {
            read.end = end;
        }
        let lengths: BTreeMap<Name, u64> =
            ran.into_iter().filter_map(|(name, times)| Some((name, objects::median(times)?))).collect();
        if !lengths.is_empty() {
            for step in steps.iter_mut().skip(first) {
                if let Action::Apply(applied) = &mut step.action {
                    set_lengths(applied, &lengths);
                }
            }
        }
        read.warnings = super::passed_over(skipped);
        read
    }
}

/// Lets the pods of workloads run as long as they did.
fn set_lengths(applied: &mut Arc<Vec<berth_manifests::Object>>, lengths: &BTreeMap<Name, u64>) {
    for object in Arc::make_mut(applied) {
        let metadata = object.metadata();
        let name = metadata.name.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let Some(&millis) = lengths.get(&(object.kind().to_owned(), namespace, name)) else { continue };
        let Ok(mut value) = object.to_value() else { continue };
        objects::set_runs_for(&mut value, millis);
        // It was read before, and an annotation changes nothing about that.
        if let Ok(mut read) = objects::read("", &value, &mut BTreeSet::new())
            && let Some(with) = read.pop()
        {
            *object = with;
        }
    }
}

/// What a recorder knew, from the header's fields.
fn recorded(file: &str, mut fields: Map<String, Value>, catalogue: Option<Value>) -> Result<Recorded, String> {
    const KNOWN: [&str; 4] = ["seed", "settings", "cloud", "reservationPrices"];
    if let Some(other) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("scenario.{other}: expected seed, settings, cloud or reservationPrices"));
    }
    fields.insert("apiVersion".to_owned(), scenario::API_VERSION.into());
    fields.insert("kind".to_owned(), scenario::KIND.into());
    // Set once the end is known.
    fields.insert("duration".to_owned(), "1s".into());
    // As a scenario is read, so that what is unknown is told.
    let text = Value::Object(fields).to_string();
    let read = Settings::new(file, scenario::KIND, &text).parse(scenario::API_VERSION);
    let scenario = read.map_err(|error| {
        let problems = error.problems().iter().map(|problem| format!("scenario.{}: {}", problem.path, problem.message));
        problems.collect::<Vec<_>>().join("; ")
    })?;
    Ok(Recorded { scenario, catalogue })
}

/// Whole milliseconds of seconds that make sense.
fn millis(seconds: f64) -> Option<u64> {
    let fits = seconds.is_finite() && (0.0..1e10).contains(&seconds);
    // In range, so nothing is lost but fractions of a millisecond.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fits.then(|| (seconds * 1000.0).round() as u64)
}

/// A recorder writes those alone that have catalogues of node classes.
fn is_config_map(value: &Value) -> bool {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    value.get("kind").and_then(Value::as_str) == Some("ConfigMap")
        && text("/metadata/name")
        && text("/metadata/namespace")
}

fn template(name: &str, mut pod: Value, is_recorded: bool) -> Result<Template, String> {
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default").to_owned();
    let Some(fields) = pod.as_object_mut() else { return Err("pod: expected a Pod without name".to_owned()) };
    fields.insert("apiVersion".to_owned(), "v1".into());
    fields.insert("kind".to_owned(), "Pod".into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return Err("pod.metadata: expected a map".to_owned()) };
    metadata.insert("name".to_owned(), "name".into());
    metadata.insert("namespace".to_owned(), namespace.clone().into());
    // A trace makes its pods, and makes one again that loses its node: so it is their controller. What was recorded of pods
    // without one is played as it was.
    if !is_recorded {
        metadata.entry("ownerReferences").or_insert_with(|| {
            let owner = format!("trace-{name}");
            json!([{"apiVersion": "berth.sh/v1alpha1", "kind": "Trace", "name": owner, "uid": owner, "controller": true}])
        });
    }
    let options = berth_manifests::Options::default();
    let text = pod.to_string();
    berth_manifests::read_from(name, text.as_bytes(), &options, |_, _| Ok::<(), berth_manifests::ManifestError>(()))
        .map_err(|error| format!("pod: {error}"))?;
    Ok(Template { namespace, pod })
}

fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = berth_manifests::json_in_words(text.split(" at line ").next().unwrap_or_default());
    // "unknown field `creat`, expected one of `create`, …"
    let names: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let hint = match names.split_first() {
        Some((found, known)) if text.starts_with("unknown ") => {
            nearest(found, known.iter().copied()).map(|near| format!(": did you mean {near}?"))
        }
        _ => None,
    };
    format!("column {}: {text}{}", error.column(), hint.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\n{\"template\":\"a\",\"pod\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}\n";

    fn read_steps(lines: &str) -> Result<(Read, Vec<Step>), String> {
        let mut steps = Vec::new();
        match super::read(format!("{HEAD}{lines}").as_bytes(), "t", 0, &mut steps) {
            Ok(read) => Ok((read, steps)),
            Err(Fault::Place(line, message)) => Err(format!("{line}: {message}")),
            Err(Fault::Io(error)) => Err(error.to_string()),
        }
    }

    fn read(lines: &str) -> Result<(u64, usize), String> {
        read_steps(lines).map(|(read, steps)| (read.end, steps.len()))
    }

    #[test]
    fn a_trace_ends_with_its_last_pod_or_where_it_says() {
        let lines =
            "{\"at\":0,\"create\":\"a\",\"name\":\"x\",\"runsFor\":12}\n{\"at\":10,\"create\":\"a\",\"name\":\"y\"}\n";
        assert_eq!(read(lines), Ok((12_000, 2)));
        assert_eq!(read(&format!("{lines}\n{{\"at\":60,\"end\":true}}")), Ok((60_000, 2)));
    }

    #[test]
    fn what_ended_later_in_a_record_ends_so_when_it_is_played() {
        let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"n"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
        let lines = format!(
            "{{\"at\":0,\"create\":\"a\",\"name\":\"x\"}}\n{{\"at\":1,\"apply\":{job}}}\n\
             {{\"at\":40,\"ran\":{{\"kind\":\"Pod\",\"namespace\":\"default\",\"name\":\"x\",\"seconds\":39}}}}\n\
             {{\"at\":70,\"ran\":{{\"kind\":\"Job\",\"namespace\":\"n\",\"name\":\"j\",\"seconds\":65.5}}}}\n"
        );
        let (_, steps) = read_steps(&lines).unwrap();
        let Action::Pod(arrival) = &steps[0].action else { panic!("{:?}", steps[0]) };
        assert_eq!(arrival.runs_for, Some(39_000));
        let Action::Apply(objects) = &steps[1].action else { panic!("{:?}", steps[1]) };
        let value = objects[0].to_value().unwrap();
        let path = "/spec/template/metadata/annotations/berth.sh~1runs-for";
        assert_eq!(value.pointer(path).and_then(Value::as_str), Some("65500ms"));
    }

    #[test]
    fn mistakes_name_the_line_the_field_and_what_was_expected() {
        for (line, expected) in [
            (
                "{\"at\":-1,\"create\":\"a\",\"name\":\"x\"}",
                "line 3: at: found -1, expected seconds after the start, 0 or more and less than 1e10",
            ),
            (
                "{\"at\":1,\"create\":\"a\",\"name\":\"x\",\"runsFor\":-5}",
                "line 3: runsFor: found -5, expected seconds, 0 or more and less than 1e10: a pod ends after it came",
            ),
            (
                "{\"at\":1,\"scale\":{\"namespace\":\"n\",\"name\":\"x\",\"replicas\":-1}}",
                "line 3: scale.replicas: found -1, expected a count from 0 to 200000",
            ),
            (
                "{\"at\":1,\"scale\":{\"namespace\":\"n\",\"name\":\"x\",\"replicas\":1000000}}",
                "line 3: scale.replicas: found 1000000, expected a count from 0 to 200000",
            ),
            (
                "{\"at\":1,\"create\":\"b\",\"name\":\"x\"}",
                "line 3: create: found \"b\", expected a template of a line before",
            ),
            ("{\"at\":1}", "line 3: expected create, scale, apply, patch, delete, ran, stock, price or end"),
            ("{", "line 3: column 1: the text ends within an object, expected another field or }"),
            (
                "{\"at\":1,\"ran\":{\"kind\":\"Job\",\"namespace\":\"n\",\"name\":\"x\",\"seconds\":-2}}",
                "line 3: ran.seconds: found -2, expected seconds, 0 or more and less than 1e10: a pod ends after it began",
            ),
            (
                "{\"at\":1,\"price\":{\"instanceType\":\"m\",\"dollars\":-2}}",
                "line 3: price.dollars: found -2, expected dollars an hour, 0 to 1000000",
            ),
        ] {
            assert_eq!(read(line).unwrap_err(), expected);
        }
    }
}
