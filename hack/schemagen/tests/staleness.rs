//! The committed data file is what the generator writes.

use std::path::PathBuf;

use serde_json::Value;

#[allow(clippy::unwrap_used)] // A helper, which clippy does not take for a test.
fn committed() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../src/apiserver/data/kubernetes.json.gz");
    let bytes = std::fs::read(path).unwrap();
    berth_schemagen::decompress(&bytes).unwrap()
}

#[test]
fn the_committed_file_is_in_the_generators_canonical_form() {
    let data = committed();
    assert!(berth_schemagen::canonical(data.clone()) == data, "run `cargo run -p berth-schemagen`");
    let packed = berth_schemagen::compress(&data).unwrap();
    assert!(berth_schemagen::decompress(&packed).unwrap() == data);
}

#[test]
fn the_committed_file_serves_the_pinned_version_and_groups() {
    let data = committed();
    assert_eq!(data["version"], berth_schemagen::VERSION);
    let groups: Vec<(&str, &str)> = data["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["name"].as_str().unwrap(), group["version"].as_str().unwrap()))
        .collect();
    assert_eq!(groups, berth_schemagen::GROUP_VERSIONS);
}

/// Where the documents are at hand (`GOMODCACHE` or the default of `go env`), they still give the committed bytes.
#[test]
fn the_published_documents_give_the_committed_file() {
    let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("GOPATH").map(PathBuf::from);
        home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go"))).map(|p| p.join("pkg/mod"))
    });
    let Some(cache) = cache.filter(|c| c.join(format!("k8s.io/kubernetes@{}", berth_schemagen::VERSION)).is_dir())
    else {
        eprintln!("skipped: no Go module cache with k8s.io/kubernetes@{}", berth_schemagen::VERSION);
        return;
    };
    let data = committed();
    assert!(berth_schemagen::from_module_cache(&cache).unwrap() == data, "run `cargo run -p berth-schemagen`");
}

#[test]
fn plain_optional_scalars_vanish_at_zero_and_pointers_do_not() {
    let data = committed();
    let omitted = |path: &str| data.pointer(path).unwrap().get("x-go-omit-zero").is_some();
    assert!(omitted("/schemas/io.k8s.api.core.v1.PodSpec/properties/hostNetwork"));
    assert!(!omitted("/schemas/io.k8s.api.core.v1.PodSpec/properties/automountServiceAccountToken"));
    assert!(!omitted("/schemas/io.k8s.api.apps.v1.DeploymentSpec/properties/replicas"));
    assert!(omitted("/schemas/io.k8s.api.apps.v1.DeploymentSpec/properties/minReadySeconds"));
}

#[test]
fn embedded_fields_are_numbered_by_the_way_to_them() {
    let data = committed();
    let number = |path: &str| data.pointer(path).unwrap()["x-proto"].clone();
    assert_eq!(number("/schemas/io.k8s.api.core.v1.PodSpec/properties/containers"), serde_json::json!([2]));
    assert_eq!(number("/schemas/io.k8s.api.core.v1.Volume/properties/emptyDir"), serde_json::json!([2, 2]));
    // `TypeMeta` is in no message, so that its fields have no number that another one has.
    let options = "/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions/properties";
    assert_eq!(number(&format!("{options}/preconditions")), serde_json::json!([2]));
    for field in ["apiVersion", "kind"] {
        assert!(data.pointer(&format!("{options}/{field}")).unwrap().get("x-proto").is_none(), "{field}");
    }
}
