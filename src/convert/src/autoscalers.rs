//! HorizontalPodAutoscalers: a workload has at least as many pods as its autoscaler keeps, or as many as it may have.

use berth_model::{Sym, Symbols};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::add_workload::MOST_PODS;
use crate::maps::{FxIndexMap, Texts};
use crate::metadata::{name_of, namespace_of};
use crate::workloads::{Autoscaler, WorkloadKind, Workloads};
use crate::{Builder, ConvertError, Problem, Replicas};

impl Builder {
    /// A HorizontalPodAutoscaler: its workload is planned with `minReplicas` at least and `maxReplicas` at most, or with what the options choose,
    /// unless it is scaled to nothing.
    pub fn add_horizontal_pod_autoscaler(&mut self, object: &HorizontalPodAutoscaler) -> Result<(), ConvertError> {
        let name = name_of("HorizontalPodAutoscaler", &object.metadata)?;
        let namespace = namespace_of(&object.metadata);
        let Some(spec) = &object.spec else { return Ok(()) };
        let which = self.options.replicas;
        let (field, replicas) = match which {
            Replicas::Current | Replicas::Min => ("spec.minReplicas", spec.min_replicas.unwrap_or(1)),
            Replicas::Max => ("spec.maxReplicas", spec.max_replicas),
        };
        let replicas = u32::try_from(replicas).unwrap_or(0);
        let others = self.n_pods();
        if others + u64::from(replicas) > MOST_PODS {
            let message =
                format!("found {replicas}, expected at most {} beside {others} pods", MOST_PODS.saturating_sub(others));
            let problems = vec![Problem::new(field, message)];
            return Err(ConvertError::new("HorizontalPodAutoscaler", format!("{namespace}/{name}"), problems));
        }
        let symbols = &mut self.cluster.symbols;
        if let Some(kind) = WorkloadKind::from_name(&spec.scale_target_ref.kind) {
            let target = (kind, symbols.intern(namespace), symbols.intern(&spec.scale_target_ref.name));
            let most = u32::try_from(spec.max_replicas).unwrap_or(0).max(1);
            let autoscaler = Autoscaler { target, replicas, most, which };
            let id = (symbols.intern(namespace), symbols.intern(name));
            if self.autoscalers.insert(id, autoscaler).is_some() {
                self.warn_of_repeat("HorizontalPodAutoscaler", &format!("{namespace}/{name}"));
            }
        }
        Ok(())
    }

    /// Pods that workloads want and autoscalers keep, and single ones.
    pub(crate) fn n_pods(&self) -> u64 {
        let kept: u64 = self.autoscalers.values().map(|autoscaler| u64::from(autoscaler.replicas)).sum();
        self.workloads.n_wanted() + kept + self.pods.len() as u64
    }
}

/// Raises or lowers what workloads want to what their autoscalers keep, and says so.
pub(crate) fn apply(
    autoscalers: &FxIndexMap<(Sym, Sym), Autoscaler>,
    workloads: &mut Workloads,
    symbols: &Symbols,
    warnings: &mut Texts,
) {
    let mut names: FxIndexMap<(WorkloadKind, Sym, Sym), Vec<Sym>> = FxIndexMap::default();
    for ((_, name), autoscaler) in autoscalers {
        names.entry(autoscaler.target).or_default().push(*name);
    }
    // Each would undo what the other does.
    names.retain(|_, names| names.len() > 1);
    for ((kind, namespace, workload), names) in &names {
        let names: Vec<&str> = names.iter().map(|name| symbols.text(*name)).collect();
        warnings.insert(format!(
            "{} {}/{}: has HorizontalPodAutoscalers {}: none of them scales it, as each would undo what another does",
            kind.name(),
            symbols.text(*namespace),
            symbols.text(*workload),
            names.join(", ")
        ));
    }
    let alone = || autoscalers.iter().filter(|(_, autoscaler)| !names.contains_key(&autoscaler.target));
    for (_, Autoscaler { target, which, .. }) in alone() {
        workloads.leave_count(*target, *which == Replicas::Current);
    }
    for ((_, name), Autoscaler { target, replicas, most, which }) in alone() {
        let changed = match which {
            Replicas::Current => match workloads.raise(*target, *replicas) {
                Some(before) => Some((before, replicas, "keeps at least")),
                None => workloads.lower(*target, *most).map(|before| (before, most, "keeps at most")),
            },
            Replicas::Min => workloads.scale(*target, *replicas).map(|before| (before, replicas, "has minReplicas")),
            Replicas::Max => workloads.scale(*target, *replicas).map(|before| (before, replicas, "has maxReplicas")),
        };
        let Some((before, replicas, keeps)) = changed else { continue };
        let (kind, namespace, workload) = *target;
        let noun = if before == 1 { "replica" } else { "replicas" };
        let text = |sym| symbols.text(sym);
        warnings.insert(format!(
            "{} {}/{}: has {before} {noun}, but HorizontalPodAutoscaler {} {keeps} {replicas}: planned with {replicas}",
            kind.name(),
            text(namespace),
            text(workload),
            text(*name)
        ));
    }
}
