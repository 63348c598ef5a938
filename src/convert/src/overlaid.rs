//! A catalogue with the prices that NodeOverlays make of it: what nodes of it cost.

use std::collections::BTreeMap;

use berth_api::{NodeOverlay, NodePool};
use berth_catalogue::{Availability, CapacityType, Catalogue, InstanceTypeEntry};
use berth_model::InstanceType;

use crate::{Builder, Options};

/// The catalogue that some NodePools launch from, with the prices that NodeOverlays make of its own, whether the feature
/// gate is on or not. All else stays as it is, as do the prices of what is not available. An overlay or a NodePool that cannot
/// be used changes nothing.
pub fn overlaid<'o>(
    catalogue: &Catalogue,
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> Catalogue {
    let mut types = catalogue.clone().into_types();
    let Some(overlaid) = priced(&types, pools, overlays) else { return catalogue.clone() };
    for entry in &mut types {
        let Some(prices) = overlaid.get(&entry.name) else { continue };
        for (offering, price) in entry.offerings.iter_mut().zip(prices) {
            offering.price = *price;
        }
    }
    // Only prices have changed, so it is a catalogue as before.
    Catalogue::new(types).unwrap_or_else(|_| catalogue.clone())
}

/// By type: what its offerings cost, or are worth where they are reserved.
fn priced<'o>(
    types: &[InstanceTypeEntry],
    pools: impl IntoIterator<Item = &'o NodePool>,
    overlays: impl IntoIterator<Item = &'o NodeOverlay>,
) -> Option<BTreeMap<String, Vec<berth_quantity::Money>>> {
    let mut all = types.to_vec();
    for offering in all.iter_mut().flat_map(|entry| &mut entry.offerings) {
        // What has run out has a price, too.
        if offering.capacity_type() != Some(CapacityType::Reserved) {
            offering.availability = Availability::Unlimited;
        }
    }
    let options = Options { node_overlay: true, static_capacity: true, ..Options::default() };
    let mut builder = Builder::new(options);
    builder.set_catalogue(&Catalogue::new(all).ok()?).ok()?;
    for pool in pools {
        // One that is refused launches nothing.
        drop(builder.add_node_pool(pool));
    }
    for overlay in overlays {
        drop(builder.add_node_overlay(overlay));
    }
    let cluster = builder.finish().ok()?.cluster;
    let prices = |known: &InstanceType| {
        let reserved = berth_model::CapacityType::Reserved;
        let of =
            known.offerings.iter().map(|own| if own.capacity_type == reserved { own.list_price } else { own.price });
        (cluster.symbols.text(known.name).to_owned(), of.collect())
    };
    Some(cluster.instance_types.iter().map(prices).collect())
}
