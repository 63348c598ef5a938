//! A kube-scheduler configuration file, as far as it is about Reservations and default spreading.

use std::path::Path;
use std::sync::Arc;

use berth_api::{FieldError, PodTopologySpreadArgs, ReservationArgs};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{ManifestError, Problem};
use crate::options::{MAX_OBJECT_BYTES, Source};
use crate::path::shorten;
use crate::{typed, value};

const KIND: &str = "KubeSchedulerConfiguration";
const GROUP: &str = "kubescheduler.config.k8s.io/";
/// Plugins.
const RESERVATION: &str = "Reservation";
const SPREAD: &str = "PodTopologySpread";

/// What a kube-scheduler configuration says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerConfig {
    /// Of Reservations.
    pub reservations: ReservationArgs,
    /// Of pods without spread constraints of their own.
    pub spread: PodTopologySpreadArgs,
}

/// The `ReservationArgs` and `PodTopologySpreadArgs` of a kube-scheduler configuration file, YAML or JSON: those of the first
/// profile that has some, else the defaults. What else such a file says does not matter.
///
/// # Errors
/// The file cannot be read, is no `KubeSchedulerConfiguration`, or an argument makes no sense; file and field are named.
pub fn read_scheduler_config(path: &Path) -> Result<SchedulerConfig, ManifestError> {
    let name = path.display().to_string();
    let text = crate::read_text(path)
        .map_err(|error| ManifestError::of_file(name.as_str(), format!("cannot be read: {error}")))?;
    parse(&name, &text)
}

impl SchedulerConfig {
    /// One that is written inline, in what is called by this name.
    ///
    /// # Errors
    /// As of [`read_scheduler_config`].
    pub fn of_value(name: &str, value: &Value) -> Result<Self, ManifestError> {
        parse(name, &value.to_string())
    }

    /// As a kube-scheduler configuration that says just this; `None` where it says nothing but defaults.
    pub fn to_value(&self) -> Option<Value> {
        if *self == Self::default() {
            return None;
        }
        Some(json!({
            "apiVersion": format!("{GROUP}v1"),
            "kind": KIND,
            "profiles": [{"pluginConfig": [
                {"name": RESERVATION, "args": self.reservations},
                {"name": SPREAD, "args": self.spread},
            ]}],
        }))
    }
}

fn parse(name: &str, text: &str) -> Result<SchedulerConfig, ManifestError> {
    let source = Source { file: Arc::from(name), document: 1, item: None, line: 1 };
    let object = || Some(KIND.to_owned());
    let text = text.trim_start_matches('\u{feff}').trim_start_matches("---");
    let value = value::from_yaml(text, MAX_OBJECT_BYTES).map_err(|error| {
        let problem = Problem::of_object(format!("not valid YAML: {}", error.message));
        ManifestError::of_document(source.clone(), None, error.position, vec![problem])
    })?;
    let wrong = |problems| ManifestError::of_document(source.clone(), object(), None, problems);
    // In YAML `y` is no text.
    let field = |name: &str| match value.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    if field("kind") != KIND {
        let found = field("kind");
        let found = shorten(&found);
        return Err(wrong(vec![Problem::new("kind", format!("found {found:?}, expected {KIND}"))]));
    }
    if !field("apiVersion").starts_with(GROUP) {
        let found = field("apiVersion");
        let found = shorten(&found);
        return Err(wrong(vec![Problem::new("apiVersion", format!("found {found:?}, expected {GROUP}v1"))]));
    }
    let reservations = read(&value, RESERVATION, ReservationArgs::validate).map_err(wrong)?;
    let spread = read(&value, SPREAD, PodTopologySpreadArgs::validate).map_err(wrong)?;
    Ok(SchedulerConfig { reservations, spread })
}

/// The arguments of a plugin, or its defaults.
fn read<T: DeserializeOwned + Default>(
    value: &Value,
    plugin: &str,
    validate: impl Fn(&T) -> Vec<FieldError>,
) -> Result<T, Vec<Problem>> {
    let Some((path, args)) = arguments(value, plugin).map_err(|problem| vec![problem])? else {
        return Ok(T::default());
    };
    let under = |problem: &Problem| Problem::new(format!("{path}.{}", problem.path), problem.message.clone());
    let read = typed::deserialize::<T>(args).map_err(|misfit| vec![under(&misfit.problem)])?;
    let unknown =
        read.unknown_fields.iter().map(|field| Problem::new(format!("{path}.{}", field.path), "unknown field"));
    let invalid = validate(&read.object).into_iter();
    let invalid = invalid.map(|error| Problem::new(format!("{path}.{}", error.path), error.message));
    let problems: Vec<Problem> = unknown.chain(invalid).collect();
    if problems.is_empty() { Ok(read.object) } else { Err(problems) }
}

/// The first arguments of a plugin, with their path.
fn arguments<'v>(value: &'v Value, plugin: &str) -> Result<Option<(String, &'v Value)>, Problem> {
    let list = |value: Option<&'_ Value>, path: &str| match value {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.is_array() => Ok(()),
        Some(_) => Err(Problem::new(path, "expected a list")),
    };
    let profiles = value.get("profiles");
    list(profiles, "profiles")?;
    for (i, profile) in profiles.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let configs = profile.get("pluginConfig");
        list(configs, &format!("profiles[{i}].pluginConfig"))?;
        for (j, config) in configs.and_then(Value::as_array).into_iter().flatten().enumerate() {
            if config.get("name").and_then(Value::as_str) == Some(plugin)
                && let Some(args) = config.get("args").filter(|args| !args.is_null())
            {
                return Ok(Some((format!("profiles[{i}].pluginConfig[{j}].args"), args)));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- \
                         schedulerName: koord-scheduler\n  pluginConfig:\n  - name: Reservation\n    args:\n      \
                         apiVersion: kubescheduler.config.k8s.io/v1\n      kind: ReservationArgs\n      ";

    #[test]
    fn the_guides_configuration_is_read_and_what_it_leaves_out_is_the_default() {
        let text = format!("{GUIDE}preAllocationConfig: {{enableClusterMode: true, preferNoPreAllocatedPods: true}}");
        let args = parse("scheduler.yaml", &text).unwrap().reservations;
        let config = &args.pre_allocation_config;
        assert!(config.enable_cluster_mode && config.prefer_no_pre_allocated_pods && !args.enable_preemption);
        assert_eq!(config.cluster_label_key, "pod.koordinator.sh/is-pre-allocatable");
        assert_eq!((args.gc_duration_seconds, args.gc_interval_seconds), (86_400, 60));
        let without = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        assert_eq!(parse("scheduler.yaml", without).unwrap(), SchedulerConfig::default());
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        let text = format!(
            "{GUIDE}enablePreemption: true\n  - name: PodTopologySpread\n    args: {{defaultingType: List, \
                            defaultConstraints: [{{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}}]}}"
        );
        let config = parse("scheduler.yaml", &text).unwrap();
        assert!(config.reservations.enable_preemption && config.spread.constraints().len() == 1);
        assert_eq!(SchedulerConfig::of_value("inline", &config.to_value().unwrap()).unwrap(), config);
        assert_eq!(SchedulerConfig::default().to_value(), None);
    }

    #[test]
    fn mistakes_are_named_with_file_and_field() {
        for (more, expected) in [
            ("gcDurationSeconds: 0", "profiles[0].pluginConfig[0].args.gcDurationSeconds: found 0, expected 1 or more"),
            ("gcDuration: 1", "profiles[0].pluginConfig[0].args.gcDuration: unknown field"),
            ("enablePreemption: often", "profiles[0].pluginConfig[0].args.enablePreemption"),
            ("ignoredResources: [cpu]", "args.ignoredResources[0]: found \"cpu\", expected an extended resource"),
        ] {
            let error = parse("scheduler.yaml", &format!("{GUIDE}{more}")).unwrap_err().to_string();
            assert!(error.starts_with("scheduler.yaml") && error.contains(expected), "{error}");
        }
        let error = parse("pod.yaml", "apiVersion: v1\nkind: Pod\n").unwrap_err().to_string();
        assert!(error.contains("kind: found \"Pod\", expected KubeSchedulerConfiguration"), "{error}");
    }

    #[test]
    fn default_spreading_is_that_of_the_list_where_it_says_so() {
        let config = |args: &str| {
            let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- \
                        pluginConfig:\n  - name: PodTopologySpread\n    args: ";
            parse("scheduler.yaml", &format!("{text}{args}\n"))
        };
        let zone = "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}";
        let spread = config(&format!("{{defaultingType: List, defaultConstraints: [{zone}]}}")).unwrap().spread;
        let keys: Vec<String> = spread.constraints().iter().map(|own| own.topology_key.clone()).collect();
        assert_eq!(keys, ["topology.kubernetes.io/zone"]);
        let own = config("{kind: PodTopologySpreadArgs}").unwrap().spread;
        assert_eq!(own.constraints().iter().map(|own| own.max_skew).collect::<Vec<_>>(), [3, 5]);
        for (args, expected) in [
            (format!("{{defaultConstraints: [{zone}]}}"), "args.defaultConstraints: expected none, as defaultingType"),
            (
                format!("{{defaultingType: List, defaultConstraints: [{zone}, {zone}]}}"),
                "args.defaultConstraints[1].topologyKey: found \"topology.kubernetes.io/zone\" with DoNotSchedule twice",
            ),
            (
                format!("{{defaultingType: List, defaultConstraints: [{}]}}", zone.replace('1', "0")),
                "args.defaultConstraints[0].maxSkew: found 0, expected 1 or more",
            ),
        ] {
            let error = config(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
