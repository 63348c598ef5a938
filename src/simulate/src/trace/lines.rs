//! The trace file: JSON lines, in the order of time or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::error::SimulateError;
use crate::scenario::Scaled;
use crate::step::{Action, Arrival, MOST_PODS, MOST_STEPS, Origin, Step, Template};

/// The longest line: an object as the API server takes it, and a little more.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// One line of a trace.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    /// Of the first line.
    api_version: Option<String>,
    /// Of the first line.
    kind: Option<String>,
    /// The name of a template, with `pod`.
    template: Option<String>,
    /// A Pod without name.
    pod: Option<Value>,
    /// Seconds after the start.
    at: Option<f64>,
    /// The template of a pod that comes.
    create: Option<String>,
    /// The name of a pod that comes.
    name: Option<String>,
    /// Seconds that it runs.
    runs_for: Option<f64>,
    /// A workload gets so many replicas.
    scale: Option<Scale>,
    /// An object is created or changed.
    apply: Option<Value>,
    /// An object is deleted.
    delete: Option<Deleted>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Scale {
    #[serde(default)]
    kind: Scaled,
    namespace: String,
    name: String,
    replicas: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Deleted {
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Reads a trace, which is the file with this index among those of the scenario, and adds what happens to the steps. The
/// answer is how many pods there are at a time at most, if each starts as soon as it comes.
pub(crate) fn read(path: &Path, file: usize, steps: &mut Vec<Step>) -> Result<u64, SimulateError> {
    let failed = |source| SimulateError::Read { path: path.to_owned(), source };
    let reader = BufReader::new(File::open(path).map_err(failed)?);
    read_lines(reader, &path.display().to_string(), file, steps).map_err(|error| match error {
        Fault::Io(source) => failed(source),
        Fault::Line(line, message) => {
            SimulateError::Trace { file: path.display().to_string(), place: format!("line {line}"), message }
        }
    })
}

enum Fault {
    Io(std::io::Error),
    Line(usize, String),
}

fn read_lines(mut reader: impl BufRead, name: &str, file: usize, steps: &mut Vec<Step>) -> Result<u64, Fault> {
    let mut templates: BTreeMap<String, Arc<Template>> = BTreeMap::new();
    // Comings and goings: at, and one more or one fewer.
    let mut population: Vec<(u64, i64)> = Vec::new();
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let mut limited = std::io::Read::take(&mut reader, LONGEST_LINE as u64);
        if limited.read_until(b'\n', &mut text).map_err(Fault::Io)? == 0 {
            break;
        }
        let wrong = |message: String| Fault::Line(number, message);
        if text.len() >= LONGEST_LINE {
            return Err(wrong(format!("expected a line of at most {LONGEST_LINE} bytes")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_slice(&text).map_err(|error| wrong(in_words(&error)))?;
        if number == 1 {
            let header = (line.api_version.as_deref(), line.kind.as_deref());
            if header != (Some(crate::scenario::API_VERSION), Some("Trace")) {
                let expected = r#"{"apiVersion":"berth.sh/v1alpha1","kind":"Trace"}"#;
                return Err(wrong(format!("expected {expected} as the first line")));
            }
            continue;
        }
        if steps.len() >= MOST_STEPS {
            return Err(wrong(format!("found more than {MOST_STEPS} things that happen, expected at most as many")));
        }
        if let Some(template) = line.template {
            let pod = line.pod.ok_or_else(|| wrong("template: expected pod beside it".to_owned()))?;
            let template_of = self::template(&template, pod).map_err(wrong)?;
            templates.insert(template, Arc::new(template_of));
            continue;
        }
        let at = line.at.ok_or_else(|| wrong("expected at, in seconds after the start".to_owned()))?;
        let at =
            millis(at).ok_or_else(|| wrong(format!("at: found {at}, expected seconds after the start, 0 or more")))?;
        let action = if let Some(create) = line.create {
            let template = templates.get(&create).cloned();
            let template = template
                .ok_or_else(|| wrong(format!("create: found {create:?}, expected a template of a line before")))?;
            let name = line.name.ok_or_else(|| wrong("create: expected name beside it".to_owned()))?;
            let runs_for = match line.runs_for {
                None => None,
                Some(seconds) => Some(millis(seconds).ok_or_else(|| {
                    wrong(format!("runsFor: found {seconds}, expected seconds, 0 or more: a pod ends after it came"))
                })?),
            };
            population.push((at, 1));
            if let Some(runs_for) = runs_for {
                population.push((at.saturating_add(runs_for), -1));
            }
            Action::Pod(Arrival { template, name: name.into(), runs_for })
        } else if let Some(scale) = line.scale {
            let replicas = u32::try_from(scale.replicas).ok().filter(|count| u64::from(*count) <= MOST_PODS);
            let replicas = replicas.ok_or_else(|| {
                wrong(format!("scale.replicas: found {}, expected a count from 0 to {MOST_PODS}", scale.replicas))
            })?;
            Action::Scale { kind: scale.kind, namespace: scale.namespace.into(), name: scale.name.into(), replicas }
        } else if let Some(value) = line.apply {
            let mut objects = Vec::new();
            let place = format!("{name}:{number}");
            let text = value.to_string();
            let options = berth_manifests::Options::default();
            berth_manifests::read_from(&place, text.as_bytes(), &options, |_, object| {
                objects.push(object);
                Ok::<(), berth_manifests::ManifestError>(())
            })
            .map_err(|error| wrong(format!("apply: {error}")))?;
            Action::Apply(Arc::new(objects))
        } else if let Some(delete) = line.delete {
            Action::Delete {
                api_version: delete.api_version.into(),
                kind: delete.kind.into(),
                namespace: delete.namespace.into(),
                name: delete.name.into(),
            }
        } else {
            return Err(wrong("expected create, scale, apply or delete".to_owned()));
        };
        steps.push(Step { at, origin: Origin::Trace(file, number), action });
    }
    let most = peak(population);
    if most > MOST_PODS {
        return Err(Fault::Line(1, format!("found {most} pods at the same time, expected at most {MOST_PODS}")));
    }
    Ok(most)
}

/// How many there are at a time at most.
fn peak(mut population: Vec<(u64, i64)>) -> u64 {
    population.sort_unstable();
    let (mut now, mut most) = (0_i64, 0_i64);
    for (_, change) in population {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}

/// Whole milliseconds of seconds that make sense.
fn millis(seconds: f64) -> Option<u64> {
    let fits = seconds.is_finite() && (0.0..1e10).contains(&seconds);
    // In range, so nothing is lost but fractions of a millisecond.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fits.then(|| (seconds * 1000.0).round() as u64)
}

fn template(name: &str, mut pod: Value) -> Result<Template, String> {
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default").to_owned();
    let Some(fields) = pod.as_object_mut() else { return Err("pod: expected a Pod without name".to_owned()) };
    fields.insert("apiVersion".to_owned(), "v1".into());
    fields.insert("kind".to_owned(), "Pod".into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(metadata) = metadata.as_object_mut() else { return Err("pod.metadata: expected a map".to_owned()) };
    metadata.insert("name".to_owned(), "name".into());
    metadata.insert("namespace".to_owned(), namespace.clone().into());
    let options = berth_manifests::Options::default();
    let text = pod.to_string();
    berth_manifests::read_from(name, text.as_bytes(), &options, |_, _| Ok::<(), berth_manifests::ManifestError>(()))
        .map_err(|error| format!("pod: {error}"))?;
    Ok(Template { namespace, pod })
}

fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let column = error.column();
    format!("column {column}: {}", text.split(" at line ").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\n{\"template\":\"a\",\"pod\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}\n";

    fn read(lines: &str) -> Result<(u64, usize), String> {
        let mut steps = Vec::new();
        match read_lines(format!("{HEAD}{lines}").as_bytes(), "t", 0, &mut steps) {
            Ok(most) => Ok((most, steps.len())),
            Err(Fault::Line(line, message)) => Err(format!("line {line}: {message}")),
            Err(Fault::Io(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn pods_are_counted_as_they_come_and_go() {
        let lines = "{\"at\":0,\"create\":\"a\",\"name\":\"x\",\"runsFor\":10}\n{\"at\":10,\"create\":\"a\",\"name\":\"y\"}\n\n\
                     {\"at\":5.5,\"create\":\"a\",\"name\":\"z\",\"runsFor\":1}\n";
        assert_eq!(read(lines), Ok((2, 3)));
    }

    #[test]
    fn mistakes_name_the_line_the_field_and_what_was_expected() {
        for (line, expected) in [
            (
                "{\"at\":-1,\"create\":\"a\",\"name\":\"x\"}",
                "line 3: at: found -1, expected seconds after the start, 0 or more",
            ),
            (
                "{\"at\":1,\"create\":\"a\",\"name\":\"x\",\"runsFor\":-5}",
                "line 3: runsFor: found -5, expected seconds, 0 or more: a pod ends after it came",
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
            ("{\"at\":1}", "line 3: expected create, scale, apply or delete"),
            ("{", "line 3: column 1: EOF while parsing an object"),
        ] {
            assert_eq!(read(line).unwrap_err(), expected);
        }
    }
}
