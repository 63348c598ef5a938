//! The values of rules: those of an object as they are, without copies, and what is computed from them.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use jiff::Timestamp;
use kube_cel::cel;
use serde_json::Value;

use super::types::{Kind, ListType, Type};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    /// A list or an object of the object that is checked, with its type.
    Json(&'a Value, &'a Type),
    List(Arc<Vec<Val<'a>>>),
    Map(Arc<Vec<(Val<'a>, Val<'a>)>>),
    Optional(Option<Arc<Val<'a>>>),
    Url(Arc<http::Uri>),
    /// The name of a type.
    Type(&'static str),
    /// A value of a library: a quantity, an address.
    Other(cel::Value),
}

/// A text of the object, of the rule, or one that was computed.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Part(&'a str),
    Made(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Part(text) => text,
            Text::Made(text) => text,
        }
    }
}

/// Stands in where nothing is declared.
static ANY: LazyLock<Type> = LazyLock::new(Type::any);

/// A value of an object as rules see it.
pub(super) fn wrap<'a>(value: &'a Value, ty: &'a Type) -> Val<'a> {
    match value {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => match (ty.kind, number.as_i64()) {
            (Kind::Double, _) | (_, None) => Val::Double(number.as_f64().unwrap_or_default()),
            (_, Some(number)) => Val::Int(number),
        },
        Value::String(text) => typed_text(text, ty.kind).unwrap_or(Val::Str(Text::Part(text))),
        Value::Array(_) | Value::Object(_) => Val::Json(value, ty),
    }
}

/// A text that stands for something else.
fn typed_text(text: &str, kind: Kind) -> Option<Val<'static>> {
    match kind {
        Kind::Bytes => {
            base64::engine::general_purpose::STANDARD.decode(text).ok().map(|bytes| Val::Bytes(bytes.into()))
        }
        Kind::Duration => super::time::parse_duration(text).map(Val::Duration),
        Kind::Timestamp => super::time::parse_timestamp(text).map(Val::Timestamp),
        _ => None,
    }
}

// === impl Val ===

impl<'a> Val<'a> {
    pub(super) fn text(text: impl Into<Arc<str>>) -> Self {
        Val::Str(Text::Made(text.into()))
    }

    /// The name of the type, as CEL says it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Str(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Json(Value::Array(_), _) | Val::List(_) => "list",
            Val::Json(..) | Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Url(_) => "kubernetes.URL",
            Val::Type(_) => "type",
            Val::Other(_) => "opaque",
        }
    }

    /// How many elements, characters or bytes it has, where it has any.
    pub(super) fn len(&self) -> Option<u64> {
        let count = match self {
            Val::Str(text) => text.chars().count(),
            Val::Bytes(bytes) => bytes.len(),
            Val::Json(Value::Array(items), _) => items.len(),
            Val::Json(Value::Object(map), _) => map.len(),
            Val::List(items) => items.len(),
            Val::Map(entries) => entries.len(),
            _ => return None,
        };
        u64::try_from(count).ok()
    }

    /// The size that costs are reckoned with: 1 for what has none.
    pub(super) fn cost_size(&self) -> u64 {
        match self {
            // In bytes, which need not be counted.
            Val::Str(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
            Val::Optional(Some(value)) => value.cost_size(),
            other => other.len().unwrap_or(1),
        }
    }

    /// The field of an object or the entry of a map. The name is escaped where fields are declared.
    pub(super) fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Val::Json(Value::Object(map), ty) => {
                if let (Some(element), Kind::Map) = (&ty.element, ty.kind) {
                    return map.get(name).map(|value| wrap(value, element));
                }
                let field = ty.fields.get(name)?;
                map.get(&*field.name).map(|value| wrap(value, &field.ty))
            }
            Val::Map(entries) => {
                let found = entries.iter().find(|(key, _)| matches!(key, Val::Str(key) if **key == *name));
                found.map(|(_, value)| value.clone())
            }
            Val::Optional(Some(value)) => value.field(name),
            _ => None,
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Val::Json(Value::Array(items), ty) => {
                let element = ty.element.as_deref().unwrap_or(&ANY);
                Some(items.iter().map(|item| wrap(item, element)).collect())
            }
            Val::List(items) => Some(items.to_vec()),
            _ => None,
        }
    }

    /// How many items a list has.
    pub(super) fn list_len(&self) -> Option<usize> {
        match self {
            Val::Json(Value::Array(items), _) => Some(items.len()),
            Val::List(items) => Some(items.len()),
            _ => None,
        }
    }

    /// One item of a list.
    pub(super) fn item(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Val::Json(Value::Array(items), ty) => {
                items.get(index).map(|item| wrap(item, ty.element.as_deref().unwrap_or(&ANY)))
            }
            Val::List(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// The entries of a map or an object, in order of their keys in the object.
    pub(super) fn entries(&self) -> Option<Vec<(Val<'a>, Val<'a>)>> {
        match self {
            Val::Json(Value::Object(map), ty) => {
                let entry =
                    |name: &'a str, value: &'a Value, ty: &'a Type| (Val::Str(Text::Part(name)), wrap(value, ty));
                if let (Some(element), Kind::Map) = (&ty.element, ty.kind) {
                    return Some(map.iter().map(|(key, value)| entry(key, value, element)).collect());
                }
                let mut fields: Vec<_> = ty.fields.values().collect();
                fields.sort_by(|a, b| a.name.cmp(&b.name));
                let present = fields.into_iter().filter_map(|field| Some((field, map.get(&*field.name)?)));
                Some(present.map(|(field, value)| entry(&field.name, value, &field.ty)).collect())
            }
            Val::Map(entries) => Some(entries.to_vec()),
            _ => None,
        }
    }

    fn list_type(&self) -> &ListType {
        match self {
            Val::Json(_, ty) => &ty.list,
            _ => &ListType::Atomic,
        }
    }

    /// Whether two values are equal. Numbers of different types are compared by value, other types are never equal.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Str(a), Val::Str(b)) => **a == **b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Url(a), Val::Url(b)) => a == b,
            (Val::Other(a), Val::Other(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
                self.compare(other) == Some(Ordering::Equal)
            }
            _ => self.contents_equal(other),
        }
    }

    fn contents_equal(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.items(), other.items()) {
            return a.len() == b.len()
                && match (self.list_type(), other.list_type()) {
                    (ListType::Atomic, ListType::Atomic) => a.iter().zip(&b).all(|(a, b)| a.equals(b)),
                    // Sets and maps have no order.
                    (ListType::Set, _) | (_, ListType::Set) => a.iter().all(|a| b.iter().any(|b| a.equals(b))),
                    (ListType::Map(keys), _) | (_, ListType::Map(keys)) => {
                        a.iter().all(|a| b.iter().any(|b| a.has_keys_of(b, keys) && a.equals(b)))
                    }
                };
        }
        if let (Some(a), Some(b)) = (self.entries(), other.entries()) {
            let has = |entries: &[(Val<'_>, Val<'_>)], key: &Val<'_>, value: &Val<'_>| {
                entries.iter().any(|(other, of)| key.equals(other) && value.equals(of))
            };
            return a.len() == b.len() && a.iter().all(|(key, value)| has(&b, key, value));
        }
        false
    }

    fn has_keys_of(&self, other: &Self, keys: &[Box<str>]) -> bool {
        keys.iter().all(|key| match (self.field(key), other.field(key)) {
            (Some(a), Some(b)) => a.equals(&b),
            (a, b) => a.is_none() && b.is_none(),
        })
    }

    /// One list after another; sets and maps of which one is given take in what is new.
    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let (mut all, more) = (self.items()?, other.items()?);
        match self.list_type() {
            ListType::Atomic => all.extend(more),
            ListType::Set => {
                for item in more {
                    if !all.iter().any(|known| known.equals(&item)) {
                        all.push(item);
                    }
                }
            }
            ListType::Map(keys) => {
                for item in more {
                    match all.iter_mut().find(|known| known.has_keys_of(&item, keys)) {
                        Some(known) => *known = item,
                        None => all.push(item),
                    }
                }
            }
        }
        Some(Val::List(Arc::new(all)))
    }

    /// The order of two values; `None` where there is none.
    #[allow(clippy::cast_precision_loss)] // As CEL compares integers and doubles.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Val::Int(a), Val::Int(b)) | (Val::Duration(a), Val::Duration(b)) => Some(a.cmp(b)),
            (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
            (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
            (Val::Uint(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
            (Val::Str(a), Val::Str(b)) => Some((**a).cmp(&**b)),
            (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
            (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
            (Val::Timestamp(a), Val::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// For a function of a library; `None` where it has no such values.
    pub(super) fn to_library(&self) -> Option<cel::Value> {
        Some(match self {
            Val::Null => cel::Value::Null,
            Val::Bool(value) => cel::Value::Bool(*value),
            Val::Int(value) => cel::Value::Int(*value),
            Val::Uint(value) => cel::Value::UInt(*value),
            Val::Double(value) => cel::Value::Float(*value),
            Val::Str(text) => cel::Value::String(Arc::new(text.to_string())),
            Val::Bytes(bytes) => cel::Value::Bytes(Arc::new(bytes.to_vec())),
            Val::Other(value) => value.clone(),
            Val::Json(Value::Array(_), _) | Val::List(_) => {
                let items = self.items()?;
                let items: Option<Vec<_>> = items.iter().map(Val::to_library).collect();
                cel::Value::List(Arc::new(items?))
            }
            _ => return None,
        })
    }

    /// What a function of a library gives.
    pub(super) fn from_library(value: cel::Value) -> Self {
        match value {
            cel::Value::Null => Val::Null,
            cel::Value::Bool(value) => Val::Bool(value),
            cel::Value::Int(value) => Val::Int(value),
            cel::Value::UInt(value) => Val::Uint(value),
            cel::Value::Float(value) => Val::Double(value),
            cel::Value::String(text) => Val::text(text.as_str()),
            cel::Value::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
            cel::Value::List(items) => {
                Val::List(Arc::new(items.iter().map(|item| Val::from_library(item.clone())).collect()))
            }
            other => Val::Other(other),
        }
    }
}
