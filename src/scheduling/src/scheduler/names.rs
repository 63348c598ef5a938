//! Which node is at which index, as a scheduler that is kept knows it. The place of a node that went is another's: who tells of
//! one by an index that is out of date is found out.

use berth_model::{Cluster, Sym};

use super::history::Step;

/// The names of the nodes, by index.
#[derive(Clone, Debug)]
pub(super) struct NodeNames(Vec<Sym>);

/// An index that tells of another node by now than the one that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StaleIndex(pub(super) usize);

// === impl NodeNames ===

impl NodeNames {
    pub(super) fn of(cluster: &Cluster) -> Self {
        NodeNames(cluster.nodes.iter().map(|node| node.name).collect())
    }

    /// Takes in who came and went, up to the cluster as it is. A node that came and went again has no name in between.
    pub(super) fn follow(&mut self, steps: &[Step<'_>], cluster: &Cluster) -> Result<(), StaleIndex> {
        let mut touched = Vec::new();
        // Of nodes that came, nothing tells the name before the end.
        let mut came = vec![false; self.0.len()];
        let is_it = |names: &[Sym], came: &[bool], at: usize, name: Sym| {
            let is_new = came.get(at).is_some_and(|came| *came);
            if is_new || names.get(at) == Some(&name) { Ok(()) } else { Err(StaleIndex(at)) }
        };
        for step in steps {
            match *step {
                Step::Came => {
                    touched.push(self.0.len());
                    self.0.push(cluster.well_known.hostname);
                    came.push(true);
                }
                Step::Went(at, was) => {
                    is_it(&self.0, &came, at, was.name)?;
                    self.0.swap_remove(at);
                    came.swap_remove(at);
                    touched.push(at);
                }
                Step::Changed(at, was) => {
                    is_it(&self.0, &came, at, was.name)?;
                    touched.push(at);
                }
                Step::Pod { node: at, .. } | Step::Room(at) => {
                    if at >= self.0.len() {
                        return Err(StaleIndex(at));
                    }
                }
                Step::Reserved(..) => {}
            }
        }
        if self.0.len() != cluster.nodes.len() {
            return Err(StaleIndex(self.0.len()));
        }
        for at in touched {
            let Some((name, node)) = self.0.get_mut(at).zip(cluster.nodes.get(at)) else { continue };
            let is_new = came.get(at).is_some_and(|came| *came);
            if !is_new && *name != node.name {
                return Err(StaleIndex(at));
            }
            *name = node.name;
        }
        Ok(())
    }
}
