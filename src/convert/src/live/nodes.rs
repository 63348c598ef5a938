//! Nodes and NodeClaims that come, change and go.

use std::sync::Arc;

use berth_api::{Device, NodeClaim, NodeResourceTopology};
use berth_model::{Node, SlotId, Sym, Units};
use k8s_openapi::api::core::v1::Node as Object;
use k8s_openapi::api::storage::v1::CSINode;
use rustc_hash::FxHashMap;

use super::{Change, Live, Objects, Patched};
use crate::builder::Builder;
use crate::capacity::{Site, with_type};
use crate::existing::{self, StayingPods, join_pool, leave_pool};
use crate::node::read_attach_limits;
use crate::node_record::{NodeClaimRecord, NodeRecord};
use crate::{ConvertError, in_flight, units};

/// What the node or the NodeClaim of a name is.
enum Unit {
    /// Nothing.
    Absent,
    /// A node that is going away; with pods that stay there, it is known for them.
    Leaving(Option<Box<Node>>),
    /// Capacity; of a NodeClaim that is not launched, with the supply that it takes an instance of.
    Stands(Box<Node>, Option<SlotId>),
}

/// How many volumes may be attached to a node, by driver, and its CPUs and devices one by one.
type Parts = (Vec<(Sym, u32)>, Option<Units>);

/// A conversion of everything is needed.
struct Rebuild;

/// What was read of an object instead of what was known, which comes back.
fn swap<T: Clone>(known: &mut FxHashMap<Sym, T>, name: Sym, now: Option<&T>) -> Option<T> {
    match now {
        Some(now) => known.insert(name, now.clone()),
        None => known.remove(&name),
    }
}

impl Live {
    /// A node was created, changed or deleted. What it was before is asked for where it was not read lately.
    pub fn node_changed(
        &mut self,
        name: &str,
        before: impl FnOnce() -> Option<Object>,
        after: Option<&Object>,
        objects: &impl Objects,
    ) -> Patched {
        let Some(after) = self.read(|reader| read_node(reader, after)) else { return Patched::NeedsRebuild };
        let name = self.cluster.symbols.intern(name);
        let before = match swap(&mut self.records.nodes, name, after.as_ref()) {
            Some(known) => Some(known),
            None => match self.read(|reader| read_node(reader, before().as_ref())) {
                Some(before) => before,
                None => return Patched::NeedsRebuild,
            },
        };
        if before == after {
            return Patched::Done;
        }
        let mut around = self.rooms.links.around(name);
        self.rooms.links.set_node(name, after.as_ref());
        around.extend(self.rooms.links.around(name));
        // Volumes that are being made for it hold their pods back as long as it is there.
        let claims = self.rooms.resolver.storage.set_node(name, after.is_some());
        if self.bring_up_to_date(around, objects) == Patched::NeedsRebuild {
            return Patched::NeedsRebuild;
        }
        if claims.is_empty() { Patched::Done } else { self.look_again(&claims, objects) }
    }

    /// A NodeClaim was created, changed or deleted. `supplies` are the ids of those that it names or named.
    pub fn node_claim_changed(
        &mut self,
        name: &str,
        supplies: &[&str],
        before: Option<&NodeClaim>,
        after: Option<&NodeClaim>,
        objects: &impl Objects,
    ) -> Patched {
        let Some(after) = self.read(|reader| read_claim(reader, after)) else { return Patched::NeedsRebuild };
        let name = self.cluster.symbols.intern(name);
        let before = match swap(&mut self.records.claims, name, after.as_ref()) {
            Some(known) => Some(known),
            None => match self.read(|reader| read_claim(reader, before)) {
                Some(before) => before,
                None => return Patched::NeedsRebuild,
            },
        };
        if before == after {
            return Patched::Done;
        }
        let mut around = self.rooms.links.around(name);
        self.rooms.links.set_claim(name, after.as_ref());
        around.extend(self.rooms.links.around(name));
        // A launch that a count did not see is taken off.
        self.count_supplies(objects, |id| supplies.contains(&id));
        self.bring_up_to_date(around, objects)
    }

    /// The cloud counted free instances of supplies anew, or some are taken.
    pub fn supplies_changed(&mut self, objects: &impl Objects, claims: impl Iterator<Item = String>) -> Patched {
        self.count_supplies(objects, |_| true);
        let claims: Vec<Sym> = claims.filter_map(|claim| self.cluster.symbols.get(&claim)).collect();
        self.bring_up_to_date(claims, objects)
    }

    /// Other pods stay on nodes that go away than before.
    pub fn staying_changed(&mut self, staying: &StayingPods, objects: &impl Objects) -> Patched {
        let staying = existing::staying(staying, &mut self.cluster.symbols);
        let nodes = self.rooms.existing.others_stay_on(&staying);
        // Where others stay than before, each pod is looked at anew.
        for name in &nodes {
            let is_leaving = self.rooms.existing.is_deleting(*name);
            if is_leaving && self.set(*name, Unit::Leaving(None), objects).is_err() {
                return Patched::NeedsRebuild;
            }
        }
        self.rooms.existing.staying = staying;
        self.bring_up_to_date(nodes, objects)
    }

    /// The volumes that may be attached to a node have changed.
    pub fn csi_node_changed(
        &mut self,
        name: &str,
        before: Option<&CSINode>,
        after: Option<&CSINode>,
        objects: &impl Objects,
    ) -> Patched {
        let symbols = &mut self.cluster.symbols;
        let mut limits =
            |object: Option<&CSINode>| object.map_or_else(Vec::new, |object| read_attach_limits(object, symbols));
        let (before, after) = (limits(before), limits(after));
        if before == after {
            return Patched::Done;
        }
        let drivers = &mut self.rooms.drivers;
        let had: Vec<bool> = before.iter().chain(&after).map(|(driver, _)| drivers.contains_key(driver)).collect();
        for (driver, _) in &after {
            *drivers.entry(*driver).or_default() += 1;
        }
        for (driver, _) in &before {
            if let Some(count) = drivers.get_mut(driver) {
                *count -= 1;
            }
        }
        drivers.retain(|_, count| *count > 0);
        let has: Vec<bool> = before.iter().chain(&after).map(|(driver, _)| drivers.contains_key(driver)).collect();
        // Volumes of drivers without any limit are not counted.
        if had != has {
            return Patched::NeedsRebuild;
        }
        let name = self.cluster.symbols.intern(name);
        self.bring_up_to_date(vec![name], objects)
    }

    /// The devices of a node have changed.
    pub fn device_changed(
        &mut self,
        name: &str,
        before: Option<&Device>,
        after: Option<&Device>,
        objects: &impl Objects,
    ) -> Patched {
        let read = |reader: &mut Builder, object: Option<&Device>| {
            object.map_or(Ok(()), |object| reader.add_device(object))?;
            Ok(reader.devices.drain().next())
        };
        let known = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        self.part_changed(name, known, objects)
    }

    /// The CPUs and NUMA nodes of a node have changed.
    pub fn node_resource_topology_changed(
        &mut self,
        name: &str,
        before: Option<&NodeResourceTopology>,
        after: Option<&NodeResourceTopology>,
        objects: &impl Objects,
    ) -> Patched {
        let read = |reader: &mut Builder, object: Option<&NodeResourceTopology>| {
            object.map_or(Ok(()), |object| reader.add_node_resource_topology(object))?;
            Ok(reader.topologies.drain().next())
        };
        let known = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        self.part_changed(name, known, objects)
    }

    fn part_changed<T: PartialEq>(&mut self, name: &str, known: Option<(T, T)>, objects: &impl Objects) -> Patched {
        match known {
            None => Patched::NeedsRebuild,
            Some((before, after)) if before == after => Patched::Done,
            Some(_) => {
                let name = self.cluster.symbols.intern(name);
                self.bring_up_to_date(vec![name], objects)
            }
        }
    }

    /// What is free of supplies, NodeClaims that are not launched taken off.
    fn count_supplies(&mut self, objects: &impl Objects, is_meant: impl Fn(&str) -> bool) {
        let supplies = &mut self.rooms.supplies;
        let mut has_changed = false;
        for ((supply, counted), free) in self.cluster.slots.iter().zip(&supplies.counted).zip(&mut supplies.free) {
            let id = self.cluster.symbols.text(supply.id);
            if is_meant(id) {
                let now = objects.free_slots(id, *counted);
                has_changed |= *free != now;
                *free = now;
            }
        }
        if has_changed {
            self.settle_supplies();
        }
    }

    /// Nodes say which of the images they have that were just asked for: to be called after each change. It looks through all
    /// nodes, where somebody is the first to ask for an image that some node has.
    pub fn show_images(&mut self, objects: &impl Objects) -> Patched {
        let asked = std::mem::take(&mut self.rooms.images.asked);
        let names = asked.into_iter().flat_map(|image| objects.nodes_with_image(self.cluster.symbols.text(image)));
        let nodes = names.filter_map(|node| self.cluster.symbols.get(&node)).collect();
        self.bring_up_to_date(nodes, objects)
    }

    pub(super) fn settle_supplies(&mut self) {
        let mut free = self.rooms.supplies.free.clone();
        for slot in self.rooms.existing.taken.values() {
            if let Some(free) = free.get_mut(slot.index()) {
                *free = free.saturating_sub(1);
            }
        }
        for (supply, free) in self.cluster.slots.iter_mut().zip(free) {
            supply.free = free;
        }
        self.log.push(Change::Supplies);
    }

    pub(super) fn bring_up_to_date(&mut self, mut units: Vec<Sym>, objects: &impl Objects) -> Patched {
        units.sort_unstable();
        units.dedup();
        for name in units {
            let is_done = self.unit(name, objects).is_ok_and(|unit| self.set(name, unit, objects).is_ok());
            if !is_done || self.has_left_over_much() {
                return Patched::NeedsRebuild;
            }
        }
        Patched::Done
    }

    /// The node of a name, read anew only where it was not lately.
    fn node_of_name(&mut self, name: Sym, text: &str, objects: &impl Objects) -> Result<Option<NodeRecord>, Rebuild> {
        if let Some(known) = self.records.nodes.get(&name) {
            return Ok(Some(known.clone()));
        }
        let found = self.read(|reader| read_node(reader, objects.node(text).as_ref())).ok_or(Rebuild)?;
        swap(&mut self.records.nodes, name, found.as_ref());
        Ok(found)
    }

    /// The same of a NodeClaim.
    fn claim_of_name(&mut self, text: &str, objects: &impl Objects) -> Result<Option<NodeClaimRecord>, Rebuild> {
        let name = self.cluster.symbols.intern(text);
        if let Some(known) = self.records.claims.get(&name) {
            return Ok(Some(known.clone()));
        }
        let found = self.read(|reader| read_claim(reader, objects.node_claim(text))).ok_or(Rebuild)?;
        swap(&mut self.records.claims, name, found.as_ref());
        Ok(found)
    }

    /// What there is of a name, as [`crate::existing::ExistingNodes::new`] has it.
    fn unit(&mut self, name: Sym, objects: &impl Objects) -> Result<Unit, Rebuild> {
        let text = self.cluster.symbols.shared(name);
        let read = |live: &mut Self, claim: &str| {
            let mut found = live.claim_of_name(claim, objects)?;
            if let Some(found) = found.as_mut().filter(|found| !found.is_launched) {
                let symbols = &live.cluster.symbols;
                let supplies = live.cluster.slots.iter().zip((0..).map(SlotId));
                let counted = supplies.filter(|(supply, _)| objects.counts_launch(symbols.text(supply.id), claim));
                found.asked.counted = counted.map(|(_, id)| id).collect();
            }
            Ok(found)
        };
        let node = self.node_of_name(name, &text, objects)?;
        let (record, is_coming_up, claim, slot) = if let Some(record) = node {
            let claim = self.rooms.links.claim_of(name, &self.cluster.symbols);
            let claim = claim.map(|claim| self.cluster.symbols.shared(claim));
            let claim = claim.map_or(Ok(None), |claim| read(self, &claim))?;
            if record.is_deleting || claim.as_ref().is_some_and(|claim| claim.node.is_deleting) {
                return self.leaving(name, &record, objects);
            }
            let is_coming_up = record.is_coming_up(&mut self.cluster.symbols);
            (record, is_coming_up, claim, None)
        } else {
            let Some(claim) = read(self, &text)? else { return Ok(Unit::Absent) };
            if self.rooms.links.has_node(name, &self.cluster.symbols) || claim.node.is_deleting {
                return Ok(Unit::Absent);
            }
            if claim.is_launched {
                (with_type(claim.node.clone(), &self.cluster), true, Some(claim), None)
            } else {
                let record = claim.node.clone();
                let found = in_flight::promised(record, &claim.asked, &mut self.cluster, &mut self.warnings);
                let Some((record, slot)) = found else { return Ok(Unit::Absent) };
                (record, true, Some(claim), slot)
            }
        };
        let (limits, units) = self.parts(name, &record, objects)?;
        let site = Site { startup_taints: &self.rooms.startup_taints, wanted: &self.rooms.images.wanted };
        let node = site.node(&record, is_coming_up, claim.as_ref(), limits, units, &self.cluster);
        Ok(Unit::Stands(Box::new(node), slot))
    }

    /// A node that is going away, where pods stay on it.
    fn leaving(&mut self, name: Sym, record: &NodeRecord, objects: &impl Objects) -> Result<Unit, Rebuild> {
        if !self.rooms.existing.has_staying(name) {
            return Ok(Unit::Leaving(None));
        }
        let (limits, units) = self.parts(name, record, objects)?;
        let site = Site { startup_taints: &self.rooms.startup_taints, wanted: &self.rooms.images.wanted };
        Ok(Unit::Leaving(Some(Box::new(site.leaving_node(record, limits, units, &self.cluster)))))
    }

    /// What other objects say of a node: the volumes that may be attached, and its CPUs and devices one by one.
    fn parts(&mut self, name: Sym, record: &NodeRecord, objects: &impl Objects) -> Result<Parts, Rebuild> {
        let text = self.cluster.symbols.shared(name);
        let limits = objects.csi_node(&text);
        let limits = limits.map_or_else(Vec::new, |limits| read_attach_limits(limits, &mut self.cluster.symbols));
        let parts = self.read(|reader| {
            objects.device(&text).map_or(Ok(()), |device| reader.add_device(device))?;
            let topology = objects.node_resource_topology(&text);
            topology.map_or(Ok(()), |topology| reader.add_node_resource_topology(topology))?;
            Ok((reader.topologies.drain().next(), reader.devices.drain().next()))
        });
        let (topology, devices) = parts.ok_or(Rebuild)?;
        let images = &mut self.rooms.images;
        let unwanted = record.images.iter().map(|(image, _)| *image).filter(|image| !images.wanted.contains(image));
        images.unwanted.extend(unwanted);
        Ok((limits, units::together(topology, devices).remove(&name)))
    }

    fn set(&mut self, name: Sym, unit: Unit, objects: &impl Objects) -> Result<(), Rebuild> {
        let existing = &mut self.rooms.existing;
        let (position, was_leaving) = (existing.position(name), existing.is_deleting(name));
        let (node, slot, is_leaving) = match unit {
            Unit::Absent => (None, None, false),
            Unit::Leaving(node) => (node, None, true),
            Unit::Stands(node, slot) => (Some(node), slot, false),
        };
        let taken = match slot {
            Some(slot) => existing.taken.insert(name, slot),
            None => existing.taken.remove(&name),
        };
        if taken != slot {
            self.settle_supplies();
        }
        let node = match (position, node) {
            (Some(position), Some(node)) if was_leaving == is_leaving => {
                self.change_node(position, *node);
                return Ok(());
            }
            (None, None) if was_leaving == is_leaving => return Ok(()),
            (_, node) => node,
        };
        // Pods are where their node is.
        let on_node = position.and_then(|position| self.cluster.nodes.get(position)).map(|node| &node.pods);
        let mut pods: Vec<(Sym, Arc<str>)> =
            on_node.into_iter().flatten().map(|pod| (pod.namespace, pod.name.clone())).collect();
        pods.extend(self.naming.get(&name).into_iter().flatten().cloned());
        for (namespace, pod) in &pods {
            if self.take_out(*namespace, pod) == Patched::NeedsRebuild {
                return Err(Rebuild);
            }
        }
        if let Some(position) = position {
            self.remove_node(position);
        }
        self.rooms.existing.set_deleting(name, is_leaving);
        if let Some(node) = node {
            self.push_node(*node);
        }
        let again = self.again(&pods, objects);
        // Reservations are held where theirs is.
        if let Some(position) = self.rooms.existing.position(name).filter(|_| self.rooms.reservations.are_on(name)) {
            self.settle_holdings(position);
        }
        if again == Patched::Done { Ok(()) } else { Err(Rebuild) }
    }

    fn push_node(&mut self, mut node: Node) {
        join_pool(&mut node, &mut self.cluster.node_pools, self.cluster.well_known.node_pool);
        let counts = node.node_pool.is_some();
        let position = self.rooms.existing.push(node, &mut self.cluster);
        for daemon in self.daemons_expected_on(position) {
            self.rooms.existing.count_daemon(position, daemon, true);
        }
        self.rooms.existing.settle_room(position, &mut self.cluster);
        self.log.push(Change::NodeCame(position));
        if counts {
            self.log.push(Change::Supplies);
        }
    }

    fn remove_node(&mut self, position: usize) {
        let Some(mut node) = self.rooms.existing.swap_remove(position, &mut self.cluster) else { return };
        let counted = node.node_pool.is_some();
        leave_pool(&mut node, &mut self.cluster.node_pools);
        self.log.push(Change::NodeWent(position, Box::new(node)));
        if counted {
            self.log.push(Change::Supplies);
        }
    }

    /// A node that stands is another one from now on, with the same pods and Reservations. Most that is told of nodes changes
    /// nothing here: images that nobody asks for come and go all the time.
    fn change_node(&mut self, position: usize, mut node: Node) {
        let pools = &mut self.cluster.node_pools;
        let Some(known) = self.cluster.nodes.get_mut(position) else { return };
        let (pool, capacity) = (known.node_pool, known.capacity.clone());
        leave_pool(known, pools);
        join_pool(&mut node, pools, self.cluster.well_known.node_pool);
        let counts_otherwise = pool != node.node_pool || (pool.is_some() && capacity != node.capacity);
        known.node_pool = node.node_pool;
        let (pods, holdings) = (std::mem::take(&mut known.pods), std::mem::take(&mut known.holdings));
        node.free.clone_from(&known.free);
        let is_same = *known == node;
        (node.pods, node.holdings) = (pods, holdings);
        let was = std::mem::replace(known, node);
        if is_same {
            return;
        }
        if counts_otherwise {
            self.log.push(Change::Supplies);
        }
        self.rooms.existing.settle_room(position, &mut self.cluster);
        self.log.push(Change::NodeChanged(position, Box::new(was)));
    }
}

fn read_node(reader: &mut Builder, object: Option<&Object>) -> Result<Option<NodeRecord>, ConvertError> {
    object.map_or(Ok(()), |object| reader.add_node(object))?;
    Ok(reader.nodes.pop().map(|(_, record)| record))
}

fn read_claim(reader: &mut Builder, object: Option<&NodeClaim>) -> Result<Option<NodeClaimRecord>, ConvertError> {
    object.map_or(Ok(()), |object| reader.add_node_claim(object))?;
    Ok(reader.node_claims.pop().map(|(_, record)| record))
}
