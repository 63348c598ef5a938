//! Events: what controllers tell about the objects that they work on, as upstream's event recorder.
//!
//! An Event that says what one said before raises that one's count, and after ten of one reason the others are combined.
//! An object of which much happens tells the first 25 things, and one more every five minutes, as upstream's spam filter.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::json;

use crate::key::NamespacedName;
use crate::objects::View;
use crate::options::Controller;
use crate::resource::{EVENTS, Resource};
use crate::write::Write;

/// Events of an object that are told without a wait.
const BURST: f64 = 25.0;
/// Seconds until one more may be told.
const REFILL: f64 = 300.0;
/// For how long an Event is counted on rather than told anew.
const SAME: SignedDuration = SignedDuration::from_mins(10);
/// Events of an object and a reason within that time; more are combined into one.
const SIMILAR: usize = 10;
/// So much is remembered before what is old is looked for.
const REMEMBERED: usize = 4096;
/// Events that wait to be sent; more are dropped.
const BACKLOG: usize = 1000;
/// An Event's message holds so many bytes.
const MAX_MESSAGE: usize = 1024;
/// So much of the name of what an Event is about is in the Event's, which ends with a point and 16 digits.
const MAX_NAME: usize = 253 - 17;

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Involved {
    resource: &'static Resource,
    key: NamespacedName,
    uid: Box<str>,
}

/// What a write tells about its owner, once it was answered.
#[derive(Debug, Clone)]
pub(crate) struct Telling {
    pub(crate) about: Involved,
    /// Reason and message where it was done; `{}` stands for the name of what was written.
    pub(crate) done: Option<(&'static str, String)>,
    /// The same where it was refused; `{}` stands for the error.
    pub(crate) refused: Option<(&'static str, String)>,
    /// Whether even what was done is a warning.
    pub(crate) is_warning: bool,
}

/// The Events that were told, and those to be sent.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// By object, reason and message; those without a message stand for all further ones.
    told: FxHashMap<(Involved, &'static str, Option<String>), Told>,
    /// How many messages an object told for a reason, and since when.
    similar: FxHashMap<(Involved, &'static str), (usize, Timestamp)>,
    /// What an object may still tell, and when that was counted.
    tokens: FxHashMap<Box<str>, (f64, Timestamp)>,
    outbox: VecDeque<Write>,
    n_told: u64,
    /// How much must be known before what is old is forgotten.
    forgets_at: usize,
}

#[derive(Debug)]
struct Told {
    event: NamespacedName,
    count: u32,
    last: Timestamp,
}

// === impl Involved ===

impl Involved {
    pub(crate) fn new(resource: &'static Resource, view: View<'_>) -> Self {
        Self { resource, key: view.key(), uid: view.uid.into() }
    }
}

// === impl Telling ===

impl Telling {
    /// That something was done; nothing where it is refused.
    pub(crate) fn done(about: Involved, reason: &'static str, message: impl Into<String>) -> Self {
        Self { about, done: Some((reason, message.into())), refused: None, is_warning: false }
    }

    /// The same, as a warning.
    pub(crate) fn warning(about: Involved, reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::done(about, reason, message) }
    }

    /// What is told where it is refused.
    pub(crate) fn or_refused(self, reason: &'static str, message: impl Into<String>) -> Self {
        Self { refused: Some((reason, message.into())), ..self }
    }

    /// What ReplicaSets, DaemonSets and Jobs tell of a pod that they create.
    pub(crate) fn created_pod(about: Involved) -> Self {
        Self::done(about, "SuccessfulCreate", "Created pod: {}").or_refused("FailedCreate", "Error creating: {}")
    }

    /// What they tell of one that they delete.
    pub(crate) fn deleted_pod(about: Involved) -> Self {
        Self::done(about, "SuccessfulDelete", "Deleted pod: {}").or_refused("FailedDelete", "Error deleting: {}")
    }
}

// === impl Recorder ===

impl Recorder {
    /// The next Event to be sent.
    pub(crate) fn next(&mut self) -> Option<Write> {
        self.outbox.pop_front()
    }

    pub(crate) fn has_next(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes in that a write was done, to an object of this name.
    pub(crate) fn did(&mut self, by: Controller, telling: Telling, name: impl FnOnce() -> String, now: Timestamp) {
        if let Some((reason, message)) = telling.done
            && self.may_tell(&telling.about.uid, now)
        {
            self.tell(by, &telling.about, reason, message.replace("{}", &name()), telling.is_warning, now);
        }
    }

    /// Takes in that a write was refused.
    pub(crate) fn refused(&mut self, by: Controller, telling: Telling, error: &str, now: Timestamp) {
        if let Some((reason, message)) = telling.refused
            && self.may_tell(&telling.about.uid, now)
        {
            self.tell(by, &telling.about, reason, message.replace("{}", error), true, now);
        }
    }

    fn tell(
        &mut self,
        by: Controller,
        about: &Involved,
        reason: &'static str,
        mut message: String,
        is_warning: bool,
        now: Timestamp,
    ) {
        if message.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
            message.truncate(end);
        }
        self.forget_old(now);
        let time = now.to_string();
        let mut known = (about.clone(), reason, Some(message.clone()));
        let is_fresh = |told: &Told| now.duration_since(told.last) < SAME;
        if !self.told.get(&known).is_some_and(is_fresh) {
            let (n, since) = self.similar.entry((about.clone(), reason)).or_insert((0, now));
            if now.duration_since(*since) >= SAME {
                (*n, *since) = (0, now);
            }
            *n += 1;
            if *n > SIMILAR {
                known.2 = None;
                message = format!("(combined from similar events): {message}");
            }
        }
        if let Some(told) = self.told.get_mut(&known).filter(|told| is_fresh(told)) {
            told.count = told.count.saturating_add(1);
            told.last = now;
            let patch = json!({"count": told.count, "lastTimestamp": time, "message": message});
            self.outbox.push_back(Write::merge(&EVENTS, &told.event, &patch));
            return;
        }
        self.n_told += 1;
        let namespace = if about.key.namespace.is_empty() { "default" } else { &*about.key.namespace };
        let mut hasher = FxHasher::default();
        (&about.uid, reason, &message, now.as_nanosecond(), self.n_told).hash(&mut hasher);
        // A long name is cut, since the Event's own may be no longer.
        let start: String = about.key.name.chars().take(MAX_NAME).collect();
        let start = start.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
        let name = format!("{start}.{:016x}", hasher.finish());
        let component = component(by);
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.resource.api_version(), "kind": about.resource.kind,
                "namespace": &*about.key.namespace, "name": &*about.key.name, "uid": about.uid,
            },
            "reason": reason, "message": message, "type": if is_warning { "Warning" } else { "Normal" },
            "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
            "firstTimestamp": time, "lastTimestamp": time, "count": 1,
        });
        let event = NamespacedName::new(namespace, &name);
        self.outbox.push_back(Write::create(&EVENTS, &event, &body));
        self.told.insert(known, Told { event, count: 1, last: now });
    }

    /// Forgets what is too old to be added to. What is left doubles before it is looked through again, so that to tell one more
    /// thing costs the same however much was told within [`SAME`].
    fn forget_old(&mut self, now: Timestamp) {
        let known = self.told.len() + self.similar.len();
        if known < self.forgets_at.max(REMEMBERED) {
            return;
        }
        self.told.retain(|_, told| now.duration_since(told.last) < SAME);
        self.similar.retain(|_, (_, since)| now.duration_since(*since) < SAME);
        self.forgets_at = (self.told.len() + self.similar.len()).saturating_mul(2);
    }

    /// Whether an object may tell one more thing.
    fn may_tell(&mut self, uid: &str, now: Timestamp) -> bool {
        if self.outbox.len() >= BACKLOG {
            return false;
        }
        if self.tokens.len() >= 10_000 {
            // Those that are full again are as good as new.
            let full =
                |tokens: f64, since: Timestamp| tokens + now.duration_since(since).as_secs_f64() / REFILL >= BURST;
            self.tokens.retain(|_, (tokens, since)| !full(*tokens, *since));
        }
        let (tokens, since) = self.tokens.entry(uid.into()).or_insert((BURST, now));
        let refilled = now.duration_since(*since).as_secs_f64().max(0.0) / REFILL;
        (*tokens, *since) = ((*tokens + refilled).min(BURST), now);
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

/// Upstream's name of a controller in the Events that it tells.
fn component(controller: Controller) -> &'static str {
    match controller {
        Controller::Deployment => "deployment-controller",
        Controller::ReplicaSet => "replicaset-controller",
        Controller::ReplicationController => "replication-controller",
        Controller::StatefulSet => "statefulset-controller",
        Controller::DaemonSet => "daemonset-controller",
        Controller::Job => "job-controller",
        Controller::CronJob => "cronjob-controller",
        Controller::NodeLifecycle => "node-controller",
        Controller::TaintEviction => "taint-eviction-controller",
        Controller::PersistentVolumeBinder => "persistentvolume-controller",
        Controller::EphemeralVolume => "ephemeral_volume",
        _ => "kube-controller-manager",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::REPLICA_SETS;

    fn created(recorder: &mut Recorder, n: u32, now: Timestamp) -> usize {
        let about = Involved { resource: &REPLICA_SETS, key: NamespacedName::new("a", "web"), uid: "1".into() };
        for pod in 0..n {
            let telling = Telling::created_pod(about.clone());
            recorder.did(Controller::ReplicaSet, telling, || format!("web-{pod}"), now);
        }
        std::iter::from_fn(|| recorder.next()).count()
    }

    #[test]
    fn an_object_of_which_much_happens_tells_the_first_25_things() {
        let (mut recorder, now) = (Recorder::default(), Timestamp::from_second(1_000_000).unwrap());
        assert_eq!(created(&mut recorder, 500, now), 25);
        assert_eq!(created(&mut recorder, 500, now + SignedDuration::from_secs(599)), 1);
        assert_eq!(created(&mut recorder, 500, now + SignedDuration::from_hours(24)), 25);
    }

    #[test]
    fn what_is_told_again_is_counted() {
        let (mut recorder, now) = (Recorder::default(), Timestamp::from_second(1_000_000).unwrap());
        let about = Involved { resource: &REPLICA_SETS, key: NamespacedName::new("a", "web"), uid: "1".into() };
        for _ in 0..3 {
            recorder.refused(Controller::ReplicaSet, Telling::created_pod(about.clone()), "no", now);
        }
        let sent: Vec<String> = std::iter::from_fn(|| recorder.next()).map(|write| format!("{write:?}")).collect();
        assert_eq!(sent.iter().filter(|write| write.contains("method: POST")).count(), 1, "{sent:?}");
        assert_eq!(sent.iter().filter(|write| write.contains("method: PATCH")).count(), 2, "{sent:?}");
    }

    #[test]
    fn what_is_old_is_forgotten_and_seldom_looked_for() {
        let (mut recorder, mut now) = (Recorder::default(), Timestamp::from_second(1_000_000).unwrap());
        let mut n_looks = 0;
        for period in 0..5 {
            for n in 0..5_000 {
                let uid = format!("{period}-{n}").into();
                let about = Involved { resource: &REPLICA_SETS, key: NamespacedName::new("a", "web"), uid };
                let before = recorder.forgets_at;
                recorder.tell(Controller::ReplicaSet, &about, "Done", "done".to_owned(), false, now);
                n_looks += usize::from(recorder.forgets_at != before);
            }
            now += SignedDuration::from_mins(11);
        }
        let known = recorder.told.len() + recorder.similar.len();
        assert!((10_000..=30_000).contains(&known), "{known}");
        assert!((1..20).contains(&n_looks), "{n_looks}");
    }
}
