//! The calls: each reads all of its pages; together they make an account.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types;
use berth_catalogue::Money;
use jiff::Timestamp;

use super::{AskError, Aws, Cause, PriceSource, Step, answers, prices};
use crate::{Account, CapacityReservation, InstanceFacts, OnDemandPrices, snapshot};

type Result<T> = std::result::Result<T, AskError>;

/// The items of all pages of a call of the SDK.
macro_rules! all_pages {
    ($aws:expr, $action:expr, $what:expr, $progress:expr, $pages:expr, $items:ident) => {{
        let mut pages = $pages;
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| AskError::of($action, &$aws.region, &error))?;
            all.extend_from_slice(page.$items());
            $progress(Step { what: $what, count: all.len(), is_done: false });
        }
        $progress(Step { what: $what, count: all.len(), is_done: true });
        all
    }};
}

pub(super) async fn account(
    aws: &Aws,
    os: &str,
    source: PriceSource,
    now: Timestamp,
    progress: &dyn Fn(Step),
) -> Result<Account> {
    let (id, zones, instance_types, offered, on_demand, spot, reservations) = futures::join!(
        caller(aws),
        zones(aws, progress),
        instance_types(aws, progress),
        offered(aws, progress),
        on_demand(aws, os, source, progress),
        spot(aws, os, now, progress),
        reservations(aws, progress),
    );
    let failed = [
        zones.as_ref().err(),
        reservations.as_ref().err(),
        offered.as_ref().err(),
        instance_types.as_ref().err(),
        spot.as_ref().err(),
        on_demand.as_ref().err(),
        id.as_ref().err(),
    ];
    if let Some(error) = AskError::merged(failed.into_iter().flatten().cloned().collect()) {
        return Err(error);
    }
    let (on_demand, note) = on_demand?;
    let bundled = snapshot::prices().map_err(|error| AskError::local("read the snapshot", &error.to_string()))?;
    Ok(Account {
        list_prices: bundled,
        id: id?,
        zones: zones?,
        instance_types: instance_types?,
        offered: offered?,
        on_demand,
        spot: spot?,
        reservations: reservations?,
        notes: note.into_iter().collect(),
    })
}

pub(super) async fn reservations_and_caller(
    aws: &Aws,
    progress: &dyn Fn(Step),
) -> Result<(Vec<CapacityReservation>, String)> {
    let (reservations, caller) = futures::join!(reservations(aws, progress), caller(aws));
    Ok((reservations?, caller?))
}

/// The account's number; empty where STS cannot be reached, as in a network with EC2's endpoint alone.
async fn caller(aws: &Aws) -> Result<String> {
    const ACTION: &str = "sts:GetCallerIdentity";
    match aws.sts.get_caller_identity().send().await.map_err(|e| AskError::of(ACTION, &aws.region, &e)) {
        Ok(answer) => Ok(answer.account().unwrap_or_default().to_owned()),
        Err(AskError { cause: Cause::Unreachable(_), .. }) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

async fn zones(aws: &Aws, progress: &dyn Fn(Step)) -> Result<BTreeMap<String, String>> {
    const ACTION: &str = "ec2:DescribeAvailabilityZones";
    let answer =
        aws.ec2.describe_availability_zones().send().await.map_err(|e| AskError::of(ACTION, &aws.region, &e))?;
    let open = answer.availability_zones().iter().filter(|zone| zone.state().is_none_or(|s| s.as_str() == "available"));
    let zones: BTreeMap<String, String> = open
        .filter_map(|zone| Some((zone.zone_name()?.to_owned(), zone.zone_id().unwrap_or_default().to_owned())))
        .collect();
    if zones.is_empty() {
        return Err(AskError::broken(ACTION, "no zones"));
    }
    progress(Step { what: "zones", count: zones.len(), is_done: true });
    Ok(zones)
}

async fn instance_types(aws: &Aws, progress: &dyn Fn(Step)) -> Result<Vec<InstanceFacts>> {
    const ACTION: &str = "ec2:DescribeInstanceTypes";
    let pages = aws.ec2.describe_instance_types().into_paginator().page_size(100).send();
    let found = all_pages!(aws, ACTION, "instance types", progress, pages, instance_types);
    let bundled: BTreeMap<String, InstanceFacts> = snapshot::types()
        .map_err(|error| AskError::local("read the snapshot", &error.to_string()))?
        .into_iter()
        .map(|known| (known.name.clone(), known))
        .collect();
    let facts = found.iter().filter_map(answers::facts).map(|mut facts| {
        // EC2 does not say these, or not yet for this type.
        if let Some(known) = bundled.get(&facts.name) {
            facts.branch_interfaces = known.branch_interfaces;
            facts.network_mbps = known.network_mbps.or(facts.network_mbps);
        }
        facts
    });
    let facts: Vec<InstanceFacts> = facts.collect();
    if facts.is_empty() {
        return Err(AskError::broken(ACTION, "no instance types"));
    }
    Ok(facts)
}

async fn offered(aws: &Aws, progress: &dyn Fn(Step)) -> Result<BTreeMap<String, BTreeSet<String>>> {
    const ACTION: &str = "ec2:DescribeInstanceTypeOfferings";
    let request = aws.ec2.describe_instance_type_offerings().location_type(types::LocationType::AvailabilityZone);
    let pages = request.into_paginator().page_size(1000).send();
    let found = all_pages!(aws, ACTION, "offerings", progress, pages, instance_type_offerings);
    let mut offered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for offering in &found {
        if let (Some(name), Some(zone)) = (offering.instance_type(), offering.location()) {
            offered.entry(name.as_str().to_owned()).or_default().insert(zone.to_owned());
        }
    }
    Ok(offered)
}

/// The latest price of each type and zone. History from now on is what holds now.
async fn spot(
    aws: &Aws,
    os: &str,
    now: Timestamp,
    progress: &dyn Fn(Step),
) -> Result<BTreeMap<(String, String), Money>> {
    const ACTION: &str = "ec2:DescribeSpotPriceHistory";
    let products: &[&str] =
        if os == "windows" { &["Windows", "Windows (Amazon VPC)"] } else { &["Linux/UNIX", "Linux/UNIX (Amazon VPC)"] };
    let request = aws
        .ec2
        .describe_spot_price_history()
        .start_time(aws_smithy_types::DateTime::from_secs(now.as_second()))
        .set_product_descriptions(Some(products.iter().map(|product| (*product).to_owned()).collect()));
    let pages = request.into_paginator().page_size(1000).send();
    let found = all_pages!(aws, ACTION, "spot prices", progress, pages, spot_price_history);
    let mut latest: BTreeMap<(String, String), (i64, Money)> = BTreeMap::new();
    for entry in &found {
        let (Some(name), Some(zone)) = (entry.instance_type(), entry.availability_zone()) else { continue };
        let text = entry.spot_price().unwrap_or_default();
        let price: Money = text
            .parse()
            .map_err(|_| AskError::broken(ACTION, format!("the spot price of {} is {text:?}", name.as_str())))?;
        let time = entry.timestamp().map_or(i64::MIN, aws_smithy_types::DateTime::secs);
        let key = (name.as_str().to_owned(), zone.to_owned());
        if latest.get(&key).is_none_or(|(known, _)| *known < time) {
            latest.insert(key, (time, price));
        }
    }
    Ok(latest.into_iter().map(|(key, (_, price))| (key, price)).collect())
}

async fn reservations(aws: &Aws, progress: &dyn Fn(Step)) -> Result<Vec<CapacityReservation>> {
    const ACTION: &str = "ec2:DescribeCapacityReservations";
    let pages = aws.ec2.describe_capacity_reservations().into_paginator().page_size(1000).send();
    let found = all_pages!(aws, ACTION, "reservations", progress, pages, capacity_reservations);
    let known: Vec<CapacityReservation> = found.iter().filter_map(answers::reservation).collect();
    if known.len() < found.len() {
        let count = found.len() - known.len();
        return Err(AskError::broken(ACTION, format!("{count} reservations without id, instance type or zone")));
    }
    Ok(known)
}

/// On-demand prices, and what a plan must tell of them.
async fn on_demand(
    aws: &Aws,
    os: &str,
    source: PriceSource,
    progress: &dyn Fn(Step),
) -> Result<(OnDemandPrices, Option<String>)> {
    let list = match (source, prices::price_list_of(&aws.region)) {
        (PriceSource::Bundled, _) => return bundled(aws, os, "asked for"),
        (PriceSource::PriceList, None) => return bundled(aws, os, "as AWS lists none for this partition"),
        (PriceSource::PriceList, Some(list)) => list,
    };
    match price_list(aws, os, list.currency, progress).await {
        Ok(prices) => {
            let note = (list.currency != "USD").then(|| format!("prices are in {}, not in dollars", list.currency));
            Ok((prices, note))
        }
        Err(AskError { cause: Cause::Unreachable(_), .. }) => bundled(aws, os, "as the price list cannot be reached"),
        Err(error) => Err(error),
    }
}

fn bundled(aws: &Aws, os: &str, why: &str) -> Result<(OnDemandPrices, Option<String>)> {
    if os == "windows" {
        return Err(AskError::local("price nodes of Windows", "the bundled prices are of Linux"));
    }
    let prices = snapshot::prices().map_err(|error| AskError::local("read the snapshot", &error.to_string()))?;
    let of = if aws.region == snapshot::REGION {
        String::new()
    } else {
        format!(" of {}, not of {},", snapshot::REGION, aws.region)
    };
    let note = format!("on-demand prices are the bundled ones{of} of {}, {why}", snapshot::DATE);
    Ok((prices, Some(note)))
}

async fn price_list(aws: &Aws, os: &str, currency: &str, progress: &dyn Fn(Step)) -> Result<OnDemandPrices> {
    const ACTION: &str = "pricing:GetProducts";
    let (virtual_machines, bare_metal) = futures::join!(
        products(aws, os, "Compute Instance", "Shared", progress),
        // A whole server is never shared.
        products(aws, os, "Compute Instance (bare metal)", "Dedicated", progress),
    );
    let mut prices = OnDemandPrices::new();
    for item in virtual_machines?.iter().chain(&bare_metal?) {
        let price = prices::price(item, currency).map_err(|error| AskError::broken(ACTION, error.to_string()))?;
        prices.extend(price);
    }
    Ok(prices)
}

async fn products(aws: &Aws, os: &str, family: &str, tenancy: &str, progress: &dyn Fn(Step)) -> Result<Vec<String>> {
    use aws_sdk_pricing::types::{Filter, FilterType};
    const ACTION: &str = "pricing:GetProducts";
    let system = if os == "windows" { "Windows" } else { "Linux" };
    let wanted = [
        ("regionCode", aws.region.as_str()),
        ("productFamily", family),
        ("operatingSystem", system),
        ("preInstalledSw", "NA"),
        ("licenseModel", "No License required"),
        ("capacitystatus", "Used"),
        ("tenancy", tenancy),
        ("marketoption", "OnDemand"),
    ];
    let mut request = aws.pricing.get_products().service_code("AmazonEC2").format_version("aws_v1");
    for (field, value) in wanted {
        let filter = Filter::builder().field(field).value(value).r#type(FilterType::TermMatch).build();
        request = request.filters(filter.map_err(|error| AskError::local("make a filter", &error.to_string()))?);
    }
    let pages = request.into_paginator().page_size(100).send();
    Ok(all_pages!(aws, ACTION, "prices", progress, pages, price_list))
}
