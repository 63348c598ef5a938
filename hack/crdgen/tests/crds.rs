//! The files of `crds/` against the types.

use std::collections::BTreeSet;
use std::path::PathBuf;

#[test]
fn crds_are_up_to_date() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let files = berth_crdgen::files().unwrap();
    for file in &files {
        let found = std::fs::read_to_string(folder.join(&file.name)).unwrap_or_default();
        assert!(found == file.text, "{} is stale: run `cargo run -p berth-crdgen`", file.name);
    }
    let expected: BTreeSet<String> = files.into_iter().map(|file| file.name).collect();
    let entries = std::fs::read_dir(folder).unwrap();
    let found: BTreeSet<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_api_crate_carries_the_files_as_they_are() {
    let files = berth_crdgen::files().unwrap();
    let carried: Vec<(String, String)> =
        berth_api::CRDS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    assert_eq!(carried, files.into_iter().map(|file| (file.name, file.text)).collect::<Vec<_>>());
}

#[test]
fn every_schema_is_structural() {
    fn check(path: &str, schema: &serde_json::Value) {
        let object = schema.as_object().unwrap();
        let is_typed = ["type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
            .iter()
            .any(|key| object.contains_key(*key));
        assert!(is_typed, "{path} has no type");
        for key in ["$ref", "nullable", "oneOf", "allOf", "definitions"] {
            assert!(!object.contains_key(key), "{path} has {key}");
        }
        for (name, property) in object.get("properties").and_then(|found| found.as_object()).into_iter().flatten() {
            check(&format!("{path}.{name}"), property);
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = object.get(key).filter(|inner| inner.is_object()) {
                check(&format!("{path}.{key}"), inner);
            }
        }
    }
    for crd in berth_api::crd::all().unwrap() {
        check(&crd.file_name, &crd.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    }
}
