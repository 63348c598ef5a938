//! From what EC2 says of an account to its catalogue.

use std::collections::{BTreeMap, BTreeSet};

use berth_catalogue::{
    Availability, CapacityType, Catalogue, CatalogueError, InstanceTypeEntry, Money, OfferingEntry, RequirementEntry,
    label,
};
use berth_quantity::Quantity;
use jiff::Timestamp;

use crate::allocatable::{allocatable, devices, machine};
use crate::labels::{ZONE_ID, is_label_value, labels};
use crate::{CapacityReservation, InstanceFacts, NodeSettings, Skipped, Use};

/// An account in a region: what may be launched, and at what price.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The account's number; empty where nobody was asked.
    pub id: String,
    /// Zones and their ids, which may be empty.
    pub zones: BTreeMap<String, String>,
    /// The instance types.
    pub instance_types: Vec<InstanceFacts>,
    /// The zones that offer each type.
    pub offered: BTreeMap<String, BTreeSet<String>>,
    /// On-demand prices an hour by type.
    pub on_demand: OnDemandPrices,
    /// Prices that reserved types are compared by which are not sold on demand, as those of capacity blocks alone.
    pub list_prices: OnDemandPrices,
    /// Spot prices an hour by type and zone.
    pub spot: BTreeMap<(String, String), Money>,
    /// The capacity reservations, shared ones included.
    pub reservations: Vec<CapacityReservation>,
    /// What a plan that is made with the catalogue must tell.
    pub notes: Vec<String>,
}

/// On-demand prices an hour by instance type.
pub type OnDemandPrices = BTreeMap<String, Money>;

/// What became of an account: figures, and what was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Instance types in the catalogue.
    pub n_types: usize,
    /// Zones with offerings.
    pub n_zones: usize,
    /// Reservations in the catalogue.
    pub n_reservations: usize,
    /// Their free instances.
    pub n_free: u64,
    /// Reservations that are left out, by reason.
    pub skipped: BTreeMap<Skipped, usize>,
    /// Types that have no on-demand price, and are not offered on demand therefore.
    pub without_price: Vec<String>,
    /// Types on which nothing is left for pods.
    pub without_room: Vec<String>,
    /// Reserved types of which no price is known: their slots count as the cheapest, and are used first.
    pub without_list_price: BTreeSet<String>,
    /// Types of reservations that their zone does not offer, or that EC2 does not know.
    pub unknown_types: BTreeSet<String>,
}

// === impl Account ===

impl Account {
    /// The catalogue, for nodes with these settings: types by name, their offerings by zone, then reservations by id.
    ///
    /// # Errors
    /// What no catalogue may hold, such as a price over a million dollars an hour.
    pub fn catalogue(&self, settings: &NodeSettings, now: Timestamp) -> Result<(Catalogue, Report), CatalogueError> {
        let os = if settings.ami_family.is_windows() { "windows" } else { "linux" };
        let mut report = Report::default();
        let mut reserved = self.offered_reservations(os, now, &mut report);
        let mut facts: Vec<&InstanceFacts> = self.instance_types.iter().collect();
        facts.sort_by(|a, b| a.name.cmp(&b.name));
        facts.dedup_by(|a, b| a.name == b.name);
        let mut zones = BTreeSet::new();
        let mut types = Vec::with_capacity(facts.len());
        for known in facts {
            if os == "windows" && known.architecture != "amd64" {
                continue;
            }
            let mut offerings = self.paid_offerings(known, &mut report);
            offerings.extend(reserved.remove(&known.name).into_iter().flatten());
            if offerings.is_empty() {
                continue;
            }
            let Some(entry) = self.entry(known, os, offerings, settings) else {
                report.without_room.push(known.name.clone());
                continue;
            };
            zones.extend(entry.offerings.iter().filter_map(OfferingEntry::zone).map(str::to_owned));
            types.push(entry);
        }
        let catalogue = Catalogue::new(types)?;
        report.n_types = catalogue.types().len();
        report.n_zones = zones.len();
        report.n_reservations = catalogue.reservations().len();
        report.n_free = catalogue.reservations().values().map(|known| u64::from(known.instances)).sum();
        Ok((catalogue, report))
    }

    fn entry(
        &self,
        facts: &InstanceFacts,
        os: &str,
        offerings: Vec<OfferingEntry>,
        settings: &NodeSettings,
    ) -> Option<InstanceTypeEntry> {
        let machine = machine(facts, settings);
        let mut resources = allocatable(&machine, settings)?;
        resources.extend(devices(facts));
        if os == "windows" {
            let addresses = facts.ipv4_per_interface.saturating_sub(1);
            resources.insert("vpc.amazonaws.com/PrivateIPv4Address".to_owned(), Quantity::from_value(addresses.into()));
        }
        Some(InstanceTypeEntry {
            name: facts.name.clone(),
            architecture: facts.architecture.clone(),
            operating_systems: vec![os.to_owned()],
            resources,
            labels: labels(facts),
            machine: Some(Box::new(machine)),
            notes: self.notes.clone(),
            offerings,
        })
    }

    fn paid_offerings(&self, facts: &InstanceFacts, report: &mut Report) -> Vec<OfferingEntry> {
        let on_demand = self.on_demand.get(&facts.name).copied().filter(|_| facts.is_on_demand);
        if facts.is_on_demand && on_demand.is_none() {
            report.without_price.push(facts.name.clone());
        }
        let zones = self.offered.get(&facts.name).into_iter().flatten().filter(|zone| self.zones.contains_key(*zone));
        let of_zone = |zone: &String| {
            let spot = self.spot.get(&(facts.name.clone(), zone.clone())).copied().filter(|_| facts.is_spot);
            let on_demand = on_demand.map(|price| self.paid(CapacityType::OnDemand, zone, price));
            on_demand.into_iter().chain(spot.map(|price| self.paid(CapacityType::Spot, zone, price)))
        };
        zones.flat_map(of_zone).collect()
    }

    fn paid(&self, capacity_type: CapacityType, zone: &str, price: Money) -> OfferingEntry {
        let mut requirements = vec![
            RequirementEntry::is(label::CAPACITY_TYPE, capacity_type.as_str()),
            RequirementEntry::is(label::ZONE, zone),
        ];
        let id = self.zones.get(zone).filter(|id| is_label_value(id));
        requirements.extend(id.map(|id| RequirementEntry::is(ZONE_ID, id)));
        OfferingEntry {
            price,
            availability: Availability::Unlimited,
            reservation_capacity: None,
            requirements,
            reservation: None,
        }
    }

    fn offered_reservations(
        &self,
        os: &str,
        now: Timestamp,
        report: &mut Report,
    ) -> BTreeMap<String, Vec<OfferingEntry>> {
        let names: BTreeSet<&str> = self.instance_types.iter().map(|known| known.name.as_str()).collect();
        let mut reservations: Vec<&CapacityReservation> = self.reservations.iter().collect();
        reservations.sort_by(|a, b| a.id.cmp(&b.id));
        // Pages that move while they are read may repeat one.
        reservations.dedup_by(|a, b| a.id == b.id);
        let mut by_type: BTreeMap<String, Vec<OfferingEntry>> = BTreeMap::new();
        for reservation in reservations {
            let name = &reservation.instance_type;
            let is_offered = names.contains(name.as_str()) && self.zones.contains_key(&reservation.zone);
            let free = match reservation.use_at(now, os) {
                Use::Never(reason) => Err(reason),
                _ if !is_offered => Err(Skipped::UnknownType),
                Use::Offered(free) => Ok(free),
                Use::Later => Ok(0),
            };
            match free {
                Ok(free) => {
                    let price = self.on_demand.get(name).or_else(|| self.list_prices.get(name)).copied();
                    if price.is_none() {
                        report.without_list_price.insert(name.clone());
                    }
                    let price = price.unwrap_or(Money::ZERO);
                    let zone_id = self.zones.get(&reservation.zone).map(String::as_str);
                    let offering = reservation.offering(free, price, zone_id, &self.id);
                    by_type.entry(name.clone()).or_default().push(offering);
                }
                Err(reason) => {
                    *report.skipped.entry(reason).or_default() += 1;
                    if reason == Skipped::UnknownType {
                        report.unknown_types.insert(name.clone());
                    }
                }
            }
        }
        by_type
    }
}

// === impl Report ===

impl Report {
    /// What people should know, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} instance types in {} zones, {} capacity reservations with {} free instances",
            self.n_types, self.n_zones, self.n_reservations, self.n_free
        )];
        if !self.skipped.is_empty() {
            let reasons = self.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.as_str()));
            lines.push(format!("reservations left out: {}", reasons.collect::<Vec<_>>().join(", ")));
        }
        let unknown: Vec<String> = self.unknown_types.iter().cloned().collect();
        let unpriced: Vec<String> = self.without_list_price.iter().cloned().collect();
        let lists = [
            ("reserved types that EC2 does not list here", &unknown),
            ("without an on-demand price, so not offered on demand", &self.without_price),
            ("reserved, of unknown price, so used before all other slots", &unpriced),
            ("left out, since what is reserved on them leaves pods no CPU or memory", &self.without_room),
        ];
        lines.extend(lists.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
            const SHOWN: usize = 5;
            let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
            let more = names.len().saturating_sub(SHOWN);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{what}: {}{rest}", shown.join(", "))
        }));
        lines
    }
}
