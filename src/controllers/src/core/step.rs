//! Spans of what the core does in one go, at level TRACE: whoever measures what holds it up listens to them. Pods are bound
//! between two of them.
//!
//! Each has the field `of`: the kind of thing that happened, the job, or the question that is begun.

use tracing::{Span, trace_span};

use super::{Input, Job};

/// Something that happened is taken in.
pub(super) fn take_in(input: &Input) -> Span {
    trace_span!("take in", of = of_input(input))
}

/// A job is done.
pub(super) fn job(job: &Job) -> Span {
    trace_span!("job", of = of_job(job))
}

/// A question is begun that is answered elsewhere.
pub(super) fn ask(question: &'static str) -> Span {
    trace_span!("ask", of = question)
}

fn of_input(input: &Input) -> &'static str {
    match input {
        Input::Observed(_) => "observed",
        Input::Written(..) => "written",
        // What the cloud was asked for.
        Input::Answered(job, _) => of_job(job),
        Input::Found(_) => "found",
        Input::Solved(answered) => answered.as_ref().map_or("broke off", |answered| answered.word()),
        Input::Tick => "tick",
    }
}

const fn of_job(job: &Job) -> &'static str {
    match job {
        Job::Reread(_) => "Reread",
        Job::Offers(_) => "Offers",
        Job::Restock => "Restock",
        Job::Bind(_) => "Bind",
        Job::PreBind(_) => "PreBind",
        Job::Hold(_) => "Hold",
        Job::Nominate(_) => "Nominate",
        Job::Volume(_) => "Volume",
        Job::Launch(_) => "Launch",
        Job::Reservation(_) => "Reservation",
        Job::CurrentOwner(_) => "CurrentOwner",
        Job::Schedule => "Schedule",
        Job::Provision => "Provision",
        Job::ClassStatus(_) => "ClassStatus",
        Job::Pool(_) => "Pool",
        Job::Overlay(_) => "Overlay",
        Job::Replicas(_) => "Replicas",
        Job::Claim(_) => "Claim",
        Job::Node(_) => "Node",
        Job::Disrupt => "Disrupt",
        Job::TellKept => "TellKept",
        Job::Command(_) => "Command",
        Job::Evict(_) => "Evict",
        Job::DoNotDisrupt(_) => "DoNotDisrupt",
        Job::Stays => "Stays",
        Job::Garbage => "Garbage",
        Job::Interrupted => "Interrupted",
        Job::Relabel(_) => "Relabel",
        Job::Collect(_) => "Collect",
        Job::Check(_) => "Check",
    }
}
