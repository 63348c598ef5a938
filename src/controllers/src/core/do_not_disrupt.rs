//! A `karpenter.sh/do-not-disrupt` that means nothing: its pod, node or NodeClaim has a condition that says so, and an Event, until
//! it is mended; nothing is disrupted for it meanwhile. The condition is written once, again where the annotation is wrong
//! otherwise, and is taken away with its cause. One that an earlier process left is taken away, too.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::labels::DO_NOT_DISRUPT;
use berth_disruption::{check_do_not_disrupt, check_do_not_disrupt_on_node};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::{Core, Job};
use crate::claim::conditions::{self, Status, whole_seconds};
use crate::clock::after;
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::write::{Op, Write};

/// On NodeClaims, whose conditions are all of their controllers.
const ON_CLAIMS: &str = "DoNotDisruptReadable";
/// On pods and nodes, which have conditions of everyone.
const ON_OTHERS: &str = "berth.sh/DoNotDisruptReadable";
/// Changes of an object within this time are looked at together, so that it is written no more often.
const GATHER: Duration = Duration::from_secs(1);
/// The reason of the condition and of the Event.
const INVALID: &str = "InvalidDoNotDisrupt";

/// By object of which a condition or the lack of one may be wrong: what it says as a watch told last, if anything.
pub(super) type Said = BTreeMap<NamedObject, Option<String>>;

impl Core {
    /// Looks at what a watch, or the answer to a write, told: objects whose annotation may be wrong, or was.
    pub(super) fn look_at_do_not_disrupt(&mut self, observed: &Observed, now: Timestamp) {
        let objects = match observed {
            Observed::Applied(object) => std::slice::from_ref(object),
            Observed::Listed { objects, .. } => objects.as_slice(),
            _ => return,
        };
        for object in objects {
            let is_concerned = is_concerned(object);
            if !is_concerned && self.said.is_empty() {
                continue;
            }
            let (kind, metadata) = (object.kind(), object.metadata());
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            let name = NamedObject::namespaced(kind, namespace.unwrap_or_default(), name.unwrap_or_default());
            // One that has lost its condition says so, too.
            if is_concerned || self.said.contains_key(&name) {
                self.said.insert(name.clone(), said_by(object));
                self.queue.add_at(Job::DoNotDisrupt(name), after(now, GATHER));
            }
        }
    }

    pub(super) fn step_do_not_disrupt(&mut self, object: NamedObject, now: Timestamp) {
        let job = Job::DoNotDisrupt(object.clone());
        let said = self.said.get(&object).cloned();
        let Some((said, (metadata, fault))) = said.zip(self.annotated(&object)) else {
            self.said.remove(&object);
            return self.queue.forget(&job);
        };
        let uid = metadata.uid.clone().unwrap_or_default();
        if let Some(fault) = &fault {
            self.tell(Notice::of(object.clone(), uid.clone(), INVALID, fault.clone()), now);
        }
        if said == fault {
            self.said.remove(&object);
            return self.queue.forget(&job);
        }
        let op = if object.kind == Kind::NodeClaim {
            let status = self.view.claims.get(&object.name).and_then(|claim| claim.status.as_ref());
            let mut all = status.map(|status| status.conditions.clone()).unwrap_or_default();
            match &fault {
                Some(fault) => {
                    conditions::set(&mut all, (ON_CLAIMS, Status::False), (INVALID, fault), metadata.generation, now)
                }
                None => conditions::clear(&mut all, ON_CLAIMS),
            };
            let version = metadata.resource_version;
            Op::MergeStatus(json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}}))
        } else {
            Op::MergeConditions(json!([condition(fault.as_deref(), said.is_some(), now)]))
        };
        self.write(job, Write { key: object, uid, op });
    }

    /// What is wrong with the annotation of an object, if something is. `None` where it is not there, or goes.
    fn annotated(&self, object: &NamedObject) -> Option<(ObjectMeta, Option<String>)> {
        let (metadata, fault) = match object.kind {
            Kind::Pod => {
                let pod = self.state.pod(&object.namespace, &object.name)?;
                let node = pod.node().and_then(|node| self.view.nodes.get(node));
                // What others made is theirs to look after.
                let is_served = node.is_some_and(|node| self.view.claims_of_node(node).any(|claim| self.serves(claim)));
                (pod.to_pod().metadata, check_do_not_disrupt(pod).filter(|_| is_served))
            }
            Kind::Node => {
                let node = self.view.nodes.get(&object.name)?;
                let is_served = self.view.claims_of_node(node).any(|claim| self.serves(claim));
                let fault = check_do_not_disrupt_on_node(node.metadata.annotations.as_ref());
                (node.metadata.clone(), fault.filter(|_| is_served))
            }
            Kind::NodeClaim => {
                let claim = self.view.claims.get(&object.name).filter(|claim| self.serves(claim))?;
                (claim.metadata.clone(), check_do_not_disrupt_on_node(claim.metadata.annotations.as_ref()))
            }
            _ => return None,
        };
        metadata.deletion_timestamp.is_none().then_some((metadata, fault))
    }
}

/// The message of the condition that an object has, if it has one.
fn said_by(object: &Object) -> Option<String> {
    match object {
        Object::Pod(pod) => {
            let mut all = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            all.find(|known| known.type_ == ON_OTHERS).map(|known| known.message.clone().unwrap_or_default())
        }
        Object::Node(node) => {
            let mut all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            all.find(|known| known.type_ == ON_OTHERS).map(|known| known.message.clone().unwrap_or_default())
        }
        Object::NodeClaim(claim) => {
            let mut all = claim.status.iter().flat_map(|status| &status.conditions);
            all.find(|known| known.type_ == ON_CLAIMS).map(|known| known.message.clone())
        }
        _ => None,
    }
}

/// Whether an object has an annotation that is neither of the plain values, or the condition that says so.
fn is_concerned(object: &Object) -> bool {
    let annotations: Option<&BTreeMap<String, String>> = object.metadata().annotations.as_ref();
    let value = annotations.and_then(|all| all.get(DO_NOT_DISRUPT));
    matches!(object.kind(), Kind::Pod | Kind::Node | Kind::NodeClaim)
        && (value.is_some_and(|value| !matches!(value.as_str(), "true" | "false")) || said_by(object).is_some())
}

/// The condition of a pod or a node as a strategic merge patch has it; without a fault it is taken away. Where there was one
/// already, it keeps its time.
fn condition(fault: Option<&str>, was_there: bool, now: Timestamp) -> Value {
    let Some(fault) = fault else { return json!({"$patch": "delete", "type": ON_OTHERS}) };
    let mut condition = json!({"type": ON_OTHERS, "status": "False", "reason": INVALID, "message": fault});
    if !was_there {
        condition["lastTransitionTime"] = json!(Time(whole_seconds(now)));
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_comes_with_its_fault_changes_with_it_and_goes_with_it() {
        let at = Timestamp::from_second(1).unwrap();
        let mut own = json!({"type": "berth.sh/DoNotDisruptReadable", "status": "False", "reason": "InvalidDoNotDisrupt",
            "message": "bad"});
        assert_eq!(condition(Some("bad"), true, at), own, "since when it is so stays");
        own["lastTransitionTime"] = json!("1970-01-01T00:00:01Z");
        assert_eq!(condition(Some("bad"), false, at), own);
        let gone = json!({"$patch": "delete", "type": "berth.sh/DoNotDisruptReadable"});
        assert_eq!(condition(None, true, at), gone);
    }
}
