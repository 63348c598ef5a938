//! Vector packing beside first fit: random instances with one type of bin, and how many bins each method takes.
//!
//! `cargo run --release -p berth-packing --example vectors [ITEMS] [SEEDS]`

use berth_packing::{BinType, Budget, Item, Problem, search};

/// The room of a bin in each dimension.
const ROOM: i64 = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let (items, seeds) = (arguments.next().flatten().unwrap_or(500), arguments.next().flatten().unwrap_or(3));
    println!("dimensions  sizes      seed  first fit  search  master  proved  over the master  stopped");
    for dimensions in [3, 5, 10] {
        for (sizes, least, most) in [("1%-40%", 10, 400), ("10%-80%", 100, 800)] {
            for seed in 0..seeds {
                let problem = random(items, dimensions, (least, most), seed);
                let budget = Budget {
                    work: 4_000_000,
                    rounds: 300,
                    steps: 1_000,
                    deep_steps: 20_000,
                    dives: 300,
                    dive_rounds: 10,
                    share: 0.02,
                    repairs: 30,
                    branches: 100,
                    proofs: 3,
                    ..Budget::default()
                };
                let answer = search(&problem, &[], budget);
                let bins: u32 = answer.plan.iter().map(|(_, bins)| bins).sum();
                // Bins are whole.
                let (relaxed, proved) = ((answer.relaxed - 1e-4).ceil(), (answer.bound - 1e-4).ceil());
                println!(
                    "{dimensions:>10}  {sizes:<9}  {seed:>4}  {:>9}  {bins:>6}  {relaxed:>6}  {proved:>6}  {:>14.2}%  {:?}",
                    first_fit(&problem),
                    ((f64::from(bins) / answer.relaxed - 1.0) * 100.0).max(0.0),
                    answer.stop
                );
            }
        }
    }
}

fn random(items: u64, dimensions: u64, (least, most): (u64, u64), seed: u64) -> Problem {
    let size = |item: u64| {
        let number = |at: u64| splitmix(seed << 40 | item << 8 | at);
        (0..dimensions).map(|at| (least + number(at) % (most - least + 1)).cast_signed()).collect()
    };
    let items: Vec<Item> =
        (0..items).map(|item| Item { count: 1, size: size(item), at_most: u32::MAX, load: 0.0 }).collect();
    let mut admits = fixedbitset::FixedBitSet::with_capacity(items.len());
    admits.insert_range(..);
    let room = (0..dimensions).map(|_| ROOM).collect();
    let bin = BinType { cost: 1.0, bias: 0.0, room, admits, draws: Vec::new(), loads: Vec::new() };
    Problem { items, bins: vec![bin], ..Problem::default() }
}

/// Bins of first fit, items by their largest share first.
fn first_fit(problem: &Problem) -> usize {
    let mut order: Vec<&Item> = problem.items.iter().collect();
    order.sort_by_key(|item| std::cmp::Reverse(item.size.iter().max().copied()));
    let mut bins: Vec<Vec<i64>> = Vec::new();
    for item in order {
        let fits = |bin: &Vec<i64>| bin.iter().zip(&item.size).all(|(room, size)| room >= size);
        let at = bins.iter().position(fits).unwrap_or(bins.len());
        if at == bins.len() {
            bins.push(vec![ROOM; item.size.len()]);
        }
        if let Some(bin) = bins.get_mut(at) {
            bin.iter_mut().zip(&item.size).for_each(|(room, size)| *room -= size);
        }
    }
    bins.len()
}

fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
