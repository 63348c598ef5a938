//! Trouble by seed: clients that are written for a real server come through it, and a seed decides all of it.

#![allow(clippy::panic)] // Helpers are not test functions to clippy.

use std::time::Duration;

use berth_apiserver::{ApiServer, FaultRates, Faults, Faulty};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

mod common;
use common::{config, from};

fn troubled(seed: u64, rates: FaultRates) -> Faulty<ApiServer> {
    Faults::seeded(seed, rates).around(ApiServer::new(config()))
}

fn client(service: &Faulty<ApiServer>) -> kube::Client {
    kube::Client::new(service.clone(), "default")
}

fn map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}}))
}

/// Until the client is told that it is done, as people who write operators must.
async fn insist<T, F: Future<Output = kube::Result<T>>>(mut attempt: impl FnMut() -> F) -> Option<T> {
    for _ in 0..1000 {
        match attempt().await {
            Ok(done) => return Some(done),
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => return None,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("no end of trouble");
}

const RATES: FaultRates = FaultRates {
    latency: 200,
    latency_max: Duration::from_millis(500),
    too_many_requests: 50,
    conflict: 100,
    error_before: 50,
    error_after: 50,
    timeout_before: 20,
    timeout_after: 20,
    lost_before: 20,
    lost_after: 20,
    stale_read: 0,
    outage: 5,
    outage_max: Duration::from_secs(20),
    watch_end: 100,
    watch_expired: 30,
    watch_delay: 200,
};

#[tokio::test(start_paused = true)]
async fn a_reflector_ends_with_the_truth_whatever_befalls_its_watches() {
    for seed in 0..5 {
        let server = troubled(seed, RATES);
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
        let (reader, writer) = reflector::store();
        let events = watcher(maps.clone(), watcher::Config::default()).default_backoff();
        let task = tokio::spawn(reflector(writer, events).for_each(|_| async {}));
        for n in 0..40 {
            let name = format!("m{}", n % 15);
            match n % 3 {
                0 => drop(insist(|| async { maps.create(&PostParams::default(), &map(&name)).await }).await),
                1 => {
                    let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
                    insist(|| async { maps.patch(&name, &PatchParams::default(), &patch).await }).await;
                }
                _ => drop(insist(|| async { maps.delete(&name, &DeleteParams::default()).await }).await),
            }
        }
        let truth = loop {
            if let Ok(list) = maps.list(&kube::api::ListParams::default()).await {
                break list.items;
            }
        };
        let same = || {
            let mut seen: Vec<_> = reader.state().iter().map(|map| (map.name_any(), map.resource_version())).collect();
            seen.sort();
            seen == truth.iter().map(|map| (map.name_any(), map.resource_version())).collect::<Vec<_>>()
        };
        let settled = async {
            while !same() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(600), settled).await.is_ok(), "seed {seed}");
        task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_which_requests_go_wrong_and_how() {
    let play = async |seed: u64| {
        let server = troubled(seed, RATES);
        let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
        let mut codes = Vec::new();
        for n in 0..200 {
            codes.push(match maps.create(&PostParams::default(), &map(&format!("m{n}"))).await {
                Ok(made) => made.resource_version().unwrap_or_default(),
                Err(kube::Error::Api(status)) => status.code.to_string(),
                Err(other) => other.to_string(),
            });
        }
        codes
    };
    let first = play(1).await;
    assert_eq!(first, play(1).await);
    assert_ne!(first, play(2).await);
    for code in ["429", "500"] {
        assert!(first.iter().any(|found| found == code), "no {code} among {first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_may_come_after_the_write_took_effect() {
    let server = troubled(1, FaultRates { error_after: 1000, ..FaultRates::default() });
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    assert!(maps.create(&PostParams::default(), &map("m")).await.is_err());
    assert_eq!(maps.get("m").await.unwrap().name_any(), "m");
    let server = ApiServer::new(config());
    let rates = FaultRates { error_before: 1000, ..FaultRates::default() };
    let before = server.resource_version();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&Faults::seeded(1, rates).around(server.clone())));
    assert!(maps.create(&PostParams::default(), &map("m")).await.is_err());
    assert_eq!(server.resource_version(), before);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_after_a_write_leaves_the_write() {
    let rates = FaultRates { lost_after: 1000, ..FaultRates::default() };
    let server = ApiServer::new(config());
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&Faults::seeded(1, rates).around(server.clone())));
    let lost = maps.create(&PostParams::default(), &map("m")).await.unwrap_err();
    assert!(!matches!(lost, kube::Error::Api(_)), "{lost}");
    let maps: Api<ConfigMap> = Api::default_namespaced(common::client(&server));
    assert_eq!(maps.get("m").await.unwrap().name_any(), "m");
}

#[tokio::test(start_paused = true)]
async fn throttling_says_how_long_to_wait() {
    let rates = FaultRates { too_many_requests: 1000, ..FaultRates::default() };
    let client = client(&troubled(1, rates));
    let request = http::Request::get("/api/v1/namespaces").body(kube::client::Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"1".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_shows_what_the_same_read_showed_before() {
    let rates = FaultRates { stale_read: 500, ..FaultRates::default() };
    let server = ApiServer::new(config());
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&Faults::seeded(3, rates).around(server.clone())));
    let truth: Api<ConfigMap> = Api::default_namespaced(common::client(&server));
    truth.create(&PostParams::default(), &map("m")).await.unwrap();
    let (mut stale, mut seen) = (0, Vec::new());
    for n in 0..50 {
        let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
        seen.push(truth.patch("m", &PatchParams::default(), &patch).await.unwrap().resource_version());
        let read = maps.get("m").await.unwrap().resource_version();
        assert!(seen.contains(&read), "a version that never was: {read:?}");
        stale += usize::from(seen.last() != Some(&read));
    }
    assert!((10..40).contains(&stale), "{stale} of 50 reads were stale");
}

#[tokio::test(start_paused = true)]
async fn while_a_server_is_gone_nothing_is_answered_and_watches_end() {
    let service = troubled(1, FaultRates::default());
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&service));
    let mut watch = maps.watch(&kube::api::WatchParams::default(), "0").await.unwrap().boxed();
    service.interrupt(Duration::from_secs(10));
    assert!(watch.next().await.is_none(), "the watch went on");
    assert!(maps.list(&kube::api::ListParams::default()).await.is_err());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(maps.list(&kube::api::ListParams::default()).await.is_ok());
}
