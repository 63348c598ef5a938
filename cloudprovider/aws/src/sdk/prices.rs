//! AWS' price list: an on-demand price from the JSON of each product.

use std::collections::BTreeMap;

use berth_catalogue::Money;
use serde::Deserialize;

/// The part of a product that matters.
#[derive(Deserialize)]
struct Item {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    instance_type: Option<String>,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Offer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offer {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    #[serde(default)]
    price_per_unit: BTreeMap<String, String>,
}

/// Where a region's prices are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PriceList {
    /// The region whose endpoint serves them: few do, each for all regions of its partition.
    pub(super) endpoint: &'static str,
    /// The currency, as the price list spells it.
    pub(super) currency: &'static str,
}

/// The price list of a region; `None` where the region's partition has none.
pub(super) fn price_list_of(region: &str) -> Option<PriceList> {
    // Partitions that have a word or a letter before the first dash of their own; all others are commercial.
    match region.split('-').collect::<Vec<_>>().as_slice() {
        ["cn", ..] => Some(PriceList { endpoint: "cn-northwest-1", currency: "CNY" }),
        ["us", "gov" | "iso" | "isob" | "isof", ..] | ["eu", "isoe", ..] | ["eusc", ..] => None,
        ["eu" | "il" | "me" | "af", ..] => Some(PriceList { endpoint: "eu-central-1", currency: "USD" }),
        ["ap", ..] => Some(PriceList { endpoint: "ap-south-1", currency: "USD" }),
        _ => Some(PriceList { endpoint: "us-east-1", currency: "USD" }),
    }
}

/// The instance type of a product and what an hour of it costs; `None` for products without a price in this currency.
///
/// # Errors
/// Text that is no product.
pub(super) fn price(item: &str, currency: &str) -> Result<Option<(String, Money)>, serde_json::Error> {
    let item: Item = serde_json::from_str(item)?;
    let dimensions = item.terms.on_demand.values().flat_map(|offer| offer.price_dimensions.values());
    let prices = dimensions.filter_map(|dimension| dimension.price_per_unit.get(currency)?.parse::<Money>().ok());
    // Products of capacity that is booked and not used cost nothing here, and would make a type free.
    let price = prices.filter(|price| !price.is_zero() && !price.is_negative()).min();
    Ok(item.product.attributes.instance_type.zip(price))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_has_a_price_or_none() {
        let item = |unit: &str| {
            format!(
                r#"{{"product": {{"attributes": {{"instanceType": "m5.large", "vcpu": "2"}}}}, "serviceCode": "AmazonEC2",
                    "terms": {{"OnDemand": {{"A.B": {{"priceDimensions": {{"A.B.C": {{"unit": "Hrs", "pricePerUnit": {unit}}}}}}}}}}}}}"#
            )
        };
        let found = price(&item(r#"{"USD": "0.0960000000"}"#), "USD").unwrap();
        assert_eq!(found, Some(("m5.large".to_owned(), "0.096".parse().unwrap())));
        assert_eq!(price(&item(r#"{"USD": "0.0000000000"}"#), "USD").unwrap(), None);
        assert_eq!(price(&item(r#"{"CNY": "1.0"}"#), "USD").unwrap(), None);
        let yuan = price(&item(r#"{"CNY": "1.0"}"#), "CNY").unwrap();
        assert_eq!(yuan, Some(("m5.large".to_owned(), "1".parse().unwrap())));
        assert!(price("{", "USD").is_err());
        assert_eq!(price(r#"{"product": {"attributes": {}}, "terms": {}}"#, "USD").unwrap(), None);
    }

    #[test]
    fn each_partition_has_its_own_price_list_or_none() {
        let of = |region: &str| price_list_of(region).map(|list| (list.endpoint, list.currency));
        assert_eq!(of("us-west-2"), Some(("us-east-1", "USD")));
        assert_eq!(of("ca-central-1"), Some(("us-east-1", "USD")));
        assert_eq!(of("eu-west-1"), Some(("eu-central-1", "USD")));
        assert_eq!(of("ap-southeast-2"), Some(("ap-south-1", "USD")));
        assert_eq!(of("cn-north-1"), Some(("cn-northwest-1", "CNY")));
        assert_eq!([of("us-gov-west-1"), of("us-iso-east-1"), of("eu-isoe-west-1"), of("eusc-de-east-1")], [None; 4]);
    }
}
