//! Random instance catalogues.

use serde_json::{Value, json};

use super::rng::Rng;
use super::{GPU, Size, ZONES};

fn requirement(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [value]})
}

fn offering(capacity_type: &str, zone: &str, price: f64) -> Value {
    json!({
        "Price": price,
        "Available": true,
        "Requirements": [
            requirement("karpenter.sh/capacity-type", capacity_type),
            requirement("topology.kubernetes.io/zone", zone),
        ],
    })
}

/// So many parts as a price, the nearest number to the decimal.
fn price(amount: u64, parts: f64) -> f64 {
    f64::from(u32::try_from(amount).unwrap_or(u32::MAX)) / parts
}

fn reserved(rng: &mut Rng, size: Size, zone: &str, cents: u64, ids: u64) -> Value {
    let own_price = if rng.percent(50) { price(cents, 100.0) } else { price(cents, 1e9) };
    let mut value = offering("reserved", zone, own_price);
    // The same few ids under several types and zones: shared counts, which may conflict.
    let id = rng.between(1, ids);
    let slots = if size == Size::Tiny { 1 + id % 3 } else { id % 4 + rng.between(0, 1) };
    let key = if size == Size::Tiny {
        "karpenter.sh/reservation-id"
    } else {
        rng.pick(&[
            "berth.sh/capacity-reservation-id",
            "karpenter.sh/reservation-id",
            "karpenter.k8s.aws/capacity-reservation-id",
        ])
    };
    if let Some(requirements) = value["Requirements"].as_array_mut() {
        requirements.push(requirement(key, &format!("cr-{id}")));
    }
    if size != Size::Tiny && rng.percent(30) {
        value["Available"] = slots.into();
    } else {
        value["ReservationCapacity"] = slots.into();
    }
    value
}

/// 2 to 30 types, each in some zones, with some capacity types.
pub(super) fn catalogue(rng: &mut Rng, size: Size) -> Vec<Value> {
    let types = match size {
        Size::Tiny => rng.between(2, 6),
        Size::Small => rng.between(2, 12),
        Size::Medium => rng.between(8, 30),
    };
    let ids = rng.between(1, 5);
    (0..types)
        .map(|index| {
            let cpu = *rng.pick(&[1, 2, 4, 8, 16, 32]);
            let memory = cpu * *rng.pick(&[2, 4, 8]);
            let gpus = if rng.percent(20) { rng.between(1, 4) } else { 0 };
            let arch = if rng.percent(25) { "arm64" } else { "amd64" };
            // The index keeps prices of different types apart.
            let cents = cpu * 4 + memory + gpus * 90 + index;
            let mut resources = json!({
                "cpu": if rng.percent(30) { format!("{}m", cpu * 1000 - 80) } else { cpu.to_string() },
                "memory": format!("{memory}Gi"),
                "ephemeral-storage": "20Gi",
                "pods": rng.pick(&["8", "30", "110"]),
            });
            if gpus > 0 {
                resources[GPU] = gpus.to_string().into();
            }
            let mut offerings = Vec::new();
            for zone in rng.some(&ZONES) {
                let mut on_demand = offering("on-demand", zone, price(cents, 100.0));
                if rng.percent(8) {
                    on_demand["Available"] = false.into();
                }
                offerings.push(on_demand);
                if rng.percent(50) {
                    offerings.push(offering("spot", zone, price(cents * rng.between(28, 75), 10_000.0)));
                }
                if rng.percent(35) {
                    offerings.push(reserved(rng, size, zone, cents, ids));
                }
            }
            json!({
                "name": format!("type-{index:02}"),
                "architecture": arch,
                "operatingSystems": ["linux"],
                "resources": resources,
                "offerings": offerings,
            })
        })
        .collect()
}
