//! StatefulSets: pods with ordinals and claims of their own, created and replaced in order.

use std::ops::Range;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod as WholePod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::adoption::{Claimed, Owner};
use super::replica_sets::available;
use super::revisions::{Revision, Revisions, forget, hash_of_data, revisions};
use super::template::{count, pod_of, scaled, set_label, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::index::workload_selector;
use crate::key::NamespacedName;
use crate::objects::{Phase, Pod, View};
use crate::resource::{CLAIMS, PODS, STATEFUL_SETS};
use crate::work::Work;
use crate::write::{Effect, Write};

const REVISION: &str = "controller-revision-hash";
/// Of a revision, not of a pod.
const HASH: &str = "controller.kubernetes.io/hash";

/// A StatefulSet with its pods in order of their ordinals.
struct Members<'s> {
    key: &'s NamespacedName,
    set: &'s StatefulSet,
    spec: &'s StatefulSetSpec,
    pods: Vec<(i32, Arc<Pod>)>,
}

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(set) = core.caches.stateful_sets.get(key).cloned() else { return Effect::Done };
    let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let work = Work::StatefulSet(key.clone());
    let view = View::of(&set.metadata);
    let owner = Owner { resource: &STATEFUL_SETS, view, selector: workload_selector(Some(&spec.selector)) };
    // Its name says whether a pod is a member.
    let pods = match owner.pods(core, &work, |pod| ordinal(pod, &key.name).is_some()) {
        Claimed::Owned(pods) => pods,
        Claimed::First(effect) => return effect,
    };
    let pods = pods.into_iter().filter_map(|pod| Some((ordinal(&pod, &key.name)?, pod)));
    let mut pods: Vec<(i32, Arc<Pod>)> = pods.collect();
    pods.sort_by_key(|(ordinal, _)| *ordinal);
    let kept = (set.metadata.annotations.as_ref(), &spec.template);
    let all = match revisions(core, &owner, &work, kept, (HASH, &hash_of_data(&spec.template))) {
        Ok(all) => all,
        Err(effect) => return effect,
    };
    let members = Members { key, set: &set, spec, pods };
    members.sync(core, &work, &all)
}

impl Members<'_> {
    fn sync(&self, core: &mut Core, work: &Work, all: &Revisions) -> Effect {
        let update = &all.present;
        let was = self.set.status.clone().unwrap_or_default();
        let named = was.current_revision.as_deref().unwrap_or_default();
        let current = all.old.iter().find(|revision| revision.name == named).unwrap_or(update);
        let mut writes = all.writes.clone();
        self.step(core, current, update, &mut writes);
        let is_live = |revision: &Revision| {
            revision.name == current.name
                || self.pods.iter().any(|(_, pod)| pod.revision_label() == Some(revision.name.as_str()))
        };
        writes.extend(forget(&self.key.namespace, self.spec.revision_history_limit, &all.old, is_live));
        let pods: Vec<Arc<Pod>> = self.pods.iter().map(|(_, pod)| pod.clone()).collect();
        let is_of = |pod: &Pod, revision: &Revision| {
            !pod.is_terminating() && pod.revision_label() == Some(revision.name.as_str())
        };
        let wanted = self.spec.replicas.unwrap_or(1);
        let ready = count(pods.iter().filter(|pod| pod.is_ready()).count());
        let updated = count(pods.iter().filter(|pod| is_of(pod, update)).count());
        let is_rolled = self.is_rolling() && [updated, ready, count(pods.len())] == [wanted; 3];
        let of_current = count(pods.iter().filter(|pod| is_of(pod, current)).count());
        let some = |n: i32| Some(n).filter(|n| *n > 0);
        let status = StatefulSetStatus {
            replicas: count(pods.len()),
            ready_replicas: some(ready),
            available_replicas: Some(count(available(core, work, &pods, self.spec.min_ready_seconds.unwrap_or(0)))),
            current_replicas: some(if is_rolled { updated } else { of_current }),
            updated_replicas: some(updated),
            current_revision: Some(if is_rolled { &update.name } else { &current.name }.clone()),
            update_revision: Some(update.name.clone()),
            observed_generation: self.set.metadata.generation,
            collision_count: Some(was.collision_count.unwrap_or(0)),
            conditions: was.conditions.clone(),
        };
        if status != was {
            let mut object = self.set.clone();
            object.status = Some(status);
            writes.push(Write::replace_status(&STATEFUL_SETS, self.key, &object));
        }
        Effect::of(writes)
    }

    fn is_rolling(&self) -> bool {
        let type_ = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        type_.is_none_or(|type_| type_ == "RollingUpdate")
    }

    /// One step towards what is wanted; in order, nothing goes on before the pod at hand is ready.
    fn step(&self, core: &Core, current: &Revision, update: &Revision, writes: &mut Vec<Write>) {
        let in_order = self.spec.pod_management_policy.as_deref() != Some("Parallel");
        let first = self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let end = first.saturating_add(self.spec.replicas.unwrap_or(1));
        let rolling = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        // Members below the partition stay, and are created again, as they were.
        let kept = first.saturating_add(rolling.and_then(|rolling| rolling.partition).unwrap_or(0));
        let (min_ready_seconds, now) = (self.spec.min_ready_seconds.unwrap_or(0), core.now());
        let is_available =
            |pod: &Pod| !pod.is_terminating() && pod.available_at(min_ready_seconds).is_some_and(|at| at <= now);
        let at = |ordinal: i32| self.pods.binary_search_by_key(&ordinal, |(own, _)| *own).ok();
        self.own_claims(core, first..end, writes);
        for ordinal in first..end {
            let pod = at(ordinal).and_then(|position| self.pods.get(position)).map(|(_, pod)| pod);
            // A claim may have been deleted since its pod was made, which would wait for it for good.
            if let Some(pod) = pod.filter(|pod| pod.phase() == Phase::Pending && !pod.is_terminating()) {
                self.make_claims(core, &pod.metadata.name, writes);
            }
            match pod {
                None => {
                    self.create(core, if ordinal < kept { current } else { update }, ordinal, writes);
                    if in_order {
                        return;
                    }
                }
                Some(pod) if pod.has_ended() => {
                    if !pod.is_terminating() {
                        let delete = Write::delete_now(&PODS, &pod.view().key(), &pod.metadata.uid);
                        writes.push(self.told(delete, "Delete", &pod.metadata.name));
                    }
                    if in_order {
                        return;
                    }
                }
                Some(pod) if in_order && !is_available(pod) => return,
                Some(_) => {}
            }
        }
        for (_, pod) in self.pods.iter().rev().filter(|(ordinal, _)| !(first..end).contains(ordinal)) {
            if !pod.is_terminating() {
                writes.push(self.delete(pod));
            }
            if in_order {
                return;
            }
        }
        if !self.is_rolling() {
            return;
        }
        let Some(most) = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) else {
            // From the last on, each once those behind it are there again; one that was made just now is not yet.
            for ordinal in (kept..end).rev() {
                let Some((_, pod)) = at(ordinal).and_then(|position| self.pods.get(position)) else { return };
                if !pod.is_terminating() && pod.revision_label() != Some(update.name.as_str()) {
                    writes.push(self.delete(pod));
                    return;
                }
                if !is_available(pod) {
                    return;
                }
            }
            return;
        };
        let members = || self.pods.iter().filter(|(ordinal, _)| (first..end).contains(ordinal));
        let n_available = members().filter(|(_, pod)| is_available(pod)).count();
        let wanted = self.spec.replicas.unwrap_or(1);
        let most = size(scaled(Some(most), wanted, false)).max(1);
        let n_may_go = most.saturating_sub(size(wanted).saturating_sub(n_available));
        let is_old = |pod: &Pod| !pod.is_terminating() && pod.revision_label() != Some(update.name.as_str());
        let old = members().rev().filter(|(ordinal, pod)| *ordinal >= kept && is_old(pod));
        for (_, pod) in old.take(n_may_go) {
            writes.push(self.delete(pod));
        }
    }

    /// Deletes a member, and tells of it.
    fn delete(&self, pod: &Pod) -> Write {
        self.told(Write::delete(&PODS, &pod.view().key(), &pod.metadata.uid), "Delete", &pod.metadata.name)
    }

    /// The same write, told of as upstream does.
    fn told(&self, write: Write, verb: &str, member: &str) -> Write {
        let (done, failed) = match verb {
            "Create" => ("SuccessfulCreate", "FailedCreate"),
            _ => ("SuccessfulDelete", "FailedDelete"),
        };
        let set = &self.key.name;
        let about = Involved::new(&STATEFUL_SETS, View::of(&self.set.metadata));
        let what = format!("{verb} Pod {member} in StatefulSet {set}");
        let telling = Telling::done(about, done, format!("{what} successful"));
        write.telling(telling.or_refused(failed, format!("{what} failed error: {{}}")))
    }

    /// The claims of a member: the name of each volume, and of its claim.
    fn claims_of(&self, member: &str) -> impl Iterator<Item = (String, String)> {
        let names = self.spec.volume_claim_templates.iter().flatten().map(|one| one.metadata.name.as_deref());
        names.map(move |name| {
            let own = name.unwrap_or_default();
            (own.to_owned(), format!("{own}-{member}"))
        })
    }

    /// Creates those claims of a member that are not there.
    fn make_claims(&self, core: &Core, member: &str, writes: &mut Vec<Write>) {
        let templates = self.spec.volume_claim_templates.iter().flatten();
        for (template, (_, name)) in templates.zip(self.claims_of(member)) {
            let key = self.key.beside(&name);
            if core.caches.claims.get(&key).is_some() {
                continue;
            }
            let metadata = ObjectMeta {
                name: Some(name),
                labels: self.spec.selector.match_labels.clone(),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            };
            let claim = PersistentVolumeClaim { metadata, spec: template.spec.clone(), status: None };
            let about = Involved::new(&STATEFUL_SETS, View::of(&self.set.metadata));
            let (claim_name, set) = (&key.name, &self.key.name);
            let done = format!("Create Claim {claim_name} Pod {member} in StatefulSet {set} success");
            let failed = format!("Create Claim {claim_name} for Pod {member} in StatefulSet {set} failed error: {{}}");
            let telling = Telling::done(about, "SuccessfulCreate", done).or_refused("FailedCreate", failed);
            writes.push(Write::ensure(&CLAIMS, &key, &claim).telling(telling));
        }
    }

    /// Has claims go with the set, or with members that are beyond its replicas, as `persistentVolumeClaimRetentionPolicy` says.
    fn own_claims(&self, core: &Core, wanted: Range<i32>, writes: &mut Vec<Write>) {
        let policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let goes = |when: Option<&String>| when.is_some_and(|what| what == "Delete");
        let with_set = goes(policy.and_then(|policy| policy.when_deleted.as_ref()));
        let with_member = goes(policy.and_then(|policy| policy.when_scaled.as_ref()));
        for (ordinal, pod) in &self.pods {
            let member = pod.view();
            let owner = match wanted.contains(ordinal) {
                false if with_member => Some(controlled_by(&PODS, member)),
                _ if with_set => Some(controlled_by(&STATEFUL_SETS, View::of(&self.set.metadata))),
                _ => None,
            };
            for (_, name) in self.claims_of(member.name) {
                let Some(claim) = core.caches.claims.get(&self.key.beside(&name)) else { continue };
                let before = claim.metadata.owner_references.clone().unwrap_or_default();
                let is_ours = |one: &OwnerReference| {
                    (one.kind == "StatefulSet" && *one.name == *self.key.name)
                        || (one.kind == "Pod" && one.name == member.name)
                };
                let others: Vec<OwnerReference> = before.iter().filter(|one| !is_ours(one)).cloned().collect();
                // An object has one controller: a claim that has another one is left to it.
                if others.iter().any(|one| one.controller == Some(true)) {
                    continue;
                }
                let after: Vec<OwnerReference> = others.into_iter().chain(owner.clone()).collect();
                if after != before && claim.metadata.deletion_timestamp.is_none() {
                    writes.push(Write::set_owners(&CLAIMS, View::of(&claim.metadata), &after));
                }
            }
        }
    }

    /// Creates a member with its claims, once none of these is on its way out: it would be gone when the pod needs it.
    fn create(&self, core: &Core, revision: &Revision, ordinal: i32, writes: &mut Vec<Write>) {
        let name = format!("{}-{ordinal}", self.key.name);
        let mut claims =
            self.claims_of(&name).filter_map(|(_, claim)| core.caches.claims.get(&self.key.beside(&claim)));
        if claims.any(|claim| claim.metadata.deletion_timestamp.is_some()) {
            return;
        }
        let view = View::of(&self.set.metadata);
        let mut pod: WholePod = pod_of(&revision.template, controlled_by(&STATEFUL_SETS, view));
        pod.metadata.name = Some(name.clone());
        pod.metadata.generate_name = Some(format!("{}-", self.key.name));
        for (label, value) in [
            (REVISION, revision.name.as_str()),
            ("statefulset.kubernetes.io/pod-name", &name),
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        ] {
            set_label(&mut pod.metadata, label, value);
        }
        let spec = pod.spec.get_or_insert_default();
        let mut volumes = spec.volumes.take().unwrap_or_default();
        self.make_claims(core, &name, writes);
        for (own, claim_name) in self.claims_of(&name) {
            volumes.retain(|volume| volume.name != own);
            let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
            volumes.push(Volume { name: own, persistent_volume_claim: Some(source), ..Volume::default() });
        }
        spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
        spec.hostname = Some(name.clone());
        spec.subdomain = self.spec.service_name.clone().filter(|service| !service.is_empty());
        writes.push(self.told(Write::create(&PODS, &self.key.beside(&name), &pod), "Create", &name));
    }
}

/// The ordinal of a member of a set.
fn ordinal(pod: &Pod, set: &str) -> Option<i32> {
    pod.metadata.name.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}
