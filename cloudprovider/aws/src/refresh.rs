//! A catalogue with the counts of now: its reservations are put in anew, all else stays.

use std::collections::{BTreeMap, BTreeSet};

use berth_catalogue::{CapacityType, Catalogue, CatalogueError, InstanceTypeEntry, Money, OfferingEntry};
use jiff::Timestamp;

use crate::labels::ZONE_ID;
use crate::{CapacityReservation, OnDemandPrices, Report, Skipped, Use, snapshot};

/// A catalogue cannot be refreshed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// It is of another region.
    #[error("the catalogue is of zone {zone}, which is not in region {region}")]
    Region {
        /// A zone of the catalogue.
        zone: String,
        /// The region that was asked.
        region: String,
    },
    /// It is of another account.
    #[error("the catalogue is of account {of}, and these credentials are of account {asked}")]
    Account {
        /// The account of the catalogue.
        of: String,
        /// The account that was asked.
        asked: String,
    },
    /// What comes out is no catalogue.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

/// A catalogue that was refreshed.
#[derive(Debug, Clone)]
pub struct Refreshed {
    /// The catalogue.
    pub catalogue: Catalogue,
    /// Its figures.
    pub report: Report,
    /// Reservations that are new, are gone, or have another count.
    pub n_changed: usize,
}

/// Replaces the reservations of a catalogue of `region` by these. `account` is whose catalogue it is; empty where that
/// is not known.
///
/// # Errors
/// A catalogue of another region or account, or counts that no catalogue may hold.
pub fn refresh(
    catalogue: Catalogue,
    reservations: &[CapacityReservation],
    region: &str,
    account: &str,
    now: Timestamp,
) -> Result<Refreshed, RefreshError> {
    let offerings = || catalogue.types().iter().flat_map(|known| &known.offerings);
    // Zones of a region begin with its name: us-east-1a, and us-west-2-lax-1a of a local zone.
    if let Some(zone) = offerings().filter_map(OfferingEntry::zone).find(|zone| !zone.starts_with(region)) {
        return Err(RefreshError::Region { zone: zone.to_owned(), region: region.to_owned() });
    }
    // Whoever a reservation is shared with, else its owner, is the account that saw it.
    let seen_by = offerings().filter_map(|offering| {
        let known = offering.reservation.as_deref()?;
        let of = if known.shared_with.is_empty() { &known.owner_id } else { &known.shared_with };
        (!of.is_empty()).then_some(of)
    });
    let other = seen_by.clone().find(|of| !account.is_empty() && *of != account);
    if let Some(of) = other.filter(|_| !seen_by.clone().any(|of| of == account)) {
        return Err(RefreshError::Account { of: of.clone(), asked: account.to_owned() });
    }
    let zones: BTreeSet<String> = offerings().filter_map(OfferingEntry::zone).map(str::to_owned).collect();
    let zone_ids: BTreeMap<String, String> = offerings()
        .filter_map(|offering| Some((offering.zone()?.to_owned(), offering.single_value(ZONE_ID)?.to_owned())))
        .collect();
    let before: BTreeMap<String, u32> =
        catalogue.reservations().iter().map(|(id, known)| (id.clone(), known.instances)).collect();
    let mut report = Report { n_zones: zones.len(), ..Report::default() };
    let list_prices = list_prices(&catalogue);
    let mut types = catalogue.into_types();
    for entry in &mut types {
        entry.offerings.retain(|offering| offering.capacity_type() != Some(CapacityType::Reserved));
    }
    let mut sorted: Vec<&CapacityReservation> = reservations.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    sorted.dedup_by(|a, b| a.id == b.id);
    for reservation in sorted {
        let entry = types.iter_mut().find(|entry| entry.name == reservation.instance_type);
        let os = entry.as_ref().and_then(|entry| entry.operating_systems.first()).map_or("linux", String::as_str);
        let free = match reservation.use_at(now, os) {
            Use::Never(reason) => Err(reason),
            Use::Offered(free) => Ok(free),
            Use::Later => Ok(0),
        };
        match (free, entry.filter(|_| zones.contains(&reservation.zone))) {
            (Ok(free), Some(entry)) => {
                let zone_id = zone_ids.get(&reservation.zone).map(String::as_str);
                let price = list_prices.get(&entry.name).copied();
                if price.is_none() {
                    report.without_list_price.insert(entry.name.clone());
                }
                let offering = reservation.offering(free, price.unwrap_or(Money::ZERO), zone_id, account);
                entry.offerings.push(offering);
            }
            (Ok(_), None) => {
                *report.skipped.entry(Skipped::UnknownType).or_default() += 1;
                report.unknown_types.insert(reservation.instance_type.clone());
            }
            (Err(reason), _) => *report.skipped.entry(reason).or_default() += 1,
        }
    }
    let catalogue = Catalogue::new(types)?;
    report.n_types = catalogue.types().len();
    report.n_reservations = catalogue.reservations().len();
    report.n_free = catalogue.reservations().values().map(|known| u64::from(known.instances)).sum();
    let after: BTreeMap<String, u32> =
        catalogue.reservations().iter().map(|(id, known)| (id.clone(), known.instances)).collect();
    let ids: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let n_changed = ids.into_iter().filter(|id| before.get(*id) != after.get(*id)).count();
    Ok(Refreshed { catalogue, report, n_changed })
}

/// What types cost an hour by list: on demand; else what their reservations said; else as bundled.
fn list_prices(catalogue: &Catalogue) -> OnDemandPrices {
    let price_of = |entry: &InstanceTypeEntry, of: CapacityType| {
        let offerings = entry.offerings.iter().filter(move |offering| offering.capacity_type() == Some(of));
        offerings.map(|offering| offering.price).filter(|price| !price.is_zero()).min()
    };
    // What cannot be read is bundled, and a test reads it.
    let mut prices = snapshot::prices().unwrap_or_default();
    prices.extend(catalogue.types().iter().filter_map(|entry| {
        let price = price_of(entry, CapacityType::OnDemand).or_else(|| price_of(entry, CapacityType::Reserved));
        Some((entry.name.clone(), price?))
    }));
    prices
}
