//! How the cluster stood at earlier times, so that a page that is opened late has its plots.

use serde::Serialize;

/// The most points that are kept; older times are told more coarsely.
const MOST: usize = 1_000;
/// So many of the newest points are kept as they are.
const NEWEST: usize = 200;
/// Milliseconds from a point to the next, at least.
const STEP: u64 = 1_000;

/// How things stood at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Milliseconds since the page began.
    pub(crate) at: u64,
    /// Nodes: on slots, on-demand, spot, others.
    pub(crate) nodes: [u32; 4],
    /// Dollars an hour: as it is, and without reservations.
    pub(crate) price: f64,
    pub(crate) without: f64,
    /// Pods that wait.
    pub(crate) waiting: u32,
}

/// Points, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<Point>);

// === impl History ===

impl History {
    /// Takes in how things stand; within a second of the last point, that one is told anew.
    pub(crate) fn push(&mut self, point: Point) {
        // Two points before: the last may be told anew until it is a step after its own.
        let previous = self.0.len().checked_sub(2).and_then(|at| self.0.get(at)).map(|own| own.at);
        match (self.0.last_mut(), previous) {
            (Some(last), Some(previous)) if last.at < previous.saturating_add(STEP) => *last = point,
            _ => self.0.push(point),
        }
        if self.0.len() > MOST {
            let kept = self.0.len() - NEWEST;
            let mut index = 0;
            self.0.retain(|_| {
                index += 1;
                index > kept || index % 2 == 1
            });
        }
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_keeps_its_first_and_its_newest_points() {
        let mut history = History::default();
        for at in 0..50_000_u64 {
            history.push(Point { at: at * 700, ..Point::default() });
            assert!(history.points().len() <= MOST);
        }
        let points = history.points();
        assert_eq!((points[0].at, points.last().unwrap().at), (0, 49_999 * 700));
        assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
        // Of the newest, no more than two steps lie between two.
        assert!(points.windows(2).rev().take(NEWEST / 2).all(|pair| pair[1].at - pair[0].at <= 2 * STEP));
        assert!(points.len() > NEWEST * 2);
    }
}
