//! Berth's scheduler says what kube-scheduler's own framework says. The oracle is the binary of hack/schedcompare: that of
//! `BERTH_SCHEDCOMPARE`, else what `hack/schedcompare/build.sh` has built of the present sources. Without one there is
//! nothing to compare with, and the test says so.

use std::path::PathBuf;
use std::process::Command;

use berth_properties::kube::compare;
use berth_properties::n_cases;

fn oracle() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BERTH_SCHEDCOMPARE") {
        return Some(path.into());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/go-build.sh");
    let built = Command::new(script).args(["--cached", "schedcompare"]).output().ok()?;
    let path = String::from_utf8(built.stdout).ok()?;
    built.status.success().then(|| path.trim_end().into())
}

#[test]
fn every_node_gets_the_verdict_and_the_scores_that_kube_scheduler_gives() {
    let Some(oracle) = oracle() else {
        eprintln!("no schedcompare: run hack/schedcompare/build.sh first");
        return;
    };
    let compared = compare(&oracle, 0..n_cases(200)).unwrap();
    let failed: Vec<String> = compared
        .iter()
        .filter_map(|case| case.differences.first().map(|difference| format!("seed {}: {difference}", case.seed)))
        .collect();
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
    assert!(compared.iter().any(|case| case.evaluations.len() > 3), "the cases are empty");
}
