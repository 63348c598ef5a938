//! Reservations in the histories of [`crate::rules`]: what they hold on their node is for their owners.

use berth_api::Reservation;
use berth_state::{Kind, Object};
use serde_json::json;

use crate::rules::{N_APPS, World, of_json, pick};

/// At most so many, so that much happens to few.
const N_ROOMS: usize = 4;

/// A Reservation on its node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    uid: u32,
    /// The app of its owners.
    app: u8,
    cpu: u32,
    allocate_once: bool,
    node: String,
}

// === impl Room ===

impl Room {
    fn object(&self, name: &str) -> Object {
        let (cpu, app) = (format!("{}m", self.cpu), format!("app{}", self.app));
        let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}});
        of_json::<Reservation>(json!({
            "metadata": {"name": name, "uid": format!("r{}", self.uid)},
            "spec": {"ttl": "0s", "allocateOnce": self.allocate_once, "template": {"spec": {"containers": [container]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": app}}}]},
            "status": {"phase": "Available", "nodeName": self.node, "allocatable": {"cpu": cpu}}}))
    }
}

// === impl World ===

impl World {
    /// What of a Reservation nobody but its owners may have, where one more draws this much.
    fn held(&self, name: &str, more: u32) -> u32 {
        let Some(room) = self.rooms.get(name) else { return 0 };
        let drawers = self.pods.values().filter(|pod| pod.node.is_some() && pod.draws_from.as_deref() == Some(name));
        let drawn: u32 = drawers.map(|pod| pod.template.cpu).sum::<u32>() + more;
        if room.allocate_once && drawn > 0 { 0 } else { room.cpu.saturating_sub(drawn) }
    }

    /// What runs on a node.
    fn used(&self, node: &str) -> u32 {
        let pods = self.pods.values().filter(|pod| pod.node.as_deref() == Some(node));
        pods.map(|pod| pod.template.cpu).sum()
    }

    /// A Reservation comes to a node that has the room.
    pub(crate) fn room_comes(&mut self, node: u8, variant: u8) {
        let Some(node) = pick(&self.nodes, node, |node| !node.is_going) else { return };
        let cpu = [300, 500, 800, 1000][usize::from(variant % 4)];
        let rooms = self.rooms.iter().filter(|(_, room)| room.node == node);
        let held: u32 = rooms.map(|(name, _)| self.held(name, 0)).sum();
        if self.rooms.len() >= N_ROOMS || self.used(&node) + held + cpu > self.nodes[&node].cpu {
            return;
        }
        let uid = self.next();
        let (name, app) = (format!("room{uid}"), variant / 4 % N_APPS);
        let room = Room { uid, app, cpu, allocate_once: variant & 128 == 0, node };
        let object = room.object(&name);
        self.rooms.insert(name, room);
        self.tell(object);
    }

    /// The Reservations of a node go with it.
    pub(crate) fn leave_rooms(&mut self, node: &str) {
        while let Some(name) = pick(&self.rooms, 0, |room| room.node == node) {
            self.forget(Kind::Reservation, "", &name);
        }
    }

    /// Reservations for one owner end once it has come.
    pub(crate) fn close_spent_rooms(&mut self) {
        let is_spent = |name: &String| self.held(name, 0) == 0 && self.rooms[name].allocate_once;
        let spent: Vec<String> = self.rooms.keys().filter(|name| is_spent(name)).cloned().collect();
        for name in spent {
            self.forget(Kind::Reservation, "", &name);
        }
    }

    /// Whether a pod that comes to a node leaves to each Reservation there what it holds.
    pub(crate) fn expect_held(&self, name: &str, on: &str, draws_from: Option<&str>) {
        let (cpu, node) = (self.pods[name].template.cpu, &self.nodes[on]);
        if let Some(room) = draws_from {
            assert_eq!(self.rooms[room].node, on, "{name} draws from {room} on another node");
        }
        let of_node = self.rooms.iter().filter(|(_, room)| room.node == on);
        let held = |room: &str| self.held(room, if draws_from == Some(room) { cpu } else { 0 });
        let held: u32 = of_node.map(|(room, _)| held(room)).sum();
        let used = self.used(on) + cpu;
        assert!(used + held <= node.cpu, "{name} on {on}: {used} used and {held} held, of {}", node.cpu);
    }
}
