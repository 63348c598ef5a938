//! The catalogue, NodeOverlays and NodePools that change: nodes and pods stay as they are.

use berth_api::{NodeClassRef, NodeOverlay, NodePool};
use berth_catalogue::Catalogue;
use berth_model::Sym;

use super::{Change, Live, Objects, Patched, Supplies};
use crate::builder::Builder;
use crate::existing::join_pool;
use crate::maps::FxIndexSet;
use crate::pool::PoolRecord;
use crate::{ConvertError, overlay};

/// What instance types and their prices come of.
pub struct Offers<'o> {
    /// What there is for NodePools of any class.
    pub catalogue: &'o Catalogue,
    /// What there is for those of some classes.
    pub classes: Vec<(&'o NodeClassRef, &'o Catalogue)>,
    /// The NodeOverlays, by name.
    pub overlays: Vec<&'o NodeOverlay>,
}

// === impl Offers ===

impl std::fmt::Debug for Offers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let classes = self.classes.len();
        f.debug_struct("Offers").field("classes", &classes).field("overlays", &self.overlays.len()).finish()
    }
}

impl Live {
    /// The catalogue is another one, or NodeOverlays are. `claims` are the names of all NodeClaims: those that are no node
    /// yet promise what the catalogue says.
    pub fn offers_changed(
        &mut self,
        offers: &Offers<'_>,
        objects: &impl Objects,
        claims: impl Iterator<Item = String>,
    ) -> Patched {
        let pools = self.rooms.pool_labels.clone();
        let read = |reader: &mut Builder| {
            reader.set_catalogue(offers.catalogue)?;
            for (class, catalogue) in &offers.classes {
                reader.add_class_catalogue(class, catalogue)?;
            }
            offers.overlays.iter().try_for_each(|overlay| reader.add_node_overlay(overlay))?;
            let overlays: Vec<_> = std::mem::take(&mut reader.overlays).into_values().collect();
            let has_overlays = !overlays.is_empty();
            overlay::warn(overlay::apply(overlays, &pools, &mut reader.cluster), &mut reader.warnings);
            Ok((std::mem::take(&mut reader.class_catalogues), has_overlays))
        };
        let Some((classes, has_overlays)) = self.read(read) else { return Patched::NeedsRebuild };
        self.rooms.pool_labels.are_asked = has_overlays;
        // Which NodePools a class's catalogue is for is decided when they are read.
        if !is_same_set(&classes, &self.rooms.class_catalogues) {
            return Patched::NeedsRebuild;
        }
        let counted: Vec<u32> = self.cluster.slots.iter().map(|supply| supply.free).collect();
        let supplies = self.cluster.slots.iter().zip(&counted);
        let free = supplies.map(|(supply, count)| objects.free_slots(self.cluster.symbols.text(supply.id), *count));
        self.rooms.supplies = Supplies { free: free.collect(), counted };
        // Supplies may be others, or in another order.
        self.rooms.existing.taken.clear();
        self.settle_supplies();
        self.log.push(Change::Offers);
        let claims: Vec<Sym> = claims.filter_map(|claim| self.cluster.symbols.get(&claim)).collect();
        let links = &self.rooms.links;
        let in_flight = claims.into_iter().filter(|claim| !links.has_node(*claim, &self.cluster.symbols)).collect();
        self.bring_up_to_date(in_flight, objects)
    }

    /// A NodePool was created, changed or deleted.
    pub fn node_pool_changed(&mut self, before: Option<&NodePool>, after: Option<&NodePool>) -> Patched {
        let known = self.read(|reader| Ok((read_pool(reader, before)?, read_pool(reader, after)?)));
        let Some((before, after)) = known else { return Patched::NeedsRebuild };
        if before == after {
            return Patched::Done;
        }
        // Startup taints are left out on the pool's nodes.
        let startup_taints = |record: &Option<PoolRecord>| {
            record.as_ref().map(|record| record.startup_taints.clone()).unwrap_or_default()
        };
        if startup_taints(&before) != startup_taints(&after) {
            return Patched::NeedsRebuild;
        }
        // NodeOverlays may select by the labels of NodePools, those of the types that their node classes have.
        let selected =
            |record: &Option<PoolRecord>| record.as_ref().map(|record| (record.labels.clone(), record.pool.node_class));
        if self.rooms.pool_labels.are_asked && selected(&before) != selected(&after) {
            return Patched::NeedsRebuild;
        }
        let cluster = &mut self.cluster;
        if let Some(before) = before {
            self.rooms.pool_labels.pools.swap_remove(&before.pool.name);
            self.rooms.startup_taints.remove(&before.pool.name);
            cluster.node_pools.retain(|pool| pool.name != before.pool.name);
        }
        if let Some(PoolRecord { mut pool, startup_taints, labels }) = after {
            pool.node_class = pool.node_class.filter(|class| self.rooms.class_catalogues.contains(class));
            self.rooms.pool_labels.pools.insert(pool.name, (pool.node_class, labels));
            self.rooms.startup_taints.insert(pool.name, startup_taints);
            let name = cluster.symbols.text(pool.name);
            let at = cluster.node_pools.partition_point(|known| cluster.symbols.text(known.name) < name);
            cluster.node_pools.insert(at, pool);
        }
        for pool in &mut cluster.node_pools {
            (pool.used, pool.nodes) = (berth_model::Resources::new(), 0);
        }
        for node in &mut cluster.nodes {
            node.node_pool = None;
            join_pool(node, &mut cluster.node_pools, cluster.well_known.node_pool);
        }
        self.log.push(Change::Supplies);
        self.log.push(Change::Offers);
        if self.has_left_over_much() { Patched::NeedsRebuild } else { Patched::Done }
    }
}

fn read_pool(reader: &mut Builder, object: Option<&NodePool>) -> Result<Option<PoolRecord>, ConvertError> {
    object.map_or(Ok(()), |object| reader.add_node_pool(object))?;
    Ok(reader.pools.pop().map(|(_, record)| record))
}

fn is_same_set(a: &FxIndexSet<Sym>, b: &FxIndexSet<Sym>) -> bool {
    a.len() == b.len() && a.iter().all(|class| b.contains(class))
}
