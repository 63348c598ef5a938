//! Groups of the Kubernetes community: their definitions say that they are approved, or that they are not.

use serde_json::{Value, json};

use crate::meta::{self, text_at};
use crate::status::Cause;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What a definition says of its approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Unapproved,
    Approved,
}

// === impl Approval ===

impl Approval {
    /// What a definition says, and how the real server puts it; `None` where nobody asks.
    fn of(crd: &Value) -> Option<(Self, String)> {
        let group = text_at(crd, &["spec", "group"]);
        let is_protected =
            |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
            return None;
        }
        let said = meta::annotation(crd, ANNOTATION).unwrap_or_default();
        let is_url = |said: &str| {
            let rest =
                said.split_once("://").map(|(scheme, rest)| (scheme, rest.split('/').next().unwrap_or_default()));
            rest.is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && !said.contains(' '))
        };
        Some(if said.is_empty() {
            (Self::Missing, format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}"))
        } else if said.starts_with("unapproved") {
            (Self::Unapproved, format!("not approved: {said:?}"))
        } else if is_url(said) {
            (Self::Approved, format!("approved in {said}"))
        } else {
            let why = "with either a URL or a reason starting with \"unapproved\"";
            (Self::Invalid, format!("protected groups must have approval annotation {ANNOTATION:?} {why}, {SEE}"))
        })
    }
}

/// What is wrong with what a definition says; nothing where it said as much before.
pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Option<Cause> {
    let (approval, why) = Approval::of(crd)?;
    let was = old.and_then(Approval::of).map(|(was, _)| was);
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        _ if was == Some(approval) => None,
        Approval::Missing => Some(Cause::required(field, &why)),
        Approval::Invalid => {
            Some(Cause::invalid(field, &meta::annotation(crd, ANNOTATION).unwrap_or_default().into(), &why))
        }
        Approval::Unapproved | Approval::Approved => None,
    }
}

/// The condition that tells of it.
pub(super) fn condition(crd: &Value, now: &str) -> Option<Value> {
    let (approval, message) = Approval::of(crd)?;
    let (status, reason) = match approval {
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Unapproved => ("False", "UnapprovedAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
    };
    Some(json!({"type": "KubernetesAPIApprovalPolicyConformant", "status": status, "reason": reason,
        "message": message, "lastTransitionTime": now}))
}
