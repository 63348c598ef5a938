//! Fields that belong elsewhere in the object, and where.

/// Fields of `spec.template.spec` of a NodePool.
const TEMPLATE_SPEC: [&str; 6] =
    ["taints", "startupTaints", "requirements", "nodeClassRef", "terminationGracePeriod", "expireAfter"];
/// Fields of `spec.template.metadata` of a NodePool.
const TEMPLATE_METADATA: [&str; 2] = ["labels", "annotations"];
/// Fields of `spec.disruption` of a NodePool.
const DISRUPTION: [&str; 3] = ["consolidateAfter", "consolidationPolicy", "budgets"];
/// Fields of `spec` of a NodePool, which get nested too deep.
const SPEC: [&str; 4] = ["disruption", "limits", "weight", "replicas"];

/// Where a field that the kind does not have at `path` belongs, as a hint such as
/// `expected at spec.template.spec.requirements`; `None` where there is nothing to suggest.
///
/// `path` is dotted, without indices. The proposals write a NodePool's `requirements` directly under `spec`, and
/// older Karpenter versions had other fields elsewhere.
///
/// ```
/// let hint = berth_api::misplaced_field("NodePool", "spec.requirements");
/// assert_eq!(hint.as_deref(), Some("expected at spec.template.spec.requirements"));
/// ```
pub fn misplaced_field(kind: &str, path: &str) -> Option<String> {
    if kind != "NodePool" {
        return None;
    }
    let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
    if let Some(renamed) = renamed(field) {
        return Some(format!("expected {renamed}"));
    }
    let place = if TEMPLATE_SPEC.contains(&field) {
        "spec.template.spec"
    } else if TEMPLATE_METADATA.contains(&field) {
        "spec.template.metadata"
    } else if DISRUPTION.contains(&field) {
        "spec.disruption"
    } else if SPEC.contains(&field) {
        "spec"
    } else {
        return None;
    };
    (parent != place).then(|| format!("expected at {place}.{field}"))
}

/// Whether the API server keeps fields that the kind does not have at `path`, which may have indices: below what the
/// CustomResourceDefinition marks with `x-kubernetes-preserve-unknown-fields`.
///
/// ```
/// assert!(berth_api::keeps_unknown_fields("Reservation", "spec.template.namespace"));
/// assert!(!berth_api::keeps_unknown_fields("Reservation", "spec.templates"));
/// ```
pub fn keeps_unknown_fields(kind: &str, path: &str) -> bool {
    kind == "Reservation" && path.starts_with("spec.template.")
}

/// What became of fields of Karpenter's v1alpha5 and v1beta1.
fn renamed(field: &str) -> Option<&'static str> {
    match field {
        "ttlSecondsAfterEmpty" => Some("spec.disruption.consolidateAfter with consolidationPolicy WhenEmpty"),
        "ttlSecondsUntilExpired" => Some("spec.template.spec.expireAfter"),
        "consolidation" => Some("spec.disruption.consolidationPolicy"),
        "provider" | "providerRef" => Some("spec.template.spec.nodeClassRef"),
        _ => None,
    }
}
