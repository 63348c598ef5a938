//! Which classes see nodes alike: those share an index.

use std::borrow::Cow;

use berth_model::{
    AllocatePolicy, ClassId, Cluster, Constraint, CounterId, MemberKind, Phase, PodClass, PodSpec, Preferences,
    Reservation, ReservationAffinity, Sym, Universe,
};
use rustc_hash::FxHashMap;

/// By class: the first class that sees nodes as it does, those aside on which either may draw from a Reservation.
#[derive(Clone, Debug)]
pub(super) struct Views(Vec<ClassId>);

/// All that an [`super::index::Index`] reads of a class.
#[derive(PartialEq, Eq, Hash)]
struct ViewKey<'a> {
    kind: MemberKind,
    spec: Cow<'a, PodSpec>,
    required: &'a [Constraint],
    preferred: &'a Preferences,
    drawn: &'a [(CounterId, i64)],
    /// Of a class that stands in for Reservations.
    reserves: Option<Reserves>,
}

/// What matters of a Reservation for its node, beside what its pod asks for.
#[derive(PartialEq, Eq, Hash)]
struct Reserves {
    has_policy: bool,
    pinned: Option<Sym>,
}

impl Views {
    /// Those that only run are left out, unless they may `come_again`.
    pub(super) fn new(cluster: &Cluster, universe: &Universe, come_again: bool) -> Self {
        let mut ids: FxHashMap<ViewKey<'_>, ClassId> = FxHashMap::default();
        let classes = universe.classes.iter().zip(0_u32..).map(|(class, id)| {
            let key = key(cluster, class, come_again)?;
            Some(*ids.entry(key).or_insert(ClassId(id)))
        });
        Views(classes.zip(0_u32..).map(|(view, id)| view.unwrap_or(ClassId(id))).collect())
    }

    pub(super) fn of(&self, class: ClassId) -> ClassId {
        self.0.get(class.index()).copied().unwrap_or(class)
    }
}

fn key<'a>(cluster: &'a Cluster, class: &'a PodClass, comes_again: bool) -> Option<ViewKey<'a>> {
    // What only runs is never asked for a place.
    if !comes_again && class.count == 0 && class.kind == MemberKind::Pod {
        return None;
    }
    let spec = cluster.spec(class.spec)?;
    let reservation = spec.reservation.reserves.and_then(|id| cluster.reservation(id));
    Some(ViewKey {
        kind: class.kind,
        spec: without_owners(spec),
        required: &class.required,
        preferred: &class.preferred,
        drawn: &class.drawn,
        reserves: reservation.filter(|_| class.kind == MemberKind::Reservation).map(reserves),
    })
}

fn reserves(reservation: &Reservation) -> Reserves {
    Reserves {
        has_policy: reservation.policy != AllocatePolicy::Unset,
        pinned: reservation.node.filter(|_| reservation.phase == Phase::Pending),
    }
}

// Where a pod draws from nothing, only whether it must matters.
fn without_owners(spec: &PodSpec) -> Cow<'_, PodSpec> {
    let ask = &spec.reservation;
    if ask.owner_of.is_empty() && ask.reserves.is_none() {
        return Cow::Borrowed(spec);
    }
    let mut spec = spec.clone();
    spec.reservation.reserves = None;
    if !ask.owner_of.is_empty() {
        spec.reservation.owner_of.clear();
        spec.reservation.exact.clear();
        spec.reservation.affinity = spec.reservation.affinity.take().map(|_| ReservationAffinity::default());
    }
    Cow::Owned(spec)
}
