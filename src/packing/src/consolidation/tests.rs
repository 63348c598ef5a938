use fixedbitset::FixedBitSet;
use proptest::prelude::*;

use super::*;
use crate::numbers::{float, scrambled};
use crate::{BinType, Budget, Item, Problem, search};

const WORK: u64 = 10_000_000;

fn all(n: usize) -> FixedBitSet {
    let mut all = FixedBitSet::with_capacity(n);
    all.insert_range(..);
    all
}

fn bin(cost: f64, disruption: f64, holds: &[(u32, u32)], free: i64) -> ExistingNode {
    ExistingNode { cost, disruption, holds: holds.to_vec(), free: vec![free], pool: Some(0), ..ExistingNode::default() }
}

fn item(size: i64, n_bins: usize) -> Movable {
    Movable { size: vec![size], admitted_by: all(n_bins), at_most: u32::MAX, anew: None }
}

/// Items by bin once all is done; `None` where some bin holds what it may not.
fn after(problem: &Consolidation, found: &Consolidated) -> Option<Vec<u32>> {
    let mut totals = vec![0; problem.items.len()];
    for (at, (bin, moved)) in problem.bins.iter().zip(&found.moved).enumerate() {
        let is_empty = found.emptied.contains(&at);
        if is_empty && !moved.is_empty() {
            return None;
        }
        let mut room = bin.free.clone();
        for &(sort, count) in moved {
            let movable = &problem.items[sort as usize];
            let held: u32 = bin.holds.iter().filter(|(held, _)| *held == sort).map(|(_, count)| *count).sum();
            if !movable.admitted_by.contains(at) || held + count > movable.at_most {
                return None;
            }
            for (room, need) in room.iter_mut().zip(&movable.size) {
                *room -= need * i64::from(count);
            }
            totals[sort as usize] += count;
        }
        if !is_empty {
            bin.holds.iter().for_each(|(sort, count)| totals[*sort as usize] += count);
            if !moved.is_empty() && room.iter().any(|room| *room < 0) {
                return None;
            }
        }
    }
    let is_used = |at: usize| found.moved.get(at).is_some_and(|moved| !moved.is_empty());
    if (0_u32..).zip(&problem.stocks).any(|(stock, most)| n_taken(problem, stock, is_used) > *most) {
        return None;
    }
    for (total, anew) in totals.iter_mut().zip(&found.anew) {
        *total += anew;
    }
    Some(totals)
}

/// How many bins of a stock are in use.
fn n_taken(problem: &Consolidation, stock: u32, is_used: impl Fn(usize) -> bool) -> u32 {
    let of_stock = |at: &usize| problem.bins[*at].taken_from == Some(stock);
    u32::try_from((0..problem.bins.len()).filter(of_stock).filter(|at| is_used(*at)).count()).unwrap()
}

/// The most that emptying any set of bins saves, by trying all.
fn best(problem: &Consolidation) -> f64 {
    /// What these items cost at least in new bins, if they may cost less than so much.
    fn placed(
        problem: &Consolidation,
        rooms: &mut Vec<Option<Vec<i64>>>,
        counts: &mut Vec<Vec<u32>>,
        left: &[u32],
        below: f64,
    ) -> Option<f64> {
        let Some((&sort, rest)) = left.split_first() else { return (below > 0.0).then_some(0.0) };
        let movable = &problem.items[sort as usize];
        let mut least: Option<f64> = None;
        for at in 0..rooms.len() {
            let Some(room) = rooms[at].clone() else { continue };
            let fits = room.iter().zip(&movable.size).all(|(room, need)| need <= room);
            if !fits || !movable.admitted_by.contains(at) || counts[at][sort as usize] >= movable.at_most {
                continue;
            }
            if let Some(stock) = problem.bins[at].taken_from
                && counts[at].iter().all(|count| *count == 0)
                && n_taken(problem, stock, |bin| counts[bin].iter().any(|count| *count > 0))
                    >= problem.stocks[stock as usize]
            {
                continue;
            }
            rooms[at] = Some(room.iter().zip(&movable.size).map(|(room, need)| room - need).collect());
            counts[at][sort as usize] += 1;
            let cost = placed(problem, rooms, counts, rest, least.unwrap_or(below));
            rooms[at] = Some(room);
            counts[at][sort as usize] -= 1;
            least = cost.or(least);
            if least == Some(0.0) {
                return least;
            }
        }
        let below = least.unwrap_or(below);
        let anew = movable.anew.filter(|price| *price < below);
        let cost = anew.and_then(|price| Some(price + placed(problem, rooms, counts, rest, below - price)?));
        cost.or(least)
    }
    let mut best = 0.0_f64;
    for set in 0_u32..1 << problem.bins.len() {
        let gone = |at: usize| set >> at & 1 == 1;
        let bins = || problem.bins.iter().enumerate();
        let n_gone = bins().filter(|(at, _)| gone(*at)).count();
        if bins().any(|(at, bin)| gone(at) && bin.pool.is_none()) || n_gone > problem.most[0] as usize {
            continue;
        }
        let saved: f64 = bins().filter(|(at, _)| gone(*at)).map(|(_, bin)| problem.saving(bin)).sum();
        if saved <= best {
            continue;
        }
        let mut rooms: Vec<Option<Vec<i64>>> = bins().map(|(at, bin)| (!gone(at)).then(|| bin.free.clone())).collect();
        let count = |bin: &ExistingNode| {
            (0..problem.items.len())
                .map(|sort| bin.holds.iter().filter(|(held, _)| *held as usize == sort).map(|(_, count)| *count).sum())
                .collect()
        };
        let mut counts: Vec<Vec<u32>> = problem.bins.iter().map(count).collect();
        let left: Vec<u32> = bins()
            .filter(|(at, _)| gone(*at))
            .flat_map(|(_, bin)| &bin.holds)
            .flat_map(|(sort, count)| vec![*sort; *count as usize])
            .collect();
        if let Some(cost) = placed(problem, &mut rooms, &mut counts, &left, saved - best) {
            best = saved - cost;
        }
    }
    best
}

#[test]
fn the_bin_that_costs_most_for_what_it_disrupts_is_emptied_where_one_can_be() {
    let bins = vec![bin(4.0, 3.0, &[(0, 2)], 1), bin(4.0, 2.0, &[(0, 1)], 1), bin(5.0, 9.0, &[(0, 8)], 1)];
    let problem =
        Consolidation { items: vec![item(1, 3)], bins, price: 0.0, most: vec![3], ..Consolidation::default() };
    let found = consolidate(&problem, None, WORK);
    assert_eq!((found.emptied, found.saved), (vec![1], 4.0), "either could be, and one item moves for it");
    let dear = Consolidation { price: 1.5, ..problem.clone() };
    let found = consolidate(&dear, None, WORK);
    assert_eq!((found.emptied, found.saved), (vec![1], 1.0), "the price of what it disrupts counts");
    let none = Consolidation { price: 2.0, ..problem };
    let nothing = Consolidated { moved: vec![Vec::new(); 3], anew: vec![0], ..Consolidated::default() };
    assert_eq!(consolidate(&none, None, WORK), nothing);
}

#[test]
fn a_bin_of_no_pool_stays_and_a_pool_lets_no_more_go_than_it_may() {
    let mut bins: Vec<ExistingNode> = (0..4).map(|_| bin(1.0, 1.0, &[(0, 1)], 4)).collect();
    bins[0] = ExistingNode { cost: 9.0, pool: None, ..bins[0].clone() };
    let problem =
        Consolidation { items: vec![item(1, 4)], bins, price: 0.0, most: vec![2], ..Consolidation::default() };
    let found = consolidate(&problem, None, WORK);
    assert_eq!((found.emptied.len(), found.emptied.contains(&0)), (2, false));
}

/// A problem of a few bins and two resources.
fn problem(numbers: &[u64]) -> Consolidation {
    let mut numbers = numbers.iter().copied().cycle();
    let mut below = |n: u64| numbers.next().unwrap_or(0) % n;
    let n_bins = usize::try_from(2 + below(5)).unwrap();
    let item = |below: &mut dyn FnMut(u64) -> u64| {
        let mut admitted_by = all(n_bins);
        if below(3) == 0 {
            admitted_by.set(usize::try_from(below(n_bins as u64)).unwrap(), false);
        }
        let size = vec![i64::try_from(1 + below(4)).unwrap(), i64::try_from(below(5)).unwrap()];
        Movable { size, admitted_by, at_most: if below(4) == 0 { 2 } else { u32::MAX }, anew: None }
    };
    let items: Vec<Movable> = (0..3).map(|_| item(&mut below)).collect();
    let bins = (0..n_bins).map(|_| {
        let holds: Vec<(u32, u32)> =
            (0..3).map(|sort| (sort, u32::try_from(below(3)).unwrap())).filter(|(_, count)| *count > 0).collect();
        let n_held: u32 = holds.iter().map(|(_, count)| count).sum();
        ExistingNode {
            cost: f64::from(u32::try_from(1 + below(9)).unwrap()),
            disruption: f64::from(1 + n_held),
            holds,
            free: vec![i64::try_from(below(9)).unwrap(), i64::try_from(below(9)).unwrap()],
            pool: (below(6) > 0).then_some(0),
            ..ExistingNode::default()
        }
    });
    let bins = bins.collect();
    Consolidation {
        items,
        bins,
        price: [0.0, 0.5, 1.0][usize::try_from(below(3)).unwrap()],
        most: vec![1 + u32::try_from(below(6)).unwrap()],
        ..Consolidation::default()
    }
}

/// The same where some items may come to new bins, and some bins are free slots.
fn problem_with_new(numbers: &[u64]) -> Consolidation {
    let mut problem = problem(numbers);
    let mut numbers = numbers.iter().rev().copied();
    let mut below = |n: u32| u32::try_from(numbers.next().unwrap_or(0) % u64::from(n)).unwrap();
    for item in &mut problem.items {
        let size: i64 = item.size.iter().sum();
        item.anew = (below(4) > 0).then(|| f64::from(1 + below(4)) * 0.25 * f64::from(u32::try_from(size).unwrap()));
    }
    // Of two or more, alternatives of one stock.
    problem.stocks = vec![1];
    for _ in 0..below(4) {
        let at = problem.bins.len();
        let free = vec![i64::from(below(6)), i64::from(below(6))];
        problem.bins.push(ExistingNode { free, taken_from: Some(0), ..ExistingNode::default() });
        problem.items.iter_mut().for_each(|item| item.admitted_by.grow_and_insert(at));
    }
    problem
}

fn saved_by(problem: &Consolidation, found: &Consolidated) -> f64 {
    let emptied: f64 = found.emptied.iter().map(|bin| problem.saving(&problem.bins[*bin])).sum();
    let used = problem.items.iter().zip(&found.anew).filter(|(_, count)| **count > 0);
    emptied - used.map(|(item, count)| item.anew.unwrap_or(f64::INFINITY) * f64::from(*count)).sum::<f64>()
}

proptest! {
    /// With new bins and free slots answers hold just so, and none is worse than the one without that it begins with.
    #[test]
    fn answers_with_new_bins_hold(numbers in prop::collection::vec(0..u64::MAX, 80)) {
        let problem = problem_with_new(&numbers);
        let totals = |sort: usize| problem.bins.iter().flat_map(|bin| &bin.holds).filter(|(held, _)| *held as usize == sort).map(|(_, count)| *count).sum::<u32>();
        let mut without = problem.clone();
        without.items.iter_mut().for_each(|item| item.anew = None);
        let start = consolidate(&without, None, WORK);
        let found = consolidate(&problem, Some(&start), WORK);
        prop_assert_eq!(after(&problem, &found), Some((0..3).map(totals).collect()));
        prop_assert!((found.saved - saved_by(&problem, &found)).abs() < 1e-6);
        prop_assert!(found.saved >= start.saved - 1e-9);
        prop_assert!(found.saved <= best(&problem) + 1e-6, "{} {}", found.saved, best(&problem));
    }
}

proptest! {
    /// Every answer is one: all items are still there, in bins that may hold them, and it saves what it says.
    #[test]
    fn answers_hold(numbers in prop::collection::vec(0..u64::MAX, 80)) {
        let problem = problem(&numbers);
        let found = consolidate(&problem, None, WORK);
        let before: Vec<u32> = (0..3).map(|sort| problem.bins.iter().flat_map(|bin| &bin.holds).filter(|(held, _)| *held == sort).map(|(_, count)| *count).sum()).collect();
        prop_assert_eq!(after(&problem, &found), Some(before));
        let saved: f64 = found.emptied.iter().map(|bin| problem.saving(&problem.bins[*bin])).sum();
        prop_assert!((found.saved - saved).abs() < 1e-9);
        prop_assert!(found.emptied.iter().all(|bin| problem.bins[*bin].pool.is_some()));
        prop_assert!(found.saved <= best(&problem) + 1e-9);
        prop_assert_eq!(found, consolidate(&problem, None, WORK));
    }
}

proptest! {
    /// With new bins that cost so much that none is worth having, or none at all, the best saving leaves no less than the
    /// bound.
    #[test]
    fn no_set_of_bins_leaves_less_than_the_bound(numbers in prop::collection::vec(0..u64::MAX, 80)) {
        let problem = problem(&numbers);
        let all: f64 = problem.bins.iter().map(|bin| bin.cost).sum();
        let bound = lower_bound(&problem, &[]);
        prop_assert!(bound <= all - best(&problem) + 1e-9, "{bound} {all}");
        prop_assert!(bound >= -1e-9);
        let dear = Offer { cost: 1_000.0, room: vec![100, 100], admits: self::all(3), stock: None, supply: None };
        let with_dear = lower_bound(&problem, std::slice::from_ref(&dear));
        prop_assert!(with_dear <= all - best(&problem) + 1e-9, "{with_dear} {all}");
        // One that costs nothing, in numbers: what all costs is the price of what is disrupted at least.
        let free = Offer { cost: 0.0, ..dear };
        let with_free = lower_bound(&problem, &[free]);
        let stays: f64 = problem.bins.iter().filter(|bin| bin.pool.is_none()).map(|bin| bin.cost).sum();
        let goes = problem.bins.iter().filter(|bin| bin.pool.is_some());
        let least: f64 = goes.map(|bin| bin.cost.min(problem.price * bin.disruption)).sum();
        prop_assert!((with_free - stays - least).abs() < 1e-4, "{with_free} {stays} {least}");
    }
}

/// What it costs to empty these bins, with what is in them packed into rooms of the others and into new bins; `None` where
/// no such packing was found.
fn cost_of_emptying(problem: &Consolidation, offers: &[Offer], is_emptied: impl Fn(usize) -> bool) -> Option<f64> {
    let mut counts = vec![0_u32; problem.items.len()];
    let (mut cost, mut bins, mut stocks) = (0.0, Vec::new(), Vec::new());
    let mut bin_type = |cost: f64, room: &[i64], admits: FixedBitSet, stock: Option<u32>| {
        let draws = stock.map(|stock| {
            stocks.push(f64::from(stock));
            (stocks.len() - 1, 1.0)
        });
        bins.push(BinType {
            cost,
            bias: 0.0,
            room: room.to_vec(),
            admits,
            draws: draws.into_iter().collect(),
            loads: Vec::new(),
        });
    };
    for (at, bin) in problem.bins.iter().enumerate() {
        if is_emptied(at) {
            cost += problem.price * bin.disruption;
            bin.holds.iter().for_each(|(item, count)| counts[*item as usize] += count);
        } else {
            cost += bin.cost;
            let admits = problem.items.iter().enumerate().filter(|(_, item)| item.admitted_by.contains(at));
            bin_type(0.0, &bin.free, admits.map(|(item, _)| item).collect(), Some(1));
        }
    }
    for offer in offers {
        bin_type(offer.cost, &offer.room, offer.admits.clone(), offer.stock);
    }
    let items = problem.items.iter().zip(&counts);
    let items =
        items.map(|(item, count)| Item { count: *count, size: item.size.clone(), at_most: u32::MAX, load: 0.0 });
    let packing = Problem { items: items.collect(), bins, stocks, ..Problem::default() };
    let plan = search(&packing, &[], Budget::default()).plan;
    let mut packed = vec![0_u32; counts.len()];
    for (pattern, times) in &plan {
        pattern.items.iter().for_each(|(item, count)| packed[*item as usize] += count * times);
    }
    (packed == counts).then(|| cost + packing.cost_of(&plan))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever bins are emptied, and however what was in them is packed, among others into new bins that do not all admit
    /// all of it and of which some are few: that costs no less than the bound.
    #[test]
    fn no_packing_into_new_bins_costs_less_than_the_bound(
        numbers in prop::collection::vec(0..u64::MAX, 80),
        offers in prop::collection::vec((1..12_u32, 1..12_i64, 0..12_i64, 1..8_usize, prop::option::of(0..3_u32)), 1..5),
    ) {
        let problem = problem(&numbers);
        let offer = |(cost, first, second, admits, stock): &(u32, i64, i64, usize, Option<u32>)| Offer {
            cost: f64::from(*cost) * 0.5,
            room: vec![*first, *second],
            admits: (0..3).filter(|item| admits >> item & 1 == 1).collect(),
            stock: *stock,
            supply: None,
        };
        let offers: Vec<Offer> = offers.iter().map(offer).collect();
        let bound = lower_bound(&problem, &offers);
        let may_go = problem.bins.iter().enumerate().filter(|(_, bin)| bin.pool.is_some()).map(|(at, _)| at);
        let may_go: Vec<usize> = may_go.collect();
        for set in 0..1_u32 << may_go.len() {
            let is_emptied = |at: usize| may_go.iter().position(|bin| *bin == at).is_some_and(|bit| set >> bit & 1 == 1);
            if let Some(cost) = cost_of_emptying(&problem, &offers, is_emptied) {
                prop_assert!(bound <= cost + 1e-9, "{bound} of {cost}: {set:b} {offers:?}");
            }
        }
    }
}

#[test]
fn the_bound_is_the_optimum_where_items_fill_rooms_to_the_last() {
    // Four bins of four places, half full: two stay.
    let bins: Vec<ExistingNode> = (0..4).map(|_| bin(3.0, 2.0, &[(0, 2)], 2)).collect();
    let problem =
        Consolidation { items: vec![item(1, 4)], bins, price: 0.25, most: vec![4], ..Consolidation::default() };
    let bound = lower_bound(&problem, &[]);
    assert!((bound - 7.0).abs() < 1e-4, "two at 3, two emptied at 0.5: {bound}");
    // A new bin with eight places for 1 takes all: that and four emptied at 0.5.
    let offer = Offer { cost: 1.0, room: vec![8], admits: all(1), stock: None, supply: None };
    let with_new = lower_bound(&problem, std::slice::from_ref(&offer));
    assert!((with_new - 3.0).abs() < 1e-4, "{with_new}");
    // None in stock is none.
    let none = lower_bound(&problem, &[Offer { stock: Some(0), ..offer }]);
    assert!((none - bound).abs() < 1e-4, "{none}");
}

#[test]
fn a_bin_that_is_emptied_adds_to_the_stock_that_it_is_of() {
    let problem = |supply: Option<u32>| {
        let of_stock = ExistingNode { supply, ..bin(0.0, 2.0, &[(0, 2)], 0) };
        let bins = vec![of_stock, bin(3.0, 2.0, &[(0, 2)], 0)];
        Consolidation { items: vec![item(1, 2)], bins, price: 0.25, most: vec![2], ..Consolidation::default() }
    };
    let offer = Offer { cost: 0.0, room: vec![8], admits: all(1), stock: Some(0), supply: Some(7) };
    let offers = [offer.clone(), Offer { room: vec![7], ..offer }];
    // Nothing can be emptied.
    let bound = lower_bound(&problem(None), &offers);
    assert!((bound - 3.0).abs() < 1e-4, "{bound}");
    // The first makes way for a new bin, which holds what was in both: each is emptied at 0.5.
    let bound = lower_bound(&problem(Some(7)), &offers);
    assert!((bound - 1.0).abs() < 1e-4, "{bound}");
}

#[test]
fn of_five_hundred_small_problems_nearly_all_are_solved_to_the_best() {
    let mut n_best = 0;
    for case in 0..500_u64 {
        let numbers: Vec<u64> = (0..80).map(|at| scrambled(case * 80 + at)).collect();
        let problem = problem(&numbers);
        n_best += usize::from(consolidate(&problem, None, WORK).saved >= best(&problem) - 1e-9);
    }
    assert!(n_best >= 490, "{n_best} of 500");
}

#[test]
fn of_five_hundred_small_problems_with_new_bins_nearly_all_are_solved_to_the_best() {
    let mut n_best = 0;
    for case in 0..500_u64 {
        let numbers: Vec<u64> = (0..80).map(|at| scrambled(case * 80 + at)).collect();
        let problem = problem_with_new(&numbers);
        n_best += usize::from(consolidate(&problem, None, WORK).saved >= best(&problem) - 1e-6);
    }
    assert!(n_best >= 475, "{n_best} of 500");
}

#[test]
fn of_bins_of_one_stock_no_more_are_used_than_there_are() {
    // Each of the two goes to a slot of its own kind, and there is one slot in all.
    let own = |bins: &[usize], n_bins: usize| {
        let mut admitted_by = FixedBitSet::with_capacity(n_bins);
        admitted_by.extend(bins.iter().copied());
        Movable { admitted_by, ..item(1, n_bins) }
    };
    let slot = ExistingNode { free: vec![4], taken_from: Some(0), ..ExistingNode::default() };
    let bins = vec![bin(2.0, 1.0, &[(0, 1)], 0), bin(3.0, 1.0, &[(1, 1)], 0), slot.clone(), slot];
    let items = vec![own(&[0, 2], 4), own(&[1, 3], 4)];
    let problem = |stock| Consolidation {
        items: items.clone(),
        bins: bins.clone(),
        most: vec![2],
        stocks: vec![stock],
        ..Consolidation::default()
    };
    let emptied = |stock| consolidate(&problem(stock), None, WORK).emptied;
    assert_eq!((emptied(0), emptied(1), emptied(2)), (vec![], vec![1], vec![1, 0]));
}

#[test]
fn items_come_to_new_bins_where_that_costs_less_than_their_bin() {
    // Nobody has room for what these two hold, but new bins cost less than one of them.
    let bins = vec![bin(4.0, 2.0, &[(0, 2)], 0), bin(1.0, 2.0, &[(0, 2)], 0)];
    let dear = Movable { anew: Some(0.75), ..item(1, 2) };
    let problem = Consolidation { items: vec![dear], bins, price: 0.0, most: vec![2], ..Consolidation::default() };
    let found = consolidate(&problem, None, WORK);
    assert_eq!((found.emptied, found.anew, found.saved), (vec![0], vec![2], 2.5));
}

#[test]
fn room_for_one_and_a_part_of_another_is_room_for_one_in_the_bound() {
    // Of 7 and 6 one has room in 11: two of these take two whole items of the four, and nearly all of them in fractions.
    let stays = ExistingNode { free: vec![11], ..ExistingNode::default() };
    let mut bins = vec![stays.clone(), stays];
    bins.extend([0, 1, 0, 1].map(|held| bin(1.0, 0.0, &[(held, 1)], 0)));
    let n_bins = bins.len();
    let problem = Consolidation {
        items: vec![item(7, n_bins), item(6, n_bins)],
        bins,
        price: 0.0,
        most: vec![u32::MAX],
        stocks: Vec::new(),
    };
    let bound = lower_bound(&problem, &[]);
    assert!(bound > 1.999 && bound <= 2.0, "{bound}");
    assert!((4.0 - best(&problem) - 2.0).abs() < 1e-9);
}

/// Ten bins at 4 that hold some of 14 items, and eight sorts of new ones.
fn bins_and_offers(seed: u64) -> (Consolidation, Vec<Offer>) {
    const N_ITEMS: u64 = 14;
    let mut at = seed * 1_000_003;
    let mut number = |below: u64| {
        at += 1;
        scrambled(at) % below
    };
    let size = |_: u64| {
        let size = (0..2).map(|_| i64::try_from(10 + number(90)).unwrap()).collect();
        Movable { size, ..item(1, 10) }
    };
    let items: Vec<Movable> = (0..N_ITEMS).map(size).collect();
    let bins = (0..10).map(|_| {
        let (mut free, mut holds) = (vec![400_i64, 400], std::collections::BTreeMap::new());
        for _ in 0..6 {
            let id = u32::try_from(number(N_ITEMS)).unwrap();
            let size = &items[id as usize].size;
            if size.iter().zip(&free).all(|(need, free)| need <= free) {
                *holds.entry(id).or_insert(0) += 1;
                free.iter_mut().zip(size).for_each(|(free, need)| *free -= need);
            }
        }
        ExistingNode { free, ..bin(4.0, 0.0, &holds.into_iter().collect::<Vec<_>>(), 0) }
    });
    let bins = bins.collect();
    let offers = (0..8).map(|_| {
        let room: Vec<i64> = (0..2).map(|_| i64::try_from(100 + number(400)).unwrap()).collect();
        let rate = 0.6 + f64::from(u32::try_from(number(40)).unwrap()) / 100.0;
        let cost = f64::from(i32::try_from(room.iter().sum::<i64>()).unwrap()) / 200.0 * rate;
        Offer { cost, room, admits: all(14), stock: None, supply: None }
    });
    let offers = offers.collect();
    (Consolidation { items, bins, price: 0.0, most: vec![10], ..Consolidation::default() }, offers)
}

#[test]
fn the_bound_comes_to_what_the_program_of_all_patterns_says() {
    // What two hundred more programs, in which no pattern is forgotten, come to.
    for (seed, least) in [(113, 18.5455), (208, 21.4984)] {
        let (problem, offers) = bins_and_offers(seed);
        let bound = lower_bound(&problem, &offers);
        assert!((bound - least).abs() < 0.005, "{seed}: {bound}, and {least} is the best");
    }
}

/// Bins of up to 32 CPUs of which one in four has a GPU, full but for a few CPUs, each with some items.
fn many_with_gpus() -> Consolidation {
    const BINS: usize = 80;
    let sizes = [[1, 0], [2, 0], [4, 0], [8, 0], [2, 1]];
    let movable = |size: &[i64; 2]| Movable {
        size: size.to_vec(),
        admitted_by: all(BINS),
        at_most: u32::MAX,
        anew: Some(0.3 * float(size[0]) + 1.5 * float(size[1])),
    };
    let mut at = 0;
    let mut random = |below: u64| {
        at += 1;
        scrambled(at) % below
    };
    let bins = (0..BINS).map(|bin| {
        let gpus = i64::from(bin % 4 == 0);
        let mut counts = [0_u32; 5];
        for _ in 0..3 {
            counts[usize::try_from(random(4)).unwrap()] += 1;
        }
        counts[4] = u32::from(gpus == 1 && random(2) == 1);
        let used: i64 = counts.iter().zip(sizes).map(|(count, size)| i64::from(*count) * size[0]).sum();
        let free = i64::try_from(random(9)).unwrap();
        ExistingNode {
            cost: 0.2 * float(used + free) + float(gpus),
            disruption: f64::from(counts.iter().sum::<u32>() + 1),
            holds: (0..).zip(counts).filter(|(_, count)| *count > 0).collect(),
            free: vec![free, gpus - i64::from(counts[4])],
            pool: Some(0),
            ..ExistingNode::default()
        }
    });
    let bins = bins.collect();
    Consolidation {
        items: sizes.iter().map(movable).collect(),
        bins,
        price: 0.001,
        most: vec![u32::MAX],
        stocks: vec![],
    }
}

#[test]
fn bins_without_room_are_not_looked_at() {
    let problem = many_with_gpus();
    let found = consolidate(&problem, None, WORK);
    // Each round looked at some 17,000 bins where every item asked all of them.
    assert_eq!(found.stop, Stop::Rounds, "{} emptied", found.emptied.len());
    assert!(after(&problem, &found).is_some() && found.emptied.len() >= 26, "{} emptied", found.emptied.len());
}
