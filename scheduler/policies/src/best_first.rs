//! Turns the numbers of a policy into scores.

use scheduling_framework::MAX_NODE_SCORE;

/// Parts of one in which a policy counts fractions, so that a number of its own is a whole one.
const PARTS: f64 = 1e9;

/// Returns a number of a policy as a score before normalization. Higher is better.
pub fn raw(value: f64) -> i64 {
    (value * PARTS).round() as i64
}

/// Scales scores to 0 … 100 so that the highest, and only it, becomes 100: rounding never makes a worse node an equal one.
pub fn best_first(scores: &mut [i64]) {
    let least = i128::from(scores.iter().copied().min().unwrap_or(0));
    let most = i128::from(scores.iter().copied().max().unwrap_or(0));
    for score in scores {
        let above = i128::from(*score) - least;
        *score = match i128::from(*score) == most {
            true => MAX_NODE_SCORE,
            false => (above * i128::from(MAX_NODE_SCORE - 1) / (most - least)) as i64,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::best_first;

    #[test]
    fn only_the_best_has_all_points() {
        for (before, after) in [
            (vec![], vec![]),
            (vec![7], vec![100]),
            (vec![-3, -3], vec![100, 100]),
            (vec![-3, -1, -2], vec![0, 100, 49]),
            (vec![i64::MIN, 0, i64::MAX - 1, i64::MAX], vec![0, 49, 98, 100]),
        ] {
            let mut scores = before.clone();
            best_first(&mut scores);
            assert_eq!(scores, after, "{before:?}");
        }
    }
}
