//! Quantities: exact numbers with a suffix, kept in one canonical form.
//!
//! Corresponds to k8s.io/apimachinery/pkg/api/resource. A quantity is `mantissa × 10^scale`, with at most nine decimal
//! places. Reading multiplies a binary suffix into the mantissa, and writing finds the best suffix again: `1.5Gi` is
//! 1610612736, which is written `1536Mi`.

mod parse;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

/// The family of suffixes with which a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySI,
    /// `12M`
    #[default]
    DecimalSI,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    /// The power of ten, never below `NANO`.
    scale: i32,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The smallest scale. Finer values are rounded away from zero, so that no request becomes zero.
const NANO: i32 = -9;
const DECIMAL_SUFFIXES: &[(&str, i32)] =
    &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: &[(&str, u32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Returns `mantissa / 10^places`, rounded away from zero. `sticky` is true if digits were already cut off.
fn divide_up(mantissa: i128, places: u32, sticky: bool) -> i128 {
    let (quotient, remainder) = match 10i128.checked_pow(places) {
        Some(divisor) => (mantissa / divisor, mantissa % divisor),
        None => (0, mantissa),
    };
    let inexact = remainder != 0 || sticky;
    quotient + if inexact { if mantissa < 0 { -1 } else { 1 } } else { 0 }
}

impl Quantity {
    pub const ZERO: Self = Self { mantissa: 0, scale: 0, format: Format::DecimalSI };

    /// Builds a whole number: `BinarySI` for bytes, `DecimalSI` for counts and cores.
    pub fn new(value: i64, format: Format) -> Self {
        Self { mantissa: value.into(), scale: 0, format }
    }

    /// Builds a number of thousandths, the unit of CPU.
    pub fn from_milli(milli: i64, format: Format) -> Self {
        Self { mantissa: milli.into(), scale: -3, format }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::quantity(text)
    }

    fn rounded(mantissa: i128, scale: i32, sticky: bool, format: Format) -> Self {
        if scale < NANO {
            Self { mantissa: divide_up(mantissa, scale.abs_diff(NANO), sticky), scale: NANO, format }
        } else {
            Self { mantissa, scale, format }
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Returns -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Returns the whole number, rounded away from zero and limited to 64 bits.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Returns thousandths, rounded away from zero and limited to 64 bits.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Returns the number in units of `10^scale`, rounded away from zero and limited to 64 bits.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let exact = if self.scale < scale {
            divide_up(self.mantissa, self.scale.abs_diff(scale), false)
        } else {
            raise(self.mantissa, self.scale.abs_diff(scale))
        };
        i64::try_from(exact).unwrap_or(if exact < 0 { i64::MIN } else { i64::MAX })
    }

    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.scale)
    }

    /// Returns the same number with another family of suffixes.
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Returns both mantissas at the finer of both scales, or `None` if the coarser number is too large for that scale.
    /// Then the finer number is negligible.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        if self.is_zero() || other.is_zero() {
            // The scale of a zero does not matter.
            let scale = if self.is_zero() { other.scale } else { self.scale };
            return Some((self.mantissa, other.mantissa, scale));
        }
        let scale = self.scale.min(other.scale);
        let raised = |q: Self| q.mantissa.checked_mul(10i128.checked_pow(q.scale.abs_diff(scale))?);
        Some((raised(self)?, raised(other)?, scale))
    }

    /// Returns the mantissa without trailing zeros, at a scale that has a suffix: a multiple of three.
    fn canonical(&self) -> (i128, i32) {
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        while scale.rem_euclid(3) != 0 {
            mantissa = mantissa.saturating_mul(10);
            scale -= 1;
        }
        (mantissa, scale)
    }

    fn write_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut mantissa, mut scale) = self.canonical();
        if self.format == Format::DecimalExponent {
            return if scale == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{scale}") };
        }
        while scale > 18 {
            mantissa = mantissa.saturating_mul(1000);
            scale -= 3;
        }
        let (suffix, _) =
            DECIMAL_SUFFIXES.iter().find(|(_, exponent)| *exponent == scale).expect("every such scale has a suffix");
        write!(f, "{mantissa}{suffix}")
    }

    /// Returns the whole number, if it is written with a binary suffix.
    fn binary_whole(&self) -> Option<i128> {
        if self.format != Format::BinarySI {
            return None;
        }
        let whole = match self.scale {
            0.. => raise(self.mantissa, self.scale.unsigned_abs()),
            _ => {
                let divisor = 10i128.pow(self.scale.unsigned_abs());
                if self.mantissa % divisor != 0 {
                    return None;
                }
                self.mantissa / divisor
            }
        };
        (whole.abs() >= 1024).then_some(whole)
    }
}

/// Returns `mantissa × 10^places`, limited to 128 bits.
fn raise(mantissa: i128, places: u32) -> i128 {
    if mantissa == 0 {
        return 0;
    }
    match 10i128.checked_pow(places) {
        Some(factor) => mantissa.saturating_mul(factor),
        None if mantissa < 0 => i128::MIN,
        None => i128::MAX,
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let Some(mut whole) = self.binary_whole() else {
            // A fraction, or less than one Ki, is exact only in decimal.
            let format = if self.format == Format::BinarySI { Format::DecimalSI } else { self.format };
            return self.with_format(format).write_decimal(f);
        };
        let mut exponent = 0;
        while whole % 1024 == 0 && exponent < 60 {
            whole /= 1024;
            exponent += 10;
        }
        let suffix = BINARY_SUFFIXES.iter().find(|(_, e)| *e == exponent).map_or("", |(suffix, _)| suffix);
        write!(f, "{whole}{suffix}")
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

/// Compares the value alone: `1` equals `1000m`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.aligned(*other) {
            Some((left, right, _)) => left.cmp(&right),
            None if self.scale > other.scale => self.mantissa.cmp(&0),
            None => 0.cmp(&other.mantissa),
        }
    }
}

/// The sum keeps the suffixes of the left side, unless that is zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        match self.aligned(other) {
            Some((left, right, scale)) => Self { mantissa: left.saturating_add(right), scale, format },
            None if self.scale > other.scale => self,
            None => other.with_format(format),
        }
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { mantissa: self.mantissa.saturating_neg(), ..self }
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Self::try_from(&value).map_err(de::Error::custom)
    }
}

/// Reads a string or a number. Null is an error: a caller that takes it for zero has to say so.
impl TryFrom<&serde_json::Value> for Quantity {
    type Error = QuantityError;

    fn try_from(value: &serde_json::Value) -> Result<Self, QuantityError> {
        match value {
            serde_json::Value::String(text) => Self::parse(text.trim()),
            serde_json::Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;

    fn try_from(typed: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, QuantityError> {
        Self::parse(&typed.0)
    }
}

impl From<Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn q(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn every_quantity_has_one_canonical_form() {
        let cases = [
            ("0", "0"),
            ("0n", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("0.25", "250m"),
            ("1e9", "1e9"),
            ("1048576", "1048576"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("0.5G", "500M"),
            ("1.25Ki", "1280"),
            ("0.5Ki", "512"),
            ("1023", "1023"),
            ("1Ki", "1Ki"),
            ("0.1Ki", "102400m"),
            ("1.1Ki", "1126400m"),
            ("100000", "100k"),
            ("-5Mi", "-5Mi"),
            ("+12k", "12k"),
            ("0.000001", "1u"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1.0000000001", "1000000001n"),
            ("12e6", "12e6"),
            ("12E6", "12e6"),
            ("1e-3", "1e-3"),
            ("1e1", "10"),
            ("1e4", "10e3"),
            ("1E", "1E"),
            ("1Ei", "1Ei"),
            ("16Ei", "9223372036854775807"),
            ("10000Ei", "9223372036854775807"),
            ("1.", "1"),
            (".5", "500m"),
            ("00012", "12"),
            ("1000E", "1000E"),
            ("2048", "2048"),
            ("0.00000000000000000000000000000000000000000000001", "1n"),
        ];
        for (text, canonical) in cases {
            assert_eq!(q(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn whole_and_milli_values_round_away_from_zero() {
        let cases = [
            ("1", 1, 1000),
            ("1500m", 2, 1500),
            ("-1500m", -2, -1500),
            ("1u", 1, 1),
            ("100n", 1, 1),
            ("1Ki", 1024, 1_024_000),
            ("8Ei", i64::MAX, i64::MAX),
            ("1e30", i64::MAX, i64::MAX),
            ("-1e30", i64::MIN, i64::MIN),
        ];
        for (text, value, milli) in cases {
            assert_eq!((q(text).value(), q(text).milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn sums_keep_the_suffixes_of_the_left_side() {
        assert_eq!((q("1Gi") + q("1G")).to_string(), "2073741824");
        assert_eq!((q("500m") + q("500m")).to_string(), "1");
        assert_eq!((q("0") + q("1Mi")).to_string(), "1Mi");
        assert_eq!((q("1Gi") - q("512Mi")).to_string(), "512Mi");
        assert_eq!((q("1") - q("1500m")).to_string(), "-500m");
        assert_eq!((q("1e100") + q("1n")).to_string(), "10e99");
    }

    #[test]
    fn comparison_ignores_how_a_number_is_written() {
        assert_eq!(q("1"), q("1000m"));
        assert_eq!(q("1Ki"), q("1024"));
        assert!(q("1M") < q("1Mi") && q("-1") < q("0") && q("1e40") > q("1E") && q("1n") < q("1e60"));
    }

    #[test]
    fn a_tree_holds_quantities_as_strings_or_numbers() {
        use serde_json::json;
        assert_eq!(Quantity::try_from(&json!(" 1Ki ")).unwrap(), q("1024"));
        assert_eq!(Quantity::try_from(&json!(1.5)).unwrap(), q("1500m"));
        for other in [json!(null), json!(true), json!([]), json!({}), json!("")] {
            assert_eq!(Quantity::try_from(&other), Err(QuantityError::Format), "{other}");
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_a_fixed_point(
            mantissa in -1_000_000_000_000i64..1_000_000_000_000,
            fraction in 0u32..1_000_000,
            suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e-3"]),
        ) {
            let first = q(&format!("{mantissa}.{fraction:06}{suffix}"));
            let second = q(&first.to_string());
            prop_assert_eq!(first, second);
            prop_assert_eq!(first.to_string(), second.to_string());
        }

        #[test]
        fn arithmetic_agrees_with_integers(a in -1_000_000_000i64..1_000_000_000, b in -1_000_000_000i64..1_000_000_000) {
            let (left, right) = (Quantity::from_milli(a, Format::DecimalSI), Quantity::from_milli(b, Format::BinarySI));
            prop_assert_eq!((left + right).milli_value(), a + b);
            prop_assert_eq!((left - right).milli_value(), a - b);
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }

        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in "[-+0-9.eEinumkKMGTPi ]{0,48}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                let _ = (quantity.to_string(), quantity.value(), quantity + quantity, quantity.as_f64());
            }
        }
    }
}
