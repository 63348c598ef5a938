//! `berth plan --from-cluster`: of Berth's own API server, and of servers that refuse.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at what they did not expect; clippy looks only into test functions"
)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{berth, root};

/// A sandbox, ended with the test.
struct Sandbox(Child);

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("from-cluster-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn sandbox(manifests: &str, folder: &Path) -> (Sandbox, String) {
    let (kubeconfig, file) = (folder.join("kubeconfig"), folder.join("manifests.yaml"));
    std::fs::write(&file, manifests).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["sandbox", "--without-berth", "--kubeconfig"]).arg(&kubeconfig).arg("-f").arg(&file);
    let child = command.current_dir(root()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sandbox = Sandbox(child);
    for _ in 0..600 {
        if std::fs::read_to_string(&kubeconfig).is_ok_and(|text| text.contains("server")) {
            return (sandbox, kubeconfig.display().to_string());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no sandbox came up");
}

/// A kubeconfig with one context, `mine`, of a server.
fn kubeconfig(folder: &Path, server: &str) -> String {
    let file = folder.join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: mine\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: mine, context: {{cluster: c, user: u}}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// A server that answers a few requests: each with what `answer` says of its path.
fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(100) {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).unwrap();
            let mut line = String::from("x");
            while line.trim() != "" {
                line.clear();
                if reader.read_line(&mut line).unwrap() == 0 {
                    break;
                }
            }
            let (code, body) = answer(first.split(' ').nth(1).unwrap_or_default());
            let head = format!(
                "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    format!("http://{address}")
}

fn status(code: u16, message: &str) -> (u16, String) {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": "X", "code": code});
    (code, status.to_string())
}

#[test]
fn what_a_cluster_holds_is_planned() {
    let folder = scratch("sandbox");
    let manifests = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: elsewhere, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: elsewhere}}
  template:
    metadata: {labels: {app: elsewhere}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: own, labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 110}}
";
    let (_sandbox, kubeconfig) = sandbox(manifests, &folder);
    let plan = || {
        let run = berth(&["plan", "--from-cluster", "--kubeconfig", &kubeconfig, "-o", "json"]);
        assert!(run.code < 2, "{}", run.stderr);
        serde_json::from_str::<serde_json::Value>(&run.stdout).unwrap()
    };
    // The controllers may not have made all pods yet.
    let again = |n| {
        std::thread::sleep(Duration::from_millis(if n == 0 { 0 } else { 100 }));
        plan()
    };
    let plan = (0..200).map(again).find(|plan| plan["summary"]["pods"] == 3).unwrap();
    assert_eq!((&plan["summary"]["pods"], &plan["summary"]["placed"]), (&3.into(), &3.into()), "{plan}");
    let run = berth(&["plan", "--from-cluster", "--kubeconfig", &kubeconfig, "--context", "nope"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (2, "", 1), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: context \"nope\" is not in the kubeconfig: it has "), "{}", run.stderr);
}

#[test]
fn a_cluster_that_nobody_reaches_is_one_line() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = kubeconfig(&scratch("unreachable"), &format!("http://127.0.0.1:{port}"));
    let run = berth(&["plan", "--from-cluster", "--kubeconfig", &file]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (2, "", 1), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: cluster of context mine: unable to reach it"), "{}", run.stderr);
}

#[test]
fn controllers_ask_a_cluster_that_is_not_up_yet_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let n = Arc::clone(&asked);
    let server = serve(move |_| match n.fetch_add(1, Ordering::Relaxed) {
        0..3 => status(500, "starting"),
        _ => status(404, "not found"),
    });
    let file = kubeconfig(&scratch("starting"), &server);
    for command in [&["run", "--provider", "fake"][..], &["cloud"]] {
        asked.store(0, Ordering::Relaxed);
        let args = [command, &["--kubeconfig", &file]].concat();
        let run = berth(&args);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("does not serve NodePool") && asked.load(Ordering::Relaxed) > 3, "{}", run.stderr);
        // Not for ever.
        asked.store(0, Ordering::Relaxed);
        let run = berth(&[&args[..], &["--wait-for-cluster", "0"]].concat());
        assert_eq!((run.code, asked.load(Ordering::Relaxed)), (2, 1), "{}", run.stderr);
        assert!(run.stderr.contains("it answers 500: starting"), "{}", run.stderr);
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = kubeconfig(&scratch("silent"), &format!("http://127.0.0.1:{port}"));
    let run = berth(&["run", "--provider", "fake", "--kubeconfig", &file, "--wait-for-cluster", "1"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let last = run.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: no answer within 1s") && last.contains("unable to reach it"), "{}", run.stderr);
}

/// The regression: the client asked again by itself, for as long as an answer was waited for, what a budget refuses with 429, and other
/// requests waited behind evictions.
#[test]
fn an_answer_that_refuses_is_taken_as_one() {
    let asked = Arc::new(AtomicUsize::new(0));
    let n = Arc::clone(&asked);
    let server = serve(move |_| {
        n.fetch_add(1, Ordering::Relaxed);
        status(429, "disruption budget")
    });
    let file = kubeconfig(&scratch("refusing"), &server);
    let run = berth(&["run", "--provider", "fake", "--kubeconfig", &file, "--wait-for-cluster", "0"]);
    assert_eq!((run.code, asked.load(Ordering::Relaxed)), (2, 1), "{}", run.stderr);
    assert!(run.stderr.contains("it answers 429: disruption budget"), "{}", run.stderr);
}

#[test]
fn what_may_not_be_listed_is_named() {
    let server = serve(|path| {
        match path {
        "/api/v1" => (
            200,
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list"]},{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["list"]}]}"#.to_owned(),
        ),
        path if path.starts_with("/api/v1/nodes") => status(403, "nodes is forbidden: User \"u\" cannot list resource \"nodes\""),
        path if path.starts_with("/api/v1/pods") => (200, r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#.to_owned()),
        _ => status(404, "not found"),
    }
    });
    let file = kubeconfig(&scratch("forbidden"), &server);
    let run = berth(&["plan", "--from-cluster", "--kubeconfig", &file]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (2, "", 1), "{}", run.stderr);
    for word in ["context mine: may not list nodes", "cannot list resource", "needs the verb list"] {
        assert!(run.stderr.contains(word), "{word} is not in {}", run.stderr);
    }
}

#[test]
fn pages_are_read_to_the_end_and_absent_kinds_are_empty() {
    let pod = |name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"default","managedFields":[{{"manager":"m"}}]}},"spec":{{"containers":[{{"name":"c","image":"i","fieldOfANewerVersion":1}}]}}}}"#
        )
    };
    let list = move |more: &str, name: &str| {
        (
            200,
            format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"continue":"{more}"}},"items":[{}]}}"#,
                pod(name)
            ),
        )
    };
    let server = serve(move |path| {
        match path {
        "/api/v1" => (
            200,
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list"]},{"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":["get"]}]}"#.to_owned(),
        ),
        "/api/v1/pods?limit=500" => list("a+b", "first"),
        "/api/v1/pods?limit=500&continue=a%2Bb" => list("", "second"),
        _ => status(404, "not found"),
    }
    });
    let file = kubeconfig(&scratch("pages"), &server);
    let run = berth(&["plan", "--from-cluster", "--kubeconfig", &file, "-o", "json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["summary"]["placed"], 2);
}

#[test]
fn the_manual_names_every_kind_that_is_read() {
    let page = std::fs::read_to_string(root().join("docs/live-cluster.md")).unwrap();
    for (api_version, kind) in berth_plan::known_kinds().filter(|(of, _)| !of.starts_with("berth.sh/")) {
        let name = kind.to_lowercase();
        let plural = match name.chars().last() {
            Some('s') => format!("{name}es"),
            Some('y') if !name.ends_with("ay") => format!("{}ies", &name[..name.len() - 1]),
            _ => format!("{name}s"),
        };
        let group = api_version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        let mut words = page.split(|c: char| c.is_whitespace() || c == ',');
        assert!(words.any(|word| word == format!("{plural}{group}")), "{plural}{group} is in no kubectl line");
        let group = group.trim_start_matches('.');
        assert!(
            group.is_empty()
                || page.contains(&format!("{group},"))
                || page.contains(&format!("[{group}]"))
                || page.contains(&format!("{group}]")),
            "{group} is in no rule"
        );
    }
}
