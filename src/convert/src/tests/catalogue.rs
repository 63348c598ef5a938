//! Instance types, offerings and what names tell.

use berth_model::{CapacityType, Cluster, InstanceType};
use rstest::rstest;
use serde_json::{Value, json};

use crate::names::region_of;
use crate::{Builder, Options};

fn offering(capacity_type: &str, zone: &str, rest: Value) -> Value {
    let base = json!({"Price": 0.1, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
    super::with(base, rest)
}

fn reserved(zone: &str, id: &str, capacity: u32) -> Value {
    let mut offering = offering("reserved", zone, json!({"ReservationCapacity": capacity}));
    let requirement = json!({"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": [id]});
    offering["Requirements"].as_array_mut().unwrap().push(requirement);
    offering
}

fn convert(types: Value, options: Options) -> Cluster {
    let mut builder = Builder::new(options);
    let catalogue = berth_catalogue::read(types.to_string().as_bytes(), "types.json").unwrap();
    builder.set_catalogue(&catalogue).unwrap();
    builder.finish().unwrap().cluster
}

fn named(name: &str, resources: Value) -> Cluster {
    convert(
        json!([{"name": name, "resources": resources, "offerings": [offering("on-demand", "z", json!({}))]}]),
        Options::default(),
    )
}

fn label<'a>(cluster: &'a Cluster, found: &InstanceType, key: &str) -> Option<&'a str> {
    Some(cluster.symbols.text(found.labels.get(cluster.symbols.get(key)?)?))
}

#[test]
fn a_reservation_of_several_types_is_one_count_under_every_name() {
    let types = json!([
        {"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [reserved("us-east-1a", "cr-1", 3), offering("on-demand", "us-east-1a", json!({}))]},
        {"name": "m5.xlarge", "resources": {"cpu": "4", "memory": "16Gi"}, "offerings": [reserved("us-east-1b", "cr-1", 3), reserved("us-east-1a", "cr-0", 0)]}]);
    let cluster = convert(types, Options::default());
    let free: Vec<(&str, u32)> =
        cluster.slots.iter().map(|slots| (cluster.symbols.text(slots.id), slots.free)).collect();
    assert_eq!(free, [("cr-1", 3), ("cr-0", 0)]);
    let first = &cluster.instance_types[0].offerings[0];
    assert_eq!((first.slots, first.price.pico()), (cluster.instance_types[1].offerings[0].slots, 0));
    assert_eq!(first.list_price, cluster.instance_types[0].offerings[1].price);
    for key in
        ["berth.sh/capacity-reservation-id", "karpenter.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"]
    {
        let key = cluster.symbols.get(key).unwrap();
        assert_eq!(first.labels.get(key), cluster.symbols.get("cr-1"));
    }
    let region = cluster.symbols.get("topology.kubernetes.io/region").unwrap();
    assert_eq!(first.labels.get(region), cluster.symbols.get("us-east-1"));
}

#[test]
fn without_the_gate_reserved_offerings_do_not_exist() {
    let types = json!([{"name": "t", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [reserved("a", "cr-1", 3), offering("on-demand", "a", json!({}))]}]);
    let cluster = convert(types, Options { reserved_capacity: false, ..Options::default() });
    let kinds: Vec<CapacityType> = cluster.instance_types[0].offerings.iter().map(|o| o.capacity_type).collect();
    assert_eq!((kinds, cluster.slots.len()), (vec![CapacityType::OnDemand], 0));
}

#[test]
fn a_paid_offering_with_a_count_is_a_supply_of_its_own() {
    let types = json!([{"name": "t", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [
        offering("spot", "a", json!({"Available": 5})), offering("spot", "b", json!({"Available": false})), offering("on-demand", "a", json!({}))]}]);
    let cluster = convert(types, Options::default());
    assert_eq!(cluster.instance_types[0].offerings.len(), 2);
    assert_eq!((cluster.slots.len(), cluster.slots[0].free, cluster.slots[0].is_reservation), (1, 5, false));
    assert_eq!(cluster.symbols.text(cluster.slots[0].id), "t/a/spot");
}

#[test]
fn what_all_offerings_say_is_a_label_of_the_type() {
    let mut one = offering("spot", "a", json!({}));
    one["Requirements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": ["big"]}));
    let cluster = convert(
        json!([{"name": "m5.large", "resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [one]}]),
        Options::default(),
    );
    let found = &cluster.instance_types[0];
    assert_eq!(label(&cluster, found, "karpenter.k8s.aws/instance-size"), Some("big"), "the catalogue beats the name");
    assert_eq!(label(&cluster, found, "karpenter.k8s.aws/instance-family"), Some("m5"));
}

#[rstest]
#[case("m5.large", "1930m", "m", "5", "m5", "large", "2")]
#[case("c6gd.16xlarge", "63770m", "c", "6", "c6gd", "16xlarge", "64")]
#[case("u-6tb1.metal", "447", "u", "1", "u-6tb1", "metal", "447")]
#[case("u7i-12tb.224xlarge", "895", "u", "7", "u7i-12tb", "224xlarge", "895")]
#[case("m7i.metal-24xl", "95", "m", "7", "m7i", "metal-24xl", "95")]
#[case("trn1n.32xlarge", "127", "trn", "1", "trn1n", "32xlarge", "127")]
fn ec2_names_tell_category_generation_family_size_and_cpu(
    #[case] name: &str,
    #[case] cpu: &str,
    #[case] category: &str,
    #[case] generation: &str,
    #[case] family: &str,
    #[case] size: &str,
    #[case] vcpus: &str,
) {
    let cluster = named(name, json!({"cpu": cpu, "memory": "1Gi"}));
    let get = |key: &str| {
        label(&cluster, &cluster.instance_types[0], &format!("karpenter.k8s.aws/instance-{key}")).unwrap_or("none")
    };
    assert_eq!(
        [get("category"), get("generation"), get("family"), get("size"), get("cpu")],
        [category, generation, family, size, vcpus]
    );
}

#[rstest]
#[case("c6g.large", Some("gpu-count"), None)]
#[case("Standard_D4s_v3", Some("family"), None)]
#[case("n2.standard", Some("family"), None)]
#[case("c-4x-amd64-linux", Some("family"), None)]
fn nothing_is_derived_that_is_not_certain(
    #[case] name: &str,
    #[case] key: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let cluster = named(name, json!({"cpu": "2", "memory": "1Gi"}));
    let key = format!("karpenter.k8s.aws/instance-{}", key.unwrap());
    assert_eq!(label(&cluster, &cluster.instance_types[0], &key), expected);
}

#[test]
fn gpus_are_told_by_the_resources() {
    let cluster = named("g4dn.12xlarge", json!({"cpu": "48", "memory": "1Gi", "nvidia.com/gpu": "4"}));
    let get = |key: &str| label(&cluster, &cluster.instance_types[0], &format!("karpenter.k8s.aws/instance-{key}"));
    assert_eq!((get("gpu-count"), get("gpu-manufacturer")), (Some("4"), Some("nvidia")));
}

#[test]
fn kwok_names_tell_what_karpenters_kwok_provider_sets() {
    let cluster = named("c-4x-amd64-linux", json!({"cpu": "4", "memory": "8Gi"}));
    let get = |key: &str| label(&cluster, &cluster.instance_types[0], &format!("karpenter.kwok.sh/instance-{key}"));
    assert_eq!(["family", "size", "cpu", "memory"].map(get), [Some("c"), Some("4"), Some("4"), Some("8Gi")]);
}

#[rstest]
#[case("us-east-1a", Some("us-east-1"))]
#[case("us-gov-west-1b", Some("us-gov-west-1"))]
#[case("us-west-2-lax-1a", Some("us-west-2"))]
#[case("us-central1-a", Some("us-central1"))]
#[case("test-zone-a", None)]
#[case("eastus-1", None)]
#[case("zone-1", None)]
#[case("", None)]
fn a_region_is_read_off_a_zone_only_where_it_is_certain(#[case] zone: &str, #[case] region: Option<&str>) {
    assert_eq!(region_of(zone).as_deref(), region);
}
