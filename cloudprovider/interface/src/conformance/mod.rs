//! What any provider must do, as a suite that a provider runs against itself.
//!
//! The suite is a caller as Berth is one: it repeats what was throttled, and looks for its tags where an outcome is
//! unknown. So it passes against a provider whose cloud is in trouble, too, as long as it keeps its promises.
//!
//! A provider implements [`Subject`] over a cloud that may be used up (an account for tests, an emulator) and calls
//! [`run`]; the [`Report`] says which promises were kept, broken, or could not be tried.

mod caller;
mod launches;
mod offers;
mod slots;

use std::fmt;
use std::time::Duration;

use berth_api::NodeClassRef;
use futures::future::BoxFuture;

use crate::{CloudProvider, OfferingKey, ProviderId};

/// A provider and the cloud behind it, as the suite needs them.
pub trait Subject: Sync {
    /// The provider.
    fn provider(&self) -> &dyn CloudProvider;

    /// A node class that is ready.
    fn node_class(&self) -> NodeClassRef;

    /// Two paid offerings of the node class of which at least twenty instances are to be had.
    fn offerings(&self) -> [OfferingKey; 2];

    /// Waits, on the time that the cloud goes by.
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Makes an offering have no instance left, or have them again. `false` if this cloud cannot be told so.
    fn exhaust(&self, offering: &OfferingKey, exhausted: bool) -> BoxFuture<'_, bool>;

    /// Makes a targeted, active reservation of so many instances of the offering's type and zone, unused, and returns
    /// its id. `None` if this cloud cannot be told so.
    fn reserve(&self, offering: &OfferingKey, total: u32) -> BoxFuture<'_, Option<String>>;

    /// Changes how many instances a reservation of [`reserve`](Self::reserve) holds.
    fn resize(&self, reservation: &str, total: u32) -> BoxFuture<'_, ()>;

    /// Takes the caller's rights away, or gives them back. `false` if this cloud cannot be told so.
    fn deny(&self, _denied: bool) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Makes an open, active reservation of so many instances of the offering's type and zone, unused, and returns its id;
    /// it is gone with `None` as total. `None` if this cloud cannot be told so.
    fn reserve_openly(&self, _offering: &OfferingKey, _total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Makes a targeted, active, interruptible reservation of so many instances of the offering's type and zone, or makes
    /// that which it has made smaller, and returns its id; it is gone with `None` as total. `None` if this cloud cannot be
    /// told so.
    fn reserve_interruptibly(&self, _offering: &OfferingKey, _total: Option<u32>) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// Makes the cloud announce that it will take an instance back in an hour. `false` if it cannot be told so.
    fn interrupt(&self, _id: &ProviderId) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }
}

/// What became of each promise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Kept, by name.
    pub kept: Vec<&'static str>,
    /// Not tried, because the subject cannot set the scene.
    pub skipped: Vec<&'static str>,
    /// Broken, and how.
    pub broken: Vec<(&'static str, String)>,
}

/// How a promise was broken; `Skip` where it could not be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Skip,
    Broken(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Plays every scene, one after another. `run` distinguishes the tokens of one run from another's on the same cloud.
pub async fn run(subject: &dyn Subject, run: &str) -> Report {
    let mut report = Report::default();
    let scenes: [(&'static str, BoxFuture<'_, Outcome>); 22] = [
        ("a launched instance is what was asked for", Box::pin(launches::is_what_was_asked(subject, run))),
        ("the same token is the same instance", Box::pin(launches::same_token_same_instance(subject, run))),
        ("the same token side by side launches once", Box::pin(launches::same_token_side_by_side(subject, run))),
        ("a token is not used for another request", Box::pin(launches::token_of_another_request(subject, run))),
        ("launches side by side are distinct", Box::pin(launches::side_by_side(subject, run))),
        ("an instance is found by its tags", Box::pin(launches::found_by_tags(subject, run))),
        ("a deleted instance goes", Box::pin(launches::deleted_goes(subject, run))),
        ("an instance that will be taken back is told", Box::pin(launches::told_of_interruption(subject, run))),
        ("what never was is not found", Box::pin(launches::unknown_is_not_found(subject))),
        ("requests that cannot be are refused", Box::pin(launches::invalid_requests(subject, run))),
        ("the next offering serves when the first has none", Box::pin(offers::falls_through(subject, run))),
        ("insufficient capacity names all that was tried", Box::pin(offers::insufficient(subject, run))),
        ("offerings and reservations agree", Box::pin(offers::agree(subject))),
        ("an unknown node class is not found", Box::pin(offers::unknown_node_class(subject, run))),
        ("what is not allowed does nothing", Box::pin(launches::unauthorized(subject, run))),
        ("a reservation serves its slots and no more", Box::pin(slots::serves_its_slots(subject, run))),
        ("slots are never overdrawn side by side", Box::pin(slots::side_by_side(subject, run))),
        ("no count hides a launch that it did not see", Box::pin(slots::counts_are_safe(subject, run))),
        ("a reservation may hold more than its slots", Box::pin(slots::over_allocated(subject, run))),
        ("an interruptible reservation takes slots back with notice", Box::pin(slots::reclaimed(subject, run))),
        ("an open reservation is used by who did not ask", Box::pin(slots::used_unasked(subject, run))),
        ("a slot that comes later takes in who is of the group", Box::pin(slots::taken_in_later(subject, run))),
    ];
    for (name, scene) in scenes {
        match scene.await {
            Ok(()) => report.kept.push(name),
            Err(Failure::Skip) => report.skipped.push(name),
            Err(Failure::Broken(how)) => report.broken.push((name, how)),
        }
    }
    report
}

/// Breaks the promise unless `holds`.
pub(crate) fn expect(holds: bool, how: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Failure::Broken(how())) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} kept, {} not tried, {} broken", self.kept.len(), self.skipped.len(), self.broken.len())?;
        self.skipped.iter().try_for_each(|name| writeln!(f, "  not tried: {name}"))?;
        self.broken.iter().try_for_each(|(name, how)| writeln!(f, "  broken: {name}: {how}"))
    }
}
