//! Which objects come out of which text, where they are said to come from, and in what order.
#![allow(clippy::unwrap_used, clippy::format_collect, reason = "tests build inputs and unpack outcomes plainly")]

use std::fs;

use berth_manifests::{Input, ManifestError, Object, Options, Summary, read, read_from};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c}]}\n";

fn pod(name: &str) -> String {
    POD.replace("NAME", name)
}

fn json_pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c"}}]}}}}"#
    )
}

/// `name@document/item:line` of each object.
fn trace(text: &str, options: &Options) -> Result<(Vec<String>, Summary), ManifestError> {
    let mut seen = Vec::new();
    let summary = read_from("in", text.as_bytes(), options, |source, object| {
        let name = object.metadata().name.clone().unwrap_or_default();
        let item = source.item.map(|item| format!("/{item}")).unwrap_or_default();
        seen.push(format!("{name}@{}{item}:{}", source.document, source.line));
        Ok::<(), ManifestError>(())
    })?;
    Ok((seen, summary))
}

fn names(text: &str) -> Vec<String> {
    trace(text, &Options::default()).unwrap().0
}

fn small(max_object_bytes: usize) -> Options {
    let mut options = Options::default();
    options.max_object_bytes = max_object_bytes;
    options
}

#[test]
fn documents_are_numbered_by_their_markers() {
    let (a, b) = (pod("a"), pod("b"));
    assert_eq!(names(&format!("{a}---\n{b}")), ["a@1:1", "b@2:6"]);
    assert_eq!(names(&format!("# c\n\n---\n{a}---\n# empty\n---\n{b}...\n")), ["a@1:4", "b@3:11"]);
    assert_eq!(names(&format!("%YAML 1.2\n--- # first\n{a}")), ["a@1:3"]);
    assert_eq!(names(&format!("---\n{}\n---\n{b}", json_pod("a"))), ["a@1:2", "b@2:4"]);
}

#[test]
fn byte_order_mark_and_windows_line_ends_are_read() {
    let text = format!("\u{feff}{}---\n{}", pod("a"), pod("b")).replace('\n', "\r\n");
    assert_eq!(names(&text), ["a@1:1", "b@2:6"]);
}

#[test]
fn markers_within_block_scalars_do_not_cut() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n    k: |\n      ---\n      x\n";
    assert_eq!(names(text), ["a@1:1"]);
}

#[test]
fn json_objects_follow_one_another() {
    let (a, b) = (json_pod("a"), json_pod("b"));
    assert_eq!(names(&format!("{a}\n{b}{}", json_pod("c"))), ["a@1:1", "b@2:2", "c@3:2"]);
}

#[test]
fn yaml_in_braces_and_json_with_trailing_commas_are_read_as_yaml() {
    assert_eq!(names("{apiVersion: v1, kind: Namespace, metadata: {name: a}}"), ["a@1:1"]);
    assert_eq!(names("{\"apiVersion\": \"v1\", \"kind\": Namespace, \"metadata\": {\"name\": \"a\",},}"), ["a@1:1"]);
}

#[test]
fn items_of_json_lists_may_come_before_the_kind() {
    let (a, b) = (json_pod("a"), json_pod("b"));
    let text = format!("{{\"apiVersion\":\"v1\",\"items\":[\n{a},\n{b}],\n\"kind\":\"List\"}}\n{a}");
    assert_eq!(names(&text), ["a@1/0:2", "b@1/1:3", "a@2:5"]);
    assert_eq!(names(r#"{"apiVersion":"v1","items":[],"kind":"List"}"#), [""; 0]);
    assert_eq!(names(r#"{"apiVersion":"v1","items":null,"kind":"List"}"#), [""; 0], "as Go writes none");
    assert_eq!(names("apiVersion: v1\nkind: PodList\nitems: null\n"), [""; 0]);
}

#[test]
fn typed_lists_lend_their_kind_to_their_items() {
    let item = r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}"#;
    assert_eq!(names(&format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{item}]}}"#)), ["a@1/0:1"]);
    let yaml = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c}]}\n";
    assert_eq!(names(yaml), ["a@1/0:1"]);
}

#[test]
fn long_yaml_lists_are_streamed_by_item() {
    for indent in ["", "  "] {
        let item = |name: &str| {
            let text = pod(name).replace('\n', &format!("\n{indent}  "));
            format!("{indent}- {}\n", text.trim_end())
        };
        let text = format!(
            "apiVersion: v1\nkind: List\nitems:\n{}# between\n\n{}{}metadata: {{}}\n---\n{}",
            item("a"),
            item("b"),
            item("c"),
            pod("d"),
        );
        let whole = trace(&text, &Options::default()).unwrap().0;
        let streamed = trace(&text, &small(120)).unwrap().0;
        assert_eq!(streamed, ["a@1/0:4", "b@1/1:10", "c@1/2:14", "d@2:20"]);
        let strip = |traces: &[String]| -> Vec<String> {
            traces.iter().map(|trace| trace.split(':').next().unwrap().to_owned()).collect()
        };
        assert_eq!(strip(&whole), strip(&streamed));
    }
}

#[test]
fn objects_that_planning_does_not_need_are_counted() {
    let text = format!(
        "apiVersion: v1\nkind: Secret\n---\napiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\n---\n{}",
        pod("a")
    );
    let (seen, summary) = trace(&text, &Options::default()).unwrap();
    assert_eq!(seen.len(), 1);
    let skipped: Vec<_> = summary.skipped.into_iter().collect();
    assert_eq!(
        skipped,
        [((String::new(), "Secret".to_owned()), 1), (("karpenter.azure.com".to_owned(), "AKSNodeClass".to_owned()), 1)]
    );
}

#[test]
fn order_is_the_same_on_one_thread_and_on_many() {
    let text: String = (0..3000).map(|idx| format!("---\n{}", pod(&format!("p{idx}")))).collect();
    let mut options = Options::default();
    let many = trace(&text, &options).unwrap();
    options.parallel = false;
    assert_eq!(many, trace(&text, &options).unwrap());
    assert_eq!(many.1.objects, 3000);

    let broken = text.replace("name: p2000}", "name: P2000}").replace("name: p2500}", "oops");
    let alone = trace(&broken, &options).unwrap_err();
    options.parallel = true;
    assert_eq!(alone, trace(&broken, &options).unwrap_err());
    assert_eq!(alone.source_document().unwrap().document, 2001);
}

#[test]
fn callback_can_stop_the_reading() {
    let text: String = (0..2000).map(|idx| format!("---\n{}", pod(&format!("p{idx}")))).collect();
    let mut n_seen = 0;
    let error = read_from("in", text.as_bytes(), &Options::default(), |source, object| {
        n_seen += 1;
        if n_seen < 5 {
            return Ok(());
        }
        Err(ManifestError::new(source, object.kind(), "p4", Vec::new()))
    })
    .unwrap_err();
    assert_eq!((n_seen, error.object()), (5, Some("Pod p4")));
}

#[test]
fn folder_is_read_by_name_and_not_into_its_depth() {
    let folder = std::env::temp_dir().join(format!("berth-manifests-{}", std::process::id()));
    fs::create_dir_all(folder.join("deep")).unwrap();
    for (file, name) in [("b.yaml", "b"), ("a.yml", "a"), ("deep/c.yaml", "c"), ("notes.txt", "d")] {
        fs::write(folder.join(file), pod(name)).unwrap();
    }
    fs::write(folder.join("c.json"), json_pod("c")).unwrap();
    let mut seen = Vec::new();
    read(&[Input::Path(folder.clone())], &Options::default(), |source, _: Object| {
        seen.push(source.file.rsplit('/').next().unwrap().to_owned());
        Ok::<(), ManifestError>(())
    })
    .unwrap();
    let empty = read(&[Input::Path(folder.join("deep/..").join("deep"))], &Options::default(), |_, _| {
        Ok::<(), ManifestError>(())
    });
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(seen, ["a.yml", "b.yaml", "c.json"]);
    assert_eq!(empty.unwrap().objects, 1);
}

#[test]
fn nulls_in_maps_of_text_are_empty_as_in_go() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {x: }\n";
    assert_eq!(names(text), ["a@1:1"]);
}

#[test]
fn generated_names_are_the_same_in_every_run() {
    let text = pod("x").replace("name: x", "generateName: job-");
    assert_eq!(names(&format!("{text}---\n{text}")), ["job-1@1:1", "job-2@2:6"]);
}

#[test]
fn an_autoscaler_of_v1_is_read_as_one_of_today() {
    let text = "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {minReplicas: 4, maxReplicas: 9, \
                targetCPUUtilizationPercentage: 70, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: w}}\n";
    let mut seen = Vec::new();
    let read = read_from("in", text.as_bytes(), &Options::default(), |_, object| {
        seen.push(object);
        Ok::<(), ManifestError>(())
    });
    read.unwrap();
    let [Object::HorizontalPodAutoscaler(object)] = &seen[..] else { panic!("{seen:?}") };
    let spec = object.spec.as_ref().unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas, &*spec.scale_target_ref.name), (Some(4), 9, "w"));
    assert_eq!(spec.metrics.as_ref().unwrap()[0].resource.as_ref().unwrap().target.average_utilization, Some(70));
}
