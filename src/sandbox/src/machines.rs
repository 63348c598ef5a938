//! From the cloud's machines to the stand-in kubelets, and into the story.

use berth_api::as_written;
use berth_catalogue::CapacityType;
use berth_cloudprovider::Instance;
use berth_cloudprovider_fake::cloud::{CloudEvent, FakeCloud, Machine};
use berth_kubelet::{Kubelets, NodeSpec};

use crate::story::{Happened, Moment};

/// Does what an event of the cloud asks for, and tells it.
pub(crate) fn follow(event: CloudEvent, kubelets: &Kubelets, moment: &mut Moment) {
    match event {
        CloudEvent::Launched { node_claim, instance } => {
            moment.add(Happened::Launched { what: described(&instance) }, node_claim.name);
        }
        CloudEvent::Refused { node_claim, error } => {
            moment.add(Happened::Refused { why: error.to_string() }, node_claim.name);
        }
        CloudEvent::Booted(machine) => kubelets.join(node_spec(*machine)),
        CloudEvent::Interrupted { node_name, interruption, .. } => {
            let at = interruption.at.strftime("%H:%M:%S");
            let message = format!("the cloud takes {node_name} back at {at}: {}", interruption.reason.as_str());
            moment.add(Happened::Said { event: "Interrupted", message }, node_name);
        }
        CloudEvent::Relabelled { node_name, instance } => {
            moment.add(Happened::Relabelled { what: described(&instance) }, node_name);
        }
        CloudEvent::Stopped { node_name, died, .. } => {
            kubelets.power_off(&node_name);
            if died {
                let message = format!("the machine of node {node_name} died without a word");
                moment.add(Happened::Said { event: "MachineDied", message }, node_name);
            }
        }
        CloudEvent::Terminated(_) => {}
    }
}

/// `m5.large on cr-web`, `m5.large spot in port-1a`.
fn described(instance: &Instance) -> String {
    let offering = &instance.offering;
    match (&instance.reservation, offering.capacity_type) {
        (Some(reservation), _) => format!("{} on {reservation}", offering.instance_type),
        (None, CapacityType::Reserved) => format!("{} reserved", offering.instance_type),
        (None, _) => offering.to_string(),
    }
}

/// What the kubelet of a machine registers.
pub fn node_spec(machine: Machine) -> NodeSpec {
    NodeSpec {
        name: machine.node_name,
        provider_id: machine.instance.provider_id.0,
        labels: machine.labels,
        taints: machine.taints,
        capacity: as_written(&machine.instance.capacity),
        allocatable: as_written(&machine.instance.allocatable),
    }
}

/// What the paid nodes cost an hour, such as `$0.192` or `$12.50`.
pub(crate) fn cost(cloud: &FakeCloud) -> String {
    let exact = format!("{:.4}", cloud.hourly_cost().dollars());
    let short = exact.trim_end_matches('0');
    let digits = short.len() - short.find('.').map_or(short.len(), |point| point + 1);
    format!("${short}{}", "0".repeat(2_usize.saturating_sub(digits)))
}
