//! Quantities in JSON and YAML: written as strings, read from strings and plain numbers (`cpu: 2`, `cpu: 0.5`).

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Format, NANOS, Quantity};

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 2, 0.5, \"500m\" or \"1.5Gi\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_value(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_nanos(i128::from(value) * NANOS, Format::DecimalSI))
    }

    /// The shortest decimal that reads back as this float is what was written, up to 17 digits.
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
        value.to_string().parse().map_err(E::custom)
    }

    /// Space around the text is forgiven, as apimachinery's `UnmarshalJSON` does.
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }
}
