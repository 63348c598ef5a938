//! The core by itself.

use std::sync::Arc;

use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::*;
use crate::kind::Kind;
use crate::observed::Object;

#[tokio::test(start_paused = true)]
async fn what_waits_before_everything_was_seen_does_not_spin() {
    let cloud = FakeCloud::new(CloudConfig::default(), berth_cloudprovider_fake::catalogue());
    let mut core = Core::new(Options::default(), Arc::new(cloud));
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut pod = Pod::default();
    (pod.metadata.name, pod.metadata.namespace) = (Some("web".to_owned()), Some("default".to_owned()));
    pod.spec = Some(PodSpec { containers: vec![Container::default()], ..PodSpec::default() });
    core.handle(Input::Observed(Observed::Listed(Kind::Pod, vec![Object::from(pod)])), now);
    assert_eq!(core.work(now), Vec::new());
    assert_eq!(core.next_time(), None, "only a watch can bring it further");
}
