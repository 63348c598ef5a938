//! A server with everything on, and Karpenter beside it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_apiserver::listener::Listener;
use berth_apiserver::{Admission, ApiServer, Config, RequestLog};
use berth_controller_manager::{Clock, ControllerManager, Options};
use berth_kubelet::{KubeletConfig, Kubelets};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How long a step may take; a bound, not a measure.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program that ends with this.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    /// The last lines that it said.
    fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

pub(crate) struct World {
    client: Client,
    programs: Vec<Program>,
    folder: PathBuf,
    evictions: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
    _listener: Listener,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.programs.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a script of `hack` builds and prints; `None` without Go, which it needs.
fn built(script: &[&str]) -> Option<String> {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("no Go in the PATH: Karpenter did not run");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (program, arguments) = script.split_first()?;
    let made = Command::new(root.join(program)).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(made.status.success(), "{program} failed");
    Some(String::from_utf8(made.stdout).unwrap().trim().to_owned())
}

impl World {
    pub(crate) async fn start() -> Option<Self> {
        let karpenter = built(&["hack/compare/kwok.sh"])?;
        let testenv = built(&["hack/go-build.sh", "testenv"])?;
        let folder = std::env::temp_dir().join(format!("berth-karpenter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();

        let evictions = Arc::new(AtomicUsize::new(0));
        let counted = evictions.clone();
        let log = RequestLog::new(move |line| {
            let path = line.uri.split('?').next().unwrap_or_default();
            if path.ends_with("/eviction") && line.code == 201 && line.user_agent.starts_with("karpenter") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let epoch = jiff::Timestamp::now();
        let admission = Admission { storage_protection: true, taint_new_nodes: true, ..Admission::default() };
        let server = ApiServer::new(Config { epoch, admission, log: Some(log), ..Config::default() });
        let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, listener.kubeconfig()).unwrap();
        let client = Client::new(server.clone(), "default");
        let mut world = Self {
            client: client.clone(),
            programs: Vec::new(),
            folder: folder.clone(),
            evictions,
            tasks: Vec::new(),
            _listener: listener,
        };
        let clock = Clock::new(move || server.now());
        let manager = ControllerManager::new(client.clone(), Options::new(clock));
        world.tasks.push(tokio::spawn(manager.run(std::future::pending())));
        world.tasks.push(tokio::spawn(host(client, epoch)));
        world.define(&Path::new(&karpenter).join("crds")).await;

        let config = folder.join("scheduler.json");
        let scheduler = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 1000},
            "leaderElection": {"leaderElect": false}});
        std::fs::write(&config, scheduler.to_string()).unwrap();
        let mut command = Command::new(testenv);
        command.arg("kube-scheduler").arg(format!("--config={}", config.display())).arg("--secure-port=0");
        world.programs.push(Program::start(command, folder.join("kube-scheduler.log")));

        let mut command = Command::new(Path::new(&karpenter).join("kwok"));
        command.env("KUBECONFIG", &kubeconfig).env("LEADER_ELECTION_NAMESPACE", "kube-system");
        command.env("SYSTEM_NAMESPACE", "kube-system").env("METRICS_PORT", "0").env("HEALTH_PROBE_PORT", "0");
        world.programs.push(Program::start(command, folder.join("karpenter.log")));
        Some(world)
    }

    /// Creates every definition of a folder.
    async fn define(&self, folder: &Path) {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            let definition: Value = serde_saphyr::from_str(&text).unwrap();
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
        }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> kube::Result<Value> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        self.client.request(request.body(body).unwrap()).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) {
        let made = self.send("POST", path, "application/json", object).await;
        made.unwrap_or_else(|error| panic!("create {path}: {error}"));
    }

    pub(crate) async fn patch(&self, path: &str, merged: &Value) {
        let made = self.send("PATCH", path, "application/merge-patch+json", merged).await;
        made.unwrap_or_else(|error| panic!("patch {path}: {error}"));
    }

    pub(crate) async fn delete(&self, path: &str) {
        let gone = self.send("DELETE", path, "application/json", &json!({})).await;
        gone.unwrap_or_else(|error| panic!("delete {path}: {error}"));
    }

    /// An object, or none while there is none.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send("GET", path, "application/json", &Value::Null).await.ok()
    }

    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("list {path}"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Evictions that Karpenter asked for and got.
    pub(crate) fn evictions(&self) -> usize {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Waits until something is there.
    pub(crate) async fn until<T>(&self, what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = found().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let Ok(found) = tokio::time::timeout(PATIENCE, search).await else {
            let said: Vec<String> = self.programs.iter().map(Program::said).collect();
            panic!("not within {PATIENCE:?}: {what}\n{}", said.join("\n---\n"));
        };
        found
    }

    /// Counts from now on the least pods of a selector that were ready.
    pub(crate) fn least_ready(&self, selector: &str) -> Least {
        let pods = Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(self.client.clone());
        let least = Arc::new(AtomicUsize::new(usize::MAX));
        let (seen, config) = (least.clone(), watcher::Config::default().labels(selector));
        let task = tokio::spawn(async move {
            let mut ready = BTreeSet::new();
            let mut events = std::pin::pin!(watcher::watcher(pods, config));
            let mut is_listed = false;
            while let Some(Ok(event)) = events.next().await {
                match event {
                    Event::Apply(pod) | Event::InitApply(pod) if runs(&pod) => {
                        ready.insert(pod.name_any());
                    }
                    Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod) => {
                        ready.remove(&pod.name_any());
                    }
                    Event::Init => {}
                    Event::InitDone => is_listed = true,
                }
                if is_listed {
                    seen.fetch_min(ready.len(), Ordering::Relaxed);
                }
            }
        });
        Least { least, task }
    }

    /// Ends all, while nothing has ended by itself.
    pub(crate) fn end(mut self) {
        for program in &mut self.programs {
            let ended = program.child.try_wait().unwrap();
            assert!(ended.is_none(), "a program ended by itself: {ended:?}\n{}", program.said());
        }
    }
}

/// Counts until it is stopped.
pub(crate) struct Least {
    least: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Least {
    pub(crate) async fn stop(self) -> u64 {
        self.task.abort();
        let _ = self.task.await;
        self.least.load(Ordering::Relaxed) as u64
    }
}

fn runs(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    // As budgets count: one that is on its way out is gone.
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The stand-in kubelets of Karpenter's nodes: its provider makes the Node itself, as there is no machine.
async fn host(client: Client, epoch: jiff::Timestamp) {
    let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch, ..KubeletConfig::default() });
    let nodes = Api::<Node>::all(client);
    let mut events = std::pin::pin!(watcher::watcher(nodes, watcher::Config::default()));
    let mut hosted = BTreeSet::new();
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::Apply(node) | Event::InitApply(node) if hosted.insert(node.name_any()) => kubelets.join(node.into()),
            Event::Delete(node) => kubelets.power_off(&node.name_any()),
            _ => {}
        }
    }
}

/// The status of a condition.
pub(crate) fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
