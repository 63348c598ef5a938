//! HorizontalPodAutoscalers: a workload has at least as many pods as its autoscaler keeps.

use berth_model::{Sym, Symbols};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::add_workload::MOST_PODS;
use crate::builder::{FxIndexSet, name_of, namespace_of};
use crate::workloads::{WorkloadKind, Workloads};
use crate::{Builder, ConvertError, Problem};

/// What a HorizontalPodAutoscaler keeps.
pub(crate) struct Autoscaler {
    name: Sym,
    /// Kind, namespace and name of the workload.
    target: (WorkloadKind, Sym, Sym),
    least: u32,
}

impl Builder {
    /// A HorizontalPodAutoscaler: its workload is planned with `minReplicas` at least, unless it is scaled to nothing.
    pub fn add_horizontal_pod_autoscaler(&mut self, object: &HorizontalPodAutoscaler) -> Result<(), ConvertError> {
        let name = name_of("HorizontalPodAutoscaler", &object.metadata)?;
        let namespace = namespace_of(&object.metadata);
        let Some(spec) = &object.spec else { return Ok(()) };
        let least = u32::try_from(spec.min_replicas.unwrap_or(1)).unwrap_or(0);
        let others = self.n_pods();
        if others + u64::from(least) > MOST_PODS {
            let message =
                format!("found {least}, expected at most {} beside {others} pods", MOST_PODS.saturating_sub(others));
            let problems = vec![Problem::new("spec.minReplicas", message)];
            return Err(ConvertError::new("HorizontalPodAutoscaler", format!("{namespace}/{name}"), problems));
        }
        let symbols = &mut self.cluster.symbols;
        if let Some(kind) = WorkloadKind::from_name(&spec.scale_target_ref.kind) {
            let target = (kind, symbols.intern(namespace), symbols.intern(&spec.scale_target_ref.name));
            self.autoscalers.push(Autoscaler { name: symbols.intern(name), target, least });
        }
        Ok(())
    }

    /// Pods that workloads want and autoscalers keep, and single ones.
    pub(crate) fn n_pods(&self) -> u64 {
        let kept: u64 = self.autoscalers.iter().map(|autoscaler| u64::from(autoscaler.least)).sum();
        self.workloads.n_wanted() + kept + self.pods.len() as u64
    }
}

/// Raises what workloads want to what their autoscalers keep, and says so.
pub(crate) fn apply(
    autoscalers: &[Autoscaler],
    workloads: &mut Workloads,
    symbols: &Symbols,
    warnings: &mut FxIndexSet<String>,
) {
    for Autoscaler { name, target, least } in autoscalers {
        let Some(before) = workloads.raise(*target, *least) else { continue };
        let (kind, namespace, workload) = *target;
        let text = |sym| symbols.text(sym);
        warnings.insert(format!(
            "{} {}/{}: has {before} replicas, but HorizontalPodAutoscaler {} keeps at least {least}: planned with {least}",
            kind.name(),
            text(namespace),
            text(workload),
            text(*name)
        ));
    }
}
