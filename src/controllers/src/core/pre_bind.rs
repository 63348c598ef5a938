//! Pods that wait for their volumes before they are bound, as kube-scheduler's PreBind has them wait.
//!
//! Their node is settled: the state assumes the binding from now on, so that neither their room nor the domain that a spread or
//! an affinity let them into is another's meanwhile. A volume that is made for a node ties its pod to that node's zone: whoever
//! loses the place then may wait for ever.
//!
//! A pod gives its place up where the node goes away, a volume is bound that the node does not reach, a provisioner gives up, the
//! Reservation ends that it would draw from, a more important pod needs the room, or ten minutes have passed, as with
//! kube-scheduler. It is looked at anew then, with all others.
//!
//! A process that starts anew assumes nothing. What is left is the nomination.

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use berth_decisions::{Binding, Nomination};
use berth_state::{Event, Kind as Of, ObjectRef, Outcome as Settled, Patch};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};

use super::schedule::pod_name;
use super::volumes::{SELECTED_NODE, VolumesOn};
use super::{Core, Job};
use crate::claim::is_disrupted;
use crate::clock::after;
use crate::view::PodName;
pub(super) use waiting::PreBinding;
use waiting::Waiting;

/// How often a pod that waits for its volumes is looked at, whatever is told of them.
const LOOK: Duration = Duration::from_secs(2);
/// For how long a pod waits for its volumes on one node: `bindTimeoutSeconds` of kube-scheduler.
const MOST: Duration = Duration::from_secs(600);

/// Why a pod gives its place up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GaveUp {
    /// It is gone, being deleted, or bound by somebody else.
    PodGone,
    /// The node is gone, or is about to go.
    NodeGoes,
    /// Another pod needs the room.
    Preempted,
    /// One of its claims is gone.
    ClaimGone,
    /// The Reservation that it would draw from is gone, or its time is over.
    ReservationGone,
    /// A volume cannot be mounted there.
    VolumeElsewhere,
    /// A provisioner gave up.
    NotProvisioned,
    /// None of the volumes that there are is left.
    NoVolume,
    /// It took too long.
    TimedOut,
}

impl Core {
    /// A pod is to be bound to a node: whether its volumes let that be done now. Where they are on their way its place is its
    /// own until then.
    pub(super) fn has_volumes(&mut self, binding: &Binding, now: Timestamp) -> bool {
        let (claims, is_enough) = match self.make_volumes(binding, now) {
            VolumesOn::Bound => return true,
            VolumesOn::Awaited(claims) => (claims, true),
            VolumesOn::Missing(claims) => (claims, false),
        };
        let (object, node) = (&binding.object, &binding.node);
        let claims: Vec<String> = claims.iter().map(|claim| format!("{claim:?}")).collect();
        let message =
            format!("waiting for persistentvolumeclaim {} to be bound on node {}", claims.join(", "), node.key.name);
        self.explain_pod(object, &message, now);
        // It is not empty, and nobody else is planned there.
        self.expected_nodes.entry(node.key.name.to_string()).or_default().push(object.clone());
        // Who finds no volume there holds no room.
        if is_enough {
            self.await_volumes(binding, now);
        } else {
            self.queue.add_at(Job::Schedule, after(now, LOOK));
        }
        false
    }

    fn await_volumes(&mut self, binding: &Binding, now: Timestamp) {
        let (pod, node) = (pod_name(&binding.object), &binding.node);
        let job = Job::Bind(pod.clone());
        if self.queue.is_running(&job) {
            return;
        }
        let (object, node) = (binding.object.clone(), node.clone());
        self.nominate(
            &Nomination {
                object,
                node: node.clone(),
                draws_from: None,
                after_evictions: false,
                waits_for: None,
                is_kept_out: false,
            },
            now,
        );
        let patch = Patch::Bind { node: node.key.name, annotations: binding.annotations.clone() };
        if !self.assume(job.clone(), &binding.object, patch) {
            return;
        }
        self.queue.start(job);
        self.queue.add_at(Job::PreBind(pod.clone()), after(now, LOOK));
        let claims = self.view.pods.get(&pod).map(|known| known.volume_claims.clone()).unwrap_or_default();
        self.pre_binding.insert(pod, Waiting::new(binding.clone(), claims, after(now, MOST)));
    }

    /// Pods that wait for their volumes on a node look again.
    pub(super) fn look_at_pre_binding_on(&mut self, node: &str) {
        for pod in self.pre_binding.on_node(node) {
            self.queue.add(Job::PreBind(pod.clone()));
        }
    }

    /// A pod looks again if it waits for its volumes.
    pub(super) fn look_at_pre_binding(&mut self, pod: &PodName) {
        if self.pre_binding.get(pod).is_some() {
            self.queue.add(Job::PreBind(pod.clone()));
        }
    }

    /// Pods that wait for a claim look again.
    pub(super) fn look_at_users_of(&mut self, claim: &PodName) {
        for pod in self.pre_binding.users_of(claim) {
            self.queue.add(Job::PreBind(pod.clone()));
        }
    }

    /// Looks at a pod that waits for its volumes: binds it, has it wait on, or has it give its place up.
    pub(super) fn step_pre_bind(&mut self, pod: &PodName, now: Timestamp) {
        let Some(mut waiting) = self.pre_binding.remove(pod) else {
            return self.queue.forget(&Job::PreBind(pod.clone()));
        };
        let found = match self.look_at(pod, &mut waiting, now) {
            Ok(are_known) => match self.make_volumes(&waiting.binding, now) {
                VolumesOn::Missing(_) => Err(GaveUp::NoVolume),
                VolumesOn::Bound => Ok(are_known),
                VolumesOn::Awaited(_) => Ok(false),
            },
            Err(why) => Err(why),
        };
        match found {
            Ok(true) => self.send_binding(&waiting.binding, now),
            Ok(false) => {
                self.queue.add_at(Job::PreBind(pod.clone()), after(now, LOOK));
                self.pre_binding.insert(pod.clone(), waiting);
            }
            Err(why) => self.end_waiting(pod, &waiting, why, now),
        }
    }

    /// Whether the volumes of a pod that are bound are all known; or why it gives its place up.
    fn look_at(&mut self, pod: &PodName, waiting: &mut Waiting, now: Timestamp) -> Result<bool, GaveUp> {
        let binding = &waiting.binding;
        let record = self.view.pods.get(pod).filter(|record| Some(&*record.uid) == binding.object.uid.as_deref());
        let Some(record) = record.filter(|record| record.node.is_none() && record.deletion.is_none()) else {
            return Err(GaveUp::PodGone);
        };
        let name = &*binding.node.key.name;
        let uid = binding.node.uid.as_deref();
        let is_it = |node: &&Arc<Node>| uid.is_none() || node.metadata.uid.as_deref() == uid;
        if self.view.nodes.get(name).filter(is_it).is_none_or(|node| self.is_going(node) || is_disrupted(node)) {
            return Err(GaveUp::NodeGoes);
        }
        if binding.draws_from.as_ref().is_some_and(|room| !self.still_holds(room)) {
            return Err(GaveUp::ReservationGone);
        }
        let mut are_known = true;
        for claim in record.volume_claims.clone() {
            let Some(known) = self.state.get_as::<PersistentVolumeClaim>(&pod.namespace, &claim) else {
                return Err(GaveUp::ClaimGone);
            };
            let selected = known.metadata.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
            let volume = known.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            let is_bound = volume.is_some_and(|volume| !volume.is_empty());
            if selected.is_some_and(|selected| selected == name) {
                waiting.told.insert(claim.clone());
            } else if selected.is_none() && !is_bound && waiting.told.contains(&claim) {
                return Err(GaveUp::NotProvisioned);
            }
            match self.state.reaches_volume_of((&pod.namespace, &claim), name, now) {
                Some(false) => return Err(GaveUp::VolumeElsewhere),
                reaches => are_known &= reaches.is_some(),
            }
        }
        if waiting.until <= now { Err(GaveUp::TimedOut) } else { Ok(are_known) }
    }

    /// Whether a Reservation still holds its room for owners.
    fn still_holds(&self, room: &ObjectRef) -> bool {
        if room.key.kind != Of::Reservation {
            return true;
        }
        let known = self.view.reservations.get(&*room.key.name);
        let known = known.filter(|known| room.uid.is_none() || known.metadata.uid.as_deref() == room.uid.as_deref());
        known.is_some_and(|known| {
            let is_over = known.status.as_ref().is_some_and(|status| status.phase.is_terminal());
            known.metadata.deletion_timestamp.is_none() && !is_over
        })
    }

    /// A pod that waits for its volumes is to make way: it has no node that it could be evicted from. False where it does not wait.
    pub(super) fn make_way_before_binding(&mut self, pod: &PodName, uid: &str, now: Timestamp) -> bool {
        let is_it = |waiting: &Waiting| waiting.binding.object.uid.as_deref() == Some(uid);
        if !self.pre_binding.get(pod).is_some_and(is_it) {
            return false;
        }
        if let Some(waiting) = self.pre_binding.remove(pod) {
            self.end_waiting(pod, &waiting, GaveUp::Preempted, now);
        }
        true
    }

    fn end_waiting(&mut self, pod: &PodName, waiting: &Waiting, why: GaveUp, now: Timestamp) {
        tracing::info!(
            namespace = pod.namespace,
            pod = pod.name,
            node = &*waiting.binding.node.key.name,
            ?why,
            "a pod waits for its volumes on that node no more"
        );
        let (job, uid) = (Job::Bind(pod.clone()), waiting.binding.object.uid.as_deref().unwrap_or_default());
        // Whatever it was may be so at the next try.
        if !matches!(why, GaveUp::PodGone | GaveUp::Preempted) {
            self.leave_alone(uid, now);
        }
        if let Some(assumption) = self.assumed.remove(&job) {
            self.apply(Event::Settled { assumption, outcome: Settled::Refused }, now);
        }
        self.queue.done(&job);
        self.queue.forget(&Job::PreBind(pod.clone()));
        self.queue.add(Job::Schedule);
    }

    /// Nodes that pods wait on for their volumes are not empty.
    pub(super) fn expect_pre_binding(&mut self) {
        for (_, waiting) in self.pre_binding.iter() {
            let expected = self.expected_nodes.entry(waiting.binding.node.key.name.to_string()).or_default();
            expected.push(waiting.binding.object.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
    use serde_json::{Value, json};

    use berth_state::Key;

    use super::super::tests::at_rest;
    use super::super::volumes::tests::{applied, now, to_n1, user};
    use super::*;
    use crate::core::{Effect, Input};
    use crate::kind::Kind;
    use crate::observed::Observed;
    use crate::write::{Op, Outcome};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    fn pod_of(name: &str) -> PodName {
        PodName { namespace: "default".into(), name: name.into() }
    }

    /// The claim of the pod, told this node, with this volume.
    fn claim(version: u32, node: Option<&str>, volume: Option<&str>) -> Value {
        json!({"metadata": {"name": "data", "namespace": "default", "uid": "data", "resourceVersion": version.to_string(),
            "annotations": node.map(|node| json!({SELECTED_NODE: node}))},
            "spec": {"volumeName": volume}, "status": {"phase": "Pending"}})
    }

    fn volume_on(node: &str) -> Value {
        json!({"metadata": {"name": "made", "uid": "made", "resourceVersion": "9"},
            "spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}},
            "status": {"phase": "Bound"}})
    }

    /// A core with a pod that waits for its volume on the node n1, and nothing written yet that anybody has to look at.
    fn waiting() -> Core {
        let mut core = at_rest(2);
        applied::<PersistentVolumeClaim>(&mut core, claim(9, None, None));
        applied::<Pod>(&mut core, user("late", "data"));
        assert!(!core.has_volumes(&to_n1("late"), now()));
        let told = core.effects.iter().any(|effect| matches!(effect, Effect::Write(Some(Job::Volume(_)), _)));
        assert!(told, "the provisioner is told the node");
        answered(&mut core);
        core
    }

    /// All writes about volumes are answered, with nothing that is to be read.
    fn answered(core: &mut Core) {
        for effect in std::mem::take(&mut core.effects) {
            if let Effect::Write(job @ Some(Job::Volume(_)), write) = effect {
                core.handle(Input::Written(job, write, Outcome::Done(None)), now());
            }
        }
    }

    fn node_of_late(core: &Core) -> Option<&str> {
        core.state.pod("default", "late").and_then(|pod| pod.node())
    }

    /// To which nodes the pod is bound now.
    fn bound(core: &mut Core, now: Timestamp) -> Vec<Value> {
        let effects = core.work(now);
        let writes = effects.into_iter().filter_map(|effect| match effect {
            Effect::Write(Some(Job::Bind(_)), write) => Some(write.op),
            _ => None,
        });
        writes
            .filter_map(|op| if let Op::Bind(body) = op { Some(body["target"]["name"].clone()) } else { None })
            .collect()
    }

    #[test]
    fn a_pod_that_waits_for_its_volume_counts_on_its_node_and_is_bound_once_it_has_it() {
        let mut core = waiting();
        assert_eq!(node_of_late(&core), Some("n1"), "its room, and its place in spreads, are its own");
        assert!(core.is_expected("n1"), "the node is not empty");
        core.expected_nodes.clear();
        core.expect_pre_binding();
        assert!(core.is_expected("n1"));
        applied::<PersistentVolumeClaim>(&mut core, claim(10, Some("n1"), None));
        assert_eq!(bound(&mut core, now()), [Value::Null; 0]);
        applied::<PersistentVolumeClaim>(&mut core, claim(11, Some("n1"), Some("made")));
        assert_eq!(bound(&mut core, now()), [Value::Null; 0], "where the volume is nobody has told yet");
        applied::<PersistentVolume>(&mut core, volume_on("n1"));
        assert_eq!(bound(&mut core, now()), ["n1"]);
        assert!(core.pre_binding.iter().next().is_none() && core.queue.is_running(&Job::Bind(pod_of("late"))));
        assert_eq!(node_of_late(&core), Some("n1"));
    }

    /// What has a pod give its place up, as its own case each: nothing is bound then, and it is pending again.
    #[test]
    fn a_pod_gives_its_place_up_where_nothing_will_come_of_it() {
        type Case = (&'static str, fn(&mut Core), Duration);
        let cases: [Case; 6] = [
            (
                "its volume is elsewhere",
                |core| {
                    applied::<PersistentVolume>(core, volume_on("n0"));
                    applied::<PersistentVolumeClaim>(core, claim(11, Some("n1"), Some("made")));
                },
                Duration::ZERO,
            ),
            (
                "its provisioner gave up",
                |core| {
                    applied::<PersistentVolumeClaim>(core, claim(10, Some("n1"), None));
                    core.step_pre_bind(&pod_of("late"), now());
                    assert_eq!(node_of_late(core), Some("n1"));
                    applied::<PersistentVolumeClaim>(core, claim(11, None, None));
                },
                Duration::ZERO,
            ),
            (
                "its claim is gone",
                |core| {
                    let metadata = ObjectMeta {
                        name: Some("data".to_owned()),
                        namespace: Some("default".to_owned()),
                        uid: Some("data".to_owned()),
                        resource_version: Some("12".to_owned()),
                        ..ObjectMeta::default()
                    };
                    core.handle(
                        Input::Observed(Observed::Deleted(Kind::PersistentVolumeClaim, Box::new(metadata))),
                        now(),
                    );
                },
                Duration::ZERO,
            ),
            (
                "its node is gone",
                |core| {
                    let metadata = core.view.nodes.get("n1").map(|node| node.metadata.clone()).unwrap();
                    core.handle(Input::Observed(Observed::Deleted(Kind::Node, Box::new(metadata))), now());
                },
                Duration::ZERO,
            ),
            (
                "a more important pod needs the room",
                |core| {
                    assert!(!core.make_way_before_binding(&pod_of("late"), "another", now()), "another of that name");
                    assert!(core.make_way_before_binding(&pod_of("late"), "late", now()));
                },
                Duration::ZERO,
            ),
            ("ten minutes have passed", |_| {}, MOST),
        ];
        for (why, happens, passes) in cases {
            let mut core = waiting();
            happens(&mut core);
            core.step_pre_bind(&pod_of("late"), after(now(), passes));
            assert_eq!(node_of_late(&core), None, "{why}");
            assert!(
                core.pre_binding.iter().next().is_none() && !core.queue.is_running(&Job::Bind(pod_of("late"))),
                "{why}"
            );
        }
    }

    /// The regression: it was bound with an annotation that named a Reservation which was gone.
    #[test]
    fn a_pod_draws_from_no_reservation_that_ended_while_it_waited() {
        let room = |phase: &str, uid: &str, version: u32| {
            json!({"metadata": {"name": "r", "uid": uid, "resourceVersion": version.to_string()}, "spec": {"template": {}},
                "status": {"phase": phase, "nodeName": "n1"}})
        };
        let key = Key::new(Of::Reservation, "", "r");
        for (phase, uid, stays) in [("Available", "r", true), ("Failed", "r", false), ("Available", "r2", false)] {
            let mut core = at_rest(2);
            applied::<PersistentVolumeClaim>(&mut core, claim(9, None, None));
            applied::<Pod>(&mut core, user("late", "data"));
            applied::<berth_api::Reservation>(&mut core, room("Available", "r", 9));
            let draws_from = Some(ObjectRef { key: key.clone(), uid: Some("r".into()) });
            assert!(!core.has_volumes(&Binding { draws_from, ..to_n1("late") }, now()));
            applied::<berth_api::Reservation>(&mut core, room(phase, uid, 10));
            core.step_pre_bind(&pod_of("late"), now());
            assert_eq!(node_of_late(&core).is_some(), stays, "{phase} {uid}");
        }
    }

    /// The regression, found by faults at each write: what was refused was written again at once, for ever.
    #[test]
    fn a_write_about_a_volume_that_is_refused_is_not_repeated_at_once() {
        let mut core = at_rest(2);
        applied::<PersistentVolumeClaim>(&mut core, claim(9, None, None));
        applied::<Pod>(&mut core, user("late", "data"));
        assert!(!core.has_volumes(&to_n1("late"), now()));
        let mut effects = std::mem::take(&mut core.effects);
        let mut n_written = 0;
        for _ in 0..5 {
            for effect in effects {
                if let Effect::Write(job @ Some(Job::Volume(_)), write) = effect {
                    n_written += 1;
                    core.handle(Input::Written(job, write, Outcome::Conflict("old".to_owned())), now());
                }
            }
            effects = core.work(now());
        }
        assert_eq!(n_written, 1);
        let again = core.work(after(now(), LOOK));
        assert!(
            again.iter().any(|effect| matches!(effect, Effect::Write(Some(Job::Volume(_)), _))),
            "it is tried again later"
        );
    }

    #[test]
    fn a_pod_that_is_bound_by_another_or_deleted_waits_no_more() {
        for (field, value) in [("nodeName", json!("n0")), ("deletionTimestamp", json!("2026-01-01T00:00:30Z"))] {
            let mut core = waiting();
            let mut pod = user("late", "data");
            pod["metadata"]["resourceVersion"] = json!("10");
            let part = if field == "nodeName" { "spec" } else { "metadata" };
            pod[part][field] = value;
            applied::<Pod>(&mut core, pod);
            assert_eq!(bound(&mut core, now()), [Value::Null; 0], "{field}");
            assert!(core.pre_binding.iter().next().is_none(), "{field}");
            assert_eq!(node_of_late(&core), (field == "nodeName").then_some("n0"));
        }
    }
}
