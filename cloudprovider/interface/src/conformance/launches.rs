//! Promises about launches and deletions.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::caller::{broken, clear, create, delete, find, get, paid, repeat, request, settled, slot};
use super::{Failure, Outcome, Subject, expect};
use crate::{CloudError, Instance, InstanceState, LaunchTarget, OfferingKey, ProviderId, tag};
use berth_catalogue::CapacityType;

pub(super) async fn is_what_was_asked(subject: &dyn Subject, run: &str) -> Outcome {
    let [first, _] = subject.offerings();
    let request = request(subject, run, "asked", paid(std::slice::from_ref(&first)))?;
    let instance = create(subject, &request).await.map_err(|error| broken("create", &error))?.instance;
    let asked = OfferingKey { capacity_type: instance.offering.capacity_type, ..first.clone() };
    expect(instance.offering == asked, || format!("asked for {first}, got {}", instance.offering))?;
    expect(instance.state.is_alive(), || format!("a new instance is {:?}", instance.state))?;
    expect(instance.token.as_ref() == Some(&request.token), || format!("its token is {:?}", instance.token))?;
    for (key, value) in request.all_tags("any") {
        let found = instance.tags.get(&key);
        // Which cluster it is, the provider knows.
        expect(found.is_some() && (key == tag::CLUSTER || found == Some(&value)), || {
            format!("tag {key} is {found:?}, expected {value:?}")
        })?;
    }
    let label = instance.labels.get("node.kubernetes.io/instance-type");
    expect(label == Some(&first.instance_type), || format!("its instance type label is {label:?}"))?;
    expect(instance.labels.get("topology.kubernetes.io/zone") == first.zone.as_ref(), || {
        format!("its zone label is not {:?}", first.zone)
    })?;
    expect(instance.allocatable.contains_key("cpu"), || "its allocatable has no cpu".to_owned())?;
    clear(subject, &[instance]).await
}

pub(super) async fn same_token_same_instance(subject: &dyn Subject, run: &str) -> Outcome {
    let request = request(subject, run, "again", paid(&subject.offerings()))?;
    let first = create(subject, &request).await.map_err(|error| broken("create", &error))?.instance;
    let second = create(subject, &request).await.map_err(|error| broken("create again", &error))?.instance;
    expect(first.provider_id == second.provider_id, || {
        format!("the first call launched {}, the second {}", first.provider_id, second.provider_id)
    })?;
    // Even when it is gone: a launch that is repeated by mistake makes no second instance.
    delete(subject, &first.provider_id).await?;
    let third = create(subject, &request).await.map_err(|error| broken("create after deletion", &error))?.instance;
    expect(first.provider_id == third.provider_id, || {
        format!("after its deletion {} was launched once more as {}", first.provider_id, third.provider_id)
    })
}

pub(super) async fn same_token_side_by_side(subject: &dyn Subject, run: &str) -> Outcome {
    let request = request(subject, run, "together", paid(&subject.offerings()))?;
    let mut launched = Vec::new();
    for answer in join_all((0..8).map(|_| create(subject, &request))).await {
        launched.push(answer.map_err(|error| broken("create", &error))?.instance);
    }
    let ids: BTreeSet<&ProviderId> = launched.iter().map(|instance| &instance.provider_id).collect();
    expect(ids.len() == 1, || format!("eight calls with one token launched {ids:?}"))?;
    clear(subject, &launched[..1]).await
}

pub(super) async fn token_of_another_request(subject: &dyn Subject, run: &str) -> Outcome {
    let [first, second] = subject.offerings();
    let own = request(subject, run, "token", paid(std::slice::from_ref(&first)))?;
    let instance = create(subject, &own).await.map_err(|error| broken("create", &error))?.instance;
    let other = crate::LaunchRequest { target: paid(&[second]), ..own.clone() };
    match repeat(subject, &other).await {
        Err(CloudError::InvalidRequest { field, .. }) if field == "token" => {}
        answer => return Err(Failure::Broken(format!("another request with a used token got {answer:?}"))),
    }
    // The next attempt is another launch.
    let next = own.token.next_attempt().map_err(|error| Failure::Broken(error.to_string()))?;
    let next = create(subject, &crate::LaunchRequest { token: next, ..other }).await;
    let next = next.map_err(|error| broken("create of the next attempt", &error))?.instance;
    expect(next.provider_id != instance.provider_id, || "the next attempt is the same instance".to_owned())?;
    clear(subject, &[instance, next]).await
}

pub(super) async fn side_by_side(subject: &dyn Subject, run: &str) -> Outcome {
    let mut requests = Vec::new();
    for n in 0..8 {
        requests.push(request(subject, run, &format!("many-{n}"), paid(&subject.offerings()))?);
    }
    let mut launched: Vec<Instance> = Vec::new();
    for answer in join_all(requests.iter().map(|request| create(subject, request))).await {
        launched.push(answer.map_err(|error| broken("create", &error))?.instance);
    }
    let ids: BTreeSet<&ProviderId> = launched.iter().map(|instance| &instance.provider_id).collect();
    expect(ids.len() == 8, || format!("eight launches made {} instances", ids.len()))?;
    for (request, instance) in requests.iter().zip(&launched) {
        let name = instance.tags.get(tag::NODE_CLAIM);
        expect(name == Some(&request.node_claim.name), || format!("an answer was for {name:?}"))?;
    }
    clear(subject, &launched).await
}

pub(super) async fn found_by_tags(subject: &dyn Subject, run: &str) -> Outcome {
    let request = request(subject, run, "found", paid(&subject.offerings()))?;
    let instance = create(subject, &request).await.map_err(|error| broken("create", &error))?.instance;
    subject.sleep(subject.provider().consistency_lag()).await;
    let found = find(subject, &request).await.map_err(|error| broken("list", &error))?;
    let ids: Vec<&ProviderId> = found.iter().map(|instance| &instance.provider_id).collect();
    expect(ids == [&instance.provider_id], || format!("its token is carried by {ids:?}"))?;
    let got = get(subject, &instance.provider_id).await.map_err(|error| broken("get", &error))?;
    expect(got.tags == instance.tags, || format!("get shows the tags {:?}", got.tags))?;
    clear(subject, &[instance]).await
}

pub(super) async fn deleted_goes(subject: &dyn Subject, run: &str) -> Outcome {
    let request = request(subject, run, "deleted", paid(&subject.offerings()))?;
    let instance = create(subject, &request).await.map_err(|error| broken("create", &error))?.instance;
    delete(subject, &instance.provider_id).await?;
    subject.sleep(subject.provider().consistency_lag()).await;
    match get(subject, &instance.provider_id).await {
        Err(CloudError::NotFound { .. }) => {}
        answer => return Err(Failure::Broken(format!("get of a deleted instance answers {answer:?}"))),
    }
    let left = find(subject, &request).await.map_err(|error| broken("list", &error))?;
    expect(left.iter().all(|instance| instance.state == InstanceState::Terminated), || {
        format!("list shows a deleted instance as {:?}", left.iter().map(|instance| instance.state).collect::<Vec<_>>())
    })
}

pub(super) async fn told_of_interruption(subject: &dyn Subject, run: &str) -> Outcome {
    let request = request(subject, run, "interrupted", paid(&subject.offerings()))?;
    let instance = create(subject, &request).await.map_err(|error| broken("create", &error))?.instance;
    subject.sleep(subject.provider().consistency_lag()).await;
    let told = async || {
        let answer = settled(subject, || subject.provider().interrupted()).await;
        let all = answer.map_err(|error| broken("interrupted", &error))?;
        Ok(all.into_iter().find(|known| known.provider_id == instance.provider_id))
    };
    let before = told().await?;
    expect(before.is_none(), || format!("{before:?} is told of although nobody takes it back"))?;
    if !subject.interrupt(&instance.provider_id).await {
        clear(subject, std::slice::from_ref(&instance)).await?;
        return Err(Failure::Skip);
    }
    subject.sleep(subject.provider().consistency_lag()).await;
    let after = told().await?;
    expect(after.as_ref().is_some_and(|known| known.interruption.is_some()), || format!("{after:?} is told"))?;
    clear(subject, &[instance]).await
}

pub(super) async fn unknown_is_not_found(subject: &dyn Subject) -> Outcome {
    let id = ProviderId("conformance:///nowhere/i-none".to_owned());
    match get(subject, &id).await {
        Err(CloudError::NotFound { .. }) => {}
        answer => return Err(Failure::Broken(format!("get of what never was answers {answer:?}"))),
    }
    delete(subject, &id).await
}

pub(super) async fn invalid_requests(subject: &dyn Subject, run: &str) -> Outcome {
    let [first, _] = subject.offerings();
    let reserved = OfferingKey { capacity_type: CapacityType::Reserved, ..first.clone() };
    for (name, target) in [("none", LaunchTarget::Paid(Vec::new())), ("unpinned", paid(&[reserved]))] {
        match create(subject, &request(subject, run, name, target)?).await {
            Err(CloudError::InvalidRequest { .. }) => {}
            answer => return Err(Failure::Broken(format!("the target {name} got {answer:?}"))),
        }
    }
    match create(subject, &request(subject, run, "absent", slot("conformance-absent", &first))?).await {
        Err(CloudError::ReservationFull { .. }) => Ok(()),
        answer => Err(Failure::Broken(format!("a reservation that does not exist got {answer:?}"))),
    }
}

pub(super) async fn unauthorized(subject: &dyn Subject, run: &str) -> Outcome {
    if !subject.deny(true).await {
        return Err(Failure::Skip);
    }
    let request = request(subject, run, "denied", paid(&subject.offerings()))?;
    let refused = create(subject, &request).await;
    let class = subject.node_class();
    let unread = settled(subject, || subject.provider().instance_types(&class)).await.err();
    subject.deny(false).await;
    expect(matches!(refused, Err(CloudError::Unauthorized { .. })), || {
        format!("without the right to launch, create answers {refused:?}")
    })?;
    expect(matches!(unread, Some(CloudError::Unauthorized { .. })), || {
        format!("without the right to read, instance_types answers {unread:?}")
    })?;
    subject.sleep(subject.provider().consistency_lag()).await;
    let left = find(subject, &request).await.map_err(|error| broken("list", &error))?;
    expect(left.is_empty(), || format!("what was refused launched {left:?}"))?;
    let launched = create(subject, &request).await.map_err(|error| broken("create once allowed", &error))?;
    clear(subject, &[launched.instance]).await
}
