//! Disruption: nodes that are empty, drifted or dearer than need be make way, as `berth_disruption` decides.
//!
//! A pass looks at a part of the nodes and finds commands, aside: see [`look`]; at most one pass at a time, and only when
//! something changed.
//! Each command is then carried out by itself: see [`command`]. A process that starts knows of no command: it takes the
//! taints of earlier ones off, and decides anew.

mod begin;
mod command;
mod inherited;
mod limits;
mod look;
mod measure;
mod options;
mod put_back;
mod rest;
mod scarce;
mod taint;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) use begin::Begun;
use inherited::Inherited;
pub(super) use limits::MayStay;
pub(crate) use look::{Found, Look};
pub(crate) use measure::LooksFor;
pub(super) use measure::{REASONS, disrupted};
use put_back::PutBack;
use rest::{Looked, Rest};
use scarce::Scarce;

use berth_cloudprovider::OfferingKey;
use berth_disruption::{Disruption, Method, Why};
use berth_model::Money;
use berth_state::{ObjectRef, State};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::measure::Cause;
use super::{Core, Job};
use crate::claim::{conditions, is_disrupted, is_ready};
use crate::clock::{after, elapsed};
use crate::kind::Kind;
use crate::notice::Notice;

/// How often nodes are looked at, if something changed.
const PERIOD: Duration = Duration::from_secs(10);
/// How soon the next part of the nodes is looked at.
const NEXT_PART: Duration = Duration::from_secs(1);
/// Nodes are looked at again after this time although nothing changed: schedules of budgets open and close.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// And after this one where time alone makes no difference, which is how often it is told why they stay.
const AT_REST_EVERY: Duration = Duration::from_secs(15 * 60);
/// For how long nodes are not looked at while pods come to new ones.
const MOST_PUT_OFF: Duration = Duration::from_secs(60);
/// A storm needs so many nodes at least: of two nodes one is half.
const STORM_NODES: usize = 3;
/// And lasts no longer after the last node that was lost in it: what is not ready by then does not come back by itself.
const LONGEST_STORM: Duration = Duration::from_secs(15 * 60);

/// What is under way, and what was asked.
#[derive(Debug, Default)]
pub(super) struct Disrupting {
    commands: BTreeMap<u64, Command>,
    n_commands: u64,
    /// What has begun since that was asked last.
    begun: Vec<Begun>,
    /// What the next look is about.
    pub(super) cause: Cause,
    /// The look that is had, for the log.
    span: Option<tracing::Span>,
    /// Nodes whose command came to nothing, by name.
    put_back: BTreeMap<String, PutBack>,
    /// What could not be launched for a command.
    scarce: Scarce,
    /// A look that is to be had, and when that was decided.
    look: Option<Box<(berth_disruption::Options, Timestamp)>>,
    /// The state that it is had of, where that is not this process's own.
    copy: Option<Box<State>>,
    /// Whether one is to be had, or under way.
    is_looking: bool,
    /// Whether something changed since the last round began.
    has_changed: bool,
    /// How often something changed.
    n_changes: u64,
    /// Since when nodes are not looked at, as pods come to new ones.
    put_off: Option<Timestamp>,
    /// When the last round began.
    began: Option<Timestamp>,
    /// Whether that found that all nodes stay, for reasons that time does not change.
    is_at_rest: bool,
    /// Nodes that this round has asked about; `None` between rounds.
    asked: Option<BTreeSet<String>>,
    /// Until when nodes rest, as looking at them may take only so much.
    rest: Rest,
    /// Empty nodes that were there at the start.
    inherited: Inherited,
    /// How many nodes each reason could take, by its word, as the last look found.
    eligible: BTreeMap<&'static str, usize>,
    /// Why nodes stay, as it was told last, and when.
    told: BTreeMap<String, (String, Timestamp)>,
    /// Why nodes stay, as the last look found, of those that nothing was told of yet.
    to_be_told: std::vec::IntoIter<berth_disruption::Kept>,
}

/// Nodes that go together.
#[derive(Debug, Clone)]
struct Command {
    method: Method,
    nodes: Vec<Going>,
    phase: Phase,
    /// NodeClaims that were created in their place.
    replacements: Vec<String>,
    /// When it was last asked whether the nodes may go, and after how many changes.
    asked: Option<(Timestamp, u64)>,
    /// Whether no instance was left for a replacement.
    ran_out: bool,
}

/// A node that goes.
#[derive(Debug, Clone)]
struct Going {
    node: ObjectRef,
    claim: String,
    claim_uid: String,
}

/// How far a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Its nodes get their taint.
    Tainting,
    /// They all have it since then. A scheduler may have bound a pod before it saw the taint.
    Settling(Timestamp),
    /// Replacements were created then; why the nodes cannot go yet.
    Waiting(Timestamp, Option<String>),
    /// The NodeClaims are being deleted.
    Leaving,
}

// === impl Command ===

impl Command {
    fn new(method: Method, nodes: Vec<Going>) -> Self {
        let phase = Phase::Tainting;
        Command { method, nodes, phase, replacements: Vec::new(), asked: None, ran_out: false }
    }

    /// Whether it is to be decided anew before it goes on.
    fn is_undecided(&self) -> bool {
        matches!(self.phase, Phase::Tainting | Phase::Settling(_))
    }
}

// === impl Disrupting ===

impl Disrupting {
    /// Something that decisions depend on changed.
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
        self.n_changes = self.n_changes.wrapping_add(1);
    }

    /// Whether something changed since this was asked last.
    #[cfg(test)]
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// There was no instance of these when a NodeClaim was launched.
    pub(super) fn was_refused(&mut self, claim: &str, offerings: &[OfferingKey], now: Timestamp) {
        if let Some(command) = self.of_claim(claim).and_then(|id| self.commands.get_mut(&id)) {
            command.ran_out = true;
            self.scarce.note(offerings, now);
        }
    }

    /// An instance was launched. Where others of the same command may yet find none, it is no sign that there are enough.
    pub(super) fn was_launched(&mut self, claim: &str, offering: &OfferingKey, now: Timestamp) {
        let command = self.of_claim(claim).and_then(|id| self.commands.get(&id));
        if command.is_none_or(|command| command.replacements.len() == 1) {
            self.scarce.found(offering);
            self.put_back.values_mut().for_each(|known| known.was_launched(offering, now));
        }
    }

    /// The command that takes a NodeClaim away, or waits for it as a replacement.
    pub(super) fn of_claim(&self, claim: &str) -> Option<u64> {
        let is_its = |command: &Command| {
            command.nodes.iter().any(|going| going.claim == claim)
                || command.replacements.iter().any(|replacement| replacement == claim)
        };
        self.commands.iter().find(|(_, command)| is_its(command)).map(|(id, _)| *id)
    }

    /// Whether a NodeClaim is to go by a command.
    pub(super) fn takes(&self, claim: &str) -> bool {
        self.commands.values().flat_map(|command| &command.nodes).any(|going| going.claim == claim)
    }

    /// NodeClaims that were created in place of nodes that go.
    fn replacements(&self) -> BTreeSet<&String> {
        self.commands.values().flat_map(|command| &command.replacements).collect()
    }

    /// Whether nodes may be looked at: each command knows what it launches.
    fn is_settled(&self) -> bool {
        !self.commands.values().any(Command::is_undecided)
    }

    /// Whether a command that began before this one is to be decided anew first: this one may count on what it leaves.
    fn comes_after_another(&self, id: u64) -> bool {
        self.commands.range(..id).any(|(_, command)| command.is_undecided())
    }

    /// Whether a look waits for a copy of the state.
    pub(super) fn wants_copy(&self) -> bool {
        self.look.is_some() && self.copy.is_none()
    }

    /// The state as it is to be looked at.
    pub(super) fn copied(&mut self, copy: Box<State>) {
        self.copy = self.look.is_some().then_some(copy);
    }

    /// How many nodes each reason could take.
    pub(super) fn eligible(&self) -> &BTreeMap<&'static str, usize> {
        &self.eligible
    }

    /// Nothing comes of a look.
    pub(super) fn give_look_up(&mut self) {
        self.look = None;
        (self.is_looking, self.has_changed) = (false, true);
    }

    /// How often something changed.
    pub(super) fn n_changes(&self) -> u64 {
        self.n_changes
    }

    /// The nodes and the method of a command whose next step is to be decided, and whether that confirms that they may go.
    pub(super) fn step_of(&self, id: u64) -> Option<(Vec<ObjectRef>, Method, bool)> {
        let command = self.commands.get(&id)?;
        let is_confirmed = match command.phase {
            Phase::Settling(_) => false,
            Phase::Waiting(..) => true,
            Phase::Tainting | Phase::Leaving => return None,
        };
        Some((command.nodes.iter().map(|going| going.node.clone()).collect(), command.method, is_confirmed))
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let period = if self.is_at_rest { AT_REST_EVERY } else { AT_LEAST_EVERY };
        let is_long_ago = self.began.is_none_or(|began| elapsed(began, now) >= period);
        self.asked.is_some() || self.has_changed || is_long_ago
    }
}

impl Core {
    /// Looks at a part of the nodes, and begins what budgets allow.
    pub(super) fn disrupt(&mut self, now: Timestamp) {
        let only_empty = self.disrupting.rest.until.is_some_and(|until| until > now);
        let next = if only_empty { self.disrupting.rest.next(now) } else { after(now, PERIOD) };
        self.queue.add_at(Job::Disrupt, next);
        if self.options.only_lifecycle || self.is_storm(now) || !self.disrupting.is_due(now) {
            return;
        }
        // Only a node with a NodeClaim can go: where there is none, a look would convert a whole cluster for nothing.
        if self.view.claims.values().next().is_none() {
            self.disrupting.has_changed = false;
            self.disrupting.began = Some(now);
            return;
        }
        if only_empty {
            let rests = self.disrupting.rest.empty_until.is_some_and(|until| until > now);
            if rests || !self.has_empty_node() {
                return;
            }
        }
        if self.disrupting.is_looking || !self.disrupting.is_settled() || self.puts_off_disruption(now) {
            return self.queue.add_at(Job::Disrupt, after(now, NEXT_PART));
        }
        let mut options = self.disruption_options(now);
        options.only_empty = only_empty;
        if !only_empty {
            options.asked = self.disrupting.asked.take().unwrap_or_default();
            if options.asked.is_empty() {
                self.disrupting.has_changed = false;
                self.disrupting.began = Some(now);
                self.look_at_inherited(now);
            }
        }
        self.disrupting.is_looking = true;
        self.disrupting.look = Some(Box::new((options, now)));
    }

    /// The look that is to be had now; what it finds is told by [`Core::found`].
    pub(crate) fn take_look(&mut self) -> Option<Box<Look>> {
        let copy = self.disrupting.copy.take();
        if copy.is_none() && self.decides_aside() {
            return None;
        }
        let (options, now) = *self.disrupting.look.take()?;
        self.disrupting.rest.only_empty = options.only_empty;
        let span = tracing::info_span!("disrupting", cause = self.disrupting.cause.take());
        self.disrupting.span = Some(span.clone());
        Some(Box::new(match copy {
            Some(copy) => Look::Aside(copy, Box::new(options), now, span),
            None => span.in_scope(|| Look::at_once(&mut self.state, &mut self.decider, &options, now)),
        }))
    }

    /// What the look that [`Core::take_look`] gave last is for.
    pub(crate) fn looks_for(&self) -> LooksFor {
        if self.disrupting.rest.only_empty { LooksFor::Empty } else { LooksFor::All }
    }

    /// Whether some node has no pod that would have to move, and could go for that.
    fn has_empty_node(&self) -> bool {
        self.view.idle_nodes().any(|node| {
            crate::view::pool_of(&node.metadata).is_some()
                && node.metadata.deletion_timestamp.is_none()
                && !is_disrupted(node)
        })
    }

    /// What a look found: budgets let some of it begin.
    pub(super) fn found(&mut self, found: Found, now: Timestamp) {
        self.disrupting.is_looking = false;
        let span = self.disrupting.span.take().unwrap_or_else(tracing::Span::none);
        let _entered = span.enter();
        let found = match found {
            Some(Ok(found)) => found,
            Some(Err(error)) => {
                tracing::debug!(%error, "nothing can be decided yet");
                self.disrupting.has_changed = true;
                return;
            }
            None => {
                tracing::error!("looking at the nodes broke off");
                self.disrupting.has_changed = true;
                return;
            }
        };
        tracing::debug!(
            what_ifs = found.what_ifs,
            commands = found.commands.len(),
            kept = found.kept.len(),
            only_empty = self.disrupting.rest.only_empty,
            conversions = ?self.state.conversions(),
            made_anew = self.decider.n_made_anew(),
            whole = self.decider.n_whole(),
            "looked at nodes"
        );
        if let Some(pace) = self.options.timings.look_pace {
            let size = self.view.nodes.len().saturating_add(self.view.pods.len());
            let begins = found.commands.iter().filter(|command| command.batch == 0);
            let saved = begins.map(|command| command.savings).sum();
            let looked = Looked {
                what_ifs: found.what_ifs,
                size,
                n_nodes: self.view.nodes.len(),
                is_cut_off: found.is_cut_off,
                saved,
                cost: found.hourly_cost,
            };
            self.disrupting.rest.after_look(looked, pace.get(), now);
        }
        let eligible = measure::eligible(&found);
        if self.disrupting.rest.only_empty {
            self.disrupting.eligible.extend(eligible.into_iter().filter(|(reason, _)| *reason == "empty"));
            // Why others stay is told by who looks at them.
            for command in found.commands.into_iter().filter(|command| command.batch == 0) {
                self.begin(&command, now);
            }
            return;
        }
        self.disrupting.eligible = eligible;
        self.count_look(&found);
        self.disrupting.is_at_rest = self.stays_at_rest(&found);
        if !found.is_cut_off && self.disrupting.inherited.end_look() {
            self.disrupting.changed();
        }
        if found.is_cut_off {
            self.disrupting.asked = Some(found.asked);
            self.queue.add_at(Job::Disrupt, after(now, NEXT_PART));
        }
        self.disrupting.to_be_told = found.kept.into_iter();
        self.tell_kept(now);
        self.tell_faults(&found.faults, now);
        for command in found.commands.into_iter().filter(|command| command.batch == 0) {
            self.begin(&command, now);
        }
    }

    /// Whether a look at all nodes found that each stays as it is until something changes: none was kept from it, none becomes
    /// ripe, no budget has a schedule, and nothing about a node falls due as its end nears.
    fn stays_at_rest(&self, found: &Disruption) -> bool {
        let prices_time = self.options.eviction_price > Money::ZERO;
        let has_time = |pool: &berth_api::NodePool| {
            let age = pool.spec.template.spec.expire_after.duration().and_then(berth_api::GoDuration::to_std);
            // Nodes are replaced within the last quarter of their time: one that is short may fall between two looks.
            let is_short = age.is_some_and(|age| age < AT_REST_EVERY * 8);
            is_short
                || (prices_time && age.is_some())
                || pool.spec.disruption.budgets.iter().any(|budget| budget.schedule.is_some())
        };
        !found.is_cut_off
            && found.commands.is_empty()
            && self.disrupting.commands.is_empty()
            && self.disrupting.put_back.is_empty()
            && found.kept.iter().all(|kept| matches!(kept.why, Why::Budget | Why::Unconsolidatable))
            && !self.view.pools.values().any(|pool| has_time(pool))
    }

    /// Whether pods come to new nodes just now: binding goes first, and what nodes cost shows once all is in its place. For
    /// a minute at most, as in a busy cluster some always do.
    fn puts_off_disruption(&mut self, now: Timestamp) -> bool {
        let is_busy = self.batch.is_some() || self.expects_pods(now);
        if !is_busy {
            self.disrupting.put_off = None;
            return false;
        }
        let since = *self.disrupting.put_off.get_or_insert(now);
        elapsed(since, now) < MOST_PUT_OFF
    }

    /// Whether most nodes stopped being ready at once: then the fault is elsewhere, and nothing is removed or launched for a
    /// while.
    pub(super) fn is_storm(&mut self, now: Timestamp) -> bool {
        self.storm(now).is_some()
    }

    /// What is said of such a storm, where there is one: NodePools are told.
    pub(super) fn storm(&mut self, now: Timestamp) -> Option<String> {
        // Where most are ready, those that are not say so by themselves.
        let lost = self.view.not_ready.iter().filter_map(|name| self.view.nodes.get(name));
        let claims = lost.flat_map(|node| self.view.claims_of_node(node));
        let n_gone = self.nodeless.values().filter(|since| elapsed(**since, now) < LONGEST_STORM).count();
        if claims.filter(|claim| taint::is_initialized(claim)).take(2).count() + n_gone < 2 {
            return None;
        }
        let registered = self.view.claims.values().filter(|claim| taint::is_initialized(claim));
        let was_lost_lately =
            |node: &Node| !is_ready(node) && ready_since(node).is_some_and(|since| elapsed(since, now) < LONGEST_STORM);
        let nodes: Vec<bool> = registered.filter_map(|claim| self.node_of(claim)).map(was_lost_lately).collect();
        let n_lost = nodes.iter().filter(|is_lost| **is_lost).count() + n_gone;
        let n_nodes = nodes.len() + n_gone;
        if n_nodes < STORM_NODES || n_lost * 2 <= n_nodes {
            return None;
        }
        let message = format!(
            "{n_lost} of {n_nodes} nodes are not ready: nodes are neither removed nor launched until most are, for {} minutes at most",
            LONGEST_STORM.as_secs() / 60
        );
        let pools: Vec<_> = self.view.pools.values().cloned().collect();
        for pool in pools {
            self.tell(Notice::about(Kind::NodePool, &pool.metadata, "DisruptionBlocked", message.clone()), now);
        }
        Some(message)
    }

    /// Whether a pod runs on a node that is about to go and has not been told to: its command sees to its next place.
    pub(super) fn is_seen_to(&self, pod: &ObjectRef) -> bool {
        let Some(node) = self.view.pods.get(&super::schedule::pod_name(pod)).and_then(|pod| pod.node.clone()) else {
            return false;
        };
        let Some(node) = self.view.nodes.get(&node) else { return false };
        let mut claims = self.view.claims_of_node(node);
        // A taint that an earlier process left is about to be taken off.
        node.metadata.deletion_timestamp.is_none()
            && is_disrupted(node)
            && claims.next().is_some_and(|claim| claim.metadata.deletion_timestamp.is_none())
    }

    /// Whether a pod runs where it may stay, while it is not decided yet about nodes that are to go: on one of these, or where it would give
    /// way, maybe to their pods. A node planned for it could be launched in vain.
    pub(super) fn may_yet_stay(&self, pod: &ObjectRef) -> bool {
        if pod.key.kind != berth_state::Kind::Pod || self.disrupting.is_settled() {
            return false;
        }
        let known = self.view.pods.get(&super::schedule::pod_name(pod));
        let node = known.and_then(|known| self.view.nodes.get(known.node.as_deref()?));
        node.is_some_and(|node| {
            let goes = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
            !goes(&node.metadata) && !self.view.claims_of_node(node).any(|claim| goes(&claim.metadata))
        })
    }

    /// Whether a NodeClaim is launched in place of nodes that go.
    pub(super) fn initialized(claim: &berth_api::NodeClaim) -> bool {
        let status = claim.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, conditions::INITIALIZED))
    }
}

/// When a node's readiness changed last.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// How much is saved, for whoever prints it.
fn dollars(savings: Money) -> String {
    format!("${:.4}/h", savings.dollars())
}
