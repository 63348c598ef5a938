//! Pods that have a place and wait: they are told what for. Their node takes longer than nodes do until it may be used, as where
//! nobody removes a startup taint; others took the places that they had before; or a rule about other pods keeps them off until
//! those have left or have come.

use std::time::Duration;

use berth_decisions::Nomination;
use jiff::Timestamp;

use super::schedule::pod_name;
use super::{Core, Job};
use crate::claim::{conditions, created};
use crate::clock::{after, elapsed};

/// A NodeClaim that is older comes up slowly, and a pod that is older has waited for long. Most machines boot and join within it,
/// and of those nobody wants to hear.
const SLOW: Duration = Duration::from_secs(60);

/// How what is said of such a node begins.
const WAITING: &str = "waiting for nodeclaim";

impl Core {
    /// Tells pods what they wait for whom rules about others keep waiting, those whose node comes up slowly, and those that were told
    /// why they have none before one was launched for them.
    pub(super) fn explain_waiting(&mut self, nominations: &[Nomination], now: Timestamp) {
        for nomination in nominations.iter().filter(|nomination| !nomination.after_evictions) {
            if nomination.object.key.kind != berth_state::Kind::Pod {
                continue;
            }
            if let Some(message) = nomination.waits_for.as_deref() {
                self.explain_pod(&nomination.object, message, now);
                continue;
            }
            if let Some(again) = self.was_told_lately(nomination, now) {
                self.queue.add_at(Job::Schedule, again);
            } else if let Some(message) = self.slow_node(nomination, now) {
                self.explain_pod(&nomination.object, &message, now);
            }
        }
    }

    /// When a pod is told again what its node waits for, where it was told so just now: of each step of each node all its pods would be
    /// told, thousands of them.
    fn was_told_lately(&self, nomination: &Nomination, now: Timestamp) -> Option<Timestamp> {
        let uid = nomination.object.uid.as_deref()?;
        let (message, at) = self.unscheduled.last_of(&pod_name(&nomination.object), uid)?;
        let again = after(at, SLOW);
        (again > now && message.starts_with(WAITING)).then_some(again)
    }

    /// What the node of a nomination waits for, where it or the pod has done so for long.
    fn slow_node(&self, nomination: &Nomination, now: Timestamp) -> Option<String> {
        let name = nomination.node.key.name.to_string();
        let claim = match nomination.node.key.kind {
            berth_state::Kind::NodeClaim => self.view.claims.get(&name)?,
            _ => self.view.claims_of_node(self.view.nodes.get(&name)?).next()?,
        };
        let pod = self.state.pod(&nomination.object.key.namespace, &nomination.object.key.name);
        let since = [created(&claim.metadata), pod.and_then(|pod| pod.created())];
        let is_slow = since.into_iter().flatten().any(|since| elapsed(since, now) >= SLOW);
        // What it was told before does not hold any more.
        let was_told = pod.is_some_and(|pod| pod.unscheduled().is_some());
        let own = claim.metadata.name.as_deref().unwrap_or_default();
        if claim.metadata.uid.as_ref().is_some_and(|uid| self.nodeless.contains_key(uid)) {
            return Some(format!("{WAITING} {own} to end: its node is gone"));
        }
        let all = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut steps = [conditions::LAUNCHED, conditions::REGISTERED, conditions::INITIALIZED]
            .into_iter()
            .filter(|_| is_slow || was_told);
        let open = steps.find(|step| !conditions::is_true(all, step))?;
        let why = conditions::get(all, open).map_or("", |condition| condition.message.as_str());
        let why = if why.is_empty() { format!("not {open} yet") } else { why.to_owned() };
        Some(format!("{WAITING} {own} to come up: {why}"))
    }
}
