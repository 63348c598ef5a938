//! Resource lists to amounts: CPU in milli-CPU, everything else in whole units, rounded up once at the end.

use std::collections::BTreeMap;

use berth_model::{Cluster, ResourceId, Resources};
use berth_quantity::Quantity as Exact;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::Problem;

/// A Kubernetes resource list.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// Distinct resource names in one input. More than any cluster has; every amount vector may be as long as this.
const MAX_RESOURCES: usize = 1024;
/// The largest amount of one resource, in units: 2^60, so that sums of a whole cluster stay exact.
const MAX_UNITS: i128 = 1 << 60;
const NANOS: i128 = 1_000_000_000;

/// Exact amounts in nano-units by resource, while they are summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(Vec<(ResourceId, i128)>);

impl Amounts {
    /// The amounts of a list.
    pub(crate) fn read(list: &ResourceList, cluster: &mut Cluster) -> Result<Self, Problem> {
        let mut amounts = Amounts(Vec::with_capacity(list.len()));
        for (name, quantity) in list {
            let nanos = parse(&quantity.0).map_err(|problem| problem.under(format!("[{name}]")))?;
            amounts.set(resource_id(name, cluster)?, nanos);
        }
        Ok(amounts)
    }

    /// The amounts of a list of Berth's API, whose quantities are read already.
    pub(crate) fn read_exact(list: &berth_api::ResourceList, cluster: &mut Cluster) -> Result<Self, Problem> {
        let mut amounts = Amounts(Vec::with_capacity(list.len()));
        for (name, quantity) in list {
            let nanos =
                checked(*quantity, &quantity.to_string()).map_err(|problem| problem.under(format!("[{name}]")))?;
            amounts.set(resource_id(name, cluster)?, nanos);
        }
        Ok(amounts)
    }

    pub(crate) fn get(&self, id: ResourceId) -> Option<i128> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, nanos)| *nanos)
    }

    pub(crate) fn set(&mut self, id: ResourceId, nanos: i128) {
        *self.entry(id) = nanos;
    }

    pub(crate) fn add(&mut self, other: &Amounts) {
        for &(id, nanos) in &other.0 {
            let sum = self.entry(id);
            *sum = sum.saturating_add(nanos);
        }
    }

    pub(crate) fn raise_to(&mut self, other: &Amounts) {
        for &(id, nanos) in &other.0 {
            let largest = self.entry(id);
            *largest = nanos.max(*largest);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        self.0.iter().copied()
    }

    fn entry(&mut self, id: ResourceId) -> &mut i128 {
        let at = self.0.iter().position(|(known, _)| *known == id);
        let at = at.unwrap_or_else(|| {
            self.0.push((id, 0));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// [`Amounts::rounded_up`] with the one pod that a pod's requests are.
    pub(crate) fn rounded_up_with_pod(&self) -> Resources {
        let mut requests = self.rounded_up();
        requests.set(ResourceId::PODS, 1);
        requests
    }

    /// In the units of [`Resources`], rounded up, as requests are.
    pub(crate) fn rounded_up(&self) -> Resources {
        self.rounded(|nanos, unit| (nanos + unit - 1).div_euclid(unit))
    }

    /// In the units of [`Resources`], rounded down, as room is.
    pub(crate) fn rounded_down(&self) -> Resources {
        self.rounded(i128::div_euclid)
    }

    fn rounded(&self, divide: impl Fn(i128, i128) -> i128) -> Resources {
        let mut resources = Resources::new();
        for &(id, nanos) in &self.0 {
            let unit = if id == ResourceId::CPU { NANOS / 1000 } else { NANOS };
            let amount = divide(nanos, unit);
            resources.set(id, i64::try_from(amount).unwrap_or(i64::MAX));
        }
        resources
    }
}

/// The id of a resource.
pub(crate) fn resource_id(name: &str, cluster: &mut Cluster) -> Result<ResourceId, Problem> {
    let sym = cluster.symbols.intern(name);
    let id = cluster.resource_names.intern(sym);
    if id.index() < MAX_RESOURCES {
        Ok(id)
    } else {
        Err(Problem::new(
            format!("[{name}]"),
            format!("expected at most {MAX_RESOURCES} distinct resources in all objects together"),
        ))
    }
}

/// A quantity in nano-units, of zero or more.
pub(crate) fn parse(text: &str) -> Result<i128, Problem> {
    let exact: Exact = text.parse().map_err(|error| {
        Problem::new("", format!("found {text:?}, expected a quantity such as 500m or 2Gi: {error}"))
    })?;
    checked(exact, text)
}

fn checked(exact: Exact, text: &str) -> Result<i128, Problem> {
    if exact.is_negative() {
        return Err(Problem::new("", format!("found {text:?}, expected zero or more")));
    }
    if exact.nanos() > MAX_UNITS * NANOS {
        return Err(Problem::new("", format!("found {text:?}, expected at most 2^60")));
    }
    Ok(exact.nanos())
}

/// What a node or a NodePool has, rounded down.
pub(crate) fn room(list: Option<&ResourceList>, cluster: &mut Cluster) -> Result<Resources, Problem> {
    Ok(match list {
        Some(list) => Amounts::read(list, cluster)?.rounded_down(),
        None => Resources::new(),
    })
}
