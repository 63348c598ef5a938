//! What nodes cost an hour, by the offering that their labels name.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::labels;
use berth_decisions::OfferingName;
use berth_model::{CapacityType, Cluster, InstanceType, Money, Offering, Shared, Sym};

/// What an offering costs an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Price {
    /// What keeping it costs: nothing for reserved.
    pub(crate) marginal: Money,
    /// By the price list: for reserved, that of on-demand.
    pub(crate) list: Money,
}

impl std::ops::AddAssign for Price {
    fn add_assign(&mut self, other: Price) {
        self.marginal += other.marginal;
        self.list += other.list;
    }
}

impl std::ops::Sub for Price {
    type Output = Price;

    fn sub(self, other: Price) -> Price {
        Price { marginal: self.marginal - other.marginal, list: self.list - other.list }
    }
}

impl std::iter::Sum for Price {
    fn sum<I: Iterator<Item = Price>>(prices: I) -> Self {
        prices.fold(Price::default(), |mut sum, price| {
            sum += price;
            sum
        })
    }
}

/// Prices by instance type, zone and capacity type, read from the catalogue as they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Prices {
    instance_types: Shared<Vec<InstanceType>>,
    /// By name: the positions of an instance type, which is there for several node classes.
    by_name: BTreeMap<Arc<str>, Vec<usize>>,
    zones: Vec<(Arc<str>, Sym)>,
}

// === impl Prices ===

impl Prices {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut prices = Prices { instance_types: cluster.instance_types.clone(), ..Prices::default() };
        for (at, of_type) in cluster.instance_types.iter().enumerate() {
            prices.by_name.entry(cluster.symbols.shared(of_type.name)).or_default().push(at);
            for zone in of_type.known_offerings().filter_map(|offering| offering.zone) {
                if prices.zones.iter().all(|(_, known)| *known != zone) {
                    prices.zones.push((cluster.symbols.shared(zone), zone));
                }
            }
        }
        prices
    }

    /// Of a node with these labels; `None` where the catalogue does not have its offering. A node on a reservation costs
    /// nothing, whatever the catalogue says of it.
    pub(crate) fn of_labels(&self, node: &BTreeMap<String, String>) -> Option<Price> {
        let label = |key: &str| node.get(key).map_or("", String::as_str);
        let (instance_type, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
        match label(labels::CAPACITY_TYPE) {
            labels::RESERVED => {
                let types = [CapacityType::Reserved, CapacityType::OnDemand];
                let list = types.into_iter().find_map(|of| self.get(instance_type, zone, of));
                Some(Price { marginal: Money::ZERO, list: list.unwrap_or_default().list })
            }
            other => {
                let paid = [CapacityType::Spot, CapacityType::OnDemand].into_iter().find(|of| of.name() == other);
                paid.and_then(|of| self.get(instance_type, zone, of))
            }
        }
    }

    pub(crate) fn of_offering(&self, offering: &OfferingName) -> Price {
        let zone = offering.zone.as_deref().unwrap_or_default();
        let types = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
        let of = types.into_iter().find(|of| of.name() == offering.capacity_type);
        let list = of.and_then(|of| self.get(&offering.instance_type, zone, of)).map(|price| price.list);
        Price { marginal: offering.price, list: list.unwrap_or(offering.price) }
    }

    /// The least that an instance type costs for paid, with this capacity type, anywhere where it can be had.
    pub(crate) fn paid(&self, instance_type: &str, capacity_type: &str) -> Option<Money> {
        let offerings = self.types(instance_type).flat_map(|of_type| &of_type.offerings);
        let of = offerings.filter(|offering| offering.capacity_type.name() == capacity_type);
        of.map(|offering| offering.price).min()
    }

    fn types(&self, instance_type: &str) -> impl Iterator<Item = &InstanceType> {
        let places = self.by_name.get(instance_type).into_iter().flatten();
        places.filter_map(|&at| self.instance_types.get(at))
    }

    /// Its offerings, whether they can be had now or not: a node costs the same either way.
    fn offerings(&self, instance_type: &str) -> impl Iterator<Item = &Offering> {
        self.types(instance_type).flat_map(InstanceType::known_offerings)
    }

    /// In a zone; else of offerings without one.
    fn get(&self, instance_type: &str, zone: &str, of: CapacityType) -> Option<Price> {
        let zone = self.zones.iter().find(|(text, _)| **text == *zone).map(|(_, zone)| *zone);
        let mut found: [Option<Price>; 2] = [None; 2];
        for offering in self.offerings(instance_type).filter(|offering| offering.capacity_type == of) {
            let [in_zone, anywhere] = &mut found;
            let place = match offering.zone {
                None => anywhere,
                of_offering if of_offering == zone => in_zone,
                Some(_) => continue,
            };
            // The same type is there for several node classes, and a slot for several reservations.
            let known = place.get_or_insert(Price { marginal: offering.price, list: offering.list_price });
            known.marginal = known.marginal.min(offering.price);
            known.list = known.list.min(offering.list_price);
        }
        let [in_zone, anywhere] = found;
        in_zone.or(anywhere)
    }
}
