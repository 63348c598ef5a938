//! A caller that knows what to do about each error.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Failure, Outcome, Subject};
use crate::{
    CapacityReservation, CloudError, Instance, InstanceState, LaunchRequest, LaunchTarget, LaunchToken, Launched,
    NodeClaimKey, OfferingKey, ProviderId, Result, tag,
};

/// The most calls for one thing: what the cloud still refuses then, it refuses for good.
const MOST_CALLS: u32 = 200;

pub(super) fn broken(what: &str, error: &CloudError) -> Failure {
    Failure::Broken(format!("{what}: {error}"))
}

/// A request for any of these offerings, with a token of its own.
pub(super) fn request(subject: &dyn Subject, run: &str, name: &str, target: LaunchTarget) -> Outcome<LaunchRequest> {
    let token = LaunchToken::new(format!("{run}-{name}"), 1).map_err(|error| Failure::Broken(error.to_string()))?;
    Ok(LaunchRequest {
        node_claim: NodeClaimKey { name: name.to_owned(), uid: format!("uid-{token}") },
        token,
        node_pool: "conformance".to_owned(),
        node_class: subject.node_class(),
        target,
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        tags: BTreeMap::from([("purpose".to_owned(), "conformance".to_owned())]),
        user_data: None,
        joins_group: false,
        avoids_reservations: false,
    })
}

pub(super) fn paid(offerings: &[OfferingKey]) -> LaunchTarget {
    LaunchTarget::Paid(offerings.to_vec())
}

pub(super) fn slot(reservation: &str, offering: &OfferingKey) -> LaunchTarget {
    LaunchTarget::Reserved {
        reservation: reservation.to_owned(),
        instance_type: offering.instance_type.clone(),
        zone: offering.zone.clone(),
    }
}

/// Waits as an error asks, if the same call may be answered otherwise.
async fn may_retry(subject: &dyn Subject, error: &CloudError) -> bool {
    let wait = match error {
        CloudError::Throttled { retry_after } => retry_after.unwrap_or(Duration::from_secs(1)),
        CloudError::Unavailable { .. } => Duration::from_secs(1),
        CloudError::OutcomeUnknown { .. } => subject.provider().consistency_lag(),
        _ => return false,
    };
    subject.sleep(wait).await;
    true
}

/// Launches as Berth does: what an unknown outcome left is found by tags before the next call.
pub(super) async fn create(subject: &dyn Subject, request: &LaunchRequest) -> Result<Launched> {
    let mut calls = 0;
    loop {
        calls += 1;
        match subject.provider().create(request).await {
            Err(error) if calls < MOST_CALLS && may_retry(subject, &error).await => {
                if matches!(error, CloudError::OutcomeUnknown { .. })
                    && let Some(instance) = find(subject, request).await?.into_iter().next()
                {
                    return Ok(Launched { instance, exhausted: Vec::new() });
                }
            }
            answer => return answer,
        }
    }
}

/// Repeats the call itself until it is answered: its token makes that safe.
pub(super) async fn repeat(subject: &dyn Subject, request: &LaunchRequest) -> Result<Launched> {
    settled(subject, || subject.provider().create(request)).await
}

/// The instances that carry a request's token.
pub(super) async fn find(subject: &dyn Subject, request: &LaunchRequest) -> Result<Vec<Instance>> {
    let tags = BTreeMap::from([(tag::LAUNCH_TOKEN.to_owned(), request.token.to_string())]);
    let mut calls = 0;
    loop {
        calls += 1;
        match subject.provider().list(&tags).await {
            Err(error) if calls < MOST_CALLS && may_retry(subject, &error).await => {}
            answer => return answer,
        }
    }
}

pub(super) async fn get(subject: &dyn Subject, id: &ProviderId) -> Result<Instance> {
    let mut calls = 0;
    loop {
        calls += 1;
        match subject.provider().get(id).await {
            Err(error) if calls < MOST_CALLS && may_retry(subject, &error).await => {}
            answer => return answer,
        }
    }
}

/// Deletes until the cloud says that the instance is gone.
pub(super) async fn delete(subject: &dyn Subject, id: &ProviderId) -> Outcome {
    for _ in 0..MOST_CALLS {
        match subject.provider().delete(id).await {
            Err(CloudError::NotFound { .. }) => return Ok(()),
            Ok(()) => subject.sleep(Duration::from_secs(1)).await,
            Err(error) => {
                if !may_retry(subject, &error).await {
                    return Err(broken("delete", &error));
                }
            }
        }
    }
    Err(Failure::Broken(format!("instance {id} was deleted {MOST_CALLS} times and is still there")))
}

/// Deletes the instances of a scene.
pub(super) async fn clear(subject: &dyn Subject, instances: &[Instance]) -> Outcome {
    for instance in instances.iter().filter(|instance| instance.state != InstanceState::Terminated) {
        delete(subject, &instance.provider_id).await?;
    }
    Ok(())
}

/// One reservation as it is shown now.
pub(super) async fn reservation(subject: &dyn Subject, id: &str) -> Outcome<CapacityReservation> {
    let mut calls = 0;
    let all = loop {
        calls += 1;
        match subject.provider().reservations(&subject.node_class()).await {
            Err(error) if calls < MOST_CALLS && may_retry(subject, &error).await => {}
            answer => break answer.map_err(|error| broken("reservations", &error))?,
        }
    };
    all.into_iter()
        .find(|reservation| reservation.id == id)
        .ok_or_else(|| Failure::Broken(format!("reservation {id} is not listed")))
}

/// Calls a read until it is answered.
pub(super) async fn settled<T, F: Future<Output = Result<T>>>(
    subject: &dyn Subject,
    read: impl Fn() -> F,
) -> Result<T> {
    let mut calls = 0;
    loop {
        calls += 1;
        match read().await {
            Err(error) if calls < MOST_CALLS && may_retry(subject, &error).await => {}
            answer => return answer,
        }
    }
}
