//! Promises about what is offered, and about offerings that have run out.

use std::collections::BTreeMap;

use super::caller::{broken, clear, create, paid, request, settled};
use super::{Failure, Outcome, Subject, expect};
use crate::{CloudError, NodeClassStatus};
use berth_api::NodeClassRef;
use berth_catalogue::CapacityType;

pub(super) async fn falls_through(subject: &dyn Subject, run: &str) -> Outcome {
    let [first, second] = subject.offerings();
    if !subject.exhaust(&first, true).await {
        return Err(Failure::Skip);
    }
    let request = request(subject, run, "second", paid(&[first.clone(), second.clone()]))?;
    let launched = create(subject, &request).await;
    subject.exhaust(&first, false).await;
    let launched = launched.map_err(|error| broken("create", &error))?;
    let got = &launched.instance.offering;
    expect(*got == second, || format!("{first} had no instance left, {second} was next, got {got}"))?;
    // A repeated or found launch no longer knows what had run out.
    expect(launched.exhausted.is_empty() || launched.exhausted == [first], || {
        format!("run out are said to be {:?}", launched.exhausted)
    })?;
    clear(subject, &[launched.instance]).await
}

pub(super) async fn insufficient(subject: &dyn Subject, run: &str) -> Outcome {
    let offerings = subject.offerings();
    for offering in &offerings {
        if !subject.exhaust(offering, true).await {
            return Err(Failure::Skip);
        }
    }
    let request = request(subject, run, "neither", paid(&offerings))?;
    let refused = create(subject, &request).await;
    for offering in &offerings {
        subject.exhaust(offering, false).await;
    }
    match refused {
        Err(CloudError::InsufficientCapacity { offerings: tried }) if tried == offerings => {}
        answer => return Err(Failure::Broken(format!("with nothing left, create answers {answer:?}"))),
    }
    // What was refused is not remembered: the same token launches once there is something.
    let launched = create(subject, &request).await.map_err(|error| broken("create later", &error))?;
    clear(subject, &[launched.instance]).await
}

pub(super) async fn agree(subject: &dyn Subject) -> Outcome {
    let [first, _] = subject.offerings();
    let reservation = subject.reserve(&first, 3).await;
    let class = subject.node_class();
    let offered = settled(subject, || subject.provider().instance_types(&class)).await;
    let offered = offered.map_err(|error| broken("instance_types", &error))?;
    let by_id: BTreeMap<&str, _> = offered.reservations.iter().map(|own| (own.id.as_str(), own)).collect();
    expect(by_id.len() == offered.reservations.len(), || "two reservations have one id".to_owned())?;
    for (id, entry) in offered.catalogue.reservations() {
        let free = by_id.get(id.as_str()).map(|own| own.free_after([]));
        expect(free == Some(entry.instances), || {
            format!("{id} has {} free slots as an offering and {free:?} as a reservation", entry.instances)
        })?;
    }
    let is_first = |name: &str| name == first.instance_type;
    let entry = offered.catalogue.types().iter().find(|entry| is_first(&entry.name));
    let entry = entry.ok_or_else(|| Failure::Broken(format!("{first} is not among the instance types")))?;
    expect(entry.offerings.iter().any(|own| own.capacity_type() == Some(first.capacity_type)), || {
        format!("{first} is not among the offerings")
    })?;
    if let Some(id) = reservation {
        let is_offered = entry.offerings.iter().any(|own| {
            own.capacity_type() == Some(CapacityType::Reserved) && own.reservation_id() == Some(id.as_str())
        });
        expect(is_offered, || format!("the reservation {id} is no offering of {}", first.instance_type))?;
    }
    match settled(subject, || subject.provider().node_class_status(&class)).await {
        Ok(NodeClassStatus::Ready { .. }) => Ok(()),
        answer => Err(Failure::Broken(format!("the node class is {answer:?}"))),
    }
}

pub(super) async fn unknown_node_class(subject: &dyn Subject, run: &str) -> Outcome {
    let class = NodeClassRef { name: "conformance-absent".to_owned(), ..subject.node_class() };
    let is_missing = |error: Option<CloudError>| matches!(error, Some(CloudError::NotFound { .. }));
    let types = settled(subject, || subject.provider().instance_types(&class)).await.err();
    let status = settled(subject, || subject.provider().node_class_status(&class)).await.err();
    let mut launch = request(subject, run, "classless", paid(&subject.offerings()))?;
    launch.node_class = class.clone();
    let launch = create(subject, &launch).await.err();
    for (call, error) in [("instance_types", types), ("node_class_status", status), ("create", launch)] {
        expect(is_missing(error.clone()), || format!("{call} of an absent node class answers {error:?}"))?;
    }
    Ok(())
}
