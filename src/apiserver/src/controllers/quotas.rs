//! ResourceQuotas: what is used of them, in their status.

use serde_json::{Map, Value};

use super::world::{World, key};
use crate::meta;
use crate::server::ApiServer;

impl ApiServer {
    pub(super) fn count_quotas(&self, _: &World) {
        for quota in self.values("resourcequotas", "") {
            let mut ledger = self.inner.quota.lock();
            let used = ledger.used(self, meta::namespace(&quota), meta::name(&quota));
            drop(ledger);
            let used: Map<String, Value> =
                used.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect();
            let hard = meta::at(&quota, &["spec", "hard"]).cloned().unwrap_or_default();
            self.change_object("resourcequotas", &key(&quota), |quota| {
                if let Some(status) = meta::object_mut(quota, &["status"]) {
                    status.insert("hard".to_owned(), hard);
                    status.insert("used".to_owned(), Value::Object(used));
                }
            });
        }
    }
}
