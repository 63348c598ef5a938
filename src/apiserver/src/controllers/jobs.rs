//! Jobs: pods until enough have succeeded, or too many have failed.

use serde_json::{Value, json};

use super::world::{World, has_ended, is_active, is_ready, is_true, key, number, pod_of, rank, set_label};
use crate::meta::{self, at, text_at};
use crate::server::ApiServer;
use crate::verbs::set_condition;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

impl ApiServer {
    pub(super) fn reconcile_jobs(&self, world: &World) {
        for job in self.unsettled(world, "jobs.batch", 0) {
            if is_true(&job, "Complete") || is_true(&job, "Failed") {
                self.expire(&job);
            } else {
                self.run_job(world, &job);
            }
        }
    }

    /// A finished job goes after its time to live.
    fn expire(&self, job: &Value) {
        let Some(ttl) = meta::int_at(job, &["spec", "ttlSecondsAfterFinished"]) else { return };
        let ended = ["Complete", "Failed"].iter().find_map(|kind| {
            let condition = super::world::condition(job, kind)?;
            text_at(condition, &["lastTransitionTime"]).parse::<jiff::Timestamp>().ok()
        });
        let Some(due) = ended.and_then(|ended| ended.checked_add(jiff::SignedDuration::from_secs(ttl)).ok()) else {
            return;
        };
        if due > self.now() {
            self.look_again(meta::text(job, "uid"), due);
            return;
        }
        let options = crate::request::Options {
            propagation: Some(crate::request::Propagation::Background),
            ..crate::request::Options::default()
        };
        if let Some(resource) = self.resource_of("jobs.batch") {
            self.delete_quietly(&resource, &key(job), &options);
        }
    }

    fn run_job(&self, world: &World, job: &Value) {
        let pods = world.controlled("pods", meta::text(job, "uid"));
        let phase = |wanted: &str| pods.iter().filter(|pod| text_at(pod, &["status", "phase"]) == wanted).count();
        let (succeeded, failed) = (phase("Succeeded"), phase("Failed"));
        let mut active: Vec<&Value> = pods.iter().filter(|pod| is_active(pod)).collect();
        let parallelism = usize::try_from(number(job, &["spec", "parallelism"], 1)).unwrap_or(0);
        let completions = meta::int_at(job, &["spec", "completions"]).and_then(|n| usize::try_from(n).ok());
        let backoff = usize::try_from(number(job, &["spec", "backoffLimit"], 6)).unwrap_or(0);
        let is_suspended = at(job, &["spec", "suspend"]) == Some(&Value::Bool(true));
        let started: Option<jiff::Timestamp> = text_at(job, &["status", "startTime"]).parse().ok();
        let is_late = match (meta::int_at(job, &["spec", "activeDeadlineSeconds"]), started) {
            (Some(seconds), Some(started)) => {
                let due = started.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(started);
                if due > self.now() {
                    self.look_again(meta::text(job, "uid"), due);
                }
                due <= self.now()
            }
            _ => false,
        };
        let is_complete = match completions {
            Some(wanted) => succeeded >= wanted,
            // A queue is empty when one has succeeded and none runs.
            None => succeeded > 0 && active.is_empty(),
        };
        let verdict = if is_complete {
            Some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
        } else if is_late {
            Some(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
        } else if failed > backoff {
            Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        } else {
            None
        };
        if verdict.is_some() || is_suspended {
            for pod in &active {
                self.remove_object("pods", &key(pod), None);
            }
            active.clear();
        } else {
            let left = completions.map_or(parallelism, |wanted| wanted.saturating_sub(succeeded));
            // A queue that has begun to end gets no more workers.
            let wanted = if completions.is_none() && succeeded > 0 { active.len() } else { parallelism.min(left) };
            self.fit(job, &pods, &mut active, wanted, completions);
        }
        self.write_job_status(job, &pods, &active, (succeeded, failed), is_suspended, verdict);
    }

    fn fit(&self, job: &Value, pods: &[Value], active: &mut Vec<&Value>, wanted: usize, completions: Option<usize>) {
        active.sort_by_key(|pod| rank(pod));
        for pod in active.iter().take(active.len().saturating_sub(wanted)) {
            self.remove_object("pods", &key(pod), None);
        }
        let template = at(job, &["spec", "template"]).cloned().unwrap_or_default();
        let is_indexed = text_at(job, &["spec", "completionMode"]) == "Indexed";
        let taken: Vec<&str> = pods
            .iter()
            .filter(|pod| text_at(pod, &["status", "phase"]) != "Failed" && !meta::has(pod, "deletionTimestamp"))
            .filter_map(|pod| meta::annotation(pod, INDEX))
            .collect();
        let mut free = (0..completions.unwrap_or(0)).map(|n| n.to_string()).filter(|n| !taken.contains(&n.as_str()));
        for _ in active.len()..wanted {
            let mut pod = pod_of(&template, job);
            if is_indexed {
                let Some(index) = free.next() else { break };
                set_label(&mut pod, &["metadata", "annotations"], INDEX, &index);
                set_label(&mut pod, &["metadata", "labels"], INDEX, &index);
                meta::set(&mut pod, "generateName", format!("{}-{index}-", meta::name(job)));
            } else {
                meta::set(&mut pod, "generateName", format!("{}-", meta::name(job)));
            }
            if !self.make("pods", meta::namespace(job), pod, "kube-controller-manager") {
                break;
            }
        }
    }

    fn write_job_status(
        &self,
        job: &Value,
        pods: &[Value],
        active: &[&Value],
        (succeeded, failed): (usize, usize),
        is_suspended: bool,
        verdict: Option<(&str, &str, &str)>,
    ) {
        let now = self.inner.clock.now_text();
        let ready = active.iter().filter(|pod| is_ready(pod)).count();
        let going = pods.iter().filter(|pod| meta::has(pod, "deletionTimestamp") && !has_ended(pod)).count();
        let n_active = active.len();
        self.change_object("jobs.batch", &key(job), |job| {
            if let Some(status) = meta::object_mut(job, &["status"]) {
                for (field, count) in [("active", n_active), ("succeeded", succeeded), ("failed", failed)] {
                    if count > 0 {
                        status.insert(field.to_owned(), count.into());
                    } else {
                        status.remove(field);
                    }
                }
                status.insert("ready".to_owned(), ready.into());
                status.insert("terminating".to_owned(), going.into());
                if !is_suspended {
                    status.entry("startTime").or_insert_with(|| now.as_str().into());
                }
                status.entry("uncountedTerminatedPods").or_insert_with(|| json!({}));
                if matches!(verdict, Some(("Complete", _, _))) {
                    status.entry("completionTime").or_insert_with(|| now.as_str().into());
                }
            }
            if let Some((kind, reason, message)) = verdict {
                let condition = |kind: &str| {
                    json!({"type": kind, "status": "True", "reason": reason, "message": message,
                           "lastProbeTime": now, "lastTransitionTime": now})
                };
                let before = if kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
                set_condition(job, &condition(before));
                set_condition(job, &condition(kind));
            }
        });
    }
}
