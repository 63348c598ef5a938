//! Who draws from Reservations that are still to be placed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, LabelsId, MemberKind, PodSpec, Refusal, ReservationId, SpecId, Sym, Universe};

use super::reasons;

/// A pod that goes where a pending Reservation goes, and draws from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// `namespace/name`.
    pub name: Box<str>,
    /// The namespace.
    pub namespace: Sym,
    /// Index into [`Cluster::specs`].
    pub spec: SpecId,
    /// Index into [`Cluster::label_sets`].
    pub labels: LabelsId,
}

/// Who draws from which Reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// By pending Reservation, the pods that go where it goes.
    pub with: BTreeMap<ReservationId, Vec<Bundled>>,
}

impl Draws {
    /// How many pods draw.
    pub fn len(&self) -> usize {
        self.with.values().map(Vec::len).sum()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.with.is_empty()
    }
}

/// Whether nothing but the want of a Reservation refuses pods of this spec.
pub fn is_open(spec: &PodSpec) -> bool {
    spec.refusal.as_ref().is_none_or(|Refusal(reason)| reason == reasons::AFFINITY)
}

/// Classes of owners, highest priority first, and of one priority those first who can come nowhere else.
pub(super) fn owners_in_order(cluster: &Cluster, universe: &Universe) -> Vec<ClassId> {
    let spec = |id: ClassId| universe.class(id).and_then(|class| cluster.spec(class.spec));
    let ids = (0..u32::try_from(universe.classes.len()).unwrap_or(u32::MAX)).map(ClassId);
    let is_owner = |id: &ClassId| {
        universe.class(*id).is_some_and(|class| class.kind == MemberKind::Pod && class.count > 0)
            && spec(*id)
                .is_some_and(|spec| !spec.reservation.owner_of.is_empty() || spec.reservation.affinity.is_some())
    };
    let mut ids: Vec<ClassId> = ids.filter(is_owner).collect();
    ids.sort_by_key(|id| spec(*id).map(|spec| (Reverse(spec.priority), spec.reservation.affinity.is_none())));
    ids
}
