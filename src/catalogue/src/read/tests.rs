use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{CapacityType, Machine, OfferingIndex, ReservationDetails};

/// An offering's JSON with these requirements `In` one or more values (`a|b`), and more fields before them.
fn offering(fields: &str, requirements: &[(&str, &str)]) -> String {
    let requirements: Vec<String> = requirements
        .iter()
        .map(|(key, values)| {
            format!(r#"{{"key":"{key}","operator":"In","values":["{}"]}}"#, values.replace('|', r#"",""#))
        })
        .collect();
    format!(r#"{{{fields},"Requirements":[{}]}}"#, requirements.join(","))
}

fn paid(fields: &str, capacity_type: &str, zones: &str) -> String {
    offering(fields, &[(label::CAPACITY_TYPE, capacity_type), (label::ZONE, zones)])
}

fn reserved(fields: &str, zone: &str, id: &str) -> String {
    let key = "karpenter.sh/reservation-id";
    offering(fields, &[(label::CAPACITY_TYPE, "reserved"), (label::ZONE, zone), (key, id)])
}

fn instance_type(name: &str, offerings: &[String]) -> String {
    let offerings = offerings.join(",");
    format!(r#"{{"name":"{name}","resources":{{"cpu":"4","memory":"16Gi"}},"offerings":[{offerings}]}}"#)
}

fn read_all(types: &[String]) -> Result<Catalogue> {
    read(format!("[{}]", types.join(",")).as_bytes(), "types.json")
}

fn read_one(offerings: &[String]) -> Result<Catalogue> {
    read_all(&[instance_type("m5.xlarge", offerings)])
}

fn zones_and_types(catalogue: &Catalogue) -> Vec<(Option<&str>, CapacityType)> {
    catalogue.types()[0].offerings.iter().map(|o| (o.zone(), o.capacity_type().unwrap())).collect()
}

// === what is read ===

#[test]
fn kwok_json_and_its_yaml_are_the_same_catalogue() {
    let json = r#"[{"name": "c-2x", "architecture": "arm64", "operatingSystems": ["linux", "windows"],
        "resources": {"cpu": 2, "memory": "4Gi", "pods": "32"}, "offerings": [
        {"Price": 0.027147483648, "Available": true, "ReservationCapacity": 0, "CapacityOverride": null, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
            {"key": "example.com/rack", "operator": "Exists"}]}]}]"#;
    let yaml = "
- Name: c-2x
  architecture: arm64
  operatingSystems: [linux, windows]
  resources: {cpu: 2000m, memory: 4194304Ki, pods: 32}
  offerings:
  - price: 0.027147483648
    requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
    - {key: topology.kubernetes.io/zone, operator: In, values: [test-zone-a]}
    - {key: example.com/rack, operator: Exists}
";
    let catalogue = read(json.as_bytes(), "types.json").unwrap();
    assert_eq!(read(yaml.as_bytes(), "types.yaml").unwrap(), catalogue);
    let entry = &catalogue.types()[0];
    assert_eq!((entry.name.as_str(), entry.architecture.as_str()), ("c-2x", "arm64"));
    assert_eq!(entry.resources["cpu"].to_string(), "2");
    assert_eq!(entry.offerings[0].price.pico(), 27_147_483_648);
    assert_eq!(entry.offerings[0].launchable(), Availability::Unlimited);
    assert_eq!(entry.offerings[0].other_requirements().count(), 1);
}

#[test]
fn flow_style_yaml_is_read_though_it_begins_like_json() {
    let yaml = "[{name: a, resources: {cpu: 1, memory: 1Gi}, offerings: []}]";
    assert_eq!(read(yaml.as_bytes(), "types.yaml").unwrap().types()[0].name, "a");
    assert!(matches!(read(yaml.as_bytes(), "types.json"), Err(CatalogueError::Syntax { .. })));
}

#[test]
fn a_catalogue_that_is_nested_too_deep_is_told_in_plain_words() {
    let yaml = format!("- name: a\n  notes: {}{}", "[".repeat(40), "]".repeat(40));
    let told = read(yaml.as_bytes(), "types.yaml").unwrap_err().to_string();
    assert_eq!(told, "unable to read types.yaml: nested deeper than 32 levels, expected 32 at most, at line 2");
}

#[test]
fn offerings_before_karpenter_v1_name_zone_and_capacity_type_as_fields() {
    let old = r#"{"CapacityType":"spot","Zone":"z1","Price":0.5,"Available":true}"#.to_owned();
    assert_eq!(zones_and_types(&read_one(&[old]).unwrap()), [(Some("z1"), CapacityType::Spot)]);
}

#[test]
fn what_a_type_leaves_out_is_linux_on_amd64_with_110_pods() {
    let catalogue = read_one(&[]).unwrap();
    let entry = &catalogue.types()[0];
    assert_eq!((entry.architecture.as_str(), entry.operating_systems.as_slice()), ("amd64", &["linux".to_owned()][..]));
    assert_eq!(entry.resources["pods"].to_string(), "110");
}

#[rstest]
#[case("", Availability::Unlimited)]
#[case(r#","Available":null"#, Availability::Unlimited)]
#[case(r#","Available":true"#, Availability::Unlimited)]
#[case(r#","available":4294967295"#, Availability::Unlimited)]
#[case(r#","Available":false"#, Availability::Count(0))]
#[case(r#","Available":0"#, Availability::Count(0))]
#[case(r#","available":5"#, Availability::Count(5))]
fn available_is_a_boolean_or_a_count(#[case] available: &str, #[case] expected: Availability) {
    let catalogue = read_one(&[paid(&format!(r#""Price":1{available}"#), "on-demand", "z")]).unwrap();
    assert_eq!(catalogue.types()[0].offerings[0].launchable(), expected);
}

#[test]
fn an_offering_of_several_zones_is_one_of_each() {
    let catalogue = read_one(&[paid(r#""Price":1"#, "spot|on-demand", "a|b")]).unwrap();
    let (spot, on_demand) = (CapacityType::Spot, CapacityType::OnDemand);
    let expected = [(Some("a"), spot), (Some("a"), on_demand), (Some("b"), spot), (Some("b"), on_demand)];
    assert_eq!(zones_and_types(&catalogue), expected);
}

#[test]
fn a_cloud_may_have_no_zones() {
    let catalogue = read_one(&[offering(r#""Price":1"#, &[(label::CAPACITY_TYPE, "on-demand")])]).unwrap();
    assert_eq!(zones_and_types(&catalogue), [(None, CapacityType::OnDemand)]);
}

// === reservations ===

#[rstest]
#[case(r#""Available":true,"ReservationCapacity":7"#, 7)]
#[case(r#""Available":4294967295,"ReservationCapacity":7"#, 7)]
#[case(r#""Available":false,"ReservationCapacity":7"#, 0)]
#[case(r#""Available":5"#, 5)]
#[case(r#""Available":5,"ReservationCapacity":7"#, 5)]
#[case(r#""Available":9,"ReservationCapacity":7"#, 7)]
#[case(r#""ReservationCapacity":0"#, 0)]
fn a_reserved_offering_counts_by_either_field(#[case] count: &str, #[case] expected: u32) {
    let catalogue = read_one(&[reserved(&format!(r#""Price":1e-9,{count}"#), "z", "cr-1")]).unwrap();
    assert_eq!(catalogue.reservations()["cr-1"].instances, expected);
    assert_eq!(catalogue.types()[0].offerings[0].launchable(), Availability::Count(expected));
}

#[rstest]
fn a_reservation_may_be_named_by_any_of_three_keys(
    #[values(
        "berth.sh/capacity-reservation-id",
        "karpenter.sh/reservation-id",
        "karpenter.k8s.aws/capacity-reservation-id"
    )]
    key: &str,
) {
    let requirements = [(label::CAPACITY_TYPE, "reserved"), (key, "cr-1")];
    let catalogue = read_one(&[offering(r#""Price":0,"Available":2"#, &requirements)]).unwrap();
    let entry = &catalogue.types()[0].offerings[0];
    assert_eq!(entry.reservation_id(), Some("cr-1"));
    assert_eq!(entry.single_value(label::CAPACITY_RESERVATION_ID), Some("cr-1"));
    assert_eq!(entry.single_value(key), Some("cr-1"));
}

#[test]
fn one_id_under_two_types_is_one_count_and_the_smallest_holds() {
    let catalogue = read_all(&[
        instance_type("a", &[reserved(r#""Price":0,"Available":5"#, "z", "cr-1")]),
        instance_type("b", &[reserved(r#""Price":0,"ReservationCapacity":3"#, "z", "cr-1")]),
        instance_type("c", &[reserved(r#""Price":0,"ReservationCapacity":4"#, "y", "cr-1")]),
    ])
    .unwrap();
    let reservation = &catalogue.reservations()["cr-1"];
    assert_eq!(reservation.instances, 3);
    let place = |instance_type| OfferingIndex { instance_type, offering: 0 };
    assert_eq!(reservation.offerings, [place(0), place(1), place(2)]);
    for entry in catalogue.types() {
        assert_eq!(entry.offerings[0].reservation_capacity, Some(3), "{}", entry.name);
    }
    let warnings: Vec<String> = catalogue.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "types.json: [1] (b): offerings[0].ReservationCapacity: reservation cr-1 has 3 instances here and 5 before, 3 are used",
            "types.json: [2] (c): offerings[0].ReservationCapacity: reservation cr-1 has 4 instances here and 3 before, 3 are used",
        ]
    );
}

#[test]
fn a_reserved_offering_without_an_id_is_a_reservation_of_its_own() {
    let anonymous = |count: u32, zones: &str| paid(&format!(r#""Price":0,"Available":{count}"#), "reserved", zones);
    let catalogue = read_one(&[
        anonymous(1, "z"),
        anonymous(2, "z"),
        anonymous(3, "y|x"),
        reserved(r#""Price":0,"Available":4"#, "w", "m5.xlarge.z-2"),
    ])
    .unwrap();
    let counts: Vec<(&str, u32, usize)> =
        catalogue.reservations().iter().map(|(id, r)| (id.as_str(), r.instances, r.offerings.len())).collect();
    let expected = [("m5.xlarge.y", 3, 2), ("m5.xlarge.z", 1, 1), ("m5.xlarge.z-2", 4, 1), ("m5.xlarge.z-3", 2, 1)];
    assert_eq!(counts, expected);
}

#[test]
fn a_made_up_id_is_a_label_value_however_long_the_names_are() {
    let (name, zone) = ("n".repeat(63), "z".repeat(63));
    let anonymous = || paid(r#""Price":0,"Available":1"#, "reserved", &zone);
    let catalogue = read_all(&[instance_type(&name, &[anonymous(), anonymous()])]).unwrap();
    assert!(catalogue.reservations().keys().all(|id| id.len() <= 63));
    assert_eq!(catalogue.reservations().len(), 2);
}

#[test]
fn reserved_is_worth_the_on_demand_price_of_its_zone_and_costs_nothing() {
    let catalogue = read_one(&[
        reserved(r#""Price":1.9e-8,"Available":1"#, "a", "cr-1"),
        reserved(r#""Price":1.9e-8,"Available":1"#, "c", "cr-2"),
        paid(r#""Price":0.19"#, "on-demand", "a"),
        paid(r#""Price":0.21"#, "on-demand", "b"),
    ])
    .unwrap();
    let entry = &catalogue.types()[0];
    let list_prices: Vec<String> = entry.offerings.iter().map(|o| entry.list_price(o).to_string()).collect();
    assert_eq!(list_prices, ["0.19", "0.000000019", "0.19", "0.21"]);
    let marginal: Vec<String> = entry.offerings.iter().map(|o| entry.marginal_price(o).to_string()).collect();
    assert_eq!(marginal, ["0", "0", "0.19", "0.21"]);
}

#[test]
fn aws_marks_what_is_not_reserved_by_an_id_that_does_not_exist() {
    let aws = r#"{"Price":1,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
        {"key":"karpenter.k8s.aws/capacity-reservation-id","operator":"DoesNotExist"}]}"#;
    assert!(read_one(&[aws.to_owned()]).unwrap().reservations().is_empty());
}

#[test]
fn a_capacity_without_a_reservation_is_ignored_aloud() {
    let catalogue = read_one(&[paid(r#""Price":1,"ReservationCapacity":4"#, "on-demand", "z")]).unwrap();
    assert_eq!(catalogue.types()[0].offerings[0].launchable(), Availability::Unlimited);
    assert_eq!(catalogue.warnings().len(), 1);
}

// === what is refused ===

/// Each is the message after `types.json: [0] (m5.xlarge): offerings[0]`.
#[rstest]
#[case(paid(r#""Price":-1"#, "spot", "z"), ".Price: expected 0 to 1000000 dollars an hour, found -1")]
#[case(paid(r#""Price":1e300"#, "spot", "z"), ".Price: expected a number of dollars an hour, found 1000")]
#[case(paid(r#""Price":"1""#, "spot", "z"), r#".Price: expected a number of dollars an hour, found "1""#)]
#[case(paid(r#""Available":true"#, "spot", "z"), ".Price: expected dollars an hour, found nothing")]
#[case(paid(r#""Price":1,"price":1"#, "spot", "z"), ".price: expected Price once, found it again")]
#[case(paid(r#""Price":1,"Prize":1"#, "spot", "z"), ".Prize: expected one of Price, Available, ")]
#[case(paid(r#""Price":1,"Available":-1"#, "spot", "z"), ".Available: expected true, false or a count")]
#[case(paid(r#""Price":1,"Available":1.5"#, "spot", "z"), ".Available: expected true, false or a count")]
#[case(paid(r#""Price":1,"Available":4294967296"#, "spot", "z"), ".Available: expected true, false or a count")]
#[case(paid(r#""Price":1,"Available":"5""#, "spot", "z"), ".Available: expected true, false or a count")]
#[case(paid(r#""Price":1,"Available":5"#, "spot", "y|z"), ".Available: expected a count only where there is one zone")]
#[case(paid(r#""Price":1,"CapacityOverride":{}"#, "spot", "z"), ".CapacityOverride: expected none, ")]
#[case(paid(r#""Price":1"#, "reserved", "z"), ".ReservationCapacity: expected a count of instances, ")]
#[case(paid(r#""Price":1,"Available":4294967295"#, "reserved", "z"), ".ReservationCapacity: expected a count")]
#[case(paid(r#""Price":1,"Available":1"#, "reserved|spot", "z"), ".Requirements: expected reserved as the only")]
#[case(paid(r#""Price":1"#, "cheap", "z"), ".Requirements: expected karpenter.sh/capacity-type In on-demand, spot or")]
#[case(offering(r#""Price":1"#, &[(label::ZONE, "z")]), ".Requirements: expected karpenter.sh/capacity-type In ")]
#[case(
    paid(r#""Price":1"#, "spot", "z|z"),
    r#".Requirements[1].values[1]: expected every value once, found "z" again"#
)]
#[case(paid(r#""Price":1"#, "spot", "a b"), ".Requirements[1].values[0]: expected a label value")]
#[case(
    offering(r#""Price":1"#, &[(label::CAPACITY_TYPE, "spot"), (label::RESERVATION_IDS[1], "cr")]),
    r#".Requirements: expected a reservation id on reserved offerings only, found "cr" on"#
)]
#[case(
    offering(r#""Price":1,"Available":1"#, &[(label::CAPACITY_TYPE, "reserved"), (label::RESERVATION_IDS[0], "a|b")]),
    ".Requirements[1].values: expected berth.sh/capacity-reservation-id In one id"
)]
#[case(
    offering(r#""Price":1,"Available":1"#, &[(label::RESERVATION_IDS[0], "a"), (label::RESERVATION_IDS[1], "b"),
        (label::CAPACITY_TYPE, "reserved")]),
    r#".Requirements[1].values[0]: expected the reservation named before, "a", found "b""#
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"a","operator":"Is","values":["b"]}]}"#.to_owned(),
    ".Requirements[0].operator: expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte, found \"Is\""
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"a","operator":"In"}]}"#.to_owned(),
    ".Requirements[0].values: expected at least one for In, found none"
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"a","operator":"Gt","values":["x"]}]}"#.to_owned(),
    ".Requirements[0].values: expected one whole number for Gt"
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"a","operator":"Exists","values":["x"]}]}"#.to_owned(),
    ".Requirements[0].values: expected none for Exists"
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"topology.kubernetes.io/zone","operator":"NotIn","values":["x"]}]}"#.to_owned(),
    ".Requirements[0].operator: expected In for topology.kubernetes.io/zone, found NotIn"
)]
#[case(
    r#"{"Price":1,"Requirements":[{"key":"a","operator":"In","values":[1]}]}"#.to_owned(),
    ".Requirements[0].values[0]: expected a string, found 1 without quotes"
)]
#[case("5".to_owned(), ": expected a map of Price, ")]
fn a_bad_offering_is_refused_by_its_place(#[case] offering: String, #[case] expected: &str) {
    let message = read_one(&[offering]).unwrap_err().to_string();
    let message = message.strip_prefix("types.json: [0] (m5.xlarge): offerings[0]").unwrap_or(&message);
    assert!(message.starts_with(expected), "{message}");
}

#[rstest]
#[case("", "unable to read f: expected a list of instance types, found an empty file")]
#[case(" \n", "unable to read f: expected a list of instance types, found an empty file")]
#[case(
    "kind: Pod\n---\nkind: Pod",
    "unable to read f: expected one list of instance types, found another document at line 3"
)]
#[case("null", "f: the list: expected a list of instance types, found null")]
#[case("{}", "f: the list: expected a list of instance types, found a map")]
#[case("[1]", "f: [0]: expected a map of name, ")]
#[case("[{}]", "f: [0]: name: expected the name of an instance type, found nothing")]
#[case("- {colour: red, name: a}", "f: [0] (a): colour: expected one of name, ")]
#[case("- {name: a}", "f: [0] (a): resources: expected what pods may use of a node, found nothing")]
#[case("- {name: a, resources: {cpu: 1}}", "f: [0] (a): resources.memory: expected a quantity, found nothing")]
#[case("- {name: a, resources: {cpu: 0, memory: 1}}", "f: [0] (a): resources.cpu: expected more than 0, found 0")]
#[case("- {name: a, resources: {cpu: -1, memory: 1}}", "f: [0] (a): resources.cpu: expected a quantity from 0 to ")]
#[case("- {name: a, resources: {cpu: 2M, memory: 1}}", "f: [0] (a): resources.cpu: expected a quantity from 0 to ")]
#[case("- {name: a, resources: {cpu: 1, memory: 2Ei}}", "f: [0] (a): resources.memory: expected a quantity from ")]
#[case(
    "- {name: a, resources: {cpu: 1 core, memory: 1}}",
    r#"f: [0] (a): resources.cpu: expected a quantity, found "1"#
)]
#[case("- {name: a, resources: {cpu: 1, memory: [1]}}", "f: [0] (a): resources.memory: expected a quantity, found a ")]
#[case("- {name: a, resources: 5}", "f: [0] (a): resources: expected a map of resource names")]
#[case("- {name: 5, resources: {}}", "f: [0]: name: expected a string, found 5 without quotes")]
#[case("- {name: '', resources: {cpu: 1, memory: 1}}", "f: [0] (): name: expected a label value")]
#[case("- {name: a, architecture: true, resources: {}}", "f: [0] (a): architecture: expected a string, found true ")]
#[case(
    "- {name: a, operatingSystems: [], resources: {cpu: 1, memory: 1}}",
    "f: [0] (a): operatingSystems: expected at "
)]
#[case("- {name: a, resources: {cpu: 1, memory: 1}, offerings: {}}", "f: [0] (a): offerings: expected a list of ")]
#[case("- {name: a, resources: {cpu: 1, memory: 1}, offerings: [{price: .nan}]}", "f: [0] (a): offerings[0].Price: ")]
fn a_bad_file_is_refused_by_its_place(#[case] text: &str, #[case] expected: &str) {
    let message = read(text.as_bytes(), "f").unwrap_err().to_string();
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_type_name_comes_once() {
    let message = read_all(&[instance_type("a", &[]), instance_type("a", &[])]).unwrap_err().to_string();
    assert_eq!(message, r#"types.json: [1] (a): name: expected every instance type once, found "a" again"#);
}

#[test]
fn a_broken_file_is_refused_with_line_and_column() {
    let message = read(b"[\n{\"name\": }]", "types.json").unwrap_err().to_string();
    assert!(message.contains("line 2"), "{message}");
    let message = read(b"- name: 'a\n", "types.yaml").unwrap_err().to_string();
    assert!(message.contains("line"), "{message}");
    let message = read(b"- name: \xff\n", "types.yaml").unwrap_err().to_string();
    assert!(message.contains("offset 8"), "{message}");
}

#[rstest]
#[case("[".repeat(100_000))]
#[case("- ".repeat(100_000))]
#[case(alias_bomb())]
fn nesting_and_alias_bombs_are_refused(#[case] text: String) {
    assert!(matches!(read(text.as_bytes(), "types.yaml"), Err(CatalogueError::Syntax { .. })));
}

/// A list of lists, each of nine of the one before, so that the last is of 9^40 values.
fn alias_bomb() -> String {
    let line = |i: u32| format!("- &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
    std::iter::once("- &a0 [x]\n".to_owned()).chain((1..40).map(line)).collect()
}

// === properties ===

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "- ",
        "\n",
        "\n  ",
        "name",
        "\"name\"",
        "a",
        "\"a\"",
        "resources",
        "cpu",
        "1",
        "-1",
        "1e99",
        "memory",
        "1Gi",
        "offerings",
        "Price",
        "price",
        "Available",
        "true",
        "4294967295",
        "null",
        "Requirements",
        "key",
        "operator",
        "In",
        "values",
        "karpenter.sh/capacity-type",
        "reserved",
        "*a",
        "&a",
        "!!int",
        "é",
        "'",
        "|",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

const MACHINE: &str = r#"{"vCPUs": 4, "memoryMiB": 16384, "usableMemoryMiB": 15155, "networkInterfaces": 4,
    "ipv4PerInterface": 15, "maxPods": 58, "localStorageGB": 0}"#;

fn with_details(machine: &str, reservation: &str) -> Result<Catalogue> {
    let offering =
        reserved(&format!(r#""Price": 1, "ReservationCapacity": 2, "Reservation": {reservation}"#), "a", "cr-1");
    let text = format!(
        r#"[{{"name": "m5.xlarge", "resources": {{"cpu": "4", "memory": "16Gi"}}, "labels": {{"example.com/family": "m5"}},
            "notes": ["prices: an estimate"], "machine": {machine}, "offerings": [{offering}]}}]"#
    );
    read(text.as_bytes(), "types.json")
}

#[test]
fn labels_notes_machine_and_reservation_are_read() {
    let details = r#"{"TotalInstances": 5, "OwnerID": "123456789012", "InstanceMatchCriteria": "targeted",
        "State": "active", "End": "2027-01-01T00:00:00Z", "Tags": {"team": "web"}}"#;
    let catalogue = with_details(MACHINE, details).unwrap();
    let [entry] = catalogue.types() else { panic!("one type") };
    assert_eq!(entry.labels["example.com/family"], "m5");
    assert_eq!(entry.notes, ["prices: an estimate"]);
    let machine = entry.machine.as_ref().unwrap();
    assert_eq!((machine.vcpus, machine.usable_memory_mib, machine.max_pods), (4, 15_155, 58));
    let reservation = entry.offerings[0].reservation.as_ref().unwrap();
    assert_eq!(reservation.total_instances, Some(5));
    assert_eq!(reservation.tags["team"], "web");
}

#[rstest]
#[case::no_cpus(&MACHINE.replace("\"vCPUs\": 4", "\"vCPUs\": 0"), "{}", "machine.vCPUs: expected more than 0, found 0")]
#[case::more_memory_than_there_is(
    &MACHINE.replace("15155", "20000"), "{}", "machine.usableMemoryMiB: expected at most memoryMiB, 16384, found 20000"
)]
#[case::half_a_machine(
    r#"{"vCPUs": 4}"#,
    "{}",
    "machine.memoryMiB: expected a count from 0 to 4294967295, found nothing"
)]
#[case::unknown_criteria(
    MACHINE,
    r#"{"InstanceMatchCriteria": "any"}"#,
    "Reservation.InstanceMatchCriteria: expected open or targeted, found \"any\""
)]
#[case::a_tag_without_quotes(
    MACHINE,
    r#"{"Tags": {"a": 1}}"#,
    "Reservation.Tags[a]: expected a string, found 1 without quotes"
)]
#[case::an_unknown_field(MACHINE, r#"{"Owner": "1"}"#, "Owner: expected one of TotalInstances, OwnerID")]
fn details_that_make_no_sense_are_refused(#[case] machine: &str, #[case] reservation: &str, #[case] expected: &str) {
    let error = with_details(machine, reservation).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_is_not_reserved_has_no_reservation() {
    let offering = paid(r#""Price": 1, "Reservation": {"OwnerID": "1"}"#, "on-demand", "a");
    let error = read(format!("[{}]", instance_type("m5.large", &[offering])).as_bytes(), "types.json").unwrap_err();
    assert!(error.to_string().contains("Reservation: expected nothing, as the offering is not reserved"), "{error}");
}

prop_compose! {
    fn any_offering()(
        pico in 0..2_000_000_000_000_i128, count in 0..5_u32, kind in 0..4_u8, n_zones in 0..3_usize, id in 0..3_u8,
    ) -> OfferingEntry {
        let mut requirements = vec![RequirementEntry::is(
            label::CAPACITY_TYPE, ["on-demand", "spot", "reserved", "reserved"][usize::from(kind)].to_owned(),
        )];
        if n_zones > 0 {
            let zones = ["a", "b"];
            let values = zones.iter().take(n_zones).map(|zone| (*zone).to_owned()).collect();
            requirements.push(RequirementEntry { key: label::ZONE.to_owned(), operator: Operator::In, values });
        }
        if kind == 3 {
            requirements.push(RequirementEntry::is(label::RESERVATION_IDS[usize::from(id)], format!("cr-{count}")));
        }
        OfferingEntry {
            price: Money::from_pico(pico),
            availability: if kind < 2 { Availability::Unlimited } else { Availability::Count(count) },
            reservation_capacity: None,
            requirements,
            reservation: (kind == 3).then(|| {
                Box::new(ReservationDetails {
                    total_instances: Some(count + 1),
                    owner_id: "123456789012".to_owned(),
                    instance_match_criteria: if id == 0 { String::new() } else { "targeted".to_owned() },
                    tags: [("team".to_owned(), "a: b".to_owned())].into(),
                    ..ReservationDetails::default()
                })
            }),
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, "types");
    }

    #[test]
    fn arbitrary_words_are_read_or_refused(text in words()) {
        let _ = read(text.as_bytes(), "types");
    }

    #[test]
    fn a_written_catalogue_reads_back_equal(
        offerings in prop::collection::vec(prop::collection::vec(any_offering(), 0..5), 0..4),
    ) {
        let resources = [("cpu", "3920m"), ("memory", "14Gi")];
        let types = offerings.into_iter().enumerate().map(|(i, offerings)| InstanceTypeEntry {
            name: format!("m{i}.large"),
            architecture: "amd64".to_owned(),
            operating_systems: vec!["linux".to_owned()],
            resources: resources.iter().map(|(name, q)| ((*name).to_owned(), q.parse().unwrap())).collect(),
            labels: [("example.com/size".to_owned(), i.to_string())].into(),
            machine: (i > 0).then(|| Box::new(Machine { vcpus: 4, memory_mib: 16_384, max_pods: 58, ..Machine::default() })),
            notes: if i > 1 { vec!["prices: an estimate".to_owned()] } else { Vec::new() },
            offerings,
        });
        let catalogue = Catalogue::new(types.collect()).unwrap();
        let json = catalogue.to_json().unwrap();
        let again = read(json.as_bytes(), "types.json").unwrap();
        prop_assert_eq!(again.types(), catalogue.types());
        prop_assert_eq!(again.reservations(), catalogue.reservations());
        let yaml = serde_saphyr::to_string(&catalogue).unwrap();
        let from_yaml = read(yaml.as_bytes(), "types.yaml").unwrap();
        prop_assert_eq!(from_yaml.types(), catalogue.types());
    }

    #[test]
    fn a_catalogue_with_other_counts_is_as_if_it_had_been_made_of_them(
        offerings in prop::collection::vec(prop::collection::vec(any_offering(), 0..5), 0..4),
        free in 0_u32..5,
        gone in 0_usize..5,
    ) {
        let resources = [("cpu", "3920m"), ("memory", "14Gi")];
        let types = offerings.into_iter().enumerate().map(|(i, offerings)| InstanceTypeEntry {
            name: format!("m{i}.large"),
            architecture: "amd64".to_owned(),
            operating_systems: vec!["linux".to_owned()],
            resources: resources.iter().map(|(name, q)| ((*name).to_owned(), q.parse().unwrap())).collect(),
            labels: BTreeMap::new(),
            machine: None,
            notes: Vec::new(),
            offerings,
        });
        let catalogue = Catalogue::new(types.collect()).unwrap();
        let first = catalogue.reservations().keys().next().cloned();
        let is_first = |offering: &OfferingEntry| first.is_some() && offering.reservation_id() == first.as_deref();
        let changed = |is_changed: &dyn Fn(&OfferingEntry) -> bool, count: u32| {
            let mut types = catalogue.clone().into_types();
            for offering in types.iter_mut().flat_map(|entry| &mut entry.offerings).filter(|own| is_changed(own)) {
                if offering.reservation_id().is_some() {
                    offering.reservation_capacity = Some(count);
                } else {
                    offering.availability = Availability::Count(count);
                }
            }
            Catalogue::new(types).unwrap()
        };
        let counts = first.iter().map(|id| (id.as_str(), free)).collect();
        let counted = catalogue.clone().with_free_instances(&counts);
        let anew = changed(&is_first, free);
        prop_assert_eq!(counted.types(), anew.types());
        prop_assert_eq!(counted.reservations(), anew.reservations());
        let zone = catalogue.types().iter().flat_map(|entry| &entry.offerings).nth(gone).map(|own| own.zone().map(str::to_owned));
        let is_paid_there = |own: &OfferingEntry| own.reservation_id().is_none() && Some(own.zone()) == zone.as_ref().map(|zone| zone.as_deref());
        let without = catalogue.clone().without(|_, own| is_paid_there(own));
        let anew = changed(&is_paid_there, 0);
        prop_assert_eq!(without.types(), anew.types());
        let empty = catalogue.clone().without(|_, own| is_first(own));
        let anew = changed(&is_first, 0);
        prop_assert_eq!(empty.types(), anew.types());
    }
}
