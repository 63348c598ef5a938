//! PodTopologySpreadArgs: how a kube-scheduler configuration has pods spread that have no spread constraints of their own.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::{Deserialize, Serialize};

use crate::{Cause, FieldError};

const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

/// The arguments of the plugin `PodTopologySpread` in a kube-scheduler configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodTopologySpreadArgs {
    /// Any version.
    pub api_version: String,
    /// `PodTopologySpreadArgs`.
    pub kind: String,
    /// The constraints of pods that have none, with `defaultingType: List`. Whom pods are spread from is told by Services and
    /// controllers.
    pub default_constraints: Vec<TopologySpreadConstraint>,
    /// Which constraints these pods have.
    pub defaulting_type: DefaultingType,
}

/// Which constraints pods have that have none of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefaultingType {
    /// kube-scheduler's own: by preference over host names (`maxSkew` 3) and zones (5).
    #[default]
    System,
    /// Those of `defaultConstraints`.
    List,
}

impl Default for PodTopologySpreadArgs {
    fn default() -> Self {
        PodTopologySpreadArgs {
            api_version: String::new(),
            kind: "PodTopologySpreadArgs".to_owned(),
            default_constraints: Vec::new(),
            defaulting_type: DefaultingType::System,
        }
    }
}

impl PodTopologySpreadArgs {
    /// The constraints of pods that have none of their own, without selectors.
    pub fn constraints(&self) -> Cow<'_, [TopologySpreadConstraint]> {
        let system = |key: &str, max_skew| TopologySpreadConstraint {
            max_skew,
            topology_key: key.to_owned(),
            when_unsatisfiable: SCHEDULE_ANYWAY.to_owned(),
            ..TopologySpreadConstraint::default()
        };
        match self.defaulting_type {
            DefaultingType::System => {
                vec![system("kubernetes.io/hostname", 3), system("topology.kubernetes.io/zone", 5)].into()
            }
            DefaultingType::List => self.default_constraints.as_slice().into(),
        }
    }

    /// What is wrong with it; paths are relative to it.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut error = |path: String, message: String| {
            errors.push(FieldError { path, message, cause: Cause::Invalid });
        };
        if self.kind != "PodTopologySpreadArgs" {
            error("kind".to_owned(), format!("found {:?}, expected PodTopologySpreadArgs", self.kind));
        }
        if self.defaulting_type == DefaultingType::System && !self.default_constraints.is_empty() {
            error("defaultConstraints".to_owned(), "expected none, as defaultingType is not List".to_owned());
        }
        let mut seen = BTreeSet::new();
        for (i, constraint) in self.default_constraints.iter().enumerate() {
            let mut error = |field: &str, message: String| error(format!("defaultConstraints[{i}].{field}"), message);
            let (key, when) = (&constraint.topology_key, &constraint.when_unsatisfiable);
            if constraint.max_skew < 1 {
                error("maxSkew", format!("found {}, expected 1 or more", constraint.max_skew));
            }
            if key.is_empty() {
                error("topologyKey", "expected a node label".to_owned());
            }
            if when != SCHEDULE_ANYWAY && when != "DoNotSchedule" {
                error("whenUnsatisfiable", format!("found {when:?}, expected DoNotSchedule or ScheduleAnyway"));
            }
            if constraint.label_selector.is_some() {
                error(
                    "labelSelector",
                    "expected none: Services and controllers tell whom a pod is spread from".to_owned(),
                );
            }
            if constraint.min_domains.is_some_and(|least| least < 1) {
                error("minDomains", format!("found {}, expected 1 or more", constraint.min_domains.unwrap_or(0)));
            }
            for (field, given) in [
                ("matchLabelKeys", constraint.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty())),
                (
                    "nodeAffinityPolicy",
                    constraint.node_affinity_policy.as_deref().is_some_and(|policy| policy != "Honor"),
                ),
                ("nodeTaintsPolicy", constraint.node_taints_policy.as_deref().is_some_and(|policy| policy != "Ignore")),
            ] {
                if given {
                    error(field, "not supported in defaults".to_owned());
                }
            }
            if !seen.insert((key.as_str(), when.as_str())) {
                error("topologyKey", format!("found {key:?} with {when} twice"));
            }
        }
        errors
    }
}
