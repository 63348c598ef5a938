//! What has changed in a state since it was frozen, and what of a decision that was made from the frozen one holds by now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::{NodeClaim, NodePool, Reservation, labels};
use berth_model::{Cluster, MemberKind, Resources, Sym};
use berth_state::{Key, Kind, ObjectRef, PodRecord, State, Time};

use crate::awaited::Rule;
use crate::decision::{Binding, Decision, Launch, Nomination};
use crate::leaving::{anti_affinity, share_domain};

/// What has changed in a state since its replica was told all.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent kinds of changes")]
pub struct Since<'s> {
    before: &'s State,
    state: &'s State,
    changed: BTreeSet<&'s Key>,
    /// By name of the node, or of its NodeClaim: what changed there.
    nodes: BTreeMap<Arc<str>, Vec<OnNode<'s>>>,
    /// Pods on nodes that came there, left or changed.
    moved: Vec<&'s Key>,
    /// Whether one of those keeps others away.
    repels: bool,
    /// NodePools that have more NodeClaims.
    grown: BTreeSet<&'s str>,
    budgets: bool,
    volumes: bool,
    namespaces: bool,
    /// Whether something changed that concerns all nodes.
    all: bool,
    offers: bool,
}

/// What of a decision holds by now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// Without what does not.
    pub decision: Decision,
    /// Whether something was left out that is to be decided again.
    pub again: bool,
}

/// A change on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnNode<'s> {
    Came(&'s Key),
    Left,
    /// A pod there is another now, or the node is.
    Other,
}

// === impl Since ===

impl<'s> Since<'s> {
    pub(crate) fn new(before: &'s State, state: &'s mut State, now: Time) -> Self {
        // Up to date, for who asks what is free.
        state.cluster(now);
        let state = &*state;
        let mut since = Since {
            before,
            state,
            changed: state.noted().collect(),
            nodes: BTreeMap::new(),
            moved: Vec::new(),
            repels: false,
            grown: BTreeSet::new(),
            budgets: false,
            volumes: false,
            namespaces: false,
            all: false,
            offers: state.has_other_offers(),
        };
        for key in state.noted() {
            since.take_in(key);
        }
        since
    }

    fn take_in(&mut self, key: &'s Key) {
        let (before, state) = (self.before, self.state);
        match key.kind {
            Kind::Pod => self.take_in_pod(key),
            Kind::Node | Kind::CSINode | Kind::Device | Kind::NodeResourceTopology => {
                self.note(&key.name, OnNode::Other);
            }
            Kind::NodeClaim => {
                let [was, is] = [before, state].map(|of| of.get_as::<NodeClaim>("", &key.name));
                for claim in was.into_iter().chain(is) {
                    let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
                    self.note_all(node, OnNode::Other);
                }
                self.note(&key.name, OnNode::Other);
                let pool = is.filter(|_| was.is_none()).and_then(|claim| claim.metadata.labels.as_ref());
                self.grown.extend(pool.and_then(|all| all.get(labels::NODEPOOL)).map(String::as_str));
            }
            Kind::Reservation => {
                for of in [before, state] {
                    let known = of.get_as::<Reservation>("", &key.name).and_then(|known| known.status.as_ref());
                    let node = known.and_then(|status| status.node_name.as_deref());
                    self.note_all(node, OnNode::Other);
                }
            }
            Kind::PodDisruptionBudget => self.budgets = true,
            Kind::PersistentVolume | Kind::PersistentVolumeClaim | Kind::StorageClass => self.volumes = true,
            Kind::Namespace => self.namespaces = true,
            Kind::PriorityClass | Kind::NodeOverlay | Kind::DaemonSet => self.all = true,
            // Launches look at NodePools. Whom the others select only weighs in scores.
            Kind::NodePool
            | Kind::Service
            | Kind::Deployment
            | Kind::ReplicaSet
            | Kind::ReplicationController
            | Kind::StatefulSet
            | Kind::Job
            | Kind::CronJob => {}
        }
    }

    fn take_in_pod(&mut self, key: &'s Key) {
        let [was, is] = [self.before, self.state].map(|of| of.pod(&key.namespace, &key.name));
        let [from, to] = [was, is].map(|pod| pod.and_then(|pod| pod.node()));
        if from == to {
            self.note_all(from, OnNode::Other);
        } else {
            self.note_all(from, OnNode::Left);
            self.note_all(to, OnNode::Came(key));
        }
        if from.or(to).is_some() {
            self.moved.push(key);
            self.repels |= is.is_some_and(|pod| rules_of(pod).repels);
        }
    }

    fn note_all(&mut self, node: Option<&str>, change: OnNode<'s>) {
        if let Some(node) = node {
            self.note(node, change);
        }
    }

    fn note(&mut self, node: &str, change: OnNode<'s>) {
        self.nodes.entry(node.into()).or_default().push(change);
    }

    /// Whether an object is what it was.
    pub fn is_as_it_was(&self, object: &ObjectRef) -> bool {
        !self.changed.contains(&object.key)
    }

    // Whether a pod is to others what it was, wherever it came.
    fn looks_as_it_did(&self, key: &Key) -> bool {
        let [was, is] = [self.before, self.state].map(|of| of.pod(&key.namespace, &key.name));
        was.zip(is).is_some_and(|(was, is)| was.labels() == is.labels() && was.spec() == is.spec())
    }

    /// Whether nothing has changed on a node, but that pods left it.
    pub fn has_no_more_on(&self, node: &str) -> bool {
        !self.all && self.nodes.get(node).is_none_or(|changes| changes.iter().all(|change| *change == OnNode::Left))
    }

    /// Leaves out of a decision what does not hold any more.
    pub(crate) fn kept_of(&self, decision: Decision) -> Finished {
        if self.changed.is_empty() && !self.offers {
            return self.with_free_slots(decision);
        }
        let decided = decision.bindings.iter().map(|binding| (&binding.object.key, &*binding.node.key.name));
        let decided = Decided(decided.collect());
        let mut again = false;
        let mut kept = Decision::default();
        // Who runs yet has the place where it comes next while both are there, whatever changes of them.
        let moves = decision.moves.iter().filter(|moves| self.is_there(&moves.object));
        for moves in moves {
            if self.is_there(&moves.node) {
                kept.moves.push(moves.clone());
            } else {
                again = true;
            }
        }
        let mut without_way: BTreeSet<Arc<str>> = BTreeSet::new();
        let makes_way = |nomination: &&Nomination| nomination.after_evictions;
        for nomination in decision.nominations.iter().filter(makes_way) {
            if !self.is_as_it_was(&nomination.object) || self.is_disturbed(&nomination.node.key.name, &decided) {
                without_way.insert(Arc::clone(&nomination.node.key.name));
            }
        }
        for eviction in &decision.evictions {
            if self.budgets || !self.is_as_it_was(&eviction.pod) || self.is_disturbed(&eviction.node.key.name, &decided)
            {
                without_way.insert(Arc::clone(&eviction.node.key.name));
            }
        }
        for eviction in decision.evictions.iter().filter(|eviction| !without_way.contains(&eviction.node.key.name)) {
            kept.evictions.push(eviction.clone());
        }
        for nomination in &decision.nominations {
            let node = &nomination.node;
            let holds = self.is_as_it_was(&nomination.object)
                && self.is_there(node)
                && !(nomination.after_evictions && without_way.contains(&node.key.name));
            if holds {
                kept.nominations.push(nomination.clone());
            } else {
                again |= self.waits(&nomination.object);
            }
        }
        let (bindings, dropped) = self.kept_bindings(&decision.bindings, &decided);
        kept.bindings = bindings.into_iter().cloned().collect();
        again |= dropped.iter().any(|binding| self.waits(&binding.object));
        for refusal in decision.refusals {
            let mut refusal = refusal;
            refusal.objects.retain(|object| self.is_as_it_was(object));
            if !refusal.objects.is_empty() {
                kept.refusals.push(refusal);
            }
        }
        let mut slots = self.slots();
        for launch in decision.launches {
            let members: Vec<ObjectRef> = launch.pods.iter().chain(&launch.reservations).cloned().collect();
            let launch = self.launch(launch, &mut slots);
            let is_kept = |object: &ObjectRef| {
                launch.as_ref().is_some_and(|kept| kept.pods.contains(object) || kept.reservations.contains(object))
            };
            again |= members.iter().any(|object| !is_kept(object) && self.waits(object));
            kept.launches.extend(launch);
        }
        Finished { decision: kept, again }
    }

    /// Whether all of these nodes may be launched as they were planned.
    pub fn hold_launches(&self, launches: &[Launch]) -> bool {
        let mut slots = self.slots();
        launches.iter().all(|launch| self.launch(launch.clone(), &mut slots).as_ref() == Some(launch))
    }

    /// Whether pods that are to move to these nodes, by name, would still find room there.
    pub fn hold_places(&self, places: &[(Key, String)]) -> bool {
        let none = Decided(BTreeMap::new());
        let mut asked: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        for (key, node) in places {
            let may_move = match key.kind {
                Kind::Pod => self.state.pod(&key.namespace, &key.name).is_some_and(|pod| {
                    // One that has rules goes where it was sent only while nobody came near whom they are about.
                    self.suits(pod, node, &none)
                }),
                _ => !self.changed.contains(key) && !self.is_disturbed(node, &none),
            };
            // A pod that left meanwhile needs no place.
            let is_gone = key.kind == Kind::Pod && !self.state.has(key);
            if !may_move && !is_gone {
                return false;
            }
            if !is_gone {
                asked.entry(node).or_default().push(key);
            }
        }
        asked.retain(|node, _| !self.has_no_more_on(node));
        let Some(cluster) = self.state.last_cluster().filter(|_| !asked.is_empty()) else { return asked.is_empty() };
        let requests = requests_of(cluster, self.state, asked.values().flatten().copied());
        asked.iter().all(|(node, pods)| self.has_room_for((cluster, &requests), node, pods))
    }

    // Whether the pods fit a node to which others came. Where anything else is new there, nobody can tell.
    fn has_room_for(
        &self,
        (cluster, requests): (&Cluster, &BTreeMap<(&str, &str), &Resources>),
        node: &str,
        pods: &[&Key],
    ) -> bool {
        let came = |change: &OnNode<'_>| matches!(change, OnNode::Came(_) | OnNode::Left);
        if self.all || self.nodes.get(node).is_some_and(|changes| !changes.iter().all(came)) {
            return false;
        }
        let name = cluster.symbols.get(node);
        let Some(node) = cluster.nodes.iter().find(|known| Some(known.name) == name) else { return false };
        let mut free: Resources = node.free.clone();
        pods.iter().filter(|key| key.kind == Kind::Pod).all(|key| {
            let Some(requests) = requests.get(&(&*key.namespace, &*key.name)) else { return false };
            let fits = requests.fits(&free);
            free.subtract(requests);
            fits
        })
    }

    fn is_disturbed(&self, node: &str, decided: &Decided<'_>) -> bool {
        let as_decided = |change: &OnNode<'_>| match change {
            OnNode::Came(pod) => decided.0.get(pod) == Some(&node) && self.looks_as_it_did(pod),
            OnNode::Left | OnNode::Other => false,
        };
        self.all || self.nodes.get(node).is_some_and(|changes| !changes.iter().all(as_decided))
    }

    /// Bindings that hold, and those that do not. None holds whose pod has a rule about another one that does not come: a spread
    /// may have been even with that one alone. Nor does one to a node where another one was to draw from a Reservation: it may
    /// count on what that one would have left of it.
    fn kept_bindings<'d>(
        &self,
        bindings: &'d [Binding],
        decided: &Decided<'_>,
    ) -> (Vec<&'d Binding>, Vec<&'d Binding>) {
        let (mut kept, mut dropped): (Vec<_>, Vec<_>) =
            bindings.iter().partition(|binding| self.holds(binding, decided));
        let mut asked = 0;
        while asked < dropped.len() {
            let drawing = dropped.iter().skip(asked).filter(|binding| binding.draws_from.is_some());
            let drawn_on: BTreeSet<&Key> = drawing.map(|binding| &binding.node.key).collect();
            let pods = dropped.iter().skip(asked).map(|binding| &binding.object.key);
            let pods = pods.filter(|key| key.kind == Kind::Pod);
            let pods = pods.filter_map(|key| self.before.pod(&key.namespace, &key.name));
            // Rules look at nothing else of them.
            let unlike: BTreeMap<_, _> = pods.map(|pod| ((pod.namespace(), pod.labels()), pod)).collect();
            asked = dropped.len();
            let counts_on_none = |binding: &&Binding| {
                let key = &binding.object.key;
                let pod = self.state.pod(&key.namespace, &key.name).filter(|_| key.kind == Kind::Pod);
                let is_about_any =
                    |rule: Rule<'_>, pod: &PodRecord| unlike.values().any(|of| rule.is_about(pod, of, self.state));
                !drawn_on.contains(&binding.node.key)
                    && pod.is_none_or(|pod| !Rule::of(pod).any(|rule| is_about_any(rule, pod)))
            };
            let (holding, counting): (Vec<_>, Vec<_>) = kept.into_iter().partition(counts_on_none);
            kept = holding;
            dropped.extend(counting);
        }
        (kept, dropped)
    }

    fn is_there(&self, node: &ObjectRef) -> bool {
        let has_uid = |uid: &str| self.state.uid_of(&node.key).as_deref() == Some(uid);
        self.state.has(&node.key) && node.uid.as_deref().is_none_or(has_uid)
    }

    fn holds(&self, binding: &Binding, decided: &Decided<'_>) -> bool {
        let (key, node) = (&binding.object.key, &binding.node);
        let as_it_was = |object: &ObjectRef| self.is_as_it_was(object) && self.is_there(object);
        if !as_it_was(&binding.object)
            || !as_it_was(node)
            || self.is_disturbed(&node.key.name, decided)
            || !binding.draws_from.as_ref().is_none_or(as_it_was)
        {
            return false;
        }
        match key.kind {
            Kind::Pod => {
                self.state.pod(&key.namespace, &key.name).is_some_and(|pod| self.suits(pod, &node.key.name, decided))
            }
            // Its template may have rules, too.
            _ => self.moved.is_empty() || !self.repels,
        }
    }

    // Whether no pod came or went that a pod has something to do with which is to come to a node.
    fn suits(&self, pod: &PodRecord, node: &str, decided: &Decided<'_>) -> bool {
        let rules = rules_of(pod);
        if (rules.has_volumes && self.volumes) || ((rules.about_pods || self.repels) && self.namespaces) {
            return false;
        }
        let as_decided = |key: &Key| {
            let known = self.state.pod(&key.namespace, &key.name);
            let node = known.and_then(|pod| pod.node());
            node.is_some() && decided.0.get(key).copied() == node && self.looks_as_it_did(key)
        };
        !self.moved.iter().any(|key| !as_decided(key) && self.is_near((pod, rules), node, key))
    }

    // Whether a pod has something to do with another one that came or went.
    fn is_near(&self, (pod, rules): (&PodRecord, Rules), node: &str, other: &Key) -> bool {
        let state = self.state;
        let [was, is] = [self.before, state].map(|of| of.pod(&other.namespace, &other.name));
        // A claim may be for one pod alone.
        if rules.has_volumes
            && *other.namespace == *pod.namespace()
            && is.is_some_and(|other| rules_of(other).has_volumes)
        {
            return true;
        }
        let is_about = |rule: Rule<'_>| [was, is].into_iter().flatten().any(|other| rule.is_about(pod, other, state));
        if Rule::of(pod).any(is_about) {
            return true;
        }
        // Who leaves keeps nobody away any more.
        let Some(other) = is else { return false };
        let Some(of) = other.node() else { return false };
        let nodes = state.node(node).zip(state.node(of));
        let is_beside = |key: &str| nodes.is_none_or(|(node, of)| share_domain(node, of, key));
        let repels = |one: &PodRecord, another: &PodRecord| {
            let mut terms = anti_affinity(one);
            terms.any(|term| is_beside(&term.topology_key) && Rule::Affinity(term).is_about(one, another, state))
        };
        repels(pod, other) || repels(other, pod)
    }

    // Whether an object has no node yet, as it is now.
    fn waits(&self, object: &ObjectRef) -> bool {
        let key = &object.key;
        match key.kind {
            Kind::Pod => self.state.pod(&key.namespace, &key.name).is_some_and(|pod| pod.node().is_none()),
            _ => self.state.has(key),
        }
    }

    /// How many instances of each finite supply may be launched.
    fn slots(&self) -> BTreeMap<&'s str, u32> {
        let cluster = self.state.last_cluster();
        let slots = cluster.into_iter().flat_map(|cluster| cluster.slots.iter().map(move |slots| (cluster, slots)));
        slots.map(|(cluster, slots)| (cluster.symbols.text(slots.id), slots.free)).collect()
    }

    // No object is another one, but fewer instances may be free.
    fn with_free_slots(&self, mut decision: Decision) -> Finished {
        let (mut slots, n_launches) = (self.slots(), decision.launches.len());
        decision.launches.retain(|launch| take_slot(launch, &mut slots));
        Finished { again: decision.launches.len() < n_launches, decision }
    }

    /// A launch without who waits no more; `None` where it does not hold.
    fn launch(&self, mut launch: Launch, slots: &mut BTreeMap<&'s str, u32>) -> Option<Launch> {
        let pool = self.state.get_as::<NodePool>("", &launch.node_pool.key.name)?;
        let is_limited = !pool.spec.limits.is_empty();
        let has_grown = self.grown.contains(&*launch.node_pool.key.name);
        if self.all || self.offers || !self.is_as_it_was(&launch.node_pool) || (is_limited && has_grown) {
            return None;
        }
        let n_members = launch.pods.len() + launch.reservations.len();
        launch.pods.retain(|pod| self.is_as_it_was(pod));
        launch.reservations.retain(|reservation| self.is_as_it_was(reservation));
        launch.draws.retain(|draw| self.is_as_it_was(&draw.pod) && self.is_as_it_was(&draw.reservation));
        // Fewer may do with a smaller node. A node of a NodePool with replicas is for nobody.
        let n_left = launch.pods.len() + launch.reservations.len();
        let is_for_enough = n_members == 0 || n_left * 2 > n_members;
        (is_for_enough && take_slot(&launch, slots)).then_some(launch)
    }
}

/// Where the decision itself sends pods.
struct Decided<'d>(BTreeMap<&'d Key, &'d str>);

/// What these pods request, by namespace and name: those that run on nodes of the cluster, and those that are pending, as it has
/// pods of nodes that go away.
fn requests_of<'c>(
    cluster: &'c Cluster,
    state: &State,
    pods: impl Iterator<Item = &'c Key>,
) -> BTreeMap<(&'c str, &'c str), &'c Resources> {
    let pods: BTreeSet<(&str, &str)> = pods.map(|key| (&*key.namespace, &*key.name)).collect();
    let text = |sym| cluster.symbols.text(sym);
    let mut requests = BTreeMap::new();
    for row in cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod) {
        let Some(spec) = cluster.spec(row.spec) else { continue };
        let names = row.members.iter().filter(|run| run.numbers.is_none());
        let names = names.map(|run| (text(row.namespace), &*run.name)).filter(|name| pods.contains(name));
        requests.extend(names.map(|name| (name, &spec.requests)));
    }
    let nodes = pods.iter().filter_map(|(namespace, name)| state.pod(namespace, name)?.node());
    let nodes: BTreeSet<Sym> = nodes.filter_map(|node| cluster.symbols.get(node)).collect();
    for node in cluster.nodes.iter().filter(|node| nodes.contains(&node.name)) {
        let of_node =
            node.pods.iter().filter_map(|pod| Some(((text(pod.namespace), &*pod.name), cluster.spec(pod.spec)?)));
        requests.extend(of_node.filter(|(name, _)| pods.contains(name)).map(|(name, spec)| (name, &spec.requests)));
    }
    requests
}

/// Takes the slot of a launch; false where there is none.
fn take_slot(launch: &Launch, slots: &mut BTreeMap<&str, u32>) -> bool {
    let Some(id) = launch.offering.reservation_id.as_deref() else { return true };
    match slots.get_mut(id) {
        Some(free) if *free > 0 => {
            *free -= 1;
            true
        }
        _ => false,
    }
}

/// What a pod's place depends on beside its node.
#[derive(Debug, Clone, Copy, Default)]
struct Rules {
    /// Affinity or anti-affinity.
    about_pods: bool,
    /// Whether it keeps others away.
    repels: bool,
    has_volumes: bool,
}

fn rules_of(pod: &PodRecord) -> Rules {
    let Some(spec) = pod.spec() else { return Rules::default() };
    let affinity = spec.affinity.as_ref();
    let anti = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let repels = anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    let with = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let joins = with.and_then(|with| with.required_during_scheduling_ignored_during_execution.as_ref());
    let has_any = |terms: Option<&Vec<_>>| terms.is_some_and(|terms| !terms.is_empty());
    Rules {
        about_pods: has_any(repels) || has_any(joins),
        repels: has_any(repels),
        has_volumes: spec
            .volumes
            .iter()
            .flatten()
            .any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()),
    }
}
