//! Jobs of NodeClaims: gather the facts, take the next step, take in the answers.

use std::sync::Arc;

use berth_api::{NodeClaim, NodeClaimStatus, NodeOverlay};
use berth_cloudprovider::{CloudError, RepairPolicy};
use jiff::Timestamp;
use rustc_hash::FxHashSet;
use serde_json::Value;

use super::{Answer, Core, Job, class_key};
use crate::claim::conditions;
use crate::claim::repair::{Health, fault};
use crate::claim::{self, Facts, Launch, Memory, Next, TOKEN_ANNOTATION, Verdict};
use crate::clock::after;

use crate::view::{PodRecord, pool_of};
use crate::write::{Op, Write};

impl Core {
    /// Pods that are bound to the node of a NodeClaim though it is gone, and that their controllers make anew.
    fn left_behind(&self, claim: &NodeClaim) -> Vec<Arc<PodRecord>> {
        let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or_default();
        // One that is deleted and that nothing holds is gone, whether a watch has told so or not.
        let is_there = self.view.nodes.get(node).is_some_and(|node| {
            node.metadata.deletion_timestamp.is_none() || node.metadata.finalizers.iter().flatten().next().is_some()
        });
        let is_gone = claim.metadata.deletion_timestamp.is_some() && !node.is_empty() && !is_there;
        let pods = is_gone.then(|| self.view.pods_on(node)).into_iter().flatten();
        pods.filter(|pod| pod.has_to_move() && !self.owner_of(&pod.name).is_empty()).cloned().collect()
    }

    pub(super) fn step_claim(&mut self, name: &str, now: Timestamp) {
        let job = Job::Claim(name.to_owned());
        let Some(claim) = self.view.claims.get(name).cloned() else {
            return self.queue.forget(&job);
        };
        let Some(class) = claim.spec.node_class_ref.as_ref().filter(|_| self.serves(&claim)) else {
            return self.queue.forget(&job);
        };
        let class_name = class_key(class);
        if self.node_classes.insert(class_name.clone(), class.clone()).is_none() {
            self.queue.add(Job::Offers(class_name.clone()));
            self.queue.add(Job::ClassStatus(class_name.clone()));
        }
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let repair_policies =
            if self.options.convert.node_repair { self.provider.repair_policies() } else { Vec::new() };
        let health = self.health(&claim, &repair_policies);
        let unplaced = self.unplaced(&claim);
        self.look_for_places(&claim, &unplaced, now);
        let nodeless_since = self.nodeless_since(&claim, &uid, now);
        let left_behind = self.left_behind(&claim);
        let memory = self.memories.entry(uid.clone()).or_default();
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let nodes = self.view.nodes_of(provider_id).filter_map(|node| self.view.nodes.get(node));
        let nodes: Vec<_> = nodes.collect();
        let names: Vec<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        // They matter to what is launched, and most NodeClaims have been.
        let asks = self.options.convert.node_overlay && provider_id.is_none();
        let overlays = asks.then(|| self.state.all::<NodeOverlay>()).into_iter().flatten();
        let facts = Facts {
            claim: &claim,
            pods: names.iter().flat_map(|node| self.view.pods_on(node)).collect(),
            left_behind,
            attachments: names.iter().flat_map(|node| self.view.attachments_on(node)).collect(),
            nodes,
            volumes: &self.view.volumes,
            pool: pool_of(&claim.metadata).and_then(|pool| self.view.pools.get(pool)).map(|pool| &**pool),
            last_pod_event: names.iter().filter_map(|node| self.pod_events.get(*node)).max().copied(),
            offers: self.offers.get(&class_name),
            overlaid: overlays.flat_map(|overlay| overlay.spec.capacity.keys()).map(String::as_str).collect(),
            memory,
            nodeless_since,
            interruption: provider_id.and_then(|id| self.interrupted.get(id)),
            unplaced,
            adoption: self.provider.reservation_adoption(),
            with_reserved: self.options.convert.reserved_capacity,
            health,
            repair_policies: &repair_policies,
            timings: &self.options.timings,
            lag: self.provider.consistency_lag(),
            now,
        };
        let todo = claim::step(&facts);
        for notice in todo.notices {
            self.note_failed_registration(&claim, notice.reason, now);
            self.tell(notice, now);
        }
        for eviction in todo.evictions {
            self.expect_remade(&eviction);
            self.want_eviction(&eviction);
        }
        match todo.next {
            Next::Idle => {}
            Next::Wait(until) => self.queue.add_at(job, until),
            Next::Write(write) => {
                if let Some(token) = written_token(&write)
                    && let Some(memory) = self.memories.get_mut(&uid)
                {
                    memory.own_token = Some(token);
                }
                self.write(job, *write);
            }
            Next::Ask(question) => self.ask(job, *question),
        }
    }

    /// Since when a NodeClaim has had no node although it was registered, where that is no storm: else it is looked at again later.
    fn nodeless_since(&mut self, claim: &NodeClaim, uid: &str, now: Timestamp) -> Option<Timestamp> {
        let status = claim.status.as_ref().filter(|_| claim.metadata.deletion_timestamp.is_none());
        let registered = status.filter(|status| conditions::is_true(&status.conditions, conditions::REGISTERED));
        let has_node = |status: &NodeClaimStatus| self.view.nodes_of(status.provider_id.as_deref()).next().is_some();
        if registered.is_none_or(has_node) {
            self.nodeless.remove(uid);
            return None;
        }
        let since = *self.nodeless.entry(uid.to_owned()).or_insert(now);
        if self.is_storm(now) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            self.queue.add_at(Job::Claim(name), after(now, self.options.timings.garbage_age));
            return None;
        }
        Some(since)
    }

    /// The nodes of a NodeClaim's NodePool, where its own is broken and repair is asked for.
    fn health(&self, claim: &NodeClaim, policies: &[RepairPolicy]) -> Option<Health> {
        if policies.is_empty() || self.node_of(claim).is_none_or(|node| fault(node, policies).is_none()) {
            return None;
        }
        let pool = pool_of(&claim.metadata);
        let mut health = Health { total: 0, broken: 0 };
        let others = self.view.claims.values().filter(|other| pool_of(&other.metadata) == pool);
        for node in others.filter_map(|other| self.node_of(other)) {
            health.total += 1;
            health.broken += usize::from(fault(node, policies).is_some());
        }
        Some(health)
    }

    pub(super) fn claim_answered(&mut self, name: &str, answer: Answer, now: Timestamp) {
        let job = Job::Claim(name.to_owned());
        let Some(claim) = self.view.claims.get(name).map(Arc::clone) else {
            // It is gone, with its finalizer taken off by someone else; what was launched is garbage now.
            self.queue.succeed(job.clone());
            return self.queue.forget(&job);
        };
        if let Answer::Created(_, created) = &answer {
            self.learn_from_launch(created, now);
            if let Err(CloudError::InsufficientCapacity { offerings }) = created {
                self.disrupting.was_refused(name, offerings, now);
            }
            if let Ok(launched) = created {
                self.disrupting.was_launched(name, &launched.instance.offering, now);
            }
            match created {
                Err(CloudError::InsufficientCapacity { .. } | CloudError::ReservationFull { .. }) => {
                    self.launch_was_refused(name);
                }
                Err(CloudError::NotFound { .. }) => {
                    self.launch_was_refused(name);
                    // Nothing more is launched of a node class that is gone.
                    if let Some(class) = claim.spec.node_class_ref.as_ref().map(class_key) {
                        self.queue.add(Job::ClassStatus(class));
                    }
                }
                _ => {}
            }
        }
        let memory = self.memories.entry(claim.metadata.uid.clone().unwrap_or_default()).or_default();
        let verdict = match answer {
            Answer::Instances(found) => memory.found(found, now),
            Answer::Created(request, outcome) => {
                if request.node_claim.uid == claim.metadata.uid.clone().unwrap_or_default() {
                    memory.launched(request, outcome)
                } else {
                    Verdict::GoOn
                }
            }
            Answer::Instance(outcome) => memory.got(outcome, now),
            Answer::Deleted(id, outcome) => memory.deleted(&id, outcome, now),
            Answer::Drift(outcome) => memory.drifted(outcome, now),
            Answer::All(_) | Answer::Types(_) | Answer::Status(_) => Verdict::GoOn,
        };
        if let Some((reason, message)) = &memory.trouble {
            tracing::warn!(claim = name, reason, message, "the cloud could not do it");
        }
        if let Some(id) = claim::ended_instance(&claim, memory, self.provider.consistency_lag()) {
            self.note_end(&claim, id, now);
        }
        match verdict {
            Verdict::GoOn => self.queue.succeed(job),
            Verdict::Later(wait) => self.queue.fail(job, wait, now),
        }
    }

    /// Memories of NodeClaims that are gone are dropped with the next round of garbage collection.
    pub(super) fn forget_gone_claims(&mut self) {
        let view = &self.view;
        let known: FxHashSet<&str> = view.claims.uids().map(|(_, uid)| uid).collect();
        self.memories.retain(|uid, _| known.contains(uid.as_str()));
        self.nodeless.retain(|uid, _| known.contains(uid.as_str()));
    }

    /// The instance that a NodeClaim has, as far as this process knows.
    pub(super) fn instance_of<'a>(memory: Option<&'a Memory>, claim: &'a berth_api::NodeClaim) -> Option<&'a str> {
        let written = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        written.filter(|id| !id.is_empty()).or_else(|| match memory.map(|memory| &memory.launch) {
            Some(Launch::Done(instance)) => Some(&*instance.provider_id.0),
            _ => None,
        })
    }
}

/// The token that a write puts into a NodeClaim.
fn written_token(write: &Write) -> Option<String> {
    let Op::Merge(patch) = &write.op else { return None };
    patch.get("metadata")?.get("annotations")?.get(TOKEN_ANNOTATION).and_then(Value::as_str).map(str::to_owned)
}
