//! Berth's scheduler says what kube-scheduler's own framework says. The oracle is the binary of hack/schedcompare: that of
//! `BERTH_SCHEDCOMPARE`, else the newest that `hack/schedcompare/build.sh` has left in the user's cache. Without one there
//! is nothing to compare with, and the test says so.

use std::path::PathBuf;

use berth_properties::kube::compare;
use berth_properties::n_cases;

fn oracle() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BERTH_SCHEDCOMPARE") {
        return Some(path.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let built = std::fs::read_dir(cache.join("berth/schedcompare")).ok()?.flatten();
    let binaries = built.map(|version| version.path().join("schedcompare")).filter(|binary| binary.is_file());
    binaries.max_by_key(|binary| binary.metadata().and_then(|metadata| metadata.modified()).ok())
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
