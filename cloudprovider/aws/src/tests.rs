//! The formulas against what Karpenter's AWS provider says of every type, and whole catalogues.

use std::collections::BTreeMap;
use std::io::Read;

use berth_catalogue::Catalogue;

use crate::{Account, CapacityReservation, NodeClass, NodeSettings, Skipped, refresh, snapshot};

static EXPECTED: &[u8] = include_bytes!("../tests/data/us-east-1-allocatable.csv.gz");
const ACCELERATORS: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"];

fn catalogue() -> Catalogue {
    let zones = snapshot::ZONES.map(str::to_owned);
    snapshot::catalogue(snapshot::REGION, &zones, &NodeSettings::default()).unwrap()
}

#[test]
fn allocatable_of_every_type_is_that_of_karpenter() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(EXPECTED).read_to_string(&mut text).unwrap();
    let catalogue = catalogue();
    let types: BTreeMap<&str, _> = catalogue.types().iter().map(|known| (known.name.as_str(), known)).collect();
    let mut differences = Vec::new();
    let mut n_types = 0;
    for line in text.lines().skip(1) {
        n_types += 1;
        let [name, cpu, memory, pods, accelerators] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let Some(known) = types.get(name) else {
            differences.push(format!("{name}: missing"));
            continue;
        };
        for (resource, expected) in [("cpu", cpu), ("memory", memory), ("pods", pods)] {
            let found = known.resources[resource].to_string();
            if found != expected {
                differences.push(format!("{name}: {resource} {found}, Karpenter {expected}"));
            }
        }
        let found: i64 = ACCELERATORS.iter().filter_map(|a| known.resources.get(*a)?.value_floor()).sum();
        if found != accelerators.parse().unwrap_or(0) {
            differences.push(format!("{name}: {found} accelerators, Karpenter {accelerators}"));
        }
    }
    assert_eq!(n_types, 1345);
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn the_snapshot_says_what_it_is() {
    let catalogue = catalogue();
    assert_eq!(catalogue.types().len(), 1345);
    assert!(catalogue.reservations().is_empty());
    for known in catalogue.types() {
        assert_eq!(known.offerings.len(), 6, "{}", known.name);
        assert!(known.notes.iter().any(|note| note.contains("2026-07-20")) && known.notes[1].contains("estimate"));
        assert_eq!(
            known.labels["karpenter.k8s.aws/instance-family"],
            known.labels["eks.amazonaws.com/instance-family"]
        );
        assert!(known.machine.is_some());
    }
}

#[test]
fn the_snapshot_reads_back_equal() {
    let catalogue = catalogue();
    let again = berth_catalogue::read(catalogue.to_json().unwrap().as_bytes(), "types.json").unwrap();
    assert_eq!(again.types(), catalogue.types());
}

#[test]
fn the_snapshot_is_of_one_region() {
    let settings = NodeSettings::default();
    let of =
        |region: &str, zone: &str| snapshot::catalogue(region, &[zone.to_owned()], &settings).unwrap_err().to_string();
    assert!(of("eu-west-1", "eu-west-1a").contains("no snapshot of region \"eu-west-1\""));
    assert!(of("us-east-1", "us-east-1g").contains("no zone of us-east-1"));
    assert!(of("us-east-1", "us-east-1").contains("no zone of us-east-1"));
}

#[test]
fn a_metal_machine_has_an_empty_hypervisor_that_pools_can_keep_out() {
    let catalogue = catalogue();
    let metal = catalogue.types().iter().find(|known| known.name == "m5.metal").unwrap();
    assert_eq!(metal.labels["karpenter.k8s.aws/instance-hypervisor"], "");
}

// === an account ===

const NOW: &str = "2026-01-01T00:00:00Z";

fn reservation(id: &str, instance_type: &str, zone: &str, available: u32) -> CapacityReservation {
    CapacityReservation {
        id: id.to_owned(),
        owner_id: "123456789012".to_owned(),
        instance_type: instance_type.to_owned(),
        platform: "Linux/UNIX".to_owned(),
        zone: zone.to_owned(),
        total: 9,
        available,
        match_criteria: "targeted".to_owned(),
        state: "active".to_owned(),
        ..CapacityReservation::default()
    }
}

/// m5.xlarge in two zones, of which one has a spot price, and p5.48xlarge without a price.
fn account(reservations: Vec<CapacityReservation>) -> Account {
    let types = snapshot::types().unwrap();
    let known = |name: &str| types.iter().find(|known| known.name == name).unwrap().clone();
    let zones = || ["us-east-1a".to_owned(), "us-east-1b".to_owned()];
    Account {
        id: "123456789012".to_owned(),
        zones: zones().map(|zone| (zone.clone(), format!("id-{zone}"))).into(),
        instance_types: vec![known("p5.48xlarge"), known("m5.xlarge")],
        offered: ["m5.xlarge", "p5.48xlarge"].map(|name| (name.to_owned(), zones().into())).into(),
        on_demand: [("m5.xlarge".to_owned(), "0.2".parse().unwrap())].into(),
        spot: [(("m5.xlarge".to_owned(), "us-east-1b".to_owned()), "0.05".parse().unwrap())].into(),
        reservations,
        ..Account::default()
    }
}

fn offered(catalogue: &Catalogue) -> Vec<String> {
    let of = |known: &berth_catalogue::InstanceTypeEntry| -> Vec<String> {
        let offerings = known.offerings.iter();
        offerings
            .map(|offering| {
                let id = offering.reservation_id().map(|id| format!(" {id}")).unwrap_or_default();
                let zone = offering.zone().unwrap_or_default().trim_start_matches("us-east-1");
                let count = offering.reservation_capacity.map(|count| format!(" {count}")).unwrap_or_default();
                format!("{} {zone} {}{id}{count}", known.name, offering.capacity_type().unwrap())
            })
            .collect()
    };
    catalogue.types().iter().flat_map(|entry| of(entry)).collect()
}

#[test]
fn types_are_offered_by_zone_and_reservation_where_they_have_a_price_or_slots() {
    let reservations = vec![
        reservation("cr-2", "p5.48xlarge", "us-east-1b", 2),
        reservation("cr-1", "m5.xlarge", "us-east-1a", 0),
        // A page that moved while it was read.
        reservation("cr-1", "m5.xlarge", "us-east-1a", 0),
        reservation("cr-3", "m5.xlarge", "us-east-1f", 1),
        reservation("cr-4", "z9.large", "us-east-1a", 1),
    ];
    let (catalogue, report) = account(reservations).catalogue(&NodeSettings::default(), NOW.parse().unwrap()).unwrap();
    let expected = [
        "m5.xlarge a on-demand",
        "m5.xlarge b on-demand",
        "m5.xlarge b spot",
        "m5.xlarge a reserved cr-1 0",
        "p5.48xlarge b reserved cr-2 2",
    ];
    assert_eq!(offered(&catalogue), expected);
    assert_eq!(report.without_price, ["p5.48xlarge"]);
    assert_eq!(report.skipped, [(Skipped::UnknownType, 2)].into());
    assert_eq!(report.lines()[0], "2 instance types in 2 zones, 2 capacity reservations with 2 free instances");
}

#[test]
fn a_refreshed_catalogue_is_the_whole_catalogue_of_then() {
    let (now, settings) = (NOW.parse().unwrap(), NodeSettings::default());
    let before =
        vec![reservation("cr-1", "m5.xlarge", "us-east-1a", 3), reservation("cr-2", "p5.48xlarge", "us-east-1b", 2)];
    let after =
        vec![reservation("cr-1", "m5.xlarge", "us-east-1a", 1), reservation("cr-3", "m5.xlarge", "us-east-1b", 5)];
    let (catalogue, _) = account(before).catalogue(&settings, now).unwrap();
    let refreshed = refresh(catalogue, &after, "us-east-1", "123456789012", now).unwrap();
    // One has another count, one is gone, one is new.
    assert_eq!(refreshed.n_changed, 3);
    let (whole, _) = account(after).catalogue(&settings, now).unwrap();
    assert_eq!(offered(&refreshed.catalogue)[..5], offered(&whole)[..]);
    let m5 = |catalogue: &Catalogue| catalogue.types().iter().find(|known| known.name == "m5.xlarge").cloned();
    assert_eq!(m5(&refreshed.catalogue), m5(&whole));
}

#[test]
fn slots_of_a_type_that_is_not_sold_on_demand_have_a_list_price() {
    let (now, settings) = (NOW.parse().unwrap(), NodeSettings::default());
    let blocks = || vec![reservation("cr-2", "p5.48xlarge", "us-east-1b", 2)];
    let price = |catalogue: &Catalogue| {
        let mut offerings = catalogue.types().iter().flat_map(|known| &known.offerings);
        offerings.find(|offering| offering.reservation_id() == Some("cr-2")).map(|offering| offering.price.to_string())
    };
    let (unpriced, report) = account(blocks()).catalogue(&settings, now).unwrap();
    assert_eq!(price(&unpriced).as_deref(), Some("0"));
    assert!(report.lines().iter().any(|line| line.contains("of unknown price") && line.contains("p5.48xlarge")));
    let account = Account { list_prices: snapshot::prices().unwrap(), ..account(blocks()) };
    let (priced, report) = account.catalogue(&settings, now).unwrap();
    let bundled = snapshot::prices().unwrap()["p5.48xlarge"].to_string();
    assert_eq!(price(&priced), Some(bundled.clone()));
    assert!(report.without_list_price.is_empty());
    // A refresh keeps it, and finds one where there was none.
    for catalogue in [priced, unpriced] {
        let refreshed = refresh(catalogue, &blocks(), "us-east-1", "", now).unwrap();
        assert_eq!(price(&refreshed.catalogue), Some(bundled.clone()));
    }
}

#[test]
fn a_catalogue_of_another_account_is_not_refreshed() {
    let now = NOW.parse().unwrap();
    let own = || vec![reservation("cr-1", "m5.xlarge", "us-east-1a", 3)];
    let (catalogue, _) = account(own()).catalogue(&NodeSettings::default(), now).unwrap();
    let error = refresh(catalogue.clone(), &own(), "us-east-1", "999988887777", now).unwrap_err();
    let expected = "the catalogue is of account 123456789012, and these credentials are of account 999988887777";
    assert_eq!(error.to_string(), expected);
    assert!(refresh(catalogue.clone(), &own(), "us-east-1", "123456789012", now).is_ok());
    assert!(refresh(catalogue, &own(), "us-east-1", "", now).is_ok(), "nobody knows whose credentials these are");
}

#[test]
fn a_shared_reservation_says_whose_it_is_and_with_whom() {
    let mut shared = reservation("cr-1", "m5.xlarge", "us-east-1a", 3);
    shared.owner_id = "999988887777".to_owned();
    let (catalogue, _) = account(vec![shared]).catalogue(&NodeSettings::default(), NOW.parse().unwrap()).unwrap();
    let mut offerings = catalogue.types().iter().flat_map(|known| &known.offerings);
    let details = offerings.find_map(|offering| offering.reservation.as_ref()).unwrap();
    assert_eq!((details.owner_id.as_str(), details.shared_with.as_str()), ("999988887777", "123456789012"));
}

#[test]
fn every_class_sees_a_part_of_the_catalogue() {
    let (catalogue, _) = account(vec![reservation("cr-1", "m5.xlarge", "us-east-1a", 3)])
        .catalogue(&NodeSettings::default(), NOW.parse().unwrap())
        .unwrap();
    for spec in [
        r#"{"capacityReservationSelectorTerms": [{"id": "cr-1"}], "amiFamily": "AL2023"}"#,
        r#"{"amiFamily": "Bottlerocket", "kubelet": {"maxPods": 20}}"#,
        r#"{"amiFamily": "Windows2022"}"#,
    ] {
        let class: berth_api::EC2NodeClass =
            serde_json::from_str(&format!(r#"{{"metadata": {{"name": "a"}}, "spec": {spec}}}"#)).unwrap();
        let view = NodeClass::Ec2(Box::new(class)).view(&catalogue).unwrap().catalogue;
        let all = offered(&catalogue);
        assert!(offered(&view).iter().all(|offering| all.contains(offering)), "{spec}");
        assert_eq!(view.reservations().contains_key("cr-1"), spec.contains("cr-1"), "{spec}");
        assert_eq!(view.types().is_empty(), spec.contains("Windows"), "{spec}");
    }
}
