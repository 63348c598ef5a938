//! CPUs and devices that pods and Reservations get to themselves, as Koordinator's annotations say it.

use std::collections::BTreeMap;

use berth_decisions::{Also, annotations};
use berth_model::{Cluster, MemberKind};
use serde::Serialize;

/// Who gets something, and the annotations that say so.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<&'a str>,
    annotations: BTreeMap<&'static str, String>,
}

/// Those of a kind that get any.
pub(super) fn entries<'a>(
    also: &'a [Also<'a>],
    kind: MemberKind,
    cluster: &'a Cluster,
) -> serde_json::Result<Vec<Entry<'a>>> {
    let has_any = also.iter().filter_map(|also| Some((also.name, also.assigned.filter(|own| !own.is_empty())?)));
    let entry = |(name, assigned)| {
        let (pod, reservation) = match kind {
            MemberKind::Pod => (Some(name), None),
            MemberKind::Reservation => (None, Some(name)),
        };
        Ok(Entry { pod, reservation, annotations: annotations(assigned, cluster)? })
    };
    has_any.map(entry).collect()
}
