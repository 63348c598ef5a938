//! Dollars, rounded down.

use berth_model::Money;

/// A little below a number of dollars, for what floats lose.
#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
pub(crate) fn below(dollars: f64) -> Money {
    let micro = (dollars * (1.0 - 1e-9) * 1e6).floor();
    if micro > 0.0 && micro < 1e15 { Money::from_pico(micro as i128 * 1_000_000) } else { Money::ZERO }
}
