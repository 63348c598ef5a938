//! Owners into the room that Reservations hold on nodes that exist, before anything is launched for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{BoundPod, ClassId, Cluster, MemberKind, NodeRoom, Phase, PodSpec, Refusal, ResourceId, Universe};
use rustc_hash::FxHashMap;

use super::choice::{NodeOffer, nominate, raw_scores, score};
use super::fit::{Claim, Fit, fit, in_words};
use super::held::{Held, attachments_fit, ports_conflict};
use super::matching::{Diagnosis, Seeker, may_draw};
use super::members::take;
use super::reasons;
use crate::{Demand, admits_node, demands};

/// A pod that draws from a Reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// `namespace/name`.
    pub pod: Box<str>,
    /// The Reservation, by index into [`Cluster::reservations`].
    pub reservation: u32,
}

/// Who draws from which Reservation, and who could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// By node that exists, the pods that go there to draw.
    pub on_nodes: BTreeMap<usize, Vec<Draw>>,
    /// By pending Reservation, the pods that go where it goes.
    pub with: BTreeMap<u32, Vec<Box<str>>>,
    /// By spec, why pods that must draw cannot, each with how many Reservations or nodes it counts.
    pub refusals: FxHashMap<u32, Vec<(String, u32)>>,
}

impl Draws {
    /// How many pods draw.
    pub fn len(&self) -> usize {
        let on_nodes: usize = self.on_nodes.values().map(Vec::len).sum();
        on_nodes + self.with.values().map(Vec::len).sum::<usize>()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.on_nodes.is_empty() && self.with.is_empty()
    }
}

/// Whether nothing but the want of a Reservation refuses pods of this spec.
pub fn is_open(spec: &PodSpec) -> bool {
    spec.refusal.as_ref().is_none_or(|Refusal(reason)| reason == reasons::AFFINITY)
}

/// Classes of owners, highest priority first.
pub(super) fn owners_in_order(cluster: &Cluster, universe: &Universe) -> Vec<ClassId> {
    let spec = |id: ClassId| universe.class(id).and_then(|class| cluster.specs.get(class.spec as usize));
    let ids = (0..u32::try_from(universe.classes.len()).unwrap_or(u32::MAX)).map(ClassId);
    let is_owner = |id: &ClassId| {
        universe.class(*id).is_some_and(|class| class.kind == MemberKind::Pod && class.count > 0)
            && spec(*id)
                .is_some_and(|spec| !spec.reservation.owner_of.is_empty() || spec.reservation.affinity.is_some())
    };
    let mut ids: Vec<ClassId> = ids.filter(is_owner).collect();
    ids.sort_by_key(|id| spec(*id).map(|spec| Reverse(spec.priority)));
    ids
}

/// Binds pending owners to the nodes where available Reservations hold room for them, as the scheduler would: each to
/// the node and Reservation that score best. They are bound pods of the cluster then, and pending no more. Pods that
/// other constraints than those of nodes, ports and volumes hold back are left to who looks at all of them.
pub fn draw_on_nodes(cluster: &mut Cluster) -> Draws {
    let mut draws = Draws::default();
    let asks = |spec: &PodSpec| !spec.reservation.owner_of.is_empty() || spec.reservation.affinity.is_some();
    if !cluster.specs.iter().any(asks) {
        return draws;
    }
    let universe = Universe::new(cluster);
    for id in owners_in_order(cluster, &universe) {
        draw_class(cluster, &universe, id, &mut draws);
    }
    draws
}

/// A node on which a class may find a Reservation.
struct Place {
    node: usize,
    room: NodeRoom,
    offer: Option<(NodeOffer, usize)>,
}

fn draw_class(cluster: &mut Cluster, universe: &Universe, id: ClassId, draws: &mut Draws) {
    let Some(class) = universe.class(id) else { return };
    let Some(spec) = cluster.specs.get(class.spec as usize).cloned() else { return };
    let Some(demand) = demands(cluster, universe, id).pop() else { return };
    let affinity = spec.reservation.affinity.as_ref();
    let claim = Claim {
        requests: &spec.requests,
        must_draw: affinity.is_some(),
        is_named: affinity.is_some_and(|affinity| affinity.name.is_some()),
        ignored: &[],
    };
    let is_free = is_open(&spec) && class.required.is_empty();
    let mut places = if is_free { places(cluster, &spec, &demand) } else { Vec::new() };
    for place in &mut places {
        place.offer = offer(cluster, &spec, &claim, place);
    }
    let mut chosen: Vec<(usize, u32)> = Vec::new();
    while chosen.len() < class.count as usize {
        let offers: Vec<NodeOffer> =
            places.iter().map(|p| p.offer.map(|(offer, _)| offer).unwrap_or_default()).collect();
        let scores = raw_scores(&offers);
        let open = places.iter().zip(scores).enumerate().filter(|(_, (place, _))| place.offer.is_some());
        let best = open.max_by_key(|(at, (_, score))| (*score, Reverse(*at))).map(|(at, _)| at);
        let Some((place, position)) = best.and_then(|at| places.get_mut(at)).and_then(|place| {
            let (_, position) = place.offer?;
            Some((place, position))
        }) else {
            break;
        };
        let Some(reservation) = place.room.holdings().get(position).map(|holding| holding.reservation) else { break };
        place.room.add_pod(&spec.requests, Some(reservation));
        if let Some(known) = cluster.reservations.get_mut(reservation as usize).filter(|known| known.allocate_once) {
            known.phase = Phase::Succeeded;
            place.room.release(reservation);
        }
        chosen.push((place.node, reservation));
        bind(cluster, place, class.spec, reservation);
        place.offer = offer(cluster, &spec, &claim, place);
    }
    name_members(cluster, &class.rows, &chosen, draws);
    if claim.must_draw && chosen.len() < class.count as usize && is_open(&spec) {
        draws.refusals.insert(class.spec, refusals(cluster, &spec, &claim, &demand));
    }
}

/// The nodes that admit a class and have a Reservation that it is an owner of.
fn places(cluster: &Cluster, spec: &PodSpec, demand: &Demand) -> Vec<Place> {
    let is_owned = |reservation: &u32| spec.reservation.owner_of.binary_search(reservation).is_ok();
    let nodes = cluster.nodes.iter().enumerate();
    let held = nodes.filter(|(_, node)| node.holdings.iter().any(|holding| is_owned(&holding.reservation)));
    let admitted = held.filter(|(_, node)| admits_node(cluster, node, demand));
    admitted.map(|(index, node)| Place { node: index, room: NodeRoom::of_node(node), offer: None }).collect()
}

/// The positions of the holdings on a node that a pod may draw from.
fn matched(cluster: &Cluster, spec: &PodSpec, room: &NodeRoom, node: usize) -> Vec<usize> {
    let Some(labels) = cluster.nodes.get(node).map(|node| &node.labels) else { return Vec::new() };
    let holdings = room.holdings().iter().enumerate();
    let is_matched = |holding: &berth_model::Holding| {
        let is_owner = spec.reservation.owner_of.binary_search(&holding.reservation).is_ok();
        let reservation = cluster.reservations.get(holding.reservation as usize);
        reservation.is_some_and(|reservation| {
            may_draw(&Seeker { is_owner, spec }, reservation, holding.owners(), labels, &cluster.symbols).is_ok()
        })
    };
    holdings.filter(|(_, holding)| is_matched(holding)).map(|(position, _)| position).collect()
}

/// What a node offers, and from which holding.
fn offer(cluster: &Cluster, spec: &PodSpec, claim: &Claim<'_>, place: &Place) -> Option<(NodeOffer, usize)> {
    let matched = matched(cluster, spec, &place.room, place.node);
    let Fit::Draws(mut serving) = fit(&place.room, &matched, claim) else { return None };
    // A Reservation that has nothing left gives a pod no more than free room would.
    serving.retain(|&position| claim.must_draw || gives_any(&place.room, position, spec));
    if !ports_and_volumes_fit(cluster, spec, place, &matched) {
        return None;
    }
    let position = nominate(&place.room, &serving, &spec.requests, &cluster.reservations, &cluster.symbols)?;
    let order = |position: &usize| {
        let holding = place.room.holdings().get(*position)?;
        cluster.reservations.get(holding.reservation as usize)?.order
    };
    let nominated = place.room.holdings().get(position).map(|holding| score(holding, &spec.requests));
    Some((NodeOffer { nominated, lowest_order: serving.iter().filter_map(order).min() }, position))
}

fn gives_any(room: &NodeRoom, position: usize, spec: &PodSpec) -> bool {
    let Some(holding) = room.holdings().get(position) else { return false };
    let available = holding.available();
    let mut asked = spec.requests.iter().filter(|(id, amount)| *id != ResourceId::PODS && *amount > 0);
    asked.any(|(id, _)| available.get(id) > 0)
}

fn ports_and_volumes_fit(cluster: &Cluster, spec: &PodSpec, place: &Place, matched: &[usize]) -> bool {
    let Some(node) = cluster.nodes.get(place.node) else { return false };
    let specs = || node.pods.iter().filter_map(|pod| cluster.specs.get(pod.spec as usize));
    let holdings = place.room.holdings().iter().enumerate();
    let held: Vec<Held<'_>> = holdings
        .filter_map(|(position, holding)| {
            let reservation = cluster.reservations.get(holding.reservation as usize)?;
            Some(Held { reservation, owners: holding.owners(), is_matched: matched.contains(&position) })
        })
        .collect();
    let of_pods = specs().flat_map(|spec| &spec.host_ports);
    !ports_conflict(&spec.host_ports, of_pods, &held)
        && attachments_fit(
            &spec.volumes,
            specs().flat_map(|spec| &spec.volumes.attachments),
            &held,
            &node.attach_limits,
        )
}

fn bind(cluster: &mut Cluster, place: &Place, spec: u32, reservation: u32) {
    let namespace = cluster.well_known.hostname;
    let Some(node) = cluster.nodes.get_mut(place.node) else { return };
    (node.free, node.holdings) = place.room.clone().into_parts();
    // Its name and labels follow once it is known which member it is.
    node.pods.push(BoundPod {
        namespace,
        name: Box::default(),
        spec,
        labels: 0,
        started: i64::MAX,
        draws_from: Some(reservation),
        candidate: None,
        assigned: None,
    });
}

/// Names the pods that were bound, in the order in which they were.
fn name_members(cluster: &mut Cluster, rows: &[u32], chosen: &[(usize, u32)], draws: &mut Draws) {
    let members = take(cluster, rows, chosen.len());
    let mut next: FxHashMap<usize, usize> = FxHashMap::default();
    for (member, &(index, reservation)) in members.into_iter().zip(chosen) {
        let pod = member.full_name(cluster);
        let Some(node) = cluster.nodes.get_mut(index) else { continue };
        let from = next.entry(index).or_insert(0);
        let unnamed = node.pods.iter().skip(*from).position(|pod| pod.name.is_empty());
        if let Some(bound) = unnamed.and_then(|at| {
            *from += at;
            node.pods.get_mut(*from)
        }) {
            (bound.namespace, bound.name, bound.labels) = (member.namespace, member.name, member.labels);
        }
        draws.on_nodes.entry(index).or_default().push(Draw { pod, reservation });
    }
}

/// Why pods that must draw cannot: counted over Reservations, and over the nodes of those that they match.
fn refusals(cluster: &Cluster, spec: &PodSpec, claim: &Claim<'_>, demand: &Demand) -> Vec<(String, u32)> {
    let mut diagnosis = Diagnosis::default();
    let mut by_node: BTreeMap<String, u32> = BTreeMap::new();
    for (index, node) in cluster.nodes.iter().enumerate().filter(|(_, node)| !node.holdings.is_empty()) {
        let room = NodeRoom::of_node(node);
        for holding in &node.holdings {
            let Some(reservation) = cluster.reservations.get(holding.reservation as usize) else { continue };
            let is_owner = spec.reservation.owner_of.binary_search(&holding.reservation).is_ok();
            let seeker = Seeker { is_owner, spec };
            let outcome = may_draw(&seeker, reservation, holding.owners(), &node.labels, &cluster.symbols);
            diagnosis.count(&outcome, claim.is_named, &cluster.symbols);
        }
        let matched = matched(cluster, spec, &room, index);
        if matched.is_empty() {
            continue;
        }
        if !admits_node(cluster, node, demand) {
            let reason = crate::reasons::node_refusal(cluster, node, demand);
            diagnosis.count_node_reason(&reason, u32::try_from(matched.len()).unwrap_or(u32::MAX));
        } else if let Fit::Refused(lacks) = fit(&room, &matched, claim) {
            for reason in in_words(&lacks, &cluster.resource_names, &cluster.symbols) {
                *by_node.entry(reason).or_default() += 1;
            }
        }
    }
    let mut found = Vec::new();
    if by_node.is_empty() {
        found.push((reasons::AFFINITY.to_owned(), 0));
    }
    found.extend(by_node);
    found.extend(diagnosis.reasons(true).into_iter().map(|(count, reason)| (reason, count)));
    found
}
