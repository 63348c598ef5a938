//! The two servers, spoken to by the same client.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use berth_apiserver::listener::Listener;
use berth_apiserver::{Admission, ApiServer, Config};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// How long anything may take; a bound, not a measure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// What a server said.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// The headers that clients look at.
    pub(crate) headers: Value,
    pub(crate) body: Value,
}

/// A request as it goes out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Lines to read of a watch.
    pub(crate) lines: Option<usize>,
}

/// A real control plane, which ends with this.
pub(crate) struct Real {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    #[allow(dead_code)] // Of the transcripts.
    pub(crate) testenv: String,
    #[allow(dead_code)] // Of the transcripts.
    pub(crate) kubeconfig: String,
    #[allow(dead_code)] // Of the benchmark.
    pub(crate) apiserver_pid: u32,
    #[allow(dead_code)] // Of the benchmark.
    pub(crate) etcd_pid: u32,
    /// Of every component.
    #[allow(dead_code)] // Of the benchmark of a whole control plane.
    pub(crate) pids: Vec<u32>,
}

impl Real {
    /// Starts one; `None` without Go, which it is built with.
    pub(crate) fn start(flags: &[&str]) -> Option<Self> {
        if Command::new("go").arg("version").output().is_err() {
            return None;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built =
            Command::new(root.join("hack/go-build.sh")).arg("testenv").stderr(Stdio::inherit()).output().unwrap();
        assert!(built.status.success(), "hack/go-build.sh testenv failed");
        let testenv = String::from_utf8(built.stdout).unwrap().trim().to_owned();
        let mut child = Command::new(&testenv)
            .arg("start")
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let about: Value = serde_json::from_str(&line).expect("the control plane starts");
        let kubeconfig = about["kubeconfig"].as_str().unwrap().to_owned();
        let pid = |name: &str| u32::try_from(about["components"][name]["pid"].as_u64().unwrap_or_default()).unwrap();
        let (apiserver_pid, etcd_pid) = (pid("kube-apiserver"), pid("etcd"));
        let pids = about["components"].as_object().unwrap().keys().map(|name| pid(name)).collect();
        let (stdin, stdout) = (child.stdin.take(), Some(stdout));
        Some(Self { child, stdin, stdout, testenv, kubeconfig, apiserver_pid, etcd_pid, pids })
    }

    pub(crate) async fn client(&self) -> Client {
        client(Kubeconfig::read_from(&self.kubeconfig).unwrap()).await
    }

    /// Has a component end, and start anew.
    #[allow(dead_code)] // Of the suites that have controllers.
    pub(crate) fn restart(&mut self, component: &str) {
        let (Some(stdin), Some(stdout)) = (&mut self.stdin, &mut self.stdout) else { return };
        for command in ["stop", "start"] {
            writeln!(stdin, "{command} {component}").unwrap();
            let mut answer = String::new();
            stdout.read_line(&mut answer).unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["ok"], true, "{answer}");
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let _ = stdin.flush();
        }
        let _ = self.child.wait();
    }
}

/// Holds the figures of README.md to what a whole run found.
#[allow(dead_code)] // Of the suites that README.md has a figure of.
pub(crate) fn assert_readme_says(figure: &str) {
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&format!("| {figure}")), "README.md of berth-apiserver should say: {figure}");
}

/// This server behind its listener, as the real one is set up in hack/testenv.
pub(crate) async fn ours() -> (ApiServer, Listener) {
    ours_with(Admission { storage_protection: true, ..Admission::default() }).await
}

/// The same with other admission plugins.
pub(crate) async fn ours_with(admission: Admission) -> (ApiServer, Listener) {
    let epoch = jiff::Timestamp::now();
    let server = ApiServer::new(Config { epoch, seed: 7, admission, ..Config::default() });
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    (server, listener)
}

/// A client of one of them.
#[derive(Clone)]
pub(crate) struct Client(kube::Client);

pub(crate) async fn client(kubeconfig: Kubeconfig) -> Client {
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // A refusal is an answer.
    config.default_retry = false;
    Client(kube::Client::try_from(config).unwrap())
}

impl Client {
    #[allow(dead_code)] // Of the benchmark.
    pub(crate) fn inner(&self) -> &kube::Client {
        &self.0
    }

    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        let what = format!("{} {} {}", ask.method, ask.path, String::from_utf8_lossy(&ask.body));
        tokio::time::timeout(PATIENCE, self.send(ask)).await.unwrap_or_else(|_| panic!("no answer in time: {what}"))
    }

    async fn send(&self, ask: &Ask) -> Answer {
        let mut request =
            http::Request::builder().method(ask.method.as_str()).uri(ask.path.replace(' ', "%20").replace('>', "%3E"));
        request = request.header("user-agent", "differential/1");
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(ask.body.clone())).unwrap();
        let response = self.0.send(request).await.unwrap_or_else(|e| panic!("{} {}: {e}", ask.method, ask.path));
        let code = response.status().as_u16();
        let header = |name: &str| -> Vec<String> {
            response.headers().get_all(name).iter().map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
        };
        let mut warnings = header("warning");
        warnings.sort();
        let headers = json!({"content-type": header("content-type"), "warning": warnings,
                             "retry-after": header("retry-after")});
        let mut body = response.into_body();
        if let Some(lines) = ask.lines.filter(|_| code == 200) {
            return Answer { code, headers, body: read_lines(&mut body, lines).await };
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { code, headers, body }
    }
}

/// So many events of a watch, or all until it ends.
async fn read_lines(body: &mut Body, lines: usize) -> Value {
    let mut text = Vec::new();
    let mut events = Vec::new();
    while events.len() < lines {
        let Some(frame) = body.frame().await else { break };
        text.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if events.len() < lines {
                events.push(serde_json::from_slice(&line).unwrap());
            }
        }
    }
    Value::Array(events)
}
