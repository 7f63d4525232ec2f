//! What a `User` does that depends on clocks: CronJobs, Jobs with deadlines, and autoscalers, which count time.

use super::{User, deployment, job};
use crate::metrics_source::MetricsSource;
use client::Propagation;
use serde_json::{Value, json};
use std::time::Duration;

/// Number of names for Jobs.
const JOBS: usize = 3;
const SCALED: &str = "scaled";

/// Returns a Job whose pods end by themselves, some of them after its deadline.
fn job_with_deadline(name: &str, run_for: &str) -> Value {
    let mut job = job(name, 2, 1);
    job["metadata"]["namespace"] = json!("default");
    job["spec"]["activeDeadlineSeconds"] = json!(30);
    job["spec"]["template"]["metadata"]["annotations"] = json!({"orrery.dev/run-for": run_for});
    job
}

fn cron_job(policy: &str) -> Value {
    let template = job_with_deadline("cron", "5s")["spec"].clone();
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": template}},
    })
}

impl User<'_> {
    /// Works on objects that count time for some time. No CronJob is left, since it never rests.
    pub async fn work_with_deadlines(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        for object in MetricsSource::registration() {
            self.create_any(&object).await;
        }
        self.create("apps", "deployments", deployment(SCALED, 2, "web:1")).await;
        self.create_any(&super::autoscaler(SCALED, 1, 8)).await;
        self.repeat_until(end, async |user| user.act_with_deadlines().await).await;
        self.delete("batch", "cronjobs", "cron", Propagation::Background).await;
        self.set_load("25");
    }

    async fn act_with_deadlines(&self) {
        let random = &self.random;
        let late = format!("late-{}", random.below(JOBS));
        match random.below(10) {
            0..=2 => self.create_any(&job_with_deadline(&late, ["5s", "40s"][random.below(2)])).await,
            3 => self.delete("batch", "jobs", &late, Propagation::Background).await,
            4 | 5 => self.create_any(&cron_job(["Allow", "Forbid", "Replace"][random.below(3)])).await,
            6 => self.delete("batch", "cronjobs", "cron", Propagation::Background).await,
            7 => self.set_image_of("deployments", SCALED).await,
            _ => self.set_load(["3", "15", "40", "70"][random.below(4)]),
        }
    }
}
