//! Capacity reservations of a catalogue that offer nothing at the time of a plan.

use std::collections::BTreeMap;

use berth_catalogue::{Availability, Catalogue};
use berth_cloudprovider_aws::closed_at;
use jiff::Timestamp;

/// Ids that the note lists.
const MOST_NAMES: usize = 5;

/// The catalogue with nothing left of reservations that have not begun or are over at this time, with what to say of them.
pub(crate) fn without_closed(catalogue: Catalogue, now: Timestamp) -> (Catalogue, Option<String>) {
    let offerings = catalogue.types().iter().flat_map(|known| &known.offerings);
    let closed: BTreeMap<String, String> = offerings
        .filter(|offering| offering.launchable() != Availability::Count(0))
        .filter_map(|offering| Some((offering.reservation_id()?.to_owned(), closed_at(offering, now)?)))
        .collect();
    if closed.is_empty() {
        return (catalogue, None);
    }
    let listed: Vec<String> = closed.iter().take(MOST_NAMES).map(|(id, why)| format!("{id}: {why}")).collect();
    let rest = match closed.len() - listed.len() {
        0 => String::new(),
        rest => format!("; and {rest} more"),
    };
    let note = format!(
        "capacity reservations of the catalogue that cannot be used at {now} count as having nothing free ({}{rest})",
        listed.join("; ")
    );
    let is_closed = |id: &str| closed.contains_key(id);
    (catalogue.without(|_, offering| offering.reservation_id().is_some_and(is_closed)), Some(note))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect")]

    use serde_json::{Value, json};

    use super::*;

    fn catalogue(details: &Value, kind: &str) -> Catalogue {
        let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let requirements = [
            is("karpenter.sh/capacity-type", "reserved"),
            is("karpenter.k8s.aws/capacity-reservation-id", "cr-1"),
            is("karpenter.k8s.aws/capacity-reservation-type", kind),
        ];
        let offering =
            json!({"Price": 0.1, "ReservationCapacity": 3, "Reservation": details, "Requirements": requirements});
        let types = json!([{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [offering]}]);
        berth_catalogue::read(types.to_string().as_bytes(), "t").unwrap()
    }

    #[test]
    fn a_reservation_is_used_while_it_is_open() {
        let active = json!({"State": "active", "Start": "2026-01-01T00:00:00Z", "End": "2026-03-02T00:30:00Z"});
        let cases = [
            (json!({}), "default", None),
            (active, "default", None),
            (json!({"End": "2026-03-01T00:00:00Z"}), "default", Some("it ended at 2026-03-01T00:00:00Z")),
            (json!({"Start": "2026-03-09T00:00:00Z"}), "default", Some("it begins at 2026-03-09T00:00:00Z")),
            (json!({"State": "scheduled", "Start": "2026-03-01T00:00:00Z"}), "default", None),
            (json!({"State": "expired"}), "default", Some("it is expired")),
            (json!({"End": "2026-03-02T00:20:00Z"}), "capacity-block", Some("it ends at")),
            (json!({"End": "2026-03-02T01:20:00Z"}), "capacity-block", None),
        ];
        for (details, kind, told) in cases {
            let now = "2026-03-02T00:00:00Z".parse().unwrap();
            let (catalogue, note) = without_closed(catalogue(&details, kind), now);
            let free = if told.is_some() { 0 } else { 3 };
            assert_eq!(catalogue.reservations()["cr-1"].instances, free, "{details}");
            assert_eq!(note.is_some(), told.is_some(), "{details}");
            assert!(told.is_none_or(|told| note.as_deref().unwrap().contains(&format!("cr-1: {told}"))), "{note:?}");
        }
    }
}
