//! What is paid, and what machines have, where that is not what the cloud's catalogues say: discounts, licences and devices, as
//! NodeOverlays state them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_catalogue::{Catalogue, InstanceTypeEntry};

use super::node_class::NodeClass;
use super::reservation::Reserved;
use super::world::{World, is_reserved};

/// Makes of a catalogue one with the prices that are paid and all that machines have, for the nodes of one node class, or of any.
type Overlay = dyn Fn(Option<&str>, &Catalogue) -> Catalogue + Send + Sync;

/// How much is paid for what a catalogue has, and what its machines have in addition. What the cloud offers is not touched.
#[derive(Clone)]
pub struct CatalogueOverlay(Arc<Overlay>);

/// An overlay, and what comes of it.
#[derive(Debug)]
pub(super) struct Overlaid {
    overlay: CatalogueOverlay,
    /// By node class.
    of_classes: BTreeMap<String, Catalogue>,
    /// The cloud's own catalogue for whatever node class.
    common: Catalogue,
}

// === impl CatalogueOverlay ===

impl CatalogueOverlay {
    /// `overlay` is given the name of a node class and what that offers, or no name and the cloud's own catalogue.
    pub fn new(overlay: impl Fn(Option<&str>, &Catalogue) -> Catalogue + Send + Sync + 'static) -> Self {
        Self(Arc::new(overlay))
    }
}

impl fmt::Debug for CatalogueOverlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogueOverlay").finish_non_exhaustive()
    }
}

impl World {
    /// Sets what is paid, and what machines have, from now on; `None` is what the catalogues say.
    pub(super) fn set_overlay(&mut self, overlay: Option<CatalogueOverlay>) {
        self.overlaid =
            overlay.map(|overlay| Overlaid { overlay, of_classes: BTreeMap::new(), common: Catalogue::default() });
        self.prices_changed();
    }

    /// Takes in that prices may have changed.
    pub(super) fn prices_changed(&mut self) {
        self.n_price_changes += 1;
        self.overlay_anew();
    }

    /// Takes in that something else is offered.
    pub(super) fn overlay_anew(&mut self) {
        let Some(Overlaid { overlay, .. }) = self.overlaid.take() else { return };
        let classes = self.node_classes.iter();
        let of_class = |(name, class): (&String, &NodeClass)| {
            let own = self.catalogue_with_reservations(class);
            (name.clone(), (overlay.0)(Some(name), &own))
        };
        let of_classes = classes.map(of_class).collect();
        let common = (overlay.0)(None, &self.catalogue);
        self.overlaid = Some(Overlaid { overlay, of_classes, common });
    }

    /// What a node class offers, with all reservations, whatever is free of them: an overlay may be about one alone.
    fn catalogue_with_reservations<'a>(&'a self, class: &'a NodeClass) -> Cow<'a, Catalogue> {
        let mut types: Vec<InstanceTypeEntry> = self.types_of(class).iter().map(|entry| (**entry).clone()).collect();
        for entry in &mut types {
            entry.offerings.retain(|offering| !is_reserved(offering));
        }
        let (_, known_zones) = self.offered();
        for (id, Reserved { definition, .. }) in &self.reservations {
            let places = (&*definition.instance_types, &*definition.zones);
            self.offer_reserved(&mut types, (class, &known_zones), (id, definition.total), places);
        }
        types.retain(|entry| !entry.offerings.is_empty());
        let own = class.catalogue.as_deref().unwrap_or(&self.catalogue);
        Catalogue::new(types).map_or(Cow::Borrowed(own), Cow::Owned)
    }

    /// A type as nodes of a node class are: at the prices that are paid, with all that they have.
    pub(super) fn overlaid_type<'a>(
        &'a self,
        name: &str,
        class: &'a NodeClass,
        of_type: &str,
    ) -> Option<&'a InstanceTypeEntry> {
        let Some(overlaid) = self.overlaid.as_ref().and_then(|overlaid| overlaid.of_classes.get(name)) else {
            return self.instance_type(class, of_type);
        };
        overlaid.types().iter().find(|entry| entry.name == of_type).map(|entry| &**entry)
    }

    /// The cloud's own catalogue at the prices that are paid, whatever the node class.
    pub(super) fn overlaid_catalogue(&self) -> &Catalogue {
        self.overlaid.as_ref().map_or(&self.catalogue, |overlaid| &overlaid.common)
    }
}
