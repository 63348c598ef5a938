//! Cron schedules of budgets, as robfig/cron's standard parser reads them.

/// The macros that Karpenter's schema allows.
const MACROS: [&str; 7] = ["@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// One of the five fields: its name, range, and the words that may stand for its numbers, from the least.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, words: &[] },
    Field { name: "hour", least: 0, most: 23, words: &[] },
    Field { name: "day of month", least: 1, most: 31, words: &[] },
    Field { name: "month", least: 1, most: 12, words: &MONTHS },
    Field { name: "day of week", least: 0, most: 6, words: &DAYS },
];

/// Why a text is no schedule; `None` if it is one.
pub(super) fn error(text: &str) -> Option<String> {
    if text.starts_with('@') {
        let expected = || format!("expected five cron fields or one of {}", MACROS.join(", "));
        return (!MACROS.contains(&text)).then(expected);
    }
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Some("time zones are not supported, schedules are in UTC".to_owned());
    }
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!("has {} fields, expected five: minute hour day-of-month month day-of-week", parts.len()));
    }
    let wrong = FIELDS.iter().zip(parts).find(|(field, part)| !part.split(',').all(|range| field.has_range(range)));
    wrong.map(|(field, part)| {
        format!(
            "the {} is {part:?}, expected *, numbers from {} to {}, ranges a-b or steps /n",
            field.name, field.least, field.most
        )
    })
}

// === impl Field ===

impl Field {
    /// Whether this is `*`, `?`, `n` or `n-m`, each with `/step` or without.
    fn has_range(&self, text: &str) -> bool {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        if step.is_some_and(|step| number(step).is_none_or(|step| step == 0)) {
            return false;
        }
        if range == "*" || range == "?" {
            return true;
        }
        let (start, end) = range.split_once('-').unwrap_or((range, range));
        self.value(start).zip(self.value(end)).is_some_and(|(start, end)| start <= end)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let word = self.words.iter().zip(self.least..).find(|(word, _)| text.eq_ignore_ascii_case(word));
        let value = word.map(|(_, value)| value).or_else(|| number(text))?;
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
