//! Whether the cluster has settled.

use std::time::Duration;

use tokio::time::Instant;

/// Since when nothing has changed.
#[derive(Debug)]
pub(crate) struct Quiet {
    patience: Duration,
    since: Instant,
    /// How often what has no place changed, and how much is on its way.
    seen: (u64, usize),
}

// === impl Quiet ===

impl Quiet {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: Instant::now(), seen: (0, 0) }
    }

    /// Something happened.
    pub(crate) fn stir(&mut self) {
        self.since = Instant::now();
    }

    /// Takes in how often what has no place changed, and how much is on its way.
    pub(crate) fn observe(&mut self, n_changes: u64, n_moving: usize) {
        if self.seen != (n_changes, n_moving) {
            self.stir();
        }
        self.seen = (n_changes, n_moving);
    }

    /// Once nothing has changed for long enough: what has no place, with its reason. `None` before.
    pub(crate) fn settled<'l>(&self, left: impl Iterator<Item = (&'l str, &'l str)> + Clone) -> Option<Vec<String>> {
        let waited = self.since.elapsed();
        if waited < self.patience {
            return None;
        }
        // What is on its way is waited for longer, since boots and drains take their time; but not for ever. So is what
        // nobody has said anything about yet.
        let is_moving = self.seen.1 > 0 || left.clone().any(|(_, reason)| reason.is_empty());
        let patience = if is_moving { self.patience.saturating_mul(24) } else { self.patience };
        (waited >= patience).then(|| {
            let why = |(name, reason): (&str, &str)| {
                if reason.is_empty() { name.to_owned() } else { format!("{name}: {reason}") }
            };
            left.map(why).collect()
        })
    }
}
