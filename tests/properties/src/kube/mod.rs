//! Berth's scheduler held against kube-scheduler's own framework: for every pending pod of a random cluster, in the order
//! of the queue, what each node says (the first filter that refuses and its reasons, or every score), which nodes are
//! best, and who is preempted. The oracle carries Berth's decisions out, so that both always look at the same cluster.

mod compare;
mod drive;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use berth_checker::random_standing_case;
use serde_json::{Value, json};

pub use compare::Difference;
pub use drive::{Decision, Evaluation, NodeVerdict, drive};

/// A case that was compared.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its seed.
    pub seed: u64,
    /// What Berth says.
    pub evaluations: Vec<Evaluation>,
    /// Where kube-scheduler says something else.
    pub differences: Vec<Difference>,
}

/// Compares the random clusters of some seeds. `oracle` is the binary of `hack/schedcompare`.
///
/// # Errors
/// The oracle cannot be run, or a case cannot be read.
pub fn compare(oracle: &Path, seeds: impl Iterator<Item = u64>) -> anyhow::Result<Vec<Compared>> {
    let mut cases = Vec::new();
    let mut input = Vec::new();
    for seed in seeds {
        let objects = random_standing_case(seed);
        let ours = drive(&objects).with_context(|| format!("seed {seed}"))?;
        let follow: Vec<Value> = ours.iter().map(|evaluation| evaluation.decision.to_json(&evaluation.pod)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects, "follow": follow});
        serde_json::to_writer(&mut input, &list)?;
        input.push(b'\n');
        cases.push((seed, ours));
    }
    let answers = ask(oracle, input)?;
    if answers.len() != cases.len() {
        bail!("{} answers to {} cases", answers.len(), cases.len());
    }
    let compared = cases.into_iter().zip(answers).map(|((seed, evaluations), answer)| {
        let differences = compare::case(&evaluations, &answer);
        Compared { seed, evaluations, differences }
    });
    Ok(compared.collect())
}

fn ask(oracle: &Path, input: Vec<u8>) -> anyhow::Result<Vec<Value>> {
    let mut child = Command::new(oracle)
        .arg("--batch")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {}", oracle.display()))?;
    let mut stdin = child.stdin.take().context("its input")?;
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let stdout = BufReader::new(child.stdout.take().context("its output")?);
    let mut answers = Vec::new();
    for line in stdout.lines() {
        answers.push(serde_json::from_str(&line?)?);
    }
    writing.join().ok().context("its input")??;
    let status = child.wait()?;
    if !status.success() {
        bail!("{} failed: {status}", oracle.display());
    }
    Ok(answers)
}
