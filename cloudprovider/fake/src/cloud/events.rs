//! What happens in the cloud, for whoever plays the machines and tells the story.

use berth_catalogue::Money;
use berth_cloudprovider::{CloudError, Instance, Interruption, NodeClaimKey, ProviderId};
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeMap;

/// A machine that has booted: all that its kubelet knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The instance, as it is now.
    pub instance: Instance,
    /// The name that its node has.
    pub node_name: String,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
}

/// Something that happened in the cloud, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudEvent {
    /// An instance was launched.
    Launched {
        /// Whose it is.
        node_claim: NodeClaimKey,
        /// The instance.
        instance: Box<Instance>,
    },
    /// A launch was refused for good reason: no capacity, a full reservation, an invalid request.
    Refused {
        /// Whose launch.
        node_claim: NodeClaimKey,
        /// Why.
        error: CloudError,
    },
    /// A machine has booted: its kubelet starts.
    Booted(Box<Machine>),
    /// The cloud will take an instance back.
    Interrupted {
        /// Which.
        provider_id: ProviderId,
        /// The name that its node has, or would have had.
        node_name: String,
        /// Why and when.
        interruption: Interruption,
    },
    /// An instance came under a reservation, or its reservation ended and it runs on: its labels have changed.
    Relabelled {
        /// The name that its node has, or would have had.
        node_name: String,
        /// The instance as it is now.
        instance: Box<Instance>,
    },
    /// A machine has no power any more: its kubelet is gone without a word.
    Stopped {
        /// Which.
        provider_id: ProviderId,
        /// The name that its node has, or would have had.
        node_name: String,
        /// Whether the cloud still shows it as running.
        died: bool,
    },
    /// An instance is terminated: its slot is free, and nothing is paid for it any more.
    Terminated(ProviderId),
}

/// What was said of an offering from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarketChange {
    /// So many instances are left; `None` is no limit.
    Stock(Option<u32>),
    /// It costs so much an hour.
    Price(Money),
}
