//! `Demand`: the number of seats that a priority level would have used, in one period and smoothed over many.
//!
//! Corresponds to the integrators of k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing.

use std::time::Duration;

/// Weight of the previous smoothed value at the end of a period.
const KEPT: f64 = 0.977;

/// The demand since the beginning of a period, as the integral of a step function.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    began: Duration,
    since: Duration,
    seats: f64,
    sum: f64,
    sum_of_squares: f64,
    highest: f64,
}

/// Statistics of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Period {
    pub length_s: f64,
    pub average: f64,
    pub deviation: f64,
    pub highest: f64,
}

impl Demand {
    /// Sets the demand from `now` on.
    pub fn set(&mut self, now: Duration, seats: usize) {
        self.advance(now);
        self.seats = seats as f64;
        self.highest = self.highest.max(self.seats);
    }

    fn advance(&mut self, now: Duration) {
        let elapsed_s = now.saturating_sub(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.sum += self.seats * elapsed_s;
        self.sum_of_squares += self.seats * self.seats * elapsed_s;
    }

    /// Ends a period and begins the next one.
    pub fn end_period(&mut self, now: Duration) -> Period {
        self.advance(now);
        let length_s = self.since.saturating_sub(self.began).as_secs_f64();
        let of_length = |sum: f64| if length_s > 0.0 { sum / length_s } else { 0.0 };
        let average = of_length(self.sum);
        let variance = of_length(self.sum_of_squares) - average * average;
        let period = Period { length_s, average, deviation: variance.max(0.0).sqrt(), highest: self.highest };
        let Self { since, seats, .. } = *self;
        *self = Self { began: since, since, seats, highest: seats, ..Self::default() };
        period
    }
}

/// The smoothed demand of a level over the periods so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Smoothed {
    pub highest: usize,
    pub average: f64,
    pub deviation: f64,
    /// Rises at once and falls slowly.
    pub smoothed: f64,
}

impl Smoothed {
    pub fn after(self, period: Period) -> Self {
        let highest = period.highest.round() as usize;
        if period.length_s <= 0.0 {
            return Self { highest, ..self };
        }
        let envelope = period.average + period.deviation;
        let smoothed = envelope.max(KEPT * self.smoothed + (1.0 - KEPT) * envelope);
        Self { highest, average: period.average, deviation: period.deviation, smoothed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_an_average_a_deviation_and_a_highest_value() {
        let at = Duration::from_secs;
        let mut demand = Demand::default();
        demand.set(at(0), 2);
        demand.set(at(5), 6);
        let first = demand.end_period(at(10));
        assert_eq!(first, Period { length_s: 10.0, average: 4.0, deviation: 2.0, highest: 6.0 });
        // The demand at the end of a period is the demand at the beginning of the next.
        demand.set(at(20), 0);
        let second = demand.end_period(at(20));
        assert_eq!(second, Period { length_s: 10.0, average: 6.0, deviation: 0.0, highest: 6.0 });
        assert_eq!(demand.end_period(at(20)), Period { length_s: 0.0, ..Period::default() });
    }

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        let period = |average: f64| Period { length_s: 10.0, average, deviation: 0.0, highest: average };
        let high = Smoothed::default().after(period(100.0));
        assert_eq!((high.smoothed, high.highest), (100.0, 100));
        let later = high.after(period(0.0));
        assert_eq!((later.smoothed, later.highest), (97.7, 0));
    }
}
