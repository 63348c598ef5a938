//! The scenario file: what a cluster begins with, and what happens when.

use std::collections::BTreeMap;

use berth_api::GoDuration;
use serde::Deserialize;
use serde_json::Value;

/// What `apiVersion` a scenario has.
pub(crate) const API_VERSION: &str = "berth.sh/v1alpha1";
/// What `kind` a scenario has.
pub(crate) const KIND: &str = "Scenario";

/// A scenario as it is written. Files are relative to it.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scenario {
    #[allow(dead_code, reason = "checked before")]
    #[cfg_attr(test, schemars(extend("const" = API_VERSION)))]
    pub(crate) api_version: String,
    #[allow(dead_code, reason = "checked before")]
    #[cfg_attr(test, schemars(extend("const" = KIND)))]
    pub(crate) kind: String,
    /// What the clocks show at the start, RFC 3339.
    pub(crate) start: Option<String>,
    /// How long it takes.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) duration: GoDuration,
    /// Decides names, ids and chance.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Files and folders of manifests.
    #[serde(default)]
    pub(crate) manifests: Vec<String>,
    /// Manifests, inline.
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    /// The instance catalogue.
    pub(crate) instance_types: Option<String>,
    /// What a slot of a reservation costs an hour, used or not, in dollars, by reservation; its list price where not named.
    #[serde(default)]
    pub(crate) reservation_prices: BTreeMap<String, f64>,
    #[serde(default)]
    pub(crate) cloud: Cloud,
    #[serde(default)]
    pub(crate) settings: Settings,
    /// Files with pods that come and go.
    #[serde(default)]
    pub(crate) traces: Vec<String>,
    /// What happens when.
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

/// How the cloud behaves.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cloud {
    /// From a launch until the machine runs.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) boot_delay: Option<GoDuration>,
    /// The most that a boot takes beyond that.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) boot_jitter: Option<GoDuration>,
    /// How long a machine takes to shut down.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) shutdown_delay: Option<GoDuration>,
    /// How long pods take to stop that do not say so; at most their grace period.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) pod_stop_delay: Option<GoDuration>,
    /// How long before its end a spot interruption is announced.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) spot_notice: Option<GoDuration>,
    /// The chance of a spot instance to be interrupted within its first hour.
    pub(crate) spot_interruption_within_an_hour: Option<f64>,
    /// The chance of a machine to die within its first hour.
    pub(crate) death_within_an_hour: Option<f64>,
    /// How a running instance comes under a reservation that has free slots.
    #[serde(default)]
    pub(crate) reservation_adoption: Adoption,
}

/// How a running instance comes under a reservation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum Adoption {
    /// It cannot.
    #[default]
    Never,
    /// The cloud counts it, if the reservation is open.
    Relabel,
    /// The cloud counts it, if it was launched into the group of reservations.
    Group,
}

/// How Berth plans and acts.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// How much work a decision takes for a cheaper plan.
    #[serde(default)]
    pub(crate) effort: Effort,
    /// Dollars an hour that every node costs beyond its price.
    pub(crate) node_cost: Option<f64>,
    /// Launch types with accelerators also for pods that ask for none.
    #[serde(default)]
    pub(crate) gpu_types_for_any_pod: bool,
    /// As `--preference-policy`.
    #[serde(default)]
    pub(crate) preference_policy: PreferencePolicy,
    /// As `--feature-gates`.
    pub(crate) feature_gates: Option<String>,
    /// What becomes of the consolidation that NodePools ask for.
    #[serde(default)]
    pub(crate) consolidation: Consolidation,
    /// As `--eviction-price`: dollars an hour that a removal must save for each node that goes and each pod that it evicts.
    pub(crate) eviction_price: Option<f64>,
    /// How often the cloud is asked what it offers.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) offers_period: Option<GoDuration>,
    /// For how long an offering that had no instance left is left alone.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) exhausted_for: Option<GoDuration>,
    /// As `--max-cost`: what nodes may cost an hour, in dollars, of each NodePool and in all.
    #[serde(default)]
    pub(crate) max_cost: Vec<f64>,
    /// As `--max-launches`: how many nodes may be launched within an hour, of each NodePool and in all.
    #[serde(default)]
    pub(crate) max_launches: Vec<u32>,
    /// As `--max-share`: the most of what is put on new nodes that may be on nodes of one value.
    #[serde(default)]
    pub(crate) max_share: Vec<String>,
    /// As `--scheduler-config`: a file, or a KubeSchedulerConfiguration inline.
    pub(crate) scheduler_config: Option<Value>,
    /// How long a NodeClaim may take until its instance is launched.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) launch_timeout: Option<GoDuration>,
    /// How long an instance may take until its node has joined.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) registration_timeout: Option<GoDuration>,
    /// How much consolidation and drift look in a second, in what-ifs times nodes and pods: 100 by default, 0 without end.
    pub(crate) look_pace: Option<u32>,
}

/// As `--effort`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effort {
    Low,
    #[default]
    Default,
    High,
}

/// As `--preference-policy`: whether nodes are launched and kept for what pods prefer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum PreferencePolicy {
    #[default]
    Respect,
    Ignore,
}

/// What becomes of the consolidation that NodePools ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum Consolidation {
    /// As each NodePool says.
    #[default]
    AsWritten,
    /// No NodePool consolidates.
    Never,
    WhenEmpty,
    WhenEmptyOrUnderutilized,
    /// As each NodePool says, with nodes chosen as Karpenter does: empty ones, first parts of a ranking, single ones.
    KarpentersMethods,
}

/// Something that happens. Exactly one of the actions is there.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// How long after the start.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) at: GoDuration,
    /// It happens again, each time so long after the last.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) every: Option<GoDuration>,
    /// It happens no more from then on, after the start.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) until: Option<GoDuration>,
    pub(crate) scale: Option<Scale>,
    pub(crate) apply: Option<Apply>,
    pub(crate) delete: Option<Delete>,
    pub(crate) reservation: Option<Reservation>,
    pub(crate) stock: Option<Stock>,
    pub(crate) interrupt: Option<Machines>,
    pub(crate) kill: Option<Machines>,
    pub(crate) price: Option<Price>,
}

/// A workload gets another number of replicas.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scale {
    #[serde(default)]
    pub(crate) kind: Scaled,
    #[serde(default = "default_namespace")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) replicas: u32,
}

/// What can be scaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum Scaled {
    #[default]
    Deployment,
    StatefulSet,
    ReplicaSet,
    /// Its `parallelism`.
    Job,
}

/// Objects are created, or changed to what is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Apply {
    #[serde(default)]
    pub(crate) manifests: Vec<String>,
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
}

/// An object is deleted.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delete {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(default = "default_namespace")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A capacity reservation holds another number of instances.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reservation {
    pub(crate) id: String,
    pub(crate) count: Option<u32>,
    pub(crate) used_by_others: Option<u32>,
}

/// An offering has so many instances left. Nobody is told: it shows when a launch is refused.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stock {
    pub(crate) instance_type: String,
    /// In all zones where it is not given.
    pub(crate) zone: Option<String>,
    #[serde(default)]
    pub(crate) capacity_type: Paid,
    /// How many; without it there is no limit any more.
    pub(crate) left: Option<u32>,
}

/// An offering has another price.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Price {
    pub(crate) instance_type: String,
    /// In all zones where it is not given.
    pub(crate) zone: Option<String>,
    #[serde(default)]
    pub(crate) capacity_type: Paid,
    /// What it costs an hour from now on.
    pub(crate) dollars: f64,
}

/// What can run out, and has a price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Paid {
    #[default]
    OnDemand,
    Spot,
}

/// Some of the machines that run, by chance where more of them fit.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machines {
    pub(crate) node: Option<String>,
    pub(crate) node_pool: Option<String>,
    pub(crate) instance_type: Option<String>,
    pub(crate) zone: Option<String>,
    /// How many at most; without it, one.
    pub(crate) count: Option<u32>,
}

/// The namespace that is meant: an empty one is that in which objects are made that name none.
pub(crate) fn namespace_of(written: &str) -> &str {
    if written.is_empty() { "default" } else { written }
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Editors complete and check scenarios by it. To write it anew: `BLESS=1 cargo test -p berth-simulate schema`.
    #[test]
    fn the_published_schema_is_that_of_scenarios() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.schema.json");
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(Scenario)).unwrap() + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap();
        assert!(published == schema, "docs/scenario.schema.json is of other scenarios; this is theirs:\n{schema}");
    }

    #[test]
    fn the_schema_knows_every_action_and_refuses_what_is_unknown() {
        let schema = serde_json::to_value(schemars::schema_for!(Scenario)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let event = schema.pointer("/$defs/Event/properties").unwrap();
        for action in ["scale", "apply", "delete", "reservation", "stock", "interrupt", "kill", "price"] {
            assert!(event.get(action).is_some(), "{action}");
        }
        assert_eq!(schema["required"], serde_json::json!(["apiVersion", "kind", "duration"]));
    }
}
