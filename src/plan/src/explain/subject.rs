//! A pod or a Reservation: found in the outcome of the plan, taken out of it, and held against everything.

use berth_model::{
    Assigned, BoundPod, Cluster, Holding, MemberKind, NodeRoom, PendingRow, Phase, PodClass, PodStage, Reservation,
    ReservationId, SpecId, Universe,
};
use berth_provisioning::Options;

use super::considered::{Subject, consider_all};
use super::matched::{held, say};
use super::{Change, ExplainError, Explanation, ObjectRef};
use crate::outcome::Outcome;
use crate::{FeatureGates, Plan, decimal, hints};
use berth_decisions::{Allocation, Assignment, quantities};

pub(super) fn pod(mut plan: Plan, options: &Options, object: &ObjectRef) -> Result<Explanation, ExplainError> {
    let outcome = Outcome::of(&mut plan);
    let full = format!("{}/{}", object.namespace, object.name);
    let mut story = Explanation::of(format!("Pod {full}"));
    let gives_way = plan.allocation.gives_way_on(&full).and_then(|node| plan.cluster.nodes.get(node));
    let gives_way = gives_way.map(|node| plan.cluster.symbols.text(node.name).to_owned());
    if let Some(node) = &gives_way {
        story.add("Gives way", format!("on node {node} to a pod of higher priority; this is who comes in its place"));
    }
    if let Some((node, at)) = find_bound(&plan.cluster, object) {
        story.has_place = true;
        let Some(pod) = take_bound(&mut plan.cluster, node, at) else { return Err(missing(&plan, object)) };
        story.outcome = where_it_is(&plan, &outcome, node, &pod);
        if let Some(assigned) = &pod.assigned {
            add_units(&plan.cluster, assigned, &mut story);
        }
        let spec = with_its_reservation(&mut plan.cluster, &pod);
        let subject = Subject { kind: MemberKind::Pod, namespace: pod.namespace, spec, labels: pod.labels };
        tell(&mut plan.cluster, &plan.gates, &outcome, options, &subject, &mut story);
        return Ok(story);
    }
    let found = find_pending(&plan.cluster, MemberKind::Pod, object);
    if let (None, Some(node)) = (&found, &gives_way) {
        story.facts.clear();
        story.outcome = format!("gives way on node {node} to a pod of higher priority, and nothing makes another");
        return Ok(story);
    }
    let (row, _) = found.ok_or_else(|| missing(&plan, object))?;
    let subject = Subject { kind: row.kind, namespace: row.namespace, spec: row.spec, labels: row.labels };
    "is unschedulable".clone_into(&mut story.outcome);
    let budgets = (hints::of_budgets(&plan.cluster, &plan.allocation, row), let_go(&plan, row));
    if let (Some(hint), Some(change)) = budgets {
        story.add("Note", hint);
        story.changes.push(change);
    }
    tell(&mut plan.cluster, &plan.gates, &outcome, options, &subject, &mut story);
    Ok(story)
}

/// What a pod on a node asks for; it may draw from the Reservation from which it draws. Who else would own it is not known of one that runs.
fn with_its_reservation(cluster: &mut Cluster, pod: &BoundPod) -> SpecId {
    let Some((id, spec)) = pod.draws_from.zip(cluster.spec(pod.spec)) else { return pod.spec };
    let Err(at) = spec.reservation.owner_of.binary_search(&id) else { return pod.spec };
    let mut spec = spec.clone();
    spec.reservation.owner_of.insert(at, id);
    cluster.intern_spec(spec)
}

pub(super) fn reservation(mut plan: Plan, options: &Options, object: &ObjectRef) -> Result<Explanation, ExplainError> {
    let cluster = &plan.cluster;
    let named = |known: &Reservation| cluster.symbols.text(known.name) == object.name;
    let Some((id, known)) = cluster.reservations_with_ids().find(|(_, known)| named(known)) else {
        return Err(missing(&plan, object));
    };
    let mut story = Explanation::of(format!("Reservation {}", object.name));
    let place = place_of(&plan, MemberKind::Reservation, &object.name);
    let bound = plan.allocation.row_of(&object.name);
    let pending = find_pending(&plan.cluster, MemberKind::Reservation, object).map(|(row, _)| row);
    let subject = pending.map(|row| (row.namespace, row.spec, row.labels)).or(bound);
    story.has_place = known.node.is_some() && known.phase != Phase::Pending || place.is_some();
    story.outcome = match (&place, known.phase, known.node) {
        (Some(place), ..) => place.clone(),
        (None, Phase::Pending, _) => "is unschedulable".to_owned(),
        (None, phase, Some(node)) => format!("is {phase:?} on node {}", cluster.symbols.text(node)),
        (None, phase, None) => format!("is {phase:?}"),
    };
    describe(cluster, id, known, &mut story);
    add_units(cluster, &known.assigned, &mut story);
    story.pods = plan.allocation.drawn_from(id, &plan.cluster);
    if let Some((namespace, spec, labels)) = subject {
        let outcome = Outcome::of(&mut plan);
        take_reservation(&plan.allocation, &mut plan.cluster, id);
        let subject = Subject { kind: MemberKind::Reservation, namespace, spec, labels };
        tell(&mut plan.cluster, &plan.gates, &outcome, options, &subject, &mut story);
    }
    Ok(story)
}

/// What PodDisruptionBudgets would have to let go, for others to give way.
fn let_go(plan: &Plan, row: &PendingRow) -> Option<Change> {
    let kept = plan.allocation.kept_by_budgets(row)?;
    let budgets: Vec<&str> = kept.budgets.iter().map(|(budget, _)| &**budget).collect();
    let s = if budgets.len() == 1 { "" } else { "s" };
    let what = format!("PodDisruptionBudget{s} {} let {} go", budgets.join(" and "), hints::some_of(&kept.pods));
    let node = plan.cluster.symbols.text(kept.node).to_owned();
    Some(Change { what, nodes: vec![node], offerings: 0 })
}

/// What a Reservation reserves, and what is left of it.
fn describe(cluster: &Cluster, id: ReservationId, known: &Reservation, story: &mut Explanation) {
    story.add("Reserves", amounts(cluster, &known.allocatable));
    if let Some((_, holding)) = held(cluster, id) {
        story.add("Drawn", amounts(cluster, holding.allocated()));
        if holding.waits {
            story.add("Waits for", "pods that run in its room yet: until they leave nobody draws from it".to_owned());
        } else {
            story.add("Left for owners", amounts(cluster, &holding.available()));
        }
    }
    story.add("Allocate policy", format!("{:?}", known.policy));
    story.add("For one owner alone", if known.allocate_once { "yes" } else { "no" });
    if known.is_unschedulable {
        story.add("New owners", "kept out (unschedulable)");
    }
    if known.pre_allocation.is_some() {
        story.add("Pre-allocates", "onto nodes that exist: nothing is launched for it");
    }
}

/// The CPUs and devices that it has to itself.
fn add_units(cluster: &Cluster, assigned: &Assigned, story: &mut Explanation) {
    let (cpus, devices) = units(cluster, assigned);
    story.add("CPUs of its own", cpus);
    story.add("Devices and NUMA nodes", devices.join("; "));
}

/// CPUs as a list, and each device and NUMA node with what of it.
pub(super) fn units(cluster: &Cluster, assigned: &Assigned) -> (String, Vec<String>) {
    let devices = assigned
        .devices
        .iter()
        .map(|(kind, minor, of)| format!("{} {minor} ({})", cluster.symbols.text(*kind), amounts(cluster, of)));
    let numa = assigned.numa.iter().map(|(id, of)| format!("NUMA node {id} ({})", amounts(cluster, of)));
    (assigned.cpus.to_string(), devices.chain(numa).collect())
}

pub(super) fn amounts(cluster: &Cluster, resources: &berth_model::Resources) -> String {
    let amounts = quantities(cluster, resources);
    // One pod is one pod.
    let amounts = amounts.iter().filter(|(name, amount)| **name != "pods" || amount.to_string() != "1");
    let amounts: Vec<String> = amounts.map(|(name, amount)| format!("{name} {}", decimal::amount(*amount))).collect();
    amounts.join(", ")
}

// What it asks for, and what everything says to that.
fn tell(
    cluster: &mut Cluster,
    gates: &FeatureGates,
    outcome: &Outcome,
    options: &Options,
    subject: &Subject,
    story: &mut Explanation,
) {
    let Some(spec) = cluster.spec(subject.spec).cloned() else { return };
    story.add("Requests", amounts(cluster, &spec.requests));
    if spec.priority != 0 && subject.kind == MemberKind::Pod {
        story.add("Priority", spec.priority.to_string());
    }
    if subject.kind == MemberKind::Pod {
        say(cluster, &spec, story);
    }
    let is_open = berth_scheduling::reservation::is_open(&spec);
    if let Some(refusal) = spec.refusal.as_ref().filter(|_| !story.has_place) {
        story.add("Refused", refusal.0.clone());
    }
    if !story.has_place && spec.refusal.is_none() {
        for hint in hints::of(cluster, gates, &spec) {
            story.add("Note", hint);
        }
        let universe = Universe::new(cluster);
        let is_its = |row: &PendingRow| {
            (row.namespace, row.spec, row.labels) == (subject.namespace, subject.spec, subject.labels)
        };
        let has_row = |class: &&PodClass| class.rows.iter().any(|row| cluster.row(*row).is_some_and(is_its));
        let class = universe.classes.iter().find(has_row);
        if let Some(hint) = class.and_then(|class| hints::AskedFor::new(&universe).nobody(cluster, class)) {
            story.add("Note", hint);
        }
    }
    if is_open {
        consider_all(cluster, gates, outcome, options, subject, story);
    }
}

pub(super) fn find_bound(cluster: &Cluster, object: &ObjectRef) -> Option<(usize, usize)> {
    let namespace = cluster.symbols.get(&object.namespace)?;
    cluster.nodes.iter().enumerate().find_map(|(at, node)| {
        let named = |pod: &BoundPod| pod.namespace == namespace && *pod.name == *object.name;
        Some((at, node.pods.iter().position(named)?))
    })
}

/// Takes a Reservation off its node, with the pods that go with it.
fn take_reservation(allocation: &Allocation, cluster: &mut Cluster, id: ReservationId) {
    for pod in allocation.bundled_with(id) {
        let bound = pod.name.split_once('/').and_then(|(namespace, name)| {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            find_bound(cluster, &ObjectRef { kind: super::Kind::Pod, namespace, name })
        });
        bound.and_then(|(node, at)| take_bound(cluster, node, at));
    }
    let node = held(cluster, id).map(|(node, _)| node);
    if let Some(node) = node.and_then(|node| cluster.nodes.get_mut(node)) {
        let mut room = NodeRoom::of_node(node);
        room.release(id);
        (node.free, node.holdings) = room.into_parts();
    }
}

/// Takes a pod off its node; what it drew is held again, of a Reservation for it alone, too.
fn take_bound(cluster: &mut Cluster, node: usize, at: usize) -> Option<BoundPod> {
    let node = cluster.nodes.get_mut(node)?;
    let pod = node.pods.remove(at);
    let requests = &cluster.specs.get(pod.spec.index())?.requests;
    let mut room = NodeRoom::of_node(node);
    room.remove_pod(requests, pod.draws_from);
    if let Some(id) = pod.draws_from.filter(|&id| room.position(id).is_none())
        && let Some(known) = cluster.reservations.get_mut(id.index())
    {
        known.phase = Phase::Available;
        room.hold(Holding::new(id, known));
    }
    (node.free, node.holdings) = room.into_parts();
    Some(pod)
}

fn find_pending<'c>(cluster: &'c Cluster, kind: MemberKind, object: &ObjectRef) -> Option<(&'c PendingRow, usize)> {
    let rows = cluster.pending.iter().enumerate().filter(|(_, row)| {
        row.kind == kind && (kind == MemberKind::Reservation || cluster.symbols.text(row.namespace) == object.namespace)
    });
    let has = |row: &PendingRow| {
        row.members.iter().any(|run| match run.numbers {
            None => *run.name == *object.name,
            Some((first, count)) => {
                let number = object.name.strip_prefix(&*run.name).and_then(|rest| rest.strip_prefix('-'));
                let number = number.and_then(|number| number.parse::<u32>().ok());
                number.is_some_and(|number| number >= first && number - first < count)
            }
        })
    };
    rows.filter(|(_, row)| has(row)).map(|(at, row)| (row, at)).next()
}

pub(super) fn where_it_is(plan: &Plan, outcome: &Outcome, at: usize, pod: &BoundPod) -> String {
    let cluster = &plan.cluster;
    let name = cluster.nodes.get(at).map_or("", |node| cluster.symbols.text(node.name));
    let draws = pod.draws_from.and_then(|id| cluster.reservation(id));
    let draws = draws
        .map_or_else(String::new, |known| format!(", drawing from Reservation {}", cluster.symbols.text(known.name)));
    let Some(claim) = at.checked_sub(outcome.n_existing).and_then(|launched| outcome.claims.get(launched)) else {
        return match pod.stage {
            PodStage::Planned => format!("goes to node {name}{draws}"),
            PodStage::Bound => format!("runs on node {name}{draws}"),
            PodStage::Terminating => format!("is being deleted on node {name}{draws}"),
        };
    };
    format!("goes to {name}{draws}: {}", super::node::offering_in_words(plan, *claim))
}

/// Where the plan puts a Reservation.
fn place_of(plan: &Plan, kind: MemberKind, name: &str) -> Option<String> {
    if let Some(node) = plan.allocation.node_of(kind, name) {
        let node = plan.cluster.nodes.get(node)?;
        return Some(format!("goes to node {}", plan.cluster.symbols.text(node.name)));
    }
    let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
    let has = |shares: &[berth_decisions::Share], copy: u32| {
        let of_kind = shares.iter().filter(|share| assignment.kind(**share) == kind);
        of_kind.flat_map(|share| assignment.members(share.of_node(copy))).any(|member| member.to_string() == name)
    };
    for (entry, shares) in plan.solution.nodes.iter().zip(&assignment.nodes) {
        if has(shares, 0) {
            let node = plan.cluster.nodes.get(entry.node)?;
            return Some(format!("goes to node {}", plan.cluster.symbols.text(node.name)));
        }
    }
    for (at, (claims, shares)) in plan.solution.claims.iter().zip(&assignment.claims).enumerate() {
        if (0..claims.count).any(|copy| has(shares, copy)) {
            return Some(format!("is launched for: {}", super::node::offering_in_words(plan, at)));
        }
    }
    None
}

/// Whether a pod holds room as a Reservation.
fn is_reservation(cluster: &Cluster, object: &ObjectRef) -> bool {
    cluster.reservations.iter().any(|known| {
        let operates = known.template.is_some_and(|template| {
            let spec = cluster.spec(template.spec);
            cluster.symbols.text(template.namespace) == object.namespace
                && spec.is_some_and(|spec| spec.reservation.operates)
        });
        operates && cluster.symbols.text(known.name) == object.name
    })
}

/// The object is not there; with what is near.
pub(super) fn missing(plan: &Plan, object: &ObjectRef) -> ExplainError {
    let (kind, name) = match object.kind {
        super::Kind::Pod => ("Pod", format!("{}/{}", object.namespace, object.name)),
        super::Kind::Workload => ("Pod of workload", format!("{}/{}", object.namespace, object.name)),
        super::Kind::Reservation => ("Reservation", object.name.clone()),
        super::Kind::Node => ("Node", object.name.clone()),
    };
    let cluster = &plan.cluster;
    let mut namespaces: Vec<&str> = Vec::new();
    if matches!(object.kind, super::Kind::Pod | super::Kind::Workload) {
        let mut of_name = |namespace| {
            let elsewhere = ObjectRef { namespace: cluster.symbols.text(namespace).to_owned(), ..object.clone() };
            let is_there = if object.kind == super::Kind::Workload {
                has_pending_pods(cluster, &elsewhere)
            } else {
                find_pending(cluster, MemberKind::Pod, &elsewhere).is_some()
                    || find_bound(cluster, &elsewhere).is_some()
            };
            let text = cluster.symbols.text(namespace);
            if is_there && !namespaces.contains(&text) {
                namespaces.push(text);
            }
        };
        let mut all: Vec<_> = cluster.pending.iter().map(|row| row.namespace).collect();
        all.extend(cluster.nodes.iter().flat_map(|node| node.pods.iter().map(|pod| pod.namespace)));
        all.sort_unstable();
        all.dedup();
        all.into_iter().for_each(&mut of_name);
    }
    namespaces.sort_unstable();
    let hint = match namespaces.first() {
        _ if object.kind == super::Kind::Pod && is_reservation(cluster, object) => {
            format!(": it is a Reservation by its operating mode (reservation/{})", object.name)
        }
        Some(namespace) => {
            let kind = if object.kind == super::Kind::Pod { "pod/" } else { "" };
            format!(": there is one in namespace {namespace} ({kind}{namespace}/{})", object.name)
        }
        None => near(cluster, object),
    };
    let of = if plan.provenance.is_of_state() { "cluster" } else { "input" };
    ExplainError::NotFound { kind, name, of, hint }
}

/// Whether a workload has pods that are to be placed.
fn has_pending_pods(cluster: &Cluster, workload: &ObjectRef) -> bool {
    let rows = cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod);
    let mut runs = rows
        .filter(|row| cluster.symbols.text(row.namespace) == workload.namespace)
        .flat_map(|row| row.members.iter().filter(|run| !run.is_empty()));
    runs.any(|run| run.numbers.is_some() && *run.name == *workload.name)
}

/// What a name may have been meant for: the pods of its workload, or else the nearest name.
fn near(cluster: &Cluster, object: &ObjectRef) -> String {
    use super::Kind;
    let text = |sym| cluster.symbols.text(sym);
    let is_near = |namespace| text(namespace) == object.namespace;
    let bound = cluster.nodes.iter().flat_map(|node| &node.pods).filter(|pod| is_near(pod.namespace));
    let rows = cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod && is_near(row.namespace));
    let runs: Vec<_> = rows.flat_map(|row| &row.members).filter(|run| !run.is_empty()).collect();
    let numbers = |(first, count): (u32, u32)| [first, first.saturating_add(count - 1)];
    let pending = runs.iter().flat_map(|run| match run.numbers {
        None => vec![run.name.to_string()],
        Some(range) => numbers(range).map(|number| format!("{}-{number}", run.name)).to_vec(),
    });
    let names: Vec<String> = match object.kind {
        Kind::Node => cluster.nodes.iter().map(|node| text(node.name).to_owned()).collect(),
        Kind::Reservation => cluster.reservations.iter().map(|known| text(known.name).to_owned()).collect(),
        Kind::Workload => runs.iter().filter(|run| run.numbers.is_some()).map(|run| run.name.to_string()).collect(),
        Kind::Pod => pending.chain(bound.map(|pod| pod.name.to_string())).collect(),
    };
    if object.kind == Kind::Pod
        && let Some((workload, _)) = object.name.rsplit_once('-')
    {
        let number = |name: &String| name.strip_prefix(workload)?.strip_prefix('-')?.parse::<u32>().ok();
        let numbers = || names.iter().filter_map(number);
        if let Some((first, last)) = numbers().min().zip(numbers().max()).filter(|(first, last)| first < last) {
            return format!(": those of {workload} are {workload}-{first} to {workload}-{last}");
        }
    }
    let near = berth_manifests::nearest(&object.name, names.iter().map(String::as_str));
    near.map(|near| format!(": did you mean {near}?")).unwrap_or_default()
}
