//! From OpenAPI, of a document or of a CustomResourceDefinition, to [`Schemas`].

use serde_json::{Map, Value};

use super::{Field, ListKind, Patch, Scalar, Schema, SchemaId, SchemaType, Schemas, Struct};

/// Types that the schema calls strings or objects, and the server reads in a way of its own.
const SPECIAL: &[(&str, SchemaType)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", SchemaType::Scalar(Scalar::Quantity)),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", SchemaType::Scalar(Scalar::IntOrString)),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", SchemaType::Scalar(Scalar::Time)),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", SchemaType::Scalar(Scalar::MicroTime)),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", SchemaType::Any),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", SchemaType::Any),
];
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Schemas {
    /// Every schema of a document, by its name.
    pub(crate) fn from_openapi(raw: &Map<String, Value>) -> Self {
        let mut schemas = Self::default();
        for name in raw.keys() {
            let id = schemas.add(Schema { name: String::new(), shape: SchemaType::Any });
            schemas.names.insert(name.clone(), id);
        }
        for (name, schema) in raw {
            let special = SPECIAL.iter().find(|(special, _)| special == name).map(|(_, shape)| shape.clone());
            let shape = special.unwrap_or_else(|| schemas.shape(schema));
            let short = name.rsplit('.').next().unwrap_or_default().to_owned();
            if let Some(id) = schemas.names.get(name).copied() {
                schemas.set(id, Schema { name: short, shape });
            }
        }
        schemas
    }

    /// The type of a custom resource: its own schema, with the metadata of every object. Returns the root.
    pub(crate) fn from_custom_resource(builtin: &Map<String, Value>, kind: &str, schema: &Value) -> (Self, SchemaId) {
        let wanted = |name: &&String| name.starts_with("io.k8s.apimachinery.pkg.apis.meta.v1.");
        let meta: Map<String, Value> = builtin
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect();
        let mut schemas = Self::from_openapi(&meta);
        let mut shape = schemas.shape(schema);
        if let SchemaType::Struct(object) = &mut shape {
            schemas.make_resource(object);
        }
        let root = schemas.add(Schema { name: kind.to_owned(), shape });
        (schemas, root)
    }

    fn make_resource(&mut self, object: &mut Struct) {
        let text = self.add(Schema { name: String::new(), shape: SchemaType::Scalar(Scalar::String) });
        for name in ["apiVersion", "kind"] {
            object.fields.insert(name.to_owned(), Field::plain(text));
        }
        if let Some(meta) = self.names.get(OBJECT_META) {
            object.fields.insert("metadata".to_owned(), Field::plain(*meta));
        }
    }

    fn add(&mut self, schema: Schema) -> SchemaId {
        self.nodes.push(schema);
        SchemaId(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
    }

    fn set(&mut self, id: SchemaId, schema: Schema) {
        if let Some(node) = usize::try_from(id.0).ok().and_then(|at| self.nodes.get_mut(at)) {
            *node = schema;
        }
    }

    /// The id of a schema in place: that of the name it refers to, or a new one.
    fn place(&mut self, schema: &Value) -> SchemaId {
        if let Some(id) = schema.get("$ref").and_then(Value::as_str).and_then(|name| self.names.get(name)) {
            return *id;
        }
        let shape = self.shape(schema);
        self.add(Schema { name: String::new(), shape })
    }

    fn shape(&mut self, schema: &Value) -> SchemaType {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
        if flag("x-kubernetes-int-or-string") || text("format") == "int-or-string" {
            return SchemaType::Scalar(Scalar::IntOrString);
        }
        let scalar = match (text("type"), text("format")) {
            ("string", "byte") => Scalar::Bytes,
            // metav1.Time is named; a date-time of a custom resource is a text that validation looks at.
            ("string", _) => Scalar::String,
            ("integer", "int32") => Scalar::Int32,
            ("integer", _) => Scalar::Int64,
            ("number", _) => Scalar::Number,
            ("boolean", _) => Scalar::Bool,
            ("array", _) => {
                let item = schema.get("items").map_or(Value::Null, Value::clone);
                let item = self.place(&item);
                return SchemaType::List { item, kind: list_kind(schema) };
            }
            _ => return self.object_shape(schema),
        };
        SchemaType::Scalar(scalar)
    }

    fn object_shape(&mut self, schema: &Value) -> SchemaType {
        let preserve = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool).unwrap_or_default();
        let embedded = schema.get("x-kubernetes-embedded-resource").and_then(Value::as_bool).unwrap_or_default();
        let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let value = self.place(values);
            return SchemaType::Map { value, atomic };
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        if properties.is_none() && (preserve || !embedded) && !is_typed_empty(schema) {
            return SchemaType::Any;
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Struct { atomic, preserve_unknown: preserve, ..Struct::default() };
        for (name, property) in properties.into_iter().flatten() {
            // What a ReplicationController is given is filled in with the other defaults of kinds, as values of its own.
            let is_default = |value: &&Value| {
                !value.is_number()
                    || required.contains(&name.as_str())
                    || !["replicas", "minReadySeconds"].contains(&name.as_str())
            };
            let field = Field {
                schema: self.place(property),
                default: property.get("default").filter(is_default).cloned(),
                omit_zero: property.get("x-go-omit-zero").is_some(),
                required: required.contains(&name.as_str()),
                patch: patch(property),
                proto: numbers(property),
            };
            object.fields.insert(name.clone(), field);
        }
        if embedded {
            self.make_resource(&mut object);
        }
        let has_default = |(name, field): (&String, &Field)| field.default.is_some().then(|| name.clone());
        object.defaulted = object.fields.iter().filter_map(has_default).collect();
        SchemaType::Struct(object)
    }
}

impl Field {
    fn plain(schema: SchemaId) -> Self {
        Self {
            schema,
            default: None,
            omit_zero: false,
            required: false,
            patch: Patch::default(),
            proto: Box::default(),
        }
    }
}

/// Structs without fields, such as `SleepAction`'s relatives, are still structs where the type has a description.
fn is_typed_empty(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
        && schema.get("x-kubernetes-preserve-unknown-fields").is_none()
        && schema.get("additionalProperties").is_none()
}

fn list_kind(schema: &Value) -> ListKind {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListKind::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListKind::Atomic,
    }
}

fn numbers(property: &Value) -> Box<[u64]> {
    property.get("x-proto").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn patch(property: &Value) -> Patch {
    let strategy = property.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    Patch {
        merge: strategy.split(',').any(|word| word == "merge"),
        merge_key: property.get("x-kubernetes-patch-merge-key").and_then(Value::as_str).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin;
    use super::*;

    #[test]
    fn the_pinned_data_knows_pods() {
        let pod = builtin().schemas.named("io.k8s.api.core.v1.Pod").unwrap();
        let ports = pod.at(&["spec", "containers"]).item().child("ports");
        let SchemaType::List { kind, .. } = ports.shape() else { panic!("a list") };
        assert_eq!(*kind, ListKind::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        let containers = pod.at(&["spec"]).field("containers").unwrap();
        assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
        assert!(containers.required);
    }
}
