//! A fake cloud for a cluster that exists: its machines join that cluster as nodes, and objects there change it.

use std::time::Duration;

use berth_api::{FakeCapacityReservation, FakeNodeClass, PlannedFor};
use berth_catalogue::Catalogue;
use berth_cloudprovider::ReservationAdoption;
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeCloud};
use berth_kubelet::{KubeletConfig, Kubelets};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::core::PartialObjectMeta;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::bridge::Bridge;
use crate::cluster::{MOMENT, Seen, watch};
use crate::overlays::PriceSeen;
use crate::story::{Happened, Line, Moment};
use crate::{SandboxError, apply, machines};

/// What a fake cloud is started with.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// What every clock shows at the start.
    pub now: Timestamp,
    /// Decides ids, chance, and a part of the names of machines: another one for each cloud that the cluster knows.
    pub seed: u64,
    /// What the cloud offers. Each of its reservations becomes a FakeCapacityReservation, unless there is one.
    pub catalogue: Catalogue,
    /// How long a machine takes to boot.
    pub boot_delay: Duration,
    /// How running instances come under a reservation.
    pub adoption: ReservationAdoption,
    /// Whether the cloud leaves the cluster as it is: nothing is launched then either.
    pub is_dry: bool,
    /// Whether NodeOverlays change what is paid, as the feature gate of the Berth says that launches here.
    pub node_overlay: bool,
}

/// A fake cloud that goes when this is dropped, with its machines: their nodes stay, and are not ready.
#[derive(Debug)]
pub struct Host {
    cloud: FakeCloud,
    _tasks: JoinSet<()>,
}

// === impl Host ===

impl Host {
    /// Starts a fake cloud for the cluster of a client. Each thing that happens in it is one call of `tell`.
    ///
    /// # Errors
    /// Where the catalogue's reservations cannot be written as objects.
    pub async fn start(
        client: Client,
        options: HostOptions,
        tell: impl FnMut(&Line) + Send + 'static,
    ) -> Result<Self, SandboxError> {
        let HostOptions { now, seed, catalogue, boot_delay, adoption, is_dry, node_overlay } = options;
        let config = CloudConfig {
            seed,
            incarnation: incarnation(seed),
            epoch: now,
            boot_delay,
            adoption,
            ..CloudConfig::default()
        };
        let cloud = FakeCloud::new(config, catalogue);
        if !is_dry {
            apply::missing_reservations(&client, &cloud.reservation_definitions()).await?;
        }
        let (events, happened) = unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(cloud.clone().run(events));
        let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch: now, ..KubeletConfig::default() });
        let bridge = Bridge::new(client.clone(), cloud.clone(), !is_dry);
        tasks.spawn(follow((client, node_overlay), cloud.clone(), bridge, kubelets, happened, tell));
        Ok(Self { cloud, _tasks: tasks })
    }

    /// The cloud.
    pub fn cloud(&self) -> &FakeCloud {
        &self.cloud
    }
}

/// Five characters that tell this cloud's machines from those of others that the cluster knew, or knows.
fn incarnation(seed: u64) -> String {
    // Without vowels, so that no words come of it.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = seed;
    let digit = |_| {
        let digit = usize::try_from(rest % 27).unwrap_or(0);
        rest /= 27;
        char::from(ALPHABET.get(digit).copied().unwrap_or(b'b'))
    };
    (0..5).map(digit).collect()
}

async fn follow(
    (client, has_overlays): (Client, bool),
    cloud: FakeCloud,
    mut bridge: Bridge,
    kubelets: Kubelets,
    mut happened: UnboundedReceiver<berth_cloudprovider_fake::cloud::CloudEvent>,
    mut tell: impl FnMut(&Line),
) {
    let mut moment = Moment::default();
    let mut watches = vec![
        watch::<FakeNodeClass, _>(&client, Seen::Class),
        watch::<PartialObjectMeta<ConfigMap>, _>(&client, Seen::ConfigMap),
        watch::<FakeCapacityReservation, _>(&client, Seen::Slots),
        watch::<Node, _>(&client, Seen::Node),
    ];
    if has_overlays {
        watches.push(PriceSeen::watch(&client).map(Seen::Price).boxed());
    }
    let mut watches = futures::stream::select_all(watches);
    let mut ticks = tokio::time::interval(MOMENT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            Some(event) = happened.recv() => machines::follow(event, &kubelets, &mut moment),
            Some(seen) = watches.next() => {
                if let Some(message) = bridge.take(seen).await {
                    moment.add(Happened::Said { event: "Unusable", message }, "");
                }
            }
            _ = ticks.tick() => {
                bridge.write_counts().await.into_iter().for_each(|count| moment.add_slots(count));
                if moment.is_over(false) {
                    let cost = machines::cost(&cloud);
                    moment.tell(cloud.now(), PlannedFor::default(), &cost).iter().for_each(&mut tell);
                }
            }
        }
    }
}
