//! The one place where everything comes together: what was observed goes in, what is to be done comes out.
//!
//! The core sends nothing, waits for nothing and reads no clock. Each [`Job`] concerns one object; at most one request
//! of a job is under way, and its answer comes back as an [`Input`]. So the same inputs at the same times give the same
//! effects, in the same order.

mod aside;
mod awaited;
mod ceilings;
mod claims;
mod come_first;
mod disruption;
mod do_not_disrupt;
mod ended;
mod evictions;
mod expected;
mod garbage;
mod gauges;
mod interrupted;
mod job;
mod kept_there;
mod live;
mod measure;
mod nominated;
mod offers;
mod overlays;
mod owners;
mod peers;
mod places;
mod pod_times;
mod pools;
mod pre_bind;
mod provision;
mod recall;
mod registrations;
mod rejected;
mod relabel;
mod replicas;
mod reservations;
mod rivals;
mod schedule;
mod slot_time;
mod slow;
mod step;
mod told;
mod unscheduled;
mod unusable;
mod volumes;
mod writes;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_cloudprovider::{
    CloudError, CloudProvider, Drift, Instance, InstanceTypes, Interruption, LaunchRequest, Launched, NodeClassStatus,
    ProviderId,
};
use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::claim::{Eviction, Memory, Offers, Question};
use crate::clock::after;
use crate::metrics::Counts;
use crate::notice::{Notice, Notices};
use crate::observed::Observed;
use crate::options::Options;
use crate::queue::Queue;
use crate::view::{Concerns, PodName, View};
use crate::write::{Outcome, Write};

use aside::Aside;
pub(crate) use aside::{Answered, Asked};
use awaited::Awaited;
use berth_decisions::Decider;
use berth_state::State;
use ceilings::Launches;
use come_first::First;
pub(crate) use disruption::{Begun, Look, LooksFor};
use disruption::{Disrupting, Found, disrupted};
use do_not_disrupt::Said;
use garbage::Matched;
pub(crate) use job::Job;
use live::Assumed;
use measure::Cause;
use nominated::Nominated;
use places::Places;
use pod_times::PodTimes;
use pre_bind::PreBinding;
use provision::AllPlanned;
use registrations::Registrations;
use rejected::Avoided;
use schedule::ExpectedNodes;
use slot_time::SlotTime;
use told::Told;
use unscheduled::Unscheduled;
use zones::Zones;

/// What a NodePool has is counted so long after a change of its NodeClaims: each count looks at all of them.
const COUNTED_EVERY: Duration = Duration::from_millis(200);

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A watch told something.
    Observed(Observed),
    /// A write was answered, or will not be.
    Written(Option<Job>, Box<Write>, Outcome),
    /// The cloud answered.
    Answered(Job, Box<Answer>),
    /// A look at the nodes is over.
    Found(Box<Found>),
    /// What was asked elsewhere is answered; `None` where that broke off.
    Solved(Option<Box<Answered>>),
    /// Time went by.
    Tick,
}

/// An answer of the cloud.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "boxed by whoever keeps it")]
pub(crate) enum Answer {
    /// To [`Question::Find`] and [`Question::Interrupted`].
    Instances(Result<Vec<Instance>, CloudError>),
    /// To [`Question::All`].
    All(Result<Vec<Arc<Instance>>, CloudError>),
    /// To [`Question::Create`].
    Created(LaunchRequest, Result<Launched, CloudError>),
    /// To [`Question::Get`].
    Instance(Result<Instance, CloudError>),
    /// To [`Question::Delete`].
    Deleted(ProviderId, Result<(), CloudError>),
    /// To [`Question::Drift`].
    Drift(Result<Option<Drift>, CloudError>),
    /// To [`Question::Status`].
    Status(Result<NodeClassStatus, CloudError>),
    /// To [`Question::Types`].
    Types(Result<InstanceTypes, CloudError>),
}

impl Answer {
    /// What went wrong, where something did.
    pub(crate) fn error(&self) -> Option<&CloudError> {
        match self {
            Self::Instances(answer) => answer.as_ref().err(),
            Self::All(answer) => answer.as_ref().err(),
            Self::Created(_, answer) => answer.as_ref().err(),
            Self::Instance(answer) => answer.as_ref().err(),
            Self::Deleted(_, answer) => answer.as_ref().err(),
            Self::Drift(answer) => answer.as_ref().err(),
            Self::Status(answer) => answer.as_ref().err(),
            Self::Types(answer) => answer.as_ref().err(),
        }
    }
}

/// What is to be done outside.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send this; the job, if any, waits for the outcome.
    Write(Option<Job>, Box<Write>),
    /// Ask the cloud this.
    Ask(Job, Box<Question>),
}

/// The state of the controllers.
pub(crate) struct Core {
    pub(crate) view: View,
    /// What decisions are made from.
    state: State,
    /// What it keeps between decisions.
    decider: Decider,
    /// What is decided elsewhere; `None` where everything takes turns.
    aside: Option<Aside>,
    /// Writes that the state assumes, by the job that waits for their outcome.
    assumed: Assumed,
    told_offers: Option<Told>,
    /// Node classes that the cloud has answered for, or failed to.
    asked_classes: BTreeSet<String>,
    /// When the first and the last came of those that are planned together.
    batch: Option<(Timestamp, Timestamp)>,
    /// Whether somebody waits for room.
    has_waiting: bool,
    /// When owners were last left out of a decision, until it is known where their Reservations come.
    held_back: Option<Timestamp>,
    /// Nodes to which pods move that still run on nodes which go away.
    moves_to: BTreeSet<String>,
    /// The nodes that go away, and on which pods stay.
    stayed_on: BTreeSet<Box<str>>,
    /// Nodes that were launched for pods and Reservations.
    planned: AllPlanned,
    /// Pods that wait for those nodes.
    awaited: Awaited,
    /// Where pods of nodes that make way come next.
    places: Places,
    /// Pods that come before others of their priority.
    first: First,
    /// Pods that could not be bound, by uid: how often, and until when they are left alone.
    unbindable: BTreeMap<String, (u32, Timestamp)>,
    /// By name of the NodePool.
    uncreatable: BTreeMap<String, provision::Uncreatable>,
    expected_nodes: ExpectedNodes,
    /// Pods for which others gave way.
    nominated: Nominated,
    /// Nodes that did not let pods in.
    avoided: Avoided,
    /// By claim: the volume that is being written to be its own, until that is answered.
    kept_volumes: BTreeMap<PodName, String>,
    /// Pods that have a node and wait for their volumes.
    pre_binding: PreBinding,
    /// What became of NodeClaims.
    registrations: Registrations,
    zones: Zones,
    slot_time: SlotTime,
    n_named: u64,
    /// Launches of the last hour.
    launches: Launches,
    options: Options,
    provider: Arc<dyn CloudProvider>,
    queue: Queue<Job>,
    /// By uid of the NodeClaim.
    memories: BTreeMap<String, Memory>,
    /// By uid: since when a NodeClaim has had no node although it was registered.
    nodeless: BTreeMap<String, Timestamp>,
    unscheduled: Unscheduled,
    /// Pods that must leave their nodes.
    evictions: BTreeMap<PodName, Eviction>,
    /// What objects say of a `karpenter.sh/do-not-disrupt` that means nothing.
    said: Said,
    /// What each node class offers.
    offers: BTreeMap<String, Offers>,
    /// What that costs, as far as it was asked for.
    prices: BTreeMap<String, ceilings::Prices>,
    /// Instances that have ended, as long as a count of slots may include them.
    ended: BTreeSet<ProviderId>,
    /// Instances that the cloud will take back, by provider id.
    interrupted: BTreeMap<String, Interruption>,
    /// When places were looked for last for whoever waits, and for pods on those instances.
    looked_for_places: Option<Timestamp>,
    node_classes: BTreeMap<String, NodeClassRef>,
    class_status: BTreeMap<String, Result<NodeClassStatus, CloudError>>,
    /// Nodes that make way.
    disrupting: Disrupting,
    /// By static NodePool that has too many nodes.
    surplus: BTreeMap<String, replicas::Surplus>,
    /// When a pod last came to a node or left it.
    pod_events: BTreeMap<String, Timestamp>,
    /// Instances that no NodeClaim is for, by provider id.
    garbage: BTreeSet<String>,
    /// Instances as they were listed last with the NodeClaims that they are of, where neither has anything to be done.
    matched: FxHashMap<ProviderId, Matched>,
    /// The labels that instances have now, by NodeClaim, where it has others.
    relabels: BTreeMap<String, BTreeMap<String, String>>,
    /// NodePools as their nodes were last looked at for drift: generation and hash.
    pools_seen: BTreeMap<String, (Option<i64>, Option<String>)>,
    notices: Notices,
    effects: Vec<Effect>,
    is_started: bool,
    /// What was counted since the process started.
    counts: Counts,
    /// Pods for which the last decision knew no node.
    n_refused: usize,
    /// Pods that were bound here and do not run yet, by uid: their names, and when they were created.
    starting: BTreeMap<String, (PodName, Timestamp)>,
    /// Pods without a node, by uid: when a watch told of them first.
    arrived: BTreeMap<String, Timestamp>,
    pod_times: PodTimes,
    /// When something was seen first.
    unsynced_since: Option<Timestamp>,
    /// Pods that are being bound here, or were and do not show it yet, by uid: their names.
    own_bindings: BTreeMap<String, PodName>,
    /// Whether a decision was made that nobody has measured yet, and whether it could launch.
    decided: Option<bool>,
    /// What the next decision is about that binds alone.
    binding_cause: Cause,
    /// What the next one is about that may launch.
    launching_cause: Cause,
    /// The decision that is being carried out, for the log.
    decision: tracing::Span,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("queue", &self.queue).field("memories", &self.memories).finish_non_exhaustive()
    }
}

// === impl Core ===

impl Core {
    pub(crate) fn new(options: Options, provider: Arc<dyn CloudProvider>) -> Self {
        Self {
            view: View::default(),
            state: State::new(options.convert.clone()),
            decider: Decider::new(),
            aside: None,
            assumed: Assumed::new(),
            told_offers: None,
            asked_classes: BTreeSet::new(),
            batch: None,
            has_waiting: false,
            held_back: None,
            moves_to: BTreeSet::new(),
            stayed_on: BTreeSet::new(),
            planned: AllPlanned::new(),
            awaited: Awaited::default(),
            places: Places::default(),
            first: First::default(),
            unbindable: BTreeMap::new(),
            uncreatable: BTreeMap::new(),
            expected_nodes: ExpectedNodes::new(),
            nominated: Nominated::default(),
            avoided: Avoided::default(),
            kept_volumes: BTreeMap::new(),
            pre_binding: PreBinding::default(),
            registrations: Registrations::default(),
            zones: Zones::default(),
            slot_time: SlotTime::default(),
            n_named: 0,
            launches: Launches::new(),
            options,
            provider,
            queue: Queue::default(),
            memories: BTreeMap::new(),
            nodeless: BTreeMap::new(),
            unscheduled: Unscheduled::default(),
            evictions: BTreeMap::new(),
            said: Said::new(),
            offers: BTreeMap::new(),
            prices: BTreeMap::new(),
            ended: BTreeSet::new(),
            interrupted: BTreeMap::new(),
            looked_for_places: None,
            node_classes: BTreeMap::new(),
            class_status: BTreeMap::new(),
            disrupting: Disrupting::default(),
            surplus: BTreeMap::new(),
            pod_events: BTreeMap::new(),
            garbage: BTreeSet::new(),
            matched: FxHashMap::default(),
            relabels: BTreeMap::new(),
            pools_seen: BTreeMap::new(),
            notices: Notices::default(),
            effects: Vec::new(),
            is_started: false,
            counts: Counts::default(),
            n_refused: 0,
            starting: BTreeMap::new(),
            arrived: BTreeMap::new(),
            pod_times: PodTimes::default(),
            unsynced_since: None,
            own_bindings: BTreeMap::new(),
            decided: None,
            binding_cause: Cause::default(),
            launching_cause: Cause::default(),
            decision: tracing::Span::none(),
        }
    }

    /// Takes in one input. What there is to do then is done by [`Core::work`].
    pub(crate) fn handle(&mut self, input: Input, now: Timestamp) {
        self.unsynced_since.get_or_insert(now);
        let _step = step::take_in(&input).entered();
        match input {
            Input::Observed(observed) => {
                self.count_observed(&observed, now);
                self.watch_rivals(&observed, now);
                self.suspect(&observed, now);
                self.note_rejection(&observed, now);
                self.tell_state(&observed, now);
                self.tell_unreadable(&observed, now);
                self.look_who_stays(&observed, now);
                let concerned = self.view.observe(observed);
                self.touch(concerned, now);
            }
            Input::Written(job, write, outcome) => self.written(job, &write, outcome, now),
            Input::Answered(job, answer) => self.answered(job, *answer, now),
            Input::Found(found) => self.found(*found, now),
            Input::Solved(answered) => self.solved(answered.map(|answered| *answered), now),
            Input::Tick => {}
        }
    }

    /// Does every job that is ready, and says what is to be done outside.
    pub(crate) fn work(&mut self, now: Timestamp) -> Vec<Effect> {
        // Nothing is decided before all there is has been seen.
        if self.view.is_synced() {
            if !self.is_started {
                self.is_started = true;
                // What was there at the start is no event.
                self.pod_events.clear();
                self.start_state(now);
                self.recall(now);
                self.inherit_empty_nodes(now);
                self.tell_offers(now);
                self.queue.add(Job::Garbage);
                self.queue.add(Job::Disrupt);
            }
            while let Some(job) = self.queue.pop(now) {
                self.do_job(job, now);
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// A copy of what decisions are made from, once everything has been seen.
    pub(crate) fn state(&self) -> Option<Box<State>> {
        (self.is_started && self.state.is_synced()).then(|| Box::new(self.state.snapshot()))
    }

    /// Whether everything has been seen once.
    pub(crate) fn is_synced(&self) -> bool {
        self.view.is_synced()
    }

    /// When to look again although nothing happens.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        // Before everything has been seen nothing is done, however late it is: only a watch can change that.
        self.view.is_synced().then(|| self.queue.next_time()).flatten()
    }

    fn do_job(&mut self, job: Job, now: Timestamp) {
        let _step = step::job(&job).entered();
        match job {
            Job::Schedule | Job::Provision if self.options.only_lifecycle => {}
            Job::Schedule => self.schedule(now),
            Job::Provision => self.provision(now),
            Job::Restock => self.restock(now),
            Job::Reread(key) => self.reread(key),
            Job::PreBind(pod) => self.step_pre_bind(&pod, now),
            Job::Reservation(name) => {
                if !self.options.only_lifecycle {
                    self.step_reservation(&name, now);
                }
            }
            Job::CurrentOwner(pod) => {
                if !self.options.only_lifecycle {
                    self.tell_owner(&pod);
                }
            }
            // These are one write each, and end with its outcome.
            Job::Bind(_) | Job::Hold(_) | Job::Nominate(_) | Job::Volume(_) | Job::Launch(_) => {}
            Job::Offers(class) => self.ask_offers(class),
            Job::ClassStatus(class) => self.ask_status(class),
            Job::Pool(name) => self.step_pool(&name, now),
            Job::Overlay(name) => self.step_overlay(&name, now),
            Job::Replicas(name) => self.step_replicas(&name, now),
            Job::Disrupt => self.disrupt(now),
            Job::TellKept => self.tell_kept(now),
            Job::Command(id) => self.step_command(id, now),
            Job::Claim(name) => self.step_claim(&name, now),
            Job::Node(name) => self.step_node(&name),
            Job::Evict(pod) => self.evict(pod, now),
            Job::DoNotDisrupt(object) => self.step_do_not_disrupt(object, now),
            Job::Stays => self.step_stays(now),
            Job::Garbage => self.ask(Job::Garbage, Question::All),
            Job::Interrupted => self.look_for_interruptions(),
            Job::Relabel(name) => self.relabel(&name, now),
            Job::Collect(id) => self.collect(id),
            Job::Check(name) => self.check(name),
        }
    }

    /// Something about these changed.
    fn touch(&mut self, concerned: BTreeSet<Concerns>, now: Timestamp) {
        for one in concerned {
            match one {
                Concerns::Claim(name) => {
                    self.expect_interruptions(&name, now);
                    let claim = self.view.claims.get(&name);
                    let going = claim.filter(|claim| claim.metadata.deletion_timestamp.is_some());
                    if let Some(node) = going.and_then(|claim| claim.status.as_ref()?.node_name.clone()) {
                        self.touch_reservations_on(&node);
                    }
                    if let Some(id) = self.disrupting.of_claim(&name) {
                        self.queue.add(Job::Command(id));
                    }
                    self.queue.add(Job::Claim(name));
                }
                Concerns::Node(name) => {
                    let claims = self.view.nodes.get(&name).map(|node| self.view.claims_of_node(node));
                    let claims: Vec<String> =
                        claims.into_iter().flatten().filter_map(|claim| claim.metadata.name.clone()).collect();
                    for claim in claims {
                        if let Some(id) = self.disrupting.of_claim(&claim) {
                            self.queue.add(Job::Command(id));
                        }
                        self.queue.add(Job::Claim(claim));
                    }
                    self.touch_reservations_on(&name);
                    self.look_at_pre_binding_on(&name);
                    self.queue.add(Job::Node(name));
                }
                Concerns::PodsOn(node) => {
                    self.touch_reservations_on(&node);
                    self.pod_events.insert(node, now);
                }
                Concerns::Pod(name) => {
                    self.forget_eviction(&name);
                    self.forget_awaited(&name);
                    self.follow_places(&name, now);
                    self.follow_first(&name, now);
                    self.look_at_pre_binding(&name);
                }
                Concerns::VolumeClaim(claim) => self.look_at_users_of(&claim),
                Concerns::Pool(name) => self.pool_changed(&name, now),
                Concerns::Overlays => self.look_at_overlays(),
                Concerns::ClaimsOf(pool) => {
                    self.look_at_replicas(&pool, Some(after(now, COUNTED_EVERY)));
                    self.queue.add_at(Job::Pool(pool), after(now, COUNTED_EVERY));
                }
                Concerns::Reservation(name) => {
                    self.forget_awaited_reservation(&name);
                    self.follow_room(&name, now);
                    self.queue.add(Job::Reservation(name));
                }
            }
        }
    }

    fn touch_reservations_on(&mut self, node: &str) {
        for reservation in self.view.reservations_on(node) {
            self.queue.add(Job::Reservation(reservation.clone()));
        }
        for pod in self.view.rooms_on(node) {
            self.queue.add(Job::CurrentOwner(pod.clone()));
        }
    }

    fn answered(&mut self, job: Job, answer: Answer, now: Timestamp) {
        match (job, answer) {
            (Job::Offers(class), Answer::Types(types)) => self.offered(&class, types, now),
            (Job::ClassStatus(class), Answer::Status(status)) => self.class_answered(class, status, now),
            (Job::Garbage, Answer::All(instances)) => self.listed(instances, now),
            (Job::Interrupted, Answer::Instances(instances)) => self.told_interruptions(instances, now),
            (Job::Collect(id), Answer::Deleted(_, outcome)) => self.collected(&id, outcome, now),
            (Job::Check(name), Answer::Instance(outcome)) => self.checked(&name, outcome, now),
            (Job::Claim(name), answer) => self.claim_answered(&name, answer, now),
            (job, _) => self.queue.succeed(job),
        }
    }

    /// Sends a write for a job, which waits for its outcome.
    fn write(&mut self, job: Job, write: Write) {
        self.queue.start(job.clone());
        self.effects.push(Effect::Write(Some(job), Box::new(write)));
    }

    /// Asks the cloud for a job, which waits for the answer.
    fn ask(&mut self, job: Job, question: Question) {
        self.queue.start(job.clone());
        self.effects.push(Effect::Ask(job, Box::new(question)));
    }

    /// Whether anybody reads what is told.
    fn is_listened_to(&self) -> bool {
        !self.options.without_events || tracing::enabled!(tracing::Level::INFO)
    }

    fn tell(&mut self, notice: Notice, now: Timestamp) {
        let disrupted = disrupted(&notice).map(|(name, reason)| (name.to_owned(), reason));
        // What is counted is told once.
        if disrupted.is_none() && !self.is_listened_to() {
            return;
        }
        if let Some(event) = self.notices.tell(notice, now) {
            if let Some((claim, reason)) = disrupted {
                self.count_disrupted(&claim, reason);
            }
            if !self.options.without_events {
                self.effects.push(Effect::Write(None, Box::new(event)));
            }
        }
    }

    /// Whether a NodeClaim is this process's to care for.
    fn serves(&self, claim: &NodeClaim) -> bool {
        claim.spec.node_class_ref.as_ref().is_some_and(|class| self.provider.serves(class))
    }
}

/// The name of a node class in maps.
fn class_key(class: &NodeClassRef) -> String {
    format!("{}/{}/{}", class.group, class.kind, class.name)
}

#[cfg(test)]
mod tests;
