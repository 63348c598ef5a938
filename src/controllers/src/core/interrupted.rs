//! Which instances the cloud will take back: asked every few seconds while there are any on spot, as their notice is short;
//! of others with every comparison of instances and NodeClaims.

use std::time::Duration;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::{CloudError, Instance, InterruptionReason, tag};
use jiff::Timestamp;

use super::{Core, Job};
use crate::claim::Question;
use crate::clock::after;

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(15);

impl Core {
    /// A NodeClaim changed: if its instance may be taken back soon, that is asked about.
    pub(super) fn expect_interruptions(&mut self, claim: &str, now: Timestamp) {
        let is_on_spot = self.view.claims.get(&claim.to_owned()).is_some_and(|claim| is_on_spot(claim));
        if is_on_spot && !self.queue.is_running(&Job::Interrupted) {
            self.queue.add_at(Job::Interrupted, after(now, PERIOD));
        }
    }

    pub(super) fn look_for_interruptions(&mut self) {
        if self.view.claims.values().any(|claim| is_on_spot(claim)) {
            self.ask(Job::Interrupted, Question::Interrupted);
        } else {
            self.queue.forget(&Job::Interrupted);
        }
    }

    pub(super) fn told_interruptions(&mut self, told: Result<Vec<Instance>, CloudError>, now: Timestamp) {
        match told {
            Ok(instances) => {
                self.note_interruptions(&instances, now);
                self.queue.put_off(Job::Interrupted, after(now, PERIOD));
            }
            Err(error) => {
                tracing::warn!(%error, "unable to ask which instances will be taken back");
                self.queue.fail(Job::Interrupted, Duration::from_secs(1), now);
            }
        }
    }

    /// Takes in which of these instances will be taken back: all that will be are among them. What the cloud says no more of,
    /// as of a retirement that was called off, holds no more.
    pub(super) fn note_interruptions(&mut self, instances: &[Instance], now: Timestamp) {
        let mut is_news = false;
        let before = std::mem::take(&mut self.interrupted);
        for instance in instances.iter().filter(|instance| instance.state.is_alive()) {
            let Some(interruption) = &instance.interruption else { continue };
            self.interrupted.insert(instance.provider_id.0.clone(), interruption.clone());
            if before.get(&instance.provider_id.0) == Some(interruption) {
                continue;
            }
            tracing::info!(instance = instance.provider_id.0, ?interruption, "the cloud takes an instance back");
            if let Some(claim) = instance.tags.get(tag::NODE_CLAIM) {
                self.queue.add(Job::Claim(claim.clone()));
            }
            if interruption.reason == InterruptionReason::Spot {
                is_news = true;
                // What takes its place would be taken back next.
                let until = after(now, self.options.timings.exhausted_for);
                for offers in self.offers.values_mut() {
                    offers.exhausted.insert(instance.offering.clone(), until);
                }
            }
        }
        if is_news {
            self.tell_offers(now);
        }
    }
}

fn is_on_spot(claim: &NodeClaim) -> bool {
    let all = claim.metadata.labels.as_ref();
    all.and_then(|all| all.get(labels::CAPACITY_TYPE)).is_some_and(|kind| kind == "spot")
}
