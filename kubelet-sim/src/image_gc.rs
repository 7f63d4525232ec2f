//! Removes images that no container uses when the disk is nearly full.
//!
//! Corresponds to pkg/kubelet/images/image_gc_manager.go.

use crate::config::Settings;
use crate::eviction::signal::Observation;
use crate::node::Observed;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// When images are removed, and how many.
#[derive(Clone, Copy, Debug)]
pub struct ImageGcSettings {
    /// Percentages of the disk.
    pub high_threshold: i64,
    pub low_threshold: i64,
    pub min_age: Duration,
}

impl ImageGcSettings {
    pub fn of(settings: &Settings) -> Self {
        Self {
            high_threshold: settings.image_gc_high_threshold.into(),
            low_threshold: settings.image_gc_low_threshold.into(),
            min_age: settings.minimum_image_ttl_duration,
        }
    }
}

/// Removes images down to the low threshold, if the disk is fuller than the high one. Returns true when one has gone.
pub fn collect(
    settings: &ImageGcSettings,
    disk: Observation,
    observed: &mut Observed,
    used: &BTreeSet<String>,
    now: Timestamp,
) -> bool {
    observed.images.iter_mut().filter(|(name, _)| used.contains(*name)).for_each(|(_, image)| image.last_used_at = now);
    let in_use = disk.capacity - disk.available;
    if disk.capacity == 0 || in_use * 100 / disk.capacity < settings.high_threshold {
        return false;
    }
    let to_free = in_use - disk.capacity * settings.low_threshold / 100;
    remove_unused(settings, observed, used, now, to_free)
}

/// Removes images that no container uses until enough is free, those first that were not used for the longest time.
/// Returns true when one has gone.
pub fn remove_unused(
    settings: &ImageGcSettings,
    observed: &mut Observed,
    used: &BTreeSet<String>,
    now: Timestamp,
    to_free: i64,
) -> bool {
    let images = observed.images.iter().filter(|(name, _)| !used.contains(*name));
    let mut unused: Vec<_> = images.map(|(name, image)| (*image, name.clone())).collect();
    unused.sort_by_key(|(image, name)| (image.last_used_at, image.detected_at, name.clone()));
    let mut freed = 0;
    for (image, name) in unused {
        let age = Duration::try_from(now.duration_since(image.detected_at)).unwrap_or(Duration::ZERO);
        if freed >= to_free {
            break;
        }
        if age >= settings.min_age {
            observed.images.remove(&name);
            freed += image.size_bytes;
        }
    }
    freed > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::StoredImage;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_image_that_was_not_used_for_the_longest_time_goes_first() {
        let settings = ImageGcSettings { high_threshold: 85, low_threshold: 80, min_age: Duration::from_secs(120) };
        let mut observed = Observed::default();
        for (name, detected_at, last_used_at) in [("old", 0, 10), ("older", 0, 5), ("young", 950, 950), ("used", 0, 1)]
        {
            let image = StoredImage { size_bytes: 40, detected_at: at(detected_at), last_used_at: at(last_used_at) };
            observed.images.insert(name.to_owned(), image);
        }
        let used = BTreeSet::from(["used".to_owned()]);
        let names = |observed: &Observed| observed.images.keys().cloned().collect::<Vec<_>>();
        let disk = |in_use: i64| Observation { available: 1000 - in_use, capacity: 1000 };
        assert!(!collect(&settings, disk(849), &mut observed, &used, at(1000)));
        assert!(collect(&settings, disk(850), &mut observed, &used, at(1000)), "50 too many");
        assert_eq!(names(&observed), ["used", "young"]);
        assert!(!collect(&settings, disk(900), &mut observed, &used, at(1000)), "the rest is used or young");
        assert_eq!(observed.images["used"].last_used_at, at(1000));
    }
}
