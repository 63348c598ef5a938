//! Claims of classes that nobody makes volumes for: each is bound to one that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{Requirements, Sym, Symbols, Volumes};
use rustc_hash::FxHashMap;

use super::records::{ClaimTemplate, ClassRecord, VolumeRecord};
use super::{Asking, Storage};

pub(crate) const NO_VOLUME_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
/// Claims of a pod above which it is not asked whether one place has volumes for all.
const MOST_TOGETHER: usize = 100;
/// Different questions whose answers are kept.
const MOST_ANSWERS: usize = 256;

/// What a claim is to be bound to on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeOn {
    /// Nothing that is known: it has a volume, or whoever provisions its class makes one.
    Made,
    /// One of the volumes that there are, of which none is left there.
    Nothing,
    /// The volume that names the claim: it is being bound.
    Kept(String),
    /// A volume that is free.
    Free(String),
}

/// A claim that is to be bound to a volume that is there.
#[derive(Clone, Copy)]
pub(super) struct Wanting<'a> {
    pub(super) id: (Sym, Sym),
    pub(super) class: Sym,
    pub(super) asks: &'a ClaimTemplate,
}

/// What claims of a class ask for who are alike.
pub(crate) type Question = (Sym, ClaimTemplate);

/// A claim that wants a volume that is there, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) claim: (Sym, Sym),
    pub(crate) question: Question,
}

/// The volumes that are free for claims who are alike.
#[derive(Debug, PartialEq)]
pub(crate) struct Free {
    /// By place, the smallest first.
    pub(crate) by_place: BTreeMap<Vec<Requirements>, Vec<Sym>>,
    /// What is nowhere in particular, likewise.
    pub(crate) anywhere: Vec<Sym>,
}

/// The places of which one will do for all claims of a pod together; `None`: any.
type Places = Result<Option<Vec<Requirements>>, String>;

/// What was asked of the volumes that are there, so that pods who ask for the same are answered once.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    free: FxHashMap<Question, Arc<Free>>,
    /// Of pods with several claims, by what these ask for.
    together: FxHashMap<Vec<Question>, Arc<Places>>,
    /// Whether more was asked than is kept.
    are_some_lost: bool,
}

// === impl Free ===

impl Free {
    fn is_empty(&self) -> bool {
        self.by_place.is_empty() && self.anywhere.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_place.values().map(Vec::len).sum::<usize>() + self.anywhere.len()
    }

    /// The same but for these.
    pub(crate) fn without(&self, taken: &BTreeSet<Sym>) -> Self {
        let left = |names: &Vec<Sym>| names.iter().copied().filter(|name| !taken.contains(name)).collect::<Vec<_>>();
        let by_place = self.by_place.iter().map(|(place, names)| (place.clone(), left(names)));
        let by_place = by_place.filter(|(_, names)| !names.is_empty()).collect();
        Free { by_place, anywhere: left(&self.anywhere) }
    }

    /// Where the volumes are, each term once; `None` where one of them is anywhere.
    fn places(&self) -> Option<Vec<Requirements>> {
        if !self.anywhere.is_empty() {
            return None;
        }
        let mut terms: Vec<Requirements> = self.by_place.keys().flatten().cloned().collect();
        terms.sort_unstable();
        terms.dedup();
        Some(terms)
    }
}

// === impl Answers ===

impl Answers {
    /// Forgets what was asked of a class.
    pub(super) fn forget(&mut self, class: Sym) {
        self.free.retain(|(of, _), _| *of != class);
        self.together.retain(|questions, _| questions.iter().all(|(of, _)| *of != class));
    }

    fn is_full(&mut self) -> bool {
        let is_full = self.free.len() + self.together.len() >= MOST_ANSWERS;
        self.are_some_lost |= is_full;
        is_full
    }
}

impl Storage {
    /// Puts a volume among those of its class, and of the claim that it names.
    pub(super) fn index_volume(&mut self, name: Sym, volume: &VolumeRecord) {
        self.by_class.entry(volume.storage_class).or_default().insert(name);
        if let Some(claim) = volume.claim {
            self.naming.entry(claim).or_default().insert(name);
        }
        self.answers.forget(volume.storage_class);
    }

    /// Takes it out again.
    pub(super) fn forget_volume(&mut self, name: Sym, volume: &VolumeRecord) {
        fn leave<K: Ord>(all: &mut BTreeMap<K, BTreeSet<Sym>>, key: &K, name: Sym) {
            if let Some(names) = all.get_mut(key) {
                names.remove(&name);
                if names.is_empty() {
                    all.remove(key);
                }
            }
        }
        leave(&mut self.by_class, &volume.storage_class, name);
        if let Some(claim) = volume.claim {
            leave(&mut self.naming, &claim, name);
        }
        self.answers.forget(volume.storage_class);
    }

    /// A volume is this from now on, or gone. Says whether those who ask for volumes of these classes may get another answer than
    /// before, whoever a volume names aside.
    pub(crate) fn change_volume(
        &mut self,
        name: Sym,
        volume: Option<VolumeRecord>,
        classes: &[Sym],
        symbols: &Symbols,
    ) -> bool {
        let before = std::mem::take(&mut self.answers);
        self.set_volume(name, volume);
        let is_about = |(class, _): &Question| classes.contains(class);
        let mut now = Answers { are_some_lost: before.are_some_lost, ..Answers::default() };
        let mut is_same = !before.are_some_lost;
        for (question, known) in before.free {
            if is_about(&question) {
                let free = self.free(&mut now, &question, symbols);
                is_same &= free.is_empty() == known.is_empty() && free.places() == known.places();
            } else {
                now.free.insert(question, known);
            }
        }
        for (questions, known) in before.together {
            if questions.iter().any(is_about) {
                let places = Arc::new(self.places_for_all(&mut now, &questions, &[], symbols));
                is_same &= places == known;
                now.together.insert(questions, places);
            } else {
                now.together.insert(questions, known);
            }
        }
        self.answers = now;
        !is_same && !classes.is_empty()
    }

    /// One of the volumes that are there and large enough must be near.
    pub(super) fn bind_existing<'a>(
        &self,
        wants: Wanting<'a>,
        to: &mut Asking<'a, '_>,
        symbols: &Symbols,
    ) -> Result<(), String> {
        let free = self.free(&mut to.answers, &(wants.class, wants.asks.clone()), symbols);
        let own: Vec<&VolumeRecord> = self.named_by(wants, symbols).map(|(_, volume)| volume).collect();
        if free.is_empty() && own.is_empty() {
            return Err(NO_VOLUME_TO_BIND.to_owned());
        }
        to.wanting.push(wants);
        let Some(mut places) = free.places() else { return Ok(()) };
        for volume in own {
            let Some(terms) = &volume.topology else { return Ok(()) };
            places.extend(terms.iter().cloned());
        }
        places.sort_unstable();
        places.dedup();
        to.volumes.unbound.push(places);
        Ok(())
    }

    /// Of several claims of a pod each needs a volume of its own in the same place. Places that overlap are not told apart:
    /// there it is enough that each claim has some volume.
    ///
    /// # Errors
    /// No place has enough of them.
    pub(super) fn bind_each_its_own(
        &self,
        wanting: &[Wanting<'_>],
        (volumes, answers): (&mut Volumes, &mut Answers),
        symbols: &Symbols,
    ) -> Result<(), String> {
        let mut by_class: BTreeMap<Sym, Vec<Wanting<'_>>> = BTreeMap::new();
        for wants in wanting {
            by_class.entry(wants.class).or_default().push(*wants);
        }
        for wanting in by_class.into_values().filter(|wanting| (2..=MOST_TOGETHER).contains(&wanting.len())) {
            let questions: Vec<Question> = wanting.iter().map(|wants| (wants.class, wants.asks.clone())).collect();
            let own: Vec<Vec<(Sym, &VolumeRecord)>> =
                wanting.iter().map(|wants| self.named_by(*wants, symbols).collect()).collect();
            let is_common = own.iter().all(Vec::is_empty);
            let known = answers.together.get(&questions).filter(|_| is_common).map(Arc::clone);
            let places = known.unwrap_or_else(|| {
                let places = Arc::new(self.places_for_all(answers, &questions, &own, symbols));
                if is_common && !answers.is_full() {
                    answers.together.insert(questions, Arc::clone(&places));
                }
                places
            });
            match &*places {
                Ok(Some(places)) => volumes.unbound.push(places.clone()),
                Ok(None) => {}
                Err(why) => return Err(why.clone()),
            }
        }
        Ok(())
    }

    /// Where each of several claims of a class finds a volume of its own; `own` are those that name them.
    fn places_for_all(
        &self,
        answers: &mut Answers,
        questions: &[Question],
        own: &[Vec<(Sym, &VolumeRecord)>],
        symbols: &Symbols,
    ) -> Places {
        // More are of no use to anybody: whoever has as many to choose from as there are claims finds one.
        let most = questions.len();
        let mut places: BTreeMap<&[Requirements], Vec<Vec<Sym>>> = BTreeMap::new();
        let mut anywhere: Vec<Vec<Sym>> = vec![Vec::new(); most];
        let free: Vec<Arc<Free>> = questions.iter().map(|question| self.free(answers, question, symbols)).collect();
        for (at, free) in free.iter().enumerate() {
            let of_place = |place| (place, free.by_place.get(place).into_iter().flatten().take(most).copied());
            for (place, names) in free.by_place.keys().map(of_place) {
                let lists = places.entry(place).or_insert_with(|| vec![Vec::new(); most]);
                lists.get_mut(at).into_iter().for_each(|list| list.extend(names.clone()));
            }
            anywhere.get_mut(at).into_iter().for_each(|list| list.extend(free.anywhere.iter().take(most)));
        }
        for (at, own) in own.iter().enumerate() {
            for (name, volume) in own {
                let lists = match volume.topology.as_deref() {
                    None => &mut anywhere,
                    Some(place) => places.entry(place).or_insert_with(|| vec![Vec::new(); most]),
                };
                lists.get_mut(at).into_iter().for_each(|list| list.push(*name));
            }
        }
        if !are_apart(&places) || each_has_one(&anywhere) {
            return Ok(None);
        }
        let has_enough = |there: &Vec<Vec<Sym>>| {
            let both = there.iter().zip(&anywhere).map(|(there, anywhere)| [&there[..], anywhere].concat());
            each_has_one(&both.collect::<Vec<_>>())
        };
        let enough = places.iter().filter(|(_, there)| has_enough(there)).flat_map(|(place, _)| place.iter());
        let places: Vec<Requirements> = enough.cloned().collect();
        if places.is_empty() { Err(NO_VOLUME_TO_BIND.to_owned()) } else { Ok(Some(places)) }
    }

    /// Of these claims those that no volume names yet.
    pub(super) fn wants_of(&self, wanting: &[Wanting<'_>], symbols: &Symbols) -> Vec<Want> {
        let wanting = wanting.iter().filter(|wants| self.named_by(**wants, symbols).next().is_none());
        wanting.map(|wants| Want { claim: wants.id, question: (wants.class, wants.asks.clone()) }).collect()
    }

    /// What the pod that was resolved last wants of volumes that are there.
    pub(crate) fn take_wants(&mut self) -> Vec<Want> {
        std::mem::take(&mut self.wants)
    }

    /// What a claim that is there wants of volumes that are there, if it is to be bound to one that names no claim yet.
    pub(crate) fn want_of(&self, id: (Sym, Sym), symbols: &Symbols) -> Option<Want> {
        let wants = self.wanting(id, symbols)?;
        self.wants_of(&[wants], symbols).pop()
    }

    /// Claims that have no volume as far as they are known, by namespace and name; none where no class is for volumes that are there.
    pub(crate) fn unbound(&self) -> impl Iterator<Item = (Sym, Sym)> {
        let is_of_use = self.classes.values().any(ClassRecord::binds_what_is_there);
        is_of_use.then(|| self.unbound.iter().copied()).into_iter().flatten()
    }

    // A claim that has no volume, and that nobody makes one for.
    fn wanting(&self, id: (Sym, Sym), symbols: &Symbols) -> Option<Wanting<'_>> {
        let asks = &self.claims.get(&id).filter(|claim| claim.asks.volume.is_none())?.asks;
        let class = self.class_of(asks, symbols)?;
        self.classes.get(&class).filter(|class| class.binds_what_is_there())?;
        Some(Wanting { id, class, asks })
    }

    /// The volumes that are free for claims who ask for this.
    pub(crate) fn free_for(&mut self, question: &Question, symbols: &Symbols) -> Arc<Free> {
        let mut answers = std::mem::take(&mut self.answers);
        let free = self.free(&mut answers, question, symbols);
        self.answers = answers;
        free
    }

    /// The volumes that are free for claims who ask for this.
    fn free(&self, answers: &mut Answers, question: &Question, symbols: &Symbols) -> Arc<Free> {
        if let Some(known) = answers.free.get(question) {
            return Arc::clone(known);
        }
        let (class, asks) = question;
        let all = self.by_class.get(class).into_iter().flatten();
        let all = all.filter_map(|name| Some((*name, self.volumes.get(name)?)));
        let mut free: Vec<(Sym, &VolumeRecord)> = all
            .filter(|(_, volume)| volume.is_available && volume.claim.is_none() && suits(volume, asks, symbols))
            .collect();
        free.sort_by(|(name, volume), (other_name, other)| {
            volume.nanos.cmp(&other.nanos).then_with(|| symbols.text(*name).cmp(symbols.text(*other_name)))
        });
        let mut found = Free { by_place: BTreeMap::new(), anywhere: Vec::new() };
        for (name, volume) in free {
            match &volume.topology {
                None => found.anywhere.push(name),
                Some(place) => match found.by_place.get_mut(place) {
                    Some(names) => names.push(name),
                    None => drop(found.by_place.insert(place.clone(), vec![name])),
                },
            }
        }
        let found = Arc::new(found);
        if !answers.is_full() {
            answers.free.insert(question.clone(), Arc::clone(&found));
        }
        found
    }

    /// The volumes that name a claim and that it may be bound to.
    fn named_by<'a>(
        &'a self,
        wants: Wanting<'a>,
        symbols: &'a Symbols,
    ) -> impl Iterator<Item = (Sym, &'a VolumeRecord)> {
        let named = self.naming.get(&wants.id).into_iter().flatten();
        let named = named.filter_map(|name| Some((*name, self.volumes.get(name)?)));
        named.filter(move |(_, volume)| {
            (volume.is_available || volume.is_bound)
                && volume.storage_class == wants.class
                && suits(volume, wants.asks, symbols)
        })
    }

    /// What a claim is to be bound to on a node; of several volumes the one that names it, else the smallest.
    pub(crate) fn volume_on(
        &mut self,
        id: (Sym, Sym),
        reaches: impl Fn(&[Requirements]) -> bool,
        is_taken: impl Fn(Sym) -> bool,
        symbols: &Symbols,
    ) -> VolumeOn {
        let mut answers = std::mem::take(&mut self.answers);
        let found = self.find_on(&mut answers, id, reaches, is_taken, symbols);
        self.answers = answers;
        found
    }

    /// Whether the volume that a claim is bound to, if it is, is where these hold; `None` where it is not known.
    pub(crate) fn reaches_volume_of(&self, claim: (Sym, Sym), holds: impl Fn(&Requirements) -> bool) -> Option<bool> {
        let Some(name) = self.claims.get(&claim)?.asks.volume else { return Some(true) };
        let volume = self.volumes.get(&name)?;
        let is_near = volume.topology.as_ref().is_none_or(|terms| terms.iter().any(&holds));
        Some(is_near && volume.zones.as_ref().is_none_or(&holds))
    }

    fn find_on(
        &self,
        answers: &mut Answers,
        id: (Sym, Sym),
        reaches: impl Fn(&[Requirements]) -> bool,
        is_taken: impl Fn(Sym) -> bool,
        symbols: &Symbols,
    ) -> VolumeOn {
        let Some(wants) = self.wanting(id, symbols) else { return VolumeOn::Made };
        let mut own = self.named_by(wants, symbols);
        if let Some((name, _)) = own.find(|(_, volume)| volume.topology.as_ref().is_none_or(|terms| reaches(terms))) {
            return VolumeOn::Kept(symbols.text(name).to_owned());
        }
        let free = self.free(answers, &(wants.class, wants.asks.clone()), symbols);
        let near = free.by_place.iter().filter(|(place, _)| reaches(place)).map(|(_, names)| names);
        let smallest = near.chain([&free.anywhere]).filter_map(|names| names.iter().find(|name| !is_taken(**name)));
        let order = |name: &Sym| (self.volumes.get(name).map(|volume| volume.nanos), symbols.text(*name));
        match smallest.min_by(|a, b| order(a).cmp(&order(b))) {
            None => VolumeOn::Nothing,
            Some(name) => VolumeOn::Free(symbols.text(*name).to_owned()),
        }
    }
}

/// Whether a volume, of the right class and free, is what a claim asks for.
fn suits(volume: &VolumeRecord, asks: &ClaimTemplate, symbols: &Symbols) -> bool {
    volume.nanos >= asks.nanos
        && volume.is_block == asks.is_block
        && asks.access_modes.are_within(volume.access_modes)
        && asks.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels, symbols))
}

/// The domain of a key that a place is in, if it is in one alone.
pub(crate) fn value_of(place: &[Requirements], key: Sym) -> Option<Sym> {
    let [only] = place else { return None };
    only.get(key)?.single()
}

/// Whether these places are seen to be apart: each names one value of the same label, and another than the others do, as with
/// local volumes.
fn are_apart<T>(places: &BTreeMap<&[Requirements], T>) -> bool {
    let tells_apart = |key: Sym| {
        let mut values: Vec<Sym> = places.keys().map_while(|place| value_of(place, key)).collect();
        values.sort_unstable();
        values.dedup();
        values.len() == places.len()
    };
    let Some((first, _)) = places.first_key_value() else { return true };
    first.iter().flat_map(Requirements::iter).any(|(key, _)| tells_apart(key))
}

/// Whether each of these can have one of its own of those that it lists.
fn each_has_one(lists: &[Vec<Sym>]) -> bool {
    let mut taken: BTreeMap<Sym, usize> = BTreeMap::new();
    (0..lists.len()).all(|at| finds(lists, at, &mut Vec::new(), &mut taken))
}

// Whether one finds its own, others giving way to it where they find another.
fn finds(lists: &[Vec<Sym>], at: usize, asked: &mut Vec<Sym>, taken: &mut BTreeMap<Sym, usize>) -> bool {
    for name in lists.get(at).into_iter().flatten() {
        if asked.contains(name) {
            continue;
        }
        asked.push(*name);
        let has_room = match taken.get(name).copied() {
            None => true,
            Some(other) => finds(lists, other, asked, taken),
        };
        if has_room {
            taken.insert(*name, at);
            return true;
        }
    }
    false
}
