//! Tables: the columns that `kubectl get` prints, of built-in kinds and of custom resources.

mod cells;
mod columns;
mod core_group;
mod kinds;

use serde_json::{Map, Value, json};

use crate::convert;
use crate::meta;
use crate::reply::{ListAnswer, partial};
use crate::request::IncludeObject;
use crate::resource::Resource;
use crate::server::ApiServer;

/// Makes tables of objects.
pub(crate) struct Printer<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) include: IncludeObject,
}

/// A column: name, type, format, and priority; columns beyond 0 are wide.
type Column = (&'static str, &'static str, &'static str, u8);

impl Printer<'_> {
    /// A table of one object.
    pub(crate) fn one(&self, resource: &Resource, object: &Value) -> Value {
        let rows = if meta::name(object).is_empty() { Vec::new() } else { vec![self.row(resource, object)] };
        let version = json!({"resourceVersion": meta::text(object, "resourceVersion")});
        table(&columns_of(resource), &version, &rows)
    }

    /// A table of a list.
    pub(crate) fn list(&self, list: &ListAnswer) -> Value {
        let rows = list.page.items.iter().map(|object| {
            let value = convert::value_of(&list.resource, object);
            self.row(&list.resource, &value)
        });
        table(&columns_of(&list.resource), &list.metadata(), &rows.collect::<Vec<_>>())
    }

    /// A table of what a scale subresource answers.
    pub(crate) fn scale(&self, scale: &Value) -> Value {
        let columns: Vec<Value> = columns::SCALE.iter().map(column).collect();
        let number = |part: &str| meta::int_at(scale, &[part, "replicas"]).unwrap_or(0);
        let age = cells::age(scale, self.server.inner.clock.now());
        let cells = vec![meta::name(scale).into(), number("spec").into(), number("status").into(), age];
        let version = json!({"resourceVersion": meta::text(scale, "resourceVersion")});
        table(&columns, &version, &[self.row_of(cells, scale)])
    }

    fn row(&self, resource: &Resource, object: &Value) -> Value {
        let now = self.server.inner.clock.now();
        let cells = match resource.custom() {
            Some(custom) => custom_cells(&custom.columns, object, now),
            None => kinds::cells(resource, object, now),
        };
        self.row_of(cells, object)
    }

    fn row_of(&self, cells: Vec<Value>, object: &Value) -> Value {
        let mut row = Map::new();
        row.insert("cells".to_owned(), cells.into());
        match self.include {
            IncludeObject::None => {
                row.insert("object".to_owned(), Value::Null);
            }
            IncludeObject::Metadata => {
                row.insert("object".to_owned(), partial(object));
            }
            IncludeObject::Object => {
                row.insert("object".to_owned(), object.clone());
            }
        }
        Value::Object(row)
    }
}

fn columns_of(resource: &Resource) -> Vec<Value> {
    match resource.custom() {
        Some(custom) => custom_columns(&custom.columns),
        None => columns::columns(resource).iter().map(column).collect(),
    }
}

fn table(columns: &[Value], metadata: &Value, rows: &[Value]) -> Value {
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn column((name, kind, format, priority): &Column) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": about(name), "priority": priority})
}

fn about(name: &str) -> &'static str {
    match name {
        "Name" => {
            "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
        }
        "Age" => {
            "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
        }
        _ => "",
    }
}

fn custom_columns(declared: &[Value]) -> Vec<Value> {
    let mut columns = vec![column(&("Name", "string", "name", 0))];
    if declared.is_empty() {
        columns.push(column(&("Age", "date", "", 0)));
    }
    columns.extend(declared.iter().map(|declared| {
        let text = |key: &str| declared.get(key).and_then(Value::as_str).unwrap_or_default();
        let priority = declared.get("priority").and_then(Value::as_i64).unwrap_or(0);
        let name = text("name");
        let about = if text("description").is_empty() { format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")) } else { text("description").to_owned() };
        json!({"name": name, "type": text("type"), "format": text("format"), "description": about, "priority": priority})
    }));
    columns
}

fn custom_cells(declared: &[Value], object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let mut cells = vec![Value::from(meta::name(object))];
    if declared.is_empty() {
        cells.push(cells::age(object, now));
    }
    cells.extend(declared.iter().map(|declared| {
        let text = |key: &str| declared.get(key).and_then(Value::as_str).unwrap_or_default();
        let found = cells::json_path(object, text("jsonPath"));
        match (text("type"), found) {
            (_, None) => Value::Null,
            ("date", Some(Value::String(time))) => cells::since(time, now).into(),
            ("integer", Some(value)) => value.as_i64().map_or(Value::Null, Value::from),
            ("number", Some(value)) => value.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Some(value)) => value.as_bool().map_or(Value::Null, Value::from),
            (_, Some(Value::String(text))) => text.as_str().into(),
            (_, Some(other)) => other.to_string().into(),
        }
    }));
    cells
}
