//! Every refusal names file, document, object and field, and says what was expected.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::format_collect,
    reason = "tests build inputs and unpack outcomes plainly"
)]

use std::fmt::Write as _;

use berth_manifests::{ManifestError, Options, Validate, read_from};
use rstest::rstest;

fn error_with(text: &[u8], options: &Options) -> String {
    let error = read_from("f.yaml", text, options, |_, _| Ok::<(), ManifestError>(())).unwrap_err().to_string();
    // Where it is comes on lines of its own.
    error.lines().filter(|line| !line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

fn error(text: &str) -> String {
    error_with(text.as_bytes(), &Options::default())
}

/// The error of a Pod `default/web` whose spec is this, after `f.yaml: document 1 (…): `.
fn pod_error(spec: &str) -> String {
    let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: default}}, spec: {spec}}}");
    let error = error(&text);
    let prefix = "f.yaml: document 1 (Pod default/web): ";
    error.strip_prefix(prefix).unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[rstest]
#[case::empty_file("", "f.yaml: holds no object, expected at least one YAML or JSON document")]
#[case::only_comments("# a\n---\n# b\n", "f.yaml: holds no object, expected at least one YAML or JSON document")]
#[case::list_of_lists("- a\n", "f.yaml: document 1: found a list, expected an object with apiVersion and kind")]
#[case::no_kind(
    "metadata: {name: a}\napiVersion: v1\n",
    "f.yaml: document 1: kind: is missing, expected as in \"apiVersion: v1\", \"kind: Pod\""
)]
#[case::kind_is_no_text("apiVersion: v1\nkind: 3\n", "f.yaml: document 1: kind: found the number 3, expected text")]
#[case::misspelt(
    "apiVersion: apps/v1\nkind: Deploymnet\n",
    "f.yaml: document 1 (Deploymnet): kind: found \"Deploymnet\", unknown in \"apps/v1\"; did you mean Deployment?"
)]
#[case::letter_case(
    "apiVersion: v1\nkind: pod\n",
    "f.yaml: document 1 (pod): kind: found \"pod\", unknown in \"v1\"; did you mean Pod?"
)]
#[case::unlike_any(
    "apiVersion: berth.sh/v1alpha1\nkind: Zebra\n",
    "f.yaml: document 1 (Zebra): kind: found \"Zebra\", unknown in \"berth.sh/v1alpha1\"; expected a kind of this group, such as FakeCapacityReservation, FakeNodeClass"
)]
#[case::old_nodepool(
    "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\n",
    "f.yaml: document 1 (NodePool): apiVersion: found \"karpenter.sh/v1beta1\", expected \"karpenter.sh/v1\", the version in which NodePool is read"
)]
#[case::old_deployment(
    "apiVersion: extensions/v1beta1\nkind: Deployment\n",
    "f.yaml: document 1 (Deployment): apiVersion: found \"extensions/v1beta1\", expected \"apps/v1\", the version in which Deployment is read"
)]
#[case::core_deployment(
    "apiVersion: v1\nkind: Deployment\n",
    "f.yaml: document 1 (Deployment): apiVersion: found \"v1\", expected \"apps/v1\", the version in which Deployment is read"
)]
#[case::misspelt_group(
    "apiVersion: karpentr.sh/v1\nkind: NodePool\n",
    "f.yaml: document 1 (NodePool): apiVersion: found \"karpentr.sh/v1\", expected \"karpenter.sh/v1\", the version in which NodePool is read"
)]
#[case::group_without_dot(
    "apiVersion: app/v1\nkind: Thing\n",
    "f.yaml: document 1 (Thing): apiVersion: found \"app/v1\", expected a group and version such as \"v1\" or \"apps/v1\""
)]
#[case::duplicate_json_key(
    "{\"kind\":\"Pod\",\n\"kind\":\"Pod\"}",
    "f.yaml: document 1, line 2, column 6: malformed JSON: found the key \"kind\" twice"
)]
#[case::cut_off_json(
    "{\"kind\":",
    "f.yaml: document 1, line 1, column 8: malformed JSON: the text ends, expected a value"
)]
#[case::cut_off_list(
    "{\"kind\": [1",
    "f.yaml: document 1, line 1, column 11: malformed JSON: the text ends within a list, expected another value or ]"
)]
#[case::two_keys_in_a_line(
    "a: b\n c: d",
    "f.yaml: document 1, line 2, column 3: malformed YAML: found a second `key: value` where one value is expected: quote a value that holds `: `, or check the indent"
)]
#[case::no_name(
    "apiVersion: v1\nkind: Namespace\n",
    "f.yaml: document 1 (Namespace): metadata.name: is missing, expected a name"
)]
#[case::bad_name(
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: A_b}\n",
    "f.yaml: document 1 (Namespace A_b): metadata.name: found \"A_b\", expected a-z 0-9 -, at most 63 characters"
)]
#[case::nul("a: \0", "f.yaml: document 1, line 1, column 1: found a NUL byte, expected text in YAML or JSON")]
fn refusals_of_documents(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(error(text), expected);
}

#[rstest]
#[case("{}", "spec.containers: found none, expected at least one container")]
#[case("{containers: [{name: a}], nodeSelektor: {}}", "spec.nodeSelektor: unknown field: did you mean nodeSelector?")]
#[case(
    "{containers: [{name: a, resources: {requests: {cpu: -1}}}]}",
    "spec.containers[0].resources.requests.cpu: found -1, expected 0 or more"
)]
#[case(
    "{containers: [{name: a, resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}]}",
    "spec.containers[0].resources.requests.cpu: found 2, expected at most the limit 1500m"
)]
#[case(
    "{containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}]}",
    "spec.containers[0].resources.requests[nvidia.com/gpu]: found 1, expected exactly the limit, as this resource cannot be overcommitted: 2"
)]
#[case(
    "{containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1}}}]}",
    "spec.containers[0].resources.requests[nvidia.com/gpu]: found without a limit, expected an equal one, as this resource cannot be overcommitted"
)]
#[case(
    "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: 500m}}}]}",
    "spec.containers[0].resources.limits[nvidia.com/gpu]: found 500m, expected a whole number, as devices are counted"
)]
#[case(
    "{initContainers: [{name: a}], containers: [{name: b}, {name: a}]}",
    "spec.containers[1].name: found \"a\" twice, expected a name that no other container has"
)]
#[case(
    "{restartPolicy: Sometimes, containers: [{name: a}]}",
    "spec.restartPolicy: found \"Sometimes\", expected one of Always, OnFailure, Never"
)]
#[case(
    "{containers: [{name: a, image: n}]}",
    "spec.containers[0].image: found boolean `false`, expected a string; text in quotes is a string"
)]
#[case(
    "{containers: [{name: a, imagePullPolicy: Alway}]}",
    "spec.containers[0].imagePullPolicy: found \"Alway\", expected one of Always, IfNotPresent, Never: did you mean Always?"
)]
#[case(
    "{containers: [{name: a, resources: {requests: {memroy: 3Gi}}}]}",
    "spec.containers[0].resources.requests.memroy: is no resource, expected cpu, memory, ephemeral-storage, \
     hugepages-SIZE or DOMAIN/NAME: did you mean memory?"
)]
#[case(
    "{containers: [{name: a, resource: {}}]}",
    "spec.containers[0].resource: unknown field: did you mean resources?"
)]
#[case(
    "{containers: [{name: a, xyzzy: {}}]}",
    "spec.containers[0].xyzzy: unknown field: Pod has none of this name here"
)]
#[case("{containers: [{name: a}], priority: high}", "spec.priority: found string \"high\", expected an integer")]
#[case(
    "{containers: [{name: a}], priority: 99999999999}",
    "spec.priority: found integer `99999999999`, expected an integer from -2147483648 to 2147483647"
)]
#[case(
    "{containers: [{name: a, ports: [{containerPort: 70000}]}]}",
    "spec.containers[0].ports[0].containerPort: found 70000, expected 1 to 65535"
)]
#[case(
    "{containers: [{name: a}], topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}",
    "spec.topologySpreadConstraints[0].maxSkew: found 0, expected 1 or more"
)]
#[case(
    "{containers: [{name: a}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never}]}",
    "spec.topologySpreadConstraints[0].whenUnsatisfiable: found \"Never\", expected one of DoNotSchedule, ScheduleAnyway"
)]
#[case(
    "{containers: [{name: a}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}}",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: is empty, expected a label of nodes"
)]
#[case(
    "{containers: [{name: a}], tolerations: [{key: a, operator: Is}]}",
    "spec.tolerations[0].operator: found \"Is\", expected one of Exists, Equal, Lt, Gt"
)]
#[case(
    "{containers: [{name: a}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}}",
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: found 0, but In needs at least one value"
)]
fn refusals_of_pods(#[case] spec: &str, #[case] expected: &str) {
    assert_eq!(pod_error(spec), expected);
}

#[test]
fn malformed_quantity_names_its_field() {
    let error = pod_error("{containers: [{name: a, resources: {requests: {cpu: 1.5x}}}]}");
    assert!(error.starts_with("spec.containers[0].resources.requests.cpu: "), "{error}");
    assert!(error.contains("1.5x"), "{error}");
}

#[test]
fn position_of_malformed_yaml_counts_from_the_start_of_the_file() {
    let text = "apiVersion: v1\nkind: Secret\n---\nkind: {a: b\n---\n";
    let error = error(text);
    assert!(error.starts_with("f.yaml: document 2, line "), "{error}");
    let error = read_from("f", text.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    assert!(error.unwrap_err().position().unwrap().0 >= 4);
}

#[test]
fn duplicate_yaml_keys_are_refused_with_their_line() {
    let error = error("apiVersion: v1\nkind: Pod\nkind: Pod\n");
    assert!(error.starts_with("f.yaml: document 1, line 3, column 1: malformed YAML: "), "{error}");
    assert!(error.contains("duplicate mapping key: kind") && !error.contains("Options"), "{error}");
}

#[test]
fn text_that_is_nested_too_deep_is_told_in_plain_words() {
    let nested = |open: &str, close: &str| open.repeat(150) + "a: b" + &close.repeat(150);
    let block = |text: String| format!("apiVersion: v1\nkind: Pod\nspec: {text}\n");
    let told = error(&block(nested("{a: ", "}").replace("a: b", "b")));
    assert!(told.starts_with("f.yaml: document 1, line 3, column "), "{told}");
    assert!(told.contains("malformed YAML: nested deeper than 100 levels, expected 100 at most"), "{told}");
    let told = error(&block(nested("[", "]")));
    assert!(told.contains("malformed YAML: nested deeper than 100 levels"), "{told}");
    let told = error(&format!("{{\"kind\": \"Pod\", \"spec\": {}1{}}}", "[".repeat(150), "]".repeat(150)));
    assert!(told.contains("malformed JSON: nested deeper than 128 levels"), "{told}");
}

#[test]
fn numbers_and_times_that_are_none_are_told_without_a_librarys_words() {
    let error = error("apiVersion: v1\nkind: Pod\nmetadata: {name: a, generation: .nan}\n");
    assert!(error.contains("malformed YAML: found `.nan`, expected a finite number"), "{error}");
    let time = |text: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, creationTimestamp: {text}}}, spec: {{containers: [{{name: a}}]}}}}"
        );
        error_with(text.as_bytes(), &Options::default())
    };
    let error = time("2026-13-45T00:00:00Z");
    let expected =
        "metadata.creationTimestamp: found \"2026-13-45T00:00:00Z\", expected a time such as 2026-01-31T12:00:00Z";
    assert!(error.contains(expected), "{error}");
}

/// The regression: what turns the direction of text, or is not seen, reached the terminal.
#[test]
fn names_are_told_without_characters_that_are_not_seen() {
    let error = error(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: \"\u{202e}web\u{200b}\"}\nspec: {containers: [{name: a}]}\n",
    );
    assert!(!error.contains(['\u{202e}', '\u{200b}']), "{error:?}");
}

#[test]
fn label_value_over_63_bytes_is_refused() {
    let long = "x".repeat(64);
    let text = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: a, labels: {{k: {long}}}}}}}");
    assert_eq!(
        error(&text),
        format!(
            "f.yaml: document 1 (Namespace a): metadata.labels[k]: found a value of 64 bytes (\"{long}\"), expected at most 63"
        )
    );
}

#[test]
fn hundred_thousand_labels_are_read() {
    let labels: String = (0..100_000).map(|idx| format!("    l{idx}: v\n")).collect();
    let text = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n{labels}");
    let read = read_from("f", text.as_bytes(), &Options::default(), |_, object| {
        assert_eq!(object.metadata().labels.as_ref().unwrap().len(), 100_000);
        Ok::<(), ManifestError>(())
    });
    assert_eq!(read.unwrap().objects, 1);
}

#[test]
fn annotations_over_256_kib_are_refused() {
    let text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: a, annotations: {{k: {}}}}}}}",
        "x".repeat(256 * 1024)
    );
    assert!(error(&text).ends_with("metadata.annotations: found 262145 bytes of annotations, expected at most 262144"));
}

#[rstest]
#[case::one_line(b"a: ", b"x")]
#[case::lines(b"a:\n", b"- x\n")]
#[case::json(b"{\"a\":\"", b"x")]
#[case::brackets(b"", b"[")]
fn endless_document_is_refused_at_the_limit(#[case] begin: &[u8], #[case] then: &[u8]) {
    let endless = std::io::Read::chain(begin, Repeat { text: then.to_vec(), n_read: 0 });
    let error = read_from("f", endless, &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("f: document 1: this document is longer than 3145728 bytes (3 MiB)"), "{error}");
}

/// The same text for ever; fails the test where more than 8 MiB is asked for.
struct Repeat {
    text: Vec<u8>,
    n_read: usize,
}

impl std::io::Read for Repeat {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = self.text[(self.n_read + at) % self.text.len()];
        }
        self.n_read += buffer.len();
        assert!(self.n_read < 8 << 20, "read on past the limit");
        Ok(buffer.len())
    }
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = "a0: &a0 xxxxxxxxxx\n".to_owned();
    for idx in 1..20 {
        let of = idx - 1;
        let aliases = vec![format!("*a{of}"); 10].join(", ");
        let _ = writeln!(text, "a{idx}: &a{idx} [{aliases}]");
    }
    let laughs = error(&text);
    assert!(laughs.contains("malformed YAML"), "{laughs}");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90].join(", "));
    let long = error(&long);
    assert!(long.contains("aliases expand to more than a single object may take"), "{long}");
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(100_000), "{\"a\":".repeat(100_000), "- ".repeat(100_000)] {
        assert!(error(&text).contains("malformed"));
    }
}

#[test]
fn unknown_fields_are_errors_warnings_or_nothing_as_asked() {
    let text = b"{apiVersion: v1, kind: Namespace, metadata: {name: a, nmae: b}}";
    let mut options = Options::default();
    let expected = "f.yaml: document 1 (Namespace a): metadata.nmae: unknown field: did you mean name?";
    assert_eq!(error_with(text, &options), expected);
    options.validate = Validate::Warn;
    let read = |options: &Options| read_from("f.yaml", &text[..], options, |_, _| Ok::<(), ManifestError>(()));
    let summary = read(&options).unwrap();
    assert_eq!((summary.objects, summary.n_warnings), (1, 1));
    assert!(summary.warnings[0].to_string().starts_with(expected));
    options.validate = Validate::Ignore;
    assert_eq!(read(&options).unwrap().n_warnings, 0);
}

#[test]
fn managed_fields_may_hold_anything() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  managedFields:\n  - manager: kubectl\n    fieldsV1: {f:metadata: {f:x: {}}}\n";
    assert!(read_from("f", text.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(())).is_ok());
}

#[test]
fn requirements_at_the_proposals_short_place_say_where_they_belong() {
    let text = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  requirements: []\n";
    let error = error(text);
    assert!(
        error.starts_with("f.yaml: document 1 (NodePool a): spec.requirements: unknown field: expected at spec.template.spec.requirements"),
        "{error}"
    );
}

/// The regression: pods were planned of Deployments and Jobs that no API server takes.
#[rstest]
#[case(
    "apps/v1",
    "Deployment",
    "{replicas: 1, selector: {matchLabels: {a: b}}, ",
    "Never",
    Some("found \"Never\", expected Always")
)]
#[case(
    "apps/v1",
    "DaemonSet",
    "{selector: {matchLabels: {a: b}}, ",
    "OnFailure",
    Some("found \"OnFailure\", expected Always")
)]
#[case("apps/v1", "StatefulSet", "{selector: {matchLabels: {a: b}}, ", "\"\"", None)]
#[case("batch/v1", "Job", "{", "Never", None)]
#[case("batch/v1", "Job", "{", "Always", Some("found \"Always\", expected one of OnFailure, Never"))]
#[case("batch/v1", "Job", "{", "\"\"", Some("is missing, which is Always, expected one of OnFailure, Never"))]
fn a_template_has_a_restart_policy_of_its_kind(
    #[case] version: &str,
    #[case] kind: &str,
    #[case] spec: &str,
    #[case] policy: &str,
    #[case] expected: Option<&str>,
) {
    let text = format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}template: {{metadata: {{labels: {{a: b}}}}, \
         spec: {{restartPolicy: {policy}, containers: [{{name: c}}]}}}}}}\n"
    );
    let read = read_from("f.yaml", text.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    let error = read.err().map(|error| error.to_string().lines().next().unwrap_or_default().to_owned());
    let prefix = format!("f.yaml: document 1 ({kind} a): spec.template.spec.restartPolicy: ");
    assert_eq!(error, expected.map(|expected| format!("{prefix}{expected}")));
}

#[test]
fn selector_that_misses_its_template_is_refused() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c}]}}}";
    assert_eq!(
        error(text),
        "f.yaml: document 1 (Deployment a): spec.replicas: found -1, expected 0 or more\n\
         f.yaml: document 1 (Deployment a): spec.selector: is empty or does not match spec.template.metadata.labels"
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_order() {
    let pod = |name: &str, field: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  {field}\n  containers: [{{name: a}}]\n"
        )
    };
    let text = [pod("a", "prority: 1"), "kind: [\n".to_owned(), pod("fine", ""), pod("b", "nodeNmae: c")].join("---\n");
    let error = error(&text);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert_eq!(lines[0], "f.yaml: document 1 (Pod a): spec.prority: unknown field: did you mean priority?");
    assert!(lines[1].starts_with("f.yaml: document 2, line "), "{error}");
    assert_eq!(lines[2], "f.yaml: document 4 (Pod b): spec.nodeNmae: unknown field: did you mean nodeName?");
}

#[test]
fn more_faults_than_are_listed_are_counted() {
    let text: String = (0..30).map(|i| format!("---\nkind: Pot\napiVersion: v1\nmetadata: {{name: a{i}}}\n")).collect();
    let error = error(&text);
    assert_eq!(error.lines().count(), 21, "{error}");
    assert!(error.ends_with("and 10 more objects with faults"), "{error}");
}

#[test]
fn a_semantic_fault_has_line_and_column_and_the_line_itself() {
    let text = "# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    \
                resources: {requests: {cpu: -1}}\n";
    let error = read_from("f.yaml", text.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("\n  --> f.yaml:8:33\n  8 |     resources: {requests: {cpu: -1}}"), "{error}");
    let second = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n}}\n---\n{text}");
    let error = read_from("f.yaml", second.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    assert!(error.unwrap_err().to_string().contains("--> f.yaml:12:33"));
}

#[test]
fn one_field_of_the_wrong_type_hides_no_other_fault_of_the_object() {
    let text = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: two
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: other}}
    spec:
      priorty: 3
      containers:
      - name: a
        image: 7
        resources: {requests: {cpu: 1x}}
      - name: b
        image: x
        resources: {requests: {cpu: [1]}}
";
    let error = error(text);
    for part in [
        "spec.replicas: found string",
        "containers[0].image: found integer",
        "containers[1].resources.requests.cpu",
        "containers[0].resources.requests.cpu: quantity \"1x\"",
        "spec.template.spec.priorty: unknown field",
        "spec.selector: is empty",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
    // Nothing is said to be missing that was only of the wrong type.
    assert!(!error.contains("missing"), "{error}");
}

#[rstest]
#[case(
    "minAvailable: 2, maxUnavailable: 1",
    "spec.maxUnavailable: found beside spec.minAvailable, expected one of the two"
)]
#[case("minAvailable: 10.5%", "spec.minAvailable: found \"10.5%\", expected 0 or more pods, or 0% to 100%")]
#[case("maxUnavailable: 101%", "spec.maxUnavailable: found \"101%\", expected 0 or more pods, or 0% to 100%")]
#[case("maxUnavailable: -1", "spec.maxUnavailable: found -1, expected 0 or more pods, or 0% to 100%")]
fn a_budget_that_the_api_server_refuses_is_told(#[case] spec: &str, #[case] message: &str) {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: default}";
    let told = error(&format!("{budget}\nspec: {{{spec}}}\n"));
    assert_eq!(told, format!("f.yaml: document 1 (PodDisruptionBudget default/b): {message}"));
}

#[test]
fn a_word_of_a_custom_resource_that_is_not_known_is_told_as_all_others_are() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 1000, template: {spec: \
                {requirements: [{key: a, operator: in, values: [b]}]}}}\n";
    let told = error(pool);
    let operator = "spec.template.spec.requirements[0].operator: found \"in\", expected one of In, NotIn, Exists, \
                    DoesNotExist, Gt, Lt, Gte, Lte: did you mean In?";
    assert!(told.contains(operator) && !told.contains("variant"), "{told}");
}

/// The regression: it was told when it was applied, without file and line.
#[rstest]
#[case::no_such_hour(
    "schedule: '0 25 * * *'",
    "spec.schedule: found \"0 25 * * *\", expected five fields of cron such as \"0 2 * * *\": end of range (25) above maximum (23): 25",
    "--> f.yaml:4:18"
)]
#[case::a_zone_of_its_own(
    "schedule: 'TZ=Europe/Berlin 0 2 * * *'",
    "spec.schedule: found \"TZ=Europe/Berlin 0 2 * * *\", expected no time zone: spec.timeZone names it",
    "--> f.yaml:4:18"
)]
#[case::an_empty_schedule(
    "schedule: ''",
    "spec.schedule: is missing or empty, expected five fields of cron such as \"0 2 * * *\"",
    "--> f.yaml:4:18"
)]
#[case::no_schedule(
    "suspend: true",
    "spec.schedule: is missing or empty, expected five fields of cron such as \"0 2 * * *\"",
    "--> f.yaml:4:7"
)]
#[case::no_such_zone(
    "timeZone: Mars, schedule: '0 2 * * *'",
    "spec.timeZone: found \"Mars\", expected a time zone such as Europe/Berlin",
    "--> f.yaml:4:18"
)]
fn when_a_cron_job_runs_is_told_by_file_and_line(#[case] when: &str, #[case] expected: &str, #[case] place: &str) {
    let text = format!(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: nightly, namespace: default}}\nspec: {{{when}, jobTemplate: {{spec: \
         {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}}}\n"
    );
    let error = read_from("f.yaml", text.as_bytes(), &Options::default(), |_, _| Ok::<(), ManifestError>(()));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with(&format!("f.yaml: document 1 (CronJob default/nightly): {expected}\n")), "{error}");
    assert!(error.contains(place), "{error}");
}
