//! A second state that follows a first one: long questions are asked of it in another thread, while the first goes on. It
//! shares the objects, and converts the cluster by itself.

use crate::built::Conversion;
use crate::kept::Kept;
use crate::relevant::counts_alike;
use crate::told::{Noted, Told, Update};
use crate::{Key, State, Time};

impl State {
    /// A replica, which shares all that is kept. From now on this state notes what changes, for [`State::take_update`].
    #[must_use]
    pub fn replica(&mut self) -> State {
        self.n_replicas += 1;
        let told = Told { replica: self.n_replicas, n_updates: 0 };
        self.noted = Some(Noted { told, ..Noted::default() });
        let mut replica = self.snapshot();
        replica.follows = Some(told);
        replica
    }

    /// Whether so many objects at most are to be told to the replica.
    pub fn is_almost_told(&self, most: usize) -> bool {
        self.noted.as_ref().is_some_and(|noted| noted.keys.len() <= most)
    }

    /// What the replica does not know yet, so many objects at most: it costs as many steps. With the last of them the replica
    /// knows all.
    pub fn take_update(&mut self, most: usize) -> Update {
        let mut entries = Vec::new();
        let mut cloud = None;
        let mut told = Told::default();
        if let Some(noted) = &mut self.noted {
            while entries.len() < most {
                let Some((key, _)) = noted.keys.pop_first() else { break };
                let entry = self.entries.get(&key).cloned();
                entries.push((key, entry));
            }
            if std::mem::take(&mut noted.cloud) {
                cloud = Some(self.cloud.said());
            }
            noted.offers = false;
            noted.told.n_updates += 1;
            told = noted.told;
        }
        Update { entries, cloud, listed: self.listed.clone(), next_assumption: self.next_assumption, told }
    }

    /// Whether the cluster of that time needs no conversion of everything.
    pub fn is_converted(&self, now: Time) -> bool {
        self.built.as_ref().is_some_and(|built| built.is_current(now))
    }

    /// A copy with the converted cluster, for [`State::adopt`]. It takes as long as the cluster is large.
    #[must_use]
    pub fn converted(&self) -> State {
        let mut copy = self.snapshot();
        copy.built.clone_from(&self.built);
        // From here on each has changes of its own.
        if let Some(built) = &mut copy.built {
            built.conversion = Conversion::default();
        }
        copy.follows = self.follows;
        copy.forgotten = self.forgotten;
        copy
    }

    /// Takes the converted cluster of a copy of the replica ([`State::converted`]), brought up to date by what has changed since
    /// the replica was told last: everything was converted in another thread. What was converted before is left in the copy,
    /// as letting it go takes long, too.
    ///
    /// False, and this state stays as it is, where the copy is of another replica or the replica was told more since: then
    /// nobody knows what has changed.
    pub fn adopt(&mut self, copy: &mut State) -> bool {
        let Some(noted) = self.noted.as_ref().filter(|noted| copy.follows == Some(noted.told)) else { return false };
        let entries = noted.keys.keys().map(|key| (key.clone(), self.entries.get(key).cloned())).collect();
        let cloud = noted.cloud.then(|| self.cloud.said());
        let (listed, next_assumption) = (self.listed.clone(), self.next_assumption);
        copy.follow(Update { entries, cloud, listed, next_assumption, told: noted.told });
        std::mem::swap(&mut self.built, &mut copy.built);
        copy.gone = self.gone.take();
        self.forgotten = copy.forgotten;
        true
    }

    /// The objects of which something changed that decisions depend on, since the replica was told all.
    pub fn noted(&self) -> impl Iterator<Item = &Key> {
        let keys = self.noted.iter().flat_map(|noted| &noted.keys);
        keys.filter(|(_, counts)| **counts).map(|(key, _)| key)
    }

    /// Whether the cloud offers something else since the replica was told all, counts of slots aside.
    pub fn has_other_offers(&self) -> bool {
        self.noted.as_ref().is_some_and(|noted| noted.offers)
    }

    /// What a replica is told by the state that it follows.
    pub fn follow(&mut self, update: Update) {
        let Update { entries, cloud, listed, next_assumption, told } = update;
        (self.listed, self.next_assumption, self.follows) = (listed, next_assumption, Some(told));
        for (key, entry) in entries {
            let before = self.entries.get(&key).cloned().unwrap_or_default();
            for known in before.assumed() {
                self.assumptions.remove(&known.id);
            }
            let entry = entry.unwrap_or_default();
            self.assumptions.extend(entry.assumed().iter().map(|known| (known.id, key.clone())));
            let counts = changes(before.counted(), entry.counted()) || before.refused() != entry.refused();
            match self.entries.get_mut(&key) {
                Some(known) => *known = entry,
                None => self.entries.insert_new(key.clone(), entry),
            }
            self.note_doubt(&key);
            self.refreshed(&key, (before.counted().cloned(), before.current().cloned()), counts);
        }
        let Some(told) = cloud else { return };
        let known = &mut self.cloud;
        let stays = Some(told.staying).filter(|staying| *staying != known.staying);
        let is_same = known.catalogue == told.catalogue && known.classes == told.classes;
        (known.catalogue, known.classes) = (told.catalogue, told.classes);
        (known.seen, known.counts) = (told.seen, told.counts);
        if is_same {
            self.supplies_changed();
        } else {
            self.offers_changed();
        }
        if let Some(staying) = stays {
            self.cloud.staying = staying;
            self.staying_changed();
        }
    }

    /// Notes that an object is another one now.
    pub(crate) fn note(&mut self, key: &Key, counts: bool) {
        if let Some(noted) = &mut self.noted {
            *noted.keys.entry(key.clone()).or_default() |= counts;
        }
    }

    /// Notes that the cloud said something else: another count, or other offers.
    pub(crate) fn note_cloud(&mut self, offers: bool) {
        if let Some(noted) = &mut self.noted {
            noted.cloud = true;
            noted.offers |= offers;
        }
    }
}

fn changes(before: Option<&Kept>, after: Option<&Kept>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => !counts_alike(before, after),
        (before, after) => before.is_some() || after.is_some(),
    }
}
