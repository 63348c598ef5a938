//! What a requirement asks of a label.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a requirement's values bear on the label: the operators of node selectors, and the two that Karpenter adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum Operator {
    /// The label is one of the values.
    #[default]
    In,
    /// The label is absent or none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
    /// The label is an integer not below the value.
    Gte,
    /// The label is an integer not above the value.
    Lte,
}

/// The text is no operator's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte")]
pub struct ParseOperatorError;

// === impl Operator ===

impl Operator {
    /// Every operator.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// Whether it admits a label's value, or its absence. Comparisons admit integers alone, and none where there is no bound.
    ///
    /// ```
    /// # use berth_quantity::Operator;
    /// let values = ["a".to_owned()];
    /// assert!(Operator::NotIn.admits(&values, None) && !Operator::In.admits(&values, Some("b")));
    /// assert!(Operator::Gt.admits(&["4".to_owned()], Some("5")) && !Operator::Gt.admits(&["4".to_owned()], Some("many")));
    /// ```
    pub fn admits(self, values: &[String], value: Option<&str>) -> bool {
        let is_named = |value: &str| values.iter().any(|named| named == value);
        let compares = |is: fn(&i64, &i64) -> bool| {
            let number = value.and_then(|value| value.parse().ok());
            let bound = values.first().and_then(|bound| bound.parse().ok());
            number.zip(bound).is_some_and(|(number, bound)| is(&number, &bound))
        };
        match self {
            Self::In => value.is_some_and(is_named),
            Self::NotIn => !value.is_some_and(is_named),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt => compares(i64::gt),
            Self::Lt => compares(i64::lt),
            Self::Gte => compares(i64::ge),
            Self::Lte => compares(i64::le),
        }
    }

    /// Whether the operator compares integers, so that it needs exactly one value.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }

    /// The operator as manifests write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

impl FromStr for Operator {
    type Err = ParseOperatorError;

    /// Reads the name as manifests write it, case included.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == name).ok_or(ParseOperatorError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_known_by_its_name_as_manifests_write_it() {
        for operator in Operator::ALL {
            assert_eq!(operator.as_str().parse(), Ok(operator));
            assert_eq!(serde_json::to_value(operator).unwrap(), operator.as_str());
        }
        assert_eq!("in".parse::<Operator>(), Err(ParseOperatorError));
    }
}
