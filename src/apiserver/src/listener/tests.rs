//! Connections in paused time: over pipes in memory, so that nothing but the clock decides.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::server::Config;

fn authenticated(server: ApiServer) -> Authenticated {
    Authenticated { service: Faults::default().around(server.clone()), server }
}

async fn health(stream: &mut DuplexStream) -> Option<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.ok()?;
    let mut found = Vec::new();
    while !found.ends_with(b"\r\n\r\nok") {
        let mut part = [0; 1024];
        match stream.read(&mut part).await.ok()? {
            0 => return None,
            count => found.extend_from_slice(&part[..count]),
        }
    }
    String::from_utf8(found).ok()
}

#[tokio::test(start_paused = true)]
async fn a_connection_may_idle_for_eighty_seconds_and_not_for_a_hundred() {
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(speak(far, authenticated(ApiServer::new(Config::default()))));
    assert!(health(&mut near).await.unwrap().starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert!(health(&mut near).await.is_some(), "closed after 80 s");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(health(&mut near).await.is_none(), "open after 100 s");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_answered_504() {
    let server = ApiServer::new(Config::default());
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(speak(far, authenticated(server)));
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n\r\n{{",
        listener.token()
    );
    near.write_all(head.as_bytes()).await.unwrap();
    let mut found = [0; 1024];
    let count = near.read(&mut found).await.unwrap();
    assert!(found[..count].starts_with(b"HTTP/1.1 504"), "{}", String::from_utf8_lossy(&found[..count]));
}

#[tokio::test]
async fn a_second_listener_leaves_the_first_ones_token() {
    let server = ApiServer::new(Config::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let first = Listener::start(server.clone(), address).await.unwrap();
    let second = Listener::start(server.clone(), address).await.unwrap();
    assert!(server.token_user(first.token()).is_some());
    assert!(server.token_user(second.token()).is_some());
    let token = first.token().to_owned();
    drop(first);
    assert!(server.token_user(&token).is_none(), "the token outlived its listener");
    assert!(server.token_user("").is_none());
}

#[tokio::test]
async fn only_an_address_that_others_reach_is_warned_of() {
    let server = ApiServer::new(Config::default());
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert_eq!(listener.exposure(), None);
    drop(listener);
    let address = "10.0.0.1:6443".parse().unwrap();
    let reachable =
        Listener { address, token: String::new(), certificate: String::new(), task: tokio::spawn(async {}), server };
    assert!(reachable.exposure().unwrap().contains("administrator"));
}
