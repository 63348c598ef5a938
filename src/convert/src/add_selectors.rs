//! Selectors that are folded in.

use k8s_openapi::api::{apps, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::metadata::{name_of, namespace_of};
use crate::options::Expansion;
use crate::selecting::Selected;
use crate::workloads::WorkloadKind;
use crate::{Builder, ConvertError, terms};

impl Builder {
    /// A Service, for default spreading.
    pub fn add_service(&mut self, object: &core::v1::Service) -> Result<(), ConvertError> {
        let name = name_of("Service", &object.metadata)?;
        let symbols = &mut self.cluster.symbols;
        let id = (symbols.intern(namespace_of(&object.metadata)), symbols.intern(name));
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        self.selecting.services.shift_remove(&id);
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            let labels = terms::labels_of(Some(selector), symbols);
            self.selecting.services.insert(id, labels);
        }
        Ok(())
    }

    /// What a ReplicaSet selects.
    pub(crate) fn select_replica_set(&mut self, object: &apps::v1::ReplicaSet) {
        let selector = object.spec.as_ref().map(|spec| &spec.selector);
        self.select(WorkloadKind::ReplicaSet, &object.metadata, selector);
    }

    /// What a StatefulSet selects.
    pub(crate) fn select_stateful_set(&mut self, object: &apps::v1::StatefulSet) {
        let selector = object.spec.as_ref().map(|spec| &spec.selector);
        self.select(WorkloadKind::StatefulSet, &object.metadata, selector);
    }

    /// What a Deployment's ReplicaSets select, but for the hash of the template, where its pods are planned as its own.
    pub(crate) fn select_deployment(&mut self, object: &apps::v1::Deployment) {
        if self.expansion == Expansion::Workloads {
            let selector = object.spec.as_ref().map(|spec| &spec.selector);
            self.select(WorkloadKind::Deployment, &object.metadata, selector);
        }
    }

    /// What a ReplicationController selects: the labels of its template where it does not say.
    pub(crate) fn select_replication_controller(&mut self, object: &core::v1::ReplicationController) {
        let spec = object.spec.as_ref();
        let of_template = || spec?.template.as_ref()?.metadata.as_ref()?.labels.as_ref();
        let selector = spec.and_then(|spec| spec.selector.as_ref()).filter(|selector| !selector.is_empty());
        let labels = terms::labels_of(selector.or_else(of_template), &mut self.cluster.symbols);
        self.keep(WorkloadKind::ReplicationController, &object.metadata, Some(Selected::Labels(labels)));
    }

    // One that cannot be read selects nothing, as kube-scheduler has it.
    fn select(&mut self, kind: WorkloadKind, metadata: &ObjectMeta, selector: Option<&LabelSelector>) {
        let selector = terms::selector(selector, &mut self.cluster.symbols).ok();
        let requirements = selector.and_then(|selector| selector.requirements);
        self.keep(kind, metadata, requirements.map(Selected::Requirements));
    }

    fn keep(&mut self, kind: WorkloadKind, metadata: &ObjectMeta, selected: Option<Selected>) {
        let Some(name) = metadata.name.as_deref() else { return };
        let symbols = &mut self.cluster.symbols;
        let id = (kind, symbols.intern(namespace_of(metadata)), symbols.intern(name));
        self.selecting.controllers.shift_remove(&id);
        if let Some(selected) = selected {
            self.selecting.controllers.insert(id, selected);
        }
    }
}
