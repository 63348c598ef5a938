//! The state of a search: which bins are empty, and where their items are.

use super::problem::{Consolidated, Consolidation};
use super::shelves::Shelves;
use crate::numbers::float;
use crate::tuning::consolidation::CHANGE;

/// A bin, as the search has it now.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) is_empty: bool,
    /// What is left of its room.
    room: Vec<i64>,
    /// Items that were moved to it, and how many.
    pub(super) moved: Vec<(u32, u32)>,
}

/// Which bins are empty, and where their items are. Every state is a valid answer.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) sites: Vec<Site>,
    /// What is left in all bins together, by resource.
    left: Vec<i64>,
    /// How many bins of each pool may be emptied yet.
    most: Vec<u32>,
    /// How many bins of each stock may be taken yet.
    stocks: Vec<u32>,
    /// By item: how many are in new bins.
    pub(super) anew: Vec<u32>,
    /// What all emptied bins save, less what items in new bins cost.
    pub(super) saved: f64,
}

/// Stands for new bins, where there is the index of a bin.
const NEW: usize = usize::MAX;
/// What one of an item weighs is at most this times the room that it fits in weighs: sums of floats are not exact.
const ROUNDED: f64 = 1.0 - 1e-9;
/// A saving that is larger than errors of rounding.
const LEAST_SAVING: f64 = 1e-9;

/// One change, so that it can be taken back.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u32, usize),
    Take(u32, usize),
    /// A bin was emptied, or put back.
    Turn(usize),
}

/// How far a state had changed: what came since can be taken back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    n_steps: usize,
    n_known: usize,
    rooms: Rooms,
    saved: f64,
}

/// Which rooms there are, as numbers that no others have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rooms {
    /// Another one each time that a room grows.
    grown: u64,
    /// Another one each time that something comes or goes.
    changed: u64,
}

/// What is known of an item: rooms of which none took one, and in which one could take the place of no other.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    no_room: u64,
    no_place: u64,
}

/// A state that is being changed.
#[derive(Debug)]
pub(super) struct Placement<'p> {
    pub(super) problem: &'p Consolidation,
    pub(super) state: State,
    steps: Vec<Step>,
    /// Bins that are not empty, by what is left of their room, weighted: the first that fits is the best.
    by_room: Shelves,
    /// By resource: how scarce it is.
    weights: Vec<f64>,
    /// By item: its size, weighted.
    sizes: Vec<f64>,
    /// Items that may come to new bins, and what they cost there, the cheapest first.
    by_cost: Vec<(f64, u32)>,
    /// By item: the bins that it was moved to, in order.
    places: Vec<Vec<usize>>,
    rooms: Rooms,
    n_rooms: u64,
    /// By item.
    known: Vec<Known>,
    /// What was known before, so that it can be taken back.
    learnt: Vec<(u32, Known)>,
    /// How many bins were looked at.
    pub(super) work: u64,
}

fn fits(size: &[i64], room: &[i64]) -> bool {
    size.iter().enumerate().all(|(at, need)| *need <= 0 || room.get(at).is_some_and(|room| need <= room))
}

fn add(room: &mut [i64], size: &[i64], times: i64) {
    for (room, need) in room.iter_mut().zip(size) {
        *room = room.saturating_add(need.saturating_mul(times));
    }
}

// === impl Mark ===

impl Mark {
    /// What all emptied bins saved then.
    pub(super) fn saved(self) -> f64 {
        self.saved
    }
}

// === impl Placement ===

impl<'p> Placement<'p> {
    /// Every bin as it stands.
    pub(super) fn new(problem: &'p Consolidation) -> Self {
        let n_resources = problem.items.iter().map(|item| item.size.len()).max().unwrap_or(0);
        let (mut asked, mut free) = (vec![0.0_f64; n_resources], vec![0.0_f64; n_resources]);
        let mut left = vec![0; n_resources];
        for bin in &problem.bins {
            for (at, room) in bin.free.iter().enumerate().take(n_resources) {
                if let (Some(free), Some(left)) = (free.get_mut(at), left.get_mut(at)) {
                    *free += float((*room).max(0));
                    *left += (*room).max(0);
                }
            }
            for &(item, count) in &bin.holds {
                for (asked, need) in asked.iter_mut().zip(problem.size(item)) {
                    *asked += float(*need) * f64::from(count);
                }
            }
        }
        // What is asked of what there is, for a unit of what there is.
        let weigh = |(asked, free): (&f64, &f64)| {
            let there = asked + free;
            if there > 0.0 { asked / there / there } else { 0.0 }
        };
        let weights: Vec<f64> = asked.iter().zip(&free).map(weigh).collect();
        let weighted = |size: &[i64]| size.iter().zip(&weights).map(|(need, weight)| float(*need) * weight).sum();
        let by_item = problem.items.iter().map(|item| weighted(&item.size)).collect();
        let as_it_stands = |bin: &super::ExistingNode| {
            let mut room = bin.free.clone();
            room.resize(n_resources, 0);
            // What is overdrawn takes nothing, which is all the same to items that do not ask for it.
            for room in &mut room {
                *room = (*room).max(0);
            }
            Site { is_empty: false, room, moved: Vec::new() }
        };
        let sites = problem.bins.iter().map(as_it_stands).collect();
        let (most, stocks) = (problem.most.clone(), problem.stocks.clone());
        let state = State { sites, left, most, stocks, anew: vec![0; problem.items.len()], saved: 0.0 };
        let costs = (0_u32..).zip(&problem.items).filter_map(|(at, item)| Some((item.anew?, at)));
        let mut by_cost: Vec<(f64, u32)> = costs.collect();
        by_cost.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.cmp(y)));
        let n_items = problem.items.len();
        let mut placement = Placement {
            problem,
            state,
            steps: Vec::new(),
            by_room: Shelves::new(problem, n_resources),
            weights,
            sizes: by_item,
            by_cost,
            places: vec![Vec::new(); n_items],
            rooms: Rooms { grown: 1, changed: 1 },
            n_rooms: 1,
            known: vec![Known::default(); n_items],
            learnt: Vec::new(),
            work: 0,
        };
        (0..problem.bins.len()).for_each(|bin| placement.shelve(bin));
        placement
    }

    /// Puts a bin that is not empty where its room says.
    fn shelve(&mut self, bin: usize) {
        if let Some(site) = self.state.sites.get(bin) {
            let weight = self.weigh(&site.room);
            self.by_room.insert(bin, &site.room, weight, &site.moved);
        }
    }

    /// Empties bins as an answer has it.
    pub(super) fn begin_with(&mut self, start: &Consolidated) {
        for bin in &start.emptied {
            self.set_empty(*bin, true);
        }
        for (bin, moved) in start.moved.iter().enumerate() {
            for &(item, count) in moved {
                (0..count).for_each(|_| self.put(item, bin));
            }
        }
        for (item, count) in (0_u32..).zip(&start.anew) {
            (0..*count).for_each(|_| self.put(item, NEW));
        }
        self.settle();
    }

    /// Whether a bin may be emptied, and that saves something.
    pub(super) fn may_empty(&self, bin: usize) -> bool {
        let known = self.problem.bins.get(bin);
        let is_there = self.state.sites.get(bin).is_some_and(|site| !site.is_empty);
        is_there
            && known.is_some_and(|bin| {
                let most = bin.pool.and_then(|pool| self.state.most.get(pool as usize));
                most.is_some_and(|most| *most > 0) && self.problem.saving(bin) > 0.0
            })
    }

    /// Forgets what could be taken back.
    pub(super) fn settle(&mut self) {
        self.steps.clear();
        self.learnt.clear();
    }

    /// What comes from now on can be taken back.
    pub(super) fn mark(&self) -> Mark {
        Mark { n_steps: self.steps.len(), n_known: self.learnt.len(), rooms: self.rooms, saved: self.state.saved }
    }

    /// Empties a bin, if all that is in it finds a place elsewhere and that saves something; else nothing changes.
    pub(super) fn empty(&mut self, bin: usize) -> bool {
        let (Some(known), Some(site)) = (self.problem.bins.get(bin), self.state.sites.get(bin)) else { return false };
        let mut again = known.holds.clone();
        for &(item, count) in &site.moved {
            match again.iter_mut().find(|(held, _)| *held == item) {
                Some((_, held)) => *held += count,
                None => again.push((item, count)),
            }
        }
        if !self.may_have_room(bin, &again) {
            return false;
        }
        let mark = self.mark();
        let moved = site.moved.clone();
        // First, as its room is nobody's then.
        self.set_empty(bin, true);
        for (item, count) in moved {
            (0..count).for_each(|_| self.take(item, bin));
        }
        let weight = |item: u32| self.sizes.get(item as usize).copied().unwrap_or(0.0);
        again.sort_by(|(a, _), (b, _)| weight(*b).total_cmp(&weight(*a)).then(a.cmp(b)));
        // No place adds to what is saved.
        let least = mark.saved + LEAST_SAVING;
        let mut items = again.iter().flat_map(|&(item, count)| (0..count).map(move |_| item));
        let pays = items.all(|item| self.place(item) && self.state.saved > least);
        if !pays || self.state.saved <= least {
            self.take_back(mark);
            return false;
        }
        true
    }

    /// Puts a bin back: what it held comes back to it.
    pub(super) fn put_back(&mut self, bin: usize) {
        self.set_empty(bin, false);
        for &(item, count) in self.problem.holds(bin) {
            for _ in 0..count {
                if self.state.anew.get(item as usize).is_some_and(|count| *count > 0) {
                    self.take(item, NEW);
                    continue;
                }
                // From the bin that is fullest, which makes room where that is rare.
                let room = |at: usize| self.state.sites.get(at).map_or(0.0, |site| self.weigh(&site.room));
                let places = self.places.get(item as usize).into_iter().flatten().copied();
                if let Some(from) = places.min_by(|a, b| room(*a).total_cmp(&room(*b))) {
                    self.take(item, from);
                }
            }
        }
    }

    fn weigh(&self, room: &[i64]) -> f64 {
        room.iter().zip(&self.weights).map(|(room, weight)| float(*room) * weight).sum()
    }

    // Whether all other bins together have the room for items that leave this one.
    fn may_have_room(&self, bin: usize, again: &[(u32, u32)]) -> bool {
        let Some(site) = self.state.sites.get(bin) else { return false };
        let mut asked = vec![0_i64; self.weights.len()];
        for &(item, count) in again.iter().filter(|(item, _)| self.problem.anew(*item).is_none()) {
            add(&mut asked, self.problem.size(item), i64::from(count));
        }
        asked
            .iter()
            .zip(&self.state.left)
            .zip(&site.room)
            .all(|((asked, left), own)| *asked <= 0 || *asked <= left - own)
    }

    fn set_empty(&mut self, bin: usize, is_empty: bool) {
        if self.state.sites.get(bin).is_some_and(|site| site.is_empty != is_empty) {
            self.turn(bin);
            self.steps.push(Step::Turn(bin));
        }
    }

    // Empties a bin, or puts it back.
    fn turn(&mut self, bin: usize) {
        let (Some(known), Some(site)) = (self.problem.bins.get(bin), self.state.sites.get_mut(bin)) else { return };
        let is_empty = !site.is_empty;
        site.is_empty = is_empty;
        let sign = if is_empty { -1 } else { 1 };
        add(&mut self.state.left, &site.room, sign);
        self.state.saved += self.problem.saving(known) * if is_empty { 1.0 } else { -1.0 };
        if let Some(most) = known.pool.and_then(|pool| self.state.most.get_mut(pool as usize)) {
            *most = if is_empty { most.saturating_sub(1) } else { most.saturating_add(1) };
        }
        if is_empty {
            self.by_room.remove(bin, &site.moved);
        } else {
            self.shelve(bin);
        }
        self.has_changed(!is_empty);
    }

    /// Moves items from new bins to where there is room, those first that cost most.
    pub(super) fn fill_rooms(&mut self) {
        let is_anew = |(_, count): &(u32, u32)| *count > 0;
        let mut items: Vec<(u32, u32)> = (0_u32..).zip(self.state.anew.iter().copied()).filter(is_anew).collect();
        items.sort_by(|(a, _), (b, _)| {
            self.problem.anew(*b).unwrap_or(0.0).total_cmp(&self.problem.anew(*a).unwrap_or(0.0)).then(a.cmp(b))
        });
        for (item, count) in items {
            for _ in 0..count {
                let Some(bin) = self.best_fit(item, None) else { break };
                self.take(item, NEW);
                self.put(item, bin);
            }
        }
    }

    // Finds a place for one item; where there is none, one that was moved before makes way for it, or it comes to a new bin.
    fn place(&mut self, item: u32) -> bool {
        if let Some(bin) = self.best_fit(item, None) {
            self.put(item, bin);
            return true;
        }
        match self.problem.anew(item) {
            Some(cost) => self.place_anew(item, cost),
            None => self.displace(item),
        }
    }

    // Puts an item into a new bin, or in the place of one that costs less there.
    fn place_anew(&mut self, item: u32, cost: f64) -> bool {
        match self.cheapest_to_displace(item, cost - LEAST_SAVING) {
            Some((other, at)) => {
                self.take(other, at);
                self.put(item, at);
                let to = self.best_fit(other, None).unwrap_or(NEW);
                self.put(other, to);
            }
            None => self.put(item, NEW),
        }
        true
    }

    // The item whose place another could take that costs least in new bins, if less than so much, and where it is.
    fn cheapest_to_displace(&mut self, item: u32, below: f64) -> Option<(u32, usize)> {
        let known = self.known_of(item);
        if known.no_place == self.rooms.changed {
            self.work += 1;
            return None;
        }
        self.by_room.prepare(item, self.problem);
        let asking = self.problem.items.get(item as usize)?;
        let mut looked_at = 1;
        let cheaper = self.by_cost.iter().take_while(|(cost, _)| *cost < below);
        let found = cheaper.filter(|(_, other)| *other != item).find_map(|&(_, other)| {
            let shelves = Some(self.by_room.in_place(item, other)).filter(|shelves| *shelves != 0)?;
            let places = self.places.get(other as usize)?;
            let at = places.iter().copied().find(|at| {
                looked_at += 1;
                self.by_room.is_on(*at, shelves)
                    && asking.admitted_by.contains(*at)
                    && self.fits_without(item, other, *at)
            })?;
            Some((other, at))
        });
        self.work += looked_at;
        if found.is_none() {
            self.learn(item, Known { no_place: self.rooms.changed, ..known });
        }
        found
    }

    fn displace(&mut self, item: u32) -> bool {
        let problem = self.problem;
        let Some(asking) = problem.items.get(item as usize) else { return false };
        for (at, bin) in problem.bins.iter().enumerate() {
            let Some(site) = self.state.sites.get(at) else { continue };
            self.work += 1;
            if site.moved.is_empty() || !asking.admitted_by.contains(at) || !fits(&asking.size, &bin.free) {
                continue;
            }
            for (other, _) in site.moved.clone() {
                if other == item || !self.fits_without(item, other, at) {
                    continue;
                }
                if let Some(to) = self.best_fit(other, Some(at)) {
                    self.take(other, at);
                    self.put(other, to);
                    self.put(item, at);
                    return true;
                }
            }
        }
        let Some((other, at)) = self.cheapest_to_displace(item, f64::INFINITY) else { return false };
        self.take(other, at);
        self.put(other, NEW);
        self.put(item, at);
        true
    }

    fn fits_without(&self, item: u32, other: u32, bin: usize) -> bool {
        let Some(site) = self.state.sites.get(bin) else { return false };
        let freed = self.problem.size(other);
        let needs = self.problem.size(item).iter().enumerate();
        let mut needs = needs.filter(|(_, need)| **need > 0);
        needs.all(|(at, need)| {
            let room = site.room.get(at).copied().unwrap_or(0) + freed.get(at).copied().unwrap_or(0);
            *need <= room
        }) && self.may_hold_more(item, bin)
    }

    fn may_hold_more(&self, item: u32, bin: usize) -> bool {
        let most = self.problem.items.get(item as usize).map_or(0, |item| item.at_most);
        if most == u32::MAX {
            return true;
        }
        let moved = self.state.sites.get(bin).map_or(0, |site| site.moved_of(item));
        self.problem.bins.get(bin).is_some_and(|bin| bin.count_of(item).saturating_add(moved) < most)
    }

    // The bin with room that an item would leave least of.
    fn best_fit(&mut self, item: u32, but: Option<usize>) -> Option<usize> {
        if self.known_of(item).no_room == self.rooms.grown {
            self.work += 1;
            return None;
        }
        let known = self.problem.items.get(item as usize)?;
        let least = self.sizes.get(item as usize).copied().unwrap_or(0.0).max(0.0) * ROUNDED;
        let (found, looked_at) = self.by_room.first(item, least, |at| {
            self.state.sites.get(at).is_some_and(|site| fits(&known.size, &site.room) && self.is_in_stock(site, at))
                && known.admitted_by.contains(at)
                && but != Some(at)
                && self.may_hold_more(item, at)
        });
        self.work += looked_at;
        if found.is_none() && but.is_none() {
            let known = self.known_of(item);
            self.learn(item, Known { no_room: self.rooms.grown, ..known });
        }
        found
    }

    fn known_of(&self, item: u32) -> Known {
        self.known.get(item as usize).copied().unwrap_or_default()
    }

    fn learn(&mut self, item: u32, what: Known) {
        if let Some(known) = self.known.get_mut(item as usize) {
            self.learnt.push((item, *known));
            *known = what;
        }
    }

    fn has_changed(&mut self, has_grown: bool) {
        self.n_rooms += 1;
        self.rooms.changed = self.n_rooms;
        if has_grown {
            self.rooms.grown = self.n_rooms;
        }
    }

    // Whether a bin is used already, or may be taken from its stock.
    fn is_in_stock(&self, site: &Site, bin: usize) -> bool {
        let stock = self.problem.bins.get(bin).and_then(|bin| bin.taken_from);
        !site.moved.is_empty()
            || stock.is_none_or(|at| self.state.stocks.get(at as usize).is_some_and(|left| *left > 0))
    }

    fn put(&mut self, item: u32, bin: usize) {
        self.change(item, bin, true);
        self.steps.push(Step::Put(item, bin));
    }

    fn take(&mut self, item: u32, bin: usize) {
        self.change(item, bin, false);
        self.steps.push(Step::Take(item, bin));
    }

    fn change(&mut self, item: u32, bin: usize, comes: bool) {
        if bin == NEW {
            let cost = self.problem.anew(item).unwrap_or(0.0);
            self.state.saved += if comes { -cost } else { cost };
            if let Some(count) = self.state.anew.get_mut(item as usize) {
                *count = if comes { count.saturating_add(1) } else { count.saturating_sub(1) };
            }
            return;
        }
        self.work += CHANGE;
        let asked = self.problem.items.get(item as usize).map_or(&[][..], |item| &item.size);
        let Some(site) = self.state.sites.get_mut(bin) else { return };
        let times = if comes { -1 } else { 1 };
        add(&mut site.room, asked, times);
        let (is_empty, was_used) = (site.is_empty, !site.moved.is_empty());
        if !is_empty {
            add(&mut self.state.left, asked, times);
        }
        match site.moved.iter().position(|(moved, _)| *moved == item) {
            Some(at) if comes => site.moved.get_mut(at).into_iter().for_each(|(_, count)| *count += 1),
            None if comes => {
                site.moved.push((item, 1));
                self.by_room.has_moved(item, bin, true);
                if let Some(places) = self.places.get_mut(item as usize) {
                    let at = places.partition_point(|at| *at < bin);
                    places.insert(at, bin);
                }
            }
            Some(at) => {
                let is_last = site.moved.get_mut(at).is_none_or(|(_, count)| {
                    *count -= 1;
                    *count == 0
                });
                if is_last {
                    site.moved.swap_remove(at);
                    self.by_room.has_moved(item, bin, false);
                    if let Some(places) = self.places.get_mut(item as usize)
                        && let Ok(at) = places.binary_search(&bin)
                    {
                        places.remove(at);
                    }
                }
            }
            None => {}
        }
        let is_used = !site.moved.is_empty();
        if was_used != is_used
            && let Some(stock) = self.problem.bins.get(bin).and_then(|bin| bin.taken_from)
            && let Some(left) = self.state.stocks.get_mut(stock as usize)
        {
            *left = if is_used { left.saturating_sub(1) } else { left.saturating_add(1) };
        }
        if !is_empty {
            self.shelve(bin);
        }
        self.has_changed(!comes && !is_empty);
    }

    /// Takes back what changed since.
    pub(super) fn take_back(&mut self, mark: Mark) {
        while self.steps.len() > mark.n_steps {
            match self.steps.pop() {
                Some(Step::Put(item, bin)) => self.change(item, bin, false),
                Some(Step::Take(item, bin)) => self.change(item, bin, true),
                Some(Step::Turn(bin)) => self.turn(bin),
                None => return,
            }
        }
        self.state.saved = mark.saved;
        // The rooms are as they were then.
        while self.learnt.len() > mark.n_known {
            let Some((item, before)) = self.learnt.pop() else { break };
            self.known.get_mut(item as usize).into_iter().for_each(|known| *known = before);
        }
        self.rooms = mark.rooms;
    }
}

impl Site {
    fn moved_of(&self, item: u32) -> u32 {
        self.moved.iter().find(|(moved, _)| *moved == item).map_or(0, |(_, count)| *count)
    }
}
