//! Folders as people have them: manifests beside what is none.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use std::path::PathBuf;

use common::{Run, berth};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n";
const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}"#;

struct Folder(PathBuf);

impl Folder {
    fn of(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("berth-folder-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        Folder(folder)
    }

    fn plan(&self) -> Run {
        berth(&["plan", "-f", self.0.to_str().unwrap(), "--effort", "low"])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_foreign_file_in_a_folder_is_told_and_passed_over() {
    let chart = "apiVersion: v2\nname: chart\nversion: 1.0.0\n";
    let files = [("policy.json", POLICY), ("values.yaml", "replicas: 2\n"), ("Chart.yaml", chart), ("pod.yaml", POD)];
    let run =
        Folder::of("foreign", &[&files[..], &[("list.json", "[1, 2]"), ("empty.yaml", "# nothing\n")]].concat()).plan();
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in ["policy.json", "values.yaml", "Chart.yaml", "list.json", "empty.yaml"] {
        assert!(run.stderr.contains(name), "{name} is not in {}", run.stderr);
    }
    assert!(run.stdout.contains("\nPods:          1 placed\n"), "{}", run.stdout);
}

#[test]
fn a_file_that_is_named_must_hold_an_object() {
    let folder = Folder::of("named", &[("policy.json", POLICY)]);
    let run = berth(&["plan", "-f", folder.0.join("policy.json").to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("policy.json") && run.stderr.contains("kind"), "{}", run.stderr);
}

#[test]
fn a_folder_of_foreign_files_alone_is_an_error() {
    let run = Folder::of("none", &[("policy.json", POLICY)]).plan();
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("none of its 1 files holds a Kubernetes object"), "{}", run.stderr);
}

#[test]
fn a_manifest_with_a_mistake_is_not_foreign() {
    for mistake in [
        "kind: Pod\nmetadata: {name: a}\n",
        "apiVersion: v1\nmetadata: {name: a}\n",
        "apiVersion: app/v1\nkind: Deployment\nmetadata: {name: a}\n",
        &format!("{POD}---\nreplicas: 2\n"),
        &format!("replicas: 2\n---\n{POD}"),
    ] {
        let run = Folder::of("mistake", &[("a.yaml", mistake), ("pod.yaml", POD)]).plan();
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{mistake}");
        assert!(run.stderr.contains("a.yaml"), "{}", run.stderr);
    }
}

#[test]
fn fields_that_the_api_server_keeps_are_read_with_a_warning() {
    // As in Koordinator's published sample.
    let reservation = "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec:\n  \
                       template:\n    namespace: default\n    spec: {containers: [{name: c, image: i, typo: 1, resources: {requests: \
                       {cpu: 500m}}}]}\n  owners: [{object: {name: pod-demo-0, namespace: default}}]\n  ttl: 1h\n";
    let folder = Folder::of("kept", &[("reservation.yaml", reservation)]);
    let run = folder.plan();
    assert_eq!(run.code, 0, "{}", run.stderr);
    for path in ["spec.template.namespace", "spec.template.spec.containers[0].typo"] {
        assert!(run.stderr.contains(path), "{}", run.stderr);
    }
    let other = reservation.replace("  ttl:", "  tll:");
    let run = Folder::of("not-kept", &[("reservation.yaml", &other)]).plan();
    assert_eq!(run.code, 2, "{}", run.stderr);
}
