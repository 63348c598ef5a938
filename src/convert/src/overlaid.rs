//! A catalogue as NodeOverlays make it: what nodes of it cost, and what they have.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{NodeOverlay, NodePool};
use berth_catalogue::{Availability, CapacityType, Catalogue, InstanceTypeEntry};
use berth_model::{InstanceType, ResourceId};
use berth_quantity::{Money, Quantity};

use crate::overlay::OverlayFault;
use crate::{Builder, Options};

/// The catalogue that some NodePools launch from, with the prices that NodeOverlays make of its own and the resources that
/// they add, whether the feature gate is on or not. All else stays as it is, as do the prices of what is not available. An
/// overlay or a NodePool that cannot be used changes nothing.
pub fn overlaid<'o>(
    catalogue: &Catalogue,
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> Catalogue {
    let mut types = catalogue.clone().into_types();
    let Some(mut overlaid) = by_type(&types, pools, overlays) else { return catalogue.clone() };
    for entry in &mut types {
        let Some(Overlaid { prices, resources }) = overlaid.remove(&entry.name) else { continue };
        for (offering, price) in entry.offerings.iter_mut().zip(prices) {
            offering.price = price;
        }
        entry.resources.extend(resources);
    }
    // Only prices and amounts have changed, so it is a catalogue as before.
    Catalogue::new(types).unwrap_or_else(|_| catalogue.clone())
}

/// What is wrong with NodeOverlays about the catalogue that some NodePools launch from, by name. Those that are not listed
/// change what they select.
pub fn overlay_faults<'o>(
    catalogue: &Catalogue,
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> BTreeMap<String, OverlayFault> {
    let mut faults = BTreeMap::new();
    let Some(mut builder) = selecting(catalogue, pools) else { return faults };
    for overlay in overlays {
        if let Err(error) = builder.add_node_overlay(overlay) {
            faults
                .insert(overlay.metadata.name.clone().unwrap_or_default(), OverlayFault::Unreadable(error.to_string()));
        }
    }
    for (name, fault) in builder.overlay_faults() {
        faults.entry(name).or_insert(fault);
    }
    faults
}

/// What knows a catalogue, and the NodePools by which overlays select.
fn selecting<'o>(catalogue: &Catalogue, pools: impl IntoIterator<Item = &'o NodePool>) -> Option<Builder> {
    let options = Options { node_overlay: true, static_capacity: true, ..Options::default() };
    let mut builder = Builder::new(options);
    builder.set_catalogue(catalogue).ok()?;
    for pool in pools {
        // One that is refused launches nothing.
        drop(builder.add_node_pool(pool));
    }
    Some(builder)
}

/// An instance type's own.
struct Overlaid {
    /// What its offerings cost, or are worth where they are reserved.
    prices: Vec<Money>,
    /// What overlays name: whole numbers of something.
    resources: Vec<(String, Quantity)>,
}

fn by_type<'o>(
    types: &[InstanceTypeEntry],
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> Option<BTreeMap<String, Overlaid>> {
    let mut all = types.to_vec();
    for offering in all.iter_mut().flat_map(|entry| &mut entry.offerings) {
        // What has run out has a price, too.
        if offering.capacity_type() != Some(CapacityType::Reserved) {
            offering.availability = Availability::Unlimited;
        }
    }
    let mut builder = selecting(&Catalogue::new(all).ok()?, pools)?;
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for overlay in overlays {
        if builder.add_node_overlay(overlay).is_ok() {
            named.extend(overlay.spec.capacity.keys().map(String::as_str));
        }
    }
    let cluster = builder.finish().ok()?.cluster;
    let id = |name| Some((name, cluster.resource_names.get(cluster.symbols.get(name)?)?));
    let named: Vec<(&str, ResourceId)> = named.into_iter().filter_map(id).collect();
    let of_type = |known: &InstanceType| {
        let reserved = berth_model::CapacityType::Reserved;
        let price =
            |own: &berth_model::Offering| if own.capacity_type == reserved { own.list_price } else { own.price };
        let amounts =
            named.iter().map(|(name, id)| (*name, known.resources.get(*id))).filter(|(_, amount)| *amount > 0);
        let resources = amounts.map(|(name, amount)| (name.to_owned(), Quantity::from_value(amount)));
        let overlaid = Overlaid { prices: known.offerings.iter().map(price).collect(), resources: resources.collect() };
        (cluster.symbols.text(known.name).to_owned(), overlaid)
    };
    Some(cluster.instance_types.iter().map(of_type).collect())
}
