//! The guard against runaways: how much may be launched within an hour, and what nodes may cost an hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use berth_api::{NodeClaim, NodePool, labels};
use berth_catalogue::Catalogue;
use berth_model::Money;
use jiff::Timestamp;

use super::{Core, class_key};
use crate::claim::Offers;
use crate::clock::elapsed;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::options::{Ceiling, Ceilings};
use crate::view::pool_of;

const HOUR: Duration = Duration::from_secs(3600);

/// What was launched within the last hour, as far as this process knows, by time: the NodePool of each.
pub(super) type Launches = VecDeque<(Timestamp, String)>;

/// What the NodeClaims cost an hour that there are or that are being created, by NodePool.
pub(super) type Spend = BTreeMap<String, Money>;

impl Core {
    /// What is spent now. Reserved instances are paid for anyhow and count nothing.
    pub(super) fn spend(&self) -> Spend {
        let mut spend = Spend::new();
        let of_class = |(class, offers): (&String, &Offers)| (class.clone(), prices(&offers.types.catalogue));
        let prices: BTreeMap<String, BTreeMap<PricedOffering, Money>> = self.offers.iter().map(of_class).collect();
        for claim in self.state.all::<NodeClaim>() {
            let pool = pool_of(&claim.metadata).unwrap_or_default();
            let prices = claim.spec.node_class_ref.as_ref().and_then(|class| prices.get(&class_key(class)));
            let price = offering_of(claim).and_then(|key| prices?.get(&key).copied());
            *spend.entry(pool.to_owned()).or_insert(Money::ZERO) += price.unwrap_or(Money::ZERO);
        }
        spend
    }

    /// The same where some ceiling is in dollars; nothing where none is.
    pub(super) fn spend_for_ceilings(&self) -> Spend {
        let Ceilings { of_each_pool, in_all } = &self.options.ceilings;
        let is_asked = of_each_pool.dollars_per_hour.or(in_all.dollars_per_hour).is_some();
        if is_asked { self.spend() } else { Spend::new() }
    }

    /// Why one more node of this price may not be launched now; `None` where it may.
    pub(super) fn over_ceiling(&mut self, pool: &str, price: Money, spend: &Spend, now: Timestamp) -> Option<String> {
        while self.launches.front().is_some_and(|(time, _)| elapsed(*time, now) >= HOUR) {
            self.launches.pop_front();
        }
        let of_pool = self.launches.iter().filter(|(_, known)| known == pool).count();
        let spent_in_all: Money = spend.values().copied().sum();
        let spent_of_pool = spend.get(pool).copied().unwrap_or(Money::ZERO);
        let ceilings = &self.options.ceilings;
        let over = |ceiling: &Ceiling, n: usize, spent: Money, of: &str| {
            if let Some(most) = ceiling.launches_per_hour.filter(|most| u32::try_from(n).is_ok_and(|n| n >= *most)) {
                let nodes = if n == 1 { "node was" } else { "nodes were" };
                return Some(format!("{n} {nodes} launched within an hour{of}, and {most} is the ceiling"));
            }
            let most = ceiling.dollars_per_hour.filter(|most| price > Money::ZERO && spent + price > *most)?;
            let (with, most) = ((spent + price).dollars(), most.dollars());
            Some(format!("the nodes{of} would cost ${with:.4} an hour, and ${most:.4} is the ceiling"))
        };
        over(&ceilings.of_each_pool, of_pool, spent_of_pool, "")
            .or_else(|| over(&ceilings.in_all, self.launches.len(), spent_in_all, " of all NodePools"))
    }

    /// Tells on a NodePool that a ceiling keeps it from launching.
    pub(super) fn tell_ceiling(&mut self, pool: &NodePool, why: &str, now: Timestamp) {
        let message = format!("nothing is launched: {why}");
        self.tell(Notice::about(Kind::NodePool, &pool.metadata, "LaunchCeiling", message), now);
    }
}

/// Instance type, zone and capacity type.
type PricedOffering = (String, Option<String>, String);

fn prices(catalogue: &Catalogue) -> BTreeMap<PricedOffering, Money> {
    let mut prices = BTreeMap::new();
    for of_type in catalogue.types() {
        for offering in &of_type.offerings {
            let Some(capacity_type) = offering.capacity_type().filter(|own| own.as_str() != "reserved") else {
                continue;
            };
            let key = (of_type.name.clone(), offering.zone().map(str::to_owned), capacity_type.as_str().to_owned());
            prices.insert(key, offering.price);
        }
    }
    prices
}

/// What a NodeClaim is, or is planned as.
fn offering_of(claim: &NodeClaim) -> Option<PricedOffering> {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
    if let (Some(of_type), Some(capacity_type)) = (label(labels::INSTANCE_TYPE), label(labels::CAPACITY_TYPE)) {
        return Some((of_type, label(labels::ZONE), capacity_type));
    }
    let planned = crate::claim::planned_offering(claim)?;
    Some((planned.instance_type, planned.zone, planned.capacity_type))
}
