//! What nodes cost an hour, by the offering that their labels name.

use std::collections::BTreeMap;

use berth_api::labels;
use berth_decisions::OfferingName;
use berth_model::{CapacityType, Cluster, Money};

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

/// Prices by instance type, zone (empty where the catalogue names none) and capacity type.
#[derive(Debug, Default)]
pub(crate) struct Prices {
    known: BTreeMap<(String, String, &'static str), Price>,
}

// === impl Prices ===

impl Prices {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let text = |sym| cluster.symbols.text(sym).to_owned();
        let mut known: BTreeMap<_, Price> = BTreeMap::new();
        for of_type in &cluster.instance_types {
            for offering in &of_type.offerings {
                let zone = offering.zone.map(text).unwrap_or_default();
                let price = Price { marginal: offering.price, list: offering.list_price };
                let place = known.entry((text(of_type.name), zone, offering.capacity_type.name())).or_insert(price);
                // The same type is there for several node classes, and a slot for several reservations.
                place.list = place.list.min(price.list);
                place.marginal = place.marginal.min(price.marginal);
            }
        }
        Prices { known }
    }

    /// Of a node with these labels; `None` where the catalogue does not have its offering. A node on a reservation costs
    /// nothing, whatever the catalogue says of it.
    pub(crate) fn of_labels(&self, node: &BTreeMap<String, String>) -> Option<Price> {
        let label = |key: &str| node.get(key).map_or("", String::as_str);
        let (instance_type, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
        match label(labels::CAPACITY_TYPE) {
            labels::RESERVED => {
                let names = [CapacityType::Reserved, CapacityType::OnDemand].map(CapacityType::name);
                let list = names.into_iter().find_map(|name| self.get(instance_type, zone, name));
                Some(Price { marginal: Money::ZERO, list: list.unwrap_or_default().list })
            }
            other => {
                let names = [CapacityType::Spot, CapacityType::OnDemand].map(CapacityType::name);
                names.into_iter().find(|name| *name == other).and_then(|name| self.get(instance_type, zone, name))
            }
        }
    }

    pub(crate) fn of_offering(&self, offering: &OfferingName) -> Price {
        let zone = offering.zone.as_deref().unwrap_or_default();
        let names = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand].map(CapacityType::name);
        let name = names.into_iter().find(|name| *name == offering.capacity_type);
        let list = name.and_then(|name| self.get(&offering.instance_type, zone, name)).map(|price| price.list);
        Price { marginal: offering.price, list: list.unwrap_or(offering.price) }
    }

    /// The least that an instance type costs for paid, with these capacity types, anywhere.
    pub(crate) fn paid(&self, instance_type: &str, capacity_type: &str) -> Option<Money> {
        // Those of one type are side by side.
        let known = self.known.range((instance_type.to_owned(), String::new(), "")..);
        let of_type = known.take_while(|((name, ..), _)| name == instance_type);
        of_type.filter(|((.., of), _)| *of == capacity_type).map(|(_, price)| price.marginal).min()
    }

    fn get(&self, instance_type: &str, zone: &str, capacity_type: &'static str) -> Option<Price> {
        let of = |zone: &str| self.known.get(&(instance_type.to_owned(), zone.to_owned(), capacity_type)).copied();
        of(zone).or_else(|| of(""))
    }
}
