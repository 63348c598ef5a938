//! The cluster that decisions are made from, converted anew from every object. Slow and simple: what updates it in place
//! is held to this.

use berth_convert::{Builder, ConvertError, Expansion, Live, Options, Patched};
use k8s_openapi::api::core::v1::Pod;

use crate::event::{CountsAs, RefusedObject};
use crate::{Key, Kind, Object, State, Time};

/// What was converted.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) live: Live,
    /// Whether pods came or went since.
    pub(crate) is_patched: bool,
    /// What people should know, a line each.
    pub(crate) warnings: Vec<String>,
    /// Objects that can be used alone, but not beside the others.
    pub(crate) refused: Vec<RefusedObject>,
}

impl State {
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
            builder
                .adjust_slots(|id, free| self.cloud.free(id, free, self.all::<berth_api::NodeClaim>().map(|c| &**c)));
        }
        for (key, entry) in &self.entries {
            let Some(object) = &entry.counted else { continue };
            if let Err(error) = object.add_to(&mut builder) {
                refused.push(RefusedObject::new(key.clone(), &error, CountsAs::Absent));
            }
        }
        builder.leave_out_counted(|id, claim| self.cloud.counts_launch(id, claim));
        let live = builder.finish_live()?;
        let warnings = live.warnings().map(str::to_owned).collect();
        Ok(Built { live, is_patched: false, warnings, refused })
    }

    /// Brings the converted cluster up to date with the change of one object, or forgets it.
    pub(crate) fn patch(&mut self, key: &Key, before: Option<&Object>, after: Option<&Object>) {
        let is_patched = self.built.as_mut().is_some_and(|built| built.patch(key, before, after));
        if !is_patched {
            self.built = None;
        }
    }
}

impl Built {
    /// Takes in the change of one object; whether it could.
    fn patch(&mut self, key: &Key, before: Option<&Object>, after: Option<&Object>) -> bool {
        if key.kind != Kind::Pod {
            return false;
        }
        self.is_patched = true;
        if before.is_some() && self.live.remove_pod(&key.namespace, &key.name) == Patched::NeedsRebuild {
            return false;
        }
        match after {
            Some(Object::Pod(pod)) => self.live.add_pod(pod) == Ok(Patched::Done),
            _ => true,
        }
    }
}

/// The name of the scheduler that a pod asks for.
pub(crate) fn scheduler_of(pod: &Pod) -> &str {
    let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    name.filter(|name| !name.is_empty()).unwrap_or("default-scheduler")
}
