//! Patterns, ranges, defaults and CEL rules, by the path of the field.
//!
//! Messages, patterns and CEL expressions are those of Karpenter v1.14 and Koordinator v1.8, which clients of
//! theirs may rely on.

use serde_json::{Map, Value, json};

use super::UnknownField;

/// What to add to the schema of the field at a path. `[]` in a path stands for the items of a list.
pub(super) type Rule = (String, Value);

const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const DURATION: &str = "^([0-9]+(s|m|h))+$";
const NILLABLE_DURATION: &str = "^(([0-9]+(s|m|h))+|Never)$";
const SCHEDULE: &str = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
const COMPARISONS: &str = "x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte'";

/// Adds the rules to a schema; the fields that are not there are errors.
pub(super) fn apply(kind: &'static str, schema: &mut Value, rules: Vec<Rule>) -> Result<(), UnknownField> {
    for (path, addition) in rules {
        let field = field_at(schema, &path).ok_or(UnknownField { kind, path })?;
        if let Value::Object(addition) = addition {
            field.extend(addition);
        }
    }
    Ok(())
}

fn field_at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut field = schema;
    for part in path.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        field = field.get_mut("properties")?.get_mut(name)?;
        if is_list {
            field = field.get_mut("items")?;
        }
    }
    field.as_object_mut()
}

fn rule(path: impl Into<String>, addition: Value) -> Rule {
    (path.into(), addition)
}

/// A CEL rule and its message.
fn cel(message: &str, rule: &str) -> Value {
    json!({ "message": message, "rule": rule })
}

pub(super) fn node_pool() -> Vec<Rule> {
    let template = "spec.template.spec";
    let mut rules = vec![
        rule(
            "spec",
            json!({
                "required": ["template"],
                "x-kubernetes-validations": [
                    cel("Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
                        "has(self.replicas) == has(oldSelf.replicas)"),
                    cel("only 'limits.nodes' is supported on static NodePools",
                        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))"),
                    cel("'weight' is not supported on static NodePools", "!has(self.replicas) || !has(self.weight)"),
                ],
            }),
        ),
        rule("spec.weight", json!({ "minimum": 1, "maximum": 100 })),
        rule("spec.replicas", json!({ "minimum": 0 })),
        rule("spec.template", json!({ "required": ["spec"] })),
        rule(
            "spec.template.metadata.labels",
            json!({
                "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
                "maxProperties": 100,
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [
                    cel("label domain \"karpenter.sh\" is restricted",
                        r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#),
                    cel("label \"karpenter.sh/nodepool\" is restricted", r#"self.all(x, x != "karpenter.sh/nodepool")"#),
                    cel("label \"kubernetes.io/hostname\" is restricted", r#"self.all(x, x != "kubernetes.io/hostname")"#),
                ],
            }),
        ),
        rule("spec.disruption", json!({ "default": { "consolidateAfter": "0s" }, "required": ["consolidateAfter"] })),
        rule("spec.disruption.consolidateAfter", json!({ "pattern": NILLABLE_DURATION })),
        rule("spec.disruption.consolidationPolicy", json!({ "default": "WhenEmptyOrUnderutilized" })),
        rule(
            "spec.disruption.budgets",
            json!({
                "default": [{ "nodes": "10%" }],
                "maxItems": 50,
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    cel("'schedule' must be set with 'duration'", "self.all(x, has(x.schedule) == has(x.duration))"),
                ],
            }),
        ),
        rule("spec.disruption.budgets[]", json!({ "required": ["nodes"] })),
        rule("spec.disruption.budgets[].nodes", json!({ "default": "10%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" })),
        rule("spec.disruption.budgets[].reasons", json!({ "maxItems": 50, "x-kubernetes-list-type": "set" })),
        rule("spec.disruption.budgets[].schedule", json!({ "pattern": SCHEDULE })),
        rule("spec.disruption.budgets[].duration", json!({ "pattern": "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$" })),
        rule("status.nodes", json!({ "default": 0 })),
    ];
    rules.extend(node_template(template));
    rules.extend(requirements(&format!("{template}.requirements"), &["min-values", "nodepool"]));
    rules.push(rule(
        format!("{template}.nodeClassRef"),
        json!({
            "x-kubernetes-validations": [
                cel("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
                cel("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
            ],
        }),
    ));
    rules.extend(conditions());
    rules
}

pub(super) fn node_claim() -> Vec<Rule> {
    let immutable = json!({ "x-kubernetes-validations": [cel("spec is immutable", "self == oldSelf")] });
    let mut rules = vec![rule("spec", immutable)];
    rules.extend(node_template("spec"));
    rules.extend(requirements("spec.requirements", &["min-values"]));
    rules.extend(conditions());
    // A NodeClaim's conditions may lack a reason.
    rules.push(rule("status.conditions[]", json!({ "required": ["lastTransitionTime", "status", "type"] })));
    rules.push(rule("status.conditions[].reason", json!({ "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$" })));
    rules
}

pub(super) fn node_overlay() -> Vec<Rule> {
    let mut rules = vec![
        rule(
            "spec",
            json!({
                "required": ["requirements"],
                "x-kubernetes-validations": [
                    cel("cannot set both 'price' and 'priceAdjustment'", "!has(self.price) || !has(self.priceAdjustment)"),
                ],
            }),
        ),
        rule("spec.price", json!({ "pattern": r"^\d+(\.\d+)?$" })),
        rule(
            "spec.priceAdjustment",
            json!({
                "pattern": r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$",
            }),
        ),
        rule(
            "spec.capacity",
            json!({
                "x-kubernetes-validations": [
                    cel("invalid resource restricted", "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))"),
                ],
            }),
        ),
        rule("spec.weight", json!({ "minimum": 1, "maximum": 10000 })),
    ];
    rules.extend(requirements("spec.requirements", &["not-in"]));
    rules.extend(conditions());
    rules
}

pub(super) fn reservation() -> Vec<Rule> {
    vec![
        rule("spec", json!({ "required": ["owners", "template"] })),
        rule("spec.owners", json!({ "minItems": 1 })),
        rule("spec.owners[]", json!({ "minProperties": 1 })),
        rule(
            "spec.owners[].controller",
            json!({
                "required": ["apiVersion", "kind", "name", "uid"], "x-kubernetes-map-type": "atomic",
            }),
        ),
        rule("spec.owners[].object", json!({ "x-kubernetes-map-type": "atomic" })),
        rule("spec.owners[].labelSelector", json!({ "x-kubernetes-map-type": "atomic" })),
        rule("spec.ttl", json!({ "default": "24h" })),
        rule("spec.allocateOnce", json!({ "default": true })),
        rule("spec.preAllocationPolicy.mode", json!({ "default": "Default" })),
        rule("spec.preAllocationPolicy.enableMultiple", json!({ "default": false })),
        rule("status.phase", json!({ "default": "Pending" })),
    ]
}

pub(super) fn fake_node_class() -> Vec<Rule> {
    let label_value = json!({ "minLength": 1, "maxLength": 63, "pattern": LABEL_VALUE });
    let mut rules = vec![
        rule("spec.instanceTypes.namespace", json!({ "minLength": 1 })),
        rule("spec.instanceTypes.name", json!({ "minLength": 1 })),
        rule("spec.instanceTypes.key", json!({ "minLength": 1, "default": "instance-types.yaml" })),
        rule("spec.zones", json!({ "maxItems": 100, "x-kubernetes-list-type": "set" })),
        rule("spec.zones[]", label_value.clone()),
        rule("spec.unreachableZones", json!({ "maxItems": 100, "x-kubernetes-list-type": "set" })),
        rule("spec.unreachableZones[]", label_value.clone()),
        rule("spec.registrationDelay", json!({ "pattern": DURATION })),
        rule("spec.image", label_value),
    ];
    rules.extend(conditions());
    rules
}

pub(super) fn fake_capacity_reservation() -> Vec<Rule> {
    let label_value = json!({ "minLength": 1, "maxLength": 63, "pattern": LABEL_VALUE });
    let mut rules = vec![
        rule(
            "spec",
            json!({
                "required": ["count", "instanceTypes"],
                "x-kubernetes-validations": [
                    cel("end must be after start", "!has(self.start) || !has(self.end) || self.start < self.end"),
                ],
            }),
        ),
        rule("spec.id", label_value.clone()),
        rule("spec.instanceTypes", json!({ "minItems": 1, "maxItems": 100, "x-kubernetes-list-type": "set" })),
        rule("spec.instanceTypes[]", label_value.clone()),
        rule("spec.zones", json!({ "maxItems": 100, "x-kubernetes-list-type": "set" })),
        rule("spec.zones[]", label_value),
        rule("spec.count", json!({ "minimum": 0, "maximum": 1_000_000 })),
        rule("spec.usedByOthers", json!({ "minimum": 0, "maximum": 1_000_000, "default": 0 })),
        rule("spec.type", json!({ "default": "OnDemand" })),
        rule("spec.matching", json!({ "default": "Targeted" })),
    ];
    rules.extend(conditions());
    rules
}

/// What the template of a NodePool and a NodeClaim have in common.
fn node_template(path: &str) -> Vec<Rule> {
    let mut rules = vec![
        rule(path, json!({ "required": ["nodeClassRef", "requirements"] })),
        rule(format!("{path}.expireAfter"), json!({ "default": "720h", "pattern": NILLABLE_DURATION })),
        rule(format!("{path}.terminationGracePeriod"), json!({ "pattern": DURATION })),
        rule(format!("{path}.nodeClassRef.group"), json!({ "pattern": "^[^/]*$" })),
    ];
    for field in ["group", "kind", "name"] {
        let message = format!("{field} may not be empty");
        rules.push(rule(
            format!("{path}.nodeClassRef.{field}"),
            json!({ "x-kubernetes-validations": [cel(&message, "self != ''")] }),
        ));
    }
    for list in ["taints", "startupTaints"] {
        rules.push(rule(format!("{path}.{list}"), json!({ "x-kubernetes-list-type": "atomic" })));
        rules.push(rule(format!("{path}.{list}[].key"), json!({ "minLength": 1, "pattern": QUALIFIED_NAME })));
        rules.push(rule(format!("{path}.{list}[].value"), json!({ "pattern": QUALIFIED_NAME })));
        rules.push(rule(
            format!("{path}.{list}[].effect"),
            json!({ "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"] }),
        ));
    }
    rules
}

/// The rules of a list of requirements; `traits` are what it has besides: `min-values`, the restriction of the
/// label `nodepool`, and `not-in`, which then needs a value.
fn requirements(path: &str, traits: &[&str]) -> Vec<Rule> {
    let mut key = vec![cel(
        "label domain \"karpenter.sh\" is restricted",
        r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
    )];
    if traits.contains(&"nodepool") {
        key.push(cel("label \"karpenter.sh/nodepool\" is restricted", r#"self != "karpenter.sh/nodepool""#));
    }
    key.push(cel("label \"kubernetes.io/hostname\" is restricted", r#"self != "kubernetes.io/hostname""#));

    // Without a list, size() would be an error of the rule instead of a refusal.
    let needs_value = |operator: &str| {
        cel(
            &format!("requirements with operator '{operator}' must have a value defined"),
            &format!("self.all(x, x.operator == '{operator}' ? (has(x.values) && x.values.size() != 0) : true)"),
        )
    };
    let mut list = vec![needs_value("In")];
    if traits.contains(&"not-in") {
        list.push(needs_value("NotIn"));
    }
    list.push(cel(
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        &format!(
            "self.all(x, ({COMPARISONS}) ? (has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0) : true)"
        ),
    ));
    let mut rules = Vec::new();
    if traits.contains(&"min-values") {
        list.push(cel(
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? (has(x.values) && x.values.size() >= x.minValues) : true)",
        ));
        rules.push(rule(format!("{path}[].minValues"), json!({ "minimum": 1, "maximum": 50 })));
    }
    rules.extend([
        rule(path, json!({ "maxItems": 100, "x-kubernetes-list-type": "atomic", "x-kubernetes-validations": list })),
        rule(
            format!("{path}[].key"),
            json!({ "maxLength": 316, "pattern": QUALIFIED_NAME, "x-kubernetes-validations": key }),
        ),
        rule(format!("{path}[].values"), json!({ "x-kubernetes-list-type": "atomic" })),
        rule(format!("{path}[].values[]"), json!({ "maxLength": 63, "pattern": LABEL_VALUE })),
    ]);
    rules
}

/// The rules of Kubernetes' own conditions.
fn conditions() -> Vec<Rule> {
    vec![
        rule("status.conditions", json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] })),
        rule("status.conditions[].type", json!({ "maxLength": 316, "pattern": CONDITION_TYPE })),
        rule("status.conditions[].status", json!({ "enum": ["True", "False", "Unknown"] })),
        rule(
            "status.conditions[].reason",
            json!({
                "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            }),
        ),
        rule("status.conditions[].message", json!({ "maxLength": 32768 })),
        rule("status.conditions[].observedGeneration", json!({ "minimum": 0 })),
    ]
}
