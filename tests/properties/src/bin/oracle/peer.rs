//! Karpenter's scheduler as a child process: `hack/compare --batch`, a case a line in, a report a line out.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use berth_checker::Case;
use serde_json::{Value, json};

/// The running batch process.
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the program of `hack/compare`; `max_seconds` bounds each case.
    pub(crate) fn start(program: &Path, max_seconds: f64) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["--batch", "--claims", "--workers", "1", "--mode", "strict-loops", "--max-seconds"])
            .arg(max_seconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the program has no standard output")?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Karpenter's report for a case; an error if the program has ended or does not read the case.
    pub(crate) fn solve(&mut self, case: &Case) -> anyhow::Result<Value> {
        let mut line = json!({"manifests": case.objects, "instanceTypes": case.catalogue}).to_string();
        line.push('\n');
        let input = self.input.as_mut().context("the program has no standard input")?;
        input.write_all(line.as_bytes()).context("write a case")?;
        input.flush().context("write a case")?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer).context("read a report")? == 0 {
            bail!("the program ended without an answer");
        }
        let report: Value = serde_json::from_str(&answer).context("read a report")?;
        if let Some(error) = report["error"].as_str() {
            bail!("{error}");
        }
        Ok(report)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ended = self.child.wait();
    }
}
