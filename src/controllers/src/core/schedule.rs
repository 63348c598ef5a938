//! The embedded scheduler: pods and Reservations are bound as the core decides, and who stays is told why.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_decisions::{Binding, Decision, Nomination, Refusal};
use berth_scheduling::reasons::{NO_NODES, NO_TYPE, is_about_launches, of_pool, said_by_pool};
use berth_scheduling::reservation::counts_reservations;
use berth_state::{ObjectRef, Patch};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Core, Job, class_key};
use crate::claim::{Eviction, Manner};
use crate::clock::{after, back_off, elapsed};
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::view::PodName;
use crate::write::{Op, Outcome, Write};

/// How often owners may be left out of a decision, until it is known where their Reservations come.
const HOLD_BACK_EVERY: Duration = Duration::from_secs(60);
/// The first and the longest delay after a pod could not be bound.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

impl Core {
    /// Binds what finds a node that is up.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        if self.decides_aside() {
            return self.schedule_at_once(now);
        }
        if let Some(decision) = self.decide(false, now) {
            let span = self.decision.clone();
            let _entered = span.enter();
            self.bind_all(&decision, now);
        }
    }

    /// How is decided now, and what the log says of it.
    pub(super) fn begin_decision(
        &mut self,
        launches: bool,
        now: Timestamp,
    ) -> (berth_decisions::Options, tracing::Span) {
        if let Some(end) = self.places.expire(now) {
            self.queue.add_at(Job::Provision, end);
        }
        self.end_nominations(now);
        self.end_avoiding(now);
        if launches {
            self.tell_who_stays(now);
        }
        let (expected, waited_for) = self.expected_and_waited_for(now);
        let options = berth_decisions::Options {
            solve: self.options.solve.clone(),
            launches,
            scheduler_names: self.options.scheduler_names.clone(),
            expected,
            waited_for,
            drawers: self.expected_drawers(now),
            come_first: self.first_pods(),
            spares_others: false,
            expected_first: false,
            // Whatever comes of the launches, they are decided about the next time.
            holds_back: launches && self.held_back.is_none_or(|at| elapsed(at, now) >= HOLD_BACK_EVERY),
        };
        let cause = if launches { self.launching_cause.take() } else { self.binding_cause.take() };
        (options, tracing::info_span!("decision", launches, cause))
    }

    /// Asks the core.
    pub(super) fn decide(&mut self, launches: bool, now: Timestamp) -> Option<Decision> {
        let (options, span) = self.begin_decision(launches, now);
        self.decision = span.clone();
        let _entered = span.enter();
        self.decided = Some(self.decided.unwrap_or(false) || launches);
        match self.decider.decide(&mut self.state, &options, now) {
            Ok(decision) => {
                self.swap_expected(&decision.bindings, now);
                self.take_places(&decision.bindings);
                Some(decision)
            }
            Err(error) => {
                tracing::debug!(%error, "nothing can be decided yet");
                None
            }
        }
    }

    /// Writes bindings, makes way for preemptors, and remembers which nodes are expected to be used.
    pub(super) fn bind_all(&mut self, decision: &Decision, now: Timestamp) {
        self.note_places(decision, now);
        self.expected_nodes.clear();
        self.expect_pre_binding();
        for nomination in &decision.nominations {
            if nomination.object.key.kind == berth_state::Kind::Pod && self.is_left_to_another(&nomination.object) {
                continue;
            }
            let expected = self.expected_nodes.entry(nomination.node.key.name.to_string()).or_default();
            expected.push(nomination.object.clone());
        }
        for binding in &decision.bindings {
            match binding.object.key.kind {
                berth_state::Kind::Pod => self.bind_pod(binding, now),
                berth_state::Kind::Reservation => self.hold(binding, now),
                _ => {}
            }
        }
        for eviction in &decision.evictions {
            let Some(uid) = eviction.pod.uid.as_deref() else { continue };
            let pod = pod_name(&eviction.pod);
            if !self.make_way_before_binding(&pod, uid, now) {
                self.want_eviction(&Eviction { pod, uid: uid.to_owned(), manner: Manner::Evict });
            }
        }
        for nomination in &decision.nominations {
            if nomination.after_evictions && nomination.object.key.kind == berth_state::Kind::Pod {
                self.nominate(nomination, now);
            } else if self.is_daemon_of_a_node_that_comes_up(nomination) {
                let (object, node) = (nomination.object.clone(), nomination.node.clone());
                let daemon = Binding { object, node, draws_from: None, annotations: BTreeMap::new(), waits: false };
                self.bind_pod(&daemon, now);
            }
        }
    }

    /// Daemons do not wait for a node to be ready: often it is they who make it so, or take its startup taint away.
    fn is_daemon_of_a_node_that_comes_up(&self, nomination: &Nomination) -> bool {
        let (object, node) = (&nomination.object, &nomination.node.key);
        if object.key.kind != berth_state::Kind::Pod || node.kind != berth_state::Kind::Node {
            return false;
        }
        let Some(spec) = self.view.nodes.get(&*node.name).and_then(|node| node.spec.as_ref()) else {
            return false;
        };
        let pod = self.view.pods.get(&pod_name(object));
        let taints = spec.taints.as_deref().unwrap_or_default();
        pod.is_some_and(|pod| {
            let names = self.options.scheduler_names.as_ref();
            pod.is_daemon_that_tolerates(taints) && names.is_none_or(|names| names.contains(&pod.scheduler_name))
        })
    }

    fn bind_pod(&mut self, binding: &Binding, now: Timestamp) {
        let pod = pod_name(&binding.object);
        let Some(uid) = binding.object.uid.as_deref() else { return };
        if let Some((_, until)) = self.unbindable.get(uid)
            && *until > now
        {
            return self.queue.add_at(Job::Schedule, *until);
        }
        if !self.has_volumes(binding, now) {
            return;
        }
        let patch = Patch::Bind { node: binding.node.key.name.clone(), annotations: binding.annotations.clone() };
        if self.assume(Job::Bind(pod), &binding.object, patch) {
            self.send_binding(binding, now);
        }
    }

    /// Sends a binding that the state assumes.
    pub(super) fn send_binding(&mut self, binding: &Binding, now: Timestamp) {
        let Some(uid) = binding.object.uid.clone() else { return };
        let (pod, node) = (pod_name(&binding.object), binding.node.key.name.to_string());
        let body = json!({
            "metadata": {"annotations": binding.annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let key = NamedObject::namespaced(Kind::Pod, pod.namespace.clone(), pod.name.clone());
        self.write(Job::Bind(pod.clone()), Write { key, uid: uid.to_string(), op: Op::Bind(body) });
        if self.view.pods.get(&pod).is_none_or(|known| !known.is_of_daemon_set) {
            self.pod_events.insert(node.clone(), now);
        }
        self.own_bindings.insert(uid.to_string(), pod);
        // Until the binding shows, nobody takes the node for empty.
        self.expected_nodes.entry(node).or_default().push(binding.object.clone());
    }

    pub(super) fn nominate(&mut self, nomination: &Nomination, now: Timestamp) {
        let Some(uid) = nomination.object.uid.as_deref() else { return };
        let pod = pod_name(&nomination.object);
        self.hold_for(&pod, uid, now);
        let node = nomination.node.key.name.clone();
        let known = self.state.pod(&pod.namespace, &pod.name);
        if known.and_then(|pod| pod.nominated_node()) == Some(&*node) {
            return;
        }
        let key = NamedObject::namespaced(Kind::Pod, pod.namespace.clone(), pod.name.clone());
        let op = Op::MergeStatus(json!({"status": {"nominatedNodeName": &*node}}));
        let write = Write { key, uid: uid.to_owned(), op };
        self.assume_and_write(Job::Nominate(pod), &nomination.object, Patch::Nominate { node: Some(node) }, write);
    }

    /// A binding, a hold or a nomination was answered.
    pub(super) fn bound(&mut self, job: &Job, write: &Write, outcome: &Outcome, now: Timestamp) {
        self.settle(job, write, outcome, now);
        self.queue.done(job);
        if let Job::Hold(reservation) = job {
            // Its watch may have told before this answer came, when nothing could be done about it.
            self.queue.add(Job::Reservation(reservation.clone()));
        }
        match outcome {
            Outcome::Done(_) => {
                self.unbindable.remove(&write.uid);
                if let (Op::Bind(body), Job::Bind(pod)) = (&write.op, job) {
                    self.count_bound(pod, now);
                    let node = body.pointer("/target/name").and_then(serde_json::Value::as_str).unwrap_or_default();
                    let message = format!("Successfully assigned {}/{} to {node}", write.key.namespace, write.key.name);
                    let (object, uid) = (write.key.clone(), write.uid.clone());
                    self.tell(Notice::of(object, uid, "Scheduled", message), now);
                }
            }
            Outcome::NotFound | Outcome::Fenced => {}
            _ => {
                if !matches!(outcome, Outcome::Unknown(_)) {
                    // Somebody else may have bound it.
                    self.own_bindings.remove(&write.uid);
                }
                self.leave_alone(&write.uid, now);
            }
        }
    }

    /// A pod could not be bound: it is tried again a while later.
    pub(super) fn leave_alone(&mut self, uid: &str, now: Timestamp) {
        let (failures, _) = self.unbindable.get(uid).copied().unwrap_or((0, now));
        let delay = back_off(RETRY, failures);
        self.unbindable.insert(uid.to_owned(), (failures.saturating_add(1), after(now, delay)));
        self.queue.add_at(Job::Schedule, after(now, delay));
    }

    /// Tells who stays, and why.
    pub(super) fn explain(&mut self, refusals: &[Refusal], now: Timestamp) {
        if refusals.is_empty() {
            return;
        }
        let n_nodes = self.n_nodes();
        let n_going = self.view.nodes.values().filter(|node| self.is_going(node)).count();
        let n_disrupted = self
            .view
            .tainted
            .iter()
            .filter_map(|name| self.view.nodes.get(name))
            .filter(|node| !self.is_going(node))
            .count();
        for refusal in refusals {
            let reasons = self.blaming_classes(&refusal.reasons);
            let reasons = if self.tolerates_disruption(refusal) {
                counting_all(reasons, [(BEING_REMOVED, n_going + n_disrupted)])
            } else {
                counting_all(reasons, [(DISRUPTED, n_disrupted), (BEING_REMOVED, n_going)])
            };
            let message = why_unschedulable(n_nodes, &reasons, self.view.pools.values().next().is_some());
            for object in &refusal.objects {
                match object.key.kind {
                    // Its condition says `SchedulingGated`: it asks for no node.
                    berth_state::Kind::Pod if self.is_gated(&object.key) => {}
                    berth_state::Kind::Pod => self.explain_pod(object, &message, now),
                    berth_state::Kind::Reservation => self.explain_reservation(object, &message, now),
                    _ => {}
                }
            }
        }
    }

    /// Whether a node is on its way out: pods are not compared with it.
    pub(super) fn is_going(&self, node: &Node) -> bool {
        let mut claims = self.view.claims_of_node(node);
        node.metadata.deletion_timestamp.is_some() || claims.any(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// Whether those who are refused put up with the taint of a node that is being disrupted.
    fn tolerates_disruption(&self, refusal: &Refusal) -> bool {
        let first = refusal.objects.first().filter(|object| object.key.kind == berth_state::Kind::Pod);
        first.and_then(|object| self.view.pods.get(&pod_name(object))).is_some_and(|pod| pod.tolerates_disruption)
    }

    /// The nodes that pods were compared with; a launch in flight is one, too.
    pub(super) fn n_nodes(&self) -> usize {
        let in_flight = self
            .view
            .claims
            .values()
            .filter(|claim| claim.status.as_ref().is_none_or(|status| status.node_name.is_none()))
            .count();
        self.view.nodes.len() + in_flight
    }

    /// A NodePool without instance types is told with what is wrong with its node class, if something is, and others with the zones
    /// that their node class leaves alone.
    fn blaming_classes(&self, reasons: &[(String, u32)]) -> Vec<(String, u32)> {
        let mut reasons = reasons.to_vec();
        for (reason, _) in &mut reasons {
            let Some((pool, said)) = said_by_pool(reason) else { continue };
            let blamed = if said == NO_TYPE { self.blamed_class(pool) } else { None };
            if let Some(why) = blamed.or_else(|| Some(format!("{said}; {}", self.zones_left_alone(pool)?))) {
                *reason = of_pool(pool, &why);
            }
        }
        reasons
    }

    /// What is said of the zones that the node class of a NodePool leaves alone, if there are some.
    fn zones_left_alone(&self, pool: &str) -> Option<String> {
        let class = self.view.pools.get(pool)?.spec.template.spec.node_class_ref.as_ref()?;
        let zones: Vec<&str> = self.offers.get(&class_key(class))?.left_alone.keys().map(String::as_str).collect();
        let (zone, is) = if zones.len() == 1 { ("zone", "is") } else { ("zones", "are") };
        let all = zones.join(", ");
        (!zones.is_empty()).then(|| format!("{zone} {all} {is} left alone, as machines did not join there"))
    }

    /// Whether a pod or Reservation is planned for a node, or being bound to it: it is not empty for long.
    pub(super) fn is_expected(&self, node: &str) -> bool {
        let still_waits = |object: &ObjectRef| {
            if object.key.kind == berth_state::Kind::Pod {
                let pod = self.view.pods.get(&pod_name(object));
                return pod.is_some_and(|pod| object.uid.as_deref() == Some(&pod.uid) && pod.node.is_none());
            }
            let reservation = self.view.reservations.get(&*object.key.name);
            reservation.is_some_and(|known| known.status.as_ref().is_none_or(|known| known.node_name.is_none()))
        };
        self.expected_nodes.get(node).is_some_and(|expected| expected.iter().any(still_waits))
    }
}

/// What nodes say that are on their way out.
const BEING_REMOVED: &str = "node(s) are being removed";
/// What nodes say that a command is about to remove, as kube-scheduler does.
const DISRUPTED: &str = "node(s) had untolerated taint {karpenter.sh/disrupted: }";

/// Reasons with those nodes that pods are not compared with: `kubectl` still shows them.
fn counting_all<const N: usize>(mut reasons: Vec<(String, u32)>, others: [(&str, usize); N]) -> Vec<(String, u32)> {
    let others: Vec<_> = others.into_iter().filter(|(_, count)| *count > 0).collect();
    if !others.is_empty() {
        reasons.retain(|(reason, _)| reason != NO_NODES);
    }
    for (reason, count) in others {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, known)) => *known = known.saturating_add(count),
            None => reasons.push((reason.to_owned(), count)),
        }
    }
    reasons
}

/// Reasons in kube-scheduler's form, and after them what NodePools say of a new node, counted in instance types.
pub(super) fn why_unschedulable(n_nodes: usize, reasons: &[(String, u32)], has_pools: bool) -> String {
    let of_launches = |reason: &str| said_by_pool(reason).is_some() || is_about_launches(reason);
    let (pools, nodes): (Vec<_>, Vec<_>) = reasons.iter().partition(|(reason, _)| of_launches(reason));
    let in_words = |reasons: Vec<String>| reasons.join(", ");
    let nodes = in_words(
        nodes
            .iter()
            .map(|(reason, count)| match count {
                0 if !counts_reservations(reason) => reason.clone(),
                _ => format!("{count} {reason}"),
            })
            .collect(),
    );
    let pools = in_words(
        pools
            .iter()
            .map(|(reason, count)| match count {
                0 => reason.clone(),
                1 => format!("{reason} (1 instance type)"),
                _ => format!("{reason} ({count} instance types)"),
            })
            .collect(),
    );
    let nodes = if nodes.is_empty() { String::new() } else { format!(": {nodes}") };
    let pools = match (pools.is_empty(), has_pools) {
        (false, _) => format!(" No new node: {pools}."),
        (true, false) => " No new node: there is no NodePool.".to_owned(),
        (true, true) => String::new(),
    };
    format!("0/{n_nodes} nodes are available{nodes}.{pools}")
}

/// The name of a pod that is referred to.
pub(super) fn pod_name(object: &ObjectRef) -> PodName {
    PodName { namespace: object.key.namespace.to_string(), name: object.key.name.to_string() }
}

/// Who is planned for which node.
pub(super) type ExpectedNodes = BTreeMap<String, Vec<ObjectRef>>;

#[cfg(test)]
mod tests {
    use super::{BEING_REMOVED, DISRUPTED, NO_NODES, counting_all, why_unschedulable};

    #[test]
    fn nodes_that_are_being_removed_are_counted_in_the_reasons() {
        let said = |reasons: &[(&str, u32)], n_going| {
            let reasons = reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
            why_unschedulable(3, &counting_all(reasons, [(DISRUPTED, 0), (BEING_REMOVED, n_going)]), true)
        };
        let expected = "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) are being removed.";
        assert_eq!(said(&[("Insufficient cpu", 2)], 1), expected);
        // Some of those that pods are compared with say the same.
        assert_eq!(said(&[(BEING_REMOVED, 2)], 1), "0/3 nodes are available: 3 node(s) are being removed.");
        let none = (NO_NODES, 0);
        assert_eq!(said(&[none], 3), "0/3 nodes are available: 3 node(s) are being removed.");
        assert_eq!(said(&[none], 0), "0/3 nodes are available: no nodes available to schedule pods.");
    }

    #[test]
    fn reservations_are_counted_where_there_are_none_too() {
        let reasons = [
            ("node(s) no reservations match reservation affinity".to_owned(), 2),
            ("Reservation(s) matched owner total".to_owned(), 0),
        ];
        assert_eq!(
            why_unschedulable(2, &counting_all(reasons.to_vec(), []), true),
            "0/2 nodes are available: 2 node(s) no reservations match reservation affinity, \
             0 Reservation(s) matched owner total."
        );
        let beside = counting_all(reasons.to_vec(), [(BEING_REMOVED, 1)]);
        assert!(beside.contains(&reasons[1]), "{beside:?}");
    }

    #[test]
    fn reasons_of_nodes_and_of_pools_are_counted_apart() {
        let reasons = [("Insufficient cpu".to_owned(), 20), ("NodePool general: Insufficient cpu".to_owned(), 225)];
        assert_eq!(
            why_unschedulable(20, &reasons, true),
            "0/20 nodes are available: 20 Insufficient cpu. \
             No new node: NodePool general: Insufficient cpu (225 instance types)."
        );
        let sold_out = berth_scheduling::reasons::sold_out_with("topology.kubernetes.io/zone", "a");
        let beside = [(reasons[1].0.clone(), 1), (sold_out, 0)];
        assert_eq!(
            why_unschedulable(0, &beside, true),
            "0/0 nodes are available. No new node: NodePool general: Insufficient cpu (1 instance type), \
             no instance is left of the types that have topology.kubernetes.io/zone=a."
        );
        assert_eq!(why_unschedulable(0, &[], false), "0/0 nodes are available. No new node: there is no NodePool.");
    }
}
