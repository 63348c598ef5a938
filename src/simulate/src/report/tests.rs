use super::text::{difference, dollars, duration, grouped, length, tenths};

#[test]
fn an_axis_tells_its_cents_and_whole_counts() {
    let plot = |unit: &str, most: f64| {
        let line = super::plot::Line { name: String::new(), values: vec![0.0, most], is_filled: false };
        super::plot::svg("t", unit, &[0.0, 60.0], &[line])
    };
    let dollars = plot("$", 10.0);
    assert!(dollars.contains(">$2.50</text>") && dollars.contains(">$7.50</text>") && !dollars.contains(">$8"));
    for (most, tick) in [(10.0, ">5</text>"), (1.0, ">1</text>"), (2.0, ">2</text>"), (730.0, ">400</text>")] {
        let nodes = plot("", most);
        let axis = nodes.split("text-anchor=\"middle\"").next().unwrap();
        assert!(axis.contains(tick) && !axis.contains(".5</text>"), "{most}: {axis}");
    }
}

#[test]
fn figures_read_as_people_write_them() {
    assert_eq!(dollars(1_234_567.891), "$1,234,567.89");
    assert_eq!(dollars(-0.5), "-$0.50");
    // A recording of minutes: what half of its slots makes of it would be lost in cents.
    assert_eq!([-0.001, 0.0312, -0.000_01, 0.1].map(dollars), ["-$0.0010", "$0.0312", "$0.00", "$0.10"]);
    assert_eq!(difference(3.0), "+$3.00");
    assert_eq!(grouped("100"), "100");
    assert_eq!([0.01, 0.3, 1.0, 720.0].map(length), ["36s", "18m00s", "1.0 h", "720.0 h"]);
    assert_eq!([-0.0, 0.04, 1.04, 1234.56].map(tenths), ["0.0", "0.04", "1.0", "1,234.6"]);
    assert_eq!(
        [0.0, 0.02, 48.0, 750.0, 12_000.0, 187_200.0].map(duration),
        ["0s", "0.0s", "48s", "12m30s", "3h20m", "2d4h"]
    );
}
