//! Parses quantities: a sign, digits, and a suffix.
//!
//! Corresponds to parseQuantityString and the suffixer of k8s.io/apimachinery/pkg/api/resource.

use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, Format, Quantity, QuantityError};

/// Binary quantities are limited to the largest 64-bit integer.
const BINARY_MAX: i128 = i64::MAX as i128;
/// Number of digits that are read exactly. It is smaller with a binary suffix, which multiplies by up to 2^60.
const DECIMAL_DIGITS: usize = 36;
const BINARY_DIGITS: usize = 20;

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, mut rest) = unsigned.split_at(digits(unsigned));
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(digits(after));
        }
        // Letters, then a sign, then digits. `Factor::of` decides which combinations are a suffix.
        let letters = rest.find(|c| !"eEinumkKMGTP".contains(c)).unwrap_or(rest.len());
        let tail = &rest[letters..];
        let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
        if digits(tail) != tail.len() {
            return Err(QuantityError::Format);
        }
        Ok(Self { negative: text.starts_with('-'), whole: whole.trim_start_matches('0'), fraction, suffix: rest })
    }
}

/// The factor that a suffix stands for.
enum Factor {
    Ten(i32, Format),
    Two(u32),
}

impl Factor {
    fn of(suffix: &str) -> Result<Self, QuantityError> {
        if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Ten(*exponent, Format::DecimalSI));
        }
        if let Some((_, exponent)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self::Two(*exponent));
        }
        let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<i32>().ok());
        // The limit keeps the arithmetic on exponents from overflowing.
        let exponent = exponent.filter(|e| e.abs() < 1_000_000).ok_or(QuantityError::Suffix)?;
        Ok(Self::Ten(exponent, Format::DecimalExponent))
    }
}

/// Returns the first `limit` significant digits, the number of digits left out, and whether any of those is not zero.
fn read_digits(whole: &str, fraction: &str, limit: usize) -> (i128, i32, bool) {
    let (mut mantissa, mut significant, mut dropped, mut sticky) = (0i128, 0usize, 0i32, false);
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')) {
        if significant < limit {
            mantissa = mantissa * 10 + digit;
            significant += usize::from(mantissa != 0);
        } else {
            dropped += 1;
            sticky |= digit != 0;
        }
    }
    (mantissa, dropped, sticky)
}

pub(super) fn quantity(text: &str) -> Result<Quantity, QuantityError> {
    let parts = Parts::of(text)?;
    let factor = Factor::of(parts.suffix)?;
    let fraction_digits = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Format)?;
    let sign = if parts.negative { -1 } else { 1 };
    Ok(match factor {
        Factor::Ten(exponent, format) => {
            let (mantissa, dropped, sticky) = read_digits(parts.whole, parts.fraction, DECIMAL_DIGITS);
            Quantity::rounded(sign * mantissa, exponent - fraction_digits + dropped, sticky, format)
        }
        Factor::Two(exponent) => {
            let (mantissa, dropped, sticky) = read_digits(parts.whole, parts.fraction, BINARY_DIGITS);
            let value = Quantity::rounded(mantissa << exponent, dropped - fraction_digits, sticky, Format::BinarySI);
            let most = Quantity { mantissa: BINARY_MAX, scale: 0, format: Format::BinarySI };
            let mut value = if value > most { most } else { value };
            // A binary fraction below one is written in decimal, or it would be rounded.
            if !value.is_zero() && value < Quantity::new(1, Format::BinarySI) {
                value.format = Format::DecimalSI;
            }
            Quantity { mantissa: sign * value.mantissa, ..value }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_quantities_say_which_part_is_bad() {
        use QuantityError::{Format, Suffix};
        let cases = [
            ("", Format),
            ("a lot", Format),
            ("1 Gi", Format),
            ("1.1.M", Format),
            ("1+1.0M", Format),
            ("0.1mi", Suffix),
            ("0.1am", Format),
            ("aoeu", Format),
            (".5i", Suffix),
            ("1i", Suffix),
            ("-3.01i", Suffix),
            ("-3.01e-", Suffix),
            ("1Gb", Format),
            ("1e99999999999", Suffix),
        ];
        for (text, error) in cases {
            assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
