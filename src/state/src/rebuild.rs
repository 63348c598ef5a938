//! The cluster that decisions are made from, converted anew from every object. Slow and simple: what updates it in place
//! is held to this.

use std::collections::BTreeMap;

use berth_convert::{Builder, Expansion, Objects, Options};

use crate::built::{Built, Conversion, Tracked};
use crate::counted::Counted;
use crate::entry::Entry;
use crate::event::{CountsAs, RefusedObject};
use crate::kept::Kept;
use crate::{Key, Kind, State, Time};

impl State {
    /// The cluster as [`State::cluster`] has it, to be followed.
    pub fn tracked(&mut self, now: Time) -> Tracked<'_> {
        let Built { conversion, live, .. } = self.converted_by(now);
        live.cluster();
        let live = &*live;
        Tracked { cluster: live.tidied(), conversion, live }
    }

    /// How often everything was converted anew: at first, and where a change could not be taken in where it is.
    pub fn n_conversions(&self) -> u64 {
        self.conversions.values().sum()
    }

    /// The same by what had it done: the kind of the object that changed, `supplies`, `offers`, `resources` or `time`.
    pub fn conversions(&self) -> &BTreeMap<&'static str, u64> {
        &self.conversions
    }

    /// What is converted, brought up to date: there is no cluster but what all objects make.
    pub(crate) fn converted_by(&mut self, now: Time) -> &mut Built {
        let built = match self.built.take() {
            Some(built) if built.is_current(now) => built,
            gone => {
                // Time alone changes it, too.
                if let Some(gone) = gone {
                    self.forgotten = if gone.live.is_valid_at(now) { "resources" } else { "time" };
                }
                *self.conversions.entry(self.forgotten).or_default() += 1;
                self.gone = None;
                Box::new(self.build(now))
            }
        };
        self.built.insert(built)
    }

    /// Converts everything. Where there are more resources than are told apart, those count that were asked for first.
    pub(crate) fn build(&self, now: Time) -> Built {
        let built = self.build_in_order(now, self.entries.iter());
        if !built.live.has_refused_resources() {
            return built;
        }
        drop(built);
        let mut entries: Vec<(&Key, &Entry)> = self.entries.iter().collect();
        entries.sort_by_key(|(key, entry)| turn(key, entry));
        self.build_in_order(now, entries.into_iter())
    }

    fn build_in_order<'s>(&'s self, now: Time, entries: impl Iterator<Item = (&'s Key, &'s Entry)>) -> Built {
        let mut builder = Builder::new(Options { now: Some(now), ..self.options.clone() });
        builder.set_expansion(Expansion::PodsThatExist);
        let mut refused = Vec::new();
        if let Some(catalogue) = &self.cloud.catalogue {
            // Fails with what the catalogue crate checks already: without it nothing is launched.
            if let Err(error) = builder.set_catalogue(catalogue) {
                let key = Key::new(Kind::NodePool, "", "the catalogue");
                refused.push(RefusedObject::new(key, &error, CountsAs::Absent));
            }
            for (class, catalogue) in &self.cloud.classes {
                if let Err(error) = builder.add_class_catalogue(class, catalogue) {
                    let key = Key::new(Kind::NodePool, "", &format!("the catalogue of {} {}", class.kind, class.name));
                    refused.push(RefusedObject::new(key, &error, CountsAs::Absent));
                }
            }
            builder
                .adjust_slots(|id, free| Counted { entries: &self.entries, cloud: &self.cloud }.free_slots(id, free));
        }
        let mut n_objects = 0;
        for (key, entry) in entries {
            let Some(object) = entry.counted() else { continue };
            n_objects += 1;
            if let Err(error) = object.add_to(&mut builder) {
                refused.push(RefusedObject::new(key.clone(), &error, CountsAs::Absent));
            }
        }
        builder.keep_staying(&self.cloud.staying);
        builder.leave_out_counted(|id, claim| self.cloud.counts_launch(id, claim));
        let live = builder.finish_live();
        let warnings = live.warnings().map(str::to_owned).collect();
        Built {
            conversion: Conversion::default(),
            live,
            at: now,
            n_objects,
            n_changes: 0,
            knows_too_few: false,
            is_patched: false,
            warnings,
            refused,
        }
    }
}

/// When an object is read where not all resources can be told apart: first what has resources, then pods by age, then what
/// makes pods, which asks for nothing itself.
fn turn(key: &Key, entry: &Entry) -> (u8, Option<Time>) {
    match key.kind {
        Kind::Pod => {
            let created = entry.counted().and_then(Kept::pod).and_then(|pod| pod.created());
            (1, Some(created.unwrap_or(Time::MAX)))
        }
        Kind::CronJob
        | Kind::Deployment
        | Kind::Job
        | Kind::ReplicaSet
        | Kind::ReplicationController
        | Kind::StatefulSet => (2, None),
        _ => (0, None),
    }
}
