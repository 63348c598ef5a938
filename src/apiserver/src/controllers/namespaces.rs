//! The end of namespaces: their contents are deleted, then they are.

use serde_json::Value;

use crate::meta;
use crate::request::Options;
use crate::server::ApiServer;
use crate::store::Range;

impl ApiServer {
    pub(super) fn empty_namespaces(&self) {
        let Some(namespaces) = self.resource_of("namespaces") else { return };
        for namespace in
            self.values_with("namespaces", "\"deletionTimestamp\"").iter().filter(|n| meta::has(n, "deletionTimestamp"))
        {
            let name = meta::name(namespace);
            if self.delete_contents(name) == 0 {
                self.amend(&namespaces, name, |namespace| {
                    if let Some(Value::Array(finalizers)) = namespace.pointer_mut("/spec/finalizers") {
                        finalizers.retain(|finalizer| finalizer != "kubernetes");
                    }
                });
            }
        }
    }

    /// Deletes everything in a namespace; gives how much is left.
    fn delete_contents(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        let mut left = 0;
        for storage in self.inner.store.resources() {
            let Some(resource) = self.resource_of(&storage).filter(|resource| resource.namespaced) else { continue };
            let range = Range { prefix: &prefix, ..Range::default() };
            let page = self.inner.store.list(&storage, &range).unwrap_or_default();
            for object in page.items {
                // A pod's own grace is nobody's concern any more once there is no kubelet to end it.
                let options = Options { grace_period: Some(0), ..Options::default() };
                self.delete_quietly(&resource, &object.key, &options);
                left += usize::from(self.inner.store.get(&storage, &object.key).is_some());
            }
        }
        left
    }
}
