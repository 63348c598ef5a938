//! Why a pod finds no Reservation to draw from.

use berth_model::{Labels, Phase, PodSpec, Reservation, ReservationId};

use super::index::Index;
use super::world::World;
use crate::reservation::{Diagnosis, Seeker, is_for, may_draw_from};

/// The most Reservations that are told by name.
const MOST_NAMED: usize = 3;

impl World<'_> {
    /// What Reservations say to a class, each reason with how many say so: of those that hold room and whose owners
    /// describe its pods. Nothing where there are none, unless the class must draw: then those are named that it asks for and
    /// that take no owners yet.
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
        let mut not_yet = if affinity.is_some() { self.not_yet(spec) } else { Vec::new() };
        // Where it asks for some that are to come, none matched is no count of its owners.
        let counted = diagnosis.reasons(affinity.is_some() && not_yet.is_empty());
        let mut reasons: Vec<(String, u32)> = counted.into_iter().map(|(count, reason)| (reason, count)).collect();
        let n_more = u32::try_from(not_yet.len().saturating_sub(MOST_NAMED)).unwrap_or(u32::MAX);
        not_yet.truncate(MOST_NAMED);
        reasons.extend(not_yet.into_iter().map(|reason| (reason, 0)));
        if n_more > 0 {
            reasons.push(("more Reservation(s) are Pending or Waiting".to_owned(), n_more));
        }
        reasons
    }

    /// The Reservations that pods of a spec ask for and that take no owners yet, each with its phase, by name.
    fn not_yet(&self, spec: &PodSpec) -> Vec<String> {
        let ids = spec.reservation.owner_of.iter();
        let known = ids.filter_map(|&id| Some((id, self.reservation(id)?)));
        let mut said: Vec<String> = known.filter_map(|(id, known)| self.not_yet_of(spec, id, known)).collect();
        said.sort_unstable();
        said
    }

    fn not_yet_of(&self, spec: &PodSpec, id: ReservationId, known: &Reservation) -> Option<String> {
        let held = self.ledger.held.place(id);
        let node = held.and_then(|node| self.cluster.node(node));
        let holding = held.and_then(|node| self.state.node(node)?.holding(id));
        let phase = if holding.map_or(known.phase == Phase::Waiting, |holding| holding.waits) {
            "Waiting: its room is not free yet"
        } else if known.phase == Phase::Pending && self.ledger.held.had_no_node(id) {
            "Pending: it has no node yet"
        } else {
            return None;
        };
        let unlabelled = Labels::default();
        let labels = node.map_or(&unlabelled, |node| &node.labels);
        is_for(&Seeker { is_owner: true, spec }, known, labels, &self.cluster.symbols).ok()?;
        Some(format!("Reservation {} is {phase}", self.cluster.symbols.text(known.name)))
    }
}
