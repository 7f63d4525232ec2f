//! Fields that hold a number or a percentage of a total, such as `maxSurge: 25%`.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/intstr.

use proto::kinds::IntOrString;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    Up,
    Down,
}

/// Returns the count that `value` stands for if 100% is `total`. A value that is neither a number nor a percentage
/// counts as absent: validation admits none.
pub fn scaled(value: &IntOrString, total: i32, round: Round) -> Option<i32> {
    match value {
        IntOrString::Int(count) => Some(*count),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let hundredfold = percent.checked_mul(total.into())?;
            let count = match round {
                Round::Up => hundredfold.div_euclid(100) + i64::from(hundredfold.rem_euclid(100) > 0),
                Round::Down => hundredfold.div_euclid(100),
            };
            i32::try_from(count).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::int_or_percent;

    #[test]
    fn percentages_round_as_asked() {
        let cases = [
            ("3", 10, Round::Up, Some(3)),
            ("25%", 10, Round::Up, Some(3)),
            ("25%", 10, Round::Down, Some(2)),
            ("0%", 10, Round::Up, Some(0)),
            ("100%", 7, Round::Down, Some(7)),
            ("1%", 1, Round::Up, Some(1)),
            ("1%", 1, Round::Down, Some(0)),
            ("many", 10, Round::Up, None),
        ];
        for (value, total, round, count) in cases {
            assert_eq!(scaled(&int_or_percent(value), total, round), count, "{value} of {total}, {round:?}");
        }
    }
}
