//! Every type that EC2 describes, worked out from its raw figures, beside what Karpenter's AWS provider says of it.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

use crate::emulator::{Emulator, root};

/// Where moto's copy of EC2's answers and Karpenter's tables differ: EC2 says now that the network interfaces of these
/// types are on two cards, of which only the first has addresses for pods. Type, resource, ours, Karpenter's.
const KNOWN_DIFFERENCES: [&str; 8] = [
    "i7ie.48xlarge memory \"1450210Mi\" 1446437Mi",
    "i7ie.48xlarge pods \"394\" 737",
    "i7ie.metal-48xl memory \"1450210Mi\" 1446437Mi",
    "i7ie.metal-48xl pods \"394\" 737",
    "i8ge.48xlarge memory \"1447995Mi\" 1441527Mi",
    "i8ge.48xlarge pods \"590\" 1178",
    "i8ge.metal-48xl memory \"1447995Mi\" 1441527Mi",
    "i8ge.metal-48xl pods \"590\" 1178",
];

#[test]
fn allocatable_from_ec2s_answers_is_karpenters() {
    let emulator = Emulator::start(6);
    let (catalogue, _) = emulator.catalogue(&[]);
    let entries = catalogue.as_array().unwrap().iter();
    let found: BTreeMap<&str, &Value> =
        entries.map(|entry| (entry["name"].as_str().unwrap(), &entry["resources"])).collect();
    let file = std::fs::read(root().join("cloudprovider/aws/tests/data/us-east-1-allocatable.csv.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file.as_slice()).read_to_string(&mut text).unwrap();
    let (mut n_compared, mut differences) = (0, Vec::new());
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        // moto does not have every type.
        let Some(resources) = found.get(fields[0]) else { continue };
        n_compared += 1;
        for (resource, expected) in [("cpu", fields[1]), ("memory", fields[2]), ("pods", fields[3])] {
            if resources[resource] != expected {
                differences.push(format!("{} {resource} {} {expected}", fields[0], resources[resource]));
            }
        }
    }
    assert!(n_compared > 1300, "{n_compared} types");
    assert_eq!(differences, KNOWN_DIFFERENCES, "{} of {n_compared} differ", differences.len());
}
