//! Topology: domains first, then nodes. Pods of a class are shared out over the domains of each topology key (other
//! than the hostname, which is a limit per node) before they are packed, so that a planned node's domain is decided
//! when the first pod that depends on it joins.

use std::rc::Rc;

use berth_model::{Constraint, Sym};
use berth_scheduling::topology::Domains;

use crate::planner::Planner;
use crate::prepared::Prepared;

impl Planner<'_> {
    /// Places up to `count` pods of a demand; returns how many.
    pub(crate) fn place(&mut self, prepared: &Prepared<'_>, count: u32) -> u32 {
        match prepared.demand.keyed.len() {
            0 => self.fill(prepared, count, &[]),
            1 => self.place_on_key(prepared, count),
            _ => self.place_on_keys(prepared, count),
        }
    }

    // One topology key: shares pods out in bulk. Where a domain cannot take its share, everything is undone and
    // shared out anew with that domain's true capacity, since a spread must not run ahead of it.
    fn place_on_key(&mut self, prepared: &Prepared<'_>, count: u32) -> u32 {
        let Some((key, constraints)) = prepared.demand.keyed.first() else { return 0 };
        let mut placed = 0;
        let names = self.domain_names(prepared, constraints);
        if self.domains_of(names.clone(), constraints).chooses_home() {
            placed += self.choose_home(prepared, count, *key, &names, constraints);
            if placed == 0 {
                return 0;
            }
        }
        let mut capacity: Vec<u32> = vec![u32::MAX; names.len()];
        loop {
            let shares = self.shares(names.clone(), constraints, count - placed, &capacity);
            let mark = self.state.mark();
            let (mut sum, mut fell_short) = (0, false);
            for (at, (&name, &share)) in names.iter().zip(&shares).enumerate() {
                if share == 0 {
                    continue;
                }
                let filled = self.fill(prepared, share, &[(*key, name)]);
                sum += filled;
                if filled < share {
                    fell_short = true;
                    if let Some(capacity) = capacity.get_mut(at) {
                        *capacity = filled;
                    }
                }
            }
            if !fell_short {
                return placed + sum;
            }
            self.state.rollback(mark);
        }
    }

    // The domain for a self-affinity that has no pod yet: the one that takes most, then costs least.
    fn choose_home(
        &mut self,
        prepared: &Prepared<'_>,
        count: u32,
        key: Sym,
        names: &[Sym],
        constraints: &[Constraint],
    ) -> u32 {
        let mut best: Option<(u32, i128, Sym)> = None;
        for (at, &name) in names.iter().enumerate() {
            let mut domains = self.domains_of(names.to_vec(), constraints);
            let mut allowed = 0;
            while allowed < count && domains.allows(at) {
                domains.add(at);
                allowed += 1;
            }
            if allowed == 0 {
                continue;
            }
            let (mark, before) = (self.state.mark(), self.marginal_cost());
            let placed = self.fill(prepared, allowed, &[(key, name)]);
            let cost = self.marginal_cost() - before;
            self.state.rollback(mark);
            let is_better = match best {
                None => placed > 0,
                Some((most, least, _)) => placed > most || (placed == most && cost < least),
            };
            if is_better {
                best = Some((placed, cost, name));
            }
        }
        best.map_or(0, |(placed, _, name)| self.fill(prepared, placed, &[(key, name)]))
    }

    // Several keys: the domains are chosen together, a pod at a time, least loaded first.
    fn place_on_keys(&mut self, prepared: &Prepared<'_>, count: u32) -> u32 {
        let keys: Vec<(Sym, Vec<Sym>, &[Constraint])> = prepared
            .demand
            .keyed
            .iter()
            .map(|(key, constraints)| (*key, self.domain_names(prepared, constraints), &constraints[..]))
            .collect();
        let mut placed = 0;
        'pods: while placed < count {
            let mut combinations: Vec<(u64, Vec<(Sym, Sym)>)> = vec![(0, Vec::new())];
            for (key, names, constraints) in &keys {
                let domains = self.domains_of(names.clone(), constraints);
                let open: Vec<(u64, Sym)> = (0..names.len())
                    .filter(|&at| domains.allows(at))
                    .filter_map(|at| names.get(at).map(|&name| (domains.load(at), name)))
                    .collect();
                combinations = combinations
                    .iter()
                    .flat_map(|(load, pins)| {
                        open.iter().map(move |&(more, name)| {
                            let mut pins = pins.clone();
                            pins.push((*key, name));
                            (load + more, pins)
                        })
                    })
                    .collect();
            }
            combinations.sort_by_key(|(load, _)| *load);
            for (_, pins) in &combinations {
                if self.fill(prepared, 1, pins) == 1 {
                    placed += 1;
                    continue 'pods;
                }
            }
            break;
        }
        placed
    }

    // How many pods each domain gets: one after the other to the least loaded that may take it.
    fn shares(&mut self, names: Vec<Sym>, constraints: &[Constraint], count: u32, capacity: &[u32]) -> Vec<u32> {
        let mut domains = self.domains_of(names, constraints);
        let mut shares = vec![0_u32; domains.names.len()];
        for _ in 0..count {
            let open = (0..shares.len()).filter(|&at| {
                shares.get(at).zip(capacity.get(at)).is_some_and(|(share, most)| share < most) && domains.allows(at)
            });
            let Some(least) = open.min_by_key(|&at| domains.load(at)) else { break };
            domains.add(least);
            if let Some(share) = shares.get_mut(least) {
                *share += 1;
            }
        }
        shares
    }

    fn domains_of(&mut self, names: Vec<Sym>, constraints: &[Constraint]) -> Domains {
        let eligible: Vec<(berth_model::CounterId, Rc<[Sym]>)> =
            constraints.iter().map(|c| (c.counter(), self.domains(c.counter()))).collect();
        Domains::new(&self.state, names, constraints, |counter, name| {
            eligible.iter().any(|(known, names)| *known == counter && names.contains(&name))
        })
    }

    // Every domain of a key that the constraints look at: the cheapest first where the load does not decide.
    fn domain_names(&mut self, prepared: &Prepared<'_>, constraints: &[Constraint]) -> Vec<Sym> {
        let mut names: Vec<Sym> = Vec::new();
        for constraint in constraints {
            names.extend(self.domains(constraint.counter()).iter());
            names.extend(self.state.domains(constraint.counter()).map(|(name, _)| name));
        }
        names.sort_by_key(|&name| self.cluster.symbols.text(name));
        names.dedup();
        let key = constraints.first().and_then(|c| self.universe.counters.get(c.counter().index())).map(|c| c.key);
        let cheapest = |name: Sym| {
            let pools = prepared.admissions.iter().zip(&self.tables);
            let first = pools.filter_map(|(admission, table)| {
                let (_, with) = table.values(key?).iter().find(|(known, _)| *known == name)?;
                let at = admission.as_ref()?.columns.intersection(with).find(|&at| !table.reserved.contains(at))?;
                table.columns.get(at).map(|column| column.price)
            });
            let least = first.min();
            (least.is_none(), least)
        };
        names.sort_by_cached_key(|&name| cheapest(name));
        names
    }

    /// What the planned nodes cost an hour, reserved ones nothing, in pico-dollars.
    pub(crate) fn marginal_cost(&self) -> i128 {
        self.state
            .bins()
            .iter()
            .map(|bin| {
                let price = self.tables.get(bin.pool).and_then(|table| table.columns.get(bin.planned));
                price.map_or(0, |column| (column.price + self.options.node_cost).times(u64::from(bin.nodes)).pico())
            })
            .sum()
    }
}
