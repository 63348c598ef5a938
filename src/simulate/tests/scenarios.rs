//! Scenarios, from the file to the report.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

mod common;
#[path = "common/deployment.rs"]
mod deployment;

use std::path::Path;

use berth_simulate::{Outcome, Provenance, Report, Simulation, Variation, run_all, variants};

use common::Folder;
use deployment::{deployment, of_one_pool};

/// Two types in one zone, and two slots of the larger one.
const CATALOGUE: &str = "
- name: big
  architecture: amd64
  operatingSystems: [linux]
  resources: {cpu: '4', memory: 16Gi, pods: '20'}
  offerings:
  - {Price: 0.4, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - {Price: 0.4, ReservationCapacity: 2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: berth.sh/capacity-reservation-id, operator: In, values: [cr]}]}
";

fn scenario(capacity_types: &str, replicas: u32, more: &str) -> String {
    format!(
        "apiVersion: berth.sh/v1alpha1
kind: Scenario
duration: 30m
seed: 3
instanceTypes: catalogue.yaml
reservationPrices: {{cr: 0.3}}
objects:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {{name: all}}
  spec:
    disruption: {{consolidateAfter: 30s, budgets: [{{nodes: 100%}}]}}
    template:
      spec:
        nodeClassRef: {{group: berth.sh, kind: FakeNodeClass, name: default}}
        requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity_types}]}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {{name: web}}
  spec:
    replicas: {replicas}
    selector: {{matchLabels: {{app: web}}}}
    template:
      metadata: {{labels: {{app: web}}}}
      spec:
        containers:
        - {{name: web, image: i, resources: {{requests: {{cpu: '3'}}}}}}
{more}"
    )
}

fn read(folder: &Folder, text: &str) -> Simulation {
    folder.write("catalogue.yaml", CATALOGUE);
    Simulation::read(&folder.write("scenario.yaml", text)).unwrap()
}

fn run(folder: &Folder, text: &str) -> Outcome {
    read(folder, text).run().unwrap()
}

/// Runs a scenario beside the catalogue that the folder has: so many pods run at its end, and none waits.
fn run_to_end(folder: &Folder, text: &str, running: u32) -> Outcome {
    let outcome = Simulation::read(&folder.write("scenario.yaml", text)).unwrap().run().unwrap();
    assert_eq!(outcome.samples.last().map(|known| (known.running, known.pending)), Some((running, 0)));
    outcome
}

fn json(outcome: Outcome) -> String {
    let mut out = Vec::new();
    Report::new("scenario.yaml", vec![outcome]).write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn is_about(found: f64, expected: f64) -> bool {
    (found - expected).abs() < expected / 50.0
}

#[test]
fn the_same_scenario_gives_the_same_bytes() {
    let folder = Folder::new("same");
    let more = "cloud: {bootJitter: 20s, spotInterruptionWithinAnHour: 0.9, deathWithinAnHour: 0.5}
events:
- {at: 5m, scale: {name: web, replicas: 6}}
- {at: 12m, scale: {name: web, replicas: 2}}
- {at: 15m, kill: {}}
";
    let text = scenario("reserved, spot", 3, more);
    let (first, second) = (run(&folder, &text), run(&folder, &text));
    assert!(first.nodes.launched >= 4, "{first:?}");
    assert_eq!(json(first), json(second));
}

#[test]
fn slots_of_a_reservation_among_the_objects_are_there_from_the_start() {
    let folder = Folder::new("object");
    let reservation = "- apiVersion: berth.sh/v1alpha1
  kind: FakeCapacityReservation
  metadata: {name: cr-more}
  spec: {instanceTypes: [big], zones: [a], count: 1}
";
    let outcome = run(&folder, &scenario("reserved, on-demand", 3, reservation));
    let used: f64 = outcome.reservations.iter().map(|own| own.used).sum();
    assert_eq!(outcome.nodes.launched, 3, "{outcome:?}");
    assert!(is_about(used, 1.5) && outcome.cost.nodes < 1e-6, "{:?} {:?}", outcome.reservations, outcome.cost);
}

#[test]
fn running_instances_come_under_a_reservation_as_the_cloud_of_the_scenario_has_it() {
    let folder = Folder::new("adoption");
    let launched = |adoption: &str| {
        let more = format!(
            "- apiVersion: berth.sh/v1alpha1
  kind: FakeCapacityReservation
  metadata: {{name: cr-late}}
  spec: {{instanceTypes: [big], zones: [a], count: 0, matching: Open}}
cloud: {{reservationAdoption: {adoption}}}
events:
- {{at: 2m, reservation: {{id: cr, count: 0}}}}
- {{at: 5m, reservation: {{id: cr-late, count: 3}}}}
"
        );
        let outcome = run(&folder, &scenario("reserved, on-demand", 3, &more));
        assert!(outcome.is_complete(), "{outcome:?}");
        let used: f64 = outcome.reservations.iter().map(|own| own.used).sum();
        assert!(used > 1.0, "{adoption}: {:?}", outcome.reservations);
        outcome.nodes.launched
    };
    assert_eq!(launched("Relabel"), 3, "all stay where they are");
    assert_eq!(launched("Never"), 6, "each is replaced by one on a slot");
}

#[test]
fn an_interruptible_reservation_takes_its_instances_back_in_a_scenario() {
    let folder = Folder::new("interruptible");
    let launched = |events: &str| {
        let more = format!(
            "- apiVersion: berth.sh/v1alpha1
  kind: FakeCapacityReservation
  metadata: {{name: cr-back}}
  spec: {{instanceTypes: [big], zones: [a], count: 2, type: Interruptible}}
events:
- {{at: 0s, reservation: {{id: cr, count: 0}}}}
{events}"
        );
        let outcome = run(&folder, &scenario("reserved, on-demand", 2, &more));
        assert!(outcome.is_complete(), "{outcome:?}");
        (outcome.nodes.launched, outcome.nodes.interrupted, outcome.pods.evictions)
    };
    assert_eq!(launched(""), (2, 0, 0));
    // One slot goes: its pod moves to a node that is bought.
    assert_eq!(launched("- {at: 10m, reservation: {id: cr-back, count: 1}}\n"), (3, 1, 1));
    // One instance is taken, and its slot stays: what takes its place is bought, and moves to the slot once it is free.
    let (launched, interrupted, _) = launched("- {at: 10m, interrupt: {count: 1}}\n");
    assert!((3..=4).contains(&launched) && interrupted == 1, "{launched} {interrupted}");
}

#[test]
fn slots_are_paid_for_used_or_not_and_other_nodes_while_they_run() {
    let folder = Folder::new("cost");
    let outcome = run(&folder, &scenario("reserved, on-demand", 3, ""));
    // Two nodes on slots and one that is bought, for half an hour.
    assert_eq!(outcome.nodes.launched, 3, "{outcome:?}");
    assert!(is_about(outcome.cost.nodes, 0.2), "{:?}", outcome.cost);
    assert!((outcome.cost.reservations - 0.3).abs() < 1e-6, "{:?}", outcome.cost);
    assert!(is_about(outcome.cost.list_price, 0.6), "{:?}", outcome.cost);
    assert!(is_about(outcome.cost.without_reservations, 0.6), "{:?}", outcome.cost);
    let used = &outcome.reservations[0];
    assert!((used.slot_hours - 1.0).abs() < 1e-6 && is_about(used.used, 1.0), "{used:?}");
    assert!(outcome.is_complete());
    // They waited for their nodes to boot.
    assert_eq!(outcome.pods.waited[0].pods, 3);
    assert!(outcome.pods.waited[0].median >= 45.0, "{:?}", outcome.pods);
    assert_eq!(outcome.pods.waited[1].reason, "a new node");
}

#[test]
fn a_report_says_what_it_was_made_of_and_says_it_again_when_it_is_shown_again() {
    let folder = Folder::new("made-of");
    let simulation = read(&folder, &scenario("reserved, on-demand", 2, ""));
    let provenance = Provenance::of("scenario.yaml", &simulation);
    let made = (provenance.version.as_str(), provenance.catalogue.as_str(), provenance.inputs.as_slice());
    assert_eq!(made, (env!("CARGO_PKG_VERSION"), "catalogue.yaml", &["scenario.yaml".to_owned()][..]));
    let report = Report::new("scenario.yaml", vec![simulation.run().unwrap()]).made_of(Some(provenance));
    let written = |report: &Report| {
        let [mut json, mut table, mut page] = [const { Vec::new() }; 3];
        report.write_json(&mut json).unwrap();
        report.write_tables(&mut table).unwrap();
        report.write_html(&mut page).unwrap();
        [json, table, page].map(|text| String::from_utf8(text).unwrap())
    };
    let [json, table, page] = written(&report);
    assert!(table.ends_with(concat!("Made by:    berth ", env!("CARGO_PKG_VERSION"), "\n")), "{table}");
    assert!(table.contains("\nMADE OF\nInputs:     scenario.yaml\nCatalogue:  catalogue.yaml\n"), "{table}");
    assert!(page.contains("<p class=\"note\">Catalogue: catalogue.yaml</p>"), "{page}");
    let again = Report::read(&folder.write("report.json", &json)).unwrap().unwrap();
    assert_eq!(written(&again), [json, table, page]);
}

#[test]
fn fewer_slots_are_told_with_the_difference_in_dollars() {
    let folder = Folder::new("vary");
    let simulation = read(&folder, &scenario("reserved, on-demand", 2, ""));
    let variation: Variation = "reservation.cr=2,0".parse().unwrap();
    let all = variants(&simulation, &[variation]).unwrap();
    let report = Report::new("scenario.yaml", run_all(&all, 2).unwrap());
    let [two, none] = &report.variants[..] else { panic!("{report:?}") };
    assert_eq!((two.variant.as_str(), none.variant.as_str()), ("cr=2", "cr=0"));
    assert!((two.cost.total - 0.3).abs() < 1e-6, "{:?}", two.cost);
    assert!(is_about(none.cost.total, 0.4), "{:?}", none.cost);
    assert!((report.differences[0].total - (none.cost.total - two.cost.total)).abs() < 1e-6);
    let mut tables = Vec::new();
    report.write_tables(&mut tables).unwrap();
    let tables = String::from_utf8(tables).unwrap();
    assert!(tables.starts_with("\nCOMPARISON\n") && tables.contains("more than the first"), "{tables}");
    let mut page = Vec::new();
    report.write_html(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<svg") && !page.contains("<script") && !page.contains("http://"), "no plot, or not alone");
    // What was written as JSON is read as the same report.
    let mut written = Vec::new();
    report.write_json(&mut written).unwrap();
    let written = String::from_utf8(written).unwrap();
    let again = Report::read(&folder.write("report.json", &written)).unwrap().expect("a report");
    let mut page_again = Vec::new();
    again.write_html(&mut page_again).unwrap();
    assert_eq!(String::from_utf8(page_again).unwrap(), page);
    let broken = folder.write("broken.json", &written.replacen("\"cost\"", "\"costs\"", 1));
    let error = Report::read(&broken).unwrap_err().to_string();
    assert!(error.contains("broken.json: line ") && error.contains("missing field `cost`"), "{error}");
    assert_eq!(Report::read(&folder.write("scenario.json", "{\"kind\": \"Scenario\"}")).unwrap(), None);
}

#[test]
fn a_pod_of_a_trace_that_loses_its_node_comes_again_with_the_time_that_it_had_left() {
    let folder = Folder::new("trace");
    folder.write(
        "pods.jsonl",
        "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}
{\"template\":\"batch\",\"pod\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]}}}
{\"at\":0,\"create\":\"batch\",\"name\":\"one\",\"runsFor\":900}
",
    );
    let outcome = run(&folder, &scenario("spot", 0, "traces: [pods.jsonl]\nevents:\n- {at: 5m, interrupt: {}}\n"));
    // It comes, loses its node, comes again, and ends.
    assert_eq!((outcome.pods.total, outcome.nodes.interrupted), (2, 1), "{outcome:?}");
    assert!(outcome.is_complete());
    let ran = outcome.pods.pod_days * 24.0 * 3600.0;
    assert!((900.0..1400.0).contains(&ran), "{ran}");
    let last = outcome.samples.last().unwrap();
    assert_eq!((last.running, last.pending), (0, 0));
}

/// The regression: where the template did not say `restartPolicy: Never`, pods began again for ever.
#[test]
fn pods_of_a_trace_end_whatever_their_restart_policy() {
    let folder = Folder::new("restarts");
    for policy in ["", "\"restartPolicy\":\"Always\",", "\"restartPolicy\":\"OnFailure\","] {
        let template = "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]";
        folder.write(
            "pods.jsonl",
            &format!(
                "{{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}}\n\
                 {{\"template\":\"a\",\"pod\":{{\"spec\":{{{policy}{template}}}}}}}\n\
                 {{\"at\":0,\"create\":\"a\",\"name\":\"one\",\"runsFor\":300}}\n"
            ),
        );
        let outcome = run(&folder, &scenario("spot", 0, "traces: [pods.jsonl]\nevents: []\n"));
        let ran = outcome.pods.pod_days * 24.0 * 3600.0;
        assert!((300.0..320.0).contains(&ran), "{policy}: {ran}");
    }
}

/// The regression: the first pod that a quota refused ended the whole simulation.
#[test]
fn pods_of_a_trace_that_a_quota_keeps_out_come_once_others_have_gone() {
    let folder = Folder::new("quota");
    folder.write(
        "pods.jsonl",
        "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}
{\"template\":\"a\",\"pod\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]}}}
{\"template\":\"b\",\"pod\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"5\"}}}]}}}
{\"at\":0,\"create\":\"a\",\"name\":\"one\",\"runsFor\":300}
{\"at\":10,\"create\":\"a\",\"name\":\"two\",\"runsFor\":300}
{\"at\":20,\"create\":\"b\",\"name\":\"never\",\"runsFor\":300}
{\"at\":30,\"create\":\"a\",\"name\":\"given-up\",\"runsFor\":300}
{\"at\":40,\"delete\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"namespace\":\"default\",\"name\":\"given-up\"}}
",
    );
    let quota = "traces: [pods.jsonl]
events: []
";
    let objects = "- {apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {pods: '1', requests.cpu: '4'}}}\n";
    let outcome = run(&folder, &scenario("spot", 0, &format!("{objects}{quota}")));
    assert_eq!(outcome.pods.total, 2, "{outcome:?}");
    let ran = outcome.pods.pod_days * 24.0 * 3600.0;
    assert!((600.0..700.0).contains(&ran), "one after the other: {ran}");
    let note = outcome.notes.iter().find(|note| note.contains("kept out")).unwrap();
    assert!(note.starts_with("1 pod of a trace was kept out to the end: default/never: "), "{note}");
}

/// The regression: the pod came back, and was paid for to the end.
#[test]
fn what_is_deleted_or_scaled_is_of_the_default_namespace_where_none_is_named() {
    let folder = Folder::new("no-namespace");
    for namespace in ["", "\"namespace\":\"\",", "\"namespace\":\"default\","] {
        let trace = "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}
{\"template\":\"a\",\"pod\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]}}}
{\"at\":0,\"create\":\"a\",\"name\":\"one\"}
{\"at\":300,\"delete\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",NAMESPACE\"name\":\"one\"}}
{\"at\":600,\"create\":\"a\",\"name\":\"one\",\"runsFor\":60}
";
        folder.write("pods.jsonl", &trace.replace("NAMESPACE", namespace));
        let outcome = run(&folder, &scenario("spot", 0, "traces: [pods.jsonl]\nevents: []\n"));
        let ran = outcome.pods.pod_days * 24.0 * 3600.0;
        assert!(outcome.pods.total == 2 && (250.0..370.0).contains(&ran), "{namespace}: {ran} {outcome:?}");
    }
}

/// The regression: the first pod that could not come again ended the whole simulation, and pods that controllers could not make
/// were not told at all.
#[test]
fn pods_that_cannot_be_made_are_told_and_end_nothing() {
    let folder = Folder::new("not-made");
    folder.write(
        "pods.jsonl",
        "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}
{\"at\":0,\"apply\":{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"q\"}}}
{\"template\":\"a\",\"pod\":{\"metadata\":{\"namespace\":\"q\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]}}}
{\"at\":1,\"create\":\"a\",\"name\":\"one\"}
{\"at\":300,\"delete\":{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"name\":\"q\"}}
",
    );
    let outcome = run(&folder, &scenario("spot", 0, "traces: [pods.jsonl]\nevents: []\n"));
    let note = outcome.notes.iter().find(|note| note.contains("kept out")).unwrap();
    assert!(note.contains("q/one"), "{note}");
    let objects = "- {apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {pods: '1'}}}\n";
    let outcome = run(&folder, &scenario("spot", 4, objects));
    assert!(!outcome.is_complete());
    let [missing] = &outcome.unplaced[..] else { panic!("{outcome:?}") };
    assert_eq!(missing.pods, 3);
    assert!(
        missing.reason.contains("could not make its pods") && missing.reason.contains("exceeded quota"),
        "{missing:?}"
    );
}

/// The regression: nodes at rest were looked at every quarter of an hour, so that short-lived ones ended before they were replaced.
#[test]
fn short_lived_nodes_at_rest_are_replaced_before_they_expire() {
    let folder = Folder::new("short");
    let text = scenario("on-demand", 0, "settings: {featureGates: 'StaticCapacity=true'}\n")
        .replace("  spec:\n    disruption", "  spec:\n    replicas: 2\n    disruption")
        .replace("        nodeClassRef", "        expireAfter: 30m\n        nodeClassRef")
        .replace("duration: 30m", "duration: 1h");
    let outcome = run(&folder, &text);
    // Two at once, and two more each time that three quarters of half an hour are over.
    assert_eq!(outcome.nodes.launched, 6, "{outcome:?}");
}

#[test]
fn pods_without_a_place_are_told_with_the_reason() {
    let folder = Folder::new("left");
    let outcome = run(&folder, &scenario("on-demand", 1, "events:\n- {at: 0s, stock: {instanceType: big, left: 0}}\n"));
    assert!(!outcome.is_complete());
    assert_eq!(outcome.unplaced.iter().map(|own| own.pods).sum::<u64>(), 1, "{outcome:?}");
}

#[test]
fn mistakes_name_file_line_field_and_what_was_expected() {
    let folder = Folder::new("mistakes");
    folder.write("catalogue.yaml", CATALOGUE);
    folder.write("end.jsonl", "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\n{\"at\":-1}\n");
    folder.write(
        "twice.jsonl",
        "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\n\
         {\"template\":\"t\",\"pod\":{\"metadata\":{\"namespace\":\"jobs\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}\n\
         {\"at\":1,\"create\":\"t\",\"name\":\"a\",\"runsFor\":60}\n\
         {\"at\":60,\"create\":\"t\",\"name\":\"a\"}\n",
    );
    for (more, expected) in [
        ("events:\n- {at: 5m}\n", ["events[0]: found no action, expected one of scale", "scenario.yaml:30:"]),
        ("events:\n- {at: -5m, kill: {}}\n", ["events[0].at: found -5m, expected a duration", "scenario.yaml:30:"]),
        ("events:\n- {at: 5m, kil: {}}\n", ["events[0].kil: unknown field: did you mean kill?", "scenario.yaml:30:"]),
        ("events:\n- {at: 5m, scale: {name: a, replicas: -1}}\n", ["events[0].scale.replicas", "scenario.yaml:30:"]),
        (
            "events:\n- {at: 5m, scale: {name: a, replicas: 1000000}}\n",
            ["events[0].scale.replicas: found 1000000, expected at most 200000 pods", "scenario.yaml:30:"],
        ),
        (
            "cloud: {deathWithinAnHour: 2}\n",
            ["cloud.deathWithinAnHour: found 2, expected a probability", "scenario.yaml:29:"],
        ),
        ("traces: [none.jsonl]\n", ["traces[0]: found \"none.jsonl\", expected a file", "scenario.yaml:29:"]),
        ("traces: [end.jsonl]\n", ["end.jsonl: line 2: at: found -1, expected seconds", "end.jsonl"]),
        (
            "events:\n- {at: 5m, stock: {instanceType: bigg, left: 0}}\n",
            ["events[0].stock.instanceType: there is no instance type bigg", "did you mean big?"],
        ),
        (
            "events:\n- {at: 5m, price: {instanceType: big, zone: nowhere, dollars: 1}}\n",
            ["events[0].price: big is not offered as on-demand in nowhere", "scenario.yaml:30:"],
        ),
        ("start: 9999-12-30T21:45:00Z\n", ["start: found 9999-12-30T21:45:00Z, expected a start", "scenario.yaml:29:"]),
        (
            "events:\n- {at: 5m, reservation: {id: crr, count: 1}}\n",
            ["scenario.yaml:30: events[0]: reservation.id: found \"crr\", expected", "did you mean cr?"],
        ),
        (
            "events:\n- {at: 5m, price: {instanceType: big, dollars: 1000001}}\n",
            ["events[0].price.dollars: found 1000001, expected dollars an hour, 0 to 1000000", "scenario.yaml:30:"],
        ),
        (
            "settings: {lookPace: -1}\n",
            ["settings.lookPace: found integer `-1`, expected a whole number", "scenario.yaml:29:"],
        ),
        (
            "settings: {offersPeriod: 0s}\n",
            ["settings.offersPeriod: found 0s, expected 1s or more", "scenario.yaml:29:"],
        ),
        ("settings: {featureGates: Fast=true}\n", ["settings.featureGates", "scenario.yaml:29:"]),
        (
            "events:\n- {at: 5m, scale: {nam: web, replicas: 1}}\n",
            ["events[0].scale.nam: unknown field: did you mean name?", "events[0].scale.name: is missing"],
        ),
        (
            "events:\n- {at: 5m, delete: {apiVersion: apps/v1, kind: Deploymnt, name: web}}\n",
            ["events[0].delete.kind: found \"Deploymnt\", expected a kind", "did you mean Deployment?"],
        ),
        (
            "events:\n- {at: 5m, delete: {apiVersion: v1, kind: Deployment, name: web}}\n",
            ["events[0].delete.apiVersion: found \"v1\", expected apps/v1 for kind Deployment", "scenario.yaml:30:"],
        ),
        (
            "events:\n- {at: 5m, delete: {apiVersion: apps/v1, kind: Deployment, name: wep}}\n",
            [
                "scenario.yaml:30: events[0]: delete.name: found \"wep\", expected a Deployment that is there",
                "in namespace default at that time: did you mean web?",
            ],
        ),
        (
            "events:\n- {at: 5m, every: 5m, delete: {apiVersion: apps/v1, kind: Deployment, name: web}}\n",
            ["scenario.yaml:30: events[0]: delete.name: found \"web\"", "expected a Deployment that is there"],
        ),
        (
            "events:\n- {at: 5m, scale: {namespace: shop, name: web, replicas: 2}}\n",
            ["scenario.yaml:30: events[0]: scale.name: found \"web\"", "that is there in namespace shop at that time"],
        ),
        (
            "traces: [twice.jsonl]\n",
            ["twice.jsonl:4: found pod jobs/a, which came before (twice.jsonl:3) and is there yet", "twice.jsonl"],
        ),
        (
            "instanceTypes: /dev/zero\n",
            ["instanceTypes: found \"/dev/zero\", which cannot be read: it is longer than 268435456 bytes", "scenario"],
        ),
    ] {
        let has_own_types = more.starts_with("instanceTypes");
        let mut text = scenario("on-demand", 0, more);
        if has_own_types {
            text = text.replacen("instanceTypes: catalogue.yaml\n", "", 1);
        }
        let path = folder.write("scenario.yaml", &text);
        let error = Simulation::read(&path).unwrap_err().to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{expected:?} is not in:\n{error}");
    }
}

#[test]
fn what_a_scenario_misspells_comes_before_what_it_lacks() {
    let folder = Folder::new("misspelt");
    folder.write("catalogue.yaml", CATALOGUE);
    let misspelt = scenario("on-demand", 0, "").replacen("duration:", "lenght:", 1);
    let error = Simulation::read(&folder.write("scenario.yaml", &misspelt)).unwrap_err().to_string();
    let first = error.lines().next().unwrap_or_default();
    assert!(first.contains("lenght: unknown field") && error.contains("scenario.yaml:3:"), "{error}");
    assert!(error.contains("duration: is missing"), "{error}");
    let inline = scenario("on-demand", 0, "").replace("kind: NodePool", "kind: NodePol");
    let error = Simulation::read(&folder.write("scenario.yaml", &inline)).unwrap_err().to_string();
    assert!(error.contains("objects[0]"), "{error}");
    let error = Simulation::read(Path::new("none.yaml")).unwrap_err().to_string();
    assert!(error.starts_with("none.yaml: cannot be read"), "{error}");
}

#[test]
fn a_trace_that_says_no_sense_is_refused_with_its_line() {
    let folder = Folder::new("traces");
    let head = "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\n";
    let pod = "{\"template\":\"a\",\"pod\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}\n";
    for (lines, expected) in [
        ("", "the whole file: expected something that happens, or an end, after second 0"),
        (
            "{\"at\":5,\"end\":true}\n{\"at\":9,\"end\":true}\n",
            "line 3: end: found a second one, expected one: line 2 has it",
        ),
        (
            "{\"at\":5,\"end\":true}\n{\"at\":9,\"create\":\"a\",\"name\":\"x\"}\n",
            "line 3: at: found 9, expected at most 5, the end in line 2",
        ),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"x\"}\n{\"at\":5,\"end\":true}\n",
            "line 4: at: found 5, expected 9 or more: something happens then",
        ),
        (
            "{pod}{\"at\":1e300,\"create\":\"a\",\"name\":\"x\"}\n",
            "line 3: at: found 1e300, expected seconds after the start",
        ),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"x\",\"runsFor\":-3}\n",
            "line 3: runsFor: found -3, expected seconds, 0 or more and less than 1e10: a pod ends after it came",
        ),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"x\",\"end\":true}\n",
            "line 3: found create and end, expected one of them",
        ),
        ("{\"at\":9,\"runsFor\":5,\"end\":true}\n", "line 2: runsFor: expected create beside it"),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"X y\"}\n",
            "line 3: name: found \"X y\", expected a name of a-z 0-9 - .",
        ),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"x\",\"runfor\":1}\n",
            "line 3: column 40: unknown field `runfor`, expected one of `apiVersion`",
        ),
        ("{\"at\":9,\"creat\":\"a\"}\n", ": did you mean create?"),
        (
            "{\"at\":9,\"stock\":{\"instanceType\":\"m5.xlarg\",\"left\":0}}\n",
            "trace.jsonl:2: there is no instance type m5.xlarg, expected one of the catalogue's",
        ),
        (
            "{pod}{\"at\":9,\"create\":\"a\",\"name\":\"x\",\"runsFor\":9e9}\n",
            "the whole file: found that it lasts 9000000009 seconds, expected at most 34560000",
        ),
        (
            "{\"at\":9,\"scale\":{\"namespace\":\"a\",\"name\":\"b\",\"replicas\":-3}}\n",
            "line 2: scale.replicas: found -3, expected a count from 0 to 200000",
        ),
    ] {
        let path = folder.write("trace.jsonl", &format!("{head}{}", lines.replace("{pod}", pod)));
        let error = Simulation::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
    }
    for (first, expected) in [
        ("what is this?", "trace.jsonl: line 1: expected {\"apiVersion\""),
        (
            "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\",\"scenario\":{\"settings\":{\"lookPac\":1}}}",
            "trace.jsonl: line 1: scenario.settings.lookPac: unknown field: did you mean lookPace?",
        ),
        // What a recorder says of the time is no more to be trusted than a scenario: the clock went on without end.
        (
            "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\",\"start\":\"9999-12-30T21:59:59Z\"}",
            "found 9999-12-30T21:59:59Z, expected a start from which the days end before the year 10000",
        ),
    ] {
        let path = folder.write("trace.jsonl", &format!("{first}\n{{\"at\":9,\"end\":true}}\n"));
        let error = Simulation::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected:?} is not in:\n{error}");
    }
}

#[test]
fn an_event_after_the_end_is_warned_of_whatever_its_own_end_is() {
    let folder = Folder::new("until");
    let text = scenario("on-demand", 0, "events:\n- {at: 90m, every: 1m, until: 2h, kill: {}}\n");
    let warnings = read(&folder, &text).warnings().join("\n");
    assert!(warnings.contains("events[0] is at the end or after it, so nothing comes of it"), "{warnings}");
    let text = scenario("on-demand", 0, "events:\n- {at: 90m, every: 1m, until: 1h, kill: {}}\n");
    let error = Simulation::read(&folder.write("scenario.yaml", &text)).unwrap_err().to_string();
    assert!(error.contains("events[0].until: found 1h, expected a time after at"), "{error}");
}

#[test]
fn traces_with_a_byte_order_mark_or_packed_with_gzip_are_read() {
    let folder = Folder::new("packed");
    let lines = "\u{feff}{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}\r\n{\"at\":60,\"end\":true}\r\n";
    let packed = folder.0.join("trace.jsonl.gz");
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut writer, lines.as_bytes()).unwrap();
    let bytes = writer.finish().unwrap();
    std::fs::write(&packed, &bytes).unwrap();
    for path in [folder.write("trace.jsonl", lines), folder.write("without-ending", lines), packed.clone()] {
        assert_eq!(Simulation::read(&path).unwrap().duration().as_secs(), 60, "{}", path.display());
    }
    std::fs::write(&packed, &bytes[..bytes.len() - 9]).unwrap();
    let error = Simulation::read(&packed).unwrap_err();
    assert!(error.to_string().contains("unable to read") && error.to_string().contains("trace.jsonl.gz"), "{error}");
}

#[test]
fn a_trace_alone_lasts_until_the_end_that_it_names_whatever_runs_for_longer() {
    let folder = Folder::new("named-end");
    let text = "{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}
{\"template\":\"a\",\"pod\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}
{\"at\":1,\"create\":\"a\",\"name\":\"x\",\"runsFor\":86400}
{\"at\":60,\"end\":true}
";
    assert_eq!(Simulation::read(&folder.write("trace.jsonl", text)).unwrap().duration().as_secs(), 60);
}

#[test]
fn annotations_of_pods_that_are_no_durations_are_warned_of() {
    let folder = Folder::new("no-duration");
    let deployment = "apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}}, \
        template: {metadata: {labels: {a: b}, annotations: {berth.sh/runs-for: soon}}, \
        spec: {containers: [{name: c, image: i}]}}}";
    let text = scenario("on-demand", 0, &format!("events:\n- {{at: 1m, apply: {{objects: [{{{deployment}}}]}}}}\n"));
    let warnings = read(&folder, &text).warnings().join("\n");
    let expected =
        "Deployment web: berth.sh/runs-for is \"soon\", expected a duration such as 90s or 1m30s; it is passed over";
    assert!(warnings.contains(expected), "{warnings}");
    let trace = r#"{"apiVersion":"berth.sh/v1alpha1","kind":"Trace"}
{"template":"a","pod":{"metadata":{"annotations":{"berth.sh/stops-after":"5"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}
{"at":1,"create":"a","name":"x","runsFor":6}
{"at":2,"create":"a","name":"y","runsFor":6}
"#;
    let simulation = Simulation::read(&folder.write("trace.jsonl", trace)).unwrap();
    let warnings: Vec<&String> = simulation.warnings().iter().filter(|told| told.contains("stops-after")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn what_will_not_happen_and_what_is_not_there_is_warned_of() {
    let folder = Folder::new("warned");
    let text = scenario("on-demand", 0, "events:\n- {at: 5h, kill: {}}\n").replace("{cr: 0.3}", "{cr: 0.3, cs: 1}");
    let warnings = read(&folder, &text).warnings().join("\n");
    assert!(warnings.contains("events[0] is at the end or after it, so nothing comes of it"), "{warnings}");
    assert!(warnings.contains("reservationPrices.cs: there is no reservation of this id"), "{warnings}");
    assert!(!warnings.contains("reservationPrices.cr:"), "{warnings}");
    assert!(!warnings.contains("more than once"), "{warnings}");
    let text = scenario("on-demand", 0, "objects:\n").replacen(
        "objects:\n",
        "objects:\n- &ns {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- *ns\n",
        1,
    );
    let text = text.trim_end_matches("objects:\n").to_owned();
    let warnings = read(&folder, &text).warnings().join("\n");
    assert!(warnings.contains("Namespace a: given more than once; the last counts"), "{warnings}");
}

#[test]
fn what_cannot_be_done_when_its_time_comes_names_the_event() {
    let folder = Folder::new("later");
    let text = scenario("on-demand", 0, "events:\n- {at: 1m, scale: {kind: ReplicaSet, name: none, replicas: 1}}\n");
    let error = read(&folder, &text).run().unwrap_err().to_string();
    assert!(error.contains("scenario.yaml:30: events[0]: unable to scale ReplicaSet default/none"), "{error}");
}

#[test]
fn more_pods_than_there_may_be_are_refused_where_they_are_asked_for() {
    let folder = Folder::new("too-many");
    folder.write("catalogue.yaml", CATALOGUE);
    let path = folder.write("scenario.yaml", &scenario("on-demand", 1_000_000, ""));
    let error = Simulation::read(&path).unwrap_err().to_string();
    // The regression: the line was that of the first object, and no field was named.
    let expected = "objects[1].spec.replicas: found 1000000, expected at most 200000 pods at the same time";
    assert!(error.contains(expected) && error.contains("scenario.yaml:22:"), "{error}");
    folder.write("more.yaml", MANY_ELSEWHERE);
    let path = folder.write("scenario.yaml", &scenario("on-demand", 150_000, "manifests: [more.yaml]\n"));
    let error = Simulation::read(&path).unwrap_err().to_string();
    let expected = "objects[1].spec.replicas: found 150000, which makes 250000 pods at the same time, expected at most";
    assert!(error.contains(expected), "{error}");
    // Two that are few enough alone are too many together.
    let more =
        "events: [{at: 1m, scale: {name: web, replicas: 150000}}, {at: 2m, scale: {name: other, replicas: 60000}}]";
    let path = folder.write("scenario.yaml", &scenario("on-demand", 1, more));
    let error = Simulation::read(&path).unwrap_err().to_string();
    let expected = "events[1].scale.replicas: found 60000, which makes 210000 pods at the same time";
    assert!(error.contains(expected), "{error}");
    let apply = "events:\n- {at: 1m, apply: {manifests: [more.yaml]}}\n- {at: 2m, apply: {manifests: [again.yaml]}}\n";
    folder.write("again.yaml", &MANY_ELSEWHERE.replace("name: more", "name: again").replace("100000", "150000"));
    let path = folder.write("scenario.yaml", &scenario("on-demand", 1, apply));
    let error = Simulation::read(&path).unwrap_err().to_string();
    let expected = "events[1]: found 150000 as spec.replicas of Deployment default/again, which makes 250001 pods";
    assert!(error.contains(expected), "{error}");
}

const MANY_ELSEWHERE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: more}
spec:
  replicas: 100000
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec:
      containers:
      - {name: more, image: i}
";

#[test]
fn others_use_no_more_of_a_reservation_than_it_holds() {
    let folder = Folder::new("others");
    folder.write("catalogue.yaml", CATALOGUE);
    let error_of = |events: &str| {
        let path = folder.write("scenario.yaml", &scenario("on-demand", 0, &format!("events:\n{events}")));
        Simulation::read(&path).map_err(|error| error.to_string())
    };
    // What an event says, of the count that there is by then.
    for events in [
        "- {at: 1m, reservation: {id: cr, count: 1, usedByOthers: 5}}\n",
        "- {at: 1m, reservation: {id: cr, count: 1}}\n- {at: 2m, reservation: {id: cr, usedByOthers: 5}}\n",
    ] {
        let error = error_of(events).unwrap_err();
        let expected = "reservation.usedByOthers: found 5, expected at most count, which is 1 then";
        assert!(error.contains(expected) && error.contains("scenario.yaml:3"), "{error}");
    }
    // Fewer than others use is what its owner may make of it.
    let fewer = "- {at: 1m, reservation: {id: cr, usedByOthers: 2}}\n- {at: 2m, reservation: {id: cr, count: 1}}\n";
    assert_eq!(error_of(fewer).unwrap().warnings(), Vec::<String>::new());
    let object = "- {apiVersion: berth.sh/v1alpha1, kind: FakeCapacityReservation, metadata: {name: more},
  spec: {instanceTypes: [big], zones: [a], count: 1, usedByOthers: 5}}\n";
    let path = folder.write("scenario.yaml", &scenario("on-demand", 0, object));
    let warnings = Simulation::read(&path).unwrap().warnings().join("\n");
    let expected = "FakeCapacityReservation more: spec.usedByOthers: is 5, more than spec.count, 1: no slot is free";
    assert!(warnings.contains(expected), "{warnings}");
}

#[test]
fn a_trace_alone_is_a_scenario() {
    let folder = Folder::new("alone");
    let pod = "{\"metadata\":{\"labels\":{\"app\":\"a\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}}";
    let text = format!(
        "{{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}}\n{{\"template\":\"a\",\"pod\":{pod}}}\n\
         {{\"at\":60,\"create\":\"a\",\"name\":\"x\",\"runsFor\":600}}\n{{\"at\":1200,\"end\":true}}\n"
    );
    let path = folder.write("trace.jsonl", &text);
    let outcome = Simulation::read(&path).unwrap().run().unwrap();
    assert_eq!((outcome.pods.total, outcome.nodes.launched), (1, 1));
    assert!((outcome.hours - 1.0 / 3.0).abs() < 1e-6, "{}", outcome.hours);
}

/// The regression: the manual's own example ended with "namespaces not found", and with a ConfigMap that was not there.
#[test]
fn pods_of_traces_have_their_namespaces_and_what_was_passed_over_may_be_deleted() {
    let folder = Folder::new("namespace");
    let pod = "{\"metadata\":{\"namespace\":\"jobs\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}";
    let map = "\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"";
    let text = format!(
        "{{\"apiVersion\":\"berth.sh/v1alpha1\",\"kind\":\"Trace\"}}\n{{\"template\":\"a\",\"pod\":{pod}}}\n\
         {{\"at\":1,\"create\":\"a\",\"name\":\"x\",\"runsFor\":60}}\n\
         {{\"at\":2,\"apply\":{{{map},\"metadata\":{{\"name\":\"m\"}}}}}}\n\
         {{\"at\":3,\"delete\":{{{map},\"namespace\":\"default\",\"name\":\"m\"}}}}\n{{\"at\":300,\"end\":true}}\n"
    );
    let simulation = Simulation::read(&folder.write("trace.jsonl", &text)).unwrap();
    assert_eq!(simulation.warnings(), ["objects of kind ConfigMap are passed over: nothing here needs them"]);
    let outcome = simulation.run().unwrap();
    assert_eq!((outcome.pods.total, outcome.nodes.launched), (1, 1), "{outcome:?}");
}

/// In virtual time nobody is asked again and again what does not change by itself.
#[test]
fn nodes_drift_once_their_node_class_asks_for_something_else() {
    let folder = Folder::new("drift");
    let change = |spec: &str| {
        format!(
            "events:
- {{at: 12m, apply: {{objects: [{{apiVersion: berth.sh/v1alpha1, kind: FakeNodeClass, metadata: {{name: default}}, spec: {spec}}}]}}}}
"
        )
    };
    for (spec, launched) in [("{image: second}", 2), ("{registrationDelay: 1m}", 1)] {
        let outcome = run(&folder, &scenario("on-demand", 1, &change(spec)));
        assert_eq!(outcome.nodes.launched, launched, "{spec}: {outcome:?}");
    }
}

/// The regression: what an object had at the start stayed, since nobody had applied it.
#[test]
fn what_a_manifest_no_longer_says_goes_when_it_is_applied_again() {
    let folder = Folder::new("apply-again");
    let running = |events: &str| {
        let outcome = run(&folder, &scenario("on-demand", 3, &format!("events:\n{events}")));
        outcome.samples.last().map(|last| (last.running, last.nodes.iter().sum::<u32>()))
    };
    let web = |replicas: &str, resources: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{replicas}selector: {{matchLabels: \
             {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: \
             [{{name: web, image: i{resources}}}]}}}}}}}}"
        )
    };
    let apply = |at: &str, object: &str| format!("- {{at: {at}, apply: {{objects: [{object}]}}}}\n");
    let (three, large) = ("replicas: 3, ", ", resources: {requests: {cpu: '3'}}");
    assert_eq!(running(&apply("5m", &web(three, large))), Some((3, 3)));
    // Without what they request all are on one node; then they request it again.
    assert_eq!(running(&apply("5m", &web(three, ""))), Some((3, 1)));
    let back = apply("5m", &web(three, "")) + &apply("10m", &web(three, large));
    assert_eq!(running(&back), Some((3, 3)));
    assert_eq!(running(&(back + &apply("15m", &web(three, "")))), Some((3, 1)));
    // Without replicas there is one, unless somebody else has said how many.
    assert_eq!(running(&apply("5m", &web("", large))), Some((1, 1)));
    let scaled = "- {at: 2m, scale: {name: web, replicas: 2}}\n".to_owned() + &apply("5m", &web("", large));
    assert_eq!(running(&scaled), Some((2, 2)));
}

/// The regression: a NodePool that was made, or applied later, consolidated as it is written whatever was varied.
#[test]
fn consolidation_is_varied_of_node_pools_that_are_made_or_come_later_too() {
    let folder = Folder::new("consolidation");
    let events = "events:
- {at: 5m, scale: {name: web, replicas: 1}}
";
    let whole = scenario("on-demand", 5, events);
    let (before, rest) = whole.split_once("- apiVersion: karpenter.sh/v1\n").unwrap();
    let (pool, deployment) = rest.split_once("- apiVersion: apps/v1\n").unwrap();
    let made = format!("{before}- apiVersion: apps/v1\n{deployment}");
    let pool = pool.replace('\n', "\n    ");
    let later = format!("{made}- at: 10s\n  apply:\n    objects:\n    - apiVersion: karpenter.sh/v1\n    {pool}\n");
    // With a NodePool that takes nobody nothing is made.
    let nobody = "- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: none}
  spec:
    template:
      spec:
        nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
        taints: [{key: nobody, effect: NoSchedule}]
        requirements: []
";
    let later = later.replacen("objects:\n", &format!("objects:\n{nobody}"), 1);
    for (what, text) in [("written", &whole), ("made", &made), ("later", &later)] {
        let simulation = read(&folder, text);
        let variation: Variation = "consolidation=AsWritten,Never".parse().unwrap();
        let all = variants(&simulation, &[variation]).unwrap();
        let [written, never] = &run_all(&all, 2).unwrap()[..] else { panic!("two variants") };
        let hours = |outcome: &Outcome| outcome.nodes.on_demand_hours + outcome.nodes.spot_hours;
        assert!(hours(written) < hours(never) * 0.8, "{what}: {} and {}", hours(written), hours(never));
        assert_eq!(never.pods.evictions, 0, "{what}");
    }
}

/// Two types whose prices pass each other every ten minutes.
#[test]
fn nodes_follow_every_price_at_no_price_of_evictions_and_stay_at_some() {
    let folder = Folder::new("oscillation");
    let other =
        CATALOGUE.replace("big", "other").replace("Price: 0.4", "Price: 0.42").replace("values: [cr]", "values: [cr2]");
    let events = "events:
- {at: 10m, every: 20m, price: {instanceType: big, dollars: 0.46}}
- {at: 20m, every: 20m, price: {instanceType: big, dollars: 0.4}}
";
    let text = scenario("on-demand", 2, events).replace("duration: 30m", "duration: 2h");
    let text = text.replace("catalogue.yaml", "two.yaml");
    folder.write("two.yaml", &format!("{CATALOGUE}{other}"));
    let variation: Variation = "evictionPrice=0,0.05".parse().unwrap();
    let all = variants(&read(&folder, &text), &[variation]).unwrap();
    let [at_none, at_some] = &run_all(&all, 2).unwrap()[..] else { panic!("two variants") };
    // Each node and its pod are two units of disruption; a move saves four cents.
    assert!(at_none.pods.evictions >= 20, "{:?}", at_none.pods);
    assert_eq!((at_some.pods.evictions, at_some.nodes.launched), (0, 2), "{:?}", at_some.pods);
    let set = text.replacen("objects:\n", "settings: {evictionPrice: 0.05}\nobjects:\n", 1);
    assert_eq!(run(&folder, &set).pods.evictions, 0);
    let wrong = text.replacen("objects:\n", "settings: {evictionPrice: -1}\nobjects:\n", 1);
    let error = Simulation::read(&folder.write("wrong.yaml", &wrong)).unwrap_err().to_string();
    assert!(error.contains("settings.evictionPrice") && error.contains("expected dollars an hour"), "{error}");
}

#[test]
fn karpenters_methods_replace_a_node_by_one_other_at_most() {
    let folder = Folder::new("methods");
    let offering = |dollars: &str| {
        format!(
            "[{{Price: {dollars}, Requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}, \
             {{key: topology.kubernetes.io/zone, operator: In, values: [a]}}]}}]"
        )
    };
    let of_type = |name: &str, cpu: u32, dollars: &str| {
        let resources = format!("{{cpu: '{cpu}', memory: 64Gi, pods: '20'}}");
        let offerings = offering(dollars);
        format!(
            "- {{name: {name}, architecture: amd64, operatingSystems: [linux], resources: {resources}, offerings: {offerings}}}\n"
        )
    };
    folder.write("two.yaml", &(of_type("huge", 16, "1.6") + &of_type("small", 2, "0.2")));
    let text = format!(
        "apiVersion: berth.sh/v1alpha1
kind: Scenario
duration: 40m
instanceTypes: two.yaml
objects:
{}{}events:
- {{at: 10m, delete: {{apiVersion: apps/v1, kind: Deployment, name: heavy}}}}
",
        deployment("heavy", 1, "cpu: 12", ""),
        deployment("web", 2, "cpu: 1500m", "")
    );
    let variation: Variation = "consolidation=AsWritten,KarpentersMethods".parse().unwrap();
    let all = variants(&read(&folder, &text), &[variation]).unwrap();
    let [ours, karpenters] = &run_all(&all, 2).unwrap()[..] else { panic!("two variants") };
    // No one node but a huge one holds both pods of `web`; two small ones do.
    assert_eq!((ours.pods.evictions, ours.nodes.launched), (2, 3));
    assert_eq!((karpenters.pods.evictions, karpenters.nodes.launched), (0, 1));
    assert!(ours.cost.total < karpenters.cost.total * 0.6, "{} and {}", ours.cost.total, karpenters.cost.total);
}

/// The regression: they were in no figure, and a shortage of every day that goes down in the evening was free.
#[test]
fn pods_that_are_scaled_away_before_they_have_a_node_are_told() {
    let folder = Folder::new("in-vain");
    let down = "events:\n- {at: 20m, scale: {name: web, replicas: 2}}\n";
    let outcome = read(&folder, &scenario("reserved", 7, down)).run().unwrap();
    let [row] = &outcome.pods.in_vain[..] else { panic!("{:?}", outcome.pods) };
    assert_eq!((row.pods, row.longest), (5, 1200.0));
    assert!(row.reason.starts_with("NodePool all: "), "{}", row.reason);
    // Five waited for twenty minutes.
    assert!((outcome.pods.waiting_hours - 5.0 / 3.0).abs() < 0.05, "{}", outcome.pods.waiting_hours);
    assert_eq!(outcome.pods.waited[0].pods, 2);
    let mut text = Vec::new();
    Report::new("in-vain", vec![outcome]).write_tables(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("WENT WITHOUT EVER HAVING HAD A NODE"), "{text}");
}

/// The regression: a type that is not sold on demand was worth nothing, and one reservation over several types as much as the
/// cheapest of them.
#[test]
fn slots_cost_the_list_price_of_the_type_that_uses_them() {
    let folder = Folder::new("slot-prices");
    let text = scenario("reserved", 2, "").replace("reservationPrices: {cr: 0.3}\n", "");
    let cost = |catalogue: &str, text: &str| {
        folder.write("catalogue.yaml", catalogue);
        Simulation::read(&folder.write("scenario.yaml", text)).unwrap().run().unwrap()
    };
    let not_on_demand: Vec<&str> = CATALOGUE.lines().filter(|line| !line.contains("[on-demand]")).collect();
    let outcome = cost(&not_on_demand.join("\n"), &text);
    assert!((outcome.cost.reservations - 0.4).abs() < 1e-6, "{:?}", outcome.cost);
    // A smaller and cheaper type of the same reservation, which the pods do not fit.
    let with_small = CATALOGUE.replace("big", "small").replace("cpu: '4'", "cpu: '2'").replace("0.4", "0.2");
    let outcome = cost(&format!("{CATALOGUE}{with_small}"), &text);
    assert!((outcome.cost.reservations - 0.4).abs() < 1e-3, "{:?}", outcome.cost);
    assert!((outcome.reservations[0].price - 0.4).abs() < 1e-2, "{:?}", outcome.reservations);
    // Where nothing is known, that is said.
    let of_none = "\nobjects:\n- {apiVersion: berth.sh/v1alpha1, kind: FakeCapacityReservation, metadata: {name: typo}, \
                   spec: {instanceTypes: [bigg], zones: [a], count: 2}}\n";
    let outcome = cost(CATALOGUE, &text.replacen("\nobjects:\n", of_none, 1));
    let notes = outcome.notes.join("\n");
    assert!(notes.contains("reservation typo: the catalogue knows no price of bigg"), "{notes}");
}

/// The regression: only those of the start could be varied.
#[test]
fn a_reservation_that_is_applied_later_can_be_varied() {
    let folder = Folder::new("vary-later");
    let later = "events:\n- at: 5m\n  apply:\n    objects:\n    - {apiVersion: berth.sh/v1alpha1, \
                 kind: FakeCapacityReservation, metadata: {name: late}, spec: {instanceTypes: [big], zones: [a], count: 4}}\n";
    let simulation = read(&folder, &scenario("on-demand", 1, later));
    let varied: Variation = "reservation.late=100%,50%,1".parse().unwrap();
    let outcomes = run_all(&variants(&simulation, &[varied]).unwrap(), 1).unwrap();
    let hours = |outcome: &Outcome| {
        let own = outcome.reservations.iter().find(|own| own.id == "late");
        own.map_or(0.0, |own| own.slot_hours * 60.0 / 25.0)
    };
    let hours: Vec<f64> = outcomes.iter().map(hours).collect();
    for (found, expected) in hours.iter().zip([4.0, 2.0, 1.0]) {
        assert!((found - expected).abs() < 0.05, "{hours:?}");
    }
}

/// The regression: the later one undid the earlier one, in variants that had both names.
#[test]
fn what_is_varied_already_is_not_varied_again() {
    let folder = Folder::new("vary-twice");
    let simulation = read(&folder, &scenario("on-demand", 1, ""));
    let both = ["seed=1,2", "effort=low", "seed=3"].map(|text| text.parse::<Variation>().unwrap());
    let error = variants(&simulation, &both).unwrap_err().to_string();
    assert_eq!(error, "--vary seed=3: varies the same as --vary seed=1,2, expected all values in one list");
}

/// The regression: what was applied later was undone.
#[test]
fn a_count_is_varied_as_it_is_at_the_start_and_a_share_whenever_it_changes() {
    let folder = Folder::new("vary-apply");
    let of = |count| {
        format!(
            "{{apiVersion: berth.sh/v1alpha1, kind: FakeCapacityReservation, metadata: {{name: own}}, spec: \
             {{instanceTypes: [big], zones: [a], count: {count}}}}}"
        )
    };
    let events = format!("events:\n- {{at: 15m, apply: {{objects: [{}]}}}}\n", of(4));
    let text = scenario("on-demand", 0, &format!("- {}\n{events}", of(2)));
    let varied: Variation = "reservation.own=2,100%,50%,0".parse().unwrap();
    let outcomes = run_all(&variants(&read(&folder, &text), &[varied]).unwrap(), 1).unwrap();
    let hours = |outcome: &Outcome| outcome.reservations.iter().find(|own| own.id == "own").map(|own| own.slot_hours);
    let hours: Vec<f64> = outcomes.iter().map(|outcome| hours(outcome).unwrap()).collect();
    for (found, expected) in hours.iter().zip([1.5, 1.5, 0.75, 1.0]) {
        assert!((found - expected).abs() < 0.02, "{hours:?}");
    }
}

/// What holds of `sandbox` and `run` by flags holds of a scenario by its settings.
#[test]
fn ceilings_and_shares_hold_in_a_scenario() {
    let folder = Folder::new("ceilings");
    let with = |settings: &str| scenario("on-demand", 4, &format!("settings: {{{settings}}}\n"));
    let nodes = |settings: &str| read(&folder, &with(settings)).run().unwrap().nodes.launched;
    assert_eq!(nodes(""), 4);
    assert_eq!(nodes("maxCost: [0.9]"), 2);
    assert_eq!(nodes("maxLaunches: [5000, 3]"), 3);
    assert_eq!(nodes("maxShare: [capacityType=on-demand=0]"), 0);
    for (settings, expected) in [
        ("maxCost: [1, 2, 3]", "settings.maxCost: found 3 numbers, expected at most two"),
        ("maxCost: [-1]", "settings.maxCost[0]: found -1, expected dollars an hour"),
        ("maxShare: [zone]", "settings.maxShare[0]: \"zone\": expected KEY=SHARE"),
        ("schedulerConfig: none.yaml", "settings.schedulerConfig: found \"none.yaml\", expected a file"),
        ("schedulerConfig: {kind: Pod}", "settings.schedulerConfig.kind: KubeSchedulerConfiguration: found \"Pod\""),
    ] {
        folder.write("catalogue.yaml", CATALOGUE);
        let error = Simulation::read(&folder.write("scenario.yaml", &with(settings))).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("scenario.yaml"), "{error}");
    }
}

/// The regression: those that were dead already were picked, too, and nothing was said.
#[test]
fn only_machines_that_live_are_killed() {
    let folder = Folder::new("kill-twice");
    let kills = "events:\n- {at: 5m, kill: {count: 2}}\n- {at: 5m30s, kill: {}}\n";
    let outcome = read(&folder, &scenario("on-demand", 2, kills)).run().unwrap();
    assert_eq!(outcome.nodes.died, 2);
    assert!(outcome.notes.iter().any(|note| note.ends_with("1 × machine wanted, 0 found")), "{:?}", outcome.notes);
}

#[test]
fn what_comes_in_the_last_moment_is_warned_of() {
    let folder = Folder::new("last-moment");
    let trace = r#"{"apiVersion":"berth.sh/v1alpha1","kind":"Trace"}
{"template":"a","pod":{"spec":{"containers":[{"name":"c","image":"i"}]}}}
{"at":60,"create":"a","name":"x"}
"#;
    let simulation = Simulation::read(&folder.write("late.jsonl", trace)).unwrap();
    let expected = "late.jsonl: 1 thing happens at the end or after it, at 60 s, so nothing comes of it";
    assert!(simulation.warnings().iter().any(|told| told == expected), "{:?}", simulation.warnings());
    let longer = folder.write("longer.jsonl", &format!("{trace}{{\"at\":120,\"end\":true}}\n"));
    let warnings = Simulation::read(&longer).unwrap().warnings().to_vec();
    assert!(warnings.iter().all(|told| !told.contains("nothing comes of it")), "{warnings:?}");
}

#[test]
fn nodes_that_no_cloud_has_are_told_to_cost_nothing() {
    let folder = Folder::new("given-nodes");
    let node = "\nobjects:\n- {apiVersion: v1, kind: Node, metadata: {name: old, labels: {karpenter.sh/nodepool: all}}, \
                status: {capacity: {cpu: '4'}, allocatable: {cpu: '4'}}}\n";
    let text = scenario("on-demand", 0, "").replacen("\nobjects:\n", node, 1);
    let notes = read(&folder, &text).run().unwrap().notes.join("\n");
    assert!(notes.contains("1 node of NodePools has no instance in the cloud"), "{notes}");
}

/// A scenario with a discount on all that NodePool `all` launches.
fn discounted(replicas: u32, gate: bool, settings: &str, more: &str) -> String {
    let overlay = "\nobjects:\n- {apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: half}, spec: {requirements: \
                   [{key: karpenter.sh/nodepool, operator: In, values: [all]}], priceAdjustment: '-50%'}}\n";
    let settings = format!("settings: {{featureGates: NodeOverlay={gate}, consolidation: Never{settings}}}\n{more}");
    scenario("on-demand", replicas, &settings)
        .replacen("\nobjects:\n", overlay, 1)
        .replace("reservationPrices: {cr: 0.3}\n", "")
}

/// The regression: decisions were made at the prices that NodeOverlays state, and the bill was not.
#[test]
fn what_node_overlays_say_is_paid_while_they_are_there() {
    let folder = Folder::new("overlay");
    let cost = |gate, more: &str| run(&folder, &discounted(2, gate, "", more)).cost;
    let (without, with) = (cost(false, ""), cost(true, ""));
    assert!(is_about(without.nodes, 0.4) && is_about(with.nodes, 0.2), "{without:?} {with:?}");
    assert!((without.nodes - 2.0 * with.nodes).abs() < 1e-5, "{without:?} {with:?}");
    assert!((without.list_price - 2.0 * with.list_price).abs() < 1e-5, "{without:?} {with:?}");
    // Slots are worth what the same type costs on demand.
    assert!(
        (without.reservations - 0.4).abs() < 1e-6 && (with.reservations - 0.2).abs() < 1e-6,
        "{without:?} {with:?}"
    );
    let doubled = "events:\n- {at: 15m, price: {instanceType: big, capacityType: on-demand, dollars: 0.8}}\n";
    assert!(is_about(cost(true, doubled).nodes, 0.3));
    let deleted = "events:\n- {at: 15m, delete: {apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, name: half}}\n";
    assert!(is_about(cost(true, deleted).nodes, 0.3));
}

/// The regression: while its node was about to be replaced, a node was launched for one of those who wait for good, and the
/// replacement came to nothing, again and again.
#[test]
fn a_node_drifts_away_though_pods_alike_to_its_own_wait_for_good() {
    let folder = Folder::new("alike");
    let rule = |text: &str| {
        let drift = "events:\n- {at: 10m, apply: {objects: [{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: all}, \
                     spec: {disruption: {consolidateAfter: 30s, budgets: [{nodes: 100%}]}, template: {metadata: {labels: {v: '2'}}, \
                     spec: {nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}, requirements: [\
                     {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}]}}\n";
        scenario("on-demand", 3, drift).replace("        containers:", &format!("        {text}\n        containers:"))
    };
    let app = "labelSelector: {matchLabels: {app: web}}";
    let apart = format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: \
         topology.kubernetes.io/zone, {app}}}]}}}}"
    );
    let spread = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, minDomains: 2, topologyKey: topology.kubernetes.io/zone, \
         whenUnsatisfiable: DoNotSchedule, {app}}}]"
    );
    for rules in [apart, spread] {
        let outcome = run(&folder, &rule(&rules));
        let counts = (outcome.nodes.launched, outcome.nodes.most, outcome.pods.evictions);
        assert_eq!(counts, (2, 2, 1), "{rules}");
    }
}

/// The regression: the cloud was asked for what a NodeOverlay adds, had it nowhere, and nothing was ever launched.
#[test]
fn pods_run_on_what_node_overlays_add() {
    let folder = Folder::new("overlay-capacity");
    let text =
        discounted(3, true, "", "").replace("priceAdjustment: '-50%'", "capacity: {example.com/dongle: 2}").replace(
            "requests: {cpu: '3'}",
            "requests: {cpu: '1', example.com/dongle: 1}, limits: {example.com/dongle: 1}",
        );
    let outcome = run(&folder, &text);
    assert_eq!(
        (outcome.nodes.launched, outcome.pods.most_running, outcome.unplaced.len()),
        (2, 3, 0),
        "{:?}",
        outcome.unplaced
    );
}

/// What is spent is added up at the prices by which launches are measured.
#[test]
fn a_ceiling_knows_what_node_overlays_say() {
    let folder = Folder::new("overlay-ceiling");
    let more = "events:\n- {at: 10m, scale: {name: web, replicas: 5}}\n";
    let nodes = |gate| run(&folder, &discounted(2, gate, ", maxCost: [0.9]", more)).nodes.launched;
    assert_eq!((nodes(true), nodes(false)), (4, 2));
}

/// The regression: while it was decided whether a drifted node goes, a node was launched for pods that wait for the limit which it
/// fills. Then nothing could be launched in its place, and the NodePool stayed beyond its limit for good.
#[test]
fn a_node_pool_is_within_its_limits_after_a_drift_though_others_wait_for_them() {
    let folder = Folder::new("limits-and-drift");
    let more = "- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: other}
  spec:
    replicas: 0
    selector: {matchLabels: {app: other}}
    template:
      metadata: {labels: {app: other}}
      spec:
        containers: [{name: a, image: a, resources: {requests: {cpu: '3'}}}]
events:
- {at: 5m, scale: {name: other, replicas: 2}}
- {at: 10m, apply: {manifests: [pool.yaml]}}
";
    // Both who wait would fit into another type.
    let huge = CATALOGUE.replace("big", "huge").replace("cpu: '4'", "cpu: '8'").replace("[cr]", "[cr-huge]");
    folder.write("two.yaml", &format!("{CATALOGUE}{}", huge.replace("Price: 0.4", "Price: 0.8")));
    let text = scenario("on-demand", 1, more).replace("instanceTypes: catalogue", "instanceTypes: two");
    let (first, last) = beyond_limit(&folder, &text, 1);
    assert!(first >= 600 && last - first <= 120, "while it is replaced: from {first} to {last}");
}

/// The regression: each node waited until its pods had places by themselves, and these had none as long as those of the other one had not
/// moved. After ten minutes what had been launched for both was given up.
#[test]
fn two_nodes_go_together_whose_pods_are_spread_over_them() {
    let folder = Folder::new("spread-and-drift");
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
        whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
    let text = scenario("on-demand", 16, "events:\n- {at: 10m, apply: {manifests: [pool.yaml]}}\n");
    let text = text.replace("cpu: '3'", "cpu: 400m").replace("containers:", &format!("{spread}\n        containers:"));
    let (first, last) = beyond_limit(&folder, &text, 2);
    assert!(first >= 600 && last - first <= 120, "while both are replaced: from {first} to {last}");
}

/// The regression: a pod waited for good for one of the last slots, which nodes had that were a quarter full, as no paid node would have
/// come to it.
#[test]
fn nodes_on_slots_are_merged_for_a_pod_that_waits_for_a_slot() {
    let folder = Folder::new("waits-for-a-slot");
    let events = "events:
- {at: 4m, scale: {name: small, replicas: 2}}
- {at: 8m, scale: {name: web, replicas: 0}}
- {at: 12m, scale: {name: large, replicas: 1}}
";
    let more = format!("{}{}{events}", deployment("small", 0, "cpu: 1", ""), deployment("large", 0, "cpu: 3500m", ""));
    let outcome = run(&folder, &scenario("reserved", 2, &more));
    let running = |until: i64| outcome.samples.iter().rfind(|known| known.seconds <= until).map(|known| known.running);
    assert_eq!(running(700), Some(2), "one small pod on each of two nodes");
    assert_eq!(outcome.samples.last().map(|known| (known.running, known.pending)), Some((3, 0)));
    assert_eq!((outcome.pods.evictions, outcome.nodes.launched), (1, 3), "{:?}", outcome.pods);
    // Without it nobody is evicted.
    let nobody = run(
        &folder,
        &scenario("reserved", 2, &more.replace("{name: large, replicas: 1}", "{name: large, replicas: 0}")),
    );
    assert_eq!(nobody.pods.evictions, 0);
}

/// The second in which there are first more nodes than a limit allows, and the last. The scenario applies `pool.yaml`, in which its
/// NodePool has drifted; in the end there are as many as the limit says.
fn beyond_limit(folder: &Folder, text: &str, limit: u32) -> (i64, i64) {
    let text = text.replace("disruption:", &format!("limits: {{nodes: {limit}}}\n    disruption:"));
    let pool = text.split("- apiVersion: ").nth(1).unwrap().replace("\n  ", "\n");
    let drifted = pool.replace("template:", "template:\n    metadata: {labels: {version: '2'}}");
    folder.write("pool.yaml", &format!("apiVersion: {drifted}"));
    let outcome = run(folder, &text);
    let n_nodes = |known: &berth_simulate::Sample| known.nodes.iter().sum::<u32>();
    assert_eq!(outcome.samples.last().map(n_nodes), Some(limit));
    let beyond = outcome.samples.iter().filter(|known| n_nodes(known) > limit);
    let seconds: Vec<i64> = beyond.map(|known| known.seconds).collect();
    (*seconds.first().unwrap(), *seconds.last().unwrap())
}

/// The regression: nodes were launched for a preferred spread at each growth, and consolidation moved their pods away again.
#[test]
fn nodes_that_are_launched_for_a_preference_stay_and_none_are_where_preferences_are_ignored() {
    let folder = Folder::new("preferences");
    let spread = "topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app: web}}";
    let text = scenario("on-demand", 4, "");
    let text = text.replace("cpu: '3'", "cpu: 500m").replace("containers:", &format!("{spread}\n        containers:"));
    let simulation = read(&folder, &text);
    let variation: Variation = "preferencePolicy=Respect,Ignore".parse().unwrap();
    let outcomes = run_all(&variants(&simulation, &[variation]).unwrap(), 1).unwrap();
    let told = |outcome: &Outcome| (outcome.nodes.launched, outcome.pods.evictions);
    assert_eq!(outcomes.iter().map(told).collect::<Vec<_>>(), [(4, 0), (1, 0)]);
    // Nor does a pod come in passing to a node that is up a moment before its own.
    let jitter = text.replacen("objects:\n", "cloud: {bootJitter: 40s}\nobjects:\n", 1);
    assert_eq!(told(&run(&folder, &jitter)), (4, 0));
}

/// Three sizes at one price for each CPU; the second has slots.
const THREE_TYPES: &str = "
- name: of-2
  resources: {cpu: '2', memory: 8Gi, pods: '58'}
  offerings:
  - {Price: 0.1, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
- name: of-4
  resources: {cpu: '4', memory: 16Gi, pods: '58'}
  offerings:
  - {Price: 0.2, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
  - {Price: 0.2, ReservationCapacity: 5, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: berth.sh/capacity-reservation-id, operator: In, values: [cr]}]}
- name: of-8
  resources: {cpu: '8', memory: 32Gi, pods: '58'}
  offerings:
  - {Price: 0.4, Requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}
";

/// The regression: nodes were launched again and again for who could only come with pods of nodes that were about to go, before it was
/// decided whether they do; and as they counted, the nodes stayed.
#[test]
fn nothing_is_launched_in_vain_with_pods_of_nodes_that_are_about_to_go() {
    let folder = Folder::new("about-to-go");
    folder.write("catalogue.yaml", THREE_TYPES);
    let spread =
        "topologySpreadConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, nodeTaintsPolicy: Honor,
          whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: w0}}}]";
    let beside = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
          {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: w0}}}]}}";
    let deployments =
        [deployment("w0", 3, "cpu: 200m, memory: 3Gi", spread), deployment("w1", 5, "cpu: 3, memory: 3Gi", beside)];
    let text = of_one_pool(
        "duration: 3h
seed: 121",
        "0s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}",
        &deployments,
        "- {at: 30m, scale: {name: w0, replicas: 7}}",
    );
    let outcome = run_to_end(&folder, &text, 12);
    assert!(outcome.nodes.launched <= 8, "{:?}", outcome.nodes);
}

/// The regression: while one was awaited that had run out, nothing else took its place.
#[test]
fn where_an_offering_ran_out_another_does() {
    let folder = Folder::new("another-offering");
    let dearer = THREE_TYPES.replace("Price: 0.4,", "Price: 0.9,").replace("Price: 0.2, Req", "Price: 0.25, Req");
    folder.write("catalogue.yaml", &dearer);
    let text = of_one_pool(
        "duration: 3h
seed: 6",
        "30s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}",
        &[deployment("web", 15, "cpu: 500m, memory: 512Mi", "")],
        "- {at: 0s, stock: {instanceType: of-2, left: 0}}
- {at: 0s, stock: {instanceType: of-4, left: 0}}
- {at: 8m, stock: {instanceType: of-2, left: 1}}
- {at: 8m, stock: {instanceType: of-4}}
- {at: 10m, scale: {name: web, replicas: 10}}",
    );
    let outcome = run_to_end(&folder, &text, 10);
    let end = outcome.samples.last().unwrap();
    assert!(end.list_dollars_an_hour <= 0.5, "two of of-4 do: {end:?}");
    assert!(outcome.nodes.launched <= 5, "{:?}", outcome.nodes);
}

/// The regression: a part of what a command was to launch was launched and went again, for ever, where a ceiling kept the rest.
#[test]
fn a_command_launches_nothing_where_a_ceiling_keeps_a_part_of_it() {
    let folder = Folder::new("ceiling");
    folder.write("catalogue.yaml", &THREE_TYPES.replace("Price: 0.4,", "Price: 0.9,"));
    let text = of_one_pool(
        "duration: 6h
seed: 6
settings: {maxCost: [3.7, 50]}",
        "30s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [of-2, of-8]}",
        &[deployment("web", 64, "cpu: 500m, memory: 512Mi", "")],
        "- {at: 1s, stock: {instanceType: of-2, left: 0}}
- {at: 10m, scale: {name: web, replicas: 40}}
- {at: 12m, stock: {instanceType: of-2}}",
    );
    let outcome = run_to_end(&folder, &text, 40);
    assert!(outcome.nodes.launched <= 5, "{:?}", outcome.nodes);
}

/// The regression: the wait for the next launch began with the last one, and was over when that node had not registered in time.
#[test]
fn the_next_node_waits_from_when_the_last_one_did_not_register() {
    let folder = Folder::new("never-registers");
    folder.write("catalogue.yaml", THREE_TYPES);
    let text = of_one_pool(
        "duration: 2h
seed: 6
cloud: {bootDelay: 30m}
settings: {registrationTimeout: 5m}",
        "30s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}",
        &[deployment("web", 1, "cpu: 500m, memory: 512Mi", "")],
        "- {at: 1h, scale: {name: web, replicas: 1}}",
    );
    let outcome = Simulation::read(&folder.write("scenario.yaml", &text)).unwrap().run().unwrap();
    // After 5, 10, 16, 23, 32, 45 and 66 minutes, and so on: there are 24 times 5 minutes.
    assert!((6..=9).contains(&outcome.nodes.launched), "{:?}", outcome.nodes);
}

/// The regression: of several replacements the only instance that was left was launched and ended again each few minutes, for one node
/// after another.
#[test]
fn what_is_left_of_an_offering_is_not_launched_again_and_again_for_more_than_there_is() {
    let folder = Folder::new("scarce-offering");
    folder.write("catalogue.yaml", &THREE_TYPES.replace("Price: 0.4,", "Price: 0.4047,"));
    let text = of_one_pool(
        "duration: 12h
seed: 6",
        "30s",
        "- {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [of-2, of-8]}",
        &[deployment("web", 25, "cpu: 500m, memory: 512Mi", "")],
        "- {at: 0s, stock: {instanceType: of-2, left: 0}}
- {at: 8m, stock: {instanceType: of-2, left: 1}}
- {at: 10m, scale: {name: web, replicas: 20}}",
    );
    let outcome = run_to_end(&folder, &text, 20);
    assert!((3..=12).contains(&outcome.nodes.launched), "{:?}", outcome.nodes);
}
