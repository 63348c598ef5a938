//! A node that exists or is launched: what it has, who comes, who draws from what it holds, and whom it refuses.

use berth_disruption::{Removal, Verdict};
use berth_model::{ClassId, Cluster, MemberKind, NodeRoom, PodStage, Universe};
use berth_provisioning::launchable;
use berth_scheduling::{Scheduler, Verdict as NodeVerdict};

use super::subject::{amounts, missing, units};
use super::{ExplainError, Explanation, ObjectRef, Refused};
use crate::Plan;
use crate::decimal::rounded;
use crate::outcome::Outcome;
use crate::table::disruption::{offering as launched_as, why};

pub(super) fn explain(mut plan: Plan, object: &ObjectRef) -> Result<Explanation, ExplainError> {
    let removal = plan.removal.take();
    let outcome = Outcome::of(&mut plan);
    let cluster = &plan.cluster;
    let named = |node: &berth_model::Node| cluster.symbols.text(node.name) == object.name;
    let Some((at, node)) = cluster.nodes.iter().enumerate().find(|(_, node)| named(node)) else {
        return Err(missing(&plan, object));
    };
    let mut story = Explanation::of(format!("Node {}", object.name));
    story.has_place = true;
    let launched = at.checked_sub(outcome.n_existing).and_then(|launched| outcome.claims.get(launched)).copied();
    story.outcome = match launched {
        Some(claim) => format!("is to be launched: {}", offering_in_words(&plan, claim)),
        None if node.is_coming_up => "is coming up: nothing can be bound to it yet".to_owned(),
        None if at >= plan.n_there => "is to be launched for its static NodePool".to_owned(),
        None => "exists".to_owned(),
    };
    story.add("Allocatable", amounts(cluster, &node.allocatable));
    let mut left = node.free.clone();
    left.floor_at_zero();
    story.add("Left", amounts(cluster, &left));
    if let Some(claims) = launched.and_then(|claim| plan.solution.claims.get(claim)) {
        let types: Vec<&str> = claims.instance_types.iter().map(|&index| plan.type_name(index)).collect();
        story.add("Types to choose from", shortened(&types));
    }
    let taints: Vec<String> = node.taints.iter().map(|taint| taint.in_words(&cluster.symbols)).collect();
    story.add("Taints", taints.join(", "));
    let is_new = |pod: &&berth_model::BoundPod| pod.stage == PodStage::Planned;
    let n_running = node.pods.iter().filter(|pod| !is_new(pod)).count();
    if launched.is_none() {
        story.add("Pods that run here", n_running.to_string());
    }
    for holding in NodeRoom::of_node(node).holdings() {
        let Some(known) = cluster.reservation(holding.reservation) else { continue };
        let draws = match holding.owners() {
            0 => "nobody draws".to_owned(),
            1 => format!("1 pod draws {}", amounts(cluster, holding.allocated())),
            n => format!("{n} pods draw {}", amounts(cluster, holding.allocated())),
        };
        let left = amounts(cluster, &holding.available());
        story.facts.push(super::Fact {
            name: "Reservation",
            text: format!(
                "{} ({:?}): reserves {}; {draws}; left {}",
                cluster.symbols.text(known.name),
                known.phase,
                amounts(cluster, holding.reserved()),
                if left.is_empty() { "nothing" } else { &left },
            ),
        });
    }
    let reservations = plan.allocation.on_node(at, MemberKind::Reservation, &plan.cluster);
    story.pods = node.pods.iter().filter(is_new).map(|pod| pod_in_words(cluster, pod)).collect();
    let placed = reservations.iter().map(|also| also.name).collect::<Vec<_>>().join(", ");
    story.add("Reservations placed here", placed);
    story.add("Pods that give way", plan.allocation.preempted(at).join(", "));
    if let Some(removal) = removal.filter(|_| launched.is_none()) {
        let runs_here = |pod: &berth_state::ObjectRef| {
            let is_it = |known: &berth_model::BoundPod| {
                *known.name == *pod.key.name && cluster.symbols.text(known.namespace) == &*pod.key.namespace
            };
            node.pods.iter().any(is_it)
        };
        if_it_went(&removal, runs_here, &mut story);
    }
    let is_up = node.is_up();
    if is_up {
        refused(&mut plan.cluster, at, &mut story);
    }
    Ok(story)
}

/// What would come of removing the node.
fn if_it_went(removal: &Removal, runs_here: impl Fn(&berth_state::ObjectRef) -> bool, story: &mut Explanation) {
    let verdict = match &removal.verdict {
        Verdict::Pays { savings, evictions, .. } => {
            let pods = if *evictions == 1 { "1 pod is".to_owned() } else { format!("{evictions} pods are") };
            format!("saves ${}/h, and {pods} evicted", rounded(*savings, 4))
        }
        Verdict::Stays(reasons) | Verdict::Blocked(reasons) => reasons.iter().map(why).collect::<Vec<_>>().join("; "),
        Verdict::Unknown => String::new(),
    };
    story.add("If it went", verdict);
    let kept: Vec<String> = removal.kept.iter().map(why).collect();
    story.add("What would have to change first", kept.join("; "));
    for (pod, node) in &removal.moves {
        story.add("Would move", format!("{} to {}", pod.key.full_name(), node.key.name));
    }
    for launch in &removal.launches {
        // Those who wait or move already may come with them.
        let (own, others): (Vec<_>, Vec<_>) = launch.pods.iter().partition(|pod| runs_here(pod));
        let pods = own.into_iter().map(|pod| pod.key.full_name());
        let rooms = launch.reservations.iter().map(|room| format!("Reservation {}", room.key.name));
        let others = match others.len() {
            0 => None,
            1 => Some("1 pod from elsewhere".to_owned()),
            n => Some(format!("{n} pods from elsewhere")),
        };
        let guests: Vec<String> = rooms.chain(pods).chain(others).collect();
        story.add("Would be launched", format!("{} for {}", launched_as(launch), guests.join(", ")));
    }
    if removal.launches.is_empty() {
        for pod in &removal.left {
            story.add("Would find no other node", pod.key.full_name());
        }
    }
}

fn pod_in_words(cluster: &Cluster, pod: &berth_model::BoundPod) -> String {
    let name = format!("{}/{}", cluster.symbols.text(pod.namespace), pod.name);
    let known = pod.draws_from.and_then(|id| cluster.reservation(id));
    let mut more: Vec<String> = Vec::new();
    more.extend(known.map(|known| format!("draws from {}", cluster.symbols.text(known.name))));
    if let Some(assigned) = &pod.assigned {
        let (cpus, devices) = units(cluster, assigned);
        more.extend((!cpus.is_empty()).then(|| format!("CPUs {cpus}")));
        more.extend(devices);
    }
    if more.is_empty() { name } else { format!("{name} ({})", more.join(", ")) }
}

/// What the node says to everybody who has no place.
fn refused(cluster: &mut Cluster, at: usize, story: &mut Explanation) {
    let universe = Universe::with_scores(cluster);
    let cluster = &*cluster;
    let mut scheduler = Scheduler::new(cluster, &universe, launchable(cluster, &universe));
    for (class, id) in universe.classes.iter().zip((0..).map(ClassId)).filter(|(class, _)| class.count > 0) {
        let mut members = class.rows.iter().filter_map(|row| cluster.row(*row));
        let first = members.find_map(|row| Some((row, row.members.first()?)));
        let Some((row, run)) = first else { continue };
        let object = match class.kind {
            MemberKind::Pod => format!("Pod {}/{}", cluster.symbols.text(row.namespace), run.name),
            MemberKind::Reservation => format!("Reservation {}", run.name),
        };
        let refusal = cluster.spec(class.spec).and_then(|spec| spec.refusal.as_ref());
        let reasons = match (refusal, scheduler.assess(id).into_iter().find(|said| said.node == at)) {
            (Some(refusal), _) => vec![refusal.0.clone()],
            (None, Some(said)) => match said.verdict {
                NodeVerdict::Refused(obstacle) => obstacle.in_words(cluster),
                NodeVerdict::Feasible(_) => vec!["it would take it".to_owned()],
                NodeVerdict::ComingUp => continue,
            },
            (None, None) => continue,
        };
        story.refused.push(Refused { object, count: class.count, reasons });
    }
}

/// `m5.xlarge in z-1, reserved (cr-web)`, or `…, on-demand, $0.192/h`.
pub(super) fn offering_in_words(plan: &Plan, claim: usize) -> String {
    let Some(claims) = plan.solution.claims.get(claim) else { return String::new() };
    let cluster = &plan.cluster;
    let mut text = plan.type_name(claims.instance_type).to_owned();
    if let Some(zone) = claims.zone {
        text = format!("{text} in {}", cluster.symbols.text(zone));
    }
    let slots = claims.slots.and_then(|slots| cluster.slots.get(slots.index())).filter(|slots| slots.is_reservation);
    match slots {
        Some(slots) => format!("{text}, {} ({})", claims.capacity_type.name(), cluster.symbols.text(slots.id)),
        None => format!("{text}, {}, ${}/h", claims.capacity_type.name(), rounded(claims.price, 4)),
    }
}

fn shortened(names: &[&str]) -> String {
    const MOST: usize = 8;
    let shown = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}
