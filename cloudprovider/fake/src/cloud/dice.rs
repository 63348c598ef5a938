//! Chance by seed: a splitmix64 sequence.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    pub(super) fn fraction(&mut self) -> f64 {
        // 53 bits are a double's own.
        #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
        let bits = (self.next() >> 11) as f64;
        bits / 9_007_199_254_740_992.0
    }

    /// True with this probability. Draws only where there is a choice, so that faults that are off change no seed's run.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// From 0 to `most`.
    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        if most.is_zero() { most } else { most.mul_f64(self.fraction()) }
    }
}
