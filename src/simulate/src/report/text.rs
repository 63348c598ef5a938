//! Figures in the words of tables and pages.

/// Dollars with two digits, `$1,234.50`; the sign before them. Less than ten cents, what an hour of a recording may come to,
/// has four.
pub(super) fn dollars(amount: f64) -> String {
    let (digits, parts) = if amount.abs() < 0.1 && amount.abs() >= 0.000_05 { (4, 10_000.0) } else { (2, 100.0) };
    let small = (amount.abs() * parts).round();
    let sign = if amount < 0.0 && small > 0.0 { "-" } else { "" };
    let text = format!("{small:0width$.0}", width = digits + 1);
    let (whole, fraction) = text.split_at(text.len() - digits);
    format!("{sign}${}.{fraction}", grouped(whole))
}

/// Dollars that come in addition, with a sign: `+$3.00`.
pub(super) fn difference(amount: f64) -> String {
    let text = dollars(amount);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// Digits in groups of three.
pub(super) fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with one digit after the point, and groups of three before it; with two where it is less than one.
pub(super) fn tenths(value: f64) -> String {
    let text = if value > 0.0 && value < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    // The sum of nothing is -0.
    let text = if text == "-0.0" { "0.0".to_owned() } else { text };
    match text.split_once('.') {
        Some((whole, fraction)) if !whole.starts_with('-') => format!("{}.{fraction}", grouped(whole)),
        _ => text,
    }
}

/// A count.
pub(super) fn count(value: impl std::fmt::Display) -> String {
    grouped(&value.to_string())
}

/// Seconds as people say them: `0s`, `48s`, `12m30s`, `3h20m`, `2d4h`.
pub(super) fn duration(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0 if seconds > 0.0 => format!("{seconds:.1}s"),
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{}h", whole / 86_400, whole / 3600 % 24),
    }
}

/// How long a simulation was, of hours: short ones to the second.
pub(super) fn length(hours: f64) -> String {
    if hours < 1.0 { duration(hours * 3600.0) } else { format!("{} h", tenths(hours)) }
}

/// A share in percent; nothing of nothing is none.
pub(super) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", part / whole * 100.0) } else { "-".to_owned() }
}
