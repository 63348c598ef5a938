use proptest::prelude::*;
use rstest::rstest;

use crate::Format::{BinarySI, DecimalExponent, DecimalSI};
use crate::{Format, NANOS, Quantity, QuantityError};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The cases of apimachinery's TestQuantityParse: text, mantissa, decimal exponent, notation.
const APIMACHINERY: &[(&str, i128, i32, Format)] = &[
    ("0", 0, 0, DecimalSI),
    ("0n", 0, 0, DecimalSI),
    ("0u", 0, 0, DecimalSI),
    ("0m", 0, 0, DecimalSI),
    ("0Ki", 0, 0, BinarySI),
    ("0k", 0, 0, DecimalSI),
    ("0Ti", 0, 0, BinarySI),
    ("0T", 0, 0, DecimalSI),
    ("1", 1, 0, DecimalSI),
    ("1Ki", 1024, 0, BinarySI),
    ("8Ki", 8 * 1024, 0, BinarySI),
    ("7Mi", 7 << 20, 0, BinarySI),
    ("6Gi", 6 << 30, 0, BinarySI),
    ("5Ti", 5 << 40, 0, BinarySI),
    ("4Pi", 4 << 50, 0, BinarySI),
    ("3Ei", 3 << 60, 0, BinarySI),
    ("10Ti", 10 << 40, 0, BinarySI),
    ("100Ti", 100 << 40, 0, BinarySI),
    ("5n", 5, -9, DecimalSI),
    ("4u", 4, -6, DecimalSI),
    ("3m", 3, -3, DecimalSI),
    ("9", 9, 0, DecimalSI),
    ("8k", 8, 3, DecimalSI),
    ("50k", 5, 4, DecimalSI),
    ("7M", 7, 6, DecimalSI),
    ("6G", 6, 9, DecimalSI),
    ("5T", 5, 12, DecimalSI),
    ("40T", 4, 13, DecimalSI),
    ("300T", 3, 14, DecimalSI),
    ("2P", 2, 15, DecimalSI),
    ("1E", 1, 18, DecimalSI),
    ("1E-3", 1, -3, DecimalExponent),
    ("1e3", 1, 3, DecimalExponent),
    ("1E6", 1, 6, DecimalExponent),
    ("1e9", 1, 9, DecimalExponent),
    ("1E12", 1, 12, DecimalExponent),
    ("1e15", 1, 15, DecimalExponent),
    ("1E18", 1, 18, DecimalExponent),
    ("1e14", 1, 14, DecimalExponent),
    ("1e13", 1, 13, DecimalExponent),
    ("100.035k", 100_035, 0, DecimalSI),
    ("0.001", 1, -3, DecimalSI),
    ("0.0005k", 5, -1, DecimalSI),
    ("0.005", 5, -3, DecimalSI),
    ("0.05", 5, -2, DecimalSI),
    ("0.5", 5, -1, DecimalSI),
    ("0.00050k", 5, -1, DecimalSI),
    ("0.00500", 5, -3, DecimalSI),
    ("0.50000", 5, -1, DecimalSI),
    ("0.5e0", 5, -1, DecimalExponent),
    ("0.5e-1", 5, -2, DecimalExponent),
    ("0.5e-2", 5, -3, DecimalExponent),
    ("10.035M", 10_035, 3, DecimalSI),
    ("1.2e3", 12, 2, DecimalExponent),
    ("1.3E+6", 13, 5, DecimalExponent),
    ("1.40e9", 14, 8, DecimalExponent),
    ("1.53E12", 153, 10, DecimalExponent),
    ("1.6e15", 16, 14, DecimalExponent),
    ("1.7E18", 17, 17, DecimalExponent),
    ("9.01", 901, -2, DecimalSI),
    ("8.1k", 81, 2, DecimalSI),
    ("7.123456M", 7_123_456, 0, DecimalSI),
    ("6.987654321G", 6_987_654_321, 0, DecimalSI),
    ("5.444T", 5444, 9, DecimalSI),
    ("300.2T", 3002, 11, DecimalSI),
    ("2.5P", 25, 14, DecimalSI),
    ("1.01E", 101, 16, DecimalSI),
    ("3.001n", 4, -9, DecimalSI),
    ("1.1E-9", 2, -9, DecimalExponent),
    ("0.0000000001", 1, -9, DecimalSI),
    ("0.0000000005", 1, -9, DecimalSI),
    ("0.5e-9", 1, -9, DecimalExponent),
    ("0.9n", 1, -9, DecimalSI),
    ("0.00000012345", 124, -9, DecimalSI),
    ("0.00000012354", 124, -9, DecimalSI),
    ("9Ei", i64::MAX as i128, 0, BinarySI),
    ("9223372036854775807Ki", i64::MAX as i128, 0, BinarySI),
    ("12E", 12, 18, DecimalSI),
    ("100.035Ki", 10_243_584, -2, BinarySI),
    ("0.5Mi", 1 << 19, 0, BinarySI),
    ("0.05Gi", 536_870_912, -1, BinarySI),
    ("0.025Ti", 274_877_906_944, -1, BinarySI),
    ("0.000000000001Ki", 2, -9, DecimalSI),
    (".001", 1, -3, DecimalSI),
    (".0001k", 100, -3, DecimalSI),
    ("1.", 1, 0, DecimalSI),
    ("1.G", 1, 9, DecimalSI),
];

#[test]
fn amounts_and_notations_are_those_of_apimachinery_under_every_sign() {
    for &(text, mantissa, exponent, format) in APIMACHINERY {
        let nanos = mantissa * 10_i128.pow(u32::try_from(exponent + 9).unwrap());
        for (signed, expected) in [(text.to_owned(), nanos), (format!("+{text}"), nanos), (format!("-{text}"), -nanos)]
        {
            let parsed = quantity(&signed);
            assert_eq!((parsed.nanos(), parsed.format()), (expected, format), "{signed}");
        }
    }
}

#[rstest]
#[case::fraction_joins_a_smaller_suffix("1.5Gi", "1536Mi")]
#[case::binary_below_1024_is_decimal("0.5Ki", "512")]
#[case::binary_with_a_fraction_is_decimal("0.0009765625Ki", "1")]
#[case::binary_fraction_keeps_its_precision("100.035Ki", "102435840m")]
#[case::binary_climbs_to_the_largest_suffix("1048576Ki", "1Gi")]
#[case::odd_binary_stays("1025Ki", "1025Ki")]
#[case::minus_1024_is_binary("-1Ki", "-1Ki")]
#[case::decimal_climbs("1000m", "1")]
#[case::decimal_descends("1.5", "1500m")]
#[case::thousand("50000", "50k")]
#[case::sub_nano_rounds_up("3.001n", "4n")]
#[case::beyond_exa_keeps_its_suffix("1000E", "1000E")]
#[case::beyond_i64("9223372036854775808", "9223372036854775808")]
#[case::exponent("1E3", "1e3")]
#[case::exponent_of_three("12e4", "120e3")]
#[case::exponent_zero("1.0e0", "1")]
#[case::negative_exponent("5e-4", "500e-6")]
#[case::zero_forgets_its_suffix("0Gi", "0")]
#[case::capped_binary("9Ei", "9223372036854775807")]
fn canonical_form(#[case] text: &str, #[case] printed: &str) {
    assert_eq!(quantity(text).to_string(), printed);
}

#[rstest]
#[case("1.1.M")]
#[case("1+1.0M")]
#[case("0.1mi")]
#[case("0.1am")]
#[case("aoeu")]
#[case(".5i")]
#[case("1i")]
#[case("-3.01i")]
#[case("-3.01e-")]
#[case(" 1")]
#[case("1 ")]
#[case("")]
#[case(".")]
#[case("-")]
#[case("Ki")]
#[case("1e")]
#[case("1e3k")]
#[case("1kE3")]
#[case("--1")]
#[case("١")]
#[case("1E99999999999999999999")]
fn text_outside_the_grammar_is_refused(#[case] text: &str) {
    text.parse::<Quantity>().unwrap_err();
}

#[test]
fn amounts_beyond_the_range_are_errors_and_never_wrap() {
    for text in ["1e30", "170141183460469231731687303716", "-1e1000000000", "1e9223372036854775807"] {
        assert_eq!(text.parse::<Quantity>(), Err(QuantityError::TooLarge(text.to_owned())));
    }
    assert_eq!(quantity("0e9223372036854775807").nanos(), 0);
    assert_eq!(quantity("170141183460469231731687303715.884105727").nanos(), i128::MAX);
    assert_eq!(quantity("7e-9223372036854775808").nanos(), 1);
}

#[test]
fn errors_name_what_was_found_and_what_was_expected() {
    let error = "2Gb".parse::<Quantity>().unwrap_err().to_string();
    assert!(error.contains("\"2Gb\"") && error.contains("\"Gb\"") && error.contains("Ki Mi Gi"), "{error}");
    let long = "x".repeat(1000).parse::<Quantity>().unwrap_err().to_string();
    assert!(long.len() < 200, "{long}");
}

#[rstest]
#[case("1.0001", 1001, 2, 1)]
#[case("-1.0001", -1000, -1, -2)]
#[case("1500m", 1500, 2, 1)]
#[case("3", 3000, 3, 3)]
fn rounding_is_named_by_its_direction(
    #[case] text: &str,
    #[case] milli_ceil: i64,
    #[case] value_ceil: i64,
    #[case] value_floor: i64,
) {
    let parsed = quantity(text);
    assert_eq!(parsed.milli_ceil(), Some(milli_ceil));
    assert_eq!((parsed.value_ceil(), parsed.value_floor()), (Some(value_ceil), Some(value_floor)));
}

#[test]
fn conversions_beyond_i64_are_none() {
    assert_eq!(quantity("9223372036854775807").value_ceil(), Some(i64::MAX));
    assert_eq!(quantity("9223372036854775807.1").value_ceil(), None);
    assert_eq!(quantity("9223372036854775807").milli_ceil(), None);
}

#[test]
fn numbers_and_strings_of_manifests_mean_the_same() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json);
    for (json, printed) in [("2", "2"), ("-2", "-2"), ("0.5", "500m"), ("1e-7", "100n"), (r#"" 1Gi ""#, "1Gi")] {
        assert_eq!(read(json).unwrap().to_string(), printed);
    }
    assert_eq!(read("18446744073709551615").unwrap().nanos(), i128::from(u64::MAX) * NANOS);
    assert_eq!(serde_json::to_string(&quantity("1024Mi")).unwrap(), r#""1Gi""#);
    for json in ["true", "[1]", "null", r#""ten""#, "1e300"] {
        assert!(read(json).is_err(), "{json}");
    }
}

#[test]
fn zero_takes_on_the_notation_of_what_is_added() {
    let sum = Quantity::ZERO.checked_add(quantity("1Gi")).unwrap();
    assert_eq!(sum.to_string(), "1Gi");
    assert_eq!(quantity("1Gi").checked_sub(quantity("512M")).unwrap().to_string(), "548576Ki");
    assert_eq!(Quantity::from_nanos(i128::MAX, DecimalSI).checked_add(quantity("1n")), None);
    assert_eq!(Quantity::from_nanos(i128::MIN, DecimalSI).checked_sub(quantity("1n")), None);
}

#[test]
fn order_is_by_amount_whatever_the_notation() {
    assert!(quantity("10000T") > quantity("100Gi"));
    assert_eq!(quantity("1Ki"), quantity("1.024e3"));
}

prop_compose! {
    fn any_quantity()(
        nanos in prop_oneof![any::<i128>(), any::<i64>().prop_map(i128::from), (-2000_i128..2000).prop_map(|n| n * NANOS)],
        format in prop_oneof![Just(BinarySI), Just(DecimalSI), Just(DecimalExponent)],
    ) -> Quantity {
        // Kubernetes caps binary amounts, so larger ones cannot survive a round trip.
        let fits = format != BinarySI || nanos.unsigned_abs() <= i64::MAX.unsigned_abs().into();
        Quantity::from_nanos(nanos, if fits { format } else { DecimalSI })
    }
}

proptest! {
    #[test]
    fn printing_and_parsing_gives_the_amount_back(original in any_quantity()) {
        let printed = original.to_string();
        if original.nanos() == i128::MIN {
            return Ok(());
        }
        let parsed: Quantity = printed.parse().unwrap();
        prop_assert_eq!(parsed, original);
        prop_assert_eq!(parsed.to_string(), printed);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,45}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,20}|.{0,20}") {
        if let Ok(parsed) = text.parse::<Quantity>() {
            let again: Quantity = parsed.to_string().parse().unwrap();
            prop_assert_eq!(again, parsed);
        }
    }
}
