//! Conversions between whole and floating numbers, and numbers that look random.

/// The largest `u32` that is not above `number`, which may fall short of a whole one by an error of rounding.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
pub(crate) fn floor_u32(number: f64) -> u32 {
    (number + 1e-6).floor().clamp(0.0, f64::from(u32::MAX)) as u32
}

/// An amount as a float: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "bounds carry a margin; what fits is decided on whole numbers")]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}

/// The sum of amounts, each at its multiplier.
pub(crate) fn dot(multipliers: &[f64], amounts: &[i64]) -> f64 {
    multipliers.iter().zip(amounts).map(|(by, amount)| by * float(*amount)).sum()
}

/// A number that looks random and follows from `at` alone (splitmix64).
pub(crate) fn scrambled(at: u64) -> u64 {
    let mut z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same in 0..=1.
pub(crate) fn noise(at: u64) -> f64 {
    f64::from(u32::try_from(scrambled(at) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}
