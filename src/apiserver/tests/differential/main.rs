//! The same requests to this server and to the real kube-apiserver, and the same answers.
//!
//! Needs Go, with which `hack/testenv` is built; without it these tests pass and say that they did nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod custom;
mod normal;
mod random;
mod scene;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kube::config::Kubeconfig;
use serde_json::{Value, json};

use normal::{Names, differences};
use scene::{Step, fill};
use world::{Answer, Ask, Client, Real};

/// One of the two servers, with what a scene has learnt of it.
struct Side {
    client: Client,
    names: Names,
    saved: BTreeMap<String, String>,
}

impl Side {
    fn new(client: &Client) -> Self {
        Self { client: client.clone(), names: Names::default(), saved: BTreeMap::new() }
    }

    async fn play(&mut self, step: &Step, namespace: &str) -> Answer {
        let ask = self.ask_of(step, namespace);
        let mut answer = self.client.ask(&ask).await;
        let mut patience = 2400;
        while step.until.is_some_and(|code| code != answer.code) && patience > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer = self.client.ask(&ask).await;
            patience -= 1;
        }
        for (name, path) in &step.saves {
            let pointer = format!("/{}", path.replace('.', "/"));
            // A refusal shows in the comparison; what builds on it differs too.
            let text = match answer.body.pointer(&pointer) {
                Some(Value::String(text)) => text.clone(),
                other => format!("{other:?}"),
            };
            self.saved.insert(name.clone(), text);
        }
        answer.body = self.names.normal(answer.body);
        answer
    }

    fn ask_of(&self, step: &Step, namespace: &str) -> Ask {
        let (method, kind) = match step.method.as_str() {
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "JSONPATCH" => ("PATCH", "application/json-patch+json"),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "WATCH" => ("GET", ""),
            other => (other, "application/json"),
        };
        let mut headers = step.headers.clone();
        let has_kind = headers.iter().any(|(name, _)| name == "Content-Type");
        if !has_kind && !kind.is_empty() && !step.body.is_empty() {
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        let body = fill(&step.body, namespace, &self.saved);
        let yaml = serde_saphyr::options! { strict_booleans: true };
        let body = if step.raw || body.is_empty() {
            body.into_bytes()
        } else {
            let value: Value = serde_saphyr::from_str_with_options(&body, yaml.clone())
                .unwrap_or_else(|e| panic!("{}: {e}", step.title));
            value.to_string().into_bytes()
        };
        let lines = step.lines.or((step.method == "WATCH").then_some(1));
        let mut path = fill(&step.path, namespace, &self.saved);
        if lines.is_some() && !path.contains("timeoutSeconds") {
            // A watch with too few events ends, and is told.
            path += if path.contains('?') { "&timeoutSeconds=20" } else { "?timeoutSeconds=20" };
        }
        Ask { method: method.to_owned(), path, headers, body, lines }
    }
}

/// Random sequences where nobody asks for another count.
const SEEDS: u64 = 8;
/// Definitions that random sequences over custom resources are about, at most.
const DEFINITIONS: u64 = 40;

/// What came of a number of requests.
#[derive(Default)]
struct Tally {
    requests: usize,
    agreed: usize,
    deliberate: usize,
    report: String,
}

impl Tally {
    fn count(&mut self, place: &str, step: &Step, real: &Answer, ours: &Answer) {
        let mut found = Vec::new();
        if real.code == ours.code {
            differences("headers", &real.headers, &ours.headers, &mut found);
            differences("body", &real.body, &ours.body, &mut found);
        } else {
            for (who, answer) in [("real", real), ("ours", ours)] {
                let said = answer.body.get("message").unwrap_or(&answer.body).to_string();
                let causes = answer.body.pointer("/details/causes").map(Value::to_string).unwrap_or_default();
                found.push(format!("{who} {}: {said} {causes}", answer.code));
            }
        }
        for line in &mut found {
            // Long enough to see what it is about.
            *line = line.lines().map(|line| line.chars().take(1200).collect::<String>()).collect::<Vec<_>>().join("\n");
        }
        self.requests += 1;
        match &step.differs {
            None if found.is_empty() => self.agreed += 1,
            None => {
                let _ = writeln!(self.report, "{place}: {}\n    {}", step.title, found.join("\n    "));
            }
            Some(_) if real.code != ours.code && !step.code_differs => {
                let _ = writeln!(self.report, "{place}: {}: codes differ\n    {}", step.title, found.join("\n    "));
            }
            Some(why) if found.is_empty() => {
                let _ = writeln!(self.report, "{place}: {}: agrees, although: {why}", step.title);
            }
            Some(_) => self.deliberate += 1,
        }
    }

    /// What README.md must say.
    fn figure(&self) -> String {
        let Self { requests, agreed, deliberate, .. } = self;
        if *deliberate == 0 {
            format!("{requests} requests: all agree")
        } else {
            format!("{requests} requests: {agreed} agree, {deliberate} differ as documented")
        }
    }

    fn finish(&self, what: &str) {
        let Self { requests, agreed, deliberate, .. } = self;
        let unlike = requests - agreed - deliberate;
        eprintln!("{what}: {requests} requests, {agreed} agree, {deliberate} differ deliberately, {unlike} disagree");
        assert!(self.report.is_empty(), "{} disagreements:\n{}", unlike, self.report);
    }
}

async fn make_namespace(client: &Client, name: &str) {
    let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    let ask = Ask { method: "POST".into(), path: "/api/v1/namespaces".into(), headers, body, lines: None };
    assert_eq!(client.ask(&ask).await.code, 201);
}

/// Both servers, or nothing without Go.
async fn both() -> Option<(Real, Client, berth_apiserver::ApiServer, berth_apiserver::listener::Listener, Client)> {
    let Some(real) = Real::start(&[]) else {
        eprintln!("no Go in the PATH: nothing was compared");
        return None;
    };
    let theirs = real.client().await;
    let (server, listener) = world::ours().await;
    let config: Kubeconfig = serde_json::from_str(&listener.kubeconfig()).unwrap();
    let ours = world::client(config).await;
    Some((real, theirs, server, listener, ours))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scene_is_answered_as_by_the_real_server() {
    let Some((_real, theirs, _server, _listener, ours)) = both().await else { return };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/scenes");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let only = std::env::var("SCENE").unwrap_or_default();
    let mut tally = Tally::default();
    for file in files {
        let stem = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if !stem.contains(&only) {
            continue;
        }
        let namespace = format!("d-{stem}");
        let (mut real, mut own) = (Side::new(&theirs), Side::new(&ours));
        make_namespace(&theirs, &namespace).await;
        make_namespace(&ours, &namespace).await;
        for step in scene::parse(&std::fs::read_to_string(&file).unwrap()) {
            let (a, b) = tokio::join!(real.play(&step, &namespace), own.play(&step, &namespace));
            tally.count(&stem, &step, &a, &b);
        }
    }
    tally.finish("scenes");
    if only.is_empty() {
        world::assert_readme_says(&tally.figure());
    }
}

/// Random sequences that were asked for, from `SEED` on.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SEED").unwrap_or_default();
    first..first + number("SEEDS").unwrap_or(SEEDS)
}

/// Plays 60 requests of each seed to both servers.
async fn play_random(
    theirs: &Client,
    ours: &Client,
    prefix: &str,
    mut step: impl FnMut(&mut random::Dice, u64) -> Step,
) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds() {
        let namespace = format!("{prefix}-{seed}");
        make_namespace(theirs, &namespace).await;
        make_namespace(ours, &namespace).await;
        let (mut real, mut own) = (Side::new(theirs), Side::new(ours));
        let mut dice = random::Dice::new(seed);
        for n in 0..60 {
            let step = step(&mut dice, seed);
            let (a, b) = tokio::join!(real.play(&step, &namespace), own.play(&step, &namespace));
            let place = format!("seed {seed}, request {n}: {} {} {}", step.method, step.path, step.body);
            tally.count(&place, &step, &a, &b);
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn random_sequences_are_answered_as_by_the_real_server() {
    let Some((_real, theirs, _server, _listener, ours)) = both().await else { return };
    let tally = play_random(&theirs, &ours, "r", |dice, _| random::step(dice)).await;
    tally.finish("random sequences");
    if seeds() == (0..SEEDS) {
        world::assert_readme_says(&tally.figure());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_sequences_over_custom_resources_are_answered_as_by_the_real_server() {
    let Some((_real, theirs, _server, _listener, ours)) = both().await else { return };
    let definitions = seeds().end.min(DEFINITIONS);
    for number in 0..definitions {
        let (real, own) = (define(&theirs, number).await, define(&ours, number).await);
        assert_eq!(real["code"], own["code"], "definition {number}:\nreal {real}\nours {own}");
    }
    let tally = play_random(&theirs, &ours, "c", |dice, seed| custom::step(dice, seed % definitions)).await;
    tally.finish("random sequences over custom resources");
    if seeds() == (0..SEEDS) {
        world::assert_readme_says(&tally.figure());
    }
}

/// Creates a definition, and waits until its objects are served, unless it is refused. Gives the answer.
async fn define(client: &Client, number: u64) -> Value {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    let body = custom::definition(number).to_string().into_bytes();
    let ask = Ask { method: "POST".into(), path: custom::DEFINITIONS.to_owned(), headers, body, lines: None };
    let answer = client.ask(&ask).await;
    let path = custom::path(number).replace("{ns}", "default");
    let ask = Ask { method: "GET".into(), path, ..Ask::default() };
    let mut patience = 600;
    while answer.code == 201 && client.ask(&ask).await.code != 200 && patience > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        patience -= 1;
    }
    answer.body
}
