//! The status of a pod, as its kubelet writes it.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::pod::{ContainerName, Record, Stage};

/// The address of a pod, by its number in 10.0.0.0/8.
fn pod_address(number: u32) -> String {
    Ipv4Addr::from(0x0a00_0000 | (number & 0x00ff_ffff)).to_string()
}

pub(crate) fn of_pod(record: &Record, host_ip: &str, now: Timestamp) -> PodStatus {
    let ip = match (&record.stage, record.ip) {
        (Stage::Bound | Stage::Starting { .. }, _) => None,
        _ if record.template.host_network => Some(host_ip.to_owned()),
        (_, number) => number.map(pod_address),
    };
    let (phase, reason, message) = match &record.stage {
        Stage::Bound | Stage::Starting { .. } => ("Pending", None, None),
        Stage::Running { .. } | Stage::BackOff { .. } => ("Running", None, None),
        Stage::Finished { succeeded, reason, message } => {
            (if *succeeded { "Succeeded" } else { "Failed" }, reason.clone(), message.clone())
        }
    };
    let was_rejected = reason.is_some() && !record.has_exceeded_deadline();
    PodStatus {
        phase: Some(phase.to_owned()),
        reason,
        message,
        host_ip: Some(host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: host_ip.to_owned() }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: record.admitted.map(Time),
        conditions: (!was_rejected).then(|| conditions(record, now)),
        container_statuses: (!was_rejected).then(|| containers(record)),
        init_container_statuses: (!was_rejected && !record.template.init_containers.is_empty()).then(|| {
            record.template.init_containers.iter().map(|container| init_container(record, container)).collect()
        }),
        ..PodStatus::default()
    }
}

/// The same as a patch of what is there: a condition that has no reason any more must say so, or it keeps the one it had.
pub(crate) fn patch_of_pod(record: &Record, host_ip: &str, now: Timestamp) -> Value {
    let mut status = json!(of_pod(record, host_ip, now));
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.entry("reason").or_insert(Value::Null);
    }
    status
}

fn conditions(record: &Record, now: Timestamp) -> Vec<PodCondition> {
    let has_started = !matches!(record.stage, Stage::Bound | Stage::Starting { .. });
    let is_ready = matches!(record.stage, Stage::Running { is_ready: true, .. });
    let finished = matches!(record.stage, Stage::Finished { succeeded: true, .. });
    let unready = if finished { "PodCompleted" } else { "ContainersNotReady" };
    [
        ("PodReadyToStartContainers", has_started && !matches!(record.stage, Stage::Finished { .. }), None),
        ("Initialized", has_started || record.template.init_containers.is_empty(), Some("ContainersNotInitialized")),
        ("ContainersReady", is_ready, Some(unready)),
        ("Ready", is_ready, Some(unready)),
    ]
    .map(|(type_, holds, reason)| PodCondition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.filter(|_| !holds).map(str::to_owned),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    })
    .to_vec()
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn running(since: Timestamp) -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(Time(since)) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn terminated((started, finished, code): (Timestamp, Timestamp, i32)) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: code,
        reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(Time(started)),
        finished_at: Some(Time(finished)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn state(record: &Record) -> ContainerState {
    match &record.stage {
        Stage::Bound | Stage::Starting { .. } => waiting("ContainerCreating", None),
        Stage::Running { since, .. } => running(*since),
        Stage::BackOff { ended, until, .. } => {
            let seconds = until.duration_since(*ended).as_secs();
            waiting("CrashLoopBackOff", Some(format!("back-off {seconds}s restarting failed container")))
        }
        Stage::Finished { .. } => record.last_exit.map_or_else(|| waiting("ContainerCreating", None), terminated),
    }
}

fn containers(record: &Record) -> Vec<ContainerStatus> {
    let last = match record.stage {
        Stage::Running { .. } | Stage::BackOff { .. } => record.last_exit.map(terminated),
        _ => None,
    };
    let is_ready = matches!(record.stage, Stage::Running { is_ready: true, .. });
    let one = |container: &ContainerName| ContainerStatus {
        last_state: last.clone(),
        ..status(record, container, state(record), is_ready)
    };
    record.template.containers.iter().map(one).collect()
}

fn init_container(record: &Record, container: &ContainerName) -> ContainerStatus {
    let started = record.admitted.unwrap_or_default();
    let (state, is_ready) = match &record.stage {
        Stage::Bound | Stage::Starting { .. } => (waiting("PodInitializing", None), false),
        _ if container.is_sidecar => (state(record), matches!(record.stage, Stage::Running { is_ready: true, .. })),
        _ => (terminated((started, started, 0)), true),
    };
    let restarts = if container.is_sidecar { record.restarts } else { 0 };
    ContainerStatus { restart_count: restarts, ..status(record, container, state, is_ready) }
}

fn status(record: &Record, container: &ContainerName, state: ContainerState, is_ready: bool) -> ContainerStatus {
    let started = state.running.is_some();
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: if started { format!("stand-in://{}", container.image) } else { String::new() },
        container_id: started.then(|| format!("stand-in://{}/{}/{}", record.uid, container.name, record.restarts)),
        restart_count: record.restarts,
        ready: is_ready,
        started: Some(started),
        state: Some(state),
        ..ContainerStatus::default()
    }
}
