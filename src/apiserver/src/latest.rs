//! A number that only grows, and those who wait for it to grow: they are woken in the order in which they began to wait.
//!
//! `tokio::sync::watch` wakes them in an order that it draws. Who reads events in another order decides otherwise, and a simulation
//! would differ from run to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The number. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    number: AtomicU64,
    grown: Notify,
    n_followers: AtomicUsize,
}

/// Somebody who waits for it to grow.
#[derive(Debug)]
pub(crate) struct Follower {
    of: Latest,
    seen: u64,
}

// === impl Latest ===

impl Latest {
    pub(crate) fn get(&self) -> u64 {
        self.0.number.load(Ordering::SeqCst)
    }

    /// How many wait for it.
    pub(crate) fn n_followers(&self) -> usize {
        self.0.n_followers.load(Ordering::SeqCst)
    }

    /// Lets it grow to this, unless it has grown further.
    pub(crate) fn raise(&self, number: u64) {
        if self.0.number.fetch_max(number, Ordering::SeqCst) < number {
            self.0.grown.notify_waiters();
        }
    }

    /// Lets it grow by one.
    pub(crate) fn count(&self) {
        self.0.number.fetch_add(1, Ordering::SeqCst);
        self.0.grown.notify_waiters();
    }

    /// Whoever follows from now on has seen what it is now.
    pub(crate) fn follow(&self) -> Follower {
        self.0.n_followers.fetch_add(1, Ordering::SeqCst);
        Follower { seen: self.get(), of: self.clone() }
    }
}

// === impl Follower ===

impl Follower {
    /// Waits until the number is greater than it was when this was last called. Nothing is lost where it is dropped.
    pub(crate) async fn grown(&mut self) {
        let grown = self.of.0.grown.notified();
        tokio::pin!(grown);
        loop {
            // It may grow between the look at it and the wait.
            grown.as_mut().enable();
            let number = self.of.get();
            if number > self.seen {
                self.seen = number;
                return;
            }
            grown.as_mut().await;
            grown.set(self.of.0.grown.notified());
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.of.0.n_followers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use parking_lot::Mutex;

    use super::Latest;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_began_to() {
        let (latest, woken) = (Latest::default(), Arc::new(Mutex::new(Vec::new())));
        for name in 0..64 {
            let (mut follower, woken) = (latest.follow(), woken.clone());
            tokio::spawn(async move {
                loop {
                    follower.grown().await;
                    woken.lock().push(name);
                }
            });
        }
        for number in 1..4 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            latest.raise(number);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(std::mem::take(&mut *woken.lock()), (0..64).collect::<Vec<_>>());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_grew_before_it_was_waited_for_is_told_once() {
        let latest = Latest::default();
        latest.raise(5);
        let mut follower = latest.follow();
        assert!(follower.grown().now_or_never().is_none());
        latest.raise(4);
        assert!(follower.grown().now_or_never().is_none());
        latest.raise(7);
        latest.count();
        assert_eq!((latest.get(), latest.n_followers()), (8, 1));
        assert!(follower.grown().now_or_never().is_some());
        assert!(follower.grown().now_or_never().is_none());
        drop(follower);
        assert_eq!(latest.n_followers(), 0);
    }
}
