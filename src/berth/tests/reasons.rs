//! What a pod that has no place is told, and plans that look green and are not: as a new user would meet them.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::{plan, with_input};
use rstest::rstest;

fn pod(spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: db}}\nspec:\n  containers: [{{name: c, image: img, resources: \
         {{requests: {{cpu: '1'}}}}}}]\n  {spec}\n"
    )
}

fn deployment(replicas: u32, requests: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  selector: \
         {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: \
         [{{name: c, image: img, resources: {{requests: {requests}}}}}]}}\n"
    )
}

const POOL: &str = "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: small}\nspec:\n  limits: {cpu: '4'}\n  \
                    template: {spec: {nodeClassRef: {group: berth.sh, kind: FakeNodeClass, name: c}, requirements: [\
                    {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}\n";

const VOLUME: &str = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: \
                      ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\nallowedTopologies:\n- \
                      matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [eu-west-9a]}]\n---\napiVersion: \
                      v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: fast, accessModes: \
                      [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";

#[rstest]
#[case::a_misspelt_key("nodeSelector: {topology.kubernetes.io/zon: port-1a}", &[], "the label topology.kubernetes.io/zon: did you mean topology.kubernetes.io/zone?")]
#[case::a_misspelt_value("nodeSelector: {topology.kubernetes.io/zone: port-1x}", &[], "topology.kubernetes.io/zone=port-1x: did you mean port-1a?")]
#[case::the_gate_is_off("nodeSelector: {karpenter.sh/capacity-type: reserved}", &["--feature-gates", "ReservedCapacity=false"], "the feature gate ReservedCapacity is off")]
#[case::topology_of_a_class("volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]", &[], "allowedTopologies of StorageClass fast: no node, NodePool or instance type has topology.kubernetes.io/zone=eu-west-9a")]
#[case::a_spread_over_a_key_that_nothing_has("topologySpreadConstraints: [{maxSkew: 1, topologyKey: nosuch.io/key, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]", &[], "topologySpreadConstraints: no node, NodePool or instance type has the label nosuch.io/key: labels or requirements of a NodePool would give it")]
#[case::a_spread_over_a_misspelt_key("topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zoen, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]", &[], "topologySpreadConstraints: no node, NodePool or instance type has the label topology.kubernetes.io/zoen: did you mean topology.kubernetes.io/zone?")]
#[case::affinity_to_nobody("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: cache}}}]}}", &[], "podAffinity: no pod in namespace default matches app=cache")]
#[case::affinity_to_nobody_elsewhere("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, namespaces: [shop, web], labelSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}}]}}", &[], "podAffinity: no pod in namespaces shop, web matches app in (a, b)")]
fn a_refusal_names_the_culprit_in_the_plan_and_in_its_story(
    #[case] spec: &str,
    #[case] flags: &[&str],
    #[case] says: &str,
) {
    let manifests = format!("{}{VOLUME}", pod(spec));
    let told = plan(&manifests, flags);
    assert_eq!(told.code, 1, "{}", told.stderr);
    let in_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_a_line(&told.stdout).contains(says), "{}", told.stdout);
    let story = with_input(&[&["explain", "-f", "-"], flags, &["pod/db"]].concat(), &manifests);
    assert!(in_a_line(&story.stdout).contains(says), "{}", story.stdout);
}

/// The regression: it began with the node affinity of a pod that has none.
#[test]
fn a_volume_that_can_be_nowhere_is_not_called_node_affinity() {
    let manifests = format!("{}{VOLUME}", pod("volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]"));
    let told = plan(&manifests, &[]).stdout;
    let story = with_input(&["explain", "-f", "-", "pod/db"], &manifests).stdout;
    for text in [told, story] {
        assert!(text.contains("didn't match where Pod's volumes can be"), "{text}");
        assert!(!text.contains("didn't match Pod's node affinity/selector"), "{text}");
    }
    // Where the pod's own selector keeps it off, that is what is said.
    let manifests = manifests.replace("  volumes:", "  nodeSelector: {kubernetes.io/arch: none}\n  volumes:");
    let told = plan(&manifests, &[]).stdout;
    assert!(told.contains("didn't match Pod's node affinity/selector"), "{told}");
}

#[test]
fn affinity_to_a_pod_that_is_there_or_to_its_like_is_no_fault_of_the_selector() {
    let affinity = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                    topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}\n  nodeSelector: {no: where}";
    let with_web = format!("{}{}", pod(affinity), deployment(1, "{cpu: '1'}"));
    let alike = pod(affinity).replace("{name: db}", "{name: db, labels: {app: web}}");
    for manifests in [with_web, alike] {
        let told = plan(&manifests, &[]);
        assert!(told.code == 1 && !told.stdout.contains("podAffinity"), "{}", told.stdout);
    }
}

#[test]
fn more_than_any_type_has_is_told_with_how_much_less_would_do() {
    let manifests = deployment(1, "{cpu: '300'}");
    let run = plan(&manifests, &[]);
    assert!(
        run.stdout.contains("it requests cpu 300: instance type ") && run.stdout.contains(" is nearest, with "),
        "{}",
        run.stdout
    );
    let story = with_input(&["explain", "-f", "-", "deployment/web"], &manifests).stdout;
    let change = story.lines().find(|line| line.contains(" at most (")).unwrap();
    // Whoever requests that has a place.
    let most = change.split("requested ").nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(plan(&deployment(1, &format!("{{cpu: '{most}'}}")), &[]).code, 0, "{change}");
}

#[test]
fn plan_and_explain_name_the_same_instance_type_as_nearest() {
    // Two have as much, and a third has more of what there is enough of.
    let of_type = |name: &str, cpu: u32, memory: u32, price: f64| {
        serde_json::json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": "110"},
            "offerings": [{"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]})
    };
    let types = [of_type("a-dear", 96, 192, 5.0), of_type("b-cheap", 96, 192, 4.0), of_type("c-large", 64, 768, 3.0)];
    let file = std::env::temp_dir().join(format!("berth-nearest-{}.json", std::process::id()));
    std::fs::write(&file, serde_json::Value::from(types.to_vec()).to_string()).unwrap();
    let flags = ["--instance-types", file.to_str().unwrap()];
    for (requests, says) in [
        ("{cpu: '99'}", "it requests cpu 99: instance type b-cheap is nearest, with 96"),
        ("{cpu: '99', memory: 700Gi}", "it requests cpu 99: instance type c-large is nearest, with 64"),
    ] {
        let manifests = deployment(1, requests);
        let told = plan(&manifests, &flags).stdout;
        assert!(told.contains(says), "{told}");
        let story = with_input(&[&["explain", "-f", "-"], &flags[..], &["deployment/web"]].concat(), &manifests).stdout;
        let nearest = says.split("instance type ").nth(1).unwrap().split(' ').next().unwrap();
        assert!(story.contains(&format!("({nearest} of NodePool default is nearest)")), "{story}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_limit_that_is_reached_is_told_with_how_far_it_would_have_to_be_raised() {
    let manifests = format!("{}{POOL}", deployment(3, "{cpu: 1500m}"));
    let run = plan(&manifests, &[]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("limits.cpu of NodePool small is 4, of which"), "{}", run.stdout);
    let story = with_input(&["explain", "-f", "-", "deployment/web"], &manifests).stdout;
    let change = story.lines().find(|line| line.contains("limits.cpu of NodePool small were")).unwrap();
    assert!(change.contains("(it is 4)"), "{change}");
    // With that limit one more has a place.
    let raised = change.split("were ").nth(1).unwrap().split(' ').next().unwrap();
    let manifests = manifests.replace("{cpu: '4'}", &format!("{{cpu: '{raised}'}}"));
    assert!(plan(&manifests, &[]).stdout.contains("3 placed"), "{change}");
}

#[rstest]
#[case("deployment/wbe", "did you mean web?")]
#[case("pod/web-7", "those of web are web-0 to web-2")]
fn explain_says_what_a_name_may_have_been_meant_for(#[case] object: &str, #[case] says: &str) {
    let run = with_input(&["explain", "-f", "-", object], &deployment(3, "{cpu: '1'}"));
    assert!(run.code == 2 && run.stderr.contains(says), "{}", run.stderr);
}

#[test]
fn explain_takes_the_namespace_as_kubectl_does() {
    let shop = pod("").replace("name: db", "name: db, namespace: shop");
    for object in [&["-n", "shop", "pod/db"][..], &["pod/db", "--namespace", "shop"], &["-n", "other", "pod/shop/db"]] {
        let run = with_input(&[&["explain", "-f", "-"], object].concat(), &shop);
        assert!(run.code == 0 && run.stdout.starts_with("Pod shop/db "), "{object:?}: {}{}", run.stdout, run.stderr);
    }
    let run = with_input(&["explain", "-f", "-", "pod/db"], &shop);
    assert!(run.code == 2 && run.stderr.contains("shop"), "{}", run.stderr);
}

#[test]
fn running_pods_of_a_daemon_set_that_is_not_given_keep_their_room_on_new_nodes() {
    let daemon = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '2', memory: 8Gi, pods: \
                  '110'}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: agent-x, namespace: kube-system, ownerReferences: \
                  [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]}\nspec: {nodeName: n1, \
                  containers: [{name: c, image: img, resources: {requests: {cpu: 1900m}}}]}\nstatus: {phase: Running}\n";
    let manifests = format!("{}{daemon}", deployment(1, "{cpu: 1500m}"));
    let run = plan(&manifests, &["-o", "json"]);
    assert!(run.stderr.contains("DaemonSet kube-system/agent is not in the input"), "{}", run.stderr);
    let with: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let without: serde_json::Value =
        serde_json::from_str(&plan(&deployment(1, "{cpu: 1500m}"), &["-o", "json"]).stdout).unwrap();
    let cost = |plan: &serde_json::Value| plan["summary"]["hourlyCost"].as_f64().unwrap();
    assert!(cost(&with) > cost(&without), "a node for the pod alone would be too small");
    // From scratch, too: the DaemonSet's pod goes with its node, and comes with each new one.
    let repacked = plan(&manifests, &["-o", "json", "--repack"]);
    let repacked: serde_json::Value = serde_json::from_str(&repacked.stdout).unwrap();
    assert_eq!(repacked["repack"]["fromScratch"]["hourlyCost"].as_f64(), Some(cost(&with)), "{}", repacked["repack"]);
}

#[test]
fn what_a_quota_keeps_out_is_told_and_not_planned() {
    let quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team}\nspec: {hard: {requests.cpu: '3'}}\n";
    let run = plan(&format!("{}{quota}", deployment(5, "{cpu: '1'}")), &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let says =
        "Deployment default/web: 2 of 5 pods would not be created: ResourceQuota team: requests.cpu: 0 used, 3 at most";
    assert!(run.stdout.contains("3 placed") && run.stderr.contains(says), "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_kustomization_of_a_folder_is_told_to_be_unbuilt() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("unbuilt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kustomization.yaml"), "resources: [web.yaml]\n").unwrap();
    let lone = common::berth(&["plan", "-f", folder.to_str().unwrap()]);
    assert!(lone.code == 2 && lone.stderr.contains("which -k builds"), "{}", lone.stderr);
    std::fs::write(folder.join("web.yaml"), deployment(1, "{cpu: '1'}")).unwrap();
    let run = common::berth(&["plan", "-f", folder.to_str().unwrap()]);
    assert!(run.code == 0 && run.stderr.contains("kustomization.yaml is not built"), "{}", run.stderr);
    assert!(run.stderr.contains("give its folder with -k"), "{}", run.stderr);
}

#[rstest]
#[case::a_misspelt_value(
    "{key: kubernetes.io/arch, operator: In, values: [arm46]}",
    "no instance type has kubernetes.io/arch=arm46, which NodePool gp requires: did you mean arm64?"
)]
#[case::a_type_of_another_name(
    "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.larg]}",
    "node.kubernetes.io/instance-type=m5.larg, which NodePool gp requires: did you mean m5.large?"
)]
#[case::another_region(
    "{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a, eu-west-1b]}",
    "topology.kubernetes.io/zone in (eu-west-1a, eu-west-1b), which NodePool gp requires: there is port-1a, port-1b, port-1c"
)]
#[case::more_than_there_is(
    "{key: berth.sh/instance-cpu, operator: Gt, values: ['4000']}",
    "berth.sh/instance-cpu of 4001 at least, which NodePool gp requires: there is "
)]
#[case::no_slots(
    "{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}",
    "karpenter.sh/capacity-type=reserved, which NodePool gp requires: there is on-demand, spot"
)]
#[case::two_that_exclude_each_other(
    "{key: kubernetes.io/arch, operator: In, values: [arm64]}, {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}",
    "no instance type has both kubernetes.io/arch=arm64 and node.kubernetes.io/instance-type=m5.large, which NodePool gp requires"
)]
fn a_node_pool_that_no_type_serves_names_the_requirement(#[case] requirements: &str, #[case] says: &str) {
    let pool = format!(
        "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: gp}}\nspec:\n  template: {{spec: \
         {{nodeClassRef: {{group: berth.sh, kind: FakeNodeClass, name: c}}, requirements: [{requirements}]}}}}\n"
    );
    let manifests = format!("{}{pool}", pod(""));
    let told = plan(&manifests, &[]);
    assert_eq!(told.code, 1, "{}", told.stderr);
    let in_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_a_line(&told.stdout).contains(says), "{}", told.stdout);
    let story = with_input(&["explain", "-f", "-", "pod/db"], &manifests);
    assert!(in_a_line(&story.stdout).contains(says), "{}", story.stdout);
}

/// The regression: a DaemonSet whose pods had no room on nodes that are there was not told of, and the exit code was 0.
#[test]
fn a_daemon_without_room_is_told_with_its_node_and_the_reason() {
    let node = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/os: linux}}}}\nstatus: \
             {{allocatable: {{cpu: 2, memory: 8Gi, pods: 10}}}}\n"
        )
    };
    let running = pod("nodeName: n1").replace("cpu: '1'", "cpu: 1500m");
    let daemon =
        deployment(1, "{cpu: 1}").replace("kind: Deployment", "kind: DaemonSet").replace("  replicas: 1\n", "");
    let manifests = [node("n1"), node("n2"), running, daemon].concat();
    let told = plan(&manifests, &[]);
    assert_eq!(told.code, 1, "{}", told.stderr);
    let expected = "Pod default/web-n1:\n  0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node \
                    affinity/selector\n  only node n1 may take it\n";
    assert!(told.stdout.contains(expected), "{}", told.stdout);
    let json: serde_json::Value = serde_json::from_str(&plan(&manifests, &["-o", "json"]).stdout).unwrap();
    assert_eq!(json["unschedulable"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!((&json["unschedulable"][0]["object"], &json["summary"]["pods"]), (&"default/web-n1".into(), &1.into()));
    let story = with_input(&["explain", "-f", "-", "pod/web-n1"], &manifests);
    assert!(story.stdout.contains("Insufficient cpu (n1)"), "{}", story.stdout);
    // Where others give way, it has room.
    let class = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: first}\nvalue: 1000\n";
    let first = manifests.replace("    spec: {containers", "    spec: {priorityClassName: first, containers") + class;
    let json: serde_json::Value = serde_json::from_str(&plan(&first, &["-o", "json"]).stdout).unwrap();
    assert_eq!(json["nodes"][0]["pods"], serde_json::json!(["default/web-n1"]), "{json}");
    assert_eq!(json["nodes"][0]["preempted"].as_array().unwrap().len(), 1, "{json}");
}

/// The regression: another zone was suggested, as if the one that is sold out had been mistyped.
#[test]
fn a_zone_that_is_sold_out_is_not_said_to_be_mistyped() {
    let offering = |zone: &str, is_there: bool| {
        format!(
            "  - {{Price: 0.4, Available: {is_there}, Requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: \
             [on-demand]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [{zone}]}}]}}\n"
        )
    };
    let catalogue = format!(
        "- name: big\n  architecture: amd64\n  operatingSystems: [linux]\n  resources: {{cpu: '4', memory: 16Gi, pods: '20'}}\n  \
         offerings:\n{}{}",
        offering("z-a", false),
        offering("z-b", true)
    );
    let none_left = catalogue.replace("Available: true", "Available: false");
    let run = |catalogue: &str, zone: &str| {
        let file = std::env::temp_dir().join(format!("berth-sold-out-zone-{}.yaml", std::process::id()));
        std::fs::write(&file, catalogue).unwrap();
        let pod = pod(&format!("nodeSelector: {{topology.kubernetes.io/zone: {zone}}}"));
        let told = plan(&format!("{POOL}{pod}"), &["--instance-types", &file.to_string_lossy()]).stdout;
        std::fs::remove_file(&file).unwrap();
        told
    };
    for catalogue in [&catalogue, &none_left] {
        let (sold_out, mistyped) = (run(catalogue, "z-a"), run(catalogue, "z-c"));
        let expected = "no instance is left of the types that have topology.kubernetes.io/zone=z-a";
        assert!(sold_out.contains(expected) && !sold_out.contains("did you mean"), "{sold_out}");
        assert!(mistyped.contains("topology.kubernetes.io/zone=z-c: did you mean z-"), "{mistyped}");
    }
}

/// The regression: a NodePool whose types are all sold out was told that none met its requirements, with a hint that was wrong.
#[rstest]
#[case::none_at_all("false")]
#[case::a_count_of_none("0")]
fn what_is_sold_out_is_told_as_such(#[case] available: &str) {
    let catalogue = format!(
        "- name: big\n  architecture: amd64\n  operatingSystems: [linux]\n  resources: {{cpu: '4', memory: 16Gi, pods: '20'}}\n  \
         offerings:\n  - {{Price: 0.4, Available: {available}, Requirements: [{{key: karpenter.sh/capacity-type, operator: In, \
         values: [on-demand]}}, {{key: topology.kubernetes.io/zone, operator: In, values: [a]}}]}}\n"
    );
    let file = std::env::temp_dir().join(format!("berth-sold-out-{available}-{}.yaml", std::process::id()));
    std::fs::write(&file, catalogue).unwrap();
    let types = file.to_string_lossy().into_owned();
    let run = plan(&format!("{POOL}{}", pod("")), &["--instance-types", &types]);
    let other = plan(&format!("{}{}", POOL.replace("on-demand", "spot"), pod("")), &["--instance-types", &types]);
    std::fs::remove_file(&file).unwrap();
    assert!(
        run.stdout.contains("NodePool small: no instance is left of the types that meet its requirements"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("no instance type has"), "{}", run.stdout);
    assert!(other.stdout.contains("NodePool small: no instance type meets its requirements"), "{}", other.stdout);
}
