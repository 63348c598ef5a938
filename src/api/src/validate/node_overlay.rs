//! What is wrong with a NodeOverlay.

use super::{Errors, FieldError, metadata, requirement, resources, shown};
use crate::{NodeOverlay, PriceAdjustment};

/// The range of the weight.
const WEIGHT: std::ops::RangeInclusive<i32> = 1..=10_000;
/// Resources that an overlay cannot change.
const STANDARD_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

impl NodeOverlay {
    /// Everything that is wrong with the overlay by itself, in the order of its fields; empty if nothing is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        requirement::check_overlay("spec.requirements", &spec.requirements, &mut errors);
        if let Some(price) = spec.price.as_deref().filter(|price| !is_price(price)) {
            errors.invalid("spec.price", format!("is {}, expected a decimal number such as 0.25", shown(price)));
        }
        if let Some(adjustment) = &spec.price_adjustment {
            if let Err(error) = adjustment.parse::<PriceAdjustment>() {
                errors.invalid("spec.priceAdjustment", format!("is {}, {error}", shown(adjustment)));
            }
            if spec.price.is_some() {
                errors.forbidden("spec.priceAdjustment", "cannot set both 'price' and 'priceAdjustment'");
            }
        }
        resources::check("spec.capacity", &spec.capacity, &mut errors);
        for name in STANDARD_RESOURCES.iter().filter(|name| spec.capacity.contains_key(**name)) {
            let message = format!("invalid resource restricted, found {name}, expected extended resources only");
            errors.forbidden(metadata::entry("spec.capacity", name), message);
        }
        if let Some(weight) = spec.weight.filter(|weight| !WEIGHT.contains(weight)) {
            let (least, most) = WEIGHT.into_inner();
            errors.invalid("spec.weight", format!("is {weight}, expected {least} to {most}"));
        }
        errors.0
    }
}

/// Whether a text matches `^\d+(\.\d+)?$`.
fn is_price(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_number(whole) && is_number(fraction)
}
