//! Objects as manifests have them: defaults, unknown fields, misplaced fields, durations, and back to text.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use berth_api::{
    AllocatePolicy, ConsolidationPolicy, GoDuration, NillableDuration, NodeClaim, NodePool, PreAllocationMode,
    Reservation, ReservationPhase, labels, misplaced_field,
};
use proptest::prelude::*;
use rstest::rstest;

/// The object, and the paths of the fields that it does not have.
fn read<T: serde::de::DeserializeOwned>(yaml: &str) -> (T, Vec<String>) {
    let value: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
    let mut unknown = Vec::new();
    let object = serde_ignored::deserialize(value, |path| unknown.push(path.to_string())).unwrap();
    (object, unknown)
}

const PROPOSED: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: prefer-reserved
spec:
  requirements:
  - key: karpenter.sh/capacity-type
    operator: In
    values: [on-demand, reserved]
";

#[test]
fn the_proposals_short_place_for_requirements_is_pointed_out() {
    let (pool, unknown) = read::<NodePool>(PROPOSED);
    assert_eq!(unknown, ["spec.requirements"]);
    let hint = misplaced_field("NodePool", &unknown[0]);
    assert_eq!(hint.as_deref(), Some("expected at spec.template.spec.requirements"));
    assert_eq!(pool.validate(), []);
}

#[test]
fn the_proposals_pools_work_at_their_place_in_v1() {
    for values in ["[reserved]", "[on-demand, reserved]"] {
        let yaml = format!(
            "{{metadata: {{name: a}}, spec: {{template: {{spec: {{requirements: [{{key: karpenter.sh/capacity-type, \
             operator: In, values: {values}}}]}}}}}}}}"
        );
        let (pool, unknown) = read::<NodePool>(&yaml);
        assert_eq!((pool.validate(), unknown), (vec![], vec![]));
    }
}

#[rstest]
#[case("spec.taints", Some("spec.template.spec.taints"))]
#[case("spec.nodeClassRef", Some("spec.template.spec.nodeClassRef"))]
#[case("spec.labels", Some("spec.template.metadata.labels"))]
#[case("spec.template.requirements", Some("spec.template.spec.requirements"))]
#[case("spec.template.spec.labels", Some("spec.template.metadata.labels"))]
#[case("spec.disruption.expireAfter", Some("spec.template.spec.expireAfter"))]
#[case("spec.consolidateAfter", Some("spec.disruption.consolidateAfter"))]
#[case("spec.template.spec.limits", Some("spec.limits"))]
#[case("spec.providerRef", Some("spec.template.spec.nodeClassRef"))]
#[case("spec.requirement", None)]
fn fields_of_a_pool_in_the_wrong_place_are_told_where_they_belong(#[case] path: &str, #[case] place: Option<&str>) {
    let hint = misplaced_field("NodePool", path);
    assert_eq!(hint.is_some(), place.is_some());
    assert!(hint.unwrap_or_default().ends_with(place.unwrap_or_default()));
    assert_eq!(misplaced_field("NodeClaim", path), None);
}

#[test]
fn a_pools_defaults_are_karpenters() {
    let (pool, _) = read::<NodePool>("{metadata: {name: a}, spec: {template: {spec: {requirements: []}}}}");
    let disruption = &pool.spec.disruption;
    assert_eq!(pool.spec.template.spec.expire_after.to_string(), "720h");
    assert_eq!(disruption.consolidate_after.to_string(), "0s");
    assert_eq!(disruption.consolidation_policy, ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(disruption.budgets.iter().map(|budget| budget.nodes.as_str()).collect::<Vec<_>>(), ["10%"]);
    assert_eq!((pool.spec.weight(), pool.spec.is_static()), (0, false));
    assert_eq!(pool.spec, berth_api::NodePoolSpec::default());
}

#[test]
fn a_reservations_defaults_are_koordinators() {
    let (reservation, unknown) = read::<Reservation>(
        "{metadata: {name: a}, spec: {template: {spec: {containers: []}}, owners: [], preAllocationPolicy: {}},
          status: {phase: ''}}",
    );
    let spec = &reservation.spec;
    assert_eq!(unknown, [""; 0]);
    assert_eq!((spec.ttl.to_string().as_str(), spec.allocate_once, spec.expires.is_none()), ("24h", true, true));
    assert_eq!((spec.pre_allocation, spec.unschedulable, spec.allocate_policy), (false, false, None));
    let policy = spec.pre_allocation_policy.as_ref().unwrap();
    assert_eq!((policy.mode, policy.enable_multiple), (PreAllocationMode::Default, false));
    assert_eq!(reservation.status.unwrap().phase, ReservationPhase::Pending);
}

/// The regression: one Reservation that never ends made a whole cluster unreadable.
#[test]
fn the_end_of_the_last_year_is_a_time_and_what_is_none_is_refused() {
    let read = |expires: &str| {
        let text = format!(r#"{{"metadata": {{}}, "spec": {{"template": {{}}, "owners": [], "expires": {expires}}}}}"#);
        serde_json::from_str::<Reservation>(&text).map(|known| known.spec.expires.map(|time| time.0.to_string()))
    };
    for never in ["9999-12-31T23:59:59Z", "9999-12-31T00:00:00+14:00"] {
        let read = read(&format!("\"{never}\"")).unwrap().unwrap();
        assert!(read.starts_with("9999-12-30"), "{never}: {read}");
    }
    assert_eq!(read("\"2026-01-31T12:00:00Z\"").unwrap().unwrap(), "2026-01-31T12:00:00Z");
    assert_eq!(read("null").unwrap(), None);
    for bad in ["\"9999-12-31\"", "\"9999-12-31T23:59:59\"", "\"10000-01-01T00:00:00Z\"", "\"soon\"", "7"] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn unknown_fields_are_seen_at_every_depth_and_the_objects_frame_is_not_one() {
    let (_, unknown) = read::<Reservation>(
        "
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: a, color: red}
spec:
  allocatePolicy: Restricted
  template: {spec: {containers: [{name: c, imagee: x}]}}
  owners: [{labelSelectors: {}}]
  owner: []
",
    );
    let mut unknown = unknown;
    unknown.sort();
    let owner = "spec.owners.0.labelSelectors";
    assert_eq!(unknown.iter().filter(|path| path.ends_with("imagee") || path.ends_with("color")).count(), 2);
    assert!(unknown.contains(&owner.to_owned()) && unknown.contains(&"spec.owner".to_owned()), "{unknown:?}");
    assert_eq!(unknown.len(), 4, "{unknown:?}");
}

#[rstest]
#[case("{kind: NodeClaim, spec: {}}", "kind is \"NodeClaim\", expected \"NodePool\"")]
#[case(
    "{apiVersion: karpenter.sh/v1beta1, spec: {}}",
    "apiVersion is \"karpenter.sh/v1beta1\", expected \"karpenter.sh/v1\""
)]
#[case("{metadata: {name: a}}", "missing field `spec`")]
#[case("{spec: {limits: {cpu: 2Gb}}}", "unknown suffix \"Gb\"")]
#[case(
    "{spec: {template: {spec: {requirements: [{key: a, operator: Is}]}}}}",
    "unknown variant `Is`, expected one of `In`"
)]
fn errors_of_reading_say_what_was_expected(#[case] yaml: &str, #[case] message: &str) {
    let value: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
    let error = serde_json::from_value::<NodePool>(value).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn what_is_written_reads_back_the_same() {
    let (pool, _) = read::<NodePool>(
        "
metadata: {name: a}
spec:
  weight: 10
  limits: {cpu: 0.5, memory: 1.5Gi, nodes: 3}
  template:
    metadata: {labels: {team: a}}
    spec:
      expireAfter: Never
      terminationGracePeriod: 1h30m
      requirements: [{key: team, operator: Gt, values: ['5'], minValues: 2}]
      taints: [{key: a, effect: NoSchedule}]
  disruption: {consolidateAfter: 90s, budgets: [{nodes: '5', schedule: '@daily', duration: 10m, reasons: [Empty]}]}
",
    );
    let text = serde_json::to_string(&pool).unwrap();
    assert!(text.starts_with(r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":"#), "{text}");
    assert!(text.contains(r#""cpu":"500m","memory":"1536Mi","nodes":"3""#), "{text}");
    assert!(text.contains(r#""consolidateAfter":"90s""#) && text.contains(r#""expireAfter":"Never""#), "{text}");
    assert_eq!(serde_json::from_str::<NodePool>(&text).unwrap(), pool);
    let claim = NodeClaim::default();
    assert_eq!(serde_json::from_str::<NodeClaim>(&serde_json::to_string(&claim).unwrap()).unwrap(), claim);
    let reservation = Reservation {
        spec: berth_api::ReservationSpec { allocate_policy: Some(AllocatePolicy::Aligned), ..Default::default() },
        ..Default::default()
    };
    let text = serde_json::to_string(&reservation).unwrap();
    assert_eq!(serde_json::from_str::<Reservation>(&text).unwrap(), reservation);
}

#[rstest]
#[case("720h", Some(2_592_000_000_000_000))]
#[case("1h30m", Some(5_400_000_000_000))]
#[case("1.5s", Some(1_500_000_000))]
#[case(".5h", Some(1_800_000_000_000))]
#[case("-1m", Some(-60_000_000_000))]
#[case("+5us", Some(5_000))]
#[case("0", Some(0))]
#[case("9223372036854775807ns", Some(i64::MAX))]
#[case("-9223372036854775808ns", Some(i64::MIN))]
#[case("9223372036854775808ns", None)]
#[case("99999999999999999999999999999999h", None)]
#[case("1", None)]
#[case("1d", None)]
#[case("h", None)]
#[case(".h", None)]
#[case("", None)]
#[case("-", None)]
#[case("1h ", None)]
#[case("never", None)]
fn durations_are_gos(#[case] text: &str, #[case] nanos: Option<i64>) {
    assert_eq!(text.parse::<GoDuration>().ok().map(|duration| duration.nanos()), nanos);
}

#[test]
fn durations_of_seconds_read_as_people_write_them() {
    for (seconds, text) in [(0, "0s"), (90, "1m30s"), (3600, "1h"), (-60, "-1m")] {
        let duration = GoDuration::from_secs(seconds);
        assert_eq!(duration.to_string(), text);
        assert_eq!(text.parse::<GoDuration>().unwrap(), duration);
    }
    assert_eq!("Never".parse::<NillableDuration>().unwrap(), NillableDuration::Never);
}

#[test]
fn former_label_names_stand_for_todays() {
    for (alias, name) in labels::ALIASES {
        assert_eq!(labels::normalized(alias), name);
        assert!(labels::is_well_known(name), "{name}");
    }
    assert!(labels::is_well_known(labels::RESERVATION_ID) && !labels::is_well_known("team"));
}

#[rstest]
#[case("karpenter.sh/capacity-type", false)]
#[case("karpenter.sh/nodepool", true)]
#[case("karpenter.sh/anything", true)]
#[case("a.karpenter.sh/anything", true)]
#[case("karpenter.k8s.aws/instance-family", false)]
#[case("kubernetes.io/hostname", true)]
#[case("kubernetes.io/os", false)]
#[case("node.kubernetes.io/anything", false)]
#[case("team", false)]
fn restricted_labels(#[case] key: &str, #[case] is_restricted: bool) {
    assert_eq!(labels::restriction(key).is_some(), is_restricted);
}

proptest! {
    #[test]
    fn any_text_is_a_duration_or_an_error(text in "[-+]?([0-9]{0,25}\\.?[0-9]{0,25}(h|m|s|ms|us|ns|µs)?){0,3}|.{0,12}") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
        }
    }
}
