//! Writing trace files: what converters and generators make.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::scenario::API_VERSION;

/// Writes the lines of a trace.
pub(crate) struct Lines<W>(W);

// === impl Lines ===

impl<W: Write> Lines<W> {
    /// Begins a trace.
    pub(super) fn begin(mut writer: W) -> io::Result<Self> {
        writeln!(writer, "{}", json!({"apiVersion": API_VERSION, "kind": "Trace"}))?;
        Ok(Self(writer))
    }

    /// Begins a trace with what its first line says beside what it is.
    pub(crate) fn begin_with(mut writer: W, header: &Value) -> io::Result<Self> {
        let rest = header.to_string();
        // What it is comes first, so that nobody need read the rest to know.
        let rest = rest.trim_start_matches('{');
        writeln!(writer, "{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"Trace\",{rest}")?;
        Ok(Self(writer))
    }

    pub(crate) fn template(&mut self, name: &str, pod: &Value) -> io::Result<()> {
        self.line(&json!({"template": name, "pod": pod}))
    }

    /// A pod comes, and runs for so many seconds.
    pub(super) fn create(&mut self, at: f64, template: &str, name: &str, runs_for: f64) -> io::Result<()> {
        self.line(&json!({"at": at, "create": template, "name": name, "runsFor": runs_for}))
    }

    pub(super) fn scale(&mut self, at: f64, namespace: &str, name: &str, replicas: u64) -> io::Result<()> {
        let scale = json!({"kind": "Deployment", "namespace": namespace, "name": name, "replicas": replicas});
        self.line(&json!({"at": at, "scale": scale}))
    }

    pub(super) fn apply(&mut self, at: f64, object: &Value) -> io::Result<()> {
        self.line(&json!({"at": at, "apply": object}))
    }

    /// The trace ends, whatever runs for longer.
    pub(super) fn end(&mut self, at: f64) -> io::Result<()> {
        self.line(&json!({"at": at, "end": true}))
    }

    /// Sees to it that what was written can be read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    pub(crate) fn line(&mut self, line: &Value) -> io::Result<()> {
        writeln!(self.0, "{line}")
    }
}

/// A pod of one container that asks for this; none of a resource that is 0.
pub(super) fn pod(namespace: &str, app: &str, milli_cpu: u64, mebibytes: u64, gpus: u64) -> Value {
    json!({
        "metadata": {"namespace": namespace, "labels": {"app": app}},
        "spec": {"restartPolicy": "Never", "containers": [container(app, milli_cpu, mebibytes, gpus)]},
    })
}

/// A container that asks for this.
pub(super) fn container(app: &str, milli_cpu: u64, mebibytes: u64, gpus: u64) -> Value {
    let mut requests = serde_json::Map::new();
    for (name, amount, unit) in [("cpu", milli_cpu, "m"), ("memory", mebibytes, "Mi"), ("nvidia.com/gpu", gpus, "")] {
        if amount > 0 {
            requests.insert(name.to_owned(), format!("{amount}{unit}").into());
        }
    }
    let limits = if gpus > 0 { json!({"nvidia.com/gpu": gpus.to_string()}) } else { json!({}) };
    json!({"name": app, "image": format!("registry.example/{app}"),
        "resources": {"requests": requests, "limits": limits}})
}
