//! Accounts to put into the emulator.

use serde_json::{Value, json};

const TYPES: [&str; 12] = [
    "m5.large",
    "m5.xlarge",
    "c5.2xlarge",
    "r6g.4xlarge",
    "p5.48xlarge",
    "g5.12xlarge",
    "t3.small",
    "m7i-flex.large",
    "i3en.6xlarge",
    "inf2.24xlarge",
    "c7g.medium",
    "m5.metal",
];
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
pub(crate) const STATES: [&str; 14] = [
    "active",
    "active",
    "active",
    "active",
    "active",
    "active",
    "scheduled",
    "pending",
    "payment-pending",
    "assessing",
    "expired",
    "cancelled",
    "failed",
    "payment-failed",
];

/// What is reserved: so many, of every state and kind.
pub(crate) fn reservations(count: usize) -> Vec<Value> {
    (0..count).map(reservation).collect()
}

fn reservation(i: usize) -> Value {
    let total = 1 + i % 40;
    let state = STATES[i % STATES.len()];
    let free = if state == "active" { (i * 7) % (total + 1) } else { 0 };
    let mut one = json!({
        "CapacityReservationId": format!("cr-{i:017x}"),
        "InstanceType": TYPES[i % TYPES.len()],
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONES[(i / 5) % ZONES.len()],
        "TotalInstanceCount": total,
        "AvailableInstanceCount": free,
        "State": state,
        "InstanceMatchCriteria": if i.is_multiple_of(3) { "open" } else { "targeted" },
        "ReservationType": if i % 4 == 3 { "capacity-block" } else { "default" },
        "StartDate": if ["scheduled", "pending", "payment-pending", "assessing"].contains(&state) {
            "2199-12-01T00:00:00+00:00"
        } else {
            "2026-01-02T03:04:05+00:00"
        },
        "EndDateType": "unlimited",
        "CreateDate": "2026-01-01T00:00:00+00:00",
        "Tags": [{"Key": "team", "Value": format!("team {}", i % 5)}, {"Key": "Name", "Value": format!("n°{i} <&>")}],
    });
    if i % 4 == 3 {
        one["EndDate"] = json!("2199-12-31T11:30:00+00:00");
        one["EndDateType"] = json!("limited");
    }
    if i % 11 == 5 {
        one["OwnerId"] = json!("999988887777");
    }
    if i % 13 == 6 {
        one["Interruptible"] = json!(true);
    }
    match i % 29 {
        7 => one["InstancePlatform"] = json!("Windows"),
        11 => one["Tenancy"] = json!("dedicated"),
        13 => one["OutpostArn"] = json!("arn:aws:outposts:us-east-1:123456789012:outpost/op-1"),
        17 => one["PlacementGroupArn"] = json!("arn:aws:ec2:us-east-1:123456789012:placement-group/pg"),
        19 => one["InstanceType"] = json!("q1.nobody-knows"),
        _ => {}
    }
    one
}
