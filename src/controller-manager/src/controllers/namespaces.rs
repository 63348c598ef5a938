//! What every namespace has.

use std::sync::Arc;

use serde_json::json;

use crate::core::Core;
use crate::key::NamespacedName;
use crate::resource::SERVICE_ACCOUNTS;
use crate::write::{Effect, Write};

/// An active namespace has a ServiceAccount `default`.
pub(crate) fn sync_service_account(core: &mut Core, name: &Arc<str>) -> Effect {
    let namespace = core.caches.namespaces.get(&NamespacedName::new("", name));
    let is_active = namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none());
    let key = NamespacedName::new(name, "default");
    if !is_active || core.caches.service_accounts.get(&key).is_some() {
        return Effect::Done;
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    Effect::InOrder(vec![Write::ensure(&SERVICE_ACCOUNTS, &key, &account)])
}
