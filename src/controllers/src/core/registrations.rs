//! Whether what a NodePool launches becomes nodes: the condition `NodeRegistrationHealthy`, by the last NodeClaims of it that
//! registered or did not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_api::{NodeClaim, labels};
use berth_decisions::Launch;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Core, Job, class_key};
use crate::claim::conditions;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::pool_of;

/// How many NodeClaims of a NodePool are looked back at, as in Karpenter.
const REMEMBERED: usize = 4;
/// So many of them that did not register make it unhealthy.
const MOST_FAILED: usize = 2;

/// What became of the last NodeClaims of each NodePool: of which generation it was, and whether each registered.
#[derive(Debug, Default)]
pub(super) struct Registrations(BTreeMap<String, (Option<i64>, VecDeque<bool>)>);

// === impl Registrations ===

impl Registrations {
    fn note(&mut self, pool: &str, generation: Option<i64>, has_registered: bool) {
        let known = self.0.entry(pool.to_owned()).or_default();
        // A NodePool that asks for something else is judged anew.
        if known.0 != generation {
            *known = (generation, VecDeque::new());
        }
        known.1.push_back(has_registered);
        if known.1.len() > REMEMBERED {
            known.1.pop_front();
        }
    }

    /// How many of how many did not register; `None` where nobody saw any since the NodePool changed.
    pub(super) fn failed(&self, pool: &str, generation: Option<i64>) -> Option<(usize, usize)> {
        let (_, outcomes) = self.0.get(pool).filter(|known| known.0 == generation)?;
        Some((outcomes.iter().filter(|has_registered| !**has_registered).count(), outcomes.len()))
    }

    pub(super) fn forget(&mut self, pool: &str) {
        self.0.remove(pool);
    }
}

/// Whether so many failures make a NodePool unhealthy.
pub(super) const fn are_too_many(n_failed: usize) -> bool {
    n_failed >= MOST_FAILED
}

impl Core {
    /// A NodeClaim got further, from these conditions to those.
    pub(super) fn note_registration(
        &mut self,
        claim: &NodeClaim,
        before: &[Condition],
        after: &[Condition],
        now: Timestamp,
    ) {
        let has_registered = |all: &[Condition]| conditions::is_true(all, conditions::REGISTERED);
        if self.is_started && has_registered(after) && !has_registered(before) {
            self.note_outcome(claim, true, now);
        }
    }

    /// A NodeClaim goes without having become a node.
    pub(super) fn note_failed_registration(&mut self, claim: &NodeClaim, reason: &str, now: Timestamp) {
        if !matches!(reason, "RegistrationTimeout" | "LaunchTimeout") {
            return;
        }
        // The write that ends it may be tried several times.
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let memory = self.memories.entry(uid).or_default();
        if !std::mem::replace(&mut memory.has_failed, true) {
            self.note_outcome(claim, false, now);
            let name = claim.metadata.name.as_deref();
            for planned in self.planned.values_mut().filter(|planned| name == Some(&*planned.claim)) {
                planned.last = now;
            }
        }
    }

    fn note_outcome(&mut self, claim: &NodeClaim, has_registered: bool, now: Timestamp) {
        self.note_zone(claim, has_registered, now);
        let Some(name) = pool_of(&claim.metadata) else { return };
        let Some(pool) = self.view.pools.get(name) else { return };
        self.registrations.note(name, pool.metadata.generation, has_registered);
        self.queue.add(Job::Pool(name.to_owned()));
    }

    /// Where machines do not join in a zone, others are tried for a while.
    fn note_zone(&mut self, claim: &NodeClaim, has_registered: bool, now: Timestamp) {
        let zone = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::ZONE));
        let class = claim.spec.node_class_ref.as_ref().map(class_key);
        // One that is launched no more has no offers.
        let (Some(zone), Some(class)) = (zone, class) else { return };
        if has_registered {
            self.zones.joined(&class, zone);
            return self.leave_zones_alone(&class, now);
        }
        let Some(offers) = self.offers.get(&class) else { return };
        let offerings = offers.types.catalogue.types().iter().flat_map(|of_type| &of_type.offerings);
        let all: BTreeSet<&str> = offerings.filter_map(berth_catalogue::OfferingEntry::zone).collect();
        if let Some((n, until)) = self.zones.did_not_join(&class, zone, &all, now) {
            let message = format!(
                "{n} machines in a row did not join in zone {zone}: none is launched there until {}",
                conditions::whole_seconds(until)
            );
            tracing::warn!(class, "{message}");
            let pool = pool_of(&claim.metadata).and_then(|pool| self.view.pools.get(pool)).cloned();
            if let Some(pool) = pool {
                self.tell(Notice::about(Kind::NodePool, &pool.metadata, "ZoneLeftAlone", message), now);
            }
        }
        self.leave_zones_alone(&class, now);
    }

    /// A zone of these launches in which machines did not join lately, and until when nothing is launched there for a disruption.
    pub(super) fn zone_without_joins<'l>(
        &self,
        launches: &'l [Launch],
        now: Timestamp,
    ) -> Option<(&'l str, Timestamp)> {
        launches.iter().find_map(|launch| {
            let pool = self.view.pools.get(&*launch.node_pool.key.name)?;
            let class = class_key(pool.spec.template.spec.node_class_ref.as_ref()?);
            let zone = launch.offering.zone.as_deref()?;
            Some((zone, self.zones.not_for_commands_until(&class, zone, now)?))
        })
    }

    /// Which zones a node class leaves alone has changed, perhaps.
    pub(super) fn leave_zones_alone(&mut self, class: &str, now: Timestamp) {
        let left_alone = self.zones.left_alone(class, now);
        let Some(offers) = self.offers.get_mut(class) else { return };
        if offers.left_alone != left_alone {
            offers.left_alone = left_alone;
            self.tell_offers(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_of_the_last_four_are_too_many_and_a_changed_pool_is_judged_anew() {
        let mut known = Registrations::default();
        let failed = |known: &Registrations| known.failed("web", Some(1));
        assert_eq!(failed(&known), None);
        let mut seen = Vec::new();
        for outcome in [false, true, false, true, true] {
            known.note("web", Some(1), outcome);
            seen.push(failed(&known).map(|(n_failed, _)| are_too_many(n_failed)));
        }
        assert_eq!(seen, [false, false, true, true, false].map(Some));
        assert_eq!(known.failed("web", Some(2)), None);
        known.note("web", Some(2), false);
        assert_eq!(known.failed("web", Some(2)), Some((1, 1)));
        known.forget("web");
        assert_eq!(known.failed("web", Some(2)), None);
    }
}
