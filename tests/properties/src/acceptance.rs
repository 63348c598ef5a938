//! Invariant 2: what the plan promises the scheduler keeps. The claims of a plan are turned into nodes that stand, its
//! pods and Reservations wait again, and each must be accepted where the plan has it, drawing what the plan says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use berth_checker::{Case, launched_nodes, n_launches};
use berth_model::{ClassId, Cluster, Constraint, MemberKind, PodClass, ReservationId, RowId, Universe};
use berth_scheduling::filter::Obstacle;
use berth_scheduling::{Launchable, Scheduler, Verdict};
use serde_json::Value;

use crate::{Failure, failure, read};

/// How many ways of launching a plan are tried: of more, some that lie evenly.
const MOST_LAUNCHES: usize = 12;
/// Of how many pods at most an order is searched for in which all are accepted; it takes the square of that.
const MOST_SEARCHED: usize = 150;

/// What a node says to a pod whose affinity finds nobody there.
const POD_AFFINITY: &str = "node(s) didn't match pod affinity rules";

/// A pod or a Reservation that the plan has a place for.
#[derive(Clone, Debug)]
struct Promise {
    name: String,
    kind: MemberKind,
    node: String,
    is_new: bool,
    /// The Reservation to draw from.
    draws_from: Option<String>,
}

/// Whether a plan tells of pods of DaemonSets that are not there: those make others give way once their controller has made them, and
/// what a scheduler sees before that is another cluster.
fn tells_of_daemons(case: &Case, plan: &Value) -> bool {
    let of_kind = |kind: &'static str| case.objects.iter().filter(move |object| object["kind"] == kind);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let daemons: Vec<String> = of_kind("DaemonSet").map(name).collect();
    let placed = plan["nodes"].as_array().into_iter().flatten().filter_map(|node| node["pods"].as_array());
    let refused = plan["unschedulable"].as_array().into_iter().flatten().map(|refusal| &refusal["object"]);
    let mut told = placed.flatten().chain(refused).filter_map(Value::as_str).filter_map(|pod| pod.split('/').nth(1));
    told.any(|pod| {
        let is_there = of_kind("Pod").any(|object| name(object) == pod);
        let of_daemon = |daemon: &String| pod.strip_prefix(daemon.as_str()).is_some_and(|rest| rest.starts_with('-'));
        !is_there && daemons.iter().any(of_daemon)
    })
}

/// Every promise of a plan that the scheduler does not keep on the nodes that come of it, whichever of the types, zones and
/// labels that claims leave open are launched. Unless the plan `says_all_draws`, pods on new nodes may draw unsaid.
pub fn try_acceptance(case: &Case, plan: &Value, says_all_draws: bool) -> Vec<Failure> {
    if tells_of_daemons(case, plan) {
        return Vec::new();
    }
    let n_launches = n_launches(&case.objects, &case.catalogue, plan).max(1);
    let step = n_launches.div_ceil(MOST_LAUNCHES);
    let mut used = plan["nodes"].as_array().into_iter().flatten();
    let preempts = used.any(|node| node["preempted"].as_array().is_some_and(|gone| !gone.is_empty()));
    let mut failures = Vec::new();
    for choice in (0..n_launches).step_by(step) {
        let mut objects = after_terminating(after_preemption(&case.objects, plan), plan);
        objects.extend(launched_nodes(&case.objects, &case.catalogue, plan, choice));
        match read::cluster(&objects, None) {
            Ok(cluster) => {
                let broken = broken(cluster, plan, says_all_draws);
                // Affinity to a pod that has given way since is the checker's to judge: here that pod is gone from the start,
                // and with who wanted it the counts of others.
                if !(preempts && broken.iter().any(|said| said.ends_with(POD_AFFINITY))) {
                    failures.extend(broken.iter().map(|said| failure("acceptance", said)));
                }
            }
            Err(error) => failures.push(failure("refused", &error)),
        }
        if !failures.is_empty() {
            break;
        }
    }
    failures
}

// Those that gave way wait for another place if a controller makes them anew, and are gone if none does.
fn after_preemption(objects: &[Value], plan: &Value) -> Vec<Value> {
    let nodes = plan["nodes"].as_array().into_iter().flatten();
    let gone: Vec<&str> =
        nodes.filter_map(|node| node["preempted"].as_array()).flatten().filter_map(Value::as_str).collect();
    let mut left = Vec::with_capacity(objects.len());
    for object in objects {
        let of = |field: &str| object["metadata"][field].as_str();
        let name = format!("{}/{}", of("namespace").unwrap_or("default"), of("name").unwrap_or_default());
        if object["kind"] != "Pod" || !gone.contains(&name.as_str()) {
            left.push(object.clone());
            continue;
        }
        let owners = object["metadata"]["ownerReferences"].as_array();
        let is_replaced = |owner: &Value| owner["controller"] == true && owner["kind"] != "DaemonSet";
        if owners.is_some_and(|owners| owners.iter().any(is_replaced)) {
            let mut pending = object.clone();
            for (part, field) in [("spec", "nodeName"), ("status", "phase"), ("status", "startTime")] {
                pending[part].as_object_mut().map(|part| part.remove(field));
            }
            left.push(pending);
        }
    }
    left
}

// A pod that is nominated to its node waits until those that are terminating there are gone: so do its promises.
fn after_terminating(mut objects: Vec<Value>, plan: &Value) -> Vec<Value> {
    let promised: BTreeMap<String, String> =
        promises(plan).into_iter().map(|promise| (promise.name, promise.node)).collect();
    let waits = |object: &Value| {
        let of = |field: &str| object["metadata"][field].as_str();
        let name = format!("{}/{}", of("namespace").unwrap_or("default"), of("name").unwrap_or_default());
        let nominated = object["status"]["nominatedNodeName"].as_str().unwrap_or_default();
        promised.get(&name).filter(|node| *node == nominated).cloned()
    };
    let awaited: BTreeSet<String> = objects.iter().filter(|object| object["kind"] == "Pod").filter_map(waits).collect();
    objects.retain(|object| {
        let node = object["spec"]["nodeName"].as_str();
        object["metadata"]["deletionTimestamp"].is_null() || !node.is_some_and(|node| awaited.contains(node))
    });
    objects
}

// The promises of a plan.
fn promises(plan: &Value) -> Vec<Promise> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let mut promises = Vec::new();
    for (sites, is_new) in [("nodes", false), ("nodeClaims", true)] {
        for site in list(plan, sites) {
            let allocations = list(&site, "allocations");
            let drawn = |pod: &str| allocations.iter().find(|a| a["pod"] == *pod).map(|a| text(&a["reservation"]));
            for (field, kind) in [("reservations", MemberKind::Reservation), ("pods", MemberKind::Pod)] {
                promises.extend(list(&site, field).iter().map(|name| {
                    let name = text(name);
                    let draws_from = if kind == MemberKind::Pod { drawn(&name) } else { None };
                    Promise { name, kind, node: text(&site["name"]), is_new, draws_from }
                }));
            }
        }
    }
    promises
}

// The class and the row of everything that is pending, by name.
fn classes(cluster: &Cluster, universe: &Universe) -> BTreeMap<(MemberKind, String), (ClassId, RowId)> {
    let mut classes = BTreeMap::new();
    for (class, id) in universe.classes.iter().zip((0..).map(ClassId)) {
        for (at, row) in class.rows.iter().filter_map(|at| Some((*at, cluster.row(*at)?))) {
            let namespace = cluster.symbols.text(row.namespace);
            for run in &row.members {
                let names: Vec<String> = match run.numbers {
                    None => vec![run.name.to_string()],
                    Some((first, count)) => (first..first + count).map(|n| format!("{}-{n}", run.name)).collect(),
                };
                classes.extend(names.into_iter().map(|name| match row.kind {
                    MemberKind::Pod => ((row.kind, format!("{namespace}/{name}")), (id, at)),
                    MemberKind::Reservation => ((row.kind, name), (id, at)),
                }));
            }
        }
    }
    classes
}

/// A promise with what it is about.
struct Waiting {
    promise: Promise,
    class: ClassId,
    order: Order,
    /// The node, by index.
    at: Option<usize>,
}

/// Nodes that exist come first, in the order of the scheduler's queue. Of new ones those come first that draw, that are the
/// first of their own affinity, or whose place depends on how many are elsewhere.
type Order = (bool, Option<MemberKind>, [bool; 4], Reverse<i32>, MemberKind, RowId);

fn order(promise: &Promise, class: &PodClass, cluster: &Cluster, universe: &Universe, row: RowId) -> Order {
    let priority = cluster.spec(class.spec).map_or(0, |spec| spec.priority);
    let mut late = [false; 4];
    if promise.is_new {
        let is_on_host = |constraint: &Constraint| {
            let counter = universe.counters.get(constraint.counter().index());
            counter.is_some_and(|counter| counter.key == cluster.well_known.hostname)
        };
        let asks = |asks: &dyn Fn(&Constraint) -> bool| class.required.iter().any(asks);
        let chooses = asks(&|constraint| matches!(constraint, Constraint::Affinity { counts_self: true, .. }));
        let depends = |constraint: &Constraint| !matches!(constraint, Constraint::AntiAffinity { .. });
        let looks_far = asks(&|constraint| depends(constraint) && !is_on_host(constraint));
        late = [promise.draws_from.is_none(), !chooses, !looks_far, !asks(&depends)];
    }
    (promise.is_new, promise.is_new.then_some(promise.kind), late, Reverse(priority), promise.kind, row)
}

fn broken(mut cluster: Cluster, plan: &Value, says_all_draws: bool) -> Vec<String> {
    let universe = Universe::with_scores(&mut cluster);
    let classes = classes(&cluster, &universe);
    let names = cluster.nodes.iter().map(|known| cluster.symbols.text(known.name));
    let nodes: BTreeMap<&str, usize> = names.zip(0..).collect();
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut broken = Vec::new();
    for promise in promises(plan) {
        match classes.get(&(promise.kind, promise.name.clone())) {
            Some(&(id, row)) => {
                let Some(class) = universe.class(id) else { continue };
                let order = order(&promise, class, &cluster, &universe, row);
                let at = nodes.get(promise.node.as_str()).copied();
                waiting.push(Waiting { promise, class: id, order, at });
            }
            None => broken.push(format!("{} is not pending", promise.name)),
        }
    }
    waiting.sort_by_key(|waiting| waiting.order);
    let waiting: Vec<&Waiting> = waiting.iter().collect();
    let replay = Replay::new(&cluster, &universe, says_all_draws).owing(&waiting);
    let in_order = replay.clone().keep_in_order(waiting.clone());
    if waiting.len() > MOST_SEARCHED {
        // An order that keeps them may be there.
        broken.extend(in_order.into_iter().filter(|wrong| !wrong.may_be_order).map(|wrong| wrong.said));
    } else if !in_order.is_empty() {
        let looking_ahead = replay.clone().keep_looking_ahead(waiting.clone(), false);
        let is_kept = looking_ahead.is_empty() || replay.clone().keep_looking_ahead(waiting.clone(), true).is_empty();
        if !is_kept && !(0..MOST_SHUFFLES).any(|nth| replay.clone().keep_shuffled(&waiting, nth)) {
            broken.extend(looking_ahead.into_iter().map(|wrong| wrong.said));
        }
    }
    broken
}

/// How many random orders are tried in the end.
const MOST_SHUFFLES: u64 = 100;

/// A promise that is not kept.
struct Wrong {
    said: String,
    /// Whether it might be kept if others came earlier, or later.
    may_be_order: bool,
}

/// Whether a draw would be wrong, and how many others have to fear that one comes, in two ways.
type Fears = (bool, (usize, usize));

/// A scheduler that binds as the plan has it.
#[derive(Clone)]
struct Replay<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    scheduler: Scheduler<'a>,
    /// By name of a Reservation of the plan: by index, the one that holds its room. Those of a class are alike.
    reservations: BTreeMap<String, ReservationId>,
    /// What pods of a class that are still to come to a node are to draw from: who of them does is all one.
    owed: BTreeMap<(usize, ClassId), Vec<Option<String>>>,
    says_all_draws: bool,
}

impl<'a> Replay<'a> {
    fn new(cluster: &'a Cluster, universe: &'a Universe, says_all_draws: bool) -> Self {
        let named = cluster.reservations_with_ids();
        let reservations = named.map(|(id, known)| (cluster.symbols.text(known.name).to_owned(), id)).collect();
        let scheduler = Scheduler::new(cluster, universe, Launchable::default());
        Replay { cluster, universe, scheduler, reservations, owed: BTreeMap::new(), says_all_draws }
    }

    fn owing(mut self, waiting: &[&Waiting]) -> Self {
        for Waiting { promise, class, at, .. } in waiting.iter().copied().filter(|w| w.promise.kind == MemberKind::Pod)
        {
            let Some(at) = *at else { continue };
            self.owed.entry((at, *class)).or_default().push(promise.draws_from.clone());
        }
        self
    }

    // Binds one after another, who waits for another after it. What is broken.
    fn keep_in_order(mut self, mut waiting: Vec<&Waiting>) -> Vec<Wrong> {
        let (mut broken, mut refused, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(next) = waiting.get(at) {
            match self.refusal(next) {
                None => {
                    broken.extend(self.bind(next));
                    waiting.remove(at);
                    refused.clear();
                    at = 0;
                }
                Some(refusal) => {
                    refused.push(refusal);
                    at += 1;
                }
            }
        }
        broken.extend(refused);
        broken
    }

    // Whether all is kept in a random order: Reservations and existing nodes first, as they were.
    fn keep_shuffled(self, waiting: &[&Waiting], nth: u64) -> bool {
        let mut ordered = waiting.to_vec();
        let is_first = |waiting: &&Waiting| !waiting.promise.is_new || waiting.promise.kind == MemberKind::Reservation;
        let n_first = ordered.iter().take_while(|waiting| is_first(waiting)).count();
        let mut state = nth;
        ordered[n_first..].sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        });
        self.keep_in_order(ordered).is_empty()
    }

    // Binds each time whom the fewest others have to fear: those that could come now, or that are spread and will not find
    // room left in their domain. What is broken.
    fn keep_looking_ahead(mut self, mut waiting: Vec<&Waiting>, minds_spreads_first: bool) -> Vec<Wrong> {
        let mut broken = Vec::new();
        loop {
            let may_come: Vec<(usize, &Waiting)> =
                waiting.iter().copied().enumerate().filter(|(_, next)| self.refusal(next).is_none()).collect();
            let harm = |at: usize, next: &Waiting| {
                let mut after = self.clone();
                let is_wrong = after.bind(next).is_some();
                let others = may_come.iter().filter(|(other, _)| *other != at);
                // Who draws must find something left.
                let mut is_harmed = |other: &Waiting| after.refusal(other).is_some() || !after.would_draw(other);
                (is_wrong, others.map(|(_, other)| is_harmed(other)).filter(|harmed| *harmed).count())
            };
            let mut least: Option<(Fears, usize)> = None;
            for &(at, next) in &may_come {
                let (is_wrong, harmed) = harm(at, next);
                let pressed = self.n_pressed(next, &waiting);
                let fears = if minds_spreads_first { (pressed, harmed) } else { (harmed, pressed) };
                let found = ((is_wrong, fears), at);
                least = Some(least.map_or(found, |least| least.min(found)));
                if found.0 == (false, (0, 0)) {
                    break;
                }
            }
            let Some((_, at)) = least else { break };
            broken.extend(self.bind(waiting.remove(at)));
        }
        broken.extend(waiting.iter().filter_map(|left| self.refusal(left)));
        broken
    }

    // How many of those that wait have less room then in the domain that they are to come to: it counts in a spread of theirs
    // that it does not keep itself.
    fn n_pressed(&self, next: &Waiting, waiting: &[&Waiting]) -> usize {
        let class = |waiting: &Waiting| self.universe.class(waiting.class);
        let domain = |waiting: &Waiting, key| self.cluster.nodes.get(waiting.at?)?.labels.get(key);
        let Some(own) = class(next) else { return 0 };
        let presses = |other: &&&Waiting| {
            let mut theirs = class(other).into_iter().flat_map(|class| &class.required);
            theirs.any(|constraint| {
                let Constraint::Spread { counter, .. } = constraint else { return false };
                let key = self.universe.counters.get(counter.index()).map(|counter| counter.key);
                own.counts_in.contains(counter)
                    && !own.required.iter().any(|own| own.counter() == *counter)
                    && key.is_some_and(|key| domain(next, key) == domain(other, key))
            })
        };
        waiting.iter().filter(presses).count()
    }

    // Why the scheduler would not bind it where the plan has it now.
    fn refusal(&mut self, Waiting { promise, class, at, .. }: &Waiting) -> Option<Wrong> {
        let at = *at;
        let said = self.scheduler.assess(*class).into_iter().find(|said| Some(said.node) == at);
        let (reason, may_be_order) = match said.map(|said| said.verdict) {
            Some(Verdict::Feasible(_)) => return None,
            Some(Verdict::Refused(obstacle)) => {
                let may_be_order = matches!(obstacle, Obstacle::Spread | Obstacle::PodAffinity);
                (obstacle.in_words(self.cluster).join(", "), may_be_order)
            }
            Some(Verdict::ComingUp) => ("it is still coming up".to_owned(), false),
            None => ("no such node".to_owned(), false),
        };
        Some(Wrong { said: format!("{} on {}: {reason}", promise.name, promise.node), may_be_order })
    }

    // Binds it; what it draws if that is not what the plan says.
    fn bind(&mut self, Waiting { promise, class, at, .. }: &Waiting) -> Option<Wrong> {
        let at = (*at)?;
        let n_draws = self.draws(at).len();
        self.scheduler.bind(*class, at);
        let Promise { name, node, .. } = promise;
        if promise.kind == MemberKind::Reservation {
            let placed = self.scheduler.state().nodes().get(at).and_then(|state| state.placed.last().copied());
            self.reservations.extend(placed.map(|id| (name.clone(), id)));
            return None;
        }
        let drawn = self.draws(at).get(n_draws).copied();
        let owed = self.owed.entry((at, *class)).or_default();
        let ids = |name: &Option<String>| name.as_ref().and_then(|name| self.reservations.get(name).copied());
        let found = owed.iter().position(|owed| ids(owed) == drawn);
        // Under shares owners count with the Reservation that they were placed with, whichever of the node's they draw from.
        let unsaid = if self.says_all_draws { None } else { owed.iter().position(Option::is_none).or(Some(0)) };
        if let Some(found) = found.or(unsaid) {
            if found < owed.len() {
                owed.swap_remove(found);
            }
            return None;
        }
        // As the plan calls the one that holds that room.
        let called = |id: ReservationId| {
            self.reservations.iter().find(|(_, known)| **known == id).map(|(name, _)| name.as_str())
        };
        let drawn = drawn.and_then(called).unwrap_or("none");
        let promised: Vec<&str> = owed.iter().map(|owed| owed.as_deref().unwrap_or("none")).collect();
        let said = format!("{name} on {node} draws from {drawn}, promised is {}", promised.join(" or "));
        Some(Wrong { said, may_be_order: true })
    }

    // Whether it would draw what it is promised, if that is anything.
    fn would_draw(&self, Waiting { promise, class, at, .. }: &Waiting) -> bool {
        let promised = promise.draws_from.as_ref().and_then(|name| self.reservations.get(name).copied());
        let (Some(promised), Some(at)) = (promised, *at) else { return true };
        let (n_draws, mut after) = (self.draws(at).len(), self.clone());
        after.scheduler.bind(*class, at);
        after.draws(at).get(n_draws) == Some(&promised)
    }

    // The Reservations that pods came to draw from on a node, in order.
    fn draws(&self, node: usize) -> Vec<ReservationId> {
        let state = self.scheduler.state().nodes().get(node);
        state.map(|state| state.draws.iter().map(|(_, id)| *id).collect()).unwrap_or_default()
    }
}
