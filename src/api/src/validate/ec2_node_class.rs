//! What is wrong with the node classes of EC2, as far as a plan depends on them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Cause, Errors, FieldError, metadata, shown};
use crate::{BlockDeviceMapping, CapacityReservationSelectorTerm, EC2Kubelet, EC2NodeClass, EksNodeClass};

const MOST_TERMS: usize = 30;
const MOST_TAGS: usize = 20;
const MOST_DEVICES: usize = 50;
const AMI_FAMILIES: [&str; 7] =
    ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

impl EC2NodeClass {
    /// What is wrong with the node class by itself, in the order of its fields, as far as planning depends on it; empty
    /// if nothing is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        check_terms(&spec.capacity_reservation_selector_terms, &mut errors);
        if let Some(family) = spec.ami_family.as_deref().filter(|family| !AMI_FAMILIES.contains(family)) {
            let message = format!("is {}, expected one of {}", shown(family), AMI_FAMILIES.join(", "));
            errors.invalid("spec.amiFamily", message);
        }
        for (index, term) in spec.ami_selector_terms.iter().enumerate() {
            let known = |alias: &str| {
                let family = alias.split_once('@').map(|(family, _)| family);
                let names = AMI_FAMILIES.iter().filter(|name| **name != "Custom");
                family.is_some_and(|family| names.clone().any(|name| name.eq_ignore_ascii_case(family)))
            };
            if let Some(alias) = term.alias.as_deref().filter(|alias| !known(alias)) {
                let message = format!("is {}, expected FAMILY@VERSION such as \"al2023@latest\"", shown(alias));
                errors.invalid(format!("spec.amiSelectorTerms[{index}].alias"), message);
            }
        }
        if let Some(kubelet) = &spec.kubelet {
            check_kubelet(kubelet, &mut errors);
        }
        check_devices(&spec.block_device_mappings, &mut errors);
        if let Some(policy) = spec.instance_store_policy.as_deref().filter(|policy| *policy != "RAID0") {
            errors.invalid("spec.instanceStorePolicy", format!("is {}, expected RAID0", shown(policy)));
        }
        errors.0
    }
}

impl EksNodeClass {
    /// What is wrong with the node class by itself, in the order of its fields, as far as planning depends on it; empty
    /// if nothing is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        check_terms(&self.spec.capacity_reservation_selector_terms, &mut errors);
        let size = self.spec.ephemeral_storage.as_ref().and_then(|storage| storage.size);
        if let Some(size) = size.filter(|size| size.is_negative() || size.is_zero()) {
            errors.invalid("spec.ephemeralStorage.size", format!("is {size}, expected more than 0"));
        }
        errors.0
    }
}

fn check_terms(terms: &[CapacityReservationSelectorTerm], errors: &mut Errors) {
    const PATH: &str = "spec.capacityReservationSelectorTerms";
    if errors.too_many(PATH, terms.len(), MOST_TERMS) {
        return;
    }
    for (index, term) in terms.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let CapacityReservationSelectorTerm { id, tags, owner_id, instance_match_criteria: criteria } = term;
        if id.is_none() && tags.is_empty() && criteria.is_none() {
            errors.required(&path, "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']");
        }
        if id.is_some() && (!tags.is_empty() || owner_id.is_some() || criteria.is_some()) {
            let message = "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term";
            errors.forbidden(&path, message);
        }
        let is_id = |id: &str| {
            let rest = id.strip_prefix("cr-").filter(|rest| !rest.is_empty());
            rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
        };
        if let Some(id) = id.as_deref().filter(|id| !is_id(id)) {
            errors.invalid(format!("{path}.id"), format!("is {}, expected cr- and letters or digits", shown(id)));
        }
        errors.too_many(&format!("{path}.tags"), tags.len(), MOST_TAGS);
        if tags.iter().any(|(key, value)| key.is_empty() || value.is_empty()) {
            errors.add(Cause::Invalid, format!("{path}.tags"), "empty tag keys or values aren't supported");
        }
        let is_account = |owner: &str| owner.len() == 12 && owner.bytes().all(|b| b.is_ascii_digit());
        if let Some(owner) = owner_id.as_deref().filter(|owner| !is_account(owner)) {
            errors.invalid(format!("{path}.ownerID"), format!("is {}, expected an account of 12 digits", shown(owner)));
        }
        if let Some(criteria) = criteria.as_deref().filter(|criteria| !["open", "targeted"].contains(criteria)) {
            let message = format!("is {}, expected open or targeted", shown(criteria));
            errors.invalid(format!("{path}.instanceMatchCriteria"), message);
        }
    }
}

fn check_kubelet(kubelet: &EC2Kubelet, errors: &mut Errors) {
    const PATH: &str = "spec.kubelet";
    match &kubelet.max_pods {
        None | Some(Value::String(_) | Value::Null) => {}
        Some(Value::Number(pods)) if pods.as_u64().is_some_and(|pods| u32::try_from(pods).is_ok()) => {}
        Some(other) => errors.invalid(format!("{PATH}.maxPods"), format!("is {other}, expected a number from 0")),
    }
    if let Some(pods) = kubelet.pods_per_core.filter(|pods| u32::try_from(*pods).is_err()) {
        errors.invalid(format!("{PATH}.podsPerCore"), format!("is {pods}, expected a number from 0"));
    }
    for (field, amounts) in [("kubeReserved", &kubelet.kube_reserved), ("systemReserved", &kubelet.system_reserved)] {
        for (name, amount) in amounts {
            let path = format!("{PATH}.{field}.{name}");
            if !RESERVED.contains(&name.as_str()) {
                errors.invalid(&path, format!("expected one of {}", RESERVED.join(", ")));
            }
            // What is no quantity may be an expression, which a plan cannot work out but must not refuse.
            let quantity = amount.parse::<berth_quantity::Quantity>();
            if quantity.is_ok_and(berth_quantity::Quantity::is_negative) {
                errors.invalid(&path, format!("is {}, expected 0 or more", shown(amount)));
            }
        }
    }
    check_eviction(&kubelet.eviction_hard, errors);
}

fn check_eviction(signals: &BTreeMap<String, String>, errors: &mut Errors) {
    for (signal, threshold) in signals {
        let path = format!("spec.kubelet.evictionHard[{signal}]");
        if !SIGNALS.contains(&signal.as_str()) {
            errors.invalid(&path, format!("expected one of {}", SIGNALS.join(", ")));
        }
        let is_percentage = |text: &str| text.parse::<f64>().is_ok_and(|part| (0.0..=100.0).contains(&part));
        let is_valid = match threshold.strip_suffix('%') {
            Some(percent) => is_percentage(percent),
            None => threshold.parse::<berth_quantity::Quantity>().is_ok_and(|quantity| !quantity.is_negative()),
        };
        if !is_valid {
            let message = format!("is {}, expected a quantity or a percentage such as 10%", shown(threshold));
            errors.invalid(&path, message);
        }
    }
}

fn check_devices(devices: &[BlockDeviceMapping], errors: &mut Errors) {
    const PATH: &str = "spec.blockDeviceMappings";
    if errors.too_many(PATH, devices.len(), MOST_DEVICES) {
        return;
    }
    if devices.iter().filter(|device| device.root_volume).count() > 1 {
        errors.invalid(PATH, "must have only one blockDeviceMappings with rootVolume");
    }
    for (index, device) in devices.iter().enumerate() {
        let size = device.ebs.as_ref().and_then(|volume| volume.volume_size);
        if let Some(size) = size.filter(|size| size.is_negative() || size.is_zero()) {
            errors.invalid(format!("{PATH}[{index}].ebs.volumeSize"), format!("is {size}, expected more than 0"));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn errors_of(spec: &Value) -> Vec<String> {
        let class: EC2NodeClass =
            serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": spec})).unwrap();
        class.validate().iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::no_field(json!({"capacityReservationSelectorTerms": [{"ownerID": "123456789012"}]}), "expected at least one, got none")]
    #[case::id_and_tags(
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1", "tags": {"a": "b"}}]}), "'id' is mutually exclusive"
    )]
    #[case::id(json!({"capacityReservationSelectorTerms": [{"id": "ocr-1"}]}), "[0].id: is \"ocr-1\", expected cr-")]
    #[case::owner(
        json!({"capacityReservationSelectorTerms": [{"tags": {"a": "*"}, "ownerID": "me"}]}), "[0].ownerID: is \"me\""
    )]
    #[case::criteria(
        json!({"capacityReservationSelectorTerms": [{"instanceMatchCriteria": "any"}]}), "expected open or targeted"
    )]
    #[case::empty_tag(json!({"capacityReservationSelectorTerms": [{"tags": {"a": ""}}]}), "empty tag keys or values")]
    #[case::family(json!({"amiFamily": "Ubuntu"}), "spec.amiFamily: is \"Ubuntu\", expected one of AL2, AL2023")]
    #[case::alias(json!({"amiSelectorTerms": [{"alias": "ubuntu"}]}), "spec.amiSelectorTerms[0].alias: is \"ubuntu\"")]
    #[case::max_pods(json!({"kubelet": {"maxPods": -1}}), "spec.kubelet.maxPods: is -1, expected a number from 0")]
    #[case::reserved(json!({"kubelet": {"kubeReserved": {"gpu": "1"}}}), "spec.kubelet.kubeReserved.gpu: expected one of cpu")]
    #[case::negative(json!({"kubelet": {"systemReserved": {"cpu": "-1"}}}), "spec.kubelet.systemReserved.cpu: is \"-1\"")]
    #[case::eviction(json!({"kubelet": {"evictionHard": {"memory.available": "5 %"}}}), "evictionHard[memory.available]: is \"5 %\"")]
    #[case::volume(
        json!({"blockDeviceMappings": [{"ebs": {"volumeSize": "0"}}]}), "spec.blockDeviceMappings[0].ebs.volumeSize: is 0"
    )]
    #[case::store(json!({"instanceStorePolicy": "RAID1"}), "spec.instanceStorePolicy: is \"RAID1\", expected RAID0")]
    fn what_a_plan_cannot_act_on_is_refused(#[case] spec: Value, #[case] expected: &str) {
        let errors = errors_of(&spec);
        assert!(errors.iter().any(|error| error.contains(expected)), "{errors:?}");
    }

    #[test]
    fn a_whole_node_class_is_valid() {
        let spec = json!({
            "amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "role": "nodes", "tags": {"a": "b"},
            "capacityReservationSelectorTerms": [{"id": "cr-0ab1"}, {"tags": {"team": "*"}, "ownerID": "123456789012"}],
            "kubelet": {"maxPods": 110, "kubeReserved": {"cpu": "100m", "memory": "vcpus * 10"}, "cpuCFSQuota": true,
                "evictionHard": {"memory.available": "5%", "nodefs.available": "10Gi"}},
            "blockDeviceMappings": [{"deviceName": "/dev/xvdb", "rootVolume": true, "ebs": {"volumeSize": "100Gi", "iops": 3000}}],
            "instanceStorePolicy": "RAID0"});
        assert_eq!(errors_of(&spec), Vec::<String>::new());
    }
}
