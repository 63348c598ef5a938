//! Which Reservations a pod matches, what they have for it, and why the others are not for it.

use berth_model::{Cluster, Holding, NodeRoom, Phase, PodSpec, Reservation, ReservationId};
use berth_scheduling::reservation::{Claim, Fit, Mismatch, Seeker, fit, in_words, may_draw_from};

use super::{Explanation, ReservationSays};

/// Writes into the explanation what Reservations say to a pod of the spec.
pub(super) fn say(cluster: &Cluster, spec: &PodSpec, story: &mut Explanation) {
    let must_draw = spec.reservation.affinity.is_some();
    for (id, reservation) in cluster.reservations_with_ids() {
        let is_owner = spec.reservation.owner_of.binary_search(&id).is_ok();
        if !is_owner && !must_draw {
            story.other_reservations += 1;
            continue;
        }
        let held = held(cluster, id);
        let (matches, says) = match held {
            Some((node, holding)) => at_node(cluster, spec, (reservation, is_owner), node, holding),
            None => (false, without_node(reservation, is_owner)),
        };
        let name = |sym| cluster.symbols.text(sym).to_owned();
        story.reservations.push(ReservationSays {
            reservation: name(reservation.name),
            node: reservation.node.map(name),
            matches,
            says,
        });
    }
}

/// The node where a Reservation holds room, with what it holds.
pub(super) fn held(cluster: &Cluster, reservation: ReservationId) -> Option<(usize, &Holding)> {
    cluster.nodes.iter().enumerate().find_map(|(at, node)| {
        let holding = node.holdings.iter().find(|holding| holding.reservation == reservation)?;
        Some((at, holding))
    })
}

fn without_node(reservation: &Reservation, is_owner: bool) -> String {
    if !is_owner {
        return "it is for others: no owner of it describes the pod".to_owned();
    }
    match reservation.phase {
        Phase::Pending => "it is for the pod, and pending: it has no node yet",
        Phase::Succeeded => "it was for one pod alone, which has come",
        Phase::Failed => "it has expired, or its node is gone",
        Phase::Available | Phase::Waiting => "its node is not in the input",
    }
    .to_owned()
}

fn at_node(
    cluster: &Cluster,
    spec: &PodSpec,
    (reservation, is_owner): (&Reservation, bool),
    at: usize,
    holding: &Holding,
) -> (bool, String) {
    let Some(node) = cluster.nodes.get(at) else { return (false, String::new()) };
    let seeker = Seeker { is_owner, spec };
    if let Err(mismatch) = may_draw_from(&seeker, reservation, holding, &node.labels, &cluster.symbols) {
        return (false, why_not(cluster, reservation, &mismatch));
    }
    let room = NodeRoom::of_node(node);
    let affinity = spec.reservation.affinity.as_ref();
    let claim = Claim {
        requests: &spec.requests,
        must_draw: affinity.is_some(),
        is_named: affinity.is_some_and(|affinity| affinity.name.is_some()),
        ignored: &[],
    };
    let positions: Vec<usize> = room.position(holding.reservation).into_iter().collect();
    let says = match fit(&room, &positions, &claim) {
        Fit::Draws(_) => "it has room for the pod".to_owned(),
        Fit::FreeRoom => "it has no room for the pod; the free room of its node has".to_owned(),
        Fit::Refused(lacks) => in_words(&lacks, &cluster.resource_names, &cluster.symbols).join(", "),
    };
    (true, says)
}

fn why_not(cluster: &Cluster, reservation: &Reservation, mismatch: &Mismatch) -> String {
    match mismatch {
        Mismatch::NotMatchable if reservation.phase == Phase::Waiting => {
            "it waits for pods to leave its room".to_owned()
        }
        Mismatch::NotMatchable => "it is for one pod alone, which has come, or is not available".to_owned(),
        Mismatch::NotOwner => "it is for others: no owner of it describes the pod".to_owned(),
        Mismatch::Name => "the pod asks for another Reservation by name".to_owned(),
        Mismatch::Unschedulable => "it takes no new owners (unschedulable)".to_owned(),
        Mismatch::Taint(taint) => {
            format!("the pod does not tolerate its taint {}", taint.in_words(&cluster.symbols))
        }
        Mismatch::Affinity => "it is not what the pod's reservation affinity asks for".to_owned(),
        Mismatch::NotExact => "it does not reserve exactly what the pod requests".to_owned(),
    }
}
