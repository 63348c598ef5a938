//! The cluster that decisions are made from, converted anew from every object. Slow and simple: what updates it in place
//! is held to this.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_convert::{Builder, Change, ConvertError, Expansion, Live, Objects, Options};
use berth_model::Cluster;

use crate::event::{CountsAs, RefusedObject};
use crate::patched::Counted;
use crate::{Key, Kind, State, Time};

/// Tells one conversion of a cluster from all others. Within one, what has changed is told change by change.
#[derive(Clone, Debug, Default)]
pub struct Conversion(Arc<()>);

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Conversion {}

/// The cluster with what changed in it, for caches that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Tracked<'s> {
    /// The cluster.
    pub cluster: &'s Cluster,
    /// Which conversion it is of: a cache of another one is of no use.
    pub conversion: &'s Conversion,
    live: &'s Live,
}

impl<'s> Tracked<'s> {
    /// How many changes there were since the conversion.
    pub fn n_changes(&self) -> usize {
        self.live.n_changes()
    }

    /// The index of the node, or the NodeClaim in flight, of a name.
    pub fn position_of(&self, node: &str) -> Option<usize> {
        self.live.position_of(node)
    }

    /// Those after the first `n`, in order; `None` where they are not remembered any more.
    pub fn changes_after(&self, n: usize) -> Option<&'s [Change]> {
        self.live.changes_after(n)
    }
}

/// What was converted.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// Another one for each conversion.
    pub(crate) conversion: Conversion,
    pub(crate) live: Live,
    /// Whether objects came or went since the warnings were told.
    pub(crate) is_patched: bool,
    /// What people should know, a line each.
    pub(crate) warnings: Vec<String>,
    /// Objects that can be used alone, but not beside the others.
    pub(crate) refused: Vec<RefusedObject>,
}

impl State {
    /// The cluster as [`State::cluster`] has it, to be followed; `None` where nothing could be converted.
    pub fn tracked(&mut self, now: Time) -> Option<Tracked<'_>> {
        self.cluster(now);
        let Built { conversion, live, .. } = self.built.as_ref()?;
        Some(Tracked { cluster: live.tidied(), conversion, live })
    }

    /// How often everything was converted anew: at first, and where a change could not be taken in where it is.
    pub fn n_conversions(&self) -> u64 {
        self.conversions.values().sum()
    }

    /// The same by what had it done: the kind of the object that changed, `supplies`, `offers` or `time`.
    pub fn conversions(&self) -> &BTreeMap<&'static str, u64> {
        &self.conversions
    }

    /// Converts everything anew.
    pub(crate) fn convert_anew(&mut self, now: Time) {
        *self.conversions.entry(self.forgotten).or_default() += 1;
        self.gone = None;
        self.built = self.build(now).ok();
    }

    pub(crate) fn build(&self, now: Time) -> Result<Built, ConvertError> {
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
        for (key, entry) in self.entries.iter() {
            let Some(object) = entry.counted() else { continue };
            if let Err(error) = object.add_to(&mut builder) {
                refused.push(RefusedObject::new(key.clone(), &error, CountsAs::Absent));
            }
        }
        builder.leave_out_counted(|id, claim| self.cloud.counts_launch(id, claim));
        let live = builder.finish_live()?;
        let warnings = live.warnings().map(str::to_owned).collect();
        Ok(Built { conversion: Conversion::default(), live, is_patched: false, warnings, refused })
    }
}
