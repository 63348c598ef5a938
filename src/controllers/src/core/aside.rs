//! What takes long is decided elsewhere, so that events are taken in and pods bound meanwhile: decisions that look at the whole
//! cluster, the steps of commands, and the copy that a look at the nodes begins with.
//!
//! A replica of the state is told what has changed, a part at a time, and is asked by another thread, one question at a time. Each
//! answer is checked against the state as it is by then before anything is done about it. In simulations everything takes turns,
//! and nothing is decided elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_decisions::{DecideError, Finished, Problem, Refreshed, Replica, Solved};
use berth_disruption::{Method, Places, Reason, Renewed};
use berth_state::{ObjectRef, State};
use jiff::Timestamp;

use super::{Core, Job, step};
use crate::clock::{after, elapsed};

/// The replica is told of so many objects in one go.
const TOLD_AT_A_TIME: usize = 2_000;
/// It is told although nobody asks once so many have changed.
const TOLD_UNASKED: usize = 1_000;
/// A decision of which something did not hold so often in a row is made again while nobody is bound. What was converted elsewhere
/// so often in a row and was out of date when it came is converted on the loop.
const PATIENCE: u32 = 2;
/// What was converted elsewhere is adopted where so many objects at most have changed since: each takes some ten microseconds.
/// Four times as many may have each time that more had.
const MOST_CHANGED: usize = 100;
/// How soon is asked again what broke off.
const BROKEN_OFF: Duration = Duration::from_secs(1);

/// What is asked elsewhere, and by whom.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// While nobody asks it.
    replica: Option<Replica>,
    under_way: Option<UnderWay>,
    /// When that was asked.
    since: Option<Timestamp>,
    /// Whether everything is to be converted, or looked at, again.
    is_stale: bool,
    /// How often in a row what was converted elsewhere and adopted did not help.
    n_stale: u32,
    /// How often in a row too much had changed to adopt it.
    n_late: u32,
    /// How often in a row an answer could not be compared with a cluster that was to be converted first.
    n_let_go: u32,
    /// A decision that is to be made, and whether it may launch.
    decision: Option<bool>,
    /// Commands whose next step is to be decided.
    steps: BTreeSet<u64>,
    /// Whether a decision was made last: what else there is to ask comes first then.
    has_decided: bool,
    /// How often in a row something of a decision did not hold any more.
    n_again: u32,
    /// Reservations, by name, that found no place when they were asked last.
    asked: BTreeSet<Arc<str>>,
    /// Whether there may be more room since a decision was begun last.
    has_more_room: bool,
}

/// A question that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnderWay {
    Refresh,
    Decision { launches: bool },
    Step(u64),
    Copy,
    Nothing,
}

/// A question, with the state as it was when it came up.
#[derive(Debug)]
pub(crate) struct Asked {
    problem: Problem,
    question: Question,
    now: Timestamp,
}

#[derive(Debug)]
enum Question {
    /// Everything is converted, and looked at, again.
    Refresh {
        options: Box<berth_decisions::Options>,
        asked: BTreeSet<Arc<str>>,
    },
    Decision {
        options: Box<berth_decisions::Options>,
        span: tracing::Span,
    },
    Renew(Step),
    Confirm(Step),
    /// A copy of the state.
    Copy,
    /// The replica is only told what has changed.
    Nothing,
}

#[derive(Debug)]
struct Step {
    id: u64,
    nodes: Vec<ObjectRef>,
    method: Method,
    options: Box<berth_disruption::Options>,
    n_changes: u64,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    answer: Answer,
    seconds: f64,
}

#[derive(Debug)]
enum Answer {
    Refreshed(Replica, Box<Refreshed>),
    Decision(Box<Solved>, bool, tracing::Span),
    Renewed(Replica, Step, Result<Result<Renewed, Vec<Reason>>, DecideError>),
    Confirmed(Replica, Step, Result<Result<Places, Vec<Reason>>, DecideError>),
    Copied(Replica, Box<State>),
    Nothing(Replica),
}

// === impl Aside ===

impl Aside {
    /// Whether nobody is to be bound until a decision is made that events came between too often.
    fn holds_still(&self) -> bool {
        self.n_again >= PATIENCE && matches!(self.under_way, Some(UnderWay::Decision { .. }))
    }

    /// The decision that is to be made now. They take turns with the rest, so that none keeps others waiting for ever.
    fn next_decision(&mut self, is_looking: bool) -> Option<bool> {
        let has_others = !self.steps.is_empty() || is_looking;
        if std::mem::take(&mut self.has_decided) && has_others {
            return None;
        }
        let decision = self.decision.take();
        self.has_decided = decision.is_some();
        decision
    }

    /// Whether what is converted and looked at elsewhere is out of date again when it comes.
    fn changes_too_fast(&self) -> bool {
        self.n_stale >= PATIENCE
    }
}

// === impl Question ===

impl Question {
    /// What is asked, in a word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Refresh { .. } => "refreshed",
            Self::Decision { .. } => "decision",
            Self::Renew(_) => "renewed",
            Self::Confirm(_) => "confirmed",
            Self::Copy => "copied",
            Self::Nothing => "told",
        }
    }
}

// === impl Answered ===

impl Answered {
    /// What was asked, in a word.
    pub(super) const fn word(&self) -> &'static str {
        match self.answer {
            Answer::Refreshed(..) => "refreshed",
            Answer::Decision(..) => "decision",
            Answer::Renewed(..) => "renewed",
            Answer::Confirmed(..) => "confirmed",
            Answer::Copied(..) => "copied",
            Answer::Nothing(_) => "told",
        }
    }
}

// === impl Answer ===

impl Answer {
    fn into_replica(self) -> Replica {
        match self {
            Answer::Decision(solved, ..) => solved.into_replica(),
            Answer::Refreshed(replica, _)
            | Answer::Renewed(replica, ..)
            | Answer::Confirmed(replica, ..)
            | Answer::Copied(replica, _)
            | Answer::Nothing(replica) => replica,
        }
    }
}

// === impl Asked ===

impl Asked {
    /// Whether a decision is to be made.
    #[cfg(test)]
    pub(crate) fn is_decision(&self) -> bool {
        matches!(self.question, Question::Decision { .. })
    }

    /// Whether everything is to be converted, or looked at, again.
    #[cfg(test)]
    pub(crate) fn is_refresh(&self) -> bool {
        matches!(self.question, Question::Refresh { .. })
    }

    /// Answers. May take long.
    pub(crate) fn answer(self) -> Answered {
        let start = std::time::Instant::now();
        let Asked { problem, question, now } = self;
        let answer = match question {
            Question::Refresh { options, asked } => {
                let (replica, refreshed) = problem.refresh(&options, &asked, now);
                Answer::Refreshed(replica, Box::new(refreshed))
            }
            Question::Decision { options, span } => {
                let solved = span.in_scope(|| problem.solve(&options, now));
                Answer::Decision(Box::new(solved), options.launches, span)
            }
            Question::Renew(step) => {
                let (replica, renewed) = problem.ask(|state, decider| {
                    berth_disruption::renew((state, decider), &step.nodes, step.method, &step.options, now)
                });
                Answer::Renewed(replica, step, renewed)
            }
            Question::Confirm(step) => {
                let (replica, confirmed) = problem.ask(|state, decider| {
                    berth_disruption::confirm((state, decider), &step.nodes, step.method, &step.options, now)
                });
                Answer::Confirmed(replica, step, confirmed)
            }
            Question::Copy => {
                let (replica, copy) = problem.ask(|state, _| state.snapshot());
                Answer::Copied(replica, Box::new(copy))
            }
            Question::Nothing => Answer::Nothing(problem.ask(|_, _| ()).0),
        };
        Answered { answer, seconds: start.elapsed().as_secs_f64() }
    }
}

impl Core {
    /// From now on what takes long is decided elsewhere: [`Core::take_asked`] says what, and its answer is an input.
    pub(crate) fn decide_aside(&mut self) {
        self.aside = Some(Aside::default());
    }

    pub(super) fn decides_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// How long the decision that is being made takes already, and whether it may launch.
    pub(super) fn unfinished(&self, now: Timestamp) -> Option<(bool, Duration)> {
        let aside = self.aside.as_ref()?;
        let Some(UnderWay::Decision { launches }) = aside.under_way else { return None };
        Some((launches, elapsed(aside.since?, now)))
    }

    /// A decision is to be made elsewhere; false where nothing is decided there.
    pub(super) fn want_decision(&mut self, launches: bool) -> bool {
        let Some(aside) = &mut self.aside else { return false };
        aside.decision = Some(aside.decision.unwrap_or(false) || launches);
        true
    }

    /// The next step of a command is to be decided elsewhere; false where nothing is decided there.
    pub(super) fn want_step(&mut self, id: u64) -> bool {
        let Some(aside) = &mut self.aside else { return false };
        if aside.under_way != Some(UnderWay::Step(id)) {
            aside.steps.insert(id);
        }
        true
    }

    /// Binds who fits on nodes that are up, while the rest is decided elsewhere.
    pub(super) fn schedule_at_once(&mut self, now: Timestamp) {
        if self.aside.as_ref().is_none_or(Aside::holds_still) {
            return;
        }
        let (options, span) = self.begin_decision(false, now);
        self.decision = span.clone();
        let _entered = span.enter();
        self.decided = Some(self.decided.unwrap_or(false));
        let none = BTreeSet::new();
        let asked = self.aside.as_ref().map_or(&none, |aside| &aside.asked);
        if self.aside.as_ref().is_some_and(Aside::changes_too_fast) {
            self.decider.refresh(&mut self.state, now);
        }
        match self.decider.decide_at_once(&mut self.state, &options, asked, now) {
            Ok(found) => {
                if let Some(aside) = &mut self.aside {
                    aside.n_stale = if found.is_stale { aside.n_stale } else { 0 };
                    aside.is_stale = found.is_stale;
                }
                if found.is_stale {
                    return;
                }
                self.swap_expected(&found.decision.bindings, now);
                self.take_places(&found.decision.bindings);
                if found.is_all || !found.decision.bindings.is_empty() || !found.decision.nominations.is_empty() {
                    self.bind_all(&found.decision, now);
                }
                if !found.is_all {
                    self.want_decision(false);
                }
            }
            Err(error) => tracing::debug!(%error, "nothing can be decided yet"),
        }
    }

    /// What is to be answered elsewhere now: its answer is told by [`super::Input::Solved`].
    pub(crate) fn take_asked(&mut self, now: Timestamp) -> Option<Box<Asked>> {
        let _step = step::ask("anything").entered();
        let is_looking = self.disrupting.wants_copy();
        let aside = self.aside.as_mut().filter(|aside| self.is_started && aside.under_way.is_none())?;
        let wants = aside.is_stale || aside.decision.is_some() || !aside.steps.is_empty() || is_looking;
        if !wants && aside.replica.is_none() {
            return None;
        }
        let replica = aside.replica.take().unwrap_or_else(|| Replica::of(&mut self.state));
        if !self.state.is_almost_told(TOLD_AT_A_TIME) {
            return Some(self.tell_replica(replica, now));
        }
        if self.is_stale(now) {
            return Some(self.ask_to_refresh(replica, now));
        }
        if let Some(launches) = self.aside.as_mut().and_then(|aside| aside.next_decision(is_looking)) {
            return Some(self.ask_for_decision(replica, launches, now));
        }
        while let Some(id) = self.aside.as_mut().and_then(|aside| aside.steps.pop_first()) {
            if let Some(question) = self.step_to_decide(id, now) {
                return Some(self.ask_replica(replica, question, UnderWay::Step(id), now));
            }
        }
        if is_looking {
            return Some(self.ask_replica(replica, Question::Copy, UnderWay::Copy, now));
        }
        // Where there was nothing to ask of the rest.
        if let Some(launches) = self.aside.as_mut().and_then(|aside| aside.next_decision(false)) {
            return Some(self.ask_for_decision(replica, launches, now));
        }
        if !self.state.is_almost_told(TOLD_UNASKED) || replica.has_left() {
            return Some(self.tell_replica(replica, now));
        }
        self.bring_home(replica);
        None
    }

    // Whether everything is to be converted, or looked at, again before anything is decided.
    fn is_stale(&mut self, now: Timestamp) -> bool {
        let Some(aside) = &mut self.aside else { return false };
        let decides = aside.decision.is_some() || !aside.steps.is_empty();
        if decides && aside.changes_too_fast() {
            self.state.cluster(now);
        }
        std::mem::take(&mut aside.is_stale) || (decides && !self.state.is_converted(now))
    }

    fn tell_replica(&mut self, replica: Replica, now: Timestamp) -> Box<Asked> {
        let _step = step::ask("told").entered();
        if let Some(aside) = &mut self.aside {
            aside.under_way = Some(UnderWay::Nothing);
        }
        let problem = replica.catch_up(&mut self.state, TOLD_AT_A_TIME);
        Box::new(Asked { problem, question: Question::Nothing, now })
    }

    /// There may be more room: Reservations that found no place come before pods again.
    pub(super) fn room_came(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.has_more_room = true;
            aside.asked.clear();
        }
    }

    fn ask_to_refresh(&mut self, replica: Replica, now: Timestamp) -> Box<Asked> {
        let options = berth_decisions::Options {
            launches: false,
            expected: self.expected_pods(now),
            drawers: self.expected_drawers(now),
            ..berth_decisions::Options::default()
        };
        let asked = self.aside.as_ref().map(|aside| aside.asked.clone()).unwrap_or_default();
        let question = Question::Refresh { options: Box::new(options), asked };
        self.ask_replica(replica, question, UnderWay::Refresh, now)
    }

    fn ask_for_decision(&mut self, replica: Replica, launches: bool, now: Timestamp) -> Box<Asked> {
        if let Some(aside) = &mut self.aside {
            aside.has_more_room = false;
        }
        let (options, span) = self.begin_decision(launches, now);
        let question = Question::Decision { options: Box::new(options), span };
        self.ask_replica(replica, question, UnderWay::Decision { launches }, now)
    }

    fn ask_replica(&mut self, replica: Replica, question: Question, under_way: UnderWay, now: Timestamp) -> Box<Asked> {
        let _step = step::ask(question.word()).entered();
        if let Some(aside) = &mut self.aside {
            aside.under_way = Some(under_way);
            aside.since = Some(now);
        }
        let problem = replica.begin(&mut self.state);
        Box::new(Asked { problem, question, now })
    }

    fn step_to_decide(&mut self, id: u64, now: Timestamp) -> Option<Question> {
        let (nodes, method, is_confirmed) = self.disrupting.step_of(id)?;
        let options = if is_confirmed { self.options_to_confirm(id, now) } else { self.options_to_renew(id, now) };
        let step = Step { id, nodes, method, options: Box::new(options), n_changes: self.disrupting.n_changes() };
        Some(if is_confirmed { Question::Confirm(step) } else { Question::Renew(step) })
    }

    fn bring_home(&mut self, replica: Replica) {
        if let Some(aside) = &mut self.aside {
            aside.replica = Some(replica);
        }
    }

    /// A question was answered; `None` where that broke off.
    pub(super) fn solved(&mut self, answered: Option<Answered>, now: Timestamp) {
        let Some(under_way) = self.aside.as_mut().and_then(|aside| aside.under_way.take()) else { return };
        let Some(Answered { answer, seconds }) = answered else { return self.broke_off(under_way, now) };
        if self.is_to_be_let_go(under_way, now) {
            self.bring_home(answer.into_replica());
            return;
        }
        match answer {
            Answer::Refreshed(replica, refreshed) => self.refreshed(replica, *refreshed),
            Answer::Decision(solved, launches, span) => {
                self.measure_decision(launches, seconds);
                self.decision = span.clone();
                let _entered = span.enter();
                self.finish_decision(*solved, launches, now);
            }
            Answer::Renewed(replica, step, renewed) => {
                let since = replica.since(&mut self.state, now);
                // Where it waits for its own slot nothing is launched yet.
                let launches = step.method != Method::DriftInSlot;
                let holds = step.nodes.iter().all(|node| since.has_no_more_on(&node.key.name))
                    && !matches!(&renewed, Ok(Ok(renewed)) if launches && !since.hold_launches(&renewed.launches));
                self.bring_home(replica);
                self.was_renewed(step.id, renewed, holds, now);
            }
            Answer::Confirmed(replica, step, confirmed) => {
                let since = replica.since(&mut self.state, now);
                let holds = step.nodes.iter().all(|node| since.has_no_more_on(&node.key.name))
                    && !matches!(&confirmed, Ok(Ok(places)) if !since.hold_places(places));
                self.bring_home(replica);
                self.was_confirmed(step.id, confirmed, (holds, step.n_changes), now);
            }
            Answer::Copied(replica, copy) => {
                self.bring_home(replica);
                self.disrupting.copied(copy);
            }
            Answer::Nothing(replica) => self.bring_home(replica),
        }
    }

    // Whether the cluster is to be converted elsewhere before anything is compared with it: then the question is asked once more,
    // after that. It is not let go for ever: changes may come as fast as answers.
    fn is_to_be_let_go(&mut self, under_way: UnderWay, now: Timestamp) -> bool {
        let needs_cluster = matches!(under_way, UnderWay::Decision { .. } | UnderWay::Step(_));
        let Some(aside) = self.aside.as_mut().filter(|_| needs_cluster) else { return false };
        if self.state.is_converted(now) || aside.n_let_go >= PATIENCE {
            aside.n_let_go = 0;
            return false;
        }
        aside.n_let_go += 1;
        match under_way {
            UnderWay::Decision { launches } => self.want_decision(launches),
            UnderWay::Step(id) => self.want_step(id),
            UnderWay::Refresh | UnderWay::Copy | UnderWay::Nothing => false,
        };
        true
    }

    // Everything was converted, and looked at, elsewhere.
    fn refreshed(&mut self, mut replica: Replica, refreshed: Refreshed) {
        if let Some(aside) = &mut self.aside {
            let most = MOST_CHANGED << (2 * aside.n_late).min(16);
            // Where more has changed the replica is told it first.
            let is_adopted =
                self.state.is_almost_told(most) && refreshed.adopt(&mut self.state, &mut self.decider, &mut replica);
            if is_adopted {
                (aside.n_stale, aside.n_late) = (aside.n_stale.saturating_add(1), 0);
            } else {
                aside.n_late = aside.n_late.saturating_add(1);
            }
            aside.is_stale = !is_adopted;
        }
        self.bring_home(replica);
        self.queue.add(Job::Schedule);
    }

    fn finish_decision(&mut self, solved: Solved, launches: bool, now: Timestamp) {
        let asked = solved.waiting_reservations();
        let (finished, replica) = solved.finish(&mut self.state, now);
        self.bring_home(replica);
        let Finished { decision, again } = match finished {
            Ok(finished) => finished,
            Err(error) => {
                tracing::debug!(%error, "nothing can be decided yet");
                return self.queue.add_at(Job::Provision, after(now, BROKEN_OFF));
            }
        };
        if let Some(aside) = &mut self.aside {
            if aside.n_again >= PATIENCE {
                // Nobody was bound meanwhile.
                self.queue.add(Job::Schedule);
            }
            aside.n_again = if again { aside.n_again.saturating_add(1) } else { 0 };
            // Where room came meanwhile, it is theirs first, and a decision is on its way.
            if !aside.has_more_room && aside.asked != asked {
                // Pods that waited for their turn have theirs.
                aside.asked = asked;
                self.queue.add(Job::Schedule);
            }
        }
        self.swap_expected(&decision.bindings, now);
        self.take_places(&decision.bindings);
        if launches {
            self.carry_out(&decision, now);
        } else {
            self.bind_all(&decision, now);
        }
        if again {
            self.queue.add(Job::Schedule);
            self.want_decision(launches);
        }
    }

    fn broke_off(&mut self, under_way: UnderWay, now: Timestamp) {
        tracing::error!("a decision broke off");
        let at = after(now, BROKEN_OFF);
        match under_way {
            UnderWay::Refresh => self.queue.add_at(Job::Schedule, at),
            UnderWay::Decision { .. } => self.queue.add_at(Job::Provision, at),
            UnderWay::Step(id) => self.queue.add_at(Job::Command(id), at),
            UnderWay::Copy => self.disrupting.give_look_up(),
            UnderWay::Nothing => {}
        }
    }
}
