//! Berth's command line.
fn main() {}
