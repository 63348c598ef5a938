//! Promises about reservations and their counts.

use std::time::Duration;

use berth_catalogue::CapacityType;
use futures::future::join_all;

use super::caller::{broken, clear, create, get, paid, request, reservation, settled, slot};
use super::{Failure, Outcome, Subject, expect};
use crate::{
    CloudError, Instance, InterruptionReason, LaunchRequest, ProviderId, ReservationAdoption, ReservationKind,
};

/// Requests for slots of one reservation, and its id.
async fn scene(
    subject: &dyn Subject,
    run: &str,
    name: &str,
    total: u32,
    n_requests: u32,
) -> Outcome<(String, Vec<LaunchRequest>)> {
    let [offering, _] = subject.offerings();
    let id = subject.reserve(&offering, total).await.ok_or(Failure::Skip)?;
    let requests = (0..n_requests).map(|n| request(subject, run, &format!("{name}-{n}"), slot(&id, &offering)));
    Ok((id.clone(), requests.collect::<Outcome<Vec<_>>>()?))
}

fn ids(instances: &[Instance]) -> Vec<&ProviderId> {
    instances.iter().map(|instance| &instance.provider_id).collect()
}

async fn lag(subject: &dyn Subject) {
    subject.sleep(subject.provider().consistency_lag()).await;
}

pub(super) async fn serves_its_slots(subject: &dyn Subject, run: &str) -> Outcome {
    let (id, requests) = scene(subject, run, "slot", 2, 4).await?;
    let mut launched = Vec::new();
    for request in &requests[..2] {
        let instance = create(subject, request).await.map_err(|error| broken("create", &error))?.instance;
        expect(instance.reservation.as_ref() == Some(&id), || {
            format!("an instance pinned to {id} is under {:?}", instance.reservation)
        })?;
        launched.push(instance);
    }
    match create(subject, &requests[2]).await {
        Err(CloudError::ReservationFull { reservation, .. }) if reservation == id => {}
        answer => return Err(Failure::Broken(format!("a full reservation answers {answer:?}"))),
    }
    lag(subject).await;
    let shown = reservation(subject, &id).await?;
    expect((shown.total, shown.used) == (2, 2), || format!("shown are {} of {}", shown.used, shown.total))?;
    expect(launched.iter().all(|instance| shown.includes.contains(&instance.provider_id)), || {
        format!("the count says that it includes {:?}", shown.includes)
    })?;
    // A slot comes back with its instance's end.
    let first = launched.remove(0);
    clear(subject, &[first]).await?;
    lag(subject).await;
    let shown = reservation(subject, &id).await?;
    expect(shown.free_after(ids(&launched)) == 1, || format!("after a deletion {} of 2 are used", shown.used))?;
    let again = create(subject, &requests[3]).await.map_err(|error| broken("create into the freed slot", &error))?;
    launched.push(again.instance);
    clear(subject, &launched).await
}

pub(super) async fn side_by_side(subject: &dyn Subject, run: &str) -> Outcome {
    let (id, requests) = scene(subject, run, "race", 3, 8).await?;
    let mut launched = Vec::new();
    for answer in join_all(requests.iter().map(|request| create(subject, request))).await {
        match answer {
            Ok(answer) => launched.push(answer.instance),
            Err(CloudError::ReservationFull { .. }) => {}
            Err(error) => return Err(broken("create", &error)),
        }
    }
    expect(launched.len() == 3, || format!("three slots of {id} served {} of eight launches", launched.len()))?;
    clear(subject, &launched).await
}

pub(super) async fn counts_are_safe(subject: &dyn Subject, run: &str) -> Outcome {
    let (id, requests) = scene(subject, run, "count", 5, 5).await?;
    let mut launched: Vec<Instance> = Vec::new();
    for (request, left) in requests.iter().zip((0..5).rev()) {
        let instance = create(subject, request).await.map_err(|error| broken("create", &error))?.instance;
        launched.push(instance);
        // However late the count is: with the launches that it did not see taken off, it promises nothing too much.
        for _ in 0..3 {
            let free = reservation(subject, &id).await?.free_after(ids(&launched));
            expect(free <= left, || format!("{free} slots are said to be free, {left} are"))?;
            subject.sleep(Duration::from_millis(200)).await;
        }
    }
    lag(subject).await;
    let free = reservation(subject, &id).await?.free_after(ids(&launched));
    expect(free == 0, || format!("{free} slots are said to be free in the end, none is"))?;
    clear(subject, &launched).await
}

pub(super) async fn over_allocated(subject: &dyn Subject, run: &str) -> Outcome {
    let (id, requests) = scene(subject, run, "over", 3, 4).await?;
    let mut launched: Vec<Instance> = Vec::new();
    for request in &requests[..3] {
        launched.push(create(subject, request).await.map_err(|error| broken("create", &error))?.instance);
    }
    subject.resize(&id, 1).await;
    lag(subject).await;
    let shown = reservation(subject, &id).await?;
    expect((shown.total, shown.used, shown.over_allocated()) == (1, 3, 2), || {
        format!("made smaller under three instances, it shows {} of {}", shown.used, shown.total)
    })?;
    match create(subject, &requests[3]).await {
        Err(CloudError::ReservationFull { .. }) => {}
        answer => return Err(Failure::Broken(format!("an over-allocated reservation answers {answer:?}"))),
    }
    clear(subject, &launched).await
}

/// One of the two offerings, on demand.
fn on_demand(subject: &dyn Subject) -> Outcome<crate::OfferingKey> {
    let offerings = subject.offerings().into_iter();
    let mut on_demand = offerings.filter(|own| own.capacity_type == CapacityType::OnDemand);
    on_demand.next().ok_or(Failure::Skip)
}

pub(super) async fn taken_in_later(subject: &dyn Subject, run: &str) -> Outcome {
    if subject.provider().reservation_adoption() != ReservationAdoption::Group {
        return Err(Failure::Skip);
    }
    let offering = on_demand(subject)?;
    let mut launched = Vec::new();
    for (name, joins_group) in [("alone", false), ("group", true)] {
        let request = request(subject, run, name, paid(std::slice::from_ref(&offering)))?;
        let request = LaunchRequest { joins_group, ..request };
        launched.push(create(subject, &request).await.map_err(|error| broken("create", &error))?.instance);
    }
    let id = subject.reserve(&offering, 2).await.ok_or(Failure::Skip)?;
    lag(subject).await;
    let mut under = Vec::new();
    for instance in &launched {
        let found = get(subject, &instance.provider_id).await.map_err(|error| broken("get", &error))?;
        under.push((found.reservation, found.offering.capacity_type));
    }
    // Slots of earlier reservations may be free, too.
    let [(None, CapacityType::OnDemand), (Some(taken), CapacityType::Reserved)] = under.as_slice() else {
        return Err(Failure::Broken(format!(
            "beside two slots of {id}, one of no group and one of it are under {under:?}"
        )));
    };
    let shown = reservation(subject, taken).await?;
    expect(shown.includes.contains(&launched[1].provider_id), || {
        format!("{} used slots are shown, by {:?}", shown.used, shown.includes)
    })?;
    clear(subject, &launched).await?;
    subject.resize(&id, 0).await;
    Ok(())
}

pub(super) async fn reclaimed(subject: &dyn Subject, run: &str) -> Outcome {
    let [offering, _] = subject.offerings();
    let id = subject.reserve_interruptibly(&offering, Some(2)).await.ok_or(Failure::Skip)?;
    let mut launched = Vec::new();
    for name in ["back-0", "back-1"] {
        let request = request(subject, run, name, slot(&id, &offering))?;
        launched.push(create(subject, &request).await.map_err(|error| broken("create", &error))?.instance);
    }
    lag(subject).await;
    let shown = reservation(subject, &id).await?;
    expect(shown.kind == ReservationKind::Interruptible, || format!("it is shown as {:?}", shown.kind))?;
    subject.reserve_interruptibly(&offering, Some(1)).await;
    lag(subject).await;
    let mut told = Vec::new();
    for instance in &launched {
        let found = get(subject, &instance.provider_id).await.map_err(|error| broken("get", &error))?;
        told.extend(found.interruption.map(|interruption| (found.provider_id, interruption)));
    }
    let [(taken, interruption)] = told.as_slice() else {
        return Err(Failure::Broken(format!("of two slots one is taken back, and {told:?} are told of it")));
    };
    expect(interruption.reason == InterruptionReason::Reclaimed, || {
        format!("it is told as {:?}", interruption.reason)
    })?;
    let listed =
        settled(subject, || subject.provider().interrupted()).await.map_err(|error| broken("interrupted", &error))?;
    expect(listed.iter().any(|one| one.provider_id == *taken), || format!("{taken} is not among those told of"))?;
    // Until it has gone it uses its slot.
    let shown = reservation(subject, &id).await?;
    expect(shown.free_after(ids(&launched)) == 0, || format!("{} of {} are used", shown.used, shown.total))?;
    clear(subject, &launched).await?;
    subject.reserve_interruptibly(&offering, None).await;
    Ok(())
}

pub(super) async fn used_unasked(subject: &dyn Subject, run: &str) -> Outcome {
    let offering = on_demand(subject)?;
    let id = subject.reserve_openly(&offering, Some(1)).await.ok_or(Failure::Skip)?;
    let mut launched = Vec::new();
    for name in ["open-0", "open-1"] {
        let request = request(subject, run, name, paid(std::slice::from_ref(&offering)))?;
        launched.push(create(subject, &request).await.map_err(|error| broken("create", &error))?.instance);
    }
    let under: Vec<Option<&str>> = launched.iter().map(|instance| instance.reservation.as_deref()).collect();
    expect(under == [Some(id.as_str()), None], || {
        format!("two launches on demand beside one open slot are under {under:?}")
    })?;
    lag(subject).await;
    let shown = reservation(subject, &id).await?;
    expect(shown.used == 1 && shown.includes.contains(&launched[0].provider_id), || {
        format!("shown are {} used, by {:?}", shown.used, shown.includes)
    })?;
    expect(shown.free_after(ids(&launched[..1])) == 0, || "the slot is said to be free still".to_owned())?;
    clear(subject, &launched).await?;
    subject.reserve_openly(&offering, None).await;
    Ok(())
}
