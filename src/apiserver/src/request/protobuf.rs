//! Bodies in protobuf, as Go clients send built-in kinds: the wire format, read by the numbers of the schemas' fields.

use serde_json::{Map, Value};

use crate::clock::{micro_time_text, time_text};
use crate::defaults::base64;
use crate::schema::{Scalar, SchemaType, Typed};
use crate::status::{ApiError, Result};

/// The content type of such a body.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages nest no deeper, as in JSON.
const MAX_DEPTH: usize = 128;

/// A field of a message: its number and what follows.
enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Reads a body; `schema` finds the type of an apiVersion and kind.
pub(crate) fn read<'s>(body: &[u8], schema: &dyn Fn(&str, &str) -> Option<Typed<'s>>) -> Result<Value> {
    let wrong = || {
        ApiError::bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    };
    let rest = body.strip_prefix(MAGIC).ok_or_else(wrong)?;
    let cut = || ApiError::bad_request("couldn't decode the body as protobuf: unexpected end or malformed field");
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, wire) in fields(rest).ok_or_else(cut)? {
        match (number, wire) {
            (1, Wire::Bytes(types)) => {
                for (number, wire) in fields(types).ok_or_else(cut)? {
                    match (number, wire) {
                        (1, Wire::Bytes(bytes)) => version = text(bytes),
                        (2, Wire::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let typed = schema(&version, &kind)
        .ok_or_else(|| ApiError::bad_request(format!("no kind {kind:?} is registered for version {version:?}")))?;
    let mut map = message(raw, typed, &[], 0).ok_or_else(cut)?;
    map.insert("apiVersion".to_owned(), version.into());
    map.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(map))
}

/// The fields of a message in their order; `None` if it is malformed.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes)?;
        let (wire, rest) = match tag & 7 {
            0 => {
                let (number, rest) = varint(rest)?;
                (Wire::Number(number), rest)
            }
            1 => {
                let (fixed, rest) = rest.split_first_chunk::<8>()?;
                (Wire::Number(u64::from_le_bytes(*fixed)), rest)
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let (inside, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Wire::Bytes(inside), rest)
            }
            5 => {
                let (fixed, rest) = rest.split_first_chunk::<4>()?;
                (Wire::Number(u64::from(u32::from_le_bytes(*fixed))), rest)
            }
            _ => return None,
        };
        out.push((tag >> 3, wire));
        bytes = rest;
    }
    Some(out)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(7 * index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A message as an object. `prefix` are the numbers of the embedded struct that it is.
fn message(bytes: &[u8], typed: Typed<'_>, prefix: &[u64], depth: usize) -> Option<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let SchemaType::Struct(object) = typed.shape() else { return Some(Map::new()) };
    let mut out = Map::new();
    for (number, wire) in fields(bytes)? {
        let path: Vec<u64> = prefix.iter().copied().chain([number]).collect();
        if let Some((name, field)) = object.fields.iter().find(|(_, field)| *field.proto == *path) {
            let present = out.remove(name);
            if let Some(value) = value(wire, typed.get(field.schema), present, depth)? {
                out.insert(name.clone(), value);
            }
        } else if let Wire::Bytes(inside) = wire
            && object.fields.values().any(|field| field.proto.starts_with(&path))
        {
            out.extend(message(inside, typed, &path, depth + 1)?);
        }
    }
    Some(out)
}

#[allow(clippy::option_option)] // Malformed, absent, or there.
/// The value of a field; repeated fields add to what is `present`.
fn value(wire: Wire<'_>, typed: Typed<'_>, present: Option<Value>, depth: usize) -> Option<Option<Value>> {
    Some(Some(match (typed.shape(), wire) {
        (SchemaType::List { item, .. }, wire) => {
            let mut items = match present {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            items.extend(value(wire, typed.get(*item), None, depth + 1)?);
            Value::Array(items)
        }
        (SchemaType::Map { value: values, .. }, Wire::Bytes(entry)) => {
            let mut map = match present {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let (mut key, mut inside) = (String::new(), Value::Null);
            for (number, wire) in fields(entry)? {
                match (number, wire) {
                    (1, Wire::Bytes(bytes)) => key = text(bytes),
                    (2, wire) => inside = map_value(wire, typed.get(*values), depth)?,
                    _ => {}
                }
            }
            map.insert(key, inside);
            Value::Object(map)
        }
        (SchemaType::Struct(_), Wire::Bytes(bytes)) => Value::Object(message(bytes, typed, &[], depth + 1)?),
        // JSON inside.
        (SchemaType::Any, Wire::Bytes(bytes)) => {
            let raw = fields(bytes)?.into_iter().find_map(|(number, wire)| match (number, wire) {
                (1, Wire::Bytes(raw)) => Some(raw),
                _ => None,
            });
            match raw {
                Some(raw) => serde_json::from_slice(raw).ok()?,
                None => return Some(None),
            }
        }
        (SchemaType::Scalar(scalar), wire) => return scalar_value(*scalar, wire),
        _ => return Some(None),
    }))
}

/// A map's value; a list there is a message of its own with the items as its field 1.
fn map_value(wire: Wire<'_>, typed: Typed<'_>, depth: usize) -> Option<Value> {
    match (typed.shape(), wire) {
        (SchemaType::List { item, .. }, Wire::Bytes(bytes)) => {
            let mut items = Vec::new();
            for (_, wire) in fields(bytes)? {
                items.extend(value(wire, typed.get(*item), None, depth + 1)?);
            }
            Some(Value::Array(items))
        }
        (_, wire) => Some(value(wire, typed, None, depth + 1)?.unwrap_or_default()),
    }
}

#[allow(clippy::option_option)] // As above.
fn scalar_value(scalar: Scalar, wire: Wire<'_>) -> Option<Option<Value>> {
    let signed = |number: u64| i64::from_le_bytes(number.to_le_bytes());
    Some(Some(match (scalar, wire) {
        (Scalar::String, Wire::Bytes(bytes)) => text(bytes).into(),
        (Scalar::Bytes, Wire::Bytes(bytes)) => base64(bytes).into(),
        (Scalar::Bool, Wire::Number(number)) => (number != 0).into(),
        (Scalar::Int32 | Scalar::Int64, Wire::Number(number)) => signed(number).into(),
        (Scalar::Number, Wire::Number(number)) => f64::from_bits(number).into(),
        (Scalar::Quantity, Wire::Bytes(bytes)) => {
            let first = fields(bytes)?.into_iter().find_map(|(_, wire)| match wire {
                Wire::Bytes(bytes) => Some(text(bytes)),
                Wire::Number(_) => None,
            });
            first.unwrap_or_else(|| "0".to_owned()).into()
        }
        (Scalar::IntOrString, Wire::Bytes(bytes)) => {
            let (mut is_text, mut number, mut string) = (false, 0, String::new());
            for field in fields(bytes)? {
                match field {
                    (1, Wire::Number(kind)) => is_text = kind == 1,
                    (2, Wire::Number(value)) => number = signed(value),
                    (3, Wire::Bytes(value)) => string = text(value),
                    _ => {}
                }
            }
            if is_text { string.into() } else { number.into() }
        }
        (Scalar::Time | Scalar::MicroTime, Wire::Bytes(bytes)) => {
            let (mut seconds, mut nanos) = (0, 0);
            for field in fields(bytes)? {
                match field {
                    (1, Wire::Number(value)) => seconds = signed(value),
                    (2, Wire::Number(value)) => nanos = i32::try_from(signed(value)).ok()?,
                    _ => {}
                }
            }
            // The zero of Go's time: year 1, which no object has.
            if bytes.is_empty() || seconds == -62_135_596_800 {
                return Some(None);
            }
            let time = jiff::Timestamp::new(seconds, nanos).ok()?;
            if scalar == Scalar::Time { time_text(time).into() } else { micro_time_text(time).into() }
        }
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &types), field(2, raw)].concat()
    }

    fn schema(version: &str, kind: &str) -> Option<Typed<'static>> {
        builtin().kind("", version, kind)
    }

    #[test]
    fn a_pod_is_read_with_maps_lists_embedded_fields_and_quantities() {
        let labels = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let metadata = field(1, &[field(1, b"p"), labels].concat());
        let cpu = field(2, &[field(1, b"cpu"), field(2, &field(1, b"500m"))].concat());
        let container = field(2, &[field(1, b"c"), field(2, b"nginx"), field(8, &cpu)].concat());
        // Volume: name 1, and the embedded source 2 with emptyDir 2.
        let volume = field(1, &[field(1, b"v"), field(2, &field(2, b""))].concat());
        let grace = vec![4 << 3, 30];
        let spec = field(2, &[volume, container, grace].concat());
        let read = read(&body("Pod", &[metadata, spec].concat()), &schema).unwrap();
        let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}],
                     "terminationGracePeriodSeconds": 30, "volumes": [{"name": "v", "emptyDir": {}}]}});
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&body("Pod", &raw), &schema);
            let _ = read(&raw, &schema);
        }
    }
}
