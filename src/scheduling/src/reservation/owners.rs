//! Who may draw from a Reservation.

use berth_model::{ControllerMatch, Labels, ObjectMatch, OwnerReference, Reservation, ReservationOwner, Sym, Symbols};

/// What owners look at in a pod.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The namespace.
    pub namespace: Sym,
    /// The name, where it is known before the pod is there.
    pub name: Option<&'a str>,
    /// The uid, where the pod has one.
    pub uid: Option<&'a str>,
    /// The labels.
    pub labels: &'a Labels,
    /// The owner references.
    pub references: &'a [OwnerReference],
}

/// Whether one of a Reservation's owners describes the pod. Entries are alternatives, the parts of an entry must all
/// hold. Owners that cannot be read describe nobody; an entry without any part describes everybody.
pub fn owns(reservation: &Reservation, pod: &Identity<'_>, symbols: &Symbols) -> bool {
    let owners = reservation.owners.iter().flatten();
    owners.into_iter().any(|owner| describes(owner, pod, symbols))
}

/// Whether owners can tell two pods apart that differ in name or uid alone: else a class of alike pods is matched once.
pub fn names_pods(reservation: &Reservation) -> bool {
    let names = |owner: &ReservationOwner| {
        owner.object.as_ref().is_some_and(|object| object.name.is_some() || object.uid.is_some())
    };
    reservation.owners.iter().flatten().any(names)
}

fn describes(owner: &ReservationOwner, pod: &Identity<'_>, symbols: &Symbols) -> bool {
    owner.object.as_ref().is_none_or(|object| is_object(object, pod))
        && owner.controller.as_ref().is_none_or(|controller| has_controller(controller, pod))
        && owner.selector.as_ref().is_none_or(|selector| selector.matches(pod.labels, symbols))
}

// Kind is not looked at: only pods are compared.
fn is_object(object: &ObjectMatch, pod: &Identity<'_>) -> bool {
    object.namespace.is_none_or(|namespace| namespace == pod.namespace)
        && object.name.as_deref().is_none_or(|name| pod.name == Some(name))
        && object.uid.as_deref().is_none_or(|uid| pod.uid == Some(uid))
        && object.api_version.as_deref().is_none_or(|version| version == "v1")
}

fn has_controller(controller: &ControllerMatch, pod: &Identity<'_>) -> bool {
    let is_same = |mine: Option<Sym>, theirs: Sym| mine.is_none_or(|mine| mine == theirs);
    controller.namespace.is_none_or(|namespace| namespace == pod.namespace)
        && pod.references.iter().any(|reference| {
            controller.is_controller.is_none_or(|is_controller| is_controller == reference.is_controller)
                && is_same(controller.api_version, reference.api_version)
                && is_same(controller.kind, reference.kind)
                && is_same(controller.name, reference.name)
                && controller.uid.is_none_or(|uid| reference.uid == Some(uid))
        })
}
