//! `berth plan -o html`: what the page says, and how large it gets.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests stop at what they did not expect; clippy looks only into test functions"
)]

mod common;

use common::{berth, plan};
use serde_json::Value;

const FOUR_SLOTS: &str = "examples/catalogues/four-slots.yaml";

fn page_of_example() -> String {
    let run = berth(&["plan", "-f", "examples/reserved-first", "--instance-types", FOUR_SLOTS, "-o", "html"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout
}

/// What the page's script draws.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").expect("the page has data");
    let (data, _) = rest.split_once("</script>").expect("the data ends");
    serde_json::from_str(data).expect("data is JSON")
}

/// The page without what is the same in every page: style, data and script.
fn markup(page: &str) -> String {
    let mut rest = page;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("<s").filter(|(_, after)| !after.is_empty()) {
        out.push_str(before);
        rest = match after {
            _ if after.starts_with("tyle>") => after.split_once("</style>").expect("it ends").1,
            _ if after.starts_with("cript") => after.split_once("</script>").expect("it ends").1,
            _ => {
                out.push_str("<s");
                after
            }
        };
    }
    out + rest
}

#[test]
fn the_figures_stand_in_the_page_itself() {
    let page = page_of_example();
    let markup = markup(&page);
    for text in [
        "<title>Berth plan: 5 nodes, $0.192/h</title>",
        "<dt>Cost</dt><dd>$0.192/h<small>about $140 a month</small><small>$0.96/h by list price</small></dd>",
        "<dt>Nodes to launch</dt><dd>5</dd>",
        "<dt>Pods placed</dt><dd>14</dd>",
        "<dt>Reserved slots used</dt><dd>4 of 4",
        "<td>cr-web</td><td>m5.xlarge</td><td>port-1a</td>",
        "<td>prefer-reserved</td><td>m5.xlarge</td><td>port-1a</td><td><span class=\"cap reserved\">reserved</span></td>",
    ] {
        assert!(markup.contains(text), "{text} is not in {markup}");
    }
    // Nobody asked for a bound, and everything has a place.
    assert!(!markup.contains("ound</dt>") && !markup.contains("Unschedulable"), "{markup}");
}

#[test]
fn alike_nodes_are_one_bin_that_deals_out_who_is_where() {
    let data = data(&page_of_example());
    let groups = data["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    let reserved = &groups[0];
    assert_eq!(
        (&reserved["c"], &reserved["v"], &reserved["p"]),
        (&"reserved".into(), &"cr-web".into(), &"prefer-reserved".into())
    );
    // Three pods of the one class on each of four nodes from number 1 on, beginning with the first pod.
    assert_eq!((&reserved["k"], &reserved["n"]), (&serde_json::json!([[0, 3]]), &serde_json::json!([[1, 4, [0]]])));
    assert_eq!(groups[1]["n"], serde_json::json!([[5, 1, [12]]]));
    assert_eq!(data["classes"][0]["m"], serde_json::json!([["default/web", 0, 14]]));
    // 3 × 1200m of 3920m.
    assert_eq!(reserved["q"][0], 3600);
    assert_eq!(data["types"][index(&reserved["t"])][1][0], 3920);
    assert_eq!(data["resources"][0], serde_json::json!(["cpu", "milli"]));
}

#[test]
fn the_page_names_nodes_and_pods_as_the_json_contract_does() {
    let manifests: String = (0..40).map(|at| deployment(&format!("app-{at}"), at % 9, 300 + 170 * (at % 11))).collect();
    let output = |format| plan(&manifests, &["--instance-types", FOUR_SLOTS, "-o", format]).stdout;
    let contract: Value = serde_json::from_str(&output("json")).unwrap();
    let data = data(&output("html"));
    let mut said: Vec<(String, Vec<String>)> =
        data["groups"].as_array().unwrap().iter().flat_map(nodes_of(&data)).collect();
    let claims = contract["nodeClaims"].as_array().unwrap().iter();
    let mut expected: Vec<(String, Vec<String>)> = claims
        .map(|claim| {
            let mut pods: Vec<String> =
                claim["pods"].as_array().unwrap().iter().map(|pod| pod.as_str().unwrap().to_owned()).collect();
            pods.sort();
            (claim["name"].as_str().unwrap().to_owned(), pods)
        })
        .collect();
    said.sort();
    expected.sort();
    assert!(expected.len() > 5);
    assert_eq!(said, expected);
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The nodes of a group with their pods, read as the page's script reads them.
fn nodes_of(data: &Value) -> impl Fn(&Value) -> Vec<(String, Vec<String>)> {
    let members: Vec<Vec<String>> = data["classes"].as_array().unwrap().iter().map(members).collect();
    move |group| {
        let mut nodes = Vec::new();
        for part in group["n"].as_array().unwrap() {
            for nth in 0..index(&part[1]) {
                let mut pods = Vec::new();
                for (at, content) in group["k"].as_array().unwrap().iter().enumerate() {
                    let first = index(&part[2][at]) + nth * index(&content[1]);
                    pods.extend_from_slice(&members[index(&content[0])][first..first + index(&content[1])]);
                }
                pods.sort();
                nodes.push((format!("{}-{:05}", group["p"].as_str().unwrap(), index(&part[0]) + nth), pods));
            }
        }
        nodes
    }
}

fn members(class: &Value) -> Vec<String> {
    let runs = class["m"].as_array().unwrap().iter();
    runs.flat_map(|run| {
        if let Some(name) = run.as_str() {
            return vec![name.to_owned()];
        }
        let (first, count) = (run[1].as_u64().unwrap(), run[2].as_u64().unwrap());
        (first..first + count).map(|number| format!("{}-{number}", run[0].as_str().unwrap())).collect()
    })
    .collect()
}

fn deployment(name: &str, replicas: u32, milli_cpu: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: a, image: a, resources: {{requests: {{cpu: {milli_cpu}m, memory: 1Gi}}}}}}]}}\n---\n"
    )
}

#[test]
fn what_has_no_place_is_told_with_its_counted_reasons() {
    let manifests = deployment("huge", 3, 5_000_000);
    let run = plan(&manifests, &["-o", "html"]);
    assert_eq!(run.code, 1);
    let markup = markup(&run.stdout);
    assert!(markup.contains("<h3><span>Pod</span> default/huge-0 <span>and 2 more alike</span></h3>"), "{markup}");
    assert!(markup.contains("<b>NodePool default</b>"), "{markup}");
    let (_, reason) = markup.split_once("<span class=\"reason\"><b>").expect("a reason has a count");
    let (count, reason) = reason.split_once("</b> ").unwrap();
    assert!(count.replace(',', "").parse::<u32>().unwrap() > 0);
    assert!(reason.starts_with("Insufficient cpu</span>"), "{reason}");
    assert!(markup.contains("<p>No nodes are launched.</p>"));
}

#[test]
fn existing_nodes_are_drawn_with_what_was_free_and_what_joins() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a, labels: {topology.kubernetes.io/zone: z-1}}\n\
                status: {capacity: {cpu: '4', memory: 16Gi, pods: '10'}, allocatable: {cpu: '3', memory: 14Gi, pods: '10'}, \
                conditions: [{type: Ready, status: 'True'}]}\n---\n";
    let data = data(&plan(&format!("{node}{}", deployment("web", 2, 1000)), &["-o", "html"]).stdout);
    let node = &data["nodes"][0];
    assert_eq!((&node["o"], &node["z"], &node["p"]), (&"node-a".into(), &"z-1".into(), &Value::Null));
    assert_eq!(
        (&node["a"][0], &node["b"][0], &node["k"], &node["n"]),
        (&3000.into(), &3000.into(), &serde_json::json!([[0, 2]]), &serde_json::json!([0]))
    );
    assert_eq!(data["groups"], serde_json::json!([]));
}

#[test]
fn a_page_asks_for_nothing_and_runs_no_script_but_its_own() {
    let page = page_of_example();
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
    for word in ["http://", "https://", " src=", "<link", "<iframe", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_same_input_gives_the_same_page_on_any_number_of_threads() {
    let manifests: String = (0..60).map(|at| deployment(&format!("web-{at}"), at % 7, 700)).collect();
    let run = |threads| plan(&manifests, &["-o", "html", "--now", "2026-01-01T00:00:00Z", "--threads", threads]);
    let one = run("1");
    for threads in ["2", "8"] {
        assert_eq!(run(threads).stdout, one.stdout);
    }
}

#[test]
fn a_page_grows_with_what_differs_and_not_with_nodes() {
    // One pod a node.
    let lonely = |replicas| {
        let manifest = deployment("web", replicas, 1000);
        let spec = "    spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                    [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}, ";
        plan(&manifest.replace("    spec: {", spec), &["-o", "html", "--effort", "low"]).stdout
    };
    let (few, many) = (lonely(10), lonely(10_000));
    assert!(many.contains("<dt>Nodes to launch</dt><dd>10,000</dd>"));
    assert!(many.len() < few.len() + 1000, "{} and {}", few.len(), many.len());
}

#[test]
fn nodes_that_a_static_pool_misses_are_not_drawn_as_existing_ones() {
    const POOL: &str = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: fixed}\nspec:\n  replicas: 1\n  \
                        template: {spec: {nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: default}, \
                        requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]}}\n---\n\
                        apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: \
                        {requests: {cpu: 2}}}]}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: old, labels: \
                        {kubernetes.io/hostname: old, kubernetes.io/os: linux}}\nstatus: {allocatable: {cpu: 1, pods: 10}, \
                        conditions: [{type: Ready, status: 'True'}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n\
                        spec: {nodeSelector: {kubernetes.io/hostname: old}, containers: [{name: c}]}\n";
    let file = std::env::temp_dir().join(format!("berth-static-{}.yaml", std::process::id()));
    std::fs::write(&file, POOL).unwrap();
    let run = berth(&["plan", "-f", file.to_str().unwrap(), "--feature-gates", "StaticCapacity=true", "-o", "html"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let data = data(&run.stdout);
    let mut nodes: Vec<(&str, bool)> = data["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["o"].as_str().unwrap(), node["l"].as_bool().unwrap_or(false)))
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [("fixed-00001", true), ("old", false)]);
}
