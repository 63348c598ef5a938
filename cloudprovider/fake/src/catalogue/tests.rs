use std::collections::BTreeSet;

use rstest::rstest;

use super::*;

fn price(entry: &InstanceTypeEntry, capacity_type: CapacityType, zone: &str) -> Money {
    let is_it = |o: &&OfferingEntry| o.capacity_type() == Some(capacity_type) && o.zone() == Some(zone);
    entry.offerings.iter().find(is_it).unwrap().price
}

fn find<'c>(catalogue: &'c Catalogue, name: &str) -> &'c InstanceTypeEntry {
    catalogue.types().iter().find(|t| t.name == name).unwrap()
}

#[test]
fn a_few_hundred_types_are_offered_in_every_zone_both_ways() {
    let catalogue = catalogue();
    assert!((250..500).contains(&catalogue.types().len()), "{}", catalogue.types().len());
    for entry in catalogue.types() {
        let offered: BTreeSet<_> = entry.offerings.iter().map(|o| (o.zone().unwrap(), o.capacity_type())).collect();
        assert_eq!((offered.len(), entry.offerings.len()), (6, 6), "{}", entry.name);
    }
    assert!(catalogue.warnings().is_empty() && catalogue.reservations().is_empty());
}

#[test]
fn the_written_file_reads_back_equal() {
    let written = catalogue().to_json().unwrap();
    assert_eq!(berth_catalogue::read(written.as_bytes(), "types.json").unwrap(), catalogue());
}

#[test]
fn spot_is_a_fraction_of_on_demand_and_differs_by_zone() {
    let catalogue = catalogue();
    let mut n_with_a_cheapest_zone = 0;
    for entry in catalogue.types() {
        let spot: BTreeSet<_> = ZONES.iter().map(|zone| price(entry, CapacityType::Spot, zone)).collect();
        let on_demand = price(entry, CapacityType::OnDemand, ZONES[0]);
        assert!(spot.iter().all(|&p| p.times(5) > on_demand && p.times(10) < on_demand.times(6)), "{}", entry.name);
        n_with_a_cheapest_zone += usize::from(spot.len() > 1);
    }
    assert!(n_with_a_cheapest_zone * 100 > catalogue.types().len() * 98);
}

#[rstest]
#[case("m5.large", "0.096")]
#[case("m6.large", "0.09216")]
#[case("m5a.large", "0.0864")]
#[case("m5g.large", "0.0768")]
#[case("c5.24xlarge", "4.08")]
#[case("g4.xlarge", "0.532")]
#[case("p3.16xlarge", "24.832")]
fn on_demand_prices_follow_the_family(#[case] name: &str, #[case] dollars: Money) {
    assert_eq!(price(find(&catalogue(), name), CapacityType::OnDemand, "port-1b"), dollars);
}

#[test]
fn gpu_machines_and_no_others_have_gpus() {
    for entry in catalogue().types() {
        let n_gpus = entry.resources.get("nvidia.com/gpu");
        assert_eq!(n_gpus.is_some(), entry.name.starts_with(['g', 'p']), "{}", entry.name);
        assert!(n_gpus.is_none_or(|n| !n.is_zero()), "{}", entry.name);
    }
}

#[test]
fn nodes_are_labelled_with_what_the_machine_is() {
    let catalogue = catalogue();
    let offering = &find(&catalogue, "r6a.4xlarge").offerings[0];
    let labels = [
        (label::INSTANCE_FAMILY, "r6a"),
        (label::INSTANCE_SIZE, "4xlarge"),
        (label::INSTANCE_GENERATION, "6"),
        (label::INSTANCE_CPU, "16"),
        (label::INSTANCE_MEMORY, "131072"),
    ];
    for (key, value) in labels {
        assert_eq!(offering.single_value(key), Some(value));
    }
}
