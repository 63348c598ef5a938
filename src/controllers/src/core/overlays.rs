//! Jobs of NodeOverlays: whether they do what they say.

use berth_api::NodeOverlay;
use berth_convert::OverlayFault;
use jiff::Timestamp;
use serde_json::json;

use super::pools::VALIDATION;
use super::{Core, Job};
use crate::claim::conditions::{self, Status};
use crate::claim::on;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::write::Op;

impl Core {
    /// Something changed that may be right or wrong about NodeOverlays.
    pub(super) fn look_at_overlays(&mut self) {
        if !self.options.convert.node_overlay {
            return;
        }
        let names = self.state.all::<NodeOverlay>().filter_map(|overlay| overlay.metadata.name.clone());
        for name in names.collect::<Vec<_>>() {
            self.queue.add(Job::Overlay(name));
        }
    }

    pub(super) fn step_overlay(&mut self, name: &str, now: Timestamp) {
        let job = Job::Overlay(name.to_owned());
        let Some(overlay) = self.state.get_as::<NodeOverlay>("", name).cloned() else {
            return self.queue.forget(&job);
        };
        // Before the cloud has said what there is, nobody can say what is wrong.
        if overlay.metadata.deletion_timestamp.is_some() || self.offers.is_empty() {
            return self.queue.forget(&job);
        }
        self.update_prices();
        let fault = self.prices.values().find_map(|known| known.faults.get(name)).cloned();
        let before = overlay.status.clone().unwrap_or_default();
        let mut status = before.clone();
        let all = &mut status.conditions;
        let generation = overlay.metadata.generation;
        if let Some(fault) = &fault {
            let reason = match fault {
                OverlayFault::Unreadable(_) => "RuntimeValidation",
                OverlayFault::Conflict(_) => "Conflict",
                OverlayFault::SomeNodePools => "SomeNodePools",
            };
            let message = fault.to_string();
            conditions::set(all, (VALIDATION, Status::False), (reason, &message), generation, now);
            self.tell(Notice::about(Kind::NodeOverlay, &overlay.metadata, reason, message), now);
        } else {
            conditions::set(all, (VALIDATION, Status::True), (VALIDATION, ""), generation, now);
        }
        conditions::summarise(all, &[VALIDATION], generation, now);
        if status == before {
            return self.queue.forget(&job);
        }
        let patch = json!({"metadata": {"resourceVersion": overlay.metadata.resource_version},
            "status": {"conditions": status.conditions}});
        self.write(job, on(Kind::NodeOverlay, &overlay.metadata, Op::MergeStatus(patch)));
    }
}
