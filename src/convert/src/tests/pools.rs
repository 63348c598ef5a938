//! NodePools and NodeOverlays.

use berth_model::{Money, ResourceId};
use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert, mk};
use crate::{Builder, Options};

fn pool(spec: Value) -> Value {
    let template = json!({"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}});
    mk("NodePool", "general", json!({"spec": super::with(template, spec)}))
}

#[test]
fn template_labels_and_the_pools_name_are_requirements() {
    let spec = json!({"weight": 10, "template": {"metadata": {"labels": {"team": "x"}}, "spec": {"requirements": [
        {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"], "minValues": 2}]}}});
    let cluster = convert([pool(spec)]).cluster;
    let pool = &cluster.node_pools[0];
    let single = |key: &str| {
        let key = cluster.symbols.get(key)?;
        Some(cluster.symbols.text(pool.requirements.get(key)?.single()?))
    };
    assert_eq!(single("team"), Some("x"));
    assert_eq!(single("karpenter.sh/nodepool"), Some("general"));
    assert_eq!(single("karpenter.k8s.aws/ec2nodeclass"), Some("default"));
    let arch = pool.requirements.get(cluster.well_known.arch).unwrap();
    assert_eq!((arch.min_values(), pool.weight), (Some(2), 10));
}

#[test]
fn limits_are_of_resources_or_of_nodes() {
    let cluster = convert([pool(json!({"limits": {"cpu": "10", "nodes": "3"}}))]).cluster;
    let pool = &cluster.node_pools[0];
    assert_eq!((pool.limits.as_slice(), pool.node_limit), (&[(ResourceId::CPU, 10_000)][..], Some(3)));
}

#[test]
fn an_invalid_pool_is_an_error_of_its_field() {
    let bad = json!({"template": {"spec": {"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["x"]}]}}});
    let error = add(&mut Builder::new(Options::default()), pool(bad)).unwrap_err();
    assert_eq!((error.kind(), error.name()), ("NodePool", "general"));
    assert!(error.problems()[0].path.starts_with("spec.template.spec.requirements[0]"), "{error}");
}

#[rstest]
#[case(json!({"spec": {"replicas": 3}}), "NodePool is static")]
#[case(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "NodePool is being deleted")]
fn a_pool_that_launches_nothing_says_why(#[case] patch: Value, #[case] reason: &str) {
    let cluster = convert([super::with(pool(json!({})), patch)]).cluster;
    assert!(cluster.node_pools[0].refusal.as_deref().unwrap().starts_with(reason));
}

#[test]
fn without_a_pool_there_is_an_open_one_and_a_warning() {
    let converted = convert([]);
    let cluster = &converted.cluster;
    let requirement = cluster.node_pools[0].requirements.get(cluster.well_known.arch).unwrap();
    assert_eq!(requirement.single(), cluster.symbols.get("amd64"));
    assert_eq!(converted.warnings.len(), 1);
}

const TYPES: &str = r#"[{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [
    {"Price": 0.1, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]},
    {"Price": 0.04, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}]}]"#;

fn overlay(name: &str, spec: Value) -> Value {
    let everything =
        json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]});
    mk("NodeOverlay", name, json!({"spec": super::with(everything, spec)}))
}

fn everywhere(name: &str, price: &str) -> Value {
    mk("NodeOverlay", name, json!({"spec": {"requirements": [], "price": price}}))
}

fn of_pool(key: &str, operator: &str, values: &[&str]) -> Value {
    let requirements = json!([{"key": key, "operator": operator, "values": values}]);
    mk("NodeOverlay", "a", json!({"spec": {"requirements": requirements, "price": "0.5"}}))
}

fn pool_of_team(name: &str, team: &str) -> Value {
    let class = json!({"group": "berth.sh", "kind": "FakeNodeClass", "name": "c"});
    let template = json!({"metadata": {"labels": {"team": team}}, "spec": {"nodeClassRef": class, "requirements": []}});
    mk("NodePool", name, json!({"spec": {"template": template}}))
}

fn prices(gate: bool, overlays: Vec<Value>) -> (Vec<i128>, i64, usize) {
    let mut builder = Builder::new(Options { node_overlay: gate, ..Options::default() });
    builder.set_catalogue(&berth_catalogue::read(TYPES.as_bytes(), "t").unwrap()).unwrap();
    for object in overlays.into_iter().chain([pool_of_team("p", "a")]) {
        add(&mut builder, object).unwrap();
    }
    let converted = builder.finish().unwrap();
    let found = &converted.cluster.instance_types[0];
    let milli = |price: Money| price.pico() / 1_000_000_000;
    let prices = found.offerings.iter().map(|offering| milli(offering.price)).collect();
    let devices = super::amount(&found.resources, "example.com/dongle", &converted.cluster);
    (prices, devices, converted.warnings.iter().filter(|w| w.contains("of the same weight")).count())
}

#[rstest]
#[case::off(false, vec![overlay("a", json!({"price": "0.5"}))], vec![100, 40], 0)]
#[case::price(true, vec![overlay("a", json!({"price": "0.5"}))], vec![500, 40], 0)]
#[case::amount(true, vec![overlay("a", json!({"priceAdjustment": "+0.02"}))], vec![120, 40], 0)]
#[case::percent(true, vec![overlay("a", json!({"priceAdjustment": "-15%"}))], vec![85, 40], 0)]
#[case::the_heavier_wins(true, vec![overlay("a", json!({"price": "0.5", "weight": 1})), overlay("b", json!({"price": "0.6", "weight": 2}))], vec![600, 40], 0)]
#[case::of_equals_the_last_by_name(true, vec![overlay("b", json!({"price": "0.6"})), overlay("a", json!({"price": "0.5"}))], vec![600, 40], 1)]
#[case::one_in_conflict_changes_nothing_else(true, vec![everywhere("a", "0.5"), overlay("b", json!({"price": "0.6"}))], vec![600, 40], 1)]
#[case::one_that_is_lighter_fills_up(true, vec![everywhere("a", "0.5"), overlay("b", json!({"price": "0.6", "weight": 1}))], vec![600, 500], 0)]
#[case::the_label_of_a_pool(true, vec![of_pool("team", "In", &["a"])], vec![500, 500], 0)]
#[case::another_label_of_a_pool(true, vec![of_pool("team", "NotIn", &["a"])], vec![100, 40], 0)]
#[case::a_pool_by_name(true, vec![of_pool("karpenter.sh/nodepool", "In", &["p"])], vec![500, 500], 0)]
#[case::another_pool(true, vec![of_pool("karpenter.sh/nodepool", "In", &["q"])], vec![100, 40], 0)]
fn overlays_correct_prices(
    #[case] gate: bool,
    #[case] overlays: Vec<Value>,
    #[case] expected: Vec<i128>,
    #[case] conflicts: usize,
) {
    assert_eq!(prices(gate, overlays), (expected, 0, conflicts));
}

#[test]
fn an_overlay_adds_devices_to_the_type() {
    let devices = overlay("a", json!({"capacity": {"example.com/dongle": "3"}}));
    assert_eq!(prices(true, vec![devices]).1, 3);
}

#[test]
fn an_overlay_that_selects_some_pools_of_a_type_is_ignored_with_a_warning() {
    let mut builder = Builder::new(Options { node_overlay: true, ..Options::default() });
    builder.set_catalogue(&berth_catalogue::read(TYPES.as_bytes(), "t").unwrap()).unwrap();
    for object in [pool_of_team("p", "a"), pool_of_team("q", "b"), of_pool("team", "In", &["a"])] {
        add(&mut builder, object).unwrap();
    }
    let converted = builder.finish().unwrap();
    assert_eq!(converted.cluster.instance_types[0].offerings[0].price.pico() / 1_000_000_000, 100);
    let told = |warning: &String| warning.starts_with("NodeOverlay a: selects some NodePools and not others");
    assert!(converted.warnings.iter().any(told), "{:?}", converted.warnings);
}

#[test]
fn an_overlaid_catalogue_differs_in_prices_and_added_resources_alone() {
    let catalogue = berth_catalogue::read(TYPES.as_bytes(), "t").unwrap();
    let pool: berth_api::NodePool = serde_json::from_value(pool_of_team("p", "a")).unwrap();
    let mut team: berth_api::NodeOverlay = serde_json::from_value(of_pool("team", "In", &["a"])).unwrap();
    team.spec.capacity.insert("example.com/dongle".to_owned(), berth_quantity::Quantity::from_value(2));
    // What has run out has a price, too.
    let empty = catalogue.clone().without(|_, offering| offering.capacity_type().is_some());
    for catalogue in [catalogue, empty] {
        let paid = crate::overlaid(&catalogue, [&pool], [&team]).catalogue;
        let mut types = paid.clone().into_types();
        let half = "0.5".parse::<Money>().unwrap();
        for offering in &mut types[0].offerings {
            assert_eq!(std::mem::take(&mut offering.price), half);
        }
        let added = types[0].resources.remove("example.com/dongle");
        assert_eq!(added, Some(berth_quantity::Quantity::from_value(2)));
        let mut expected = catalogue.clone().into_types();
        expected[0].offerings.iter_mut().for_each(|own| own.price = Money::ZERO);
        assert_eq!(types, expected);
        assert_eq!(crate::overlaid(&catalogue, [], []).catalogue, catalogue);
    }
}
