//! Which pods come to which launched node, until they are there. They are not planned again meanwhile, and bound there first:
//! otherwise whoever is bound first takes the room that others were given by the plan, and more nodes are launched for those.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::NodeClaim;
use berth_decisions::Binding;
use jiff::Timestamp;

use super::Core;
use super::provision::Planned;
use super::schedule::pod_name;
use crate::claim::conditions;
use crate::clock::elapsed;
use crate::view::PodName;

/// For how long a pod is expected on its node once that is up: it may have to wait for another one's.
const GRACE: Duration = Duration::from_secs(10);
/// For how long at most, while other nodes of its batch come up.
const MOST: Duration = Duration::from_secs(60);

impl Core {
    /// Pods whose node comes up, or did a moment ago, and its name or its NodeClaim's.
    pub(super) fn expected_pods(&self, now: Timestamp) -> berth_decisions::ExpectedNodes {
        let waits = |uid: &String, pod: &PodName| {
            self.view.pods.get(pod).is_some_and(|known| known.node.is_none() && known.uid == *uid)
        };
        let planned = self.planned.iter().filter_map(|(uid, planned)| Some((uid, planned, planned.pod.as_ref()?)));
        let planned: Vec<(&Planned, &PodName)> =
            planned.filter(|(uid, _, pod)| waits(uid, pod)).map(|(_, planned, pod)| (planned, pod)).collect();
        let claims: BTreeMap<&str, Option<(&str, Duration)>> =
            planned.iter().map(|(planned, _)| (planned.claim.as_str(), self.coming(&planned.claim, now))).collect();
        let comes_up = |claim: &str| claims.get(claim).is_some_and(|known| known.is_some_and(|(_, up)| up.is_zero()));
        let batches: BTreeSet<Timestamp> =
            planned.iter().filter(|(planned, _)| comes_up(&planned.claim)).map(|(planned, _)| planned.last).collect();
        let mut expected = berth_decisions::ExpectedNodes::new();
        for (planned, PodName { namespace, name }) in planned {
            let Some(Some((node, up))) = claims.get(planned.claim.as_str()) else { continue };
            if *up <= GRACE || (*up <= MOST && batches.contains(&planned.last)) {
                expected.insert(format!("{namespace}/{name}").into(), (*node).into());
            }
        }
        expected
    }

    // The name of a NodeClaim's node, or its own while that is not there, and for how long the node has been up.
    fn coming<'a>(&'a self, claim: &'a str, now: Timestamp) -> Option<(&'a str, Duration)> {
        let Some(known) = self.view.claims.get(&claim.to_owned()) else {
            // Its creation was not seen yet, or it is gone.
            let is_new = self.queue.is_running(&super::Job::Launch(claim.to_owned()));
            return is_new.then_some((claim, Duration::ZERO));
        };
        if known.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = known.status.as_ref();
        let node = status.and_then(|status| status.node_name.as_deref()).filter(|node| !node.is_empty());
        let node = node.filter(|node| self.view.nodes.get(&(*node).to_owned()).is_some()).unwrap_or(claim);
        Some((node, up_for(known, now)))
    }

    /// Pods that are alike stand in for each other: whoever is bound where another was expected leaves it its own place.
    pub(super) fn swap_expected(&mut self, bindings: &[Binding], expected: &berth_decisions::ExpectedNodes) {
        if expected.is_empty() {
            return;
        }
        let bound: BTreeSet<&str> = bindings.iter().filter_map(|binding| binding.object.uid.as_deref()).collect();
        // By owner and node: those who are still to come.
        let mut left: BTreeMap<(String, Box<str>), Vec<String>> = BTreeMap::new();
        for (uid, planned) in self.planned.iter().filter(|(uid, _)| !bound.contains(uid.as_str())) {
            let Some(PodName { namespace, name }) = &planned.pod else { continue };
            if let Some(node) = expected.get(&*format!("{namespace}/{name}")) {
                left.entry((planned.owner.clone(), node.clone())).or_default().push(uid.clone());
            }
        }
        for binding in bindings {
            let Some(uid) = binding.object.uid.as_deref() else { continue };
            let name = pod_name(&binding.object);
            let own = expected.get(&*format!("{}/{}", name.namespace, name.name));
            if own.is_some_and(|node| **node == *binding.node.key.name) {
                continue;
            }
            let owner = self.owner_of(&name);
            let there = (owner.clone(), (*binding.node.key.name).into());
            let Some(other) = left.get_mut(&there).and_then(Vec::pop) else { continue };
            if let Some(node) = own {
                // A third may be bound to the place that is its now.
                left.entry((owner, node.clone())).or_default().push(other.clone());
            }
            let given = self.planned.get(uid).map(|planned| (planned.claim.clone(), planned.last));
            if let Some(planned) = self.planned.get_mut(&other) {
                // Its node went to one that none was launched for: one is to be launched for it instead.
                let (claim, last) = given.unwrap_or_else(|| (String::new(), planned.last));
                if claim.is_empty() {
                    planned.n_launches = planned.n_launches.saturating_sub(1);
                }
                (planned.claim, planned.last) = (claim, last);
            }
        }
    }

    /// The uid of a pod's controller.
    pub(super) fn owner_of(&self, pod: &PodName) -> String {
        let known = self.state.get_as::<k8s_openapi::api::core::v1::Pod>(&pod.namespace, &pod.name);
        let owners = known.and_then(|pod| pod.metadata.owner_references.as_deref()).unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone()).unwrap_or_default()
    }
}

fn up_for(claim: &NodeClaim, now: Timestamp) -> Duration {
    let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if !conditions::is_true(all, conditions::INITIALIZED) {
        return Duration::ZERO;
    }
    let since = conditions::get(all, conditions::INITIALIZED).map_or(now, |known| known.last_transition_time.0);
    // At least something, to be told from one that comes up.
    elapsed(since, now).max(Duration::from_millis(1))
}
