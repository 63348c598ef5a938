//! Lines over time, drawn as SVG: no script, no font, no network.

use std::fmt::Write;

use super::text::grouped;

/// The size of the drawing, in its own units: it is scaled to the page.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
/// Room for the axes' texts, and what a character takes of it at the size that these have on a phone.
const LEFT: f64 = 56.0;
const CHARACTER: f64 = 10.5;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;

/// A line of a plot: its name, and a value for each sample.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    /// Whether the area below it is filled, as for what is stacked.
    pub(super) is_filled: bool,
}

/// A plot of lines over the same times, in seconds from the start. `unit` stands before the values of the axis; without one
/// these are counts.
pub(super) fn svg(title: &str, unit: &str, seconds: &[f64], lines: &[Line]) -> String {
    let end = seconds.last().copied().unwrap_or(1.0).max(1.0);
    let most = lines.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max);
    let (step, top) = scale(most, unit.is_empty());
    let rows = std::iter::successors(Some(0.0), |value| Some(value + step)).take_while(|value| *value <= top * 1.0001);
    let texts: Vec<(f64, String)> =
        rows.map(|value| (value, format!("{unit}{}", number(value, step, unit.is_empty())))).collect();
    let longest = texts.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let left = (8.0 + CHARACTER * f64::from(u32::try_from(longest).unwrap_or(0))).max(LEFT);
    let x = |time: f64| left + time / end * (WIDTH - left - RIGHT);
    let y = |value: f64| TOP + (1.0 - value / top) * (HEIGHT - TOP - BOTTOM);
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" preserveAspectRatio=\"none\">",
        escaped(title)
    );
    for (value, text) in texts {
        let at = y(value);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left} {at:.1}H{WIDTH}\"/><text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{text}</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let (every, label) = time_step(end);
    let mut time = 0.0;
    while time <= end * 1.0001 {
        let _ = write!(
            out,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}{label}</text>",
            x(time),
            HEIGHT - 6.0,
            time / if label == "d" {
                86_400.0
            } else if label == "h" {
                3600.0
            } else {
                60.0
            }
        );
        time += every;
    }
    for (index, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (number, (&time, &value)) in seconds.iter().zip(&line.values).enumerate() {
            // A value holds until the next sample.
            if number == 0 {
                let _ = write!(path, "M{:.1} {:.1}", x(time), y(value));
            } else {
                let _ = write!(path, "H{:.1}V{:.1}", x(time), y(value));
            }
        }
        if line.is_filled {
            let _ = write!(out, "<path class=\"area c{}\" d=\"{path}V{:.1}H{:.1}Z\"/>", index % 8, y(0.0), x(0.0));
        } else {
            let _ = write!(out, "<path class=\"line c{}\" d=\"{path}\"/>", index % 8);
        }
    }
    out.push_str("</svg>");
    out
}

/// The names of the lines beside their colours.
pub(super) fn legend(lines: &[Line]) -> String {
    let mut out = String::from("<p class=\"legend\">");
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(out, "<span><i class=\"c{}\"></i>{}</span>", index % 8, escaped(&line.name));
    }
    out.push_str("</p>");
    out
}

/// The distance of lines and the top of an axis that holds `most`: round numbers, of counts whole ones.
fn scale(most: f64, counts: bool) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let mut steps = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|factor| factor * power);
    let is_round = |step: &f64| *step >= rough && (!counts || step.fract() == 0.0);
    let step = steps.find(is_round).unwrap_or((power * 10.0).max(1.0));
    (step, (most / step).ceil() * step)
}

/// How far texts of the time axis are apart, in seconds, and their unit.
fn time_step(end: f64) -> (f64, &'static str) {
    const STEPS: [(f64, &str); 16] = [
        (60.0, "m"),
        (300.0, "m"),
        (600.0, "m"),
        (1800.0, "m"),
        (3600.0, "h"),
        (7200.0, "h"),
        (10_800.0, "h"),
        (14_400.0, "h"),
        (21_600.0, "h"),
        (43_200.0, "h"),
        (86_400.0, "d"),
        (172_800.0, "d"),
        (432_000.0, "d"),
        (864_000.0, "d"),
        (2_592_000.0, "d"),
        (8_640_000.0, "d"),
    ];
    STEPS.into_iter().find(|(step, _)| end / step <= 12.0).unwrap_or((8_640_000.0, "d"))
}

fn number(value: f64, step: f64, counts: bool) -> String {
    if step >= 1.0 && step.fract() == 0.0 {
        return grouped(&format!("{value:.0}"));
    }
    // Of money cents, or less where they are all alike.
    let digits = if counts {
        1
    } else if step >= 0.01 {
        2
    } else {
        4
    };
    format!("{value:.digits$}")
}

/// Text in an element or in a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() && char != '\n' => out.push(char::REPLACEMENT_CHARACTER),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_room_for_its_longest_text() {
        let line = |most: f64| Line { name: "paid".to_owned(), values: vec![0.0, most], is_filled: false };
        let ends_at = |most: f64| {
            let drawn = svg("Dollars", "$", &[0.0, 60.0], &[line(most)]);
            let (_, text) = drawn.split_once("<text class=\"axis\" x=\"").unwrap();
            text.split_once('"').unwrap().0.parse::<f64>().unwrap()
        };
        assert!((ends_at(100.0) - 50.0).abs() < 0.1);
        // Seven characters, each of them 16 units high on a phone.
        assert!(ends_at(40_000.0) >= 7.0 * 0.64 * 16.0, "{}", ends_at(40_000.0));
    }
}
