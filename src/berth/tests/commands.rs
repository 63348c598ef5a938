//! The small subcommands, and what a pipe does to all of them.

mod common;

use std::io::Read;
use std::process::{Command, Stdio};

use common::berth;
use rstest::rstest;

#[test]
fn crds_prints_every_definition() {
    let run = berth(&["crds"]);
    assert_eq!(run.code, 0);
    for kind in ["NodePool", "NodeClaim", "NodeOverlay", "Reservation", "FakeNodeClass"] {
        assert!(run.stdout.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    assert_eq!(run.stdout.matches("kind: CustomResourceDefinition").count(), 6);
}

#[rstest]
#[case::json("json")]
#[case::yaml("yaml")]
fn the_catalogue_that_is_printed_can_be_read_again(#[case] format: &str) {
    let text = berth(&["catalog", "-o", format]).stdout;
    let file = std::env::temp_dir().join(format!("berth-catalog-{}.{format}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let args = ["plan", "-f", "examples/one-slot/workloads.yaml", "-o", "json"];
    let own = berth(&args);
    let given = berth(&[&args[..], &["--instance-types", file.to_str().unwrap()]].concat());
    std::fs::remove_file(&file).unwrap();
    assert_eq!((given.code, given.stdout), (own.code, own.stdout));
}

#[rstest]
#[case::plan(&["plan", "-f", "examples/one-slot", "-o", "json"])]
#[case::catalog(&["catalog"])]
#[case::crds(&["crds"])]
fn a_reader_that_stops_early_is_no_error(#[case] args: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(args)
        .current_dir(common::root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error:"), "{stderr}");
}
