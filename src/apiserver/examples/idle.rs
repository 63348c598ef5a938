//! What idle watches cost: so many clients, each on a connection of its own, and what is left when they have gone.
//!
//! ```sh
//! cargo run --release -p berth-apiserver --example idle --features listener            # ten thousand
//! cargo run --release -p berth-apiserver --example idle --features listener -- 500
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::listener::Listener;
use berth_apiserver::{ApiServer, Config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::TlsConnector;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Handshakes under way at a time.
const BURST: usize = 64;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Resident memory of this process, in MB, and its open files.
fn cost() -> (f64, usize) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
    (kib / 1024.0, std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count))
}

/// Opens the watches, says so, waits until each has heard of a change, says so, and ends.
async fn clients(count: usize, version: &str, address: &str, token: &str, certificate: &str) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
    let request = format!(
        "GET {MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=3000 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let room = Arc::new(tokio::sync::Semaphore::new(BURST));
    let (opened, mut all_opened) = tokio::sync::mpsc::unbounded_channel();
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (room, connector, opened) = (room.clone(), connector.clone(), opened.clone());
        let (address, request) = (address.to_owned(), request.clone());
        watches.spawn(async move {
            let permit = room.acquire_owned().await.unwrap();
            let stream = tokio::net::TcpStream::connect(&address).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            let mut said = Vec::new();
            while !contains(&said, b"\r\n\r\n") {
                assert!(stream.read_buf(&mut said).await.unwrap() > 0, "the server hung up");
            }
            drop(permit);
            opened.send(()).unwrap();
            while !contains(&said, b"\"name\":\"news\"") {
                assert!(stream.read_buf(&mut said).await.unwrap() > 0, "the server hung up");
            }
        });
    }
    for _ in 0..count {
        all_opened.recv().await.unwrap();
    }
    println!("opened");
    while let Some(watch) = watches.join_next().await {
        watch.unwrap();
    }
    println!("heard");
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|part| part == wanted)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [_, count, version, address, token, certificate] = arguments.as_slice() {
        return clients(count.parse().unwrap(), version, address, token, certificate).await;
    }
    let count = arguments.first().map_or("10000", String::as_str);
    let n: f64 = count.parse().unwrap();
    let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), ..Config::default() });
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = kube::Client::new(server.clone(), "default");
    let (before, files) = cost();
    println!("before: {before:.1} MB, {files} files");
    for round in 1..=3 {
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
        let version = server.resource_version().to_string();
        child.args([
            "clients",
            count,
            &version,
            &listener.address().to_string(),
            listener.token(),
            listener.certificate(),
        ]);
        let mut child = child.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("opened"));
        let (open, _) = cost();
        println!("round {round}: {count} watches take {:.1} KB each", (open - before) * 1024.0 / n);
        let body = br#"{"metadata":{"name":"news"}}"#.to_vec();
        let started = std::time::Instant::now();
        let make = http::Request::post(MAPS).header("content-type", "application/json");
        client.send(make.body(kube::client::Body::from(body)).unwrap()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("heard"));
        let heard = started.elapsed();
        child.wait().await.unwrap();
        let gone = http::Request::delete(format!("{MAPS}/news")).body(kube::client::Body::empty()).unwrap();
        client.send(gone).await.unwrap();
        // The server sees their ends one by one.
        let mut patience = 600;
        while cost().1 > files + 8 && patience > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            patience -= 1;
        }
        let (after, left) = cost();
        println!("round {round}: all heard of a change within {heard:.2?}; after them {after:.1} MB, {left} files");
    }
}
