//! Which Reservations a pod may draw from, and why not from the others.

use std::collections::BTreeMap;

use berth_model::{
    Effect, Holding, Labels, PodSpec, Requirements, Reservation, ReservationAffinity, Sym, Symbols, Taint, Toleration,
    TolerationOperator,
};

const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Why a pod may not draw from a Reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It is not available, or its one owner has come.
    NotMatchable,
    /// No owner of it describes the pod.
    NotOwner,
    /// The pod asks for another by name.
    Name,
    /// It takes no new owners.
    Unschedulable,
    /// The pod does not tolerate its taint.
    Taint(Taint),
    /// It is not what the pod's reservation affinity asks for.
    Affinity,
    /// It does not reserve exactly what the pod requests.
    NotExact,
}

/// A pod that looks at a Reservation.
#[derive(Clone, Copy, Debug)]
pub struct Seeker<'a> {
    /// Whether an owner of the Reservation describes it, see [`Reservation::owns`].
    pub is_owner: bool,
    /// What it asks for.
    pub spec: &'a PodSpec,
}

/// Whether the pod may draw from what a Reservation holds on a node of these labels, whatever its phase was before.
/// Whether there is room is another question. A pod that ignores Reservations matches none.
///
/// Where it is for one owner alone, an assumed one counts, too: between a decision and its write none but the first is let in.
/// Taints hold always, against the pod's own tolerations and those of its reservation affinity. Who asks for a
/// Reservation by name is let in though it is unschedulable, unless it is being deleted.
pub fn may_draw_from(
    seeker: &Seeker<'_>,
    reservation: &Reservation,
    holding: &Holding,
    node: &Labels,
    symbols: &Symbols,
) -> Result<(), Mismatch> {
    let is_spent = reservation.allocate_once && holding.owners() > 0;
    if holding.waits || is_spent || reservation.owners.is_none() {
        return Err(Mismatch::NotMatchable);
    }
    is_for(seeker, reservation, node, symbols)
}

/// [`may_draw_from`] of a Reservation that may not take owners yet.
pub(crate) fn is_for(
    seeker: &Seeker<'_>,
    reservation: &Reservation,
    node: &Labels,
    symbols: &Symbols,
) -> Result<(), Mismatch> {
    let ask = &seeker.spec.reservation;
    if ask.ignores || !seeker.is_owner {
        return Err(Mismatch::NotOwner);
    }
    let affinity = ask.affinity.as_ref();
    let by_name = affinity.and_then(|affinity| affinity.name);
    if by_name.is_some_and(|name| name != reservation.name) {
        return Err(Mismatch::Name);
    }
    let is_closed = reservation.is_terminating || (reservation.is_unschedulable && by_name.is_none());
    if is_closed && !affinity.is_some_and(|affinity| tolerates_unschedulable(&affinity.tolerations, symbols)) {
        return Err(Mismatch::Unschedulable);
    }
    let also: &[Toleration] = affinity.map_or(&[], |affinity| &affinity.tolerations);
    let tolerates = |taint: &Taint| {
        let mut tolerations = seeker.spec.tolerations.iter().chain(also);
        tolerations.any(|toleration| toleration.tolerates(taint, symbols))
    };
    let untolerated =
        reservation.taints.iter().find(|taint| taint.effect != Effect::PreferNoSchedule && !tolerates(taint));
    if let Some(taint) = untolerated {
        return Err(Mismatch::Taint(taint.clone()));
    }
    if by_name.is_none() && !affinity.is_none_or(|affinity| is_meant(affinity, reservation, node, symbols)) {
        return Err(Mismatch::Affinity);
    }
    let is_exact = |&id: &berth_model::ResourceId| seeker.spec.requests.get(id) == reservation.allocatable.get(id);
    if ask.exact.iter().all(is_exact) { Ok(()) } else { Err(Mismatch::NotExact) }
}

fn is_meant(affinity: &ReservationAffinity, reservation: &Reservation, node: &Labels, symbols: &Symbols) -> bool {
    let field_name = symbols.get("metadata.name");
    let label = |key: Sym| {
        if Some(key) == field_name {
            return Some(reservation.name);
        }
        reservation.labels.get(key).or_else(|| node.get(key))
    };
    let holds = |term: &Requirements| term.match_labels(symbols, label);
    holds(&affinity.selector) && (affinity.terms.is_empty() || affinity.terms.iter().any(holds))
}

fn tolerates_unschedulable(tolerations: &[Toleration], symbols: &Symbols) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == Effect::NoSchedule)
            && match (toleration.operator, toleration.key) {
                (TolerationOperator::Exists, None) => true,
                (TolerationOperator::Exists, Some(key)) => symbols.text(key) == UNSCHEDULABLE_TAINT,
                (TolerationOperator::Equal, Some(key)) => {
                    symbols.text(key) == UNSCHEDULABLE_TAINT && symbols.text(toleration.value).is_empty()
                }
                _ => false,
            }
    })
}

/// Whether a reason of [`Diagnosis::reasons`] counts Reservations, of which 0 is a number, too: of other reasons it says that
/// they are about the object itself.
pub fn counts_reservations(reason: &str) -> bool {
    reason.starts_with("Reservation(s) ")
}

/// Counts over all Reservations why a pod could not draw from them, in Koordinator's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    owner_matched: u32,
    name_matched: u32,
    name_unmatched: u32,
    unschedulable: u32,
    affinity: u32,
    not_exact: u32,
    taints: BTreeMap<String, u32>,
    node_reasons: BTreeMap<String, u32>,
}

impl Diagnosis {
    /// Counts what [`may_draw_from`] said of one Reservation.
    pub fn count(&mut self, outcome: &Result<(), Mismatch>, is_named: bool, symbols: &Symbols) {
        if matches!(outcome, Err(Mismatch::NotMatchable | Mismatch::NotOwner)) {
            return;
        }
        self.owner_matched += 1;
        match outcome {
            Ok(()) => self.name_matched += u32::from(is_named),
            Err(Mismatch::Name) => self.name_unmatched += 1,
            Err(Mismatch::Unschedulable) => self.unschedulable += 1,
            Err(Mismatch::Affinity) => self.affinity += 1,
            Err(Mismatch::NotExact) => self.not_exact += 1,
            Err(Mismatch::Taint(taint)) => *self.taints.entry(taint.in_words(symbols)).or_default() += 1,
            Err(Mismatch::NotMatchable | Mismatch::NotOwner) => {}
        }
    }

    /// Counts matched Reservations whose node refused the pod for a reason of its own.
    pub fn count_node_reason(&mut self, reason: &str, reservations: u32) {
        if reservations > 0 {
            *self.node_reasons.entry(reason.to_owned()).or_default() += reservations;
        }
    }

    /// Each reason with how many Reservations it counts: nothing where no Reservation is for the pod, unless it must
    /// draw from one.
    pub fn reasons(&self, must_draw: bool) -> Vec<(u32, String)> {
        if self.owner_matched == 0 && !must_draw {
            return Vec::new();
        }
        let say = |count: u32, what: &str| (count, format!("Reservation(s) {what}"));
        let mut reasons = vec![
            say(self.name_matched, "exactly matches the requested reservation name"),
            say(self.name_unmatched, "didn't match the requested reservation name"),
            say(self.affinity, "didn't match affinity rules"),
            say(self.unschedulable, "is unschedulable"),
            say(self.not_exact, "is not exact matched"),
        ];
        reasons.extend(self.taints.iter().map(|(taint, &count)| say(count, &format!("had untolerated taint {taint}"))));
        let by_node = self.node_reasons.iter();
        reasons.extend(by_node.map(|(reason, &count)| say(count, &format!("for node reason that {reason}"))));
        reasons.retain(|(count, _)| *count > 0);
        reasons.push(say(self.owner_matched, "matched owner total"));
        reasons
    }
}
