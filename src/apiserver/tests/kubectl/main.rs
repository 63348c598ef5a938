//! Stock kubectl against the listener and against the real server: the same commands, the same output.
//!
//! Needs Go, with which `hack/testenv` is built, kubectl in it; without it this passes and says that it did nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

#[path = "../differential/world.rs"]
#[allow(dead_code)]
mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use berth_apiserver::Admission;
use berth_controller_manager::{Clock, Controller, ControllerManager, Controllers, Options};
use regex::Regex;

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(what: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One script of a transcript.
struct Step<'t> {
    script: &'t str,
    /// Why the outputs differ, where they may.
    differs: Option<&'t str>,
}

/// What is said of a script that did not end.
const NO_END: &str = "no end\n";

/// Scripts stand apart by an empty line.
fn steps(text: &str) -> impl Iterator<Item = Step<'_>> {
    text.split("\n\n").map(str::trim).filter(|block| block.lines().any(|line| !line.starts_with('#'))).map(|script| {
        let differs = script.lines().find_map(|line| line.strip_prefix("# differs: "));
        Step { script, differs }
    })
}

/// Runs a script with kubectl at hand; what it said, and its exit code.
async fn run(script: &str, bin: &Path, kubeconfig: &Path, home: &Path) -> String {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    // A script that waits for what never comes must end by itself, too, when this test was killed.
    let limit = (world::PATIENCE * 3).as_secs().to_string();
    let mut command = tokio::process::Command::new("timeout");
    command.args([limit.as_str(), "bash", "-c", &format!("exec 2>&1\n{script}")]);
    std::fs::create_dir_all(home).unwrap();
    command
        .current_dir(home)
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        .env("TERM", "dumb")
        .kill_on_drop(true);
    let output = command.stdin(Stdio::null()).output();
    let output = tokio::time::timeout(world::PATIENCE * 2, output).await;
    // The other server's output tells what it waits for.
    let Ok(output) = output else { return NO_END.to_owned() };
    let output = output.unwrap();
    format!("{}exit {}\n", String::from_utf8_lossy(&output.stdout), output.status.code().unwrap_or(-1))
}

/// Output without what a server makes up, and without the widths of columns that follow from it.
struct Normal(Vec<(Regex, &'static str)>);

impl Normal {
    fn new() -> Self {
        let random = "[bcdfghjklmnpqrstvwxz2456789]";
        let rules = [
            ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".to_owned(), "UID"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "TIME"),
            (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}".to_owned(), "TIME"),
            (r#"("?resourceVersion"?: )"\d+""#.to_owned(), "${1}RV"),
            (r"Resource Version: +\d+".to_owned(), "Resource Version: RV"),
            (format!(r"\b(\w+)-{random}{{8,10}}-{random}{{5}}\b"), "$1-HASH-NAME"),
            (format!(r"\b(\w+)-{random}{{8,10}}\b"), "$1-HASH"),
            (format!(r"\b(job|each|gen|every|rc|taker|now|tick|ends|one)-{random}{{5}}\b"), "$1-NAME"),
            (r"\boften-\d+".to_owned(), "often-TIME"),
            (r"pod-template-hash(:|=) ?\w+".to_owned(), "pod-template-hash$1 HASH"),
            (r"\b10\.\d+\.\d+\.\d+".to_owned(), "IP"),
            (r"https://127\.0\.0\.1:\d+".to_owned(), "SERVER"),
            (r"\b3[0-2]\d{3}\b".to_owned(), "PORT"),
            (r"(<invalid>|\b(\d+m)?\d+s\b)".to_owned(), "AGE"),
            (r"[ \t]+".to_owned(), " "),
            (r" +\n".to_owned(), "\n"),
        ];
        Self(rules.into_iter().map(|(pattern, with)| (Regex::new(&pattern).unwrap(), with)).collect())
    }

    fn of(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (pattern, with)| pattern.replace_all(&text, *with).into_owned())
    }
}

/// Every controller of the first transcript.
const WORKLOADS: &str = "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,\
    job-controller,garbage-collector-controller,namespace-controller,disruption-controller,resourcequota-controller,\
    replicationcontroller-controller,cronjob-controller,endpoints-controller,endpointslice-controller";
/// And of the second.
const LIFECYCLE: &str = "node-lifecycle-controller,taint-eviction-controller,persistentvolume-binder-controller,\
    persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,garbage-collector-controller,\
    namespace-controller";

/// Plays a transcript beside the real controllers of workloads.
async fn compare_workloads(what: &str, transcript: &str) {
    let controllers = format!("--controllers={WORKLOADS}");
    let flags = ["--controller-manager", &controllers, "--service-account-admission=false"];
    let admission = Admission { storage_protection: true, ..Admission::default() };
    let stand_ins = [
        Controller::ServiceAccount,
        Controller::NodeLifecycle,
        Controller::TaintEviction,
        Controller::PodGarbageCollector,
        Controller::PersistentVolumeBinder,
    ]
    .into_iter()
    .fold(Controllers::all(), Controllers::without);
    compare(what, transcript, &flags, admission, stand_ins).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_says_the_same_of_this_server_as_of_the_real_one() {
    compare_workloads("kubectl", include_str!("transcript.sh")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_days_of_a_new_user_go_as_with_the_real_server() {
    compare_workloads("everyday", include_str!("everyday.sh")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_taints_and_volumes_live_as_with_the_real_controllers() {
    let controllers = format!("--controllers={LIFECYCLE}");
    // Nobody sends heartbeats, so nobody is missed within the test.
    let grace = "--controller-manager-flag=--node-monitor-grace-period=30m";
    let flags = ["--controller-manager", &controllers, "--service-account-admission=false", "--node-lifecycle", grace];
    let admission = Admission { storage_protection: true, taint_new_nodes: true, ..Admission::default() };
    let stand_ins = Controllers::of(&[
        Controller::NodeLifecycle,
        Controller::TaintEviction,
        Controller::PersistentVolumeBinder,
        Controller::GarbageCollector,
        Controller::Namespace,
    ]);
    compare("lifecycle", include_str!("lifecycle.sh"), &flags, admission, stand_ins).await;
}

/// Plays a transcript to both servers.
async fn compare(what: &str, transcript: &str, flags: &[&str], admission: Admission, stand_ins: Controllers) {
    let Some(real) = world::Real::start(flags) else {
        eprintln!("no Go in the PATH: nothing was compared");
        return;
    };
    let (server, listener) = world::ours_with(admission).await;
    let client = kube::Client::new(server.clone(), "default");
    let mut options = Options { controllers: stand_ins, ..Options::new(Clock::new(move || server.now())) };
    // Nobody sends heartbeats here either.
    let patience = std::time::Duration::from_secs(30 * 60);
    options.timings.node_monitor_grace_period = patience;
    options.timings.node_startup_grace_period = patience;
    tokio::spawn(ControllerManager::new(client, options).run(std::future::pending()));

    let folder = Folder::new(what);
    let (bin, own) = (folder.0.join("bin"), folder.0.join("ours.json"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(&own, listener.kubeconfig()).unwrap();
    let wrapper = bin.join("kubectl");
    std::fs::write(&wrapper, format!("#!/bin/sh\nexec {} kubectl \"$@\"\n", real.testenv)).unwrap();
    let mut mode = std::fs::metadata(&wrapper).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&wrapper, mode).unwrap();

    let (normal, mut report) = (Normal::new(), String::new());
    let (mut count, mut agreed, mut deliberate) = (0, 0, 0);
    let only = std::env::var("STEP").unwrap_or_default();
    for step in steps(transcript) {
        // Each has its own cache of what a server offers.
        let (their_home, our_home) = (folder.0.join("real"), folder.0.join("ours"));
        let (theirs, ours) = tokio::join!(
            run(step.script, &bin, Path::new(&real.kubeconfig), &their_home),
            run(step.script, &bin, &own, &our_home),
        );
        count += 1;
        let (theirs, ours) = (normal.of(&theirs), normal.of(&ours));
        let ended = ![&theirs, &ours].iter().any(|said| said.as_str() == NO_END);
        match (theirs == ours && ended, step.differs) {
            (true, None) => agreed += 1,
            (true, Some(why)) => {
                let _ = writeln!(report, "== {}\nagrees, although: {why}\n", step.script);
            }
            (false, Some(_)) => deliberate += 1,
            (false, None) => {
                let _ = writeln!(report, "== {}\n-- real\n{theirs}-- ours\n{ours}", step.script);
            }
        }
        if !only.is_empty() && step.script.contains(&only) {
            eprintln!("{}\n-- real\n{theirs}-- ours\n{ours}", step.script);
        }
    }
    eprintln!("{what}: {count} scripts, {agreed} agree, {deliberate} differ deliberately");
    assert!(report.is_empty(), "{report}");
    let figure = if deliberate == 0 {
        format!("{count} scripts: all agree")
    } else {
        {
            let verb = if deliberate == 1 { "differs" } else { "differ" };
            format!("{count} scripts: {agreed} agree, {deliberate} {verb} as documented")
        }
    };
    world::assert_readme_says(&figure);
}
