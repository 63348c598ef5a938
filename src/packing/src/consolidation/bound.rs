//! What no consolidation costs less than.
//!
//! The program without whole numbers: each bin stays or is emptied, in any shares; items of emptied bins go to the room of
//! those that stay, or to new bins. Its dual has a price for each item, and for each bin the value of its room at these
//! prices. Any prices give a bound (Lagrangian relaxation): a bin costs at least the lesser of its cost less the value
//! of its room, and of what emptying it disrupts plus the prices of its items. Where new bins of a supply are few, one
//! more of them has a price, too, which emptying a bin of that supply earns. A general solver finds good
//! prices; the bound is then summed up anew from them, so that its errors make it lower and never wrong.

use super::patterns;
use super::problem::Consolidation;
use super::relaxed::{Duals, Offer, Relaxed};
use crate::tuning::consolidation::ROUNDED;

/// What no consolidation costs less than: the bins that stay, those that are new, and the price of what is disrupted.
/// Limits of pools and of items in a bin are not looked at, which makes it lower.
pub fn lower_bound(problem: &Consolidation, offers: &[Offer]) -> f64 {
    let relaxed = Relaxed::new(problem, offers);
    let solved = relaxed.solve().unwrap_or_default();
    let mut least = relaxed.value(&Duals::default()).max(relaxed.value(&solved));
    if !solved.items.is_empty() {
        least = patterns::improved(&relaxed, solved, least);
    }
    least - ROUNDED * least.abs()
}
