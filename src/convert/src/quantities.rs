//! Resource lists to amounts: CPU in milli-CPU, everything else in whole units, rounded up once at the end.

use std::collections::BTreeMap;

use berth_model::{Cluster, ResourceId, Resources};
use berth_quantity::Quantity as Exact;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::Problem;

/// A Kubernetes resource list.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// The largest amount of one resource, in units: 2^60, so that sums of a whole cluster stay exact.
const MAX_UNITS: i128 = 1 << 60;
const NANOS: i128 = 1_000_000_000;

/// Who names a resource: that decides how many there may be by then, see [`berth_model::ResourceLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A pod or a Reservation that asks for it.
    Asked,
    /// What has it: a node, an instance type; a NodePool that limits it.
    Offered,
}

/// Exact amounts in nano-units by resource, while they are summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    known: Vec<(ResourceId, i128)>,
    /// Whether something of a resource beyond the limit is left out. For what there is that changes nothing, as nobody
    /// who asks for it is placed.
    is_beyond_limit: bool,
}

impl Amounts {
    /// The amounts that somebody asks for.
    pub(crate) fn asked(list: &ResourceList, cluster: &mut Cluster) -> Result<Self, Problem> {
        Self::read(list, Named::Asked, cluster)
    }

    fn read(list: &ResourceList, named: Named, cluster: &mut Cluster) -> Result<Self, Problem> {
        let mut amounts = Amounts::default();
        for (name, quantity) in list {
            let nanos = parse(&quantity.0).map_err(|problem| problem.under(format!("[{name}]")))?;
            amounts.set_named(name, nanos, named, cluster);
        }
        Ok(amounts)
    }

    fn set_named(&mut self, name: &str, nanos: i128, named: Named, cluster: &mut Cluster) {
        match resource_id(name, named, cluster) {
            Some(id) => self.set(id, nanos),
            None => self.is_beyond_limit |= nanos > 0,
        }
    }

    /// Counts what another leaves out as left out here.
    pub(crate) fn leave_out(&mut self, other: &Amounts) {
        self.is_beyond_limit |= other.is_beyond_limit;
    }

    /// Whether it has something of a resource beyond those that are counted.
    pub(crate) fn is_beyond_limit(&self) -> bool {
        self.is_beyond_limit
    }

    /// The amounts of a list of Berth's API, whose quantities are read already.
    pub(crate) fn read_exact(
        list: &berth_api::ResourceList,
        named: Named,
        cluster: &mut Cluster,
    ) -> Result<Self, Problem> {
        let mut amounts = Amounts::default();
        for (name, quantity) in list {
            let nanos =
                checked(*quantity, &quantity.to_string()).map_err(|problem| problem.under(format!("[{name}]")))?;
            amounts.set_named(name, nanos, named, cluster);
        }
        Ok(amounts)
    }

    pub(crate) fn get(&self, id: ResourceId) -> Option<i128> {
        self.known.iter().find(|(known, _)| *known == id).map(|(_, nanos)| *nanos)
    }

    pub(crate) fn set(&mut self, id: ResourceId, nanos: i128) {
        *self.entry(id) = nanos;
    }

    pub(crate) fn add(&mut self, other: &Amounts) {
        self.leave_out(other);
        for &(id, nanos) in &other.known {
            let sum = self.entry(id);
            *sum = sum.saturating_add(nanos);
        }
    }

    pub(crate) fn raise_to(&mut self, other: &Amounts) {
        self.leave_out(other);
        for &(id, nanos) in &other.known {
            let largest = self.entry(id);
            *largest = nanos.max(*largest);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        self.known.iter().copied()
    }

    fn entry(&mut self, id: ResourceId) -> &mut i128 {
        let at = self.known.iter().position(|(known, _)| *known == id);
        let at = at.unwrap_or_else(|| {
            self.known.push((id, 0));
            self.known.len() - 1
        });
        &mut self.known[at].1
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
        for &(id, nanos) in &self.known {
            let unit = if id == ResourceId::CPU { NANOS / 1000 } else { NANOS };
            let amount = divide(nanos, unit);
            resources.set(id, i64::try_from(amount).unwrap_or(i64::MAX));
        }
        resources
    }
}

/// The id of a resource; `None` beyond the limit, where no amount of it is known.
pub(crate) fn resource_id(name: &str, named: Named, cluster: &mut Cluster) -> Option<ResourceId> {
    let sym = cluster.symbols.intern(name);
    match named {
        Named::Asked => cluster.resource_names.intern_asked(sym),
        Named::Offered => cluster.resource_names.intern_offered(sym),
    }
}

/// Why a pod has no place whose requests are [`Amounts::is_beyond_limit`].
pub(crate) fn beyond_limit(cluster: &Cluster) -> String {
    let most = cluster.resource_names.limit().asked;
    format!("requests a resource beyond the first {most} different ones of the input, the most that are counted")
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
        Some(list) => Amounts::read(list, Named::Offered, cluster)?.rounded_down(),
        None => Resources::new(),
    })
}
