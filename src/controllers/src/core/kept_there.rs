//! Pods that nothing lets leave their node, though it goes away and waits for them: they must not be disrupted, or their budget wants
//! all of its pods healthy. Nobody knows whether they will ever leave, so nothing is planned for them, as in Karpenter: a node that was
//! launched for them would stand empty. They count where they run. Once something frees them they are planned for, and shortly before
//! they are deleted, where their node has to be gone by some time.

use std::time::Duration;

use berth_api::labels;
use berth_disruption::WhoStays;
use berth_state::{Event, PodRecord, StayingPods};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{Core, Job};
use crate::claim::{conditions, is_ready};
use crate::clock::after;
use crate::kind::Kind;
use crate::observed::{Object, Observed};

/// How long is waited for more before it is seen who may leave.
const GATHER: Duration = Duration::from_secs(1);

/// How long a node that goes away waits for its pods.
enum Drains {
    /// It does not: it stands, or its machine ends.
    Not,
    /// Until it has to be gone.
    Until(Timestamp),
    /// For as long as they stay.
    WhileTheyStay,
}

impl Core {
    /// What is decided next is decided with those who stay now.
    pub(super) fn tell_who_stays(&mut self, now: Timestamp) {
        if !self.stayed_on.is_empty() || !self.view.tainted.is_empty() {
            let stays = self.who_stays(now);
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
        let stays = self.who_stays(now);
        self.apply(stays, now);
    }

    fn who_stays(&mut self, now: Timestamp) -> Event {
        let who = WhoStays::of(&self.state);
        let mut staying = StayingPods::new();
        let mut next = None::<Timestamp>;
        for node in self.view.tainted.iter().filter_map(|name| self.view.nodes.get(name)) {
            let (pods, until) = self.who_stays_on(node, &who, now);
            next = next.into_iter().chain(until).min();
            for pod in pods {
                let on_node = staying.entry(pod.node().unwrap_or_default().into()).or_default();
                on_node.insert((pod.namespace().into(), (&**pod.name()).into()));
            }
        }
        if let Some(until) = next {
            self.queue.add_at(Job::Stays, until);
        }
        self.stayed_on = staying.keys().cloned().collect();
        Event::Stays(staying)
    }

    /// The pods that stay on a node, if it goes away, and when the first of them does not any more.
    pub(super) fn who_stays_on<'s>(
        &self,
        node: &Node,
        who: &WhoStays<'s>,
        now: Timestamp,
    ) -> (Vec<&'s PodRecord>, Option<Timestamp>) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        match self.drains(node) {
            Drains::WhileTheyStay => who.on(name, None, now),
            Drains::Until(deadline) => who.on(name, Some(deadline), now),
            Drains::Not => (Vec::new(), None),
        }
    }

    /// How long a node that goes away waits for its pods.
    fn drains(&self, node: &Node) -> Drains {
        let Some(claim) = self.view.claims_of_node(node).next().filter(|_| is_ready(node)) else { return Drains::Not };
        let Some(deletion) = &claim.metadata.deletion_timestamp else { return Drains::Not };
        let status = claim.status.as_ref();
        let is_told_to_end =
            status.is_some_and(|status| conditions::is_true(&status.conditions, conditions::INSTANCE_TERMINATING));
        let id = status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        if is_told_to_end || self.interrupted.contains_key(id) {
            return Drains::Not;
        }
        let annotations = claim.metadata.annotations.as_ref();
        if let Some(written) = annotations.and_then(|all| all.get(labels::TERMINATION_TIMESTAMP)) {
            return written.parse().map_or(Drains::Not, Drains::Until);
        }
        let grace = claim.spec.termination_grace_period.as_ref().and_then(berth_api::GoDuration::to_std);
        grace.map_or(Drains::WhileTheyStay, |grace| Drains::Until(after(deletion.0, grace)))
    }
}
