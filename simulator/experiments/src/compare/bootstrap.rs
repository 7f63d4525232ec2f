//! The bootstrap: how much a mean would vary if the seeds had been others.

use crate::draw::Draw;
use crate::statistics::{mean, quantile, sorted};

const RESAMPLES: usize = 10_000;

/// Returns the 95 % interval of a mean: the 0.025 and 0.975 quantiles of means of samples drawn with replacement.
pub fn interval(numbers: &[f64], draw: &mut dyn Draw) -> (f64, f64) {
    if numbers.len() < 2 {
        let only = mean(numbers);
        return (only, only);
    }
    let mut resample =
        || (0..numbers.len()).map(|_| numbers[draw.below(numbers.len())]).sum::<f64>() / numbers.len() as f64;
    let means = sorted((0..RESAMPLES).map(|_| resample()).collect());
    (quantile(&means, 0.025), quantile(&means, 0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::seeded;

    #[test]
    fn the_interval_is_that_of_the_normal_distribution_for_many_numbers() {
        let mut draw = seeded(5);
        let numbers: Vec<f64> = (0..400).map(|_| 10.0 + 2.0 * draw.normal()).collect();
        let (low, high) = interval(&numbers, &mut draw);
        // 1.96 · 2 / √400 on both sides.
        assert!(((high - low) / 2.0 - 0.196).abs() < 0.02, "{low} {high}");
        assert!(low < mean(&numbers) && mean(&numbers) < high);
    }

    #[test]
    fn equal_numbers_have_no_interval() {
        assert_eq!(interval(&[3.0, 3.0, 3.0], &mut seeded(1)), (3.0, 3.0));
        assert_eq!(interval(&[4.0], &mut seeded(1)), (4.0, 4.0));
    }
}
