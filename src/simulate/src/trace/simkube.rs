//! Traces of SimKube's tracer, versions 2 and 3: MessagePack with the objects that own pods, and how long pods ran.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Fault, Read, objects};
use crate::step::{Action, MOST_STEPS, Origin, Propagation, Step};

/// The versions that are read. What they add to each other is optional here.
const VERSIONS: std::ops::RangeInclusive<u16> = 2..=3;

/// A trace as it is exported. The order of the fields is that of the format, where a struct may be an array.
#[derive(Debug, Deserialize)]
struct Exported {
    version: u16,
    #[allow(dead_code, reason = "the place of a field")]
    config: IgnoredAny,
    events: Vec<Event>,
    #[allow(dead_code, reason = "the place of a field")]
    #[serde(default)]
    index: IgnoredAny,
    /// By kind and name of the owner, then by what its pods are like.
    #[serde(default)]
    pod_lifecycles: BTreeMap<(String, String), BTreeMap<u64, Vec<Lifecycle>>>,
    /// What there is before the first event, of version 3.
    #[serde(default)]
    initial_state: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Event {
    /// Seconds since 1970.
    ts: i64,
    applied_objs: Vec<Value>,
    deleted_objs: Vec<Value>,
}

/// When a pod began to run, and when it ended.
#[derive(Debug, Deserialize)]
enum Lifecycle {
    Empty,
    Running(#[allow(dead_code, reason = "the place of a field")] i64),
    Finished(i64, i64),
}

/// Whether a file begins as MessagePack of a map or an array does: no text does.
pub(super) const fn is_one(first: u8) -> bool {
    matches!(first, 0x80..=0x9f | 0xdc..=0xdf)
}

/// Reads a trace, which is the file with this index among those of the scenario, and adds what happens to the steps.
pub(super) fn read(bytes: &[u8], file: usize, steps: &mut Vec<Step>) -> Result<Read, Fault> {
    let whole = |message: String| Fault::Place("the whole file".to_owned(), message);
    let trace: Exported = rmp_serde::from_slice(bytes)
        .map_err(|error| whole(format!("expected a trace of SimKube, version 2 or 3: {error}")))?;
    if !VERSIONS.contains(&trace.version) {
        let found = trace.version;
        return Err(Fault::Place("version".to_owned(), format!("found {found}, expected 2 or 3")));
    }
    let lengths = lengths(&trace.pod_lifecycles)?;
    let mut skipped = BTreeSet::new();
    let start = trace.events.first().map_or(0, |event| event.ts);
    let mut end = 0;
    // With how long the pods of the object run.
    let mut apply = |place: String, mut object: Value| -> Result<(Action, u64), Fault> {
        objects::as_wanted(&mut object);
        let millis = lengths.get(&owner(&object)).copied();
        if let Some(millis) = millis {
            objects::set_runs_for(&mut object, millis);
        }
        let read = objects::read("object", &object, &mut skipped).map_err(|error| Fault::Place(place, error))?;
        Ok((Action::Apply(Arc::new(read)), millis.unwrap_or_default()))
    };
    for (index, object) in trace.initial_state.into_iter().enumerate() {
        let (action, millis) = apply(format!("initial_state[{index}]"), object)?;
        end = end.max(millis);
        steps.push(Step { at: 0, origin: Origin::Exported(file, 0), action });
    }
    for (index, event) in trace.events.into_iter().enumerate() {
        let place = format!("events[{index}]");
        let since = event.ts.checked_sub(start).and_then(|seconds| u64::try_from(seconds).ok());
        let Some(at) = since.and_then(|seconds| seconds.checked_mul(1000)) else {
            let message = format!("found {}, expected a time at or after that of the first event, {start}", event.ts);
            return Err(Fault::Place(format!("{place}.ts"), message));
        };
        end = at.max(end);
        let origin = Origin::Exported(file, index);
        for (number, object) in event.applied_objs.into_iter().enumerate() {
            let (action, millis) = apply(format!("{place}.applied_objs[{number}]"), object)?;
            end = end.max(at.saturating_add(millis));
            steps.push(Step { at, origin, action });
        }
        for (number, object) in event.deleted_objs.iter().enumerate() {
            let action = delete(object).ok_or_else(|| {
                let message = "expected an object with apiVersion, kind and metadata.name".to_owned();
                Fault::Place(format!("{place}.deleted_objs[{number}]"), message)
            })?;
            steps.push(Step { at, origin, action });
        }
        if steps.len() > MOST_STEPS {
            let message = format!("found more than {MOST_STEPS} things that happen, expected at most as many");
            return Err(Fault::Place(place, message));
        }
    }
    let start = Timestamp::from_second(start).ok();
    Ok(Read { end, start, warnings: super::passed_over(skipped), ..Read::default() })
}

/// How long the pods of an owner ran, in milliseconds: the middle one of those that ended. Pods of one owner that are to
/// run differently long cannot be told apart before they exist.
fn lengths(
    all: &BTreeMap<(String, String), BTreeMap<u64, Vec<Lifecycle>>>,
) -> Result<BTreeMap<(String, String), u64>, Fault> {
    let mut lengths = BTreeMap::new();
    for (owner, of_owner) in all {
        let mut times = Vec::new();
        for lifecycle in of_owner.values().flatten() {
            let Lifecycle::Finished(start, end) = lifecycle else { continue };
            let seconds = end.checked_sub(*start).and_then(|seconds| u64::try_from(seconds).ok());
            let Some(millis) = seconds.and_then(|seconds| seconds.checked_mul(1000)) else {
                let message = format!("found an end of {end}, expected one at or after the start, {start}");
                return Err(Fault::Place(format!("pod_lifecycles: {} {}", owner.0, owner.1), message));
            };
            // A pod that ended within the second ran for a part of it.
            times.push(millis.max(1));
        }
        if let Some(median) = objects::median(times) {
            lengths.insert(owner.clone(), median);
        }
    }
    Ok(lengths)
}

/// An object as lifecycles name it: `apps/v1.Deployment` and `namespace/name`.
fn owner(object: &Value) -> (String, String) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let name = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    (format!("{}.{}", text("/apiVersion"), text("/kind")), name)
}

fn delete(object: &Value) -> Option<Action> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(Action::Delete {
        api_version: text("/apiVersion")?.into(),
        kind: text("/kind")?.into(),
        namespace: text("/metadata/namespace").unwrap_or_default().into(),
        name: text("/metadata/name")?.into(),
        // What ends by itself there may have ended here before.
        may_be_gone: true,
        propagation: Propagation::Background,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cron_job(name: &str) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": name, "namespace": "jobs", "creationTimestamp": null, "resourceVersion": "7"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}})
    }

    /// As SimKube writes it: structs as maps, but keys of maps that are no text.
    fn trace(version: u16, events: &Value, end: i64) -> Vec<u8> {
        let gvk = ("batch/v1.CronJob", "jobs/a");
        let lifecycles = BTreeMap::from([(7_u64, vec![json!({"Finished": [100, end]}), json!("Empty")])]);
        let fields = json!({"version": version, "config": {"trackedObjects": {}}, "events": events, "index": {}});
        let mut out = vec![0x85];
        for (key, value) in fields.as_object().unwrap() {
            out.extend(rmp_serde::to_vec_named(&(key, value)).unwrap().get(1..).unwrap());
        }
        out.extend(rmp_serde::to_vec_named("pod_lifecycles").unwrap());
        out.extend(rmp_serde::to_vec_named(&BTreeMap::from([(gvk, lifecycles)])).unwrap());
        out
    }

    #[test]
    fn objects_come_and_go_and_their_pods_run_as_long_as_they_did() {
        let events = json!([
            {"ts": 1000, "applied_objs": [], "deleted_objs": []},
            {"ts": 1000, "applied_objs": [cron_job("a"), {"apiVersion": "x.example/v1", "kind": "Other", "metadata": {"name": "o"}}],
             "deleted_objs": []},
            {"ts": 1090, "applied_objs": [], "deleted_objs": [cron_job("a")]},
        ]);
        let mut steps = Vec::new();
        let read = super::read(&trace(2, &events, 130), 0, &mut steps).unwrap();
        assert_eq!(read.end, 90_000, "pods of the last one run for 30 seconds from 0 on");
        assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
        assert_eq!(steps.iter().map(|step| step.at).collect::<Vec<_>>(), [0, 0, 90_000]);
        let Action::Apply(objects) = &steps[0].action else { panic!("{:?}", steps[0]) };
        let value = objects[0].to_value().unwrap();
        let path = "/spec/jobTemplate/spec/template/metadata/annotations/berth.sh~1runs-for";
        assert_eq!(value.pointer(path), Some(&json!("30000ms")));
        let Action::Delete { kind, name, .. } = &steps[2].action else { panic!("{:?}", steps[2]) };
        assert_eq!((&**kind, &**name), ("CronJob", "a"));
    }

    /// The regression: what came with the last event was never there.
    #[test]
    fn a_trace_lasts_as_long_as_the_pods_that_come_last() {
        let events = json!([{"ts": 1000, "applied_objs": [], "deleted_objs": []},
            {"ts": 1060, "applied_objs": [cron_job("a")], "deleted_objs": []}]);
        let read = super::read(&trace(2, &events, 3700), 0, &mut Vec::new()).unwrap();
        assert_eq!(read.end, 60_000 + 3_600_000);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        let late = json!([{"ts": 5, "applied_objs": [], "deleted_objs": []}, {"ts": 4, "applied_objs": [], "deleted_objs": []}]);
        let bad = json!([{"ts": 5, "applied_objs": [{"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "x"}, "spec": {"replicas": "many"}}], "deleted_objs": []}]);
        let none = json!([]);
        for (bytes, expected) in [
            (trace(1, &none, 130), "version: found 1, expected 2 or 3"),
            (trace(2, &late, 130), "events[1].ts: found 4, expected a time at or after that of the first event, 5"),
            (
                trace(2, &none, 99),
                "pod_lifecycles: batch/v1.CronJob jobs/a: found an end of 99, expected one at or after the start, 100",
            ),
            (trace(2, &bad, 130), "events[0].applied_objs[0]: "),
            (vec![0x81], "the whole file: expected a trace of SimKube, version 2 or 3"),
            (vec![0x9f; 100_000], "the whole file: expected a trace of SimKube, version 2 or 3"),
        ] {
            let fault = super::read(&bytes, 0, &mut Vec::new()).unwrap_err();
            let Fault::Place(place, message) = fault else { panic!("{fault:?}") };
            let told = format!("{place}: {message}");
            assert!(told.starts_with(expected), "{told}");
        }
    }
}
