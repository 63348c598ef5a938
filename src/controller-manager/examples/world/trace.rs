//! What the server was asked while one change was waited for, to see what held it up.

use std::cell::RefCell;
use std::time::{Duration, Instant};

thread_local! {
    static LINES: RefCell<Vec<(Instant, String)>> = const { RefCell::new(Vec::new()) };
}

/// Whether `--trace` is asked for.
pub(crate) fn is_wanted() -> bool {
    std::env::args().any(|text| text == "--trace")
}

/// Notes that something has happened.
pub(crate) fn tell(line: impl FnOnce() -> String) {
    LINES.with_borrow_mut(|lines| {
        if lines.len() < 10_000 {
            lines.push((Instant::now(), line()));
        }
    });
}

/// Forgets what has happened so far.
pub(crate) fn begin() {
    LINES.with_borrow_mut(Vec::clear);
}

/// What is told: changes that took longer.
const SLOW: Duration = Duration::from_millis(8);

/// Prints what has happened since the beginning, if it was slow.
pub(crate) fn end(took: Duration) {
    if !is_wanted() || took < SLOW {
        return;
    }
    println!("-- a change took {took:.2?}; milliseconds before its end:");
    let end = Instant::now();
    LINES.with_borrow(|lines| {
        for (at, line) in lines {
            println!("{:9.3} {line}", end.duration_since(*at).as_secs_f64() * 1000.0);
        }
    });
}
