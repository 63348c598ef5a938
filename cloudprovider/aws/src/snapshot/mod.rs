//! EC2 without an account: the instance types and on-demand prices of a region on a day, bundled.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use berth_catalogue::{Catalogue, CatalogueError};

use crate::{Account, InstanceFacts, NodeSettings, OnDemandPrices};

pub use table::TableError;

/// The region of the snapshot.
pub const REGION: &str = "us-east-1";
/// The day of its on-demand prices.
pub const DATE: &str = "2026-07-20";
/// Where its facts are from.
pub const SOURCE: &str = "karpenter-provider-aws, Apache-2.0";
/// What spot is taken to cost, in percent of on-demand.
pub const SPOT_PERCENT: i128 = 40;
/// The zones that it offers where nobody says which.
pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// The snapshot cannot be used for what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is none of that region.
    #[error("there is no snapshot of region {0:?}, only of us-east-1; `--provider aws` asks AWS")]
    Region(String),
    /// A zone that is none of the region.
    #[error("{0:?} is no zone of us-east-1; expected one such as us-east-1a")]
    Zone(String),
    /// Prices of Windows are not in it.
    #[error("the snapshot has no prices of Windows")]
    Windows,
    /// The bundled table is damaged.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The catalogue made of it is none.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

/// The instance types with their on-demand prices, by name.
///
/// # Errors
/// None that is known; the table is bundled.
pub fn types() -> Result<Vec<InstanceFacts>, TableError> {
    Ok(table::read()?.into_iter().map(|(facts, _)| facts).collect())
}

/// The bundled on-demand prices, of [`REGION`] on [`DATE`].
///
/// # Errors
/// None that is known; the table is bundled.
pub fn prices() -> Result<OnDemandPrices, TableError> {
    Ok(table::read()?.into_iter().map(|(facts, price)| (facts.name, price)).collect())
}

/// The catalogue of the snapshot in these zones: every type in each of them, spot estimated, nothing reserved. Its
/// notes say so.
///
/// # Errors
/// Another region, zones that are not the region's, Windows, or what no catalogue may hold.
pub fn catalogue(region: &str, zones: &[String], settings: &NodeSettings) -> Result<Catalogue, SnapshotError> {
    if region != REGION {
        return Err(SnapshotError::Region(region.to_owned()));
    }
    if settings.ami_family.is_windows() {
        return Err(SnapshotError::Windows);
    }
    let is_zone = |zone: &str| matches!(zone.strip_prefix(REGION).map(str::as_bytes), Some([b'a'..=b'f']));
    if let Some(zone) = zones.iter().find(|zone| !is_zone(zone)) {
        return Err(SnapshotError::Zone(zone.clone()));
    }
    let zones: BTreeMap<String, String> = zones.iter().map(|zone| (zone.clone(), String::new())).collect();
    let mut account = Account {
        notes: vec![format!(
            "instance types and prices are EC2's of {REGION} without an account: on-demand prices of {DATE} ({SOURCE}), \
             every type in every zone, nothing reserved"
        )],
        ..Account::default()
    };
    account.notes.push(format!("spot prices are an estimate: {SPOT_PERCENT}% of on-demand"));
    for (facts, price) in table::read()? {
        let estimate = berth_catalogue::Money::from_pico(price.pico() * SPOT_PERCENT / 100);
        account.spot.extend(zones.keys().map(|zone| ((facts.name.clone(), zone.clone()), estimate)));
        account.offered.insert(facts.name.clone(), zones.keys().cloned().collect::<BTreeSet<_>>());
        account.on_demand.insert(facts.name.clone(), price);
        account.instance_types.push(facts);
    }
    account.zones = zones;
    let (catalogue, _) = account.catalogue(settings, jiff::Timestamp::UNIX_EPOCH)?;
    Ok(catalogue)
}
