//! What instances cost and which slots they use, from what happens in the cloud.

use std::collections::BTreeMap;

use berth_catalogue::{CapacityType, Money};
use berth_cloudprovider::{Instance, ProviderId};
use berth_cloudprovider_fake::cloud::{FakeReservation, Prices};
use jiff::Timestamp;

/// Dollars an hour over a time: picodollars × milliseconds / hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bill(i128);

/// An instance that is paid for.
#[derive(Debug, Clone)]
struct Running {
    instance_type: String,
    capacity_type: CapacityType,
    reservation: Option<String>,
    prices: Prices,
}

/// What a slot costs an hour, used or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotPrices {
    /// Whatever uses it.
    Fixed(Money),
    /// As the instance type that uses it; an idle one as the cheapest.
    ByType(BTreeMap<String, Money>),
}

/// A reservation as it is now, and what came of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots {
    pub(crate) definition: FakeReservation,
    pub(crate) prices: SlotPrices,
    /// Instances of this cluster that use a slot now, and by instance type.
    pub(crate) used: u32,
    used_by_type: BTreeMap<String, u32>,
    /// What they cost an hour now, in picodollars.
    rate: i128,
    /// Slots × milliseconds: all, those used here, and those used by others.
    pub(crate) total_ms: u128,
    pub(crate) used_ms: u128,
    pub(crate) others_ms: u128,
    pub(crate) cost: Bill,
    /// The most instances that used a slot at a time.
    pub(crate) most_used: u32,
}

/// What is paid, added up to a time.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    at: Timestamp,
    running: BTreeMap<ProviderId, Running>,
    pub(crate) reservations: BTreeMap<String, Slots>,
    pub(crate) n_launched: u64,
    /// By capacity type: on-demand, spot, reserved.
    pub(crate) counts: [u32; 3],
    pub(crate) node_ms: [u128; 3],
    pub(crate) most_nodes: u32,
    /// What is paid by the hour, now.
    paid_rate: i128,
    list_rate: i128,
    unreserved_rate: i128,
    /// What instances outside reservations cost.
    pub(crate) paid: Bill,
    /// What all instances would have cost at the list price.
    pub(crate) list: Bill,
    /// The same, but spot at its own price: as if there were no reservations.
    pub(crate) unreserved: Bill,
}

// === impl SlotPrices ===

impl Default for SlotPrices {
    fn default() -> Self {
        Self::ByType(BTreeMap::new())
    }
}

impl SlotPrices {
    /// Whether any is known.
    pub(crate) fn are_known(&self) -> bool {
        !matches!(self, Self::ByType(by_type) if by_type.is_empty())
    }

    /// What an idle slot costs.
    pub(crate) fn idle(&self) -> Money {
        match self {
            Self::Fixed(price) => *price,
            Self::ByType(by_type) => by_type.values().min().copied().unwrap_or(Money::ZERO),
        }
    }

    fn of(&self, instance_type: &str) -> Money {
        match self {
            Self::Fixed(price) => *price,
            Self::ByType(by_type) => by_type.get(instance_type).copied().unwrap_or_else(|| self.idle()),
        }
    }

    /// Takes in prices of types that are not known yet: one stays once it is known.
    fn learn(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::ByType(known), Self::ByType(more)) => {
                for (instance_type, price) in more {
                    known.entry(instance_type).or_insert(price);
                }
            }
            (known, Self::Fixed(price)) if !known.are_known() => *known = Self::Fixed(price),
            _ => {}
        }
    }
}

// === impl Bill ===

impl Bill {
    /// Dollars.
    pub(crate) fn dollars(self) -> f64 {
        const MILLIS_PER_HOUR: i128 = 3_600_000;
        // Whole micro-dollars: more digits than a report shows, and the same on every machine.
        let micro = self.0 / MILLIS_PER_HOUR / 1_000_000;
        #[allow(clippy::cast_precision_loss)]
        let micro = micro as f64;
        micro / 1e6
    }

    fn add(&mut self, rate: i128, millis: i128) {
        self.0 = self.0.saturating_add(rate.saturating_mul(millis));
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

pub(crate) const fn index(capacity_type: CapacityType) -> usize {
    match capacity_type {
        CapacityType::OnDemand => 0,
        CapacityType::Spot => 1,
        CapacityType::Reserved => 2,
    }
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            at,
            running: BTreeMap::new(),
            reservations: BTreeMap::new(),
            n_launched: 0,
            counts: [0; 3],
            node_ms: [0; 3],
            most_nodes: 0,
            paid_rate: 0,
            list_rate: 0,
            unreserved_rate: 0,
            paid: Bill::default(),
            list: Bill::default(),
            unreserved: Bill::default(),
        }
    }

    /// Adds up what went on until now.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let millis = now.duration_since(self.at).as_millis();
        if millis <= 0 {
            return;
        }
        self.paid.add(self.paid_rate, millis);
        self.list.add(self.list_rate, millis);
        self.unreserved.add(self.unreserved_rate, millis);
        let elapsed = millis.unsigned_abs();
        for (sum, count) in self.node_ms.iter_mut().zip(self.counts) {
            *sum += u128::from(count) * elapsed;
        }
        for slots in self.reservations.values_mut() {
            let active = slots.active_millis(self.at, now);
            let total = u128::from(slots.definition.total) * active;
            let used = u128::from(slots.used) * active;
            slots.total_ms += total;
            slots.used_ms += used;
            // They have no more of it than there is.
            let left = slots.definition.total.saturating_sub(slots.used);
            slots.others_ms += u128::from(slots.definition.used_by_others.min(left)) * active;
            slots.cost.add(slots.rate, i128::try_from(active).unwrap_or(i128::MAX));
        }
        self.at = now;
    }

    /// Sets what a reservation is from now on; prices stay once they are known.
    pub(crate) fn define(&mut self, id: &str, definition: FakeReservation, prices: SlotPrices) {
        let slots = self.reservations.entry(id.to_owned()).or_default();
        slots.definition = definition;
        slots.prices.learn(prices);
        slots.update_rate();
    }

    pub(crate) fn launched(&mut self, instance: &Instance, prices: Prices) {
        self.n_launched += 1;
        self.start(instance, prices);
        self.most_nodes = self.most_nodes.max(self.counts.iter().sum());
    }

    /// An instance has come under a reservation, or its reservation has ended.
    pub(crate) fn relabelled(&mut self, instance: &Instance, prices: Prices) {
        if self.stop(&instance.provider_id) {
            self.start(instance, prices);
        }
    }

    /// Prices have changed.
    pub(crate) fn reprice(&mut self, mut prices: impl FnMut(&ProviderId) -> Option<Prices>) {
        (self.paid_rate, self.list_rate, self.unreserved_rate) = (0, 0, 0);
        let mut running = std::mem::take(&mut self.running);
        for (id, one) in &mut running {
            if let Some(now) = prices(id) {
                one.prices = now;
            }
            self.add_rates(one, 1);
        }
        self.running = running;
    }

    /// An instance is not paid for any more. Whether it was.
    pub(crate) fn stop(&mut self, id: &ProviderId) -> bool {
        let Some(one) = self.running.remove(id) else { return false };
        self.add_rates(&one, -1);
        let count = &mut self.counts[index(one.capacity_type)];
        *count = count.saturating_sub(1);
        if let Some(slots) = one.reservation.as_ref().and_then(|id| self.reservations.get_mut(id)) {
            slots.used = slots.used.saturating_sub(1);
            if let Some(count) = slots.used_by_type.get_mut(&one.instance_type) {
                *count = count.saturating_sub(1);
            }
            slots.update_rate();
        }
        true
    }

    fn start(&mut self, instance: &Instance, prices: Prices) {
        let one = Running {
            instance_type: instance.offering.instance_type.clone(),
            capacity_type: instance.offering.capacity_type,
            reservation: instance.reservation.clone(),
            prices,
        };
        self.add_rates(&one, 1);
        self.counts[index(one.capacity_type)] += 1;
        if let Some(id) = &one.reservation {
            let slots = self.reservations.entry(id.clone()).or_default();
            slots.used += 1;
            *slots.used_by_type.entry(one.instance_type.clone()).or_default() += 1;
            // The catalogue of a node class may have types that the cloud's own has not.
            slots.prices.learn(SlotPrices::ByType([(one.instance_type.clone(), one.prices.list)].into()));
            slots.update_rate();
            slots.most_used = slots.most_used.max(slots.used);
        }
        self.running.insert(instance.provider_id.clone(), one);
    }

    fn add_rates(&mut self, one: &Running, sign: i128) {
        let Prices { own, list } = one.prices;
        self.paid_rate = self.paid_rate.saturating_add(sign * own.pico());
        self.list_rate = self.list_rate.saturating_add(sign * list.pico());
        let unreserved = if one.capacity_type == CapacityType::Reserved { list } else { own };
        self.unreserved_rate = self.unreserved_rate.saturating_add(sign * unreserved.pico());
    }

    /// What is paid an hour now: nodes outside reservations, and all slots.
    pub(crate) fn dollars_an_hour(&self) -> f64 {
        let slots = self.reservations.values().filter(|slots| slots.active_millis(self.at, self.at) > 0);
        let slots = slots.map(|slots| slots.rate).fold(0, i128::saturating_add);
        Money::from_pico(self.paid_rate.saturating_add(slots)).dollars()
    }

    /// What all nodes would cost an hour now at the list price.
    pub(crate) fn list_dollars_an_hour(&self) -> f64 {
        Money::from_pico(self.list_rate).dollars()
    }

    /// Slots that are used here, and all that there are now.
    pub(crate) fn slots(&self) -> (u32, u32) {
        let active = self.reservations.values().filter(|slots| slots.active_millis(self.at, self.at) > 0);
        active.fold((0, 0), |(used, total): (u32, u32), slots| {
            (used.saturating_add(slots.used), total.saturating_add(slots.definition.total))
        })
    }
}

// === impl Slots ===

impl Slots {
    /// What they cost an hour now: those that are used as the types that use them, as far as there are so many; the others as the
    /// cheapest type.
    fn update_rate(&mut self) {
        let total = self.definition.total;
        let mut used: Vec<(Money, u32)> =
            self.used_by_type.iter().map(|(instance_type, count)| (self.prices.of(instance_type), *count)).collect();
        used.sort();
        let (mut left, mut rate) = (total, 0_i128);
        for (price, count) in used.into_iter().rev() {
            let count = count.min(left);
            left -= count;
            rate = rate.saturating_add(price.pico().saturating_mul(i128::from(count)));
        }
        self.rate = rate.saturating_add(self.prices.idle().pico().saturating_mul(i128::from(left)));
    }

    /// What a slot has cost an hour on average; while there was none, what an idle one costs.
    pub(crate) fn price(&self) -> f64 {
        let is_one = match &self.prices {
            SlotPrices::Fixed(_) => true,
            SlotPrices::ByType(by_type) => by_type.values().max() == by_type.values().min(),
        };
        if is_one || self.total_ms == 0 {
            return self.prices.idle().dollars();
        }
        // Picodollars × milliseconds by milliseconds.
        let mean = i128::try_from(self.total_ms).ok().and_then(|total| self.cost.0.checked_div(total));
        Money::from_pico(mean.unwrap_or_default()).dollars()
    }

    /// How long the reservation was active between two times; 1 for a single moment within it.
    fn active_millis(&self, from: Timestamp, to: Timestamp) -> u128 {
        let start = self.definition.start.map_or(from, |start| start.max(from));
        let end = self.definition.end.map_or(to, |end| end.min(to));
        if from == to {
            let is_over = self.definition.end.is_some_and(|end| end <= to);
            return u128::from(start == from && !is_over);
        }
        u128::try_from(end.duration_since(start).as_millis()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn others_use_no_more_slots_than_there_are() {
        let mut meter = Meter::new(at(0));
        let definition = FakeReservation { total: 2, used_by_others: 4, ..FakeReservation::default() };
        meter.define("r", definition, SlotPrices::default());
        meter.advance(at(3600));
        let slots = &meter.reservations["r"];
        assert_eq!((slots.total_ms, slots.others_ms), (2 * 3_600_000, 2 * 3_600_000));
    }

    #[test]
    fn a_slot_costs_what_the_type_costs_that_uses_it_and_an_idle_one_as_the_cheapest() {
        let prices = [("small", 1), ("large", 2)].map(|(name, price)| (name.to_owned(), Money::from_dollars(price)));
        let definition = FakeReservation { total: 3, ..FakeReservation::default() };
        let mut slots = Slots { definition, prices: SlotPrices::ByType(prices.into()), ..Slots::default() };
        let rate = |slots: &mut Slots| {
            slots.update_rate();
            Money::from_pico(slots.rate)
        };
        assert_eq!(rate(&mut slots), Money::from_dollars(3));
        slots.used_by_type = [("large".to_owned(), 2)].into();
        assert_eq!(rate(&mut slots), Money::from_dollars(5));
        // Who holds more than there is pays for what there is.
        slots.used_by_type = [("large".to_owned(), 2), ("small".to_owned(), 2)].into();
        assert_eq!(rate(&mut slots), Money::from_dollars(5));
        slots.prices = SlotPrices::Fixed(Money::from_dollars(4));
        assert_eq!(rate(&mut slots), Money::from_dollars(12));
    }

    #[test]
    fn a_price_of_a_slot_stays_once_it_is_known() {
        let by_type = |price| SlotPrices::ByType([("a".to_owned(), Money::from_dollars(price))].into());
        let mut prices = SlotPrices::default();
        prices.learn(by_type(1));
        prices.learn(by_type(2));
        prices.learn(SlotPrices::Fixed(Money::from_dollars(3)));
        assert_eq!(prices, by_type(1));
        let mut fixed = SlotPrices::Fixed(Money::from_dollars(3));
        fixed.learn(by_type(1));
        assert_eq!(fixed, SlotPrices::Fixed(Money::from_dollars(3)));
    }

    #[test]
    fn a_reservation_is_paid_for_while_it_is_active() {
        let mut meter = Meter::new(at(0));
        let definition = FakeReservation { total: 2, end: Some(at(3600)), ..FakeReservation::default() };
        meter.define("r", definition, SlotPrices::Fixed(Money::from_dollars(1)));
        meter.advance(at(7200));
        let slots = &meter.reservations["r"];
        assert!((slots.cost.dollars() - 2.0).abs() < 1e-9, "{:?}", slots.cost);
        assert_eq!((slots.total_ms, slots.used_ms), (2 * 3_600_000, 0));
        assert_eq!(meter.slots(), (0, 0));
    }
}
