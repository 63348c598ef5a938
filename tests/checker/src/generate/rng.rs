//! A small generator of random numbers (SplitMix64), the same on every machine.

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5eed_0fbe_57b3)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high.saturating_sub(low) + 1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    /// One of the choices; they must not be empty.
    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = usize::try_from(self.next()).unwrap_or(0) % choices.len().max(1);
        &choices[index]
    }

    /// Some of the choices in their order, at least one.
    pub(super) fn some<T: Clone>(&mut self, choices: &[T]) -> Vec<T> {
        let chosen: Vec<T> = choices.iter().filter(|_| self.percent(50)).cloned().collect();
        if chosen.is_empty() { vec![self.pick(choices).clone()] } else { chosen }
    }
}
