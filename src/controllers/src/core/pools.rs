//! Jobs of NodePools: whether they can be used, what their nodes have, and the hash of their template.

use std::time::Duration;

use berth_api::{NodePool, NodePoolStatus, ResourceList, labels};
use berth_cloudprovider::{CloudError, NodeClassStatus};
use berth_quantity::Quantity;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::registrations::are_too_many;
use super::unusable::UNUSABLE;
use super::{Core, Job, class_key};
use crate::claim::conditions::{self, Status};
use crate::claim::{has_foreign_hash, on};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::{Has, pool_of};
use crate::write::Op;
use berth_disruption::{HASH_VERSION, template_hash};

/// False where a budget, or the time zone of their schedules, cannot be read; absent where all can.
const BUDGETS_READABLE: &str = "BudgetsReadable";
/// How often it is looked whether NodeClaims have hashes of today's version.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
pub(super) const VALIDATION: &str = "ValidationSucceeded";
const NODE_CLASS_READY: &str = "NodeClassReady";
const REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
/// What does not happen until a fault is mended.
const NO_LAUNCH: &str = "nothing is launched";
const NO_DISRUPTION: &str = "no node of it is disrupted";

impl Core {
    pub(super) fn step_pool(&mut self, name: &str, now: Timestamp) {
        let job = Job::Pool(name.to_owned());
        let Some(pool) = self.view.pools.get(name).cloned() else {
            self.registrations.forget(name);
            return self.queue.forget(&job);
        };
        let class = pool.spec.template.spec.node_class_ref.as_ref();
        if !class.is_some_and(|class| self.provider.serves(class)) || pool.metadata.deletion_timestamp.is_some() {
            self.tell_faults_of_pool(&pool, &[], now);
            return self.queue.forget(&job);
        }
        let annotations = pool.metadata.annotations.as_ref();
        let known = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let hash = template_hash(&pool);
        let is_of_version = known(labels::NODEPOOL_HASH_VERSION) == Some(HASH_VERSION);
        let is_known = is_of_version && known(labels::NODEPOOL_HASH) == Some(hash.as_str());
        // As long as a NodeClaim is to be compared with the old hash, that stays.
        let waits_for_claims = !is_of_version && self.has_foreign_hashes(name);
        if !is_known && !waits_for_claims {
            let patch = json!({"metadata": {"annotations": {
                labels::NODEPOOL_HASH: hash, labels::NODEPOOL_HASH_VERSION: HASH_VERSION,
            }}});
            return self.write(job, on(Kind::NodePool, &pool.metadata, Op::Merge(patch)));
        }
        let before = pool.status.clone().unwrap_or_default();
        let has = self.view.has(name);
        let status = self.pool_status(&pool, has, before.clone(), now);
        self.tell_faults_of_pool(&pool, &status.conditions, now);
        if status != before {
            let patch = json!({"metadata": {"resourceVersion": pool.metadata.resource_version}, "status": {
                "resources": replaced(&before.resources, &status.resources),
                "nodes": status.nodes, "conditions": status.conditions,
            }});
            self.write(job, on(Kind::NodePool, &pool.metadata, Op::MergeStatus(patch)));
        } else if waits_for_claims {
            self.queue.add_at(job, after(now, LOOK_AGAIN));
        }
    }

    /// Tells what is wrong with a NodePool. A field that cannot be read is told once, with all that does not happen meanwhile.
    fn tell_faults_of_pool(&mut self, pool: &NodePool, all: &[Condition], now: Timestamp) {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let is_false = |type_: &str| conditions::get(all, type_).filter(|known| known.status == "False");
        let [invalid, unreadable, class] = [VALIDATION, BUDGETS_READABLE, NODE_CLASS_READY].map(is_false);
        let refused = self.state.refused_as(&berth_state::Key::new(berth_state::Kind::NodePool, "", name));
        if let (None, None, Some(refused)) = (invalid, unreadable, refused) {
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, UNUSABLE, refused.to_string()), now);
        }
        let (reason, until_mended) = match (invalid, unreadable) {
            (Some(_), None) => ("NodePoolValidationFailed", NO_LAUNCH.to_owned()),
            (None, _) => ("InvalidBudget", NO_DISRUPTION.to_owned()),
            (Some(_), Some(_)) => ("InvalidBudget", format!("{NO_LAUNCH}, and {NO_DISRUPTION},")),
        };
        // Validation names what cannot be read of budgets, too; a time zone it does not know.
        let validated = invalid.map_or("", |invalid| &invalid.message);
        let others = unreadable.filter(|unreadable| !validated.contains(&unreadable.message));
        let faults: Vec<&str> = invalid.into_iter().chain(others).map(|fault| fault.message.as_str()).collect();
        let of_fields =
            (!faults.is_empty()).then(|| (reason, format!("NodePool {name}: {}: {until_mended}", faults.join("; "))));
        let of_class = class.map(|fault| {
            let what = if fault.message.is_empty() { &fault.reason } else { &fault.message };
            ("NodeClassNotReady", format!("{what}: {NO_LAUNCH}"))
        });
        for (reason, message) in of_fields.into_iter().chain(of_class) {
            let message = format!("{message} until that is mended");
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, reason, message), now);
        }
    }

    /// Whether NodeClaims of a NodePool have hashes of another version, and will have others.
    fn has_foreign_hashes(&self, pool: &str) -> bool {
        let mut of_pool = self.view.claims.values().filter(|claim| pool_of(&claim.metadata) == Some(pool));
        of_pool
            .any(|claim| claim.metadata.deletion_timestamp.is_none() && self.serves(claim) && has_foreign_hash(claim))
    }

    fn pool_status(&self, pool: &NodePool, has: Has, mut status: NodePoolStatus, now: Timestamp) -> NodePoolStatus {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let is_healthy = has.is_healthy;
        (status.resources, status.nodes) = (has.resources, has.nodes);
        status.resources.insert("nodes".to_owned(), Quantity::from_value(has.nodes));
        let generation = pool.metadata.generation;
        let all = &mut status.conditions;
        let errors = pool.validate();
        let (valid, reason) =
            if errors.is_empty() { (Status::True, VALIDATION) } else { (Status::False, "NodePoolValidationFailed") };
        let errors: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect();
        let message = errors.join("; ");
        conditions::set(all, (VALIDATION, valid), (reason, &message), generation, now);
        match berth_disruption::Budgets::of(pool) {
            Ok(_) => {
                conditions::clear(all, BUDGETS_READABLE);
            }
            Err(error) => {
                let told = ("InvalidBudget", error.to_string());
                conditions::set(all, (BUDGETS_READABLE, Status::False), (told.0, &told.1), generation, now);
            }
        }
        let (ready, reason, message) = self.class_condition(pool);
        conditions::set(all, (NODE_CLASS_READY, ready), (&reason, &message), generation, now);
        let known = conditions::get(all, REGISTRATION_HEALTHY);
        // What an earlier process found stands until the NodePool changes, or one more NodeClaim tells.
        let was_failing = known.is_some_and(|known| known.status == "False" && known.observed_generation == generation);
        match self.registrations.failed(name, generation) {
            Some((n_failed, n)) if are_too_many(n_failed) => {
                let message = format!("{n_failed} of the last {n} NodeClaims did not become nodes");
                let failed = ("RegistrationFailed", &*message);
                conditions::set(all, (REGISTRATION_HEALTHY, Status::False), failed, generation, now);
            }
            None if was_failing => {}
            outcome if is_healthy || outcome.is_some_and(|(n_failed, n)| n_failed < n) => {
                conditions::set(all, (REGISTRATION_HEALTHY, Status::True), (REGISTRATION_HEALTHY, ""), generation, now);
            }
            _ if known.is_none() || was_failing => {
                let waiting = ("AwaitingReconciliation", "object is awaiting reconciliation");
                conditions::set(all, (REGISTRATION_HEALTHY, Status::Unknown), waiting, generation, now);
            }
            _ => {}
        }
        conditions::summarise(all, &[VALIDATION, NODE_CLASS_READY], generation, now);
        status
    }

    fn class_condition(&self, pool: &NodePool) -> (Status, String, String) {
        let class = pool.spec.template.spec.node_class_ref.as_ref();
        if let Some(class) = class.filter(|class| !self.provider.serves(class)) {
            let message =
                format!("{} of {} is not served by the provider {}", class.kind, class.group, self.provider.name());
            return (Status::False, "NodeClassNotServed".to_owned(), message);
        }
        match self.class_status.get(&class.map(class_key).unwrap_or_default()) {
            None => (Status::Unknown, "AwaitingReconciliation".to_owned(), "the cloud was not asked yet".to_owned()),
            Some(Ok(NodeClassStatus::Ready { .. })) => (Status::True, NODE_CLASS_READY.to_owned(), String::new()),
            Some(Ok(NodeClassStatus::NotReady { reason, message })) => (Status::False, reason.clone(), message.clone()),
            Some(Err(CloudError::NotFound { what })) => {
                (Status::False, "NodeClassNotFound".to_owned(), format!("{what} not found on cluster"))
            }
            Some(Err(error)) => (Status::Unknown, error.category().as_str().to_owned(), error.to_string()),
        }
    }

    /// Whether the cloud has not said yet what the nodes of some NodePool can be: it would seem that there are none.
    pub(super) fn awaits_offers(&self) -> bool {
        let classes = self.view.pools.values().filter_map(|pool| pool.spec.template.spec.node_class_ref.as_ref());
        let mut classes = classes.filter(|class| self.provider.serves(class)).map(class_key);
        classes.any(|class| !self.asked_classes.contains(&class) || !self.class_status.contains_key(&class))
    }

    /// Why a NodePool has no instance types, where its node class is to blame.
    pub(super) fn blamed_class(&self, pool: &str) -> Option<String> {
        let pool = self.view.pools.get(pool)?;
        let (status, reason, message) = self.class_condition(pool);
        let why = if message.is_empty() { reason } else { message };
        (status != Status::True).then(|| format!("its node class cannot be used: {why}"))
    }

    /// Whether nodes of a NodePool may be launched.
    pub(super) fn is_pool_usable(&self, pool: &NodePool) -> bool {
        let class = pool.spec.template.spec.node_class_ref.as_ref();
        pool.metadata.deletion_timestamp.is_none()
            && class.is_some_and(|class| self.provider.serves(class))
            && pool.validate().is_empty()
            && self.class_condition(pool).0 == Status::True
    }
}

/// A merge patch of a map, which takes away what is no more.
pub(super) fn replaced(before: &ResourceList, now: &ResourceList) -> serde_json::Value {
    let mut patch = json!(now);
    if let Some(patch) = patch.as_object_mut() {
        for gone in before.keys().filter(|name| !now.contains_key(*name)) {
            patch.insert(gone.clone(), serde_json::Value::Null);
        }
    }
    patch
}
