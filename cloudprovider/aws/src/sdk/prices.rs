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

/// The instance type of a product and what an hour of it costs in dollars; `None` for products without such a price.
///
/// # Errors
/// Text that is no product.
pub(super) fn price(item: &str) -> Result<Option<(String, Money)>, serde_json::Error> {
    let item: Item = serde_json::from_str(item)?;
    let dimensions = item.terms.on_demand.values().flat_map(|offer| offer.price_dimensions.values());
    let prices = dimensions.filter_map(|dimension| dimension.price_per_unit.get("USD")?.parse::<Money>().ok());
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
        let found = price(&item(r#"{"USD": "0.0960000000"}"#)).unwrap();
        assert_eq!(found, Some(("m5.large".to_owned(), "0.096".parse().unwrap())));
        assert_eq!(price(&item(r#"{"USD": "0.0000000000"}"#)).unwrap(), None);
        assert_eq!(price(&item(r#"{"CNY": "1.0"}"#)).unwrap(), None);
        assert!(price("{").is_err());
        assert_eq!(price(r#"{"product": {"attributes": {}}, "terms": {}}"#).unwrap(), None);
    }
}
