//! Random numbers, which the caller supplies. The functions of this file need no mathematics of the operating system, so
//! the same numbers come out on every machine.

/// A source of random bits. `Random` of component-base is one: `|| random.u64()`.
pub trait Draw {
    fn bits(&mut self) -> u64;

    /// Returns a number uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number uniform in `(0, 1]`, of which a logarithm exists.
    fn positive_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Returns a number uniform in `0..bound`. The bias of one part in 2^64 / `bound` is far below what a study can see.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Returns an exponential number of this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log(self.positive_unit()) * mean
    }

    /// Returns a number of the standard normal distribution, by Box and Muller's method.
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.positive_unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

impl<F: FnMut() -> u64> Draw for F {
    fn bits(&mut self) -> u64 {
        self()
    }
}

/// A small generator for tests: SplitMix64.
#[cfg(test)]
pub(crate) fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(count: usize, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / count as f64
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut draw = seeded(1);
        assert!((mean(20_000, || draw.unit()) - 0.5).abs() < 0.01);
        assert!((mean(20_000, || draw.exponential(3.0)) - 3.0).abs() < 0.1);
        assert!(mean(20_000, || draw.normal()).abs() < 0.03);
        assert!((mean(20_000, || draw.normal().powi(2)) - 1.0).abs() < 0.05);
        assert!((mean(20_000, || draw.below(5) as f64) - 2.0).abs() < 0.05);
    }
}
