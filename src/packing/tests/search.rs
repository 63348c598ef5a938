//! Plans are packings, bounds are below every packing: on small problems, against all packings there are.

use std::collections::BTreeMap;

use berth_packing::{Answer, BinType, Budget, Item, Need, Pattern, Problem, Rule, StopReason, bound, prices, search};
use fixedbitset::FixedBitSet;
use proptest::prelude::*;

/// Items that are not packed by a plan.
fn left_by(problem: &Problem, plan: &[(Pattern, u32)]) -> Vec<u32> {
    let mut left: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
    for (pattern, bins) in plan {
        for &(item, each) in &pattern.items {
            left[item as usize] = left[item as usize].saturating_sub(each * bins);
        }
    }
    left
}

fn item(count: u32, size: &[i64]) -> Item {
    Item { count, size: size.to_vec(), at_most: u32::MAX, load: 0.0 }
}

fn bin(cost: f64, room: &[i64], items: usize, stock: Option<usize>) -> BinType {
    let mut admits = FixedBitSet::with_capacity(items);
    admits.insert_range(..);
    BinType {
        cost,
        bias: 0.0,
        room: room.to_vec(),
        admits,
        draws: stock.map(|stock| (stock, 1.0)).into_iter().collect(),
        loads: Vec::new(),
    }
}

/// The least cost of a packing of all items, by trying all of them; infinite if there is none.
struct Exhaustive<'a> {
    problem: &'a Problem,
    known: BTreeMap<(Vec<u32>, Vec<i64>), f64>,
}

impl Exhaustive<'_> {
    fn cost(&mut self, counts: &[u32], stocks: &[i64]) -> f64 {
        let Some(first) = counts.iter().position(|count| *count > 0) else { return 0.0 };
        let key = (counts.to_vec(), stocks.to_vec());
        if let Some(&cost) = self.known.get(&key) {
            return cost;
        }
        let mut least = f64::INFINITY;
        for (bin, index) in self.problem.bins.iter().zip(0_u32..) {
            for taken in patterns(counts) {
                let items: Vec<(u32, u32)> =
                    taken.iter().zip(0..).filter(|(n, _)| **n > 0).map(|(n, item)| (item, *n)).collect();
                // Some bin holds the first item: try which one does.
                let pattern = Pattern { bin: index, items };
                if taken[first] == 0 || !self.problem.allows(&pattern) {
                    continue;
                }
                let mut left = stocks.to_vec();
                for (stock, amount) in self.problem.drawn_by(&pattern) {
                    left[stock] -= whole(amount);
                }
                if left.iter().any(|there| *there < 0) {
                    continue;
                }
                let rest: Vec<u32> = counts.iter().zip(&taken).map(|(count, n)| count - n).collect();
                least = least.min(bin.cost + self.cost(&rest, &left));
            }
        }
        self.known.insert(key, least);
        least
    }
}

/// All ways to take some of each item.
fn patterns(counts: &[u32]) -> Vec<Vec<u32>> {
    counts.iter().fold(vec![Vec::new()], |all, &count| {
        all.into_iter().flat_map(|known| (0..=count).map(move |n| [known.clone(), vec![n]].concat())).collect()
    })
}

#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn whole(amount: f64) -> i64 {
    amount as i64
}

/// What bins must hold, and what items in them draw from stocks.
#[derive(Clone, Debug)]
struct Rest {
    /// Bins and items, by bit.
    needs: Vec<(u8, u8)>,
    /// How much of a stock there is, and bins whose items draw from it, by bit.
    loads: Vec<(u32, u8)>,
    /// By item.
    load: Vec<u32>,
}

fn rests() -> impl Strategy<Value = Rest> {
    let needs = prop::collection::vec((any::<u8>(), any::<u8>()), 0..2);
    let loads = prop::collection::vec((0..12_u32, any::<u8>()), 0..3);
    (needs, loads, prop::collection::vec(0..3_u32, 4)).prop_map(|(needs, loads, load)| Rest { needs, loads, load })
}

fn problems() -> impl Strategy<Value = Problem> {
    (plain_problems(), rests()).prop_map(|(mut problem, rest)| {
        let set = |mask: u8, n: usize| {
            let mut set = FixedBitSet::with_capacity(n);
            (0..n).filter(|at| mask & (1 << at) != 0).for_each(|at| set.insert(at));
            set
        };
        for (bins, items) in rest.needs {
            let need = Need { bins: set(bins, problem.bins.len()), items: set(items, problem.items.len()) };
            problem.needs.push(need);
        }
        for (there, bins) in rest.loads {
            problem.stocks.push(f64::from(there));
            for bin in set(bins, problem.bins.len()).ones() {
                problem.bins[bin].loads.push(problem.stocks.len() - 1);
            }
        }
        for (item, load) in problem.items.iter_mut().zip(rest.load) {
            item.load = f64::from(load);
        }
        problem
    })
}

fn plain_problems() -> impl Strategy<Value = Problem> {
    let sizes = prop::collection::vec((1..4_u32, prop::collection::vec(0..7_i64, 2)), 1..5);
    let bins = prop::collection::vec(
        (0..9_u32, prop::collection::vec(3..14_i64, 2), prop::option::of(0..3_u32), any::<u8>()),
        1..4,
    );
    let rules = prop::collection::vec((any::<u8>(), any::<u8>(), 0..3_u32), 0..4);
    (sizes, bins, rules).prop_map(|(sizes, bins, rules)| {
        let items: Vec<Item> = sizes.iter().map(|(count, size)| item(*count, size)).collect();
        let mut stocks = Vec::new();
        let bins = bins.into_iter().map(|(cost, room, supply, admits)| {
            let stock = supply.map(|supply| {
                stocks.push(f64::from(supply));
                stocks.len() - 1
            });
            // What is finite may be free; what is not, is not.
            let cost = if stock.is_some() { f64::from(cost / 4) } else { f64::from(cost + 1) };
            let mut bin = bin(cost, &room, items.len(), stock);
            (0..items.len())
                .filter(|item| admits & (1 << item) != 0 && admits > 127)
                .for_each(|item| bin.admits.set(item, false));
            bin
        });
        let bins: Vec<BinType> = bins.collect();
        let members = |mask: u8| (0..).take(items.len()).filter(|item| mask & (1 << item) != 0).collect::<Vec<u32>>();
        let rules = rules.iter().map(|&(subjects, counted, at_most)| Rule {
            subjects: members(subjects),
            counted: members(counted),
            at_most,
        });
        Problem { rules: rules.collect(), items, bins, stocks, ..Problem::default() }
    })
}

fn budgets() -> impl Strategy<Value = Budget> {
    let quick = Budget {
        rounds: 3,
        dive_rounds: 0,
        dives: 1,
        steps: 3,
        deep_steps: 0,
        nodes: 0,
        proofs: 0,
        ..Budget::default()
    };
    let repaired = Budget { repairs: 6, ..quick };
    let branched = Budget { branches: 20, ..repaired };
    let proved = Budget { nodes: 40, steps: 1, ..Budget::default() };
    prop_oneof![
        Just(quick),
        Just(repaired),
        Just(branched),
        Just(proved),
        Just(Budget { fills: 3, types: 2, ..quick }),
        Just(Budget { fills: 2, types: 2, dives: 0, repairs: 4, ..Budget::default() }),
        Just(Budget { fills: 2, types: 2, dives: 0, ruins: 20_000, ..Budget::default() }),
        Just(Budget { ruins: 20_000, ..quick }),
        Just(Budget { steps: 2, ..Budget::default() }),
        Just(Budget::default())
    ]
}

proptest! {
    #[test]
    fn a_plan_is_a_packing_and_no_packing_costs_less_than_the_bound(problem in problems(), budget in budgets()) {
        let answer = search(&problem, &[], budget);
        let mut stocks = problem.stocks.clone();
        let mut packed = vec![0; problem.items.len()];
        for (pattern, bins) in &answer.plan {
            prop_assert!(problem.allows(pattern), "{pattern:?}");
            for &(item, each) in &pattern.items {
                packed[item as usize] += each * bins;
            }
            for (stock, amount) in problem.drawn_by(pattern) {
                stocks[stock] -= amount * f64::from(*bins);
            }
        }
        prop_assert!(stocks.iter().all(|there| *there >= 0.0), "{stocks:?}");
        for (item, packed) in problem.items.iter().zip(&packed) {
            prop_assert!(*packed <= item.count);
        }
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stocks: Vec<i64> = problem.stocks.iter().map(|there| whole(*there)).collect();
        let least = Exhaustive { problem: &problem, known: BTreeMap::new() }.cost(&counts, &stocks);
        prop_assert!(answer.bound <= least + 1e-6, "bound {} where {least} is possible", answer.bound);
        if left_by(&problem, &answer.plan).iter().all(|left| *left == 0) {
            prop_assert!(problem.cost_of(&answer.plan) >= least - 1e-9);
        }
    }

    #[test]
    fn the_bound_of_a_small_problem_is_what_its_cheapest_packing_costs(problem in problems(), budget in budgets()) {
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stocks: Vec<i64> = problem.stocks.iter().map(|there| whole(*there)).collect();
        let least = Exhaustive { problem: &problem, known: BTreeMap::new() }.cost(&counts, &stocks);
        let bound = bound(&problem, &[], Budget { whole: 4_000_000, ..budget });
        prop_assert!(bound <= least + 1e-6, "bound {bound} where {least} is possible");
        if least.is_finite() && problem.stocks.is_empty() {
            prop_assert!(bound >= least - 1e-6, "bound {bound} where nothing below {least} is possible");
        }
    }

    #[test]
    fn no_packing_costs_less_than_a_bound_that_lists_none(problem in problems(), budget in budgets()) {
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stocks: Vec<i64> = problem.stocks.iter().map(|there| whole(*there)).collect();
        let least = Exhaustive { problem: &problem, known: BTreeMap::new() }.cost(&counts, &stocks);
        let bound = bound(&problem, &[], Budget { whole: 0, ..budget });
        prop_assert!(bound <= least + 1e-6, "bound {bound} where {least} is possible");
    }

    #[test]
    fn the_plan_of_a_small_problem_is_its_cheapest_packing(problem in problems(), budget in budgets()) {
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let stocks: Vec<i64> = problem.stocks.iter().map(|there| whole(*there)).collect();
        let least = Exhaustive { problem: &problem, known: BTreeMap::new() }.cost(&counts, &stocks);
        let answer = search(&problem, &[], Budget { whole: 4_000_000, ..budget });
        prop_assert_eq!(least.is_finite(), answer.stop == StopReason::Solved);
        if least.is_finite() {
            let cost = problem.cost_of(&answer.plan);
            prop_assert!((cost - least).abs() < 1e-9, "{cost} where {least} is possible");
            prop_assert!(left_by(&problem, &answer.plan).iter().all(|left| *left == 0), "{:?}", answer.plan);
            prop_assert!(answer.plan.iter().all(|(pattern, _)| problem.allows(pattern)), "{:?}", answer.plan);
            for (stock, there) in problem.stocks.iter().enumerate() {
                let drawn = answer.plan.iter().flat_map(|(pattern, bins)| {
                    problem.drawn_by(pattern).filter(|(of, _)| *of == stock).map(|(_, amount)| amount * f64::from(*bins))
                });
                prop_assert!(drawn.sum::<f64>() <= there + 1e-9);
            }
        }
    }

    #[test]
    fn packing_some_bins_anew_makes_no_plan_dearer(problem in problems()) {
        let quick =
        Budget { rounds: 3, dive_rounds: 0, dives: 1, steps: 3, deep_steps: 0, nodes: 0, proofs: 0, ..Budget::default() };
        let left = |answer: &Answer| left_by(&problem, &answer.plan).iter().sum::<u32>();
        let (once, again) = (search(&problem, &[], quick), search(&problem, &[], Budget { repairs: 6, ..quick }));
        prop_assert_eq!(left(&once), left(&again));
        prop_assert!(problem.cost_of(&again.plan) <= problem.cost_of(&once.plan) + 1e-9);
    }

    #[test]
    fn filling_some_bins_anew_makes_no_plan_dearer(problem in problems()) {
        let quick = Budget { rounds: 3, fills: 2, dives: 0, steps: 3, nodes: 0, proofs: 0, ..Budget::default() };
        let left = |answer: &Answer| left_by(&problem, &answer.plan).iter().sum::<u32>();
        let (once, again) = (search(&problem, &[], quick), search(&problem, &[], Budget { ruins: 20_000, ..quick }));
        prop_assert!(left(&again) <= left(&once));
        prop_assert!(left(&again) < left(&once) || problem.cost_of(&again.plan) <= problem.cost_of(&once.plan) + 1e-9);
    }

    #[test]
    fn the_same_problem_has_the_same_answer(problem in problems(), budget in budgets()) {
        prop_assert_eq!(search(&problem, &[], budget), search(&problem, &[], budget));
    }
}

#[test]
fn a_room_that_names_fewer_resources_has_none_of_the_others() {
    // As with GPUs, which most types of bins do not name.
    let bins = vec![bin(1.0, &[4], 2, None), bin(9.0, &[4, 2], 2, None)];
    let problem = Problem { items: vec![item(2, &[1, 1]), item(4, &[1])], bins, ..Problem::default() };
    let Answer { plan, bound, .. } = search(&problem, &[], Budget::default());
    assert!(plan.iter().all(|(pattern, _)| problem.allows(pattern)), "{plan:?}");
    assert!((problem.cost_of(&plan) - 10.0).abs() < 1e-9 && bound <= 10.0 + 1e-9, "{plan:?} {bound}");
    let prices = prices(&problem, Budget::default()).unwrap();
    assert!(prices[0] > 3.0, "a place beside two resources is worth what the large bin costs: {prices:?}");
}

#[test]
fn the_bound_of_three_items_is_no_fraction_of_a_bin() {
    // Two small bins, or a large one for all three; of fractions of bins three quarters of two small ones would do.
    let bins = vec![bin(0.2, &[4], 1, None), bin(0.38, &[8], 1, None)];
    let problem = Problem { items: vec![item(3, &[2])], bins, ..Problem::default() };
    let least = bound(&problem, &[], Budget { whole: 1_000, ..Budget::default() });
    assert!((least - 0.38).abs() < 1e-9, "{least}");
}

#[test]
fn a_bound_knows_that_bins_are_whole() {
    // Of fractions of bins 2.3 would do for 23 items, ten to a bin; of whole ones two, and a small one, or five small ones.
    let bins = vec![bin(1.0, &[100], 1, None), bin(0.55, &[50], 1, None)];
    let problem = Problem { items: vec![item(23, &[10])], bins, ..Problem::default() };
    let least = bound(&problem, &[], Budget::default());
    assert!((least - 2.55).abs() < 1e-6, "{least}");
}

#[test]
fn small_bins_that_share_items_are_found_where_large_ones_are_cheaper_by_room() {
    // Large bins for two of each kind cost 2.259; one large bin, and two small ones with one of each kind, less.
    let bins = vec![bin(0.763, &[60], 2, None), bin(0.733, &[40], 2, None)];
    let problem = Problem { items: vec![item(2, &[9]), item(4, &[29])], bins, ..Problem::default() };
    let answer = search(&problem, &[], Budget { whole: 1_000, ..Budget::default() });
    assert_eq!(answer.stop, StopReason::Solved);
    assert!((problem.cost_of(&answer.plan) - 2.229).abs() < 1e-9, "{:?}", answer.plan);
    assert_eq!(search(&problem, &[], Budget { whole: 10, ..Budget::default() }).stop, StopReason::Optimal);
}

#[test]
fn two_kinds_of_items_share_a_bin_where_first_fit_wastes_one() {
    // Six of 6 and six of 4 fill six bins of 10; each kind by itself taken six and three.
    let problem = Problem {
        items: vec![item(6, &[6]), item(6, &[4])],
        bins: vec![bin(1.0, &[10], 2, None)],
        ..Problem::default()
    };
    let answer = search(&problem, &[], Budget::default());
    assert!((problem.cost_of(&answer.plan) - 6.0).abs() < 1e-9);
    assert!(answer.bound > 5.999 && answer.bound <= 6.0, "{}", answer.bound);
}

#[test]
fn what_is_free_is_used_for_what_costs_most_elsewhere() {
    // One free bin of 4 taken either four of 1 or one of 3, which otherwise needs the bin of 5.
    let mut problem = Problem {
        items: vec![item(4, &[1, 0]), item(1, &[3, 1])],
        bins: vec![bin(0.0, &[4, 1], 2, Some(0)), bin(1.0, &[4, 0], 2, None), bin(5.0, &[4, 1], 2, None)],
        stocks: vec![1.0],
        ..Problem::default()
    };
    let answer = search(&problem, &[], Budget::default());
    assert!((problem.cost_of(&answer.plan) - 1.0).abs() < 1e-9, "{:?}", answer.plan);
    problem.stocks = vec![0.0];
    let answer = search(&problem, &[], Budget::default());
    assert!((problem.cost_of(&answer.plan) - 6.0).abs() < 1e-9, "{:?}", answer.plan);
}

#[test]
fn what_draws_on_a_stock_by_its_items_goes_elsewhere_beyond_it() {
    // Only eight items may be in cheap bins. A small one counts as much as a large one, so that the large ones come there.
    let mut problem = Problem {
        items: vec![item(8, &[1]), item(8, &[2])],
        bins: vec![bin(1.0, &[4], 2, None), bin(3.0, &[4], 2, None)],
        stocks: vec![8.0],
        ..Problem::default()
    };
    problem.items.iter_mut().for_each(|item| item.load = 1.0);
    problem.bins[0].loads = vec![0];
    let answer = search(&problem, &[], Budget::default());
    assert!((problem.cost_of(&answer.plan) - 10.0).abs() < 1e-9, "{:?}", answer.plan);
    assert!(answer.bound > 9.98 && answer.bound <= 10.0, "{}", answer.bound);
}

#[test]
fn a_bin_that_must_hold_an_item_is_filled_around_one_and_bounded_so() {
    // The cheap bin holds four, one of them of the second kind, of which there are two: other items need the dear one.
    let mut problem = Problem {
        items: vec![item(14, &[1]), item(2, &[1])],
        bins: vec![bin(1.0, &[4], 2, None), bin(5.0, &[4], 2, None)],
        ..Problem::default()
    };
    let set = |at: usize| {
        let mut set = FixedBitSet::with_capacity(2);
        set.insert(at);
        set
    };
    problem.needs = vec![Need { bins: set(0), items: set(1) }];
    let answer = search(&problem, &[], Budget::default());
    assert!((problem.cost_of(&answer.plan) - 12.0).abs() < 1e-9, "{:?}", answer.plan);
    assert!(answer.bound > 11.98 && answer.bound <= 12.0, "{}", answer.bound);
}

#[test]
fn a_large_bin_is_proved_where_fractions_alone_leave_a_gap() {
    // Three of 5 do not fit into 14, though 2.8 of them would.
    let problem = Problem { items: vec![item(20, &[5])], bins: vec![bin(1.0, &[14], 1, None)], ..Problem::default() };
    let answer = search(&problem, &[], Budget { steps: 1, ..Budget::default() });
    assert!(answer.bound > 9.99, "{}", answer.bound);
}

#[test]
fn nothing_to_pack_or_nothing_to_pack_it_into_is_no_plan_and_no_bound() {
    let nothing = Problem { bins: vec![bin(1.0, &[10], 0, None)], ..Problem::default() };
    let nowhere = Problem { items: vec![item(3, &[4])], ..Problem::default() };
    let too_large = Problem { items: vec![item(3, &[40])], bins: vec![bin(1.0, &[10], 1, None)], ..Problem::default() };
    let done = Problem { items: vec![item(0, &[4])], bins: vec![bin(1.0, &[10], 1, None)], ..Problem::default() };
    for problem in [nothing, nowhere, too_large, done] {
        let answer = search(&problem, &[], Budget::default());
        assert!(answer.plan.is_empty() && answer.bound <= 0.0, "{answer:?}");
    }
}

#[test]
fn where_every_type_of_bin_is_finite_a_search_needs_no_plan_to_begin_with() {
    let problem = Problem {
        items: vec![item(60, &[5]), item(60, &[3])],
        bins: vec![bin(1.0, &[10], 2, Some(0)), bin(2.0, &[40], 2, Some(1))],
        stocks: vec![64.0, 4.0],
        ..Problem::default()
    };
    let answer = search(&problem, &[], Budget::default());
    assert_eq!(left_by(&problem, &answer.plan), [0, 0]);
    // Four large bins with 13 of the small items each, 30 bins of two large ones, and three for what is left.
    let cost = problem.cost_of(&answer.plan);
    assert!(answer.bound <= cost && cost <= 41.0, "{cost} {answer:?}");
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
fn a_thousand_kinds_of_items_are_packed_and_bounded_in_a_few_rounds() {
    // Sizes from 1% to 40% of a bin, of two resources, one or two of each.
    let mixed = |at: i64| (at * 7_919 + 3) % 391 + 10;
    let items: Vec<Item> =
        (0..1_000).map(|at| item(1 + u32::from(at % 2 == 0), &[mixed(at), mixed(at * 13 + 5)])).collect();
    let all = items.len();
    let problem = Problem { items, bins: vec![bin(1.0, &[1_000, 1_000], all, None)], ..Problem::default() };
    let budget = Budget { rounds: 30, dives: 10, dive_rounds: 1, steps: 20, nodes: 0, proofs: 0, ..Budget::default() };
    let answer = search(&problem, &[], budget);
    assert_eq!(left_by(&problem, &answer.plan).iter().sum::<u32>(), 0);
    assert!(answer.plan.iter().all(|(pattern, _)| problem.allows(pattern)));
    let filled = |at: usize| problem.items.iter().map(|item| f64::from(item.count) * item.size[at] as f64).sum::<f64>();
    let volume = filled(0).max(filled(1)) / 1_000.0;
    let cost = problem.cost_of(&answer.plan);
    assert!(answer.bound <= cost && answer.bound > volume * 0.9, "{} of {volume}", answer.bound);
    assert!(cost < volume * 1.2, "{cost} of {volume}");
}

#[test]
fn items_of_one_each_are_packed_by_dual_prices_close_to_the_bound() {
    // 700 items, all different, of two resources: more than are looked at together. Large bins cost a little less for
    // their size, and of every seventh item a bin holds one alone.
    let size = |at: i64| ((at * 7_919 + 3) % 391 + 10, (at * 104_729 + 11) % 389 + 10);
    let items: Vec<Item> = (0..700).map(size).map(|(cpu, memory)| item(1, &[cpu, memory])).collect();
    let all = items.len();
    let alone: Vec<u32> = (0..700).step_by(7).collect();
    let problem = Problem {
        items,
        bins: vec![bin(1.0, &[1_000, 1_000], all, None), bin(1.95, &[2_000, 2_000], all, None)],
        rules: vec![Rule { subjects: alone.clone(), counted: alone, at_most: 1 }],
        ..Problem::default()
    };
    let quick = Budget {
        rounds: 6,
        types: 64,
        fills: 2,
        dives: 0,
        repairs: 2,
        steps: 40,
        deep_steps: 0,
        nodes: 0,
        proofs: 0,
        ..Budget::default()
    };
    let answer = search(&problem, &[], quick);
    assert_eq!(left_by(&problem, &answer.plan).iter().sum::<u32>(), 0);
    assert!(answer.plan.iter().all(|(pattern, _)| problem.allows(pattern)));
    // No packing uses less than the room that items fill, at the larger bin's price.
    let filled = |at: usize| problem.items.iter().map(|item| item.size[at]).sum::<i64>();
    let volume = f64::from(i32::try_from(filled(0).max(filled(1))).unwrap_or(0)) / 2_000.0 * 1.95;
    let cost = problem.cost_of(&answer.plan);
    assert!(cost >= volume && cost < volume * 1.12, "{cost} where items fill {volume}");
}

#[test]
fn bounds_hold_where_a_round_looks_into_few_types_of_bins() {
    // The cheapest type is the last of many, so that rounds that look into two come to it late.
    let items: Vec<Item> = (1..=6).map(|size| item(5, &[size])).collect();
    let cost = |room: i64| if room == 40 { 1.0 } else { 0.5 + 0.1 * f64::from(u32::try_from(room).unwrap_or(0)) };
    let bins = (6..=40).map(|room| bin(cost(room), &[room], 6, None)).collect();
    let problem = Problem { items, bins, ..Problem::default() };
    let few = search(&problem, &[], Budget { types: 2, ..Budget::default() });
    // 105 in all, in bins of 40.
    assert!((problem.cost_of(&few.plan) - 3.0).abs() < 1e-9, "{}", problem.cost_of(&few.plan));
    assert!(few.bound > 2.6 && few.bound <= 3.0, "{}", few.bound);
}

/// Items that are all different, of three resources, and types of bins of random shapes, priced by what they hold.
fn all_different(n_items: u64) -> Problem {
    let number = |of: u64, at: u64, most: u64| {
        let mut z = (of << 20 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        i64::try_from((z ^ (z >> 29)) % most).unwrap_or(0)
    };
    let items: Vec<Item> =
        (0..n_items).map(|item_at| item(1, &[0, 1, 2].map(|at| 1 + number(1 + at, item_at, 20)))).collect();
    let bins = (0..30)
        .map(|type_at| {
            let size = [40, 80, 160, 320][usize::try_from(number(4, type_at, 4)).unwrap_or(0)];
            let room = [5, 6, 7].map(|at| size * (1 + number(at, type_at, 4)) / 2);
            let holds: f64 = room.iter().map(|room| f64::from(i32::try_from(*room).unwrap_or(0))).sum();
            let dearer = f64::from(i32::try_from(number(8, type_at, 41)).unwrap_or(0)) / 100.0;
            bin(holds * (0.8 + dearer), &room, items.len(), None)
        })
        .collect();
    Problem { items, bins, ..Problem::default() }
}

#[test]
fn items_that_are_all_different_have_a_bound_before_many_rounds() {
    let problem = all_different(200);
    let budget = Budget { rounds: 4, nodes: 0, proofs: 0, dives: 40, repairs: 5, steps: 60, ..Budget::default() };
    let answer = search(&problem, &[], budget);
    assert!(left_by(&problem, &answer.plan).iter().all(|left| *left == 0), "{answer:?}");
    let (cost, least) = (problem.cost_of(&answer.plan), bound(&problem, &[], budget));
    // Where all room costs what it does in the type that has it cheapest, items cost what room they fill.
    let sum = |amounts: &[i64]| f64::from(i32::try_from(amounts.iter().sum::<i64>()).unwrap());
    let cheapest = problem.bins.iter().map(|bin| bin.cost / sum(&bin.room)).fold(f64::INFINITY, f64::min);
    let filled: f64 = problem.items.iter().map(|item| sum(&item.size)).sum::<f64>() * cheapest;
    assert!(least <= cost && least > filled * 0.98, "{least} of {cost}, where items fill {filled}");
}

#[test]
fn items_that_are_all_different_are_packed_nearer_to_the_bound_by_filling_some_bins_anew() {
    let problem = all_different(200);
    let cost = |ruins: u64| {
        problem.cost_of(&search(&problem, &[], Budget { ruins, ..Budget::quick_for_different_items() }).plan)
    };
    let (once, anew, longer) = (cost(0), cost(1), cost(10_000_000));
    assert!(anew < once * 0.98, "{anew} by the prices of the compact program, {once} by those of a few rounds");
    assert!(longer <= anew, "{longer} after many small changes, {anew} before");
}

#[test]
fn items_too_many_for_the_compact_program_are_filled_by_prices_of_a_sample() {
    let problem = all_different(1_500);
    let cost = |ruins: u64| {
        let quick = Budget { rounds: 1, fills: 1, repairs: 0, ruins, ..Budget::quick_for_different_items() };
        problem.cost_of(&search(&problem, &[], quick).plan)
    };
    let (once, anew) = (cost(0), cost(1));
    assert!(anew < once * 0.999, "{anew} by the prices of a sample, {once} by those of a round");
}

#[test]
fn a_plan_that_is_known_is_kept_where_no_other_is_cheaper() {
    let problem = all_different(200);
    let known = search(&problem, &[], Budget::quick_for_different_items()).plan;
    let little = Budget { rounds: 1, fills: 1, repairs: 0, ruins: 0, ..Budget::quick_for_different_items() };
    let cost = |start: &[(Pattern, u32)]| problem.cost_of(&search(&problem, start, little).plan);
    let (from_nothing, from_known) = (cost(&[]), cost(&known));
    assert!(
        from_known < from_nothing * 0.99 && from_known <= problem.cost_of(&known) + 1e-9,
        "{from_known}, {from_nothing}"
    );
}
