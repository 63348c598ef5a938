//! Pods that nothing lets leave their node, though it goes away and waits for them: they must not be disrupted, or their budget wants
//! all of its pods healthy. Nobody knows whether they will ever leave, so nothing is planned for them, as in Karpenter: a node that was
//! launched for them would stand empty. They count where they run. Once something frees them they are planned for.

use std::time::Duration;

use berth_api::labels;
use berth_state::{Event, StayingPods};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{Core, Job};
use crate::claim::{conditions, is_ready};
use crate::clock::after;
use crate::kind::Kind;
use crate::observed::{Object, Observed};
use crate::view::Protected;

/// How long is waited for more before it is seen who may leave.
const GATHER: Duration = Duration::from_secs(1);

impl Core {
    /// What is decided next is decided with those who stay now.
    pub(super) fn tell_who_stays(&mut self) {
        if !self.stayed_on.is_empty() || !self.view.tainted.is_empty() {
            let stays = self.who_stays();
            let told = self.state.apply(stays);
            debug_assert!(told.is_ok(), "who stays is no object that can be refused");
        }
    }

    /// What was seen may free somebody who stays.
    pub(super) fn look_who_stays(&mut self, observed: &Observed, now: Timestamp) {
        let is_stayed_on = |node: Option<&String>| node.is_some_and(|node| self.stayed_on.contains(&**node));
        let may_free = match observed {
            Observed::Applied(Object::Pod(pod)) => {
                is_stayed_on(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))
            }
            Observed::Applied(Object::Node(node)) => is_stayed_on(node.metadata.name.as_ref()),
            Observed::Applied(Object::NodeClaim(claim)) => {
                is_stayed_on(claim.status.as_ref().and_then(|status| status.node_name.as_ref()))
            }
            Observed::Applied(object) => object.kind() == Kind::PodDisruptionBudget,
            Observed::Deleted(kind, _) | Observed::Listed { kind, .. } => {
                matches!(kind, Kind::PodDisruptionBudget | Kind::Pod)
            }
            _ => false,
        };
        if may_free {
            self.look_who_stays_soon(now);
        }
    }

    /// Somebody may leave by now. That is looked at once a while: budgets are counted again with each of their pods.
    pub(super) fn look_who_stays_soon(&mut self, now: Timestamp) {
        if !self.stayed_on.is_empty() {
            self.queue.add_at(Job::Stays, after(now, GATHER));
        }
    }

    /// Decides anew where others stay than before.
    pub(super) fn step_stays(&mut self, now: Timestamp) {
        let stays = self.who_stays();
        self.apply(stays, now);
    }

    fn who_stays(&mut self) -> Event {
        let nodes = self.view.tainted.iter().filter_map(|name| self.view.nodes.get(name));
        let nodes = nodes.filter(|node| self.drains_for_ever(node)).filter_map(|node| node.metadata.name.as_deref());
        let pods = nodes.flat_map(|node| self.view.pods_on(node)).filter(|pod| pod.deletion.is_none());
        let pods = pods.filter_map(|pod| {
            let record = self.state.pod(&pod.name.namespace, &pod.name.name)?;
            Some((&**record, pod.do_not_disrupt == Some(Protected::Always)))
        });
        let mut staying = StayingPods::new();
        for pod in berth_disruption::never_evicted(&self.state, pods) {
            let on_node = staying.entry(pod.node().unwrap_or_default().into()).or_default();
            on_node.insert((pod.namespace().into(), (&**pod.name()).into()));
        }
        self.stayed_on = staying.keys().cloned().collect();
        Event::Stays(staying)
    }

    /// Whether a node that goes away waits for its pods for as long as they stay.
    fn drains_for_ever(&self, node: &Node) -> bool {
        if !is_ready(node) {
            return false;
        }
        let Some(claim) = self.view.claims_of_node(node).next() else { return false };
        let status = claim.status.as_ref();
        let is_told_to_end =
            status.is_some_and(|status| conditions::is_true(&status.conditions, conditions::INSTANCE_TERMINATING));
        let has_deadline = claim.spec.termination_grace_period.is_some()
            || claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(labels::TERMINATION_TIMESTAMP));
        let id = status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        claim.metadata.deletion_timestamp.is_some()
            && !has_deadline
            && !is_told_to_end
            && !self.interrupted.contains_key(id)
    }
}
