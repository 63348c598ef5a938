//! Launching: a token that is persisted before the call, and what an unknown outcome left is found by its tags.

use std::collections::BTreeMap;

use berth_api::{NodeClaimStatus, Operator, Requirement, labels};
use berth_cloudprovider::{Instance, LaunchRequest, LaunchTarget, LaunchToken, NodeClaimKey, ReservationAdoption};
use serde_json::json;

use super::conditions::{self, Status};
use super::memory::{Failure, Launch};
use super::{Facts, Question, Todo, created, target};
use crate::clock::after;
use crate::view::pool_of;

/// The annotation that holds the token of the launch: it is there before the cloud is asked.
pub(crate) const TOKEN_ANNOTATION: &str = "berth.sh/launch-token";

/// The next step of a NodeClaim that is not launched.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    if let Launch::Done(instance) = &facts.memory.launch {
        return record(facts, instance);
    }
    let deadline = created(&facts.claim.metadata).map(|created| after(created, facts.timings.launch_timeout));
    if deadline.is_some_and(|deadline| deadline <= facts.now) && !is_asked_for_first(facts) {
        let message = format!("not launched within {:?}", facts.timings.launch_timeout);
        return Todo::write(facts.delete()).telling(facts.notice("LaunchTimeout", message));
    }
    if let Launch::Failed(failure) = &facts.memory.launch {
        let (reason, message) = match failure {
            Failure::InsufficientCapacity(message) => ("InsufficientCapacityError", message),
            Failure::NodeClassNotReady(message) => ("NodeClassNotReady", message),
        };
        return Todo::write(facts.delete()).telling(facts.notice(reason, message));
    }
    // What troubles the cloud is told once, not at each attempt.
    if let Some((reason, message)) = &facts.memory.trouble
        && let Some(write) = facts.condition(conditions::LAUNCHED, Status::Unknown, reason, message)
    {
        return Todo::write(write);
    }
    let todo = attempt(facts);
    deadline.map_or_else(Todo::default, |deadline| super::earlier(todo, deadline))
}

/// Whether this process is about to ask the cloud for it, and nobody has before. Its age is the API server's time against
/// our own: where these differ by more than the deadline, nothing would ever be launched.
fn is_asked_for_first(facts: &Facts<'_>) -> bool {
    facts.memory.launch == Launch::Unknown
        && facts.offers.is_some()
        && facts.memory.own_token.as_deref() == token_text(facts)
}

fn attempt(facts: &Facts<'_>) -> Todo {
    let Some(text) = token_text(facts) else {
        // Nobody has asked for a launch without writing a token.
        return match LaunchToken::new(facts.uid(), 1) {
            Ok(token) => write_token(facts, &token),
            Err(error) => refuse(facts, "LaunchFailed", &error.to_string()),
        };
    };
    let Ok(token) = text.parse::<LaunchToken>() else {
        return refuse(facts, "LaunchFailed", &format!("the annotation {TOKEN_ANNOTATION} holds {text:?}, no token"));
    };
    match &facts.memory.launch {
        Launch::Again(request) => Todo::ask(Question::Create((**request).clone())),
        Launch::Unknown if facts.memory.own_token.as_deref() == Some(text) => create(facts, token),
        Launch::Unknown | Launch::Lost(_) => Todo::ask(Question::Find { uid: facts.uid() }),
        Launch::Absent { since, looked } => {
            if facts.memory.own_token.as_deref() == Some(text) {
                return create(facts, token);
            }
            let shown_by = after(*since, facts.lag);
            if *looked >= shown_by {
                // The earlier attempt launched nothing; its request is not known, so this is another attempt.
                return token.next_attempt().map_or_else(
                    |error| refuse(facts, "LaunchFailed", &error.to_string()),
                    |token| write_token(facts, &token),
                );
            }
            if facts.now >= shown_by {
                return Todo::ask(Question::Find { uid: facts.uid() });
            }
            Todo::wait(shown_by)
        }
        Launch::Done(_) | Launch::Failed(_) => Todo::default(),
    }
}

/// The token that the NodeClaim holds.
pub(super) fn token_text<'a>(facts: &'a Facts<'_>) -> Option<&'a str> {
    facts.claim.metadata.annotations.as_ref()?.get(TOKEN_ANNOTATION).map(String::as_str)
}

fn write_token(facts: &Facts<'_>, token: &LaunchToken) -> Todo {
    // Only over this version: whoever reads the token later knows that it was not there before.
    Todo::write(facts.merge(json!({"metadata": {
        "resourceVersion": facts.claim.metadata.resource_version,
        "annotations": {TOKEN_ANNOTATION: token.to_string()},
    }})))
}

fn refuse(facts: &Facts<'_>, reason: &str, message: &str) -> Todo {
    facts.condition(conditions::LAUNCHED, Status::False, reason, message).map_or_else(Todo::default, Todo::write)
}

fn create(facts: &Facts<'_>, token: LaunchToken) -> Todo {
    let claim = facts.claim;
    let Some(node_class) = claim.spec.node_class_ref.clone() else {
        return refuse(facts, "LaunchFailed", "spec.nodeClassRef is not set, expected a node class of this cloud");
    };
    // A change of what is to be had wakes the job.
    let Some(offers) = facts.offers else { return Todo::default() };
    let target = match target::choose(claim, offers, &facts.overlaid) {
        Ok(target) => target,
        Err(nothing) => {
            let message = nothing.to_string();
            return Todo::write(facts.delete()).telling(facts.notice("InsufficientCapacityError", message));
        }
    };
    let is_admitted = may_be_on_slots(facts);
    let is_paid = matches!(target, LaunchTarget::Paid(_));
    Todo::ask(Question::Create(LaunchRequest {
        token,
        node_claim: NodeClaimKey { name: claim.metadata.name.clone().unwrap_or_default(), uid: facts.uid() },
        node_pool: pool_of(&claim.metadata).unwrap_or_default().to_owned(),
        node_class,
        target,
        labels: claim.metadata.labels.clone().unwrap_or_default(),
        taints: claim.spec.taints.clone(),
        startup_taints: claim.spec.startup_taints.clone(),
        tags: BTreeMap::new(),
        user_data: None,
        joins_group: facts.adoption == ReservationAdoption::Group && facts.with_reserved && is_admitted,
        avoids_reservations: is_paid && facts.with_reserved && !is_admitted,
    }))
}

/// Whether the instance may be on a slot that it was not launched into: where its NodePool admits that, and the pods that it is for.
fn may_be_on_slots(facts: &Facts<'_>) -> bool {
    let requirements = match facts.pool {
        Some(pool) => &pool.spec.template.spec.requirements,
        None => &facts.claim.spec.requirements,
    };
    let keeps_off =
        facts.claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(labels::KEEPS_OFF_SLOTS));
    !keeps_off && admit_reserved(requirements)
}

/// Whether nodes of these requirements may be on reserved capacity.
pub(crate) fn admit_reserved(requirements: &[Requirement]) -> bool {
    requirements.iter().all(|requirement| {
        let names = requirement.values.iter().any(|value| value == labels::RESERVED);
        match requirement.operator {
            Operator::In if requirement.key == labels::CAPACITY_TYPE => names,
            Operator::NotIn if requirement.key == labels::CAPACITY_TYPE => !names,
            _ => true,
        }
    })
}

/// Writes what was launched: labels first, so that a launched NodeClaim has them.
fn record(facts: &Facts<'_>, instance: &Instance) -> Todo {
    let known = facts.claim.metadata.labels.clone().unwrap_or_default();
    let wanted = labels_of(facts, instance);
    if wanted.iter().any(|(key, value)| known.get(key) != Some(value)) {
        return Todo::write(facts.merge(json!({"metadata": {"labels": wanted}})));
    }
    let launched = facts.change_status(|status| fill(status, instance, facts));
    launched.map_or_else(Todo::default, Todo::write)
}

fn fill(status: &mut NodeClaimStatus, instance: &Instance, facts: &Facts<'_>) {
    status.provider_id = Some(instance.provider_id.0.clone());
    status.image_id.clone_from(&instance.image_id);
    status.capacity.clone_from(&instance.capacity);
    status.allocatable.clone_from(&instance.allocatable);
    let generation = facts.claim.metadata.generation;
    let (all, now) = (&mut status.conditions, facts.now);
    conditions::set(all, (conditions::LAUNCHED, Status::True), (conditions::LAUNCHED, ""), generation, now);
    let waiting = ("NodeNotFound", "Node not registered with cluster");
    conditions::set(all, (conditions::REGISTERED, Status::Unknown), waiting, generation, now);
}

/// A value that keeps all requirements of a key, where one of them asks for a value: the first that is named, else the least
/// number.
fn value_of(key: &str, requirements: &[Requirement]) -> Option<String> {
    let of_key = || requirements.iter().filter(|requirement| requirement.key == key);
    let bound = |requirement: &Requirement| requirement.values.first().and_then(|bound| bound.parse::<i64>().ok());
    let holds = |value: &str| of_key().all(|own| own.operator.admits(&own.values, Some(value)));
    if let Some(named) = of_key().find(|requirement| requirement.operator == Operator::In) {
        return named.values.iter().find(|value| holds(value)).cloned();
    }
    // Labels that no requirement asks for need no value.
    of_key().find(|requirement| !matches!(requirement.operator, Operator::NotIn | Operator::DoesNotExist))?;
    let least = of_key().filter_map(|requirement| match requirement.operator {
        Operator::Gt => bound(requirement)?.checked_add(1),
        Operator::Gte => bound(requirement),
        _ => None,
    });
    let least = least.max().unwrap_or_default();
    // Each value that is left out may be in the way.
    let n_left_out: usize = of_key().map(|requirement| requirement.values.len()).sum();
    let numbers = (0..=n_left_out).filter_map(|more| least.checked_add(i64::try_from(more).ok()?));
    numbers.map(|number| number.to_string()).find(|value| holds(value))
}

/// The labels that the node will have: those of the instance, what the NodeClaim requires to be one value, and a value of each
/// label that it leaves open. Without one its node would not be what its NodePool asks for.
fn labels_of(facts: &Facts<'_>, instance: &Instance) -> BTreeMap<String, String> {
    let requirements = &facts.claim.spec.requirements;
    let single = requirements.iter().filter_map(|requirement| {
        let [value] = requirement.values.as_slice() else { return None };
        // The instance decides what it is; a name that a node may not set has no label.
        let is_in = requirement.operator == Operator::In && requirement.key != labels::HOSTNAME;
        is_in.then(|| (requirement.key.clone(), value.clone()))
    });
    let mut all: BTreeMap<String, String> = single.collect();
    for requirement in requirements {
        let key = &requirement.key;
        if !all.contains_key(key)
            && !labels::is_well_known(labels::normalized(key))
            && let Some(value) = value_of(key, requirements)
        {
            all.insert(key.clone(), value);
        }
    }
    all.extend(instance.labels.clone());
    all
}

#[cfg(test)]
mod tests {
    use berth_api::NodePool;
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "example.com/rack";

    fn requirement(operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Requirement { key: KEY.to_owned(), operator, values, min_values: None }
    }

    #[test]
    fn a_label_that_is_left_open_gets_its_first_value_or_the_least_number() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let value = |of: &[(Operator, &[&str])]| {
            let all: Vec<Requirement> = of.iter().map(|(operator, values)| requirement(*operator, values)).collect();
            value_of(KEY, &all)
        };
        let some = |value: &str| Some(value.to_owned());
        assert_eq!(value(&[(In, &["r2", "r1"])]), some("r2"));
        assert_eq!(value(&[(In, &["r2", "r1"]), (NotIn, &["r2"])]), some("r1"));
        assert_eq!(value(&[(Exists, &[])]), some("0"));
        assert_eq!(value(&[(Exists, &[]), (NotIn, &["0", "1"])]), some("2"));
        assert_eq!(value(&[(Gt, &["4"]), (Lt, &["6"])]), some("5"));
        assert_eq!(value(&[(Gt, &["4"]), (Lt, &["5"])]), None);
        assert_eq!(value(&[(NotIn, &["a"])]), None, "it need not be there");
        assert_eq!(value(&[(DoesNotExist, &[])]), None);
    }

    proptest! {
        /// The regression: a node had none of the values that its NodePool leaves open, and was replaced by one of its kind for
        /// ever.
        #[test]
        fn what_was_launched_has_not_drifted(all in prop::collection::vec((0..8_usize, prop::collection::vec(0..4_u8, 1..4)), 1..4)) {
            let operators = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist, Operator::Gt, Operator::Lt,
                Operator::Gte, Operator::Lte];
            let requirements: Vec<Requirement> = all.iter().map(|(operator, values)| {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                requirement(operators[*operator], &values.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect();
            let pool: NodePool = serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": "p"}, "spec": {"template": {"spec": {
                    "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
                    "requirements": serde_json::to_value(&requirements).unwrap()}}}})).unwrap();
            let has_drifted = |value: Option<String>| {
                let labels: BTreeMap<String, String> = value.map(|value| (KEY.to_owned(), value)).into_iter().collect();
                berth_disruption::static_drift(None, &labels, &pool, true).is_some()
            };
            let can_be_met = !has_drifted(None) || (0..10).any(|number: u8| !has_drifted(Some(number.to_string())));
            prop_assert_eq!(has_drifted(value_of(KEY, &requirements)), !can_be_met);
        }
    }
}
