//! Why a pod finds no Reservation to draw from.

use super::index::Index;
use super::world::World;
use crate::reservation::{Diagnosis, Seeker, may_draw_from};

impl World<'_> {
    /// What Reservations say to a class, each reason with how many say so: of those that hold room and whose owners
    /// describe its pods. Nothing where there are none, unless the class must draw.
    pub(super) fn reservations_say(&self, index: &Index) -> Vec<(String, u32)> {
        let spec = &*index.shape.spec;
        let affinity = spec.reservation.affinity.as_ref();
        if affinity.is_none() && spec.reservation.owner_of.is_empty() {
            return Vec::new();
        }
        let is_named = affinity.is_some_and(|affinity| affinity.name.is_some());
        let mut diagnosis = Diagnosis::default();
        let values = self.values(index);
        let nodes = self.cluster.nodes.iter().zip(self.state.nodes()).enumerate();
        for (node, (fixed, state)) in nodes.filter(|(_, (_, state))| !state.holdings.is_empty()) {
            let mut matched = 0;
            for holding in &state.holdings {
                let Some(known) = self.reservation(holding.reservation) else { continue };
                let is_owner = spec.reservation.owner_of.binary_search(&holding.reservation).is_ok();
                let seeker = Seeker { is_owner, spec };
                let outcome = may_draw_from(&seeker, known, holding, &fixed.labels, &self.cluster.symbols);
                matched += u32::from(outcome.is_ok());
                diagnosis.count(&outcome, is_named, &self.cluster.symbols);
            }
            if matched == 0 {
                continue;
            }
            if let Some(obstacle) = self.obstacle(index, &values, node)
                && !matches!(obstacle, crate::filter::Obstacle::Reservations(..))
            {
                for reason in obstacle.in_words(self.cluster) {
                    diagnosis.count_node_reason(&reason, matched);
                }
            }
        }
        diagnosis.reasons(affinity.is_some()).into_iter().map(|(count, reason)| (reason, count)).collect()
    }
}
