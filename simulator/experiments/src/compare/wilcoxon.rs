//! Wilcoxon's signed-rank test of paired differences, two-sided.

use std::collections::BTreeMap;

/// Most differences for which the distribution is counted out. Beyond, the normal distribution is close to it.
const MAX_EXACT: usize = 60;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// Differences that are not zero; the others say nothing.
    pub count: usize,
    /// Sum of the ranks of positive differences.
    pub w_plus: f64,
    pub p: f64,
    /// Rank-biserial correlation, from -1 to 1: the part of the rank sum that is positive, less the part that is negative.
    pub effect: f64,
}

/// Tests whether differences are symmetric about zero. Equal sizes share the mean of their ranks, and the exact distribution
/// is that of these ranks, so it is right with ties too.
pub fn test(differences: &[f64]) -> Test {
    let mut sized: Vec<(f64, bool)> = differences
        .iter()
        .filter(|difference| **difference != 0.0)
        .map(|difference| (rounded(difference.abs()), *difference > 0.0))
        .collect();
    sized.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ranks = doubled_ranks(&sized.iter().map(|(size, _)| *size).collect::<Vec<_>>());
    let total: u64 = ranks.iter().sum();
    let plus: u64 = ranks.iter().zip(&sized).filter(|(_, (_, positive))| *positive).map(|(rank, _)| rank).sum();
    if total == 0 {
        return Test { count: 0, w_plus: 0.0, p: 1.0, effect: 0.0 };
    }
    let smaller = plus.min(total - plus);
    let p = if ranks.len() <= MAX_EXACT { exact(&ranks, smaller) } else { normal(&ranks, smaller) };
    let effect = (2.0 * plus as f64 - total as f64) / total as f64;
    Test { count: ranks.len(), w_plus: plus as f64 / 2.0, p: p.min(1.0), effect }
}

/// Rounds to twelve digits. A difference of two doubles is wrong in the last ones, and equal sizes would be no tie.
fn rounded(size: f64) -> f64 {
    format!("{size:.11e}").parse().unwrap_or(size)
}

/// Returns twice the rank of each of sorted numbers, so that the mean of two ranks is whole.
fn doubled_ranks(sorted: &[f64]) -> Vec<u64> {
    let mut places: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for (index, number) in sorted.iter().enumerate() {
        places.entry(number.to_bits()).or_insert((index, index)).1 = index;
    }
    let rank = |number: &f64| places.get(&number.to_bits()).map_or(0, |(first, last)| (first + last + 2) as u64);
    sorted.iter().map(rank).collect()
}

/// Counts how many of the 2^n choices of signs have a rank sum of at most `smaller`, on either side.
fn exact(ranks: &[u64], smaller: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    // Probabilities by rank sum. Halving at each rank keeps them exact, as long as a double has the digits.
    let mut probabilities = vec![0.0; total as usize + 1];
    probabilities[0] = 1.0;
    for rank in ranks {
        let rank = *rank as usize;
        for sum in (0..probabilities.len()).rev() {
            let with = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    2.0 * probabilities[..=smaller as usize].iter().sum::<f64>()
}

/// The normal approximation with a correction for continuity. The variance of the sum is `Σ rank² / 4`.
fn normal(ranks: &[u64], smaller: u64) -> f64 {
    let mean = ranks.iter().sum::<u64>() as f64 / 4.0;
    let variance: f64 = ranks.iter().map(|rank| (*rank as f64 / 2.0) * (*rank as f64 / 2.0)).sum::<f64>() / 4.0;
    let z = (mean - smaller as f64 / 2.0 - 0.5).max(0.0) / libm::sqrt(variance);
    libm::erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // All of one sign: 2 / 2^n.
        assert_eq!(test(&[1.0, 2.0, 3.0, 4.0, 5.0]).p, 0.0625);
        assert_eq!(test(&[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]).p, 0.03125);
        // n = 10, W = 8 is the critical value of 0.05: 25 of 1024 choices have a sum of at most 8.
        let ten = test(&[1.0, -2.0, 3.0, 4.0, 5.0, -6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_eq!((ten.count, ten.w_plus), (10, 47.0));
        assert_eq!(ten.p, 2.0 * 25.0 / 1024.0);
        assert_eq!(ten.effect, (47.0 - 8.0) / 55.0);
    }

    #[test]
    fn ties_share_ranks_and_zeros_say_nothing() {
        // Sizes 1, 1, 2: ranks 1.5, 1.5, 3. Sums of at most 1.5: none, one, other: 3 of 8.
        let found = test(&[-1.0, 0.0, 1.0, 2.0]);
        assert_eq!((found.count, found.w_plus, found.p), (3, 4.5, 0.75));
        // Sizes of differences that are equal but for the last digits of doubles.
        let found = test(&[7.81 - 8.17, 1000.36 - 1000.0, 2.0]);
        assert_eq!((found.count, found.w_plus, found.p), (3, 4.5, 0.75));
        assert_eq!(test(&[0.0, 0.0]).p, 1.0);
        assert_eq!(test(&[]).p, 1.0);
    }

    #[test]
    fn the_approximation_is_near_the_exact_value() {
        let ranks: Vec<u64> = (1..=60).map(|rank| rank * 2).collect();
        for smaller in [1000, 1300, 1600] {
            assert!((exact(&ranks, smaller) - normal(&ranks, smaller)).abs() < 0.003);
        }
    }
}
