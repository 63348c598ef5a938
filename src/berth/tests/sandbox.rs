//! `berth sandbox`, run as a user runs it.

mod common;

use common::{berth, with_input};

#[test]
fn a_claim_settles_as_a_node() {
    let claim = "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: mine}
spec:
  nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";
    let run = with_input(&["sandbox", "-f", "-", "--exit-when-settled", "-o", "json"], claim);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let events: Vec<String> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events, ["Launched", "NodesReady"]);
}

#[test]
fn what_is_left_over_is_named() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {nodeSelector: {there-is: none}, containers: [{name: c, image: i}]}}";
    let run = with_input(&["sandbox", "-f", "-", "--exit-when-settled"], pod);
    assert_eq!(run.code, 1);
    let why = "left over: pod default/big: 0/0 nodes are available. No new node: NodePool default: ";
    assert!(run.stderr.starts_with(why), "{}", run.stderr);
}

#[test]
fn pending_pods_become_nodes_slots_first() {
    let (files, types) = ("examples/reserved-first", "examples/catalogues/four-slots.yaml");
    let run = berth(&["sandbox", "-f", files, "--instance-types", types, "--exit-when-settled"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let launched =
        "14 pods pending → 5 nodes: 4 × m5.xlarge on cr-web, 1 × m5.xlarge on-demand in port-1a; all nodes $0.192/h";
    assert!(run.stdout.contains(launched), "{}", run.stdout);
}

#[test]
fn bad_input_is_told_and_starts_nothing() {
    for (args, expected) in [
        (vec!["sandbox", "--instance-types", "x.yaml"], "error: --instance-types without objects"),
        (vec!["sandbox", "--max-share", "zone=2"], "error: "),
        (vec!["sandbox", "-f", "/nonexistent"], "error: /nonexistent: cannot be read"),
        (vec!["sandbox", "--kubeconfig", "/nonexistent/config"], "error: unable to write the kubeconfig"),
        (vec!["sandbox", "-f", "/dev/null"], "error: "),
    ] {
        let run = berth(&args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with(expected), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn what_is_recorded_can_be_simulated_and_looked_at() {
    let folder = std::env::temp_dir().join(format!("berth-sandbox-recorded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (trace, page) = (folder.join("trace.jsonl"), folder.join("page.html"));
    let (trace, page) = (trace.to_str().unwrap(), page.to_str().unwrap());
    let (files, types) = ("examples/reserved-first", "examples/catalogues/four-slots.yaml");
    let run = berth(&[
        "sandbox",
        "-f",
        files,
        "--instance-types",
        types,
        "--exit-when-settled",
        "--eviction-price=0.25",
        "--record-trace",
        trace,
        "--record",
        page,
        "--page",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.starts_with("the page: http://127.0.0.1:"), "{}", run.stderr);
    let recorded = std::fs::read_to_string(trace).unwrap();
    assert!(recorded.contains("\"evictionPrice\":0.25"), "a replay is at the same price");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("\"instanceType\":\"m5.xlarge\"") && html.contains("14 pods pending"), "no node in the page");
    let simulated = berth(&["simulate", trace, "-o", "json"]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(simulated.code, 0, "{}", simulated.stderr);
    let report: serde_json::Value = serde_json::from_str(&simulated.stdout).unwrap();
    assert_eq!(report.pointer("/variants/0/nodes/launched"), Some(&5.into()), "{report:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_whose_disk_is_full_is_told_and_does_not_cost_the_recording_of_the_page() {
    let page = std::env::temp_dir().join(format!("berth-sandbox-full-{}.html", std::process::id()));
    let path = page.to_str().unwrap();
    let files = ["sandbox", "-f", "examples/room", "--exit-when-settled", "--record-trace", "/dev/full", "--record"];
    let run = berth(&[&files[..], &[path]].concat());
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(run.stderr.matches("warning: /dev/full: nothing more is recorded: ").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("error: unable to write /dev/full"), "{}", run.stderr);
    assert!(html.contains("\"instanceType\":") && html.trim_end().ends_with("</html>"), "{} bytes", html.len());
}

#[test]
fn a_page_is_served_to_this_machine_alone_and_files_are_made_before_anything_begins() {
    let run = with_input(
        &["sandbox", "-f", "-", "--page", "0.0.0.0:0"],
        "{apiVersion: v1, kind: Namespace, metadata: {name: a}}",
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains("expected an address of this machine alone"), "{}", run.stderr);
    let run = berth(&["sandbox", "--record-trace", "/nonexistent/trace.jsonl"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.starts_with("error: unable to write /nonexistent/trace.jsonl"), "{}", run.stderr);
}

// A full disk, as far as writes can tell.
#[cfg(target_os = "linux")]
#[test]
fn a_line_that_cannot_be_written_is_no_success() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    let args = ["sandbox", "-f", "examples/room", "--exit-when-settled"];
    let run = command.args(args).current_dir(common::root()).stdin(std::process::Stdio::null()).stdout(full);
    let output = run.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.matches("error: unable to write to standard output: ").count(), 1, "{stderr}");
}

#[test]
fn a_recording_of_a_simulation_tells_its_days_and_changes_nothing() {
    let file = std::env::temp_dir().join(format!("berth-simulated-{}.html", std::process::id()));
    let path = file.to_str().unwrap();
    let scenario = "examples/simulate/two-days.yaml";
    let recorded = berth(&["simulate", scenario, "-o", "json", "--record", path]);
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    std::fs::remove_file(&file).ok();
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    assert_eq!(recorded.stdout, berth(&["simulate", scenario, "-o", "json"]).stdout);
    // The frames are in the order of their time, up to the last event of two days.
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let frames = data["frames"].as_array().unwrap();
    let times: Vec<u64> = frames.iter().map(|frame| frame["at"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && times.len() > 20 && times.len() <= 2_100, "{} frames", times.len());
    assert!(times.last() == Some(&(48 * 3_600_000)), "{:?}", times.last());
    let said: Vec<&str> = frames
        .iter()
        .flat_map(|frame| frame["said"].as_array().into_iter().flatten())
        .filter_map(|said| said["message"].as_str())
        .collect();
    assert!(said.iter().any(|said| said.ends_with("on cr-web launched")), "{said:?}");
    assert!(said.contains(&"Deployment default/web is scaled to 14"), "{said:?}");
    let slots: Vec<[Option<i64>; 2]> = frames
        .iter()
        .filter_map(|frame| frame["slots"]["cr-web"].as_object())
        .map(|slots| [slots["used"].as_i64(), slots["total"].as_i64()])
        .collect();
    assert!(slots.contains(&[Some(4), Some(4)]) && slots.last() == Some(&[Some(2), Some(2)]), "{slots:?}");
    assert!(frames.iter().any(|frame| frame["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty())));

    let varied = berth(&["simulate", scenario, "--record", path, "--vary", "reservation.cr-web=0,2"]);
    assert_eq!(varied.code, 2);
    assert!(varied.stderr.contains("--record: expected one variant, found 2"), "{}", varied.stderr);
    assert!(!file.exists());
}
