//! The least part of a case that still shows a difference, found by leaving things out one at a time.

use berth_checker::Case;
use serde_json::Value;

/// Keys without which an object is another thing, or no longer valid.
const KEPT: [&str; 19] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "nodeName",
    "template",
    "containers",
    "labelSelector",
    "Price",
    "status",
    "capacity",
    "key",
    "operator",
    "values",
    "topologyKey",
    "whenUnsatisfiable",
    "preference",
    "podAffinityTerm",
];

/// Pointers to everything that could be left out, outermost first.
fn parts(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = Vec::new();
    match value {
        Value::Array(items) => {
            below.extend(items.iter().enumerate().rev().map(|(i, v)| (format!("{at}/{i}"), v, true)));
        }
        Value::Object(fields) => {
            let path = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            below.extend(fields.iter().map(|(key, v)| (path(key), v, !KEPT.contains(&key.as_str()))));
        }
        _ => {}
    }
    found.extend(below.iter().filter(|(_, _, may_go)| *may_go).map(|(path, ..)| path.clone()));
    for (path, v, _) in below {
        parts(v, &path, found);
    }
}

/// The value without the part at the pointer; `None` where there is none.
fn without(value: &Value, pointer: &str) -> Option<Value> {
    let mut left = value.clone();
    let (parent, last) = pointer.rsplit_once('/')?;
    match left.pointer_mut(parent)? {
        Value::Array(items) => {
            let index = last.parse::<usize>().ok().filter(|i| *i < items.len())?;
            items.remove(index);
        }
        Value::Object(fields) => {
            fields.remove(&last.replace("~1", "/").replace("~0", "~"))?;
        }
        _ => return None,
    }
    Some(left)
}

fn join(case: &Case) -> Value {
    Value::Array(vec![Value::Array(case.objects.clone()), case.catalogue.clone()])
}

fn split(joined: &Value) -> Case {
    Case { objects: joined[0].as_array().cloned().unwrap_or_default(), catalogue: joined[1].clone() }
}

/// Leaves out whatever can go while `still_differs` holds.
pub(crate) fn shrink(case: &Case, mut still_differs: impl FnMut(&Case) -> bool) -> Case {
    let mut least = join(case);
    loop {
        let mut paths = Vec::new();
        for half in ["/0", "/1"] {
            parts(least.pointer(half).unwrap_or(&Value::Null), half, &mut paths);
        }
        let mut has_shrunk = false;
        // A path may have moved by an earlier removal; then it names something else, or nothing, and no harm is done.
        for path in paths {
            if let Some(smaller) = without(&least, &path)
                && still_differs(&split(&smaller))
            {
                least = smaller;
                has_shrunk = true;
            }
        }
        if !has_shrunk {
            return split(&least);
        }
    }
}
