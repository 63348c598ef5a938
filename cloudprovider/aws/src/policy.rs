//! The rights that reading a catalogue takes.

/// The actions that are called, all of them reading ones, in the order of their names.
///
/// `sts:GetCallerIdentity`, which says whose account it is, needs no right.
pub const ACTIONS: [&str; 6] = [
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeSpotPriceHistory",
    "pricing:GetProducts",
];

/// The IAM policy that allows exactly what a catalogue takes. None of these actions can be limited to resources.
pub fn iam_policy() -> String {
    policy("BerthReadsCatalogue", &ACTIONS)
}

/// The statement that would allow one action, on one line.
pub fn statement_for(action: &str) -> String {
    format!(r#"{{"Effect": "Allow", "Action": "{action}", "Resource": "*"}}"#)
}

fn policy(sid: &str, actions: &[&str]) -> String {
    let actions: Vec<String> = actions.iter().map(|action| format!("        \"{action}\"")).collect();
    format!(
        "{{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": [\n    {{\n      \"Sid\": \"{sid}\",\n      \"Effect\": \
         \"Allow\",\n      \"Action\": [\n{}\n      ],\n      \"Resource\": \"*\"\n    }}\n  ]\n}}\n",
        actions.join(",\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_the_actions_and_nothing_else() {
        let policy: serde_json::Value = serde_json::from_str(&iam_policy()).unwrap();
        let statement = &policy["Statement"][0];
        assert_eq!(statement["Action"], serde_json::json!(ACTIONS));
        assert_eq!(policy["Statement"].as_array().unwrap().len(), 1);
        assert!(ACTIONS.iter().all(|action| action.contains(":Describe") || action.contains(":Get")));
        let one: serde_json::Value = serde_json::from_str(&statement_for("ec2:DescribeInstanceTypes")).unwrap();
        assert_eq!(one["Action"], "ec2:DescribeInstanceTypes");
    }
}
