//! The nodes that static NodePools miss: they are launched whatever pods need, and pods are bound to them as to any other.

use std::collections::BTreeMap;

use berth_model::{Cluster, Money};
use berth_provisioning::{Claims, Solution};

use crate::outcome::launched;

/// So many nodes of a NodePool are planned at most: more would hardly be meant.
const MOST: u32 = 20_000;

/// What is launched for static NodePools.
#[derive(Default)]
pub(crate) struct Replicas {
    claims: Vec<Claims>,
    /// Instances used of each entry of the cluster's slots.
    slots_used: Vec<u32>,
    /// What NodePools stay without, a line each.
    pub(crate) missing: Vec<String>,
}

// === impl Replicas ===

impl Replicas {
    /// Plans the nodes that the NodePools miss which are to have so many, and adds them to the cluster: the slots that they
    /// use are taken.
    pub(crate) fn add(
        cluster: &mut Cluster,
        wanted: &BTreeMap<String, u32>,
        options: &berth_provisioning::Options,
    ) -> Self {
        let mut replicas = Self { slots_used: vec![0; cluster.slots.len()], ..Self::default() };
        for (name, &wanted) in wanted {
            let mut pools = cluster.node_pools.iter().enumerate();
            let found = pools.find(|(_, pool)| cluster.symbols.text(pool.name) == name);
            let Some((at, n_counted)) = found.map(|(at, pool)| (at, pool.nodes)) else { continue };
            let of_pool = cluster.nodes.iter().filter(|node| node.node_pool.is_some_and(|own| own as usize == at));
            let n_there = u32::try_from(of_pool.count()).unwrap_or(u32::MAX);
            let n_missing = wanted.saturating_sub(n_there);
            if n_missing > MOST {
                let why = format!("a plan has no NodePool that misses more than {MOST}");
                replicas.missing.push(format!("NodePool {name}: {n_there} of {wanted} replicas: {why}"));
            } else if n_missing > 0 {
                let count = (n_missing, n_counted.max(n_there));
                let (planned, _, solution) = berth_decisions::plan_replicas(cluster, name, count, options);
                // Requirements of claims may name what nobody had named.
                cluster.symbols = planned.symbols;
                let n_launched = replicas.launch(cluster, at, solution);
                if n_launched < n_missing {
                    let n_left = n_there.saturating_add(n_launched);
                    let why = "its limits, or what is on offer, leave no more";
                    replicas.missing.push(format!("NodePool {name}: {n_left} of {wanted} replicas: {why}"));
                }
            }
        }
        replicas
    }

    /// Adds the nodes of a NodePool's claims; how many there are.
    fn launch(&mut self, cluster: &mut Cluster, pool: usize, solution: Solution) -> u32 {
        let mut n_launched = 0_u32;
        for mut claims in solution.claims {
            // Who stood for the nodes is nobody.
            claims.contents.clear();
            for _ in 0..claims.count {
                n_launched = n_launched.saturating_add(1);
                let name = cluster.node_pools.get(pool).map_or("", |pool| cluster.symbols.text(pool.name));
                let name = format!("{name}-{n_launched:05}");
                let name = cluster.symbols.intern(&name);
                let node = launched(cluster, &claims, name);
                if let Some(pool) = cluster.node_pools.get_mut(pool) {
                    pool.used.add(&node.capacity);
                    pool.nodes = pool.nodes.saturating_add(1);
                }
                cluster.nodes.push(node);
            }
            self.claims.push(claims);
        }
        for ((slots, used), own) in cluster.slots.iter_mut().zip(solution.slots_used).zip(&mut self.slots_used) {
            slots.free = slots.free.saturating_sub(used);
            *own = own.saturating_add(used);
        }
        n_launched
    }

    /// Takes them into the plan of all else, as claims that pods are not launched for.
    pub(crate) fn join(self, cluster: &mut Cluster, solution: &mut Solution, node_cost: Money) {
        solution.slots_used.resize(cluster.slots.len(), 0);
        let slots = cluster.slots.iter_mut().zip(&mut solution.slots_used);
        for ((slots, used), own) in slots.zip(self.slots_used) {
            slots.free = slots.free.saturating_add(own);
            *used = used.saturating_add(own);
        }
        if let Some(bound) = &mut solution.bound {
            for claims in &self.claims {
                bound.cost += (claims.price + node_cost).times(u64::from(claims.count));
            }
        }
        solution.claims.extend(self.claims);
    }
}
