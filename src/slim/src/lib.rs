//! The little of an object that whoever looks on reads, so that a watch of many need not keep them whole.
//!
//! ```
//! let status: berth_slim::PodStatus = serde_json::from_str(r#"{"phase": "Succeeded"}"#).unwrap();
//! assert!(status.has_ended());
//! ```

use serde::Deserialize;

/// A pod's status, as far as it tells where the pod is in its life.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<PodCondition>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Deserialize)]
pub struct PodCondition {
    /// Which.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
}

// === impl PodStatus ===

impl PodStatus {
    /// Whether its containers have ended and are not started again.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Why no node was found for it, as its scheduler said last; `None` where it did not say so.
    pub fn unschedulable(&self) -> Option<&str> {
        self.condition("PodScheduled", "False")?.message.as_deref()
    }

    /// Whether it goes because of an eviction that PodDisruptionBudgets allowed.
    pub fn is_evicted(&self) -> bool {
        let target = self.condition("DisruptionTarget", "True");
        target.is_some_and(|own| own.reason.as_deref() == Some("EvictionByEvictionAPI"))
    }

    fn condition(&self, type_: &str, status: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|own| own.type_ == type_ && own.status == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_count_by_type_and_status() {
        let status: PodStatus = serde_json::from_value(serde_json::json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no room"},
            {"type": "DisruptionTarget", "status": "False", "reason": "EvictionByEvictionAPI"}]}))
        .unwrap();
        assert_eq!((status.unschedulable(), status.is_evicted(), status.has_ended()), (Some("no room"), false, false));
        let empty: PodStatus = serde_json::from_str("{}").unwrap();
        assert_eq!((empty.unschedulable(), empty.has_ended()), (None, false));
    }
}
