//! Borrowing: reallocates the server's seats among the priority levels by their demand.
//!
//! A level lends what it does not use, down to its lower bound, and borrows up to its upper one. Corresponds to
//! updateBorrowingLocked of k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go and conc_alloc.go.

use super::demand::Smoothed;
use super::priority_level::Bounds;

/// The least target of a level, so that levels without demand still have proportional shares.
const LEAST_TARGET: f64 = 0.001;

/// One level, before the allocation.
#[derive(Clone, Copy, Debug)]
pub struct Borrower {
    pub exempt: bool,
    pub bounds: Bounds,
    pub demand: Smoothed,
}

/// The allocation, in the order of the levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    pub limits: Vec<usize>,
    /// The fraction of its target that a level gets if it is at neither bound; `None` when it was not calculated.
    pub fair_fraction: Option<f64>,
}

/// The bounds and the target of one level.
#[derive(Clone, Copy, Debug)]
struct Item {
    lower: f64,
    upper: f64,
    target: f64,
}

/// Allocates the nominal seats of all levels among them.
pub fn share_out(levels: &[Borrower]) -> Shares {
    let nominal: usize = levels.iter().map(|level| level.bounds.nominal).sum();
    let taken: usize = levels.iter().filter(|level| level.exempt).map(exempt_limit).sum();
    let rest = nominal.saturating_sub(taken) as f64;
    let limited: Vec<(usize, f64)> = levels
        .iter()
        .filter(|level| !level.exempt)
        // A level keeps what it used, up to its nominal seats.
        .map(|level| {
            (level.bounds.lower, level.bounds.lower.max(level.bounds.nominal.min(level.demand.highest)) as f64)
        })
        .collect();
    let lower_sum: f64 = limited.iter().map(|(lower, _)| *lower as f64).sum();
    let least_sum: f64 = limited.iter().map(|(_, least)| least).sum();
    let (shares, fair_fraction) = if rest <= lower_sum {
        // The exempt levels use all seats.
        (limited.iter().map(|(lower, _)| *lower as f64).collect(), None)
    } else if rest <= least_sum {
        let part = (rest - lower_sum) / (least_sum - lower_sum);
        let between = |(lower, least): &(usize, f64)| *lower as f64 + part * (least - *lower as f64);
        (limited.iter().map(between).collect(), None)
    } else {
        let items: Vec<Item> = levels
            .iter()
            .filter(|level| !level.exempt)
            .zip(&limited)
            .map(|(level, (_, least))| Item {
                lower: *least,
                upper: (level.bounds.upper as f64).max(*least),
                target: level.demand.smoothed.max(*least),
            })
            .collect();
        let (shares, fraction) = allocate(rest, &items);
        (shares, Some(fraction))
    };
    let mut shares = shares.into_iter().map(|share: f64| share.round() as usize);
    let limits = levels
        .iter()
        .map(|level| if level.exempt { exempt_limit(level) } else { shares.next().expect("one for each level") })
        .collect();
    Shares { limits, fair_fraction }
}

/// Returns the seats of an exempt level, which limited levels cannot have: those it used, at least its lower bound.
fn exempt_limit(level: &Borrower) -> usize {
    level.bounds.lower.max(level.demand.highest)
}

/// Finds the fraction of all targets at which, within the bounds, exactly `total` is allocated. The sum grows with the
/// fraction, linearly between the points at which a level reaches a bound.
fn allocate(total: f64, items: &[Item]) -> (Vec<f64>, f64) {
    let target = |item: &Item| item.target.max(LEAST_TARGET);
    let share = |item: &Item, fraction: f64| (fraction * target(item)).clamp(item.lower, item.upper);
    let sum = |fraction: f64| items.iter().map(|item| share(item, fraction)).sum::<f64>();
    let mut bends: Vec<f64> =
        items.iter().flat_map(|item| [item.lower / target(item), item.upper / target(item)]).collect();
    bends.sort_by(f64::total_cmp);
    let mut fraction = 0.0;
    for bend in bends {
        let (here, there) = (sum(fraction), sum(bend));
        if there >= total {
            let slope = there - here;
            fraction = if slope > 0.0 { fraction + (total - here).max(0.0) / slope * (bend - fraction) } else { bend };
            break;
        }
        fraction = bend;
    }
    (items.iter().map(|item| share(item, fraction)).collect(), fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(lower: usize, nominal: usize, upper: usize, highest: usize, smoothed: f64) -> Borrower {
        let demand = Smoothed { highest, smoothed, ..Smoothed::default() };
        Borrower { exempt: false, bounds: Bounds { nominal, lower, upper }, demand }
    }

    #[test]
    fn seats_go_to_whoever_needs_them() {
        let exempt = |highest| Borrower { exempt: true, ..level(0, 0, 600, highest, 0.0) };
        let cases = [
            // Two idle levels share equally.
            ("idle", vec![level(50, 100, 200, 0, 0.0), level(50, 100, 200, 0, 0.0)], vec![100, 100]),
            // A level with high demand gets what the other one lends.
            ("borrowing", vec![level(10, 100, 200, 0, 0.0), level(90, 100, 200, 200, 200.0)], vec![10, 190]),
            // It borrows no more than its borrowing limit.
            ("bounded", vec![level(10, 100, 200, 0, 0.0), level(90, 100, 120, 200, 200.0)], vec![80, 120]),
            // A level does not lend what it used, up to its nominal seats.
            ("kept", vec![level(10, 100, 200, 60, 50.0), level(90, 100, 400, 300, 300.0)], vec![60, 140]),
            // Exempt requests use the same seats.
            (
                "exempt",
                vec![exempt(50), level(50, 100, 200, 200, 200.0), level(50, 100, 200, 200, 200.0)],
                vec![50, 75, 75],
            ),
            (
                "all taken",
                vec![exempt(500), level(50, 100, 200, 200, 200.0), level(20, 100, 200, 0, 0.0)],
                vec![500, 50, 20],
            ),
        ];
        for (name, levels, expected) in cases {
            assert_eq!(share_out(&levels).limits, expected, "{name}");
        }
    }

    #[test]
    fn the_fraction_says_how_much_of_the_wishes_is_met() {
        let shares = share_out(&[level(0, 100, 400, 0, 40.0), level(0, 100, 400, 0, 60.0)]);
        assert_eq!(shares, Shares { limits: vec![80, 120], fair_fraction: Some(2.0) });
    }

    proptest! {
        #[test]
        fn everything_is_given_away_within_the_bounds(
            levels in prop::collection::vec((1_usize..200, 0_usize..=100, 0_usize..400, 0_usize..500, 0.0_f64..500.0), 1..9)
        ) {
            let levels: Vec<Borrower> = levels
                .into_iter()
                .map(|(nominal, lent_percent, borrowed, highest, smoothed)| {
                    level(nominal - nominal * lent_percent / 100, nominal, nominal + borrowed, highest, smoothed)
                })
                .collect();
            let shares = share_out(&levels);
            for (level, limit) in levels.iter().zip(&shares.limits) {
                prop_assert!((level.bounds.lower..=level.bounds.upper).contains(limit), "{level:?} {limit}");
                prop_assert!(*limit >= level.bounds.nominal.min(level.demand.highest), "{level:?} {limit}");
            }
            let nominal: usize = levels.iter().map(|level| level.bounds.nominal).sum();
            let given: usize = shares.limits.iter().sum();
            // Each level is rounded by itself.
            prop_assert!(given.abs_diff(nominal) <= levels.len(), "{given} of {nominal}");
        }
    }
}
