//! LimitRanges, ResourceQuotas and RuntimeClasses that are folded in.

use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use k8s_openapi::api::node::v1::RuntimeClass;

use crate::admission::{AdmissionSpec, Class, Quota, limit_range};
use crate::maps::index;
use crate::metadata::{name_of, namespace_of};
use crate::{Builder, ConvertError};

impl Builder {
    /// A LimitRange: defaults and bounds of the pods of its namespace that are to be created.
    pub fn add_limit_range(&mut self, object: &LimitRange) -> Result<(), ConvertError> {
        let name = name_of("LimitRange", &object.metadata)?;
        let full = format!("{}/{name}", namespace_of(&object.metadata));
        let items = limit_range::read(object)
            .map_err(|problem| ConvertError::new("LimitRange", full.as_str(), vec![problem]))?;
        let symbols = &mut self.cluster.symbols;
        let id = (symbols.intern(namespace_of(&object.metadata)), symbols.intern(name));
        if self.admission.limit_ranges.insert(id, items).is_some() {
            self.warn_of_repeat("LimitRange", &full);
        }
        Ok(())
    }

    /// A ResourceQuota: how much the pods of its namespace may have in all. Of what its status does not say the pods of
    /// the input that exist are counted, by their requests.
    pub fn add_resource_quota(&mut self, object: &ResourceQuota) -> Result<(), ConvertError> {
        let name = name_of("ResourceQuota", &object.metadata)?;
        let full = format!("{}/{name}", namespace_of(&object.metadata));
        let quota =
            Quota::read(object).map_err(|problem| ConvertError::new("ResourceQuota", full.as_str(), vec![problem]))?;
        let symbols = &mut self.cluster.symbols;
        let id = (symbols.intern(namespace_of(&object.metadata)), symbols.intern(name));
        if self.admission.quotas.insert(id, quota).is_some() {
            self.warn_of_repeat("ResourceQuota", &full);
        }
        Ok(())
    }

    /// A RuntimeClass: what the pods of it that are to be created need beside their containers, and where they may run.
    pub fn add_runtime_class(&mut self, object: &RuntimeClass) -> Result<(), ConvertError> {
        let name = name_of("RuntimeClass", &object.metadata)?;
        let class = Class::read(object, &mut self.cluster)
            .map_err(|problem| ConvertError::new("RuntimeClass", name, vec![problem]))?;
        let id = self.cluster.symbols.intern(name);
        if self.admission.runtime_classes.insert(id, class).is_some() {
            self.warn_of_repeat("RuntimeClass", name);
        }
        Ok(())
    }

    /// The shape of pods of a spec, for their draft.
    pub(crate) fn shape_of(&mut self, spec: &k8s_openapi::api::core::v1::PodSpec) -> u32 {
        let shape = index(self.admission.shapes.insert_full(AdmissionSpec::text_of(spec)).0).saturating_add(1);
        if spec.runtime_class_name.as_ref().is_some_and(|name| !name.is_empty()) {
            self.admission.of_runtime_classes.insert(shape);
        }
        shape
    }
}
