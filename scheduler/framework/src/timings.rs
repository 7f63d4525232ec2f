//! `Timings`, the time that a cycle spends at each extension point, and in sampled cycles in each plugin.
//!
//! Corresponds to the metrics recorder of pkg/scheduler/framework/runtime. Without a clock nothing is measured.

use crate::configuration::plugin_sets::Point;
use component_base::env::Env;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time that all plugins of an extension point took together.
#[derive(Clone, Debug, PartialEq)]
pub struct PointTiming {
    pub point: Point,
    /// `Success`, or the code of the rejection as Kubernetes names it.
    pub status: &'static str,
    pub took: Duration,
}

/// The time of one call of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginTiming {
    pub plugin: &'static str,
    pub point: Point,
    pub status: &'static str,
    pub took: Duration,
}

/// The clock of a cycle, and what it has measured. Clones share the measurements of plugins, so that simulations of
/// preemption count too.
#[derive(Clone, Default)]
pub struct Timings {
    clock: Option<Env>,
    pub points: Vec<PointTiming>,
    samples: Option<Arc<Mutex<Vec<PluginTiming>>>>,
}

impl Timings {
    /// Measures extension points, and with `plugins` each call of a plugin.
    pub fn new(clock: &Env, plugins: bool) -> Self {
        let samples = plugins.then(Arc::default);
        Self { clock: Some(clock.clone()), points: Vec::with_capacity(8), samples }
    }

    /// Returns the beginning of an extension point; `None` without a clock.
    pub fn begin(&self) -> Option<Instant> {
        self.clock.as_ref().map(Env::now)
    }

    /// Returns the time since `began`; zero without a clock.
    pub fn since(&self, began: Option<Instant>) -> Duration {
        began.zip(self.begin()).map_or(Duration::ZERO, |(began, now)| now - began)
    }

    /// Ends an extension point.
    pub fn end(&mut self, began: Option<Instant>, point: Point, status: &'static str) {
        if let (Some(began), Some(now)) = (began, self.begin()) {
            self.points.push(PointTiming { point, status, took: now - began });
        }
    }

    /// Returns true if each call of a plugin is measured.
    pub fn samples_plugins(&self) -> bool {
        self.samples.is_some()
    }

    /// Runs one call of a plugin. Measures it in a sampled cycle.
    pub fn plugin<T>(
        &self,
        plugin: &'static str,
        point: Point,
        status: impl FnOnce(&T) -> &'static str,
        call: impl FnOnce() -> T,
    ) -> T {
        let Some(samples) = &self.samples else { return call() };
        let began = self.begin();
        let result = call();
        if let (Some(began), Some(now)) = (began, self.begin()) {
            samples.lock().push(PluginTiming { plugin, point, status: status(&result), took: now - began });
        }
        result
    }

    /// Returns the measured calls of plugins.
    pub fn take_plugins(&self) -> Vec<PluginTiming> {
        self.samples.as_ref().map(|samples| std::mem::take(&mut *samples.lock())).unwrap_or_default()
    }
}
