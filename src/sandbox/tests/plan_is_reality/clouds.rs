//! What the cloud offers: types, zones, prices, stocks and slots, by chance.

use serde_json::{Value, json};

use crate::dice::Dice;

pub(crate) const ZONES: [&str; 3] = ["port-1a", "port-1b", "port-1c"];
/// Name, GiB a vCPU, and dollars a vCPU and hour.
const FAMILIES: [(&str, u32, f64); 3] = [("c5", 2, 0.0425), ("m5", 4, 0.048), ("r5", 8, 0.063)];
const SIZES: [(&str, u32); 4] = [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)];

fn offering(capacity_type: &str, zone: &str, price: f64) -> Value {
    json!({"Price": price, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]})
}

/// The name of a type.
pub(crate) fn type_name(dice: &mut Dice) -> String {
    format!("{}.{}", dice.one_of(&FAMILIES).0, dice.one_of(&SIZES).0)
}

/// A catalogue as the file has it.
pub(crate) fn catalogue(dice: &mut Dice) -> Value {
    let reservations: Vec<(String, Vec<String>, Vec<&str>, usize)> = (0..dice.roll(4))
        .map(|n| {
            let types = (0..=dice.roll(2)).map(|_| type_name(dice)).collect();
            (format!("cr-{n}"), types, dice.some_of(&ZONES, 30), 1 + dice.roll(5))
        })
        .collect();
    let mut types = Vec::new();
    for (family, gib, price) in FAMILIES {
        for (size, vcpus) in SIZES {
            let name = format!("{family}.{size}");
            let price = f64::from(vcpus) * price;
            let mut offerings = Vec::new();
            for zone in ZONES {
                let mut on_demand = offering("on-demand", zone, price);
                match dice.roll(20) {
                    0 => on_demand["Available"] = json!(false),
                    1 => on_demand["Available"] = json!(1 + dice.roll(3)),
                    _ => {}
                }
                offerings.push(on_demand);
                let percent = u32::try_from(28 + dice.roll(30)).unwrap();
                let spot = (price * f64::from(percent) * 100.0).round() / 10_000.0;
                offerings.push(offering("spot", zone, spot));
                for (id, _, _, slots) in
                    reservations.iter().filter(|own| own.1.contains(&name) && own.2.contains(&zone))
                {
                    let mut reserved = offering("reserved", zone, price);
                    reserved["ReservationCapacity"] = json!(slots);
                    reserved["Requirements"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": [id]}));
                    offerings.push(reserved);
                }
            }
            types.push(json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
                "resources": {"cpu": format!("{}m", vcpus * 1000 - 80), "memory": format!("{}Mi", vcpus * gib * 1024 - 700),
                    "pods": if vcpus == 2 { "29" } else { "58" }, "ephemeral-storage": "90Gi"},
                "offerings": offerings}));
        }
    }
    Value::Array(types)
}
