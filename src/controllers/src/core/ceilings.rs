//! The guard against runaways: how much may be launched within an hour, and what nodes may cost an hour.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodeOverlay, NodePool, labels};
use berth_catalogue::Catalogue;
use berth_convert::OverlayFault;
use berth_model::Money;
use jiff::Timestamp;

use super::{Core, class_key};
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
    /// What is spent now, at the prices that NodeOverlays make of the cloud's where they count. Reserved instances are paid for
    /// anyhow and count nothing.
    pub(super) fn spend(&mut self) -> Spend {
        self.update_prices();
        let mut spend = Spend::new();
        for claim in self.state.all::<NodeClaim>() {
            let pool = pool_of(&claim.metadata).unwrap_or_default();
            let of_class = claim.spec.node_class_ref.as_ref().and_then(|class| self.prices.get(&class_key(class)));
            let price = offering_of(claim).and_then(|key| of_class?.of_offerings.get(&key).copied());
            *spend.entry(pool.to_owned()).or_insert(Money::ZERO) += price.unwrap_or(Money::ZERO);
        }
        spend
    }

    /// Brings what nodes cost up to date with what the cloud offers, with NodeOverlays and with the NodePools by which these
    /// select.
    pub(super) fn update_prices(&mut self) {
        let overlays = self.state.all::<NodeOverlay>().filter(|_| self.options.convert.node_overlay);
        let overlays: Vec<Arc<NodeOverlay>> = overlays.cloned().collect();
        // Without overlays nothing depends on NodePools.
        let pools = self.state.all::<NodePool>().filter(|_| !overlays.is_empty());
        let pools: Vec<Arc<NodePool>> = pools.cloned().collect();
        let mut known = std::mem::take(&mut self.prices);
        for (class, offers) in &self.offers {
            let own = |pool: &&Arc<NodePool>| {
                pool.spec.template.spec.node_class_ref.as_ref().is_some_and(|own| class_key(own) == *class)
            };
            let sources = Sources {
                catalogue: Arc::clone(&offers.types.catalogue),
                overlays: overlays.clone(),
                pools: pools.iter().filter(own).cloned().collect(),
            };
            let known = known.remove(class).filter(|known| known.sources.says_as(&sources));
            let prices = known.unwrap_or_else(|| Prices::of(sources));
            self.prices.insert(class.clone(), prices);
        }
    }

    /// The same where some ceiling is in dollars; nothing where none is.
    pub(super) fn spend_for_ceilings(&mut self) -> Spend {
        let Ceilings { of_each_pool, in_all } = &self.options.ceilings;
        let is_asked = of_each_pool.dollars_per_hour.or(in_all.dollars_per_hour).is_some();
        if is_asked { self.spend() } else { Spend::new() }
    }

    /// Why one more node of this price may not be launched now, beside others of these NodePools that are about to be; `None` where it
    /// may.
    pub(super) fn over_ceiling(
        &mut self,
        (pool, price): (&str, Money),
        spend: &Spend,
        others: &[String],
        now: Timestamp,
    ) -> Option<String> {
        while self.launches.front().is_some_and(|(time, _)| elapsed(*time, now) >= HOUR) {
            self.launches.pop_front();
        }
        let pools = || self.launches.iter().map(|(_, known)| known).chain(others);
        let (of_pool, in_all) = (pools().filter(|known| *known == pool).count(), pools().count());
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
            .or_else(|| over(&ceilings.in_all, in_all, spent_in_all, " of all NodePools"))
    }

    /// Tells on a NodePool that a ceiling keeps it from launching.
    pub(super) fn tell_ceiling(&mut self, pool: &NodePool, why: &str, now: Timestamp) {
        let message = format!("nothing is launched: {why}");
        self.tell(Notice::about(Kind::NodePool, &pool.metadata, "LaunchCeiling", message), now);
    }
}

/// Instance type, zone and capacity type.
type PricedOffering = (String, Option<String>, String);

/// What nodes of a node class cost, and what that comes of.
pub(super) struct Prices {
    sources: Sources,
    of_offerings: BTreeMap<PricedOffering, Money>,
    /// What is wrong with NodeOverlays there, by name.
    pub(super) faults: BTreeMap<String, OverlayFault>,
}

/// What the prices of a node class come of.
struct Sources {
    catalogue: Arc<Catalogue>,
    overlays: Vec<Arc<NodeOverlay>>,
    pools: Vec<Arc<NodePool>>,
}

// === impl Prices ===

impl Prices {
    fn of(sources: Sources) -> Self {
        if sources.overlays.is_empty() {
            return Prices { of_offerings: prices_of(&sources.catalogue), faults: BTreeMap::new(), sources };
        }
        let (pools, overlays) = (sources.pools.iter().map(|own| &**own), sources.overlays.iter().map(|own| &**own));
        let made = berth_convert::overlaid(&sources.catalogue, pools, overlays);
        Prices { of_offerings: prices_of(&made.catalogue), faults: made.faults, sources }
    }
}

// === impl Sources ===

impl Sources {
    /// Whether the same prices come of it; most of the time nothing has changed, and nothing is compared.
    fn says_as(&self, other: &Self) -> bool {
        let is_same_overlay = |(a, b): (&Arc<NodeOverlay>, &Arc<NodeOverlay>)| {
            Arc::ptr_eq(a, b) || a.metadata.name == b.metadata.name && a.spec == b.spec
        };
        let is_same_pool = |(a, b): (&Arc<NodePool>, &Arc<NodePool>)| {
            Arc::ptr_eq(a, b) || a.metadata.name == b.metadata.name && a.spec.template == b.spec.template
        };
        (Arc::ptr_eq(&self.catalogue, &other.catalogue) || self.catalogue == other.catalogue)
            && self.overlays.len() == other.overlays.len()
            && self.overlays.iter().zip(&other.overlays).all(is_same_overlay)
            && self.pools.len() == other.pools.len()
            && self.pools.iter().zip(&other.pools).all(is_same_pool)
    }
}

fn prices_of(catalogue: &Catalogue) -> BTreeMap<PricedOffering, Money> {
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
