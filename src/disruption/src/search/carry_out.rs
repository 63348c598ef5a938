//! Commands that are carried out, so that the next one is considered in the cluster that they leave. With pods that wait,
//! each is held to what that cluster costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_decisions::{DecideError, Launch};
use berth_model::Money;
use berth_state::{Key, Kind, ObjectRef};

use super::Search;
use super::limits::exceeded;
use crate::Methods;
use crate::candidate::{Candidate, of_lifetime};
use crate::command::{Command, Method, Places};
use crate::play::{play, replacement_name};
use crate::pods::{DisruptionCost, disrupted};
use crate::prices::Price;
use crate::reason::{Reason, reason};
use crate::simulate::{Baseline, Replacement, by_name};
use crate::worth::{saved_on_nodes, total_saved};

impl Search<'_> {
    /// Carries a command out, and looks at the cluster that it leaves; whether every pod found its place.
    pub(super) fn carry_out(
        &mut self,
        method: Method,
        gone: &[&Candidate],
        replacement: &Replacement,
    ) -> Result<bool, DecideError> {
        let mut replacements = Vec::with_capacity(replacement.launches.len());
        for launch in &replacement.launches {
            let name = replacement_name(self.state, &launch.node_pool.key.name, &mut self.n_launched);
            replacements.push((name, launch.clone()));
        }
        let mut places = Vec::new();
        // Where nothing is looked for afterwards, nobody asks for the cluster that it leaves.
        if !self.options.only_empty {
            let launches: Vec<_> = replacements.iter().map(|(name, launch)| (name.clone(), launch)).collect();
            let has_moves = !launches.is_empty();
            if has_moves {
                self.expect_on(&launches);
            }
            let decisions = self.decisions();
            let before = if self.is_held_to_account(method) { Some(self.standing()?) } else { None };
            let used = self.used(&replacement.launches);
            let played =
                play((self.state, self.decider), (gone, &replacement.insists), &launches, &decisions, self.now);
            if has_moves {
                self.moves.clear();
            }
            let Some(mut played) = played? else {
                let text = "its pods would not all find the places that were planned for them";
                self.all_stay(gone, &[reason(text)]);
                return Ok(false);
            };
            // What was decided together with other nodes may count on what these have.
            let used_after = self.used(&replacement.launches);
            if let Some(pool) = exceeded(&used, &used_after) {
                let text = format!("what would be launched in its place exceeds the limits of NodePool {pool:?}");
                played.undo(self.state);
                self.all_stay(gone, &[reason(text)]);
                return Ok(false);
            }
            self.standing = None;
            if let Some(before) = before {
                let after = self.standing()?;
                if let Err(reasons) = self.accounts(method, gone, replacement, (&before, &after)) {
                    played.undo(self.state);
                    self.standing = Some(before);
                    self.all_stay(gone, &reasons);
                    return Ok(false);
                }
            }
            places = played.take_places();
            self.changed.extend(played.take_changed());
            self.played.merge(played);
        }
        if self.options.only_now {
            self.awaiting.extend(places.iter().map(|(_, node)| node.clone()));
        }
        self.launched.extend(replacements.iter().map(|(name, _)| name.clone()));
        let mut nodes: Vec<ObjectRef> = gone.iter().map(|candidate| candidate.node.clone()).collect();
        nodes.sort();
        let pools = replacement.launches.iter().map(|launch| &*launch.node_pool.key.name);
        let batch = self.batches.take(gone, (pools, &places), method);
        // Commands of one batch begin at once: a pod that one sends to a node which another takes away is evicted once.
        let evictions: usize = gone.iter().map(|candidate| candidate.n_evictions).sum();
        let cost: DisruptionCost = gone.iter().map(|candidate| candidate.cost).sum();
        let again = moved_again(self.commands.iter().filter(|known| known.batch == batch), &places);
        let n_again = again.len();
        let again = again.into_iter().filter_map(|(key, from)| {
            let cost = DisruptionCost::of_move(self.state.pod(&key.namespace, &key.name)?);
            let from = gone.iter().find(|candidate| *candidate.node.key.name == *from)?;
            Some(of_lifetime(cost, from.expires, self.now))
        });
        let cost = cost.without(again);
        let launched = replacement.launched(&self.prices);
        let before: Price = gone.iter().filter_map(|candidate| candidate.price).sum();
        self.commands.push(Command {
            method,
            nodes,
            replacements,
            places,
            savings: before.marginal - launched.marginal,
            list_savings: before.list - launched.list,
            node_savings: saved_on_nodes(gone.len(), replacement.launches.len(), self.options),
            evictions: evictions.saturating_sub(n_again),
            cost,
            batch,
        });
        if method != Method::DriftInSlot {
            self.left_slots.extend(gone.iter().filter_map(|candidate| candidate.reservation.clone()));
        }
        self.baseline = None;
        if !self.options.only_empty {
            self.look_anew();
        }
        Ok(true)
    }

    fn all_stay(&mut self, gone: &[&Candidate], reasons: &[Reason]) {
        for candidate in gone {
            self.stays(candidate, reasons.to_vec());
        }
    }

    /// The pods and Reservations that nodes are launched for come to these nodes, before others choose.
    fn expect_on(&mut self, launches: &[(String, &Launch)]) {
        for (name, launch) in launches {
            let pods = launch.pods.iter().map(|pod| by_name(&pod.key));
            let rooms = launch.reservations.iter().map(|room| Box::from(&*room.key.name));
            Arc::make_mut(self.moves.entry(name.as_str().into()).or_default()).extend(pods.chain(rooms));
        }
    }

    /// What is decided while every node stays that is there now, and none is to go later.
    fn standing(&mut self) -> Result<Baseline, DecideError> {
        if let Some(known) = &self.standing {
            return Ok(known.clone());
        }
        let leaving = self.leaving.keys().filter(|node| self.state.node(&node.key.name).is_some());
        let leaving: Vec<ObjectRef> = leaving.cloned().collect();
        let with_them = self.baseline.take();
        for node in &leaving {
            self.let_pods_come(node);
        }
        let found = Baseline::of((self.state, self.decider), &self.options.decisions, &self.prices, self.now);
        for node in &leaving {
            self.keep_pods_off(node);
        }
        self.baseline = with_them;
        let found = found?;
        self.standing = Some(found.clone());
        Ok(found)
    }

    /// Whether a command has to leave a cluster that costs less, with what is launched for those who wait: a what-if says so
    /// before, but its plan is for all together, and who waits is planned anew.
    fn is_held_to_account(&mut self, method: Method) -> bool {
        let is_meant = !method.is_drift() && self.options.methods == Methods::Berth;
        is_meant && !self.state.cluster(self.now).pending.is_empty()
    }

    /// Whether a command saves what it should, by what is decided before it and after it; `Err` says why not.
    fn accounts(
        &self,
        method: Method,
        gone: &[&Candidate],
        replacement: &Replacement,
        (before, after): (&Baseline, &Baseline),
    ) -> Result<(), Vec<Reason>> {
        let of_gone: Price = gone.iter().filter_map(|candidate| candidate.price).sum();
        let mut saved = of_gone - replacement.launched(&self.prices) - (after.launched() - before.launched());
        let mut n_gone = gone.len() + before.n_launches();
        let n_new = replacement.launches.len() + after.n_launches();
        // Nodes for those who would have waited for good are no reason against it.
        if after.places_more_than(before) {
            saved += replacement.for_placed.price;
            n_gone += replacement.for_placed.count;
        }
        let saved = total_saved(gone, saved, saved_on_nodes(n_gone, n_new, self.options));
        let cost: DisruptionCost = gone.iter().map(|candidate| candidate.cost).sum();
        let pays = match method {
            // An empty node serves nobody: those who wait may have what it takes of a limit.
            Method::Emptiness => saved >= Money::ZERO || after.places_more_than(before),
            _ => saved > disrupted(self.options.eviction_price, cost),
        };
        if pays && after.places_as_many_as(before) {
            return Ok(());
        }
        let text = "with the nodes that pods which wait would then need, it saves too little";
        Err(vec![reason(text)])
    }
}

/// Those of these pods that some of the commands move, too, and the nodes that these move them to.
fn moved_again<'p>(commands: impl Iterator<Item = &'p Command>, places: &'p Places) -> Vec<(&'p Key, &'p str)> {
    let moved: BTreeMap<&Key, &str> =
        commands.flat_map(|command| &command.places).map(|(key, node)| (key, &**node)).collect();
    let again = places.iter().map(|(key, _)| key).filter(|key| key.kind == Kind::Pod);
    again.filter_map(|key| Some((key, *moved.get(key)?))).collect()
}
