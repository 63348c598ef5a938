//! Runs the real binary.
#![allow(dead_code, unreachable_pub, reason = "shared by test binaries that each use a part of it")]
#![allow(clippy::expect_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// What a run left behind.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The root of the repository, in which the binary runs.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(args).current_dir(root());
    command
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Run { code: output.status.code().expect("no signal"), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// `berth ARGS` without input.
pub fn berth(args: &[&str]) -> Run {
    command(args).stdin(Stdio::null()).output().expect("berth runs").into()
}

/// `berth plan -f - ARGS` of manifests.
pub fn plan(manifests: &str, args: &[&str]) -> Run {
    with_input(&[&["plan", "-f", "-"], args].concat(), manifests)
}

/// `berth ARGS` with manifests on its standard input.
pub fn with_input(args: &[&str], manifests: &str) -> Run {
    let mut command = command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("berth runs");
    // Bad input may end it before it has read everything.
    let _ = child.stdin.take().expect("piped").write_all(manifests.as_bytes());
    child.wait_with_output().expect("berth ends").into()
}

/// The plan of `berth plan -f - -o json ARGS`, which must exit with 0 or 1.
pub fn plan_json(manifests: &str, args: &[&str]) -> serde_json::Value {
    let run = plan(manifests, &[&["-o", "json"], args].concat());
    assert!(run.code < 2, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("a plan is JSON")
}
