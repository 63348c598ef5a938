//! Printing the canonical form, as apimachinery's `CanonicalizeBytes`.

use std::fmt;

use crate::{Format, NANOS, Quantity};

/// Decimal suffixes from 10^-9 in steps of three.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes from 2^0 in steps of ten.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// No fractional digits, no precision lost, and the largest suffix that allows both. A binary amount within ±1024
/// or with a fraction is printed in decimal notation.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.pad("0");
        }
        match self.format() {
            Format::BinarySI if self.reads_well_in_binary() => {
                let (number, steps) = without_factors(self.nanos() / NANOS, 1024, BINARY.len() - 1);
                f.pad(&format!("{number}{}", BINARY[steps]))
            }
            Format::BinarySI | Format::DecimalSI => {
                let (number, steps) = without_factors(self.nanos(), 1000, DECIMAL.len() - 1);
                f.pad(&format!("{number}{}", DECIMAL[steps]))
            }
            Format::DecimalExponent => match without_factors(self.nanos(), 1000, usize::MAX) {
                (number, 3) => f.pad(&number.to_string()),
                (number, steps) => {
                    let magnitude = steps.abs_diff(3) * 3;
                    let sign = if steps < 3 { "-" } else { "" };
                    f.pad(&format!("{number}e{sign}{magnitude}"))
                }
            },
        }
    }
}

impl Quantity {
    fn reads_well_in_binary(self) -> bool {
        self.nanos() % NANOS == 0 && self.nanos().unsigned_abs() >= 1024 * NANOS.unsigned_abs()
    }
}

/// Divides a non-zero number by `factor` while that is exact, at most `limit` times; how often is the second part.
fn without_factors(number: i128, factor: i128, limit: usize) -> (i128, usize) {
    let (mut number, mut times) = (number, 0);
    while times < limit && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}
