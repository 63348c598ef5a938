//! NodeOverlay, `karpenter.sh/v1alpha1`: corrections to the prices and capacities of instance types.

use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::object::cluster_object;
use crate::{Operator, ResourceList};

cluster_object! {
    /// A correction to the price or capacity of some instance types.
    NodeOverlay {
        group: "karpenter.sh", version: "v1alpha1", plural: "nodeoverlays",
        spec: NodeOverlaySpec, status: NodeOverlayStatus,
    }
}

/// Which instance types are corrected, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// Conditions on the labels of the offerings that it applies to, at most 100.
    #[serde(default)]
    pub requirements: Vec<OverlayRequirement>,
    /// The price an hour, a decimal number. Not together with priceAdjustment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// A change to the price: an amount such as `+0.5` or `-0.5`, or a share such as `+10%` or `-15%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Extended resources that the instance types have besides.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// Overlays of higher weight win, 1 to 10000; unset counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A condition on a label of an offering.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct OverlayRequirement {
    /// The label that the condition is on.
    pub key: String,
    /// How the values bear on the label.
    pub operator: Operator,
    /// At least one for In and NotIn, none for Exists and DoesNotExist, one integer for the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What was observed of a NodeOverlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct NodeOverlayStatus {
    /// ValidationSucceeded and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A `priceAdjustment`, taken apart; the numbers are decimal text, so that no precision is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceAdjustment {
    /// Add this signed amount to the price.
    Amount(String),
    /// Change the price by this signed share, in percent; not below -100.
    Percent(String),
}

impl FromStr for PriceAdjustment {
    type Err = PriceAdjustmentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let signed = text.strip_prefix(['+', '-']).ok_or(PriceAdjustmentError)?;
        let (number, percent) = signed.strip_suffix('%').map_or((signed, false), |number| (number, true));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = number.split_once('.').unwrap_or(("", number));
        if !is_number(whole) || !is_number(fraction) || fraction.is_empty() {
            return Err(PriceAdjustmentError);
        }
        if !percent {
            return Ok(Self::Amount(text.to_owned()));
        }
        // A discount has one or two digits before the point, or is exactly 100.
        let whole_digits = number.split('.').next().map_or(0, str::len);
        if text.starts_with('-') && number != "100" && !(1..=2).contains(&whole_digits) {
            return Err(PriceAdjustmentError);
        }
        Ok(Self::Percent(text.trim_end_matches('%').to_owned()))
    }
}

/// A text is no price adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a signed amount such as +0.5 or a signed share such as -15%, not below -100%")]
pub struct PriceAdjustmentError;
