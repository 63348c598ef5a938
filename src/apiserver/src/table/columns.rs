//! The printed columns of built-in kinds.

use super::Column;
use crate::resource::Resource;

const NAME: Column = ("Name", "string", "name", 0);

const AGE: Column = ("Age", "string", "", 0);

const fn text(name: &'static str) -> Column {
    (name, "string", "", 0)
}

const fn wide(name: &'static str) -> Column {
    (name, "string", "", 1)
}

const fn number(name: &'static str) -> Column {
    (name, "integer", "", 0)
}

/// The columns of a Scale.
pub(super) const SCALE: &[Column] = &[text("Name"), number("Desired"), number("Available"), AGE];

/// The columns of a kind.
#[allow(clippy::too_many_lines)] // A list of lists.
pub(super) fn columns(resource: &Resource) -> &'static [Column] {
    match resource.storage.as_str() {
        "pods" => {
            const {
                &[
                    NAME,
                    text("Ready"),
                    text("Status"),
                    text("Restarts"),
                    AGE,
                    wide("IP"),
                    wide("Node"),
                    wide("Nominated Node"),
                    wide("Readiness Gates"),
                ]
            }
        }
        "nodes" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Roles"),
                    AGE,
                    text("Version"),
                    wide("Internal-IP"),
                    wide("External-IP"),
                    wide("OS-Image"),
                    wide("Kernel-Version"),
                    wide("Container-Runtime"),
                ]
            }
        }
        "namespaces" => const { &[NAME, text("Status"), AGE] },
        "deployments.apps" => {
            const {
                &[
                    NAME,
                    text("Ready"),
                    text("Up-to-date"),
                    text("Available"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "replicasets.apps" | "replicationcontrollers" => {
            const {
                &[
                    NAME,
                    number("Desired"),
                    number("Current"),
                    number("Ready"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "statefulsets.apps" => const { &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")] },
        "daemonsets.apps" => {
            const {
                &[
                    NAME,
                    number("Desired"),
                    number("Current"),
                    number("Ready"),
                    number("Up-to-date"),
                    number("Available"),
                    text("Node Selector"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "jobs.batch" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Completions"),
                    text("Duration"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "cronjobs.batch" => {
            const {
                &[
                    NAME,
                    text("Schedule"),
                    text("Timezone"),
                    ("Suspend", "boolean", "", 0),
                    number("Active"),
                    text("Last Schedule"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "services" => {
            const { &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")] }
        }
        "configmaps" => const { &[NAME, text("Data"), AGE] },
        "secrets" => const { &[NAME, text("Type"), text("Data"), AGE] },
        "runtimeclasses.node.k8s.io" => const { &[NAME, text("Handler"), AGE] },
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => const { &[NAME, number("Webhooks"), AGE] },
        "validatingadmissionpolicies.admissionregistration.k8s.io" => {
            const { &[NAME, number("Validations"), text("ParamKind"), AGE] }
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            const { &[NAME, text("PolicyName"), text("ParamRef"), AGE] }
        }
        "events" => {
            const {
                &[
                    text("Last Seen"),
                    text("Type"),
                    text("Reason"),
                    text("Object"),
                    wide("Subobject"),
                    wide("Source"),
                    text("Message"),
                    wide("First Seen"),
                    wide("Count"),
                    ("Name", "string", "name", 1),
                ]
            }
        }
        "persistentvolumes" => {
            const {
                &[
                    NAME,
                    text("Capacity"),
                    text("Access Modes"),
                    text("Reclaim Policy"),
                    text("Status"),
                    text("Claim"),
                    text("StorageClass"),
                    text("VolumeAttributesClass"),
                    text("Reason"),
                    AGE,
                    wide("VolumeMode"),
                ]
            }
        }
        "persistentvolumeclaims" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Volume"),
                    text("Capacity"),
                    text("Access Modes"),
                    text("StorageClass"),
                    text("VolumeAttributesClass"),
                    AGE,
                    wide("VolumeMode"),
                ]
            }
        }
        "storageclasses.storage.k8s.io" => {
            const {
                &[
                    NAME,
                    text("Provisioner"),
                    text("ReclaimPolicy"),
                    text("VolumeBindingMode"),
                    text("AllowVolumeExpansion"),
                    AGE,
                ]
            }
        }
        "poddisruptionbudgets.policy" => {
            const { &[NAME, text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), AGE] }
        }
        "priorityclasses.scheduling.k8s.io" => {
            const { &[NAME, number("Value"), ("Global-Default", "boolean", "", 0), AGE, text("PreemptionPolicy")] }
        }
        "leases.coordination.k8s.io" => const { &[NAME, text("Holder"), AGE] },
        "resourcequotas" => const { &[NAME, text("Request"), text("Limit"), AGE] },
        "customresourcedefinitions.apiextensions.k8s.io"
        | "roles.rbac.authorization.k8s.io"
        | "limitranges"
        | "clusterroles.rbac.authorization.k8s.io" => const { &[NAME, ("Created At", "date", "", 0)] },
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            const { &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")] }
        }
        "csinodes.storage.k8s.io" => const { &[NAME, number("Drivers"), AGE] },
        "endpoints" => const { &[NAME, text("Endpoints"), AGE] },
        "endpointslices.discovery.k8s.io" => {
            const { &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE] }
        }
        "horizontalpodautoscalers.autoscaling" => {
            const { &[NAME, text("Reference"), text("Targets"), text("MinPods"), text("MaxPods"), number("Replicas"), AGE] }
        }
        "ingresses.networking.k8s.io" => {
            const { &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE] }
        }
        "networkpolicies.networking.k8s.io" => const { &[NAME, text("Pod-Selector"), AGE] },
        "controllerrevisions.apps" => const { &[NAME, text("Controller"), text("Revision"), AGE] },
        _ => const { &[NAME, AGE] },
    }
}
