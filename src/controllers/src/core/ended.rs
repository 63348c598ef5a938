//! Instances that have ended, as the cloud has confirmed: their slots are free at once, though a count from before their end
//! shows them still. It is the other half of the ledger: launches that a count did not see are taken off, ends that it did not
//! see are given back.

use std::collections::BTreeSet;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::ProviderId;
use jiff::Timestamp;

use super::Core;

impl Core {
    /// The instance of a NodeClaim has ended, the cloud says.
    pub(super) fn note_end(&mut self, claim: &NodeClaim, id: ProviderId, now: Timestamp) {
        let own = claim.metadata.labels.as_ref();
        let has_slot = own.and_then(labels::reservation_id).is_some();
        if (has_slot || self.is_counted(&id)) && self.ended.insert(id) {
            self.tell_offers(now);
        }
    }

    /// A reservation had no slot left: what is said to have ended may use its slot a little longer, so the next counts are
    /// believed as they are.
    pub(super) fn distrust_ends(&mut self, reservation: &str) {
        let all = self.offers.values().flat_map(|offers| &offers.types.reservations);
        for own in all.filter(|known| known.id == reservation) {
            self.ended.retain(|id| !own.includes.contains(id));
        }
    }

    /// An instance that no count includes any more, and no NodeClaim has, is forgotten.
    pub(super) fn forget_ends(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let claims = self.view.claims.values().filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref());
        let claimed: BTreeSet<&str> = claims.collect();
        let mut ended = std::mem::take(&mut self.ended);
        ended.retain(|id| claimed.contains(id.as_str()) || self.is_counted(id));
        self.ended = ended;
    }

    /// Whether some count of slots includes an instance.
    fn is_counted(&self, id: &ProviderId) -> bool {
        let mut all = self.offers.values().flat_map(|offers| &offers.types.reservations);
        all.any(|known| known.includes.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_catalogue::Catalogue;
    use berth_cloudprovider::{CapacityReservation, CloudError, InstanceTypes};
    use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
    use berth_state::SlotCount;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::told::count;
    use super::*;
    use crate::claim::Offers;
    use crate::options::Options;

    const SLOTS: u32 = 4;
    const OTHERS: u32 = 1;

    fn id(n: usize) -> ProviderId {
        ProviderId(format!("fake:///port-1a/i-{n}"))
    }

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    /// Instances on a reservation that others use, too: as the cloud has them, as it showed them last, and as Berth knows them.
    #[derive(Debug, Default)]
    struct Cloud {
        n_launched: usize,
        alive: BTreeSet<ProviderId>,
        shown: Option<CapacityReservation>,
        /// Those of which a NodeClaim says that they were launched.
        claimed: BTreeSet<ProviderId>,
        ended: BTreeSet<ProviderId>,
    }

    impl Cloud {
        fn free(&self) -> u32 {
            SLOTS - OTHERS - u32::try_from(self.alive.len()).unwrap()
        }

        fn observed(&self) -> CapacityReservation {
            let (used, includes) = (SLOTS - self.free(), self.alive.clone());
            CapacityReservation { total: SLOTS, used, includes, ..CapacityReservation::new("cr-1") }
        }

        /// What may be launched, as the state reckons: what is free, less the launched ones that were not seen.
        fn believed(&self) -> u32 {
            let Some(shown) = &self.shown else { return 0 };
            let SlotCount { free, seen, .. } = count(shown, false, &self.ended);
            let unseen = self.claimed.iter().filter(|id| !seen.contains(id.as_str())).count();
            free.saturating_sub(u32::try_from(unseen).unwrap())
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// One is launched where Berth believes that it may be.
        Launch,
        /// One ends, of which Berth hears later.
        End(prop::sample::Index),
        /// Berth hears of one that it is gone.
        Hear(prop::sample::Index),
        /// The NodeClaim of one that is gone goes.
        Finish(prop::sample::Index),
        /// The cloud is asked for its counts.
        Count,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Launch),
            2 => any::<prop::sample::Index>().prop_map(Step::End),
            2 => any::<prop::sample::Index>().prop_map(Step::Hear),
            1 => any::<prop::sample::Index>().prop_map(Step::Finish),
            1 => Just(Step::Count),
        ]
    }

    proptest! {
        /// Whatever happened since the count: never more slots than there are, and all of them once all ends are known.
        #[test]
        fn ends_that_a_count_did_not_see_give_their_slots_back_and_none_is_used_twice(
            steps in prop::collection::vec(step(), 0..60)
        ) {
            let mut cloud = Cloud::default();
            cloud.shown = Some(cloud.observed());
            for step in steps {
                let heard: Vec<ProviderId> = cloud.claimed.intersection(&cloud.ended).cloned().collect();
                let unheard: Vec<ProviderId> =
                    cloud.claimed.iter().filter(|id| !cloud.alive.contains(id) && !cloud.ended.contains(id)).cloned().collect();
                let alive: Vec<ProviderId> = cloud.alive.iter().cloned().collect();
                match step {
                    Step::Launch if cloud.believed() > 0 => {
                        prop_assert!(cloud.free() > 0, "overdrawn: {cloud:?}");
                        cloud.n_launched += 1;
                        cloud.alive.insert(id(cloud.n_launched));
                        cloud.claimed.insert(id(cloud.n_launched));
                    }
                    Step::End(at) if !alive.is_empty() => {
                        cloud.alive.remove(at.get(&alive));
                    }
                    Step::Hear(at) if !unheard.is_empty() => {
                        cloud.ended.insert(at.get(&unheard).clone());
                    }
                    Step::Finish(at) if !heard.is_empty() => {
                        cloud.claimed.remove(at.get(&heard));
                    }
                    Step::Count => {
                        let observed = cloud.observed();
                        let Cloud { claimed, ended, .. } = &mut cloud;
                        ended.retain(|id| observed.includes.contains(id) || claimed.contains(id));
                        cloud.shown = Some(observed);
                    }
                    _ => {}
                }
                prop_assert!(cloud.believed() <= cloud.free(), "{cloud:?}");
                let all_heard = cloud.claimed.iter().all(|id| cloud.alive.contains(id) || cloud.ended.contains(id));
                if all_heard {
                    prop_assert_eq!(cloud.believed(), cloud.free(), "{:?}", cloud);
                }
            }
        }
    }

    fn core_with(shown: CapacityReservation) -> Core {
        let cloud = FakeCloud::new(CloudConfig::default(), Catalogue::default());
        let mut core = Core::new(Options::default(), Arc::new(cloud));
        let types = InstanceTypes { catalogue: Arc::new(Catalogue::default()), reservations: vec![shown] };
        core.offers.insert("class".to_owned(), Offers::of(types, now()));
        core
    }

    fn claim(labels: &serde_json::Value) -> NodeClaim {
        serde_json::from_value(json!({"metadata": {"name": "c", "labels": labels}, "spec": {"requirements": []}}))
            .unwrap()
    }

    #[test]
    fn ends_are_forgotten_once_no_count_and_no_node_claim_has_them() {
        let includes = BTreeSet::from([id(1)]);
        let mut core = core_with(CapacityReservation { includes, ..CapacityReservation::new("cr-1") });
        core.note_end(&claim(&json!({})), id(1), now());
        core.note_end(&claim(&json!({labels::RESERVATION_IDS[0]: "cr-1"})), id(2), now());
        core.note_end(&claim(&json!({})), id(3), now());
        assert_eq!(core.ended, BTreeSet::from([id(1), id(2)]), "the third had no slot");
        core.forget_ends();
        assert_eq!(core.ended, BTreeSet::from([id(1)]));
        core.offers.clear();
        core.forget_ends();
        assert_eq!(core.ended, BTreeSet::new());
    }

    #[test]
    fn a_reservation_that_is_full_after_all_is_believed() {
        let includes = BTreeSet::from([id(1)]);
        let shown = CapacityReservation { total: 1, used: 1, includes, ..CapacityReservation::new("cr-1") };
        let mut core = core_with(shown.clone());
        core.note_end(&claim(&json!({})), id(1), now());
        assert_eq!(count(&shown, false, &core.ended).free, 1);
        let reservation = "cr-1".to_owned();
        core.learn_from_launch(&Err(CloudError::ReservationFull { reservation, message: String::new() }), now());
        assert_eq!(count(&shown, false, &core.ended).free, 0, "the next count is not corrected by what had no effect");
    }
}
