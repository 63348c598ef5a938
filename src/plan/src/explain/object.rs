//! How an object is named: `pod/web-0`, `pod/team-a/web-0`, `deployment/web`, `reservation/room`, `node/n1`.

use std::str::FromStr;

/// What can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pod, pending or running.
    Pod,
    /// A workload, which stands for one of its pods: the first without a place, or the first.
    Workload,
    /// A Reservation of room.
    Reservation,
    /// A node that exists, or one that the plan launches, by the name of its claim in the plan.
    Node,
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The kind.
    pub kind: Kind,
    /// The namespace of a pod or workload, `default` where none is given.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The text names no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no object: expected pod/NAME, pod/NAMESPACE/NAME, the same of deployment, statefulset, \
     replicaset, job or cronjob, reservation/NAME or node/NAME"
)]
pub struct ParseObjectError(String);

impl FromStr for ObjectRef {
    type Err = ParseObjectError;

    fn from_str(text: &str) -> Result<Self, ParseObjectError> {
        Self::parse_in(text, "default")
    }
}

impl ObjectRef {
    /// Reads a name; a pod or workload that names no namespace is in this one.
    ///
    /// # Errors
    /// [`ParseObjectError`] where the text names no object.
    pub fn parse_in(text: &str, namespace: &str) -> Result<Self, ParseObjectError> {
        let wrong = || ParseObjectError(text.to_owned());
        let (kind, rest) = text.split_once('/').ok_or_else(wrong)?;
        let kind = match kind.to_ascii_lowercase().as_str() {
            "pod" | "pods" | "po" => Kind::Pod,
            "deployment" | "deployments" | "deploy" | "statefulset" | "statefulsets" | "sts" | "replicaset"
            | "replicasets" | "rs" | "job" | "jobs" | "cronjob" | "cronjobs" | "cj" => Kind::Workload,
            "reservation" | "reservations" => Kind::Reservation,
            "node" | "nodes" | "no" | "nodeclaim" | "nodeclaims" => Kind::Node,
            _ => return Err(wrong()),
        };
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) if matches!(kind, Kind::Pod | Kind::Workload) => (namespace, name),
            Some(_) => return Err(wrong()),
            None => (namespace, rest),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, ObjectRef};

    #[test]
    fn a_pod_without_a_namespace_is_in_default_and_nothing_else_has_one() {
        let read = |text: &str| text.parse::<ObjectRef>().ok().map(|o| (o.kind, o.namespace, o.name));
        let found = |kind, namespace: &str, name: &str| Some((kind, namespace.to_owned(), name.to_owned()));
        assert_eq!(read("pod/web-0"), found(Kind::Pod, "default", "web-0"));
        assert_eq!(read("Pods/team/web-0"), found(Kind::Pod, "team", "web-0"));
        assert_eq!(read("deploy/team/web"), found(Kind::Workload, "team", "web"));
        assert_eq!(read("reservation/room"), found(Kind::Reservation, "default", "room"));
        for wrong in ["web-0", "pod/", "pod//web", "node/a/b", "daemonset/web", "pod/a/b/c"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
