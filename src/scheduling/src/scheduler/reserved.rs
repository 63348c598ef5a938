//! Reservations in the eyes of a class: which of them anywhere it may draw from, and what does not count for it.

use berth_model::{Holding, PodSpec, ReservationId};

use super::discount::Discount;
use super::shape::Shape;
use super::world::World;
use crate::reservation::{Seeker, may_draw_from};

impl World<'_> {
    /// The holdings anywhere that a class may draw from: node and Reservation.
    pub(super) fn owned<'s>(&'s self, spec: &'s PodSpec) -> impl Iterator<Item = (usize, ReservationId)> + 's {
        let held = spec
            .reservation
            .owner_of
            .iter()
            .filter_map(|&reservation| Some((self.ledger.held.place(reservation)?, reservation)));
        held.filter(|&(node, reservation)| {
            let (Some(fixed), Some(state)) = (self.cluster.node(node), self.state.node(node)) else {
                return false;
            };
            let (Some(holding), Some(known)) = (state.holding(reservation), self.reservation(reservation)) else {
                return false;
            };
            let seeker = Seeker { is_owner: true, spec };
            may_draw_from(&seeker, known, holding, &fixed.labels, &self.cluster.symbols).is_ok()
        })
    }

    /// What does not count for a class.
    pub(super) fn discount_of(&self, shape: &Shape) -> Discount {
        if shape.is_free() || shape.spec.reservation.owner_of.is_empty() {
            return Discount::default();
        }
        self.discount(&shape.spec)
    }

    // What is counted of Reservations that a class may draw from.
    fn discount(&self, spec: &PodSpec) -> Discount {
        let mut discount = Discount::default();
        let hostname = self.cluster.well_known.hostname;
        for (node, reservation) in self.owned(spec) {
            let Some(fixed) = self.cluster.node(node) else { continue };
            let holding = self.state.node(node).and_then(|state| state.holding(reservation));
            let class = self.universe.reserved(reservation);
            let class = class.and_then(|id| self.universe.class(id));
            let Some((class, how)) = class.zip(holding.map(Holding::stand_in)) else { continue };
            for &counter in class.counts_in.iter().chain(&class.weighs_in) {
                if !self.counts_on(counter, node) {
                    continue;
                }
                let known = self.universe.counter(counter).filter(|known| how.counts_in(known));
                let Some(key) = known.map(|known| known.key) else { continue };
                if key == hostname {
                    *discount.total.entry(counter).or_default() += 1;
                } else if let Some(domain) = fixed.labels.get(key) {
                    *discount.total.entry(counter).or_default() += 1;
                    *discount.by_domain.entry((counter, domain)).or_default() += 1;
                }
            }
        }
        discount
    }
}
