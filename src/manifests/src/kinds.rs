//! Which kinds are read, which are passed over, and which are mistakes.

use crate::error::Problem;
use crate::nearest::distance;
use crate::object::{KNOWN_KINDS, KnownKind, OLDER};
use crate::path::shorten;

/// Kinds of Kubernetes 1.35 and of its removed APIs that planning does not read, by group.
const PASSED_OVER: &[(&str, &[&str])] = &[
    ("", &["Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "PodTemplate", "Secret", "ServiceAccount"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("apps", &["ControllerRevision"]),
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenRequest", "TokenReview"]),
    (
        "authorization.k8s.io",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"],
    ),
    ("autoscaling", &["HorizontalPodAutoscaler", "Scale"]),
    ("batch", &[]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"]),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    ("extensions", &["Ingress", "NetworkPolicy"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["Ingress", "IngressClass", "IPAddress", "NetworkPolicy", "ServiceCIDR"]),
    ("node.k8s.io", &[]),
    ("policy", &["Eviction", "PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"]),
    ("scheduling.k8s.io", &["Workload"]),
    ("storage.k8s.io", &["CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"]),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
    ("karpenter.sh", &[]),
    ("scheduling.koordinator.sh", &["Device", "ClusterNetworkTopology", "PodMigrationJob", "ScheduleExplanation"]),
    ("berth.sh", &[]),
];

/// Groups whose kinds a misspelt group is compared with.
const OUR_GROUPS: [&str; 3] = ["karpenter.sh", "scheduling.koordinator.sh", "berth.sh"];

/// What to do with an object.
pub(crate) enum Disposition {
    Read(&'static KnownKind),
    PassOver {
        group: String,
    },
    /// Of no kind of Kubernetes, and like none.
    Foreign(Problem),
}

/// Decides by `apiVersion` and `kind`.
pub(crate) fn dispose(api_version: &str, kind: &str) -> Result<Disposition, Problem> {
    let known = KNOWN_KINDS.iter().find(|known| known.kind == kind);
    if let Some(known) = known.filter(|known| known.api_version == api_version) {
        return Ok(Disposition::Read(known));
    }
    if (OLDER.api_version, OLDER.kind) == (api_version, kind) {
        return Ok(Disposition::Read(&OLDER));
    }
    let group = group_of(api_version);
    let passed_over = PASSED_OVER.iter().find(|(of, _)| *of == group);
    if let Some((_, kinds)) = passed_over {
        if kinds.contains(&kind) {
            return Ok(Disposition::PassOver { group: group.to_owned() });
        }
        return Err(
            known.map_or_else(|| unknown_kind(api_version, group, kind), |known| wrong_version(api_version, known))
        );
    }
    if let Some(known) = known {
        let is_misspelt = OUR_GROUPS.iter().any(|of| distance(of, group) <= 2);
        // Resource definitions of others have a dot in their group.
        if is_misspelt || !group.contains('.') {
            return Err(wrong_version(api_version, known));
        }
    } else if !group.contains('.') {
        let problem = Problem::new(
            "apiVersion",
            format!("found {:?}, expected a group and version such as \"v1\" or \"apps/v1\"", shorten(api_version)),
        );
        return if near(kind, group).is_empty() { Ok(Disposition::Foreign(problem)) } else { Err(problem) };
    }
    Ok(Disposition::PassOver { group: group.to_owned() })
}

/// `apps` of `apps/v1`; the core group is the empty string.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn wrong_version(api_version: &str, known: &KnownKind) -> Problem {
    Problem::new(
        "apiVersion",
        format!(
            "found {:?}, expected {:?}, the version in which {} is read",
            shorten(api_version),
            known.api_version,
            known.kind
        ),
    )
}

fn unknown_kind(api_version: &str, group: &str, kind: &str) -> Problem {
    let near = near(kind, group);
    let hint = if near.is_empty() {
        let in_group: Vec<_> =
            KNOWN_KINDS.iter().filter(|known| group_of(known.api_version) == group).map(|known| known.kind).collect();
        if in_group.is_empty() {
            format!("expected a kind of the group {group:?}")
        } else {
            format!("expected a kind of this group, such as {}", in_group.join(", "))
        }
    } else {
        let nearest = near.first().map_or(0, |(distance, _, _)| *distance);
        let near = near.into_iter().take_while(|(distance, _, _)| *distance == nearest);
        let near: Vec<_> = near.take(3).map(|(_, _, of)| of).collect();
        format!("did you mean {}?", near.join(" or "))
    };
    let message = format!("found {:?}, unknown in {:?}; {hint}", shorten(kind), shorten(api_version));
    Problem::new("kind", message)
}

/// Kinds whose names differ little, by how much, those of the group first.
fn near(kind: &str, group: &str) -> Vec<(usize, bool, &'static str)> {
    let known = KNOWN_KINDS.iter().map(|known| (known.kind, group_of(known.api_version) == group));
    let passed_over = PASSED_OVER.iter().flat_map(|(of, kinds)| kinds.iter().map(move |kind| (*kind, *of == group)));
    let mut near: Vec<_> = known
        .chain(passed_over)
        .map(|(of, is_in_group)| (distance(of, kind), !is_in_group, of))
        .filter(|(distance, _, of)| *distance <= 1.max(of.len() / 4))
        .collect();
    near.sort_unstable();
    near.dedup_by_key(|(_, _, of)| *of);
    near
}
