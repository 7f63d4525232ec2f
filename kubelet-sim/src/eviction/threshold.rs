//! `Threshold`: how little of a signal may be available, and for how long.
//!
//! Corresponds to ParseThresholdConfig in pkg/kubelet/eviction/helpers.go.

use crate::eviction::signal::{Observation, Signal};
use component_base::duration::parse_duration;
use proto::meta::quantity::{Format, Quantity};
use std::time::Duration;

/// An amount, or a part of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Quantity(Quantity),
    /// From 0 to 1.
    Part(f64),
}

impl Amount {
    /// Parses `100Mi` or `10%`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse::<f64>().ok()?;
                (0.0..100.0).contains(&percent).then_some(Self::Part(percent / 100.0))
            }
            None => Quantity::parse(text).ok().filter(|quantity| quantity.signum() >= 0).map(Self::Quantity),
        }
    }

    /// Returns the amount as a quantity of this capacity.
    pub fn of(self, capacity: i64) -> Quantity {
        match self {
            Self::Quantity(quantity) => quantity,
            Self::Part(part) => Quantity::new((capacity as f64 * part) as i64, Format::BinarySI),
        }
    }
}

/// One eviction threshold. It is met while less than `amount` is available.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub signal: Signal,
    pub amount: Amount,
    /// How long it must have been met before pods are evicted; zero for a hard threshold.
    pub grace: Duration,
    /// How much more than the amount must be available until a met threshold is not met any more.
    pub min_reclaim: Option<Amount>,
}

/// The flags of the kubelet about eviction, as pairs of a signal and a value.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a> {
    pub hard: &'a [(String, String)],
    pub soft: &'a [(String, String)],
    pub soft_grace_period: &'a [(String, String)],
    pub minimum_reclaim: &'a [(String, String)],
}

impl Flags<'_> {
    /// Returns the thresholds. A hard one about memory counts for the memory of all pods together, too.
    pub fn thresholds(&self) -> Result<Vec<Threshold>, String> {
        let signal = |name: &str| Signal::named(name).ok_or_else(|| format!("unknown eviction signal {name:?}"));
        let amount = |text: &str| Amount::parse(text).ok_or_else(|| format!("invalid eviction threshold {text:?}"));
        let value_of = |pairs: &[(String, String)], name: &str| {
            pairs.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone())
        };
        let mut thresholds = Vec::new();
        for (name, text) in self.hard {
            let min_reclaim = value_of(self.minimum_reclaim, name).map(|text| amount(&text)).transpose()?;
            let hard = Threshold { signal: signal(name)?, amount: amount(text)?, grace: Duration::ZERO, min_reclaim };
            if hard.signal == Signal::MemoryAvailable {
                thresholds.push(Threshold { signal: Signal::AllocatableMemoryAvailable, ..hard.clone() });
            }
            thresholds.push(hard);
        }
        for (name, text) in self.soft {
            let Some(grace) = value_of(self.soft_grace_period, name) else {
                return Err(format!("grace period must be specified for the soft eviction threshold {name}"));
            };
            let min_reclaim = value_of(self.minimum_reclaim, name).map(|text| amount(&text)).transpose()?;
            let grace = parse_duration(&grace).map_err(|error| error.to_string())?;
            thresholds.push(Threshold { signal: signal(name)?, amount: amount(text)?, grace, min_reclaim });
        }
        for (name, _) in self.soft_grace_period.iter().chain(self.minimum_reclaim) {
            signal(name)?;
        }
        thresholds.sort_by_key(|threshold| threshold.signal);
        Ok(thresholds)
    }
}

impl Threshold {
    /// True while less is available than the threshold, and, if `with_reclaim`, than what shall be reclaimed beyond it.
    pub fn is_met(&self, observed: Observation, with_reclaim: bool) -> bool {
        let reclaim = self.min_reclaim.filter(|_| with_reclaim).map(|amount| amount.of(observed.capacity).value());
        observed.available < self.amount.of(observed.capacity).value() + reclaim.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_kubelet_reads_them() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let read = |hard: &[(&str, &str)], soft: &[(&str, &str)], grace: &[(&str, &str)], reclaim: &[(&str, &str)]| {
            let (hard, soft, grace, reclaim) = (pairs(hard), pairs(soft), pairs(grace), pairs(reclaim));
            let flags = Flags { hard: &hard, soft: &soft, soft_grace_period: &grace, minimum_reclaim: &reclaim };
            flags.thresholds()
        };
        let found = read(&[("nodefs.available", "10%"), ("memory.available", "100Mi")], &[], &[], &[]).unwrap();
        let signals: Vec<String> = found.iter().map(|threshold| threshold.signal.to_string()).collect();
        assert_eq!(signals, ["memory.available", "allocatableMemory.available", "nodefs.available"]);
        let soft = [("memory.available", "1Gi")];
        assert_eq!(
            read(&[], &soft, &[], &[]).unwrap_err(),
            "grace period must be specified for the soft eviction threshold memory.available"
        );
        let found = read(&[], &soft, &[("memory.available", "1m30s")], &[("memory.available", "50%")]).unwrap();
        assert_eq!((found[0].grace, found[0].min_reclaim), (Duration::from_secs(90), Some(Amount::Part(0.5))));
        assert_eq!(read(&[("luck", "1")], &[], &[], &[]).unwrap_err(), "unknown eviction signal \"luck\"");
        assert_eq!(
            read(&[("pid.available", "120%")], &[], &[], &[]).unwrap_err(),
            "invalid eviction threshold \"120%\""
        );
    }

    #[test]
    fn a_met_threshold_holds_until_enough_is_reclaimed() {
        let threshold = Threshold {
            signal: Signal::NodeFsAvailable,
            amount: Amount::Part(0.1),
            grace: Duration::ZERO,
            min_reclaim: Some(Amount::parse("50").unwrap()),
        };
        let observed = |available| Observation { available, capacity: 1000 };
        let met =
            |available| (threshold.is_met(observed(available), false), threshold.is_met(observed(available), true));
        assert_eq!([99, 100, 149, 150].map(met), [(true, true), (false, true), (false, true), (false, false)]);
    }
}
