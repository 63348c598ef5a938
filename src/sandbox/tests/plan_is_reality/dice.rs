//! Chance by seed.

/// A splitmix64 sequence: the same seed, the same throws.
#[derive(Debug)]
pub(crate) struct Dice(u64);

// === impl Dice ===

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to `sides - 1`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }

    /// True in so many of a hundred cases.
    pub(crate) fn hits(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())]
    }

    /// Some of these, one at least, in their order.
    pub(crate) fn some_of<T: Copy>(&mut self, of: &[T], percent: usize) -> Vec<T> {
        let some: Vec<T> = of.iter().copied().filter(|_| self.hits(percent)).collect();
        if some.is_empty() { vec![self.one_of(of)] } else { some }
    }
}
