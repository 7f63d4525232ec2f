//! Means and quantiles.

/// Returns the mean, and 0 for no numbers.
pub fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

/// Returns the standard deviation of a sample, and 0 for fewer than two numbers.
pub fn deviation(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let mean = mean(numbers);
    let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
    libm::sqrt(squares / (numbers.len() - 1) as f64)
}

/// Returns the quantile of sorted numbers, with linear interpolation between neighbours: of `n` numbers, the one at place
/// `q · (n − 1)`. So the 0.95 quantile of 0, 10, 20 is 19.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = q * last as f64;
    let below = place.floor() as usize;
    let part = place - below as f64;
    let above = sorted[(below + 1).min(last)];
    sorted[below] + (above - sorted[below]) * part
}

pub fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        assert_eq!(quantile(&[0.0, 10.0, 20.0], 0.95), 19.0);
        assert_eq!(quantile(&[5.0], 0.5), 5.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(deviation(&[2.0, 4.0, 6.0]), 2.0);
    }
}
