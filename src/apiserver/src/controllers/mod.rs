//! Stand-ins for the controllers of a cluster, each behind a switch.

mod garbage;
mod namespaces;

use std::time::Duration;

use crate::meta;
use crate::request::Options;
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::store::{Draft, Refused};

/// Which stand-ins run. All do by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Controllers {
    /// Deletes what has no owner left, and frees owners that wait for their dependents.
    pub garbage_collector: bool,
    /// Empties namespaces that are being deleted, and lets them go.
    pub namespaces: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        Self { garbage_collector: true, namespaces: true }
    }
}

/// Changes come in bursts: they are looked at together.
const SETTLE: Duration = Duration::from_millis(10);

impl ApiServer {
    /// Runs the stand-ins until the future is dropped. They act a few milliseconds of tokio's time after a change.
    pub async fn run_controllers(&self, switches: Controllers) {
        let mut seen = 0;
        loop {
            let present = self.inner.store.revision();
            if present == seen {
                self.inner.store.changed(seen).await;
                tokio::time::sleep(SETTLE).await;
                continue;
            }
            seen = present;
            self.reconcile(switches);
        }
    }

    /// Lets the stand-ins act once on the present state. Gives whether they changed anything.
    pub fn reconcile(&self, switches: Controllers) -> bool {
        let before = self.inner.store.revision();
        if switches.garbage_collector {
            self.collect_garbage();
        }
        if switches.namespaces {
            self.empty_namespaces();
        }
        self.inner.store.revision() != before
    }

    /// Changes an object as a controller; gone or changed meanwhile is no error, the next round sees it.
    fn amend(&self, resource: &Resource, key: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let Some(stored) = self.inner.store.get(&resource.storage, key) else { return };
        let old = stored.value();
        let mut new = old.clone();
        change(&mut new);
        if new == old {
            return;
        }
        let is_over = meta::has(&new, "deletionTimestamp")
            && meta::finalizers(&new).next().is_none()
            && meta::number(&new, "deletionGracePeriodSeconds").unwrap_or(0) == 0
            && meta::list_at(&new, &["spec", "finalizers"]).is_empty();
        meta::set(&mut new, "resourceVersion", "");
        let fields = crate::verbs::selectable_fields(resource, &new);
        let draft = Draft::new(&new, fields);
        let store = &self.inner.store;
        let written: Result<_, Refused> = if is_over {
            store.delete(&resource.storage, key, stored.revision, draft)
        } else {
            store.update(&resource.storage, key, stored.revision, draft)
        };
        if written.is_ok() && is_over {
            self.after_deletion(resource, &old);
        }
    }

    fn delete_quietly(&self, resource: &std::sync::Arc<Resource>, key: &str, options: &Options) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        // Gone already is what is wanted.
        let _ = self.delete_object(resource, namespace, name, options);
    }
}
