//! Processes of the real binary, and a cluster that they share.
#![allow(dead_code, unreachable_pub, reason = "shared by test binaries that each use a part of it")]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A child that does not outlive its test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// `berth ARGS`.
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, Stdio::piped())
    }

    /// `berth ARGS`, with its standard error somewhere.
    pub fn start_with(args: &[&str], stderr: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.args(args).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        Self(command.spawn().unwrap())
    }

    /// Ends it as a kubelet would; its exit code.
    pub fn terminate(mut self) -> i32 {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap().code().unwrap()
    }
}

/// The first line that contains a text; what follows is read and dropped, so that nobody waits for a full pipe.
pub fn line_with(from: impl Read + Send + 'static, text: &str) -> String {
    let mut lines = BufReader::new(from).lines().map_while(Result::ok);
    let found = lines.find(|line| line.contains(text));
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("no line contains {text:?}"))
}

/// A folder of a test, made.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The whole answer to a GET of a plain HTTP server.
pub fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// A client of a kubeconfig's cluster.
pub async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Waits for up to two minutes.
pub async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{what} has not come");
}
