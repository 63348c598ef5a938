//! The newest that was told of each object, by resourceVersion: what a state is to know meanwhile, whatever came late.

use std::collections::{BTreeMap, BTreeSet};

use berth_state::{Event, Key, Kind, Object};

/// What was told.
#[derive(Default)]
pub(crate) struct Told {
    /// By object: the newest resourceVersion, and the object then.
    newest: BTreeMap<Key, (u64, Option<Object>)>,
    /// By kind: the newest list.
    lists: BTreeMap<Kind, u64>,
    /// Objects of which nobody can tell any more which of two was later: news came without a resourceVersion.
    unsure: BTreeSet<Key>,
}

impl Told {
    /// Which object an event is about that is older than what was told before.
    pub(crate) fn older(&self, event: &Event) -> Option<Key> {
        let (key, version) = match event {
            Event::Applied(object) => (Key::of(object)?, object.metadata().resource_version.as_deref()),
            Event::Deleted { object, resource_version } => (object.key.clone(), resource_version.as_deref()),
            _ => return None,
        };
        let (newest, _) = self.newest.get(&key)?;
        (number(version)? < *newest && !self.unsure.contains(&key)).then_some(key)
    }

    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::Applied(object) | Event::Read { found: Some(object), .. } => self.applied(object),
            Event::Deleted { object, resource_version } => match number(resource_version.as_deref()) {
                Some(version) => self.gone(&object.key, version),
                None => self.lose(object.key.clone()),
            },
            Event::Relisted { kind, objects, resource_version } => {
                let version = number(resource_version.as_deref());
                for object in objects {
                    self.applied(object);
                }
                let listed: BTreeSet<Key> = objects.iter().filter_map(Key::of).collect();
                let missing = self.newest.keys().filter(|key| key.kind == *kind && !listed.contains(*key));
                for key in missing.cloned().collect::<Vec<_>>() {
                    match version {
                        Some(version) => self.gone(&key, version),
                        None => self.lose(key),
                    }
                }
                let newest = self.lists.entry(*kind).or_default();
                *newest = version.unwrap_or(0).max(*newest);
            }
            Event::Read { object, found: None } => self.lose(object.key.clone()),
            _ => {}
        }
    }

    /// What is known of each object of which that is sure.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (&Key, Option<&Object>)> {
        let all = self.newest.iter().filter(|(key, _)| !self.unsure.contains(*key));
        all.map(|(key, (_, object))| (key, object.as_ref()))
    }

    fn applied(&mut self, object: &Object) {
        let Some(key) = Key::of(object) else { return };
        let version = number(object.metadata().resource_version.as_deref()).unwrap_or(0);
        let Some((newest, known)) = self.newest.get_mut(&key) else {
            // A list that is told later than a newer one may leave it open.
            if self.lists.get(&key.kind).is_some_and(|list| version <= *list) {
                self.unsure.insert(key.clone());
            }
            self.newest.insert(key, (version, Some(object.clone())));
            return;
        };
        if version > *newest {
            (*newest, *known) = (version, Some(object.clone()));
            self.unsure.remove(&key);
        }
    }

    fn gone(&mut self, key: &Key, version: u64) {
        let (newest, known) = self.newest.entry(key.clone()).or_default();
        if version > *newest {
            (*newest, *known) = (version, None);
            self.unsure.remove(key);
        }
    }

    fn lose(&mut self, key: Key) {
        self.newest.entry(key.clone()).or_default();
        self.unsure.insert(key);
    }
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}
