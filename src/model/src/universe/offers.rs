//! What a node class has on offer, before a NodePool makes columns of it. Offers point into the cluster: a catalogue has
//! thousands, of which columns are made once it is known which are wanted, and in what order.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;

use crate::{Cluster, InstanceType, Offering, Requirement, Sym};

/// One instance type × offering × operating system.
#[derive(Clone, Copy)]
pub(super) struct Offer<'c> {
    pub(super) index: u32,
    pub(super) instance_type: &'c InstanceType,
    pub(super) offering: &'c Offering,
    pub(super) os: Option<Sym>,
}

impl<'c> Offer<'c> {
    /// The labels of its nodes.
    pub(super) fn labels(&self, cluster: &Cluster) -> impl Iterator<Item = (Sym, Sym)> + use<'c> {
        let os = self.os.map(|os| (cluster.well_known.os, os));
        self.instance_type.labels.iter().chain(self.offering.labels.iter()).chain(os)
    }
}

/// All offers of a node class, or all that are sold out, in the order of the catalogue.
pub(super) fn of_class<'c>(
    cluster: &'c Cluster,
    node_class: Option<Sym>,
    offerings: impl Fn(&'c InstanceType) -> &'c [Offering],
) -> Vec<Offer<'c>> {
    let mut offers = Vec::new();
    let of_class = cluster.instance_types.iter().enumerate().filter(|(_, known)| known.node_class == node_class);
    for (index, instance_type) in of_class {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let systems = &instance_type.operating_systems;
        for offering in offerings(instance_type) {
            let of_system = |os| Offer { index, instance_type, offering, os };
            offers.extend(systems.iter().map(|&os| of_system(Some(os))));
            offers.extend(systems.is_empty().then(|| of_system(None)));
        }
    }
    offers
}

/// The keys of labels that an offer has a value for.
pub(super) fn keys(cluster: &Cluster, offers: &[Offer<'_>]) -> FxHashSet<Sym> {
    let mut keys = FxHashSet::default();
    let mut last_type = None;
    for offer in offers {
        // Offers of a type stand together.
        if last_type.replace(offer.index) != Some(offer.index) {
            keys.extend(offer.instance_type.labels.iter().map(|(key, _)| key));
        }
        keys.extend(offer.offering.labels.iter().map(|(key, _)| key));
        keys.extend(offer.os.map(|_| cluster.well_known.os));
    }
    keys
}

/// Leaves those that meet requirements, as far as they have a value for a key.
pub(super) fn retain_meeting(cluster: &Cluster, offers: &mut Vec<Offer<'_>>, asked: &[(Sym, &Requirement)]) {
    offers.retain(|offer| {
        asked.iter().all(|(key, requirement)| {
            let value = offer.labels(cluster).find(|(known, _)| known == key).map(|(_, value)| value);
            value.map_or(requirement.allows_absent(), |value| requirement.has(value, &cluster.symbols))
        })
    });
}

/// Cheapest first: by price, list price, then names.
pub(super) fn sort(cluster: &Cluster, offers: &mut [Offer<'_>]) {
    let text = |a: Option<Sym>, b: Option<Sym>| {
        let of = |sym: Option<Sym>| sym.map_or("", |sym| cluster.symbols.text(sym));
        if a == b { Ordering::Equal } else { of(a).cmp(of(b)) }
    };
    offers.sort_by(|a, b| {
        let prices = |offer: &Offer<'_>| (offer.offering.price, offer.offering.list_price);
        prices(a)
            .cmp(&prices(b))
            .then_with(|| text(Some(a.instance_type.name), Some(b.instance_type.name)))
            .then_with(|| text(a.offering.zone, b.offering.zone))
            .then_with(|| a.offering.capacity_type.cmp(&b.offering.capacity_type))
            .then_with(|| text(a.os, b.os))
            .then_with(|| a.offering.slots.cmp(&b.offering.slots))
    });
}
