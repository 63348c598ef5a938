//! Domains of several topology keys together: which of their combinations takes the next pod.
//!
//! Of the keys, the one with most domains (racks) is looked at by order; all combinations of the others (zones) are gone
//! through for each pod. What a combination is worth is found out when it is the best for all that is known.

use std::collections::BTreeSet;

use berth_model::Sym;
use berth_scheduling::topology::Domains;
use smallvec::SmallVec;

/// By key: the position of a domain.
type Positions = SmallVec<[usize; 3]>;

/// The combinations of the domains of some keys, each with a rank: the least is the best.
#[derive(Debug)]
pub(crate) struct Combinations<R> {
    axes: Vec<(Sym, Domains)>,
    /// The key with most domains, by position.
    wide: usize,
    groups: Vec<Group<R>>,
    floor: u64,
}

/// Combinations that differ in the domain of the key with most alone.
#[derive(Debug)]
struct Group<R> {
    /// Of that key: 0.
    positions: Positions,
    /// By domain of that key; none where no pod goes any more.
    ranks: Vec<Option<R>>,
    /// By rank, then load, the domains that may take a pod, as far as is known.
    open: BTreeSet<(R, u64, usize)>,
    /// Those that take none before others have more.
    waiting: Vec<usize>,
}

/// A domain of each key.
#[derive(Debug)]
pub(crate) struct Combination<R> {
    pub(crate) rank: R,
    group: usize,
    positions: Positions,
}

impl<R: Copy + Ord> Combinations<R> {
    /// All of them; what is not known yet has the rank `unknown`, which is as good as any.
    pub(crate) fn new(axes: Vec<(Sym, Domains)>, unknown: R) -> Self {
        let sizes: Vec<usize> = axes.iter().map(|(_, domains)| domains.names.len()).collect();
        let wide = (0..sizes.len()).max_by_key(|at| sizes.get(*at)).unwrap_or(0);
        let mut all: Vec<Positions> = vec![Positions::new()];
        for (at, &size) in sizes.iter().enumerate() {
            let size = if at == wide { 1 } else { size };
            let longer = all.iter().flat_map(|known| {
                (0..size).map(|position| known.iter().copied().chain([position]).collect::<Positions>())
            });
            all = longer.collect();
        }
        let loads: Vec<u64> = axes
            .get(wide)
            .map_or_else(Vec::new, |(_, domains)| (0..domains.names.len()).map(|at| domains.load(at)).collect());
        let groups = all.into_iter().map(|positions| Group {
            positions,
            ranks: vec![Some(unknown); loads.len()],
            open: loads.iter().enumerate().map(|(at, load)| (unknown, *load, at)).collect(),
            waiting: Vec::new(),
        });
        let groups = groups.collect();
        let mut combinations = Combinations { axes, wide, groups, floor: 0 };
        combinations.floor = combinations.wide_floor();
        combinations
    }

    /// The best that may take a pod now: by rank, then by load, then by the order of names.
    pub(crate) fn best(&mut self) -> Option<Combination<R>> {
        let Self { axes, wide, groups, .. } = self;
        let (_, of_wide) = axes.get(*wide)?;
        let mut best: Option<(R, u64, Positions, usize)> = None;
        for (number, group) in groups.iter_mut().enumerate() {
            let others = || axes.iter().zip(&group.positions).enumerate().filter(|(at, _)| at != wide);
            if !others().all(|(_, ((_, domains), &at))| domains.allows(at)) {
                continue;
            }
            let load: u64 = others().map(|(_, ((_, domains), &at))| domains.load(at)).sum();
            while let Some((rank, own, at)) = group.open.first().copied() {
                if !of_wide.allows(at) {
                    group.open.pop_first();
                    group.waiting.push(at);
                    continue;
                }
                let mut positions = group.positions.clone();
                if let Some(position) = positions.get_mut(*wide) {
                    *position = at;
                }
                let option = (rank, load + own, positions, number);
                if best.as_ref().is_none_or(|best| option < *best) {
                    best = Some(option);
                }
                break;
            }
        }
        best.map(|(rank, _, positions, group)| Combination { rank, group, positions })
    }

    /// The domains of a combination, by key.
    pub(crate) fn pins(&self, of: &Combination<R>) -> SmallVec<[(Sym, Sym); 3]> {
        let pins = self.axes.iter().zip(&of.positions);
        pins.filter_map(|((key, domains), at)| Some((*key, *domains.names.get(*at)?))).collect()
    }

    /// The rank of a combination is another one; none where no pod goes any more.
    pub(crate) fn set_rank(&mut self, of: &Combination<R>, rank: Option<R>) {
        let Some((_, domains)) = self.axes.get(self.wide) else { return };
        let (Some(&at), Some(group)) = (of.positions.get(self.wide), self.groups.get_mut(of.group)) else { return };
        let load = domains.load(at);
        let Some(known) = group.ranks.get_mut(at) else { return };
        if let Some(before) = std::mem::replace(known, rank) {
            group.open.remove(&(before, load, at));
        }
        group.open.extend(rank.map(|rank| (rank, load, at)));
    }

    /// A pod has come.
    pub(crate) fn add(&mut self, to: &Combination<R>) {
        let Some(&at) = to.positions.get(self.wide) else { return };
        let load = |axes: &[(Sym, Domains)]| axes.get(self.wide).map_or(0, |(_, domains)| domains.load(at));
        let before = load(&self.axes);
        for ((_, domains), &at) in self.axes.iter_mut().zip(&to.positions) {
            domains.add(at);
        }
        let after = load(&self.axes);
        for group in &mut self.groups {
            if let Some(rank) = group.ranks.get(at).copied().flatten()
                && group.open.remove(&(rank, before, at))
            {
                group.open.insert((rank, after, at));
            }
        }
        let floor = self.wide_floor();
        if floor != self.floor {
            self.floor = floor;
            self.look_at_waiting();
        }
    }

    fn wide_floor(&self) -> u64 {
        self.axes.get(self.wide).map_or(0, |(_, domains)| domains.floor())
    }

    fn look_at_waiting(&mut self) {
        let Some((_, domains)) = self.axes.get(self.wide) else { return };
        for group in &mut self.groups {
            for at in std::mem::take(&mut group.waiting) {
                let rank = group.ranks.get(at).copied().flatten();
                group.open.extend(rank.map(|rank| (rank, domains.load(at), at)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Cluster, Constraint, CounterId, Snapshot, Universe};

    use super::*;

    fn spread(max_skew: u32) -> Constraint {
        Constraint::Spread { counter: CounterId(0), max_skew, min_domains: None, counts_self: true }
    }

    // A key and its domains.
    fn axis(key: &str, n: u32, constraint: Constraint) -> (Sym, Domains) {
        let mut cluster = Cluster::default();
        let key = cluster.symbols.intern(key);
        let names = (0..n).map(|at| cluster.symbols.intern(&format!("domain-{at}"))).collect();
        let universe = Universe::new(&mut cluster);
        let mut state = Snapshot::new(&cluster, &universe, |_, _| true);
        state.extend_counters(1);
        (key, Domains::new(&state, names, &[constraint], |_, _| true))
    }

    // What a combination is worth after some pods there.
    fn rank(positions: &[usize], pods: u32) -> u32 {
        let of: usize = positions.iter().zip([7, 11]).map(|(at, by)| at * by).sum();
        let rank = u32::try_from(of).unwrap() % 4;
        if pods == 0 { rank } else { rank / 2 }
    }

    #[test]
    fn the_best_of_all_combinations_takes_each_pod() {
        let anti_affinity = Constraint::AntiAffinity { counter: CounterId(0), counts_self: true };
        for (racks, zones, of_racks) in
            [(40, 3, spread(1)), (9, 4, spread(2)), (3, 8, spread(1)), (20, 2, anti_affinity)]
        {
            let axes = || vec![axis("rack", racks, of_racks), axis("zone", zones, spread(1))];
            let mut combinations = Combinations::new(axes(), 0);
            let mut plain = axes();
            let mut pods = std::collections::BTreeMap::<Vec<usize>, u32>::new();
            for _ in 0..70 {
                let all = (0..racks as usize).flat_map(|rack| (0..zones as usize).map(move |zone| vec![rack, zone]));
                let (of_racks, of_zones) = (&plain[0].1, &plain[1].1);
                let open = all.filter(|at| of_racks.allows(at[0]) && of_zones.allows(at[1]));
                // No combination takes more than two.
                let open = open.filter(|at| pods.get(at).is_none_or(|pods| *pods < 2));
                let wanted = open.min_by_key(|at| {
                    (rank(at, pods.get(at).copied().unwrap_or(0)), of_racks.load(at[0]) + of_zones.load(at[1]))
                });
                let found = loop {
                    let Some(best) = combinations.best() else { break None };
                    let n_pods = pods.get(&best.positions[..]).copied().unwrap_or(0);
                    let rank = (n_pods < 2).then(|| rank(&best.positions, n_pods));
                    if rank == Some(best.rank) {
                        break Some(best);
                    }
                    combinations.set_rank(&best, rank);
                };
                assert_eq!(found.as_ref().map(|found| found.positions.to_vec()), wanted);
                let (Some(found), Some(wanted)) = (found, wanted) else { break };
                for ((_, domains), &at) in plain.iter_mut().zip(&wanted) {
                    domains.add(at);
                }
                let n_pods = pods.entry(wanted).or_default();
                *n_pods += 1;
                combinations.set_rank(&found, (*n_pods < 2).then(|| rank(&found.positions, *n_pods)));
                combinations.add(&found);
            }
        }
    }
}
