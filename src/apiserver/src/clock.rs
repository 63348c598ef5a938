//! Time and randomness, both from outside: a start and a seed decide every timestamp, uid and generated name.

use jiff::{SignedDuration, Timestamp, Unit};
use parking_lot::Mutex;

/// A clock that starts at a given instant and goes with tokio's time, so that `tokio::time::pause` stops it too.
#[derive(Debug, Clone)]
pub struct Clock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock that shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::ZERO);
        self.epoch.saturating_add(elapsed).unwrap_or(self.epoch)
    }

    /// The present as `metav1.Time` writes it: whole seconds.
    pub(crate) fn now_text(&self) -> String {
        time_text(self.now())
    }
}

/// An instant in the format of `metav1.Time`.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.round(Unit::Second)
        .map_or(time, |rounded| if rounded > time { rounded - SignedDuration::from_secs(1) } else { rounded })
        .to_string()
}

/// An instant in the format of `metav1.MicroTime`.
pub(crate) fn micro_time_text(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The source of uids and name suffixes: a splitmix64 sequence.
#[derive(Debug)]
pub(crate) struct Entropy(Mutex<u64>);

impl Entropy {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// What it takes to continue the sequence: a seed.
    pub(crate) fn state(&self) -> u64 {
        *self.0.lock()
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            8 + (b >> 62),
            (b >> 48) & 0xfff,
            b & 0xffff_ffff_ffff
        )
    }

    /// Five characters without vowels and look-alikes, as appended to `generateName`.
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let character = ALPHABET.get(usize::try_from(bits % 27).unwrap_or(0)).copied().unwrap_or(b'b');
                bits /= 27;
                char::from(character)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_uids_and_they_are_version_4() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));
        let uid = a.uid();
        assert_eq!(uid, b.uid());
        assert_ne!(uid, a.uid());
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_eq!(a.suffix().len(), 5);
    }

    #[test]
    fn times_are_cut_to_seconds_not_rounded() {
        let time: Timestamp = "2026-01-02T03:04:05.9Z".parse().unwrap();
        assert_eq!(time_text(time), "2026-01-02T03:04:05Z");
        assert_eq!(micro_time_text(time), "2026-01-02T03:04:05.900000Z");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_with_tokios_time() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        tokio::time::advance(std::time::Duration::from_secs(90)).await;
        assert_eq!(clock.now_text(), "2026-01-01T00:01:30Z");
    }
}
