//! A node as a decision changes it.

use smallvec::SmallVec;

use super::HostCounts;
use crate::room::change;
use crate::{Assigned, ClassId, Disk, Holding, HostPort, Resources, Room, Sym, UnitsState, Volumes};

/// What a decision has changed of an existing node.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// What is neither used nor held.
    pub free: Resources,
    /// What Reservations hold; off `free`.
    pub holdings: Vec<Holding>,
    /// CPU (milli) and memory (bytes) that scores assume beyond what is requested, see [`crate::PodSpec::assumed`].
    pub assumed: [i64; 2],
    /// The pods that the decision binds to it, and the Reservations that it places on it by their class.
    pub added: SmallVec<[(ClassId, u32); 2]>,
    /// Those of the added pods that draw, in the order in which they came: class, and the Reservation by index into
    /// [`crate::Cluster::reservations`].
    pub draws: Vec<(ClassId, u32)>,
    /// The Reservations that the decision places on it, by index into [`crate::Cluster::reservations`].
    pub placed: Vec<u32>,
    /// Pods per hostname counter, running ones included.
    pub host_counts: HostCounts,
    /// Host ports in use, and those held by Reservations: once for each.
    pub ports: Vec<HostPort>,
    /// CPUs and devices that pods and Reservations have to themselves.
    pub units: UnitsState,
    /// What added pods and Reservations got of them, in the order in which they came, and from which Reservation pods
    /// draw.
    pub assigned: Vec<(ClassId, Option<u32>, Assigned)>,
    /// Volumes attached, and those that Reservations hold: (driver, volume), sorted, once for each.
    pub attached: Vec<(Sym, Sym)>,
    /// Disks in use, and those held by Reservations: once for each.
    pub disks: Vec<Disk>,
}

impl NodeState {
    /// What is not used.
    pub fn room(&self) -> Room<'_> {
        Room { free: &self.free, holdings: &self.holdings }
    }

    /// The holding of a Reservation.
    pub fn holding(&self, reservation: u32) -> Option<&Holding> {
        self.holdings.iter().find(|holding| holding.reservation == reservation)
    }

    /// Takes room for a pod, which draws from a Reservation on the node or from none.
    pub fn take(&mut self, requests: &Resources, draws_from: Option<u32>) {
        change(&mut self.free, &mut self.holdings, requests, draws_from, 1);
    }

    /// Gives back what a pod took. What it drew is held again.
    pub fn give_back(&mut self, requests: &Resources, draws_from: Option<u32>) {
        change(&mut self.free, &mut self.holdings, requests, draws_from, -1);
    }

    /// Holds room for a Reservation.
    pub fn hold(&mut self, holding: Holding) {
        self.free.subtract(&holding.held());
        self.holdings.push(holding);
    }

    /// Gives up what a Reservation holds.
    pub fn release(&mut self, reservation: u32) -> Option<Holding> {
        let at = self.holdings.iter().position(|holding| holding.reservation == reservation)?;
        let holding = self.holdings.remove(at);
        self.free.add(&holding.held());
        self.units.held.retain(|held| held.reservation != reservation);
        Some(holding)
    }

    /// Adds the uses of ports and volumes.
    pub fn attach(&mut self, ports: &[HostPort], volumes: &Volumes) {
        self.ports.extend(ports);
        self.disks.extend(volumes.disks.iter().cloned());
        if !volumes.attachments.is_empty() {
            self.attached.extend(&volumes.attachments);
            self.attached.sort_unstable();
        }
    }

    /// Takes one use of each port and volume off.
    pub fn detach(&mut self, ports: &[HostPort], volumes: &Volumes) {
        for port in ports {
            if let Some(at) = self.ports.iter().position(|used| used == port) {
                self.ports.remove(at);
            }
        }
        for disk in &volumes.disks {
            if let Some(at) = self.disks.iter().position(|used| used == disk) {
                self.disks.remove(at);
            }
        }
        for volume in &volumes.attachments {
            if let Ok(at) = self.attached.binary_search(volume) {
                self.attached.remove(at);
            }
        }
    }
}
