//! What fails: exit code 2, one line that says what and what would help, nothing on standard output, no file touched.

use rstest::rstest;
use serde_json::{Value, json};

use crate::emulator::{Emulator, Run, TempFile, berth_with};
use crate::put::reservations;

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKIAEMULATOR"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn assert_refused(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is not in {}", run.stderr);
    }
}

/// Tries to write over a file, which must stay as it was, with nothing beside it.
fn refused(emulator: &Emulator, words: &[&str]) {
    let file = TempFile::new("untouched.yaml");
    std::fs::write(&file.0, "as it was").unwrap();
    assert_refused(&emulator.berth(&["catalog", "--provider", "aws", "--to", file.path()]), words);
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "as it was");
    let name = file.0.file_name().unwrap().to_str().unwrap();
    let beside = std::fs::read_dir(file.0.parent().unwrap())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(name));
    assert_eq!(beside.count(), 1);
}

#[rstest]
#[case("ec2:DescribeAvailabilityZones")]
#[case("ec2:DescribeCapacityReservations")]
#[case("ec2:DescribeInstanceTypeOfferings")]
#[case("ec2:DescribeInstanceTypes")]
#[case("ec2:DescribeSpotPriceHistory")]
#[case("pricing:GetProducts")]
fn a_denied_call_is_named_with_the_rule_that_would_allow_it(#[case] action: &str) {
    let emulator = Emulator::start(10);
    emulator.order(&json!({"faults": {"deny": [action]}}));
    let rule = format!(r#"{{"Effect": "Allow", "Action": "{action}", "Resource": "*"}}"#);
    refused(&emulator, &[&format!("{action} denied"), &rule]);
}

#[test]
fn several_denied_calls_are_told_together() {
    let emulator = Emulator::start(11);
    emulator.order(&json!({"faults": {"deny": ["ec2:DescribeInstanceTypes", "pricing:GetProducts"]}}));
    refused(&emulator, &["ec2:DescribeInstanceTypes and pricing:GetProducts denied"]);
}

#[test]
fn the_printed_policy_has_every_call_that_is_made() {
    let emulator = Emulator::start(12);
    let policy: Value = serde_json::from_str(&emulator.berth(&["catalog", "--print-iam-policy"]).stdout).unwrap();
    let actions = policy["Statement"][0]["Action"].clone();
    emulator.order(&json!({"faults": {"deny": actions}}));
    let run = emulator.berth(&["catalog", "--provider", "aws"]);
    for action in actions.as_array().unwrap() {
        assert!(run.stderr.contains(action.as_str().unwrap()), "{action} is not called: {}", run.stderr);
    }
}

#[rstest]
#[case::expired(json!({"expired": true}), &["does not take these credentials", "expired"])]
#[case::half_a_page(json!({"cut": 1.0}), &["ec2:Describe", "cut off"])]
#[case::always_throttled(json!({"throttle": 1.0}), &["throttles", "try again"])]
fn a_cloud_that_does_not_answer_is_told_of(#[case] faults: Value, #[case] words: &[&str]) {
    let emulator = Emulator::start(13);
    emulator.order(&json!({"faults": faults}));
    refused(&emulator, words);
}

#[test]
fn half_a_page_now_and_then_is_asked_for_again() {
    let emulator = Emulator::start(14);
    emulator.order(&json!({"put": reservations(40), "faults": {"cut": 0.05, "page": 20}}));
    let run = emulator.berth(&["catalog", "--provider", "aws", "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    emulator.order(&json!({"faults": {"cut": 0.0, "page": 0}}));
    let (whole, _) = emulator.catalogue(&[]);
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap(), whole);
}

#[test]
fn an_endpoint_that_is_down_is_told_of() {
    let down = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), ("AWS_REGION", "us-east-1")];
    let run = berth_with(&["catalog", "--provider", "aws"], &[&KEYS[..], &down].concat());
    assert_refused(&run, &["ec2:DescribeAvailabilityZones", "no connection to AWS"]);
}

#[test]
fn no_credentials_no_region_and_no_such_region_are_told_of() {
    let emulator = Emulator::start(15);
    let args = ["catalog", "--provider", "aws"];
    let url = ("AWS_ENDPOINT_URL", emulator.url());
    assert_refused(
        &berth_with(&args, &[url, ("AWS_REGION", "us-east-1")]),
        &["no AWS credentials", "AWS_ACCESS_KEY_ID"],
    );
    assert_refused(&berth_with(&args, &[&KEYS[..], &[url]].concat()), &["no region: give --region"]);
    let with = |region: &str| emulator.berth(&[&args[..], &["--region", region]].concat());
    assert_refused(&with("us-east"), &["region \"us-east\"", "us-east-1"]);
    assert_refused(&with("eu-nowhere-7"), &["takes neither region eu-nowhere-7"]);
    let profile = emulator.berth(&[&args[..], &["--profile", "nobody"]].concat());
    assert_refused(&profile, &["profile \"nobody\""]);
}

#[test]
fn a_catalogue_of_another_region_is_not_refreshed() {
    let emulator = Emulator::start(16);
    let file = TempFile::new("eu.yaml");
    let text = "- name: m5.large\n  resources: {cpu: '2', memory: 8Gi}\n  offerings:\n  - Price: 0.1\n    Requirements:\n    \
                - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}\n    \
                - {key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a]}\n";
    std::fs::write(&file.0, text).unwrap();
    let run = emulator.berth(&["catalog", "--provider", "aws", "--refresh", file.path()]);
    assert_refused(&run, &["zone eu-west-1a, which is not in region us-east-1"]);
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), text);
}

#[test]
fn a_catalogue_of_another_account_is_not_refreshed() {
    let emulator = Emulator::start(17);
    let file = TempFile::new("theirs.json");
    let mut theirs = reservations(1);
    theirs[0]["OwnerId"] = json!("999988887777");
    emulator.order(&json!({"put": theirs}));
    // Seen by its owner, as far as anyone can tell where STS is not there.
    let args = ["catalog", "--provider", "aws", "--to", file.path()];
    let run = emulator.berth_with(&args, &[("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let before = std::fs::read(&file.0).unwrap();
    let run = emulator.berth(&["catalog", "--provider", "aws", "--refresh", file.path()]);
    assert_refused(&run, &["is of account 999988887777", "are of account 123456789012"]);
    assert_eq!(std::fs::read(&file.0).unwrap(), before);
}
