//! Whether the cluster has settled.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Why a pod that has no place has none: as its condition says it.
#[derive(Debug)]
pub(crate) struct Quiet {
    patience: Duration,
    since: Instant,
    /// What has no place yet, by name, with the reason where one is known.
    left: BTreeMap<String, String>,
    /// Machines and nodes on their way in or out.
    n_moving: usize,
}

// === impl Quiet ===

impl Quiet {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: Instant::now(), left: BTreeMap::new(), n_moving: 0 }
    }

    /// Something happened.
    pub(crate) fn stir(&mut self) {
        self.since = Instant::now();
    }

    /// Sets what has no place, and how much is on its way.
    pub(crate) fn observe(&mut self, left: BTreeMap<String, String>, n_moving: usize) {
        if left != self.left || n_moving != self.n_moving {
            self.stir();
        }
        self.left = left;
        self.n_moving = n_moving;
    }

    /// Once nothing has changed for long enough: what has no place, with its reason. `None` before.
    pub(crate) fn settled(&self) -> Option<Vec<String>> {
        let waited = self.since.elapsed();
        // What is on its way is waited for longer, since boots and drains take their time; but not for ever. So is what
        // nobody has said anything about yet.
        let is_moving = self.n_moving > 0 || self.left.values().any(String::is_empty);
        let patience = if is_moving { self.patience * 24 } else { self.patience };
        (waited >= patience).then(|| {
            let why = |(name, reason): (&String, &String)| {
                if reason.is_empty() { name.clone() } else { format!("{name}: {reason}") }
            };
            self.left.iter().map(why).collect()
        })
    }
}
