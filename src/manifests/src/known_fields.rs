//! Reads a value as serde_json does, and remembers which fields the type has that is being read: what a misspelt field
//! may have been meant for.

use std::cell::RefCell;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// The fields of the types that are being read, the innermost last; none of what is no struct.
pub(crate) type Open = RefCell<Vec<&'static [&'static str]>>;

/// A value, and the types around it.
#[derive(Clone, Copy)]
pub(crate) struct Watched<'a> {
    value: &'a Value,
    open: &'a Open,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(value: &'a Value, open: &'a Open) -> Self {
        Watched { value, open }
    }

    fn visit_map<V: Visitor<'a>>(
        self,
        fields: &'a Map<String, Value>,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.open.borrow_mut().push(known);
        let visited = visitor.visit_map(Fields { left: fields.iter(), value: None, open: self.open });
        self.open.borrow_mut().pop();
        visited
    }

    fn visit_seq<V: Visitor<'a>>(self, items: &'a [Value], visitor: V) -> Result<V::Value, Error> {
        self.open.borrow_mut().push(&[]);
        let visited = visitor.visit_seq(Items { left: items.iter(), open: self.open });
        self.open.borrow_mut().pop();
        visited
    }
}

impl<'de> Deserializer<'de> for Watched<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => self.visit_map(fields, &[], visitor),
            Value::Array(items) => self.visit_seq(items, visitor),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => self.visit_map(fields, known, visitor),
            other => other.deserialize_struct(name, known, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Fields<'a> {
    left: serde_json::map::Iter<'a>,
    value: Option<&'a Value>,
    open: &'a Open,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        let name: StrDeserializer<'de, Error> = name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // serde asks for a value only after its key.
        let value = self.value.take().unwrap_or(&Value::Null);
        seed.deserialize(Watched { value, open: self.open })
    }
}

struct Items<'a> {
    left: std::slice::Iter<'a, Value>,
    open: &'a Open,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let next = self.left.next();
        next.map(|value| seed.deserialize(Watched { value, open: self.open })).transpose()
    }
}
