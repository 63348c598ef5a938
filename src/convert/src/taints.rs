//! Taints as they are read.

use berth_model::{Symbols, Taint};
use k8s_openapi::api::core::v1 as core;

use crate::Problem;
use crate::pod::effect;

/// Problems are relative to the list.
pub(crate) fn read_taints(taints: &[core::Taint], symbols: &mut Symbols) -> Result<Vec<Taint>, Problem> {
    let mut read = Vec::with_capacity(taints.len());
    for (i, taint) in taints.iter().enumerate() {
        let effect = effect(&taint.effect).and_then(|effect| {
            effect.ok_or_else(|| Problem::new("effect", "expected NoSchedule, PreferNoSchedule or NoExecute"))
        });
        read.push(Taint {
            key: symbols.intern(&taint.key),
            value: symbols.intern(taint.value.as_deref().unwrap_or_default()),
            effect: effect.map_err(|problem| problem.under(format!("[{i}]")))?,
        });
    }
    Ok(read)
}
