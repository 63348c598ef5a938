//! The state itself: events in, objects and the cluster out.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use berth_api::NodeClaim;
use berth_convert::{OfferedVolumes, Options, StayingPods, VolumeOn};
use berth_model::{Cluster, Keyed, RowId};

use crate::assume::{Assumption, Progress};
use crate::built::Built;
use crate::chunked::Chunked;
use crate::entry::{Check, Entry};
use crate::event::RefusedObject;
use crate::kept::Kept;
use crate::links::Links;
use crate::object::version;
use crate::shapes::Shapes;
use crate::slots::Cloud;
use crate::told::{Noted, Told};
use crate::{
    AssumptionId, CountsAs, Event, Key, Kind, Object, ObjectRef, Outcome, Patch, PodRecord, Problem, Refused, Time,
    Touched, Write,
};

/// Deletions that are remembered, so that an older event does not undo them.
const MOST_GRAVES: usize = 16_384;

/// The cluster as it is known now.
#[derive(Debug)]
pub struct State {
    pub(crate) options: Options,
    check: Check,
    pub(crate) entries: Chunked<Key, Entry>,
    /// What pods have in common.
    shapes: Shapes,
    pub(crate) cloud: Cloud,
    /// Objects by the nodes that they belong to.
    pub(crate) links: Links,
    /// Kinds that were listed.
    pub(crate) listed: BTreeSet<Kind>,
    /// By kind: how new its latest list was. What is older and was not in it is gone.
    pub(crate) listed_at: BTreeMap<Kind, u64>,
    /// Which object an assumption is about.
    pub(crate) assumptions: BTreeMap<AssumptionId, Key>,
    /// The objects of which something is assumed that nobody can tell what became of.
    pub(crate) in_doubt: BTreeSet<Key>,
    /// Those that became so since that was asked last.
    pub(crate) told_doubts: Vec<Key>,
    pub(crate) next_assumption: u64,
    /// The resourceVersion of deletions, and their order.
    pub(crate) graves: BTreeMap<Key, u64>,
    buried: VecDeque<Key>,
    /// The converted cluster, where it is up to date.
    pub(crate) built: Option<Box<Built>>,
    /// The one before, where a replica converts everything anew: to let it go takes long, too.
    pub(crate) gone: Option<Box<Built>>,
    /// How often there was a conversion, by what it was for.
    pub(crate) conversions: BTreeMap<&'static str, u64>,
    /// What the next conversion is for.
    pub(crate) forgotten: &'static str,
    /// What a replica is to be told, where there is one.
    pub(crate) noted: Option<Noted>,
    /// How many replicas there were.
    pub(crate) n_replicas: u64,
    /// What it was told last, where it is a replica.
    pub(crate) follows: Option<Told>,
}

// === impl State ===

impl State {
    /// A state that knows nothing yet.
    pub fn new(options: Options) -> Self {
        State {
            entries: Chunked::default(),
            shapes: Shapes::new(&Keyed::with_key(options.hash_key)),
            check: Check::new(options.clone()),
            options,
            cloud: Cloud::default(),
            links: Links::default(),
            listed: BTreeSet::new(),
            listed_at: BTreeMap::new(),
            assumptions: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            told_doubts: Vec::new(),
            next_assumption: 0,
            graves: BTreeMap::new(),
            buried: VecDeque::new(),
            built: None,
            gone: None,
            conversions: BTreeMap::new(),
            forgotten: "first",
            noted: None,
            n_replicas: 0,
            follows: None,
        }
    }

    /// Takes in one observation, and says what it changed. An event that is known, or older than what is known, changes
    /// nothing.
    ///
    /// # Errors
    /// Objects that cannot be used, with their reasons: they count as [`RefusedObject::counts_as`] says, and all else of
    /// the event was taken in.
    pub fn apply(&mut self, event: Event) -> Result<Touched, Refused> {
        let mut refused = Vec::new();
        let touched = match event {
            Event::Applied(object) => self.upsert(object, &mut refused),
            Event::Deleted { object, resource_version } => self.delete(&object, version(resource_version.as_deref())),
            Event::Relisted { kind, objects, resource_version } => {
                self.relist(kind, objects, version(resource_version.as_deref()), &mut refused)
            }
            Event::Listed { kind, keys, resource_version } => {
                self.listed(kind, &keys, version(resource_version.as_deref()))
            }
            Event::Read { object, found } => self.read(&object, found, &mut refused),
            Event::Offered { catalogue, seen } => {
                let same_types = self.cloud.catalogue.as_deref() == Some(&*catalogue);
                let same = same_types && self.cloud.seen == seen && self.cloud.counts.is_empty();
                (self.cloud.catalogue, self.cloud.seen) = (Some(catalogue), seen);
                self.cloud.counts.clear();
                if !same {
                    self.note_cloud(!same_types);
                }
                if !same && same_types {
                    self.supplies_changed();
                } else if !same {
                    self.offers_changed();
                }
                Touched { room: !same, ..Touched::default() }
            }
            Event::Counted(counts) => {
                let mut touched = Touched::default();
                for count in counts {
                    let known = self.cloud.counts.get(&count.reservation_id);
                    touched.room |= known != Some(&count);
                    self.cloud.counts.insert(count.reservation_id.clone(), count);
                }
                if touched.room {
                    self.note_cloud(false);
                    self.supplies_changed();
                }
                touched
            }
            Event::Stays(pods) => {
                let room = self.set_staying(pods);
                Touched { room, waiting: room, ..Touched::default() }
            }
            Event::Settled { assumption, outcome } => self.settle(assumption, outcome),
        };
        if refused.is_empty() { Ok(touched) } else { Err(Refused { objects: refused, touched }) }
    }

    /// These stay on nodes that go away, and nobody else. Whether that is news.
    pub(crate) fn set_staying(&mut self, pods: StayingPods) -> bool {
        let is_news = *self.cloud.staying != pods;
        if is_news {
            self.cloud.staying = Arc::new(pods);
            self.note_cloud(false);
            self.staying_changed();
        }
        is_news
    }

    /// These pods, too, stay where they run when their nodes go away. Where that is news, who stayed before is returned, to be told again
    /// ([`Event::Stays`]).
    pub fn add_staying<'p>(&mut self, pods: impl IntoIterator<Item = &'p ObjectRef>) -> Option<StayingPods> {
        let mut pods = pods.into_iter().peekable();
        pods.peek()?;
        let mut staying = (*self.cloud.staying).clone();
        for pod in pods {
            let node = self.pod(&pod.key.namespace, &pod.key.name).and_then(|known| known.node());
            if let Some(node) = node {
                let on_node = staying.entry(node.into()).or_default();
                on_node.insert((pod.key.namespace.as_ref().into(), pod.key.name.as_ref().into()));
            }
        }
        let before = (*self.cloud.staying).clone();
        self.set_staying(staying).then_some(before)
    }

    /// Whether nothing lets a pod leave its node, if that goes away.
    pub(crate) fn stays(&self, pod: &PodRecord) -> bool {
        let on_node = pod.node().and_then(|node| self.cloud.staying.get(node));
        on_node.is_some_and(|pods| pods.contains(&(pod.namespace().into(), (&**pod.name()).into())))
    }

    /// Whether every kind and the cloud were listed once. Before that nothing may be decided: what is not known yet
    /// would count as not there.
    pub fn is_synced(&self) -> bool {
        self.unlisted().next().is_none() && self.cloud.catalogue.is_some()
    }

    /// Whether the cloud's offerings are known.
    pub fn has_offerings(&self) -> bool {
        self.cloud.catalogue.is_some()
    }

    /// Kinds that were not listed yet.
    pub fn unlisted(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.iter().copied().filter(|kind| !self.listed.contains(kind))
    }

    /// A copy, to be asked while this one changes: it shares the objects, remembers no deletions, and converts the cluster
    /// by itself.
    #[must_use]
    pub fn snapshot(&self) -> State {
        State {
            options: self.options.clone(),
            entries: self.entries.clone(),
            shapes: Shapes::new(&Keyed::with_key(self.options.hash_key)),
            check: Check::new(self.options.clone()),
            cloud: self.cloud.clone(),
            links: self.links.clone(),
            listed: self.listed.clone(),
            listed_at: self.listed_at.clone(),
            assumptions: self.assumptions.clone(),
            in_doubt: self.in_doubt.clone(),
            told_doubts: Vec::new(),
            next_assumption: self.next_assumption,
            graves: BTreeMap::new(),
            buried: VecDeque::new(),
            built: None,
            gone: None,
            conversions: BTreeMap::new(),
            forgotten: "first",
            noted: None,
            n_replicas: 0,
            follows: None,
        }
    }

    /// Objects that cannot be used, and why, by kind and name.
    pub fn refused(&self) -> impl Iterator<Item = &RefusedObject> {
        let beside_others = self.built.iter().flat_map(|built| &built.refused);
        self.entries.iter().filter_map(|(_, entry)| entry.refused()).chain(beside_others)
    }

    /// What people should know of the cluster, a line each. Converts everything anew beside where objects came or went.
    pub fn warnings(&mut self, now: Time) -> &[String] {
        let anew = self.converted_by(now).is_patched.then(|| self.build(now).warnings);
        let built = self.converted_by(now);
        if let Some(anew) = anew {
            (built.warnings, built.is_patched) = (anew, false);
        }
        &built.warnings
    }

    /// The cluster that decisions are made from, brought up to date by what has changed. Its nodes are in no order.
    pub fn cluster(&mut self, now: Time) -> &Cluster {
        self.converted_by(now).live.cluster()
    }

    /// The cluster as [`State::cluster`] gave it last; `None` where something has changed since that has everything
    /// converted anew.
    pub fn last_cluster(&self) -> Option<&Cluster> {
        self.built.as_ref().map(|built| built.live.tidied())
    }

    /// A copy of the cluster for one decision, in which pods that wait share out the volumes that are there; see
    /// [`berth_convert::Live::with_volumes_shared_out`]. `None` where there are enough for all.
    pub fn with_volumes_shared_out<'e>(
        &mut self,
        expected: impl Iterator<Item = (&'e str, &'e BTreeSet<Box<str>>)>,
        left: &OfferedVolumes,
        now: Time,
    ) -> Option<(Cluster, OfferedVolumes)> {
        let live = &mut self.converted_by(now).live;
        live.cluster();
        live.with_volumes_shared_out(expected, left)
    }

    /// The rows of the cluster with pods that want volumes of which there are too few for all.
    pub fn rows_that_want_scarce_volumes(&mut self, now: Time) -> BTreeSet<RowId> {
        let live = &mut self.converted_by(now).live;
        live.cluster();
        live.rows_that_want_scarce_volumes()
    }

    /// What a claim, by its namespace and name, is to be bound to on a node, the volumes in `taken` aside.
    pub fn volume_on(&mut self, claim: (&str, &str), node: &str, taken: &BTreeSet<String>, now: Time) -> VolumeOn {
        self.converted_by(now).live.volume_on(claim, node, taken)
    }

    /// Whether the volume that a claim is bound to, if it is, can be mounted on a node; `None` where that volume is not known.
    pub fn reaches_volume_of(&mut self, claim: (&str, &str), node: &str, now: Time) -> Option<bool> {
        self.converted_by(now).live.reaches_volume_of(claim, node)
    }

    /// The nodes that were going away when [`State::cluster`] was asked last, by name: the cluster does not have them.
    pub fn leaving_nodes(&self) -> impl Iterator<Item = &str> {
        self.built.iter().flat_map(|built| built.live.leaving_nodes())
    }

    /// Sets what the catalogue is to NodePools of these node classes, in place of what was set before: which reservations
    /// they may use, and what their nodes offer.
    pub fn set_class_catalogues(&mut self, classes: Vec<(berth_api::NodeClassRef, Arc<berth_catalogue::Catalogue>)>) {
        if self.cloud.classes != classes {
            self.cloud.classes = classes;
            self.note_cloud(true);
            self.offers_changed();
        }
    }

    /// How many objects were converted to find out whether they can be used.
    #[cfg(test)]
    pub(crate) fn n_looked_at(&self) -> usize {
        self.check.n_looked_at
    }

    /// How many labels, specs, statuses and texts of pods are kept once, those that no pod has any more among them.
    #[cfg(test)]
    pub(crate) fn n_shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Forgets the converted cluster, so that it is converted anew when it is asked for next: the oracle that changes in
    /// place are held to.
    pub fn forget_cluster(&mut self) {
        self.forget("asked for");
    }

    /// The same, for a reason.
    pub(crate) fn forget(&mut self, why: &'static str) {
        let gone = self.built.take();
        if self.noted.is_some() && gone.is_some() {
            self.gone = gone;
        }
        self.forgotten = why;
    }

    /// Assumes a write that is being made: the object counts as it will be. Report its outcome by
    /// [`Event::Settled`].
    ///
    /// `None`, and nothing is assumed, where there is no such object (to create: where there is one), or the one of that
    /// name has another uid.
    pub fn assume(&mut self, object: &ObjectRef, patch: Patch) -> Option<Write> {
        let assumption = self.push(object, patch.clone(), Progress::InFlight)?;
        Some(Write { assumption, object: object.clone(), patch })
    }

    /// Assumes a change; `None` where there is nothing to change.
    pub(crate) fn push(&mut self, object: &ObjectRef, patch: Patch, progress: Progress) -> Option<AssumptionId> {
        let current = self.entries.get(&object.key).and_then(Entry::current);
        let is_meant = match (current, patch.creates()) {
            (None, creates) => creates,
            (Some(_), true) => false,
            (Some(current), false) => object.uid.as_deref().zip(current.uid()).is_none_or(|(a, b)| *a == *b),
        };
        if !is_meant {
            return None;
        }
        let id = AssumptionId(self.next_assumption);
        self.next_assumption += 1;
        self.assumptions.insert(id, object.key.clone());
        self.change(&object.key, |entry| entry.assume(Assumption::new(id, patch, progress)));
        self.refresh(&object.key);
        Some(id)
    }

    /// What a fork tried is being written.
    pub(crate) fn promote(&mut self, id: AssumptionId) {
        let entry = self.assumptions.get(&id).and_then(|key| self.entries.get_mut(key));
        for known in entry.into_iter().flat_map(Entry::assumed_mut).filter(|known| known.id == id) {
            known.progress = Progress::InFlight;
        }
    }

    /// Takes back what was assumed and never written, latest first. What was assumed of the object before counts again; a
    /// write that failed is told by [`Event::Settled`].
    pub fn withdraw(&mut self, assumption: AssumptionId) {
        self.pop(assumption);
    }

    /// Takes an assumption back.
    pub(crate) fn pop(&mut self, id: AssumptionId) -> Touched {
        let Some(key) = self.assumptions.remove(&id) else { return Touched::default() };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.retain_assumed(|known, _| known.id != id);
        }
        self.note_doubt(&key);
        self.refresh(&key)
    }

    fn upsert(&mut self, mut object: Object, refused: &mut Vec<RefusedObject>) -> Touched {
        let Some(key) = Key::of(&object) else {
            let key = Key::new(object.kind(), object.metadata().namespace.as_deref().unwrap_or_default(), "");
            let message = "expected a name: an object in a cluster has one".to_owned();
            let problems = vec![Problem { path: "metadata.name".to_owned(), message }];
            refused.push(RefusedObject { key, problems, counts_as: CountsAs::Absent });
            return Touched::default();
        };
        let version = object.version();
        let is_older = |known: Option<u64>| known.zip(version).is_some_and(|(known, version)| version < known);
        if is_older(self.graves.get(&key).map(|grave| grave.saturating_add(1))) {
            return Touched::default();
        }
        // Who wrote which field is large, and decides nothing.
        if object.metadata().managed_fields.is_some() {
            object.metadata_mut().managed_fields = None;
        }
        let Some(known) = self.entries.get(&key).and_then(Entry::observed) else {
            if is_older(self.listed_at.get(&key.kind).map(|listed| listed.saturating_add(1))) {
                return Touched::default();
            }
            return self.observe(&key, object, refused);
        };
        if is_older(known.version()) {
            return Touched::default();
        }
        if known.uid().zip(object.uid()).is_some_and(|(known, uid)| *known != *uid) {
            self.keep_assumptions(&key, |known, _| !known.is_about_known());
        }
        self.observe(&key, object, refused)
    }

    fn observe(&mut self, key: &Key, object: Object, refused: &mut Vec<RefusedObject>) -> Touched {
        let version = object.version();
        let known = self.entries.get(key).and_then(Entry::observed);
        let kept = Kept::new(object, known, Some(&key.name), &mut self.shapes);
        self.change(key, |entry| {
            if version.is_none() || entry.observed().and_then(Kept::version) != version {
                entry.told(version);
            }
            entry.observe(Some(kept));
        });
        let touched = self.observed_anew(key);
        let unusable = self.entries.get(key).and_then(Entry::refused).cloned();
        refused.extend(unusable);
        touched
    }

    /// Changes the entry of a key, new or known.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(key) {
            return change(entry);
        }
        let mut entry = Entry::default();
        change(&mut entry);
        let namespace = self.shapes.text(&key.namespace);
        self.entries.insert_new(Key { namespace, ..key.clone() }, entry);
    }

    fn delete(&mut self, object: &ObjectRef, version: Option<u64>) -> Touched {
        if let Some(version) = version {
            self.bury(&object.key, version);
        }
        let Some(entry) = self.entries.get_mut(&object.key) else { return Touched::default() };
        let order = entry.observed().and_then(Kept::version).zip(version).map(|(known, version)| known.cmp(&version));
        let is_meant = entry.observed().is_some_and(|known| match order {
            // Whoever had the name later, this one had gone before.
            Some(Ordering::Less) => true,
            Some(Ordering::Greater) => false,
            Some(Ordering::Equal) | None => {
                known.uid().zip(object.uid.as_deref()).is_none_or(|(known, uid)| *known == *uid)
            }
        });
        // What was created and gone before an event showed it.
        let is_created = |assumption: &Assumption| match &assumption.patch {
            Patch::Create(created) => created.uid().zip(object.uid.as_deref()).is_some_and(|(mine, uid)| mine == uid),
            _ => false,
        };
        if is_meant {
            entry.observe(None);
        }
        // A deletion before the version that is known is no news of it.
        if order != Some(Ordering::Greater) {
            entry.told(version);
        }
        self.keep_assumptions(&object.key, |known, _| !is_created(known));
        self.observed_anew(&object.key)
    }

    fn bury(&mut self, key: &Key, version: u64) {
        let grave = self.graves.entry(key.clone()).or_insert_with(|| {
            self.buried.push_back(key.clone());
            version
        });
        *grave = version.max(*grave);
        while self.buried.len() > MOST_GRAVES {
            if let Some(oldest) = self.buried.pop_front() {
                self.graves.remove(&oldest);
            }
        }
    }

    fn relist(
        &mut self,
        kind: Kind,
        objects: Vec<Object>,
        version: Option<u64>,
        refused: &mut Vec<RefusedObject>,
    ) -> Touched {
        let mut touched = Touched::default();
        let listed: BTreeSet<Key> = objects.iter().filter_map(Key::of).collect();
        // A list says what there is, whatever an earlier one said.
        let before = self.listed_at.remove(&kind);
        for object in objects.into_iter().filter(|object| object.kind() == kind) {
            touched.merge(self.upsert(object, refused));
        }
        self.listed_at.extend(before.map(|version| (kind, version)));
        touched.merge(self.listed(kind, &listed, version));
        touched
    }

    /// All objects of a kind were listed: what is known and was not is gone.
    fn listed(&mut self, kind: Kind, listed: &BTreeSet<Key>, version: Option<u64>) -> Touched {
        let mut touched = Touched::default();
        self.listed.insert(kind);
        self.listed_at.extend(version.map(|version| (kind, version)));
        let of_kind = self.of_kind(kind);
        let is_newer = |known: u64| version.is_some_and(|list| known > list);
        let is_gone = |known: &Kept| !known.version().is_some_and(is_newer);
        let gone: Vec<(Key, bool)> = of_kind
            .filter(|(key, entry)| !listed.contains(*key) && entry.observed().is_none_or(is_gone))
            .map(|(key, entry)| (key.clone(), entry.observed().is_some()))
            .collect();
        for (key, was_observed) in gone {
            if let Some(version) = version.filter(|_| was_observed) {
                self.bury(&key, version);
            }
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.observe(None);
                entry.told(version);
            }
            touched.merge(self.observed_anew(&key));
        }
        touched
    }

    fn read(&mut self, object: &ObjectRef, found: Option<Object>, refused: &mut Vec<RefusedObject>) -> Touched {
        self.keep_assumptions(&object.key, |known, _| known.progress != Progress::Unknown);
        let mut touched = match found {
            Some(found) => self.upsert(found, refused),
            // What was not there to be read and came meanwhile stands: its own events tell what becomes of it.
            None if object.uid.is_none() && self.observed_uid(&object.key).is_some() => Touched::default(),
            None => self.delete(object, None),
        };
        touched.merge(self.observed_anew(&object.key));
        touched
    }

    fn settle(&mut self, id: AssumptionId, outcome: Outcome) -> Touched {
        let Some(key) = self.assumptions.get(&id).cloned() else { return Touched::default() };
        let Some(entry) = self.entries.get_mut(&key) else { return Touched::default() };
        match outcome {
            Outcome::Refused => self.keep_assumptions(&key, |known, _| known.id != id),
            Outcome::Unknown => {
                for known in entry.assumed_mut().filter(|known| known.id == id) {
                    known.progress = Progress::Unknown;
                }
                self.doubt(&key);
            }
            Outcome::Written { resource_version, uid } => {
                for known in entry.assumed_mut().filter(|known| known.id == id) {
                    known.progress = Progress::Written(version(resource_version.as_deref()));
                    if let Patch::Create(created) = &mut known.patch {
                        created.metadata_mut().uid.clone_from(&uid);
                    }
                }
            }
        }
        self.observed_anew(&key)
    }

    /// Settles what the observed version of an object shows, and brings it up to date.
    fn observed_anew(&mut self, key: &Key) -> Touched {
        self.settle_assumptions(key);
        self.refresh(key)
    }

    fn refresh(&mut self, key: &Key) -> Touched {
        let Some(entry) = self.entries.get_mut(key) else { return Touched::default() };
        // Of one that was observed for the first time nothing is known.
        let known = (entry.counted().cloned(), entry.current().cloned());
        let changed = entry.refresh(key, &mut self.check, &mut self.shapes);
        self.note(key, changed);
        self.refreshed(key, known, changed)
    }

    /// An entry is another one now: brings what depends on it up to date. `before` is what counted, and `known` what was current.
    pub(crate) fn refreshed(
        &mut self,
        key: &Key,
        (before, known): (Option<Kept>, Option<Kept>),
        changed: bool,
    ) -> Touched {
        let Some(entry) = self.entries.get(key) else { return Touched::default() };
        let after = entry.counted().cloned();
        let on_slot = if key.kind == Kind::NodeClaim { entry.on_slot().cloned() } else { None };
        self.links.changed(key, known.as_ref(), entry.current());
        if entry.is_empty() {
            self.entries.remove(key);
        }
        let has_moved = key.kind == Kind::NodeClaim
            && self
                .cloud
                .claim_changed(&key.name, on_slot.as_ref().and_then(Kept::whole::<NodeClaim>).map(|claim| &**claim));
        if !changed {
            // One that was to go is gone, and leaves its slot.
            if has_moved {
                self.supplies_changed();
            }
            return Touched::default();
        }
        self.patch(key, before.as_ref(), after.as_ref());
        touched(key, before.as_ref(), after.as_ref())
    }
}

/// What the change of an object means to decisions.
fn touched(key: &Key, before: Option<&Kept>, after: Option<&Kept>) -> Touched {
    let waits = |object: &Kept| match object {
        Kept::Pod(pod) => pod.node().is_none() && !pod.has_ended(),
        Kept::Whole(Object::Reservation(reservation)) => {
            reservation.status.as_ref().is_none_or(|status| status.phase == berth_api::ReservationPhase::Pending)
        }
        Kept::Node(_) | Kept::Whole(_) => false,
    };
    let is_waiting = after.is_some_and(waits);
    let is_pod = key.kind == Kind::Pod;
    // A pod that comes takes room; one that changes or goes may give some.
    let room = if is_pod { before.is_some_and(|before| !waits(before)) } else { true };
    Touched { objects: vec![key.clone()], waiting: is_waiting, room }
}
