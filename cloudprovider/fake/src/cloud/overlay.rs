//! What is paid where that is not what the cloud's catalogues say: discounts and licences, as NodeOverlays state them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_catalogue::{Catalogue, InstanceTypeEntry};

use super::node_class::NodeClass;
use super::world::World;

/// Makes of a catalogue one with the prices that are paid, for the nodes of one node class, or of any.
type Reprice = dyn Fn(Option<&str>, &Catalogue) -> Catalogue + Send + Sync;

/// How much is paid for what a catalogue has. What the cloud offers is not touched.
#[derive(Clone)]
pub struct PriceOverlay(Arc<Reprice>);

/// An overlay, and what comes of it.
#[derive(Debug)]
pub(super) struct Paid {
    overlay: PriceOverlay,
    /// By node class.
    of_classes: BTreeMap<String, Catalogue>,
    /// The cloud's own catalogue for whatever node class.
    common: Catalogue,
}

// === impl PriceOverlay ===

impl PriceOverlay {
    /// `reprice` is given the name of a node class and what that offers, or no name and the cloud's own catalogue.
    pub fn new(reprice: impl Fn(Option<&str>, &Catalogue) -> Catalogue + Send + Sync + 'static) -> Self {
        Self(Arc::new(reprice))
    }
}

impl fmt::Debug for PriceOverlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriceOverlay").finish_non_exhaustive()
    }
}

impl World {
    /// Sets what is paid from now on; `None` is what the catalogues say.
    pub(super) fn set_overlay(&mut self, overlay: Option<PriceOverlay>) {
        self.paid = overlay.map(|overlay| Paid { overlay, of_classes: BTreeMap::new(), common: Catalogue::default() });
        self.prices_changed();
    }

    /// Takes in that prices may have changed.
    pub(super) fn prices_changed(&mut self) {
        self.n_price_changes += 1;
        let Some(Paid { overlay, .. }) = self.paid.take() else { return };
        let classes = self.node_classes.iter();
        let of_class = |(name, class): (&String, &NodeClass)| {
            let own = class.catalogue.as_deref().unwrap_or(&self.catalogue);
            (name.clone(), (overlay.0)(Some(name), own))
        };
        let of_classes = classes.map(of_class).collect();
        let common = (overlay.0)(None, &self.catalogue);
        self.paid = Some(Paid { overlay, of_classes, common });
    }

    /// A type at the prices that are paid for nodes of a node class.
    pub(super) fn paid_type<'a>(
        &'a self,
        name: &str,
        class: &'a NodeClass,
        of_type: &str,
    ) -> Option<&'a InstanceTypeEntry> {
        let Some(paid) = self.paid.as_ref().and_then(|paid| paid.of_classes.get(name)) else {
            return self.instance_type(class, of_type);
        };
        paid.types().iter().find(|entry| entry.name == of_type).map(|entry| &**entry)
    }

    /// The cloud's own catalogue at the prices that are paid, whatever the node class.
    pub(super) fn paid_catalogue(&self) -> &Catalogue {
        self.paid.as_ref().map_or(&self.catalogue, |paid| &paid.common)
    }
}
