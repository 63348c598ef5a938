//! The emulator as a process, and the binary that asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// EC2 on loopback; it ends with this value.
pub(crate) struct Emulator {
    process: Child,
    url: String,
}

/// What a run of the binary left.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of a test's own; removed with this value.
pub(crate) struct TempFile(pub(crate) PathBuf);

impl TempFile {
    pub(crate) fn new(name: &str) -> Self {
        static N: AtomicU32 = AtomicU32::new(0);
        let unique = format!("berth-{}-{}-{name}", std::process::id(), N.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(unique))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the binary with this environment and nothing of AWS' from the test's own.
pub(crate) fn berth_with(args: &[&str], environment: &[(&str, &str)]) -> Run {
    Run::of(command(args).envs(environment.iter().copied()).output().unwrap())
}

/// Runs the binary without an account, with this on its standard input.
pub(crate) fn berth_with_input(args: &[&str], input: &str) -> Run {
    let mut command = command(args);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Run::of(process.wait_with_output().unwrap())
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    // Neither the machine's own role nor the developer's profile takes part.
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", "/nonexistent");
    command.args(args).current_dir(root());
    command
}

// === impl Run ===

impl Run {
    fn of(output: Output) -> Self {
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

// === impl Emulator ===

impl Emulator {
    /// An account without reservations, with faults by this seed.
    pub(crate) fn start(seed: u32) -> Self {
        let mut process = Command::new(root().join("hack/ec2/run.sh"))
            .args(["--seed", &seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "the emulator did not start: {url:?}");
        Self { process, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Changes what the emulator has and does; see `hack/ec2/README.md`.
    pub(crate) fn order(&self, order: &Value) {
        let body = order.to_string();
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("POST /_emulator HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n", body.len());
        stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// `berth` as the account's reader.
    pub(crate) fn berth(&self, args: &[&str]) -> Run {
        self.berth_with(args, &[])
    }

    /// As [`Self::berth`], with more environment or another.
    pub(crate) fn berth_with(&self, args: &[&str], more: &[(&str, &str)]) -> Run {
        let usual = [
            ("AWS_ENDPOINT_URL", self.url.as_str()),
            ("AWS_ACCESS_KEY_ID", "AKIAEMULATOR"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
        ];
        berth_with(args, &[&usual, more].concat())
    }

    /// The catalogue as JSON.
    pub(crate) fn catalogue(&self, args: &[&str]) -> (Value, Run) {
        let run = self.berth(&[&["catalog", "--provider", "aws", "-o", "json"], args].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        (serde_json::from_str(&run.stdout).unwrap(), run)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
