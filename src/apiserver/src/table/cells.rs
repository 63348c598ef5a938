//! Texts of cells: ages, paths, joined lists.

use jiff::Timestamp;
use serde_json::Value;

use crate::meta;

/// How long ago an object was made.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(meta::text(object, "creationTimestamp"), now).into()
}

/// How long ago a time was, as kubectl writes it: `45s`, `3m5s`, `5d3h`.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) if time.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A duration in at most two units, finer the shorter it is.
pub(super) fn human(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// The value at a simple JSON path, such as `.status.conditions[?(@.type=="Ready")].status`; of several the first.
pub(super) fn json_path<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut current = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']')?;
            current = index(current, inside)?;
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        // A dot within a name is escaped.
        let mut name = String::new();
        let mut end = rest.len();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        if name.is_empty() {
            return None;
        }
        current = current.get(&name)?;
        rest = rest.get(end..)?;
    }
    Some(current)
}

fn index<'v>(value: &'v Value, inside: &str) -> Option<&'v Value> {
    if let Ok(at) = inside.parse::<usize>() {
        return value.get(at);
    }
    if inside == "*" {
        return value.get(0);
    }
    let unquoted = |text: &str| text.trim().trim_matches(|c| c == '"' || c == '\'').to_owned();
    match inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        Some(test) => {
            let (field, wanted) = test.split_once("==")?;
            let field = field.trim().trim_start_matches("@.").to_owned();
            let wanted = unquoted(wanted);
            value.as_array()?.iter().find(|item| {
                json_path(item, &format!(".{field}")).is_some_and(|found| match found {
                    Value::String(found) => *found == wanted,
                    other => {
                        let printed = other.to_string();
                        printed == wanted
                    }
                })
            })
        }
        None => value.get(unquoted(inside)),
    }
}

/// Labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: Option<&Value>) -> String {
    let parts: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(parts.join(","))
}

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(125, "2m5s")]
    #[case(600, "10m")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(30 * 3600, "30h")]
    #[case(50 * 3600, "2d2h")]
    #[case(20 * 86_400, "20d")]
    #[case(800 * 86_400, "2y70d")]
    #[case(-5, "<invalid>")]
    fn ages_are_short(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(human(seconds), expected);
    }

    #[test]
    fn paths_reach_into_lists_and_escaped_names() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}},
                            "status": {"conditions": [{"type": "A", "status": "1"}, {"type": "B", "status": "2"}]}});
        let text = |path: &str| json_path(&object, path).and_then(Value::as_str).map(str::to_owned);
        assert_eq!(text(r".metadata.labels.a\.b/c").as_deref(), Some("x"));
        assert_eq!(text(r#".status.conditions[?(@.type=="B")].status"#).as_deref(), Some("2"));
        assert_eq!(text(".status.conditions[0].status").as_deref(), Some("1"));
        assert_eq!(text(".status.missing"), None);
    }
}
