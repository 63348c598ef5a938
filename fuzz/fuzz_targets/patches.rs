//! Whatever the bytes, a patch of any type is applied or refused: the server answers, and still serves what it did.
#![no_main]

use std::sync::LazyLock;

use berth_apiserver::{ApiServer, Config};
use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

const PATH: &str = "/apis/apps/v1/namespaces/default/deployments";
const OBJECT: &str = r#"{"metadata":{"name":"d","labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}"#;
const KINDS: [&str; 4] = ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"];

static WORLD: LazyLock<(Runtime, ApiServer)> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(async { ApiServer::new(Config::default()) });
    (runtime, server)
});

fn send(method: &str, path: &str, kind: &str, body: &[u8]) -> u16 {
    let (runtime, server) = &*WORLD;
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(body.to_vec().into())).expect("a request");
    runtime.block_on(server.clone().call(request)).map_or(0, |response| response.status().as_u16())
}

fuzz_target!(|data: (u8, &[u8])| {
    let (kind, patch) = data;
    let kind = format!("application/{}", KINDS[usize::from(kind) % KINDS.len()]);
    send("POST", PATH, "application/json", OBJECT.as_bytes());
    let query = if kind.ends_with("yaml") { "?fieldManager=f&force=true" } else { "" };
    let code = send("PATCH", &format!("{PATH}/d{query}"), &kind, patch);
    assert!((200..=500).contains(&code));
    assert_eq!(send("GET", &format!("{PATH}/d"), "", b""), 200);
    send("DELETE", &format!("{PATH}/d"), "", b"");
});
