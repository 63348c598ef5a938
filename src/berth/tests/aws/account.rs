//! What is put into an account is in its catalogue, field by field, and counts can be refreshed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::emulator::{Emulator, TempFile};
use crate::put::reservations;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn requirement<'a>(offering: &'a Value, key: &str) -> Option<&'a str> {
    let found = offering["Requirements"].as_array()?.iter().find(|r| r["key"] == key)?;
    found["values"][0].as_str()
}

/// Reserved offerings by id, each with its type's name.
fn reserved(catalogue: &Value) -> BTreeMap<String, (String, Value)> {
    let mut found = BTreeMap::new();
    for entry in catalogue.as_array().unwrap() {
        for offering in entry["offerings"].as_array().unwrap() {
            if requirement(offering, "karpenter.sh/capacity-type") == Some("reserved") {
                let id = requirement(offering, "karpenter.k8s.aws/capacity-reservation-id").unwrap();
                let before = found.insert(id.to_owned(), (text(entry, "name").to_owned(), offering.clone()));
                assert!(before.is_none(), "{id} is there twice");
            }
        }
    }
    found
}

/// Why a reservation is not in the catalogue.
fn left_out(put: &Value) -> Option<&'static str> {
    match text(put, "State") {
        "expired" | "cancelled" | "failed" | "payment-failed" => return Some("that are over"),
        _ => {}
    }
    if text(put, "InstancePlatform") != "Linux/UNIX" {
        return Some("for other operating systems");
    }
    if text(put, "Tenancy") == "dedicated" {
        return Some("on dedicated hardware");
    }
    if put.get("OutpostArn").is_some() {
        return Some("on Outposts");
    }
    if put.get("PlacementGroupArn").is_some() {
        return Some("in placement groups");
    }
    (text(put, "InstanceType") == "q1.nobody-knows").then_some("of types that their zone does not offer")
}

fn assert_is(put: &Value, (name, offering): &(String, Value), zone_ids: &BTreeMap<&str, &str>) {
    let details = &offering["Reservation"];
    let owner = if put.get("OwnerId").is_some() { text(put, "OwnerId") } else { "123456789012" };
    let zone = text(put, "AvailabilityZone");
    let tags: BTreeMap<&str, &str> =
        put["Tags"].as_array().unwrap().iter().map(|tag| (text(tag, "Key"), text(tag, "Value"))).collect();
    assert_eq!(name, text(put, "InstanceType"));
    assert_eq!(offering["ReservationCapacity"], put["AvailableInstanceCount"], "{put}");
    assert_eq!(requirement(offering, "topology.kubernetes.io/zone"), Some(zone));
    assert_eq!(requirement(offering, "topology.k8s.aws/zone-id"), zone_ids.get(zone).copied());
    assert_eq!(requirement(offering, "karpenter.k8s.aws/capacity-reservation-type"), put["ReservationType"].as_str());
    let is_interruptible = (put["Interruptible"] == true).to_string();
    assert_eq!(
        requirement(offering, "karpenter.k8s.aws/capacity-reservation-interruptible"),
        Some(is_interruptible.as_str())
    );
    assert_eq!(details["TotalInstances"], put["TotalInstanceCount"]);
    assert_eq!(text(details, "OwnerID"), owner);
    assert_eq!(text(details, "SharedWith"), if owner == "123456789012" { "" } else { "123456789012" });
    assert_eq!(text(details, "State"), text(put, "State"));
    assert_eq!(text(details, "InstanceMatchCriteria"), text(put, "InstanceMatchCriteria"));
    assert_eq!(text(details, "Start"), text(put, "StartDate").replace("+00:00", "Z"));
    assert_eq!(text(details, "End"), text(put, "EndDate").replace("+00:00", "Z"));
    assert_eq!(details["Tags"], json!(tags));
}

const ZONE_IDS: [(&str, &str); 3] =
    [("us-east-1a", "use1-az6"), ("us-east-1b", "use1-az1"), ("us-east-1c", "use1-az2")];

#[test]
fn an_account_with_300_reservations_is_written_field_by_field() {
    let emulator = Emulator::start(1);
    let put = reservations(300);
    // Small pages, and a tenth of the calls throttled.
    emulator.order(&json!({"put": put, "faults": {"page": 47, "throttle": 0.1}}));
    let (catalogue, run) = emulator.catalogue(&[]);
    let found = reserved(&catalogue);
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &put {
        let id = text(one, "CapacityReservationId");
        match (left_out(one), found.get(id)) {
            (Some(why), None) => *skipped.entry(why).or_default() += 1,
            (None, Some(offering)) => assert_is(one, offering, &ZONE_IDS.into()),
            (why, found) => panic!("{id}: left out {why:?}, found {found:?}"),
        }
    }
    assert_eq!(found.len() + skipped.values().sum::<usize>(), 300);
    assert_eq!(skipped.len(), 6, "every reason is met: {skipped:?}");
    for (why, count) in skipped {
        assert!(run.stderr.contains(&format!("{count} {why}")), "{count} {why}: {}", run.stderr);
    }
    assert!(run.stderr.contains("account 123456789012"), "{}", run.stderr);
    assert!(run.stderr.contains("q1.nobody-knows"), "{}", run.stderr);
}

#[test]
fn counts_are_refreshed_and_all_else_stays() {
    let emulator = Emulator::start(2);
    emulator.order(&json!({"put": reservations(300)}));
    let file = TempFile::new("account.json");
    let run = emulator.berth(&["catalog", "--provider", "aws", "--to", file.path()]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let before: Value = serde_json::from_slice(&std::fs::read(&file.0).unwrap()).unwrap();
    // Half of what is free in one is taken, one is freed, and one is new.
    let free = |catalogue: &Value, id: &str| reserved(catalogue)[id].1["ReservationCapacity"].as_u64().unwrap();
    let ids: Vec<String> = reserved(&before).keys().filter(|id| free(&before, id) > 1).take(2).cloned().collect();
    let new = json!({"CapacityReservationId": "cr-0fff", "InstanceType": "m5.xlarge", "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a", "TotalInstanceCount": 9, "AvailableInstanceCount": 9});
    emulator.order(&json!({"take": {&ids[0]: 1, &ids[1]: free(&before, &ids[1])}, "put": [new]}));
    let run = emulator.berth(&["catalog", "--provider", "aws", "--refresh", file.path()]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.contains("3 of these reservations changed"), "{}", run.stderr);
    let after: Value = serde_json::from_slice(&std::fs::read(&file.0).unwrap()).unwrap();
    assert_eq!(free(&after, &ids[0]), free(&before, &ids[0]) - 1);
    assert_eq!(free(&after, &ids[1]), 0);
    assert_eq!(free(&after, "cr-0fff"), 9);
    // A whole catalogue of now is the same, but for the new one's place.
    let (whole, _) = emulator.catalogue(&[]);
    assert_eq!(reserved(&after), reserved(&whole));
    let paid = |catalogue: &Value| -> Vec<Value> {
        let entries = catalogue.as_array().unwrap().iter();
        entries
            .map(|entry| {
                let mut entry = entry.clone();
                let offerings = entry["offerings"].as_array_mut().unwrap();
                offerings.retain(|o| requirement(o, "karpenter.sh/capacity-type") != Some("reserved"));
                entry
            })
            .collect()
    };
    assert_eq!(paid(&after), paid(&before));
}

#[test]
fn an_instance_type_that_no_sdk_has_heard_of_is_in_the_catalogue() {
    let emulator = Emulator::start(3);
    let one = json!({"CapacityReservationId": "cr-1", "InstanceType": "x99q.mystery", "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a", "TotalInstanceCount": 2, "AvailableInstanceCount": 2});
    emulator.order(&json!({"faults": {"mystery": 1}, "put": [one]}));
    let (catalogue, run) = emulator.catalogue(&[]);
    assert_eq!(reserved(&catalogue)["cr-1"].0, "x99q.mystery");
    assert!(
        run.stderr.contains("without an on-demand price, so not offered on demand: ")
            && run.stderr.contains("x99q.mystery")
    );
}

#[test]
fn a_price_list_that_cannot_be_reached_is_replaced_by_the_bundled_one_with_its_date() {
    let emulator = Emulator::start(4);
    let args = ["catalog", "--provider", "aws", "-o", "json"];
    let run = emulator.berth_with(&args, &[("AWS_ENDPOINT_URL_PRICING", "http://127.0.0.1:9")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let note = "on-demand prices are the bundled ones of 2026-07-20, as the price list cannot be reached";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let catalogue: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(catalogue[0]["notes"], json!([note]));
    let asked = emulator.berth(&[&args[..], &["--bundled-prices"]].concat());
    assert!(asked.stderr.contains("the bundled ones of 2026-07-20, asked for"), "{}", asked.stderr);
}

#[test]
fn a_network_without_sts_gives_the_catalogue_all_the_same() {
    let emulator = Emulator::start(7);
    emulator.order(&json!({"put": reservations(40)}));
    let (whole, _) = emulator.catalogue(&[]);
    let args = ["catalog", "--provider", "aws", "-o", "json"];
    let run = emulator.berth_with(&args, &[("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("account unknown, as STS cannot be reached"), "{}", run.stderr);
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(reserved(&found).len(), reserved(&whole).len());
}

#[test]
fn flags_and_a_node_class_change_what_pods_may_use() {
    let emulator = Emulator::start(5);
    let m5 = |args: &[&str]| {
        let (catalogue, _) = emulator.catalogue(args);
        catalogue.as_array().unwrap().iter().find(|entry| entry["name"] == "m5.xlarge").unwrap()["resources"].clone()
    };
    assert_eq!(
        m5(&[]),
        json!({"cpu": "3920m", "memory": "14162Mi", "pods": "58", "ephemeral-storage": "17Gi",
        "vpc.amazonaws.com/pod-eni": "18"})
    );
    let class = TempFile::new("class.yaml");
    let text = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  \
                amiSelectorTerms: [{alias: bottlerocket@latest}]\n  kubelet: {maxPods: 30}\n  \
                blockDeviceMappings: [{deviceName: /dev/xvdb, ebs: {volumeSize: 100Gi}}]\n";
    std::fs::write(&class.0, text).unwrap();
    let found = m5(&["-f", class.path(), "--system-reserved", "cpu=20m"]);
    assert_eq!((&found["pods"], &found["cpu"]), (&json!("30"), &json!("3900m")));
    assert_eq!((&found["memory"], &found["ephemeral-storage"]), (&json!("14470Mi"), &json!("89Gi")));
}
