//! PriorityClasses and StorageClasses that come, change and go: who refers to them looks again.

use berth_model::Sym;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;

use super::{Live, Objects, Patched};
use crate::builder::Builder;
use crate::draft::Priority;

impl Live {
    /// A PriorityClass was created, changed or deleted. In a cluster pods have their priority from the API server, whatever
    /// becomes of their class: only where some leave it to the class, or to the default, everything is converted anew.
    pub fn priority_class_changed(&mut self, before: Option<&PriorityClass>, after: Option<&PriorityClass>) -> Patched {
        let read = |reader: &mut Builder, object: Option<&PriorityClass>| {
            object.map_or(Ok(()), |object| reader.add_priority_class(object))?;
            Ok((reader.priorities.drain().next(), reader.default_priority.take()))
        };
        let Some((before, after)) = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?))) else {
            return Patched::NeedsRebuild;
        };
        if before == after {
            return Patched::Done;
        }
        let names: [Option<Sym>; 2] = [&before, &after].map(|(class, _)| class.map(|(name, _)| name));
        let asks = |priority: Priority| match priority {
            Priority::Class(class) => names.contains(&Some(class)),
            Priority::Default | Priority::Set(_) => false,
        };
        let resolver = &mut self.rooms.resolver;
        // Which of several is the default is decided over all of them.
        if before.1 != after.1 || resolver.drafts.iter().any(|draft| asks(draft.priority)) {
            return Patched::NeedsRebuild;
        }
        before.0.map(|(name, _)| resolver.priorities.remove(&name));
        resolver.priorities.extend(after.0);
        Patched::Done
    }

    /// A StorageClass was created, changed or deleted.
    pub fn storage_class_changed(
        &mut self,
        name: &str,
        before: Option<&StorageClass>,
        after: Option<&StorageClass>,
        objects: &impl Objects,
    ) -> Patched {
        let name = self.cluster.symbols.intern(name);
        let read = |reader: &mut Builder, object: Option<&StorageClass>| {
            object.map_or(Ok(()), |object| reader.add_storage_class(object))?;
            Ok(reader.storage.take_class(name))
        };
        let Some((before, after)) = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?))) else {
            return Patched::NeedsRebuild;
        };
        if before == after {
            return Patched::Done;
        }
        let storage = &mut self.rooms.resolver.storage;
        storage.set_class(name, after);
        storage.settle_default(&self.cluster.symbols);
        self.cluster.storage_topologies = storage.topologies(&self.cluster.symbols);
        // Those whose pods may have something to do with it; what a volume was made of stays as it is.
        let claims = self.by_claim.keys().filter(|id| storage.may_be_of(**id, name));
        let claims: Vec<(Sym, Sym)> = claims.copied().collect();
        self.look_again(&claims, objects)
    }
}
