use super::text::{difference, dollars, duration, grouped};

#[test]
fn figures_read_as_people_write_them() {
    assert_eq!(dollars(1_234_567.891), "$1,234,567.89");
    assert_eq!(dollars(-0.5), "-$0.50");
    assert_eq!(dollars(-0.001), "$0.00");
    assert_eq!(difference(3.0), "+$3.00");
    assert_eq!(grouped("100"), "100");
    assert_eq!(
        [0.0, 0.02, 48.0, 750.0, 12_000.0, 187_200.0].map(duration),
        ["0s", "0.0s", "48s", "12m30s", "3h20m", "2d4h"]
    );
}
