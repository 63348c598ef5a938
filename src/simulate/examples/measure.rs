//! Runs a scenario and says how long it took: `cargo run --release -p berth-simulate --example measure -- SCENARIO`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::Path;
use std::time::Instant;

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let simulation = berth_simulate::Simulation::read(Path::new(&path)).unwrap();
    let start = Instant::now();
    let outcome = simulation.run().unwrap();
    let wall = start.elapsed().as_secs_f64();
    let without = berth_simulate::Outcome { samples: Vec::new(), ..outcome.clone() };
    println!("{without:#?}");
    println!("{:.1} h in {wall:.2} s: {:.2} h/s", outcome.hours, outcome.hours / wall);
}
