use super::text::{difference, dollars, duration, grouped, tenths};

#[test]
fn an_axis_tells_its_halves() {
    let text = super::plot::svg(
        "t",
        "",
        &[0.0, 60.0],
        &[super::plot::Line { name: String::new(), values: vec![9.0, 10.0], is_filled: false }],
    );
    assert!(text.contains(">2.5</text>") && text.contains(">7.5</text>") && !text.contains(">8</text>"), "{text}");
}

#[test]
fn figures_read_as_people_write_them() {
    assert_eq!(dollars(1_234_567.891), "$1,234,567.89");
    assert_eq!(dollars(-0.5), "-$0.50");
    assert_eq!(dollars(-0.001), "$0.00");
    assert_eq!(difference(3.0), "+$3.00");
    assert_eq!(grouped("100"), "100");
    assert_eq!([-0.0, -0.04, 1234.56].map(tenths), ["0.0", "0.0", "1,234.6"]);
    assert_eq!(
        [0.0, 0.02, 48.0, 750.0, 12_000.0, 187_200.0].map(duration),
        ["0s", "0.0s", "48s", "12m30s", "3h20m", "2d4h"]
    );
}
