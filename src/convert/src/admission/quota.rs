//! ResourceQuotas: how many more pods of a shape a namespace lets in.

use std::collections::BTreeMap;

use berth_model::{Cluster, ResourceId};
use berth_quantity::{Format, Quantity};
use k8s_openapi::api::core::v1::{ResourceQuota, ScopedResourceSelectorRequirement};

use super::shape::AdmissionSpec;
use crate::Problem;
use crate::quantities::{Amounts, parse};

/// Resources that a container must state where a quota counts them.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Counts pods as the objects that they are, whatever becomes of them.
const COUNT_PODS: &str = "count/pods";
/// One, in nano-units.
const WHOLE: i128 = 1_000_000_000;

/// What a quota of a namespace allows.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    /// By the name of what it counts.
    counts: BTreeMap<String, Count>,
    scopes: Vec<ScopedResourceSelectorRequirement>,
}

/// What a quota allows of one resource, in nano-units.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    most: i128,
    used: i128,
    /// Whether its status says what is used: of what was added to a quota it does not yet.
    is_told: bool,
}

/// What a pod takes of quotas.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    requests: Amounts,
    limits: Amounts,
}

impl Usage {
    pub(super) fn of(shape: &AdmissionSpec, cluster: &mut Cluster) -> Result<Self, Problem> {
        Ok(Usage { requests: shape.requests(cluster)?, limits: shape.limits(cluster)? })
    }

    /// In nano-units, by what a quota calls it; `None` for what quotas of pods do not count.
    fn get(&self, name: &str, cluster: &Cluster) -> Option<i128> {
        let amount = |amounts: &Amounts, name: &str| Some(amounts.get(id_of(name, cluster)?).unwrap_or(0));
        match name {
            "pods" | COUNT_PODS => Some(WHOLE),
            "cpu" | "memory" | "ephemeral-storage" => amount(&self.requests, name),
            "requests.storage" => None,
            _ => match name.split_once('.') {
                Some(("limits", name @ ("cpu" | "memory" | "ephemeral-storage"))) => amount(&self.limits, name),
                Some(("requests", name)) => amount(&self.requests, name),
                _ if name.starts_with("hugepages-") => amount(&self.requests, name),
                _ => None,
            },
        }
    }
}

fn id_of(name: &str, cluster: &Cluster) -> Option<ResourceId> {
    cluster.resource_names.get(cluster.symbols.get(name)?)
}

impl Quota {
    /// Problems are relative to the object.
    pub(crate) fn read(object: &ResourceQuota) -> Result<Self, Problem> {
        let (spec, status) = (object.spec.as_ref(), object.status.as_ref());
        let hard = spec.and_then(|spec| spec.hard.as_ref());
        let used = status.and_then(|status| status.used.as_ref());
        let mut counts = BTreeMap::new();
        for (name, most) in hard.into_iter().flatten() {
            let most = parse(&most.0).map_err(|problem| problem.under(format!("spec.hard[{name}]")))?;
            let told = used.and_then(|used| used.get(name));
            let used = match told {
                Some(used) => parse(&used.0).map_err(|problem| problem.under(format!("status.used[{name}]")))?,
                None => 0,
            };
            counts.insert(name.clone(), Count { most, used, is_told: told.is_some() });
        }
        let named = spec.into_iter().flat_map(|spec| spec.scopes.iter().flatten());
        let exists = |scope: &String| ScopedResourceSelectorRequirement {
            scope_name: scope.clone(),
            operator: "Exists".to_owned(),
            values: None,
        };
        let selector = spec.and_then(|spec| spec.scope_selector.as_ref());
        let selected = selector.into_iter().flat_map(|selector| selector.match_expressions.iter().flatten());
        let scopes = named.map(exists).chain(selected.cloned()).collect();
        Ok(Quota { counts, scopes })
    }

    /// Whether its status says what is used of something that it counts.
    pub(super) fn tells_some(&self) -> bool {
        self.counts.values().any(|count| count.is_told)
    }

    /// Whether it says so of everything.
    pub(super) fn tells_all(&self) -> bool {
        self.counts.values().all(|count| count.is_told)
    }

    /// Whether it is about pods of the shape.
    pub(super) fn is_about(&self, shape: &AdmissionSpec) -> bool {
        self.scopes.iter().all(|scope| {
            let is_terminating = shape.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0);
            match scope.scope_name.as_str() {
                "Terminating" => is_terminating,
                "NotTerminating" => !is_terminating,
                "BestEffort" => shape.is_best_effort(),
                "NotBestEffort" => !shape.is_best_effort(),
                "CrossNamespacePodAffinity" => shape.crosses_namespaces,
                "PriorityClass" => {
                    let class = shape.spec.priority_class_name.as_deref().filter(|class| !class.is_empty());
                    let is_listed = || class.is_some_and(|class| scope.values.iter().flatten().any(|one| one == class));
                    match scope.operator.as_str() {
                        "Exists" => class.is_some(),
                        "DoesNotExist" => class.is_none(),
                        "In" => is_listed(),
                        "NotIn" => !is_listed(),
                        _ => false,
                    }
                }
                _ => false,
            }
        })
    }

    /// What containers of the shape must state and do not, in the API server's words.
    pub(super) fn unstated(&self, shape: &AdmissionSpec) -> Option<String> {
        if shape.spec.resources.as_ref().is_some_and(|all| all.requests.is_some() || all.limits.is_some()) {
            return None;
        }
        let states = |name: &str| {
            let (is_limit, resource) = match name.split_once('.') {
                Some((list, resource)) => (list == "limits", resource),
                None => (false, name),
            };
            shape.containers().all(|container| {
                let resources = container.resources.as_ref();
                let list = resources.and_then(|all| if is_limit { all.limits.as_ref() } else { all.requests.as_ref() });
                list.is_some_and(|list| list.contains_key(resource))
            })
        };
        let missing: Vec<&str> =
            REQUIRED.into_iter().filter(|name| self.counts.contains_key(*name) && !states(name)).collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join(", ")))
    }

    /// How many pods of this usage it still allows, and what it has least of.
    pub(super) fn allows(&self, usage: &Usage, cluster: &Cluster) -> (u32, Option<String>) {
        let mut least: (u32, Option<String>) = (u32::MAX, None);
        for (name, count) in &self.counts {
            let Some(each) = usage.get(name, cluster).filter(|each| *each > 0) else { continue };
            let fits = u32::try_from((count.most - count.used).max(0) / each).unwrap_or(u32::MAX);
            if fits < least.0 {
                least = (fits, Some(name.clone()));
            }
        }
        least
    }

    /// Gives back what so many pods use, which its status still counts.
    pub(super) fn give_back(&mut self, usage: &Usage, count: u32, cluster: &Cluster) {
        for (name, of_name) in self.counts.iter_mut().filter(|(_, of_name)| of_name.is_told) {
            let each = usage.get(name, cluster).unwrap_or(0);
            of_name.used = of_name.used.saturating_sub(each.saturating_mul(i128::from(count))).max(0);
        }
    }

    /// Counts what so many pods that exist use of what its status does not tell.
    pub(super) fn count_existing(&mut self, usage: &Usage, count: u32, cluster: &Cluster) {
        self.add(usage, count, cluster, |of_name| !of_name.is_told);
    }

    /// Takes what so many pods use.
    pub(super) fn take(&mut self, usage: &Usage, count: u32, cluster: &Cluster) {
        self.add(usage, count, cluster, |_| true);
    }

    fn add(&mut self, usage: &Usage, count: u32, cluster: &Cluster, is_meant: fn(&Count) -> bool) {
        for (name, of_name) in self.counts.iter_mut().filter(|(_, of_name)| is_meant(of_name)) {
            let each = usage.get(name, cluster).unwrap_or(0);
            of_name.used = of_name.used.saturating_add(each.saturating_mul(i128::from(count)));
        }
    }

    /// Takes so many pods that count as objects alone: those that have ended, and those that should be gone by now.
    pub(super) fn take_objects(&mut self, count: u32) {
        let of_name = self.counts.get_mut(COUNT_PODS).filter(|of_name| !of_name.is_told && self.scopes.is_empty());
        if let Some(of_name) = of_name {
            of_name.used = of_name.used.saturating_add(WHOLE.saturating_mul(i128::from(count)));
        }
    }

    /// The most of what it counts by this name, and what is used, as text.
    pub(super) fn in_words(&self, name: &str) -> String {
        let is_bytes = ["memory", "storage", "hugepages-"].iter().any(|part| name.contains(part));
        let format = if is_bytes { Format::BinarySI } else { Format::DecimalSI };
        let text = |nanos: i128| Quantity::from_nanos(nanos, format).to_string();
        let Count { most, used, .. } = self.counts.get(name).copied().unwrap_or_default();
        format!("{name}: {} used, {} at most", text(used), text(most))
    }
}
