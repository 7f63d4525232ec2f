//! The rule that a Job counts a pod once: it never counts more pods than it had, nor more successes than pods succeeded.

use super::{Rule, RuleViolation, WriteContext, read};
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use proto::kinds::api::core::v1::Pod;
use std::collections::{BTreeMap, BTreeSet};

const JOBS: &str = "/registry/jobs/";
const PODS: &str = "/registry/pods/";

#[derive(Default)]
pub struct Jobs {
    /// The pods that each Job ever had, by the UID of the Job.
    pods: BTreeMap<String, Seen>,
    /// The numbers of succeeded and failed pods in the status of each Job, by its UID.
    counted: BTreeMap<String, (i32, i32)>,
}

/// UIDs of pods.
#[derive(Default)]
struct Seen {
    created: BTreeSet<String>,
    succeeded: BTreeSet<String>,
}

impl Jobs {
    fn record_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let Some(pod) = read::<Pod>(key, value)? else { return Ok(()) };
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let Some(job) = owners.find(|owner| owner.kind == "Job") else { return Ok(()) };
        let seen = self.pods.entry(job.uid.clone()).or_default();
        seen.created.insert(pod.uid().to_owned());
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded") {
            seen.succeeded.insert(pod.uid().to_owned());
        }
        Ok(())
    }

    fn check_job(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let Some(job) = read::<Job>(key, value)? else { return Ok(()) };
        let status = job.status.clone().unwrap_or_default();
        let (succeeded, failed) = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
        let seen = self.pods.entry(job.uid().to_owned()).or_default();
        let number = |pods: &BTreeSet<String>| i32::try_from(pods.len()).unwrap_or(i32::MAX);
        let (had, did) = (number(&seen.created), number(&seen.succeeded));
        let before = self.counted.insert(job.uid().to_owned(), (succeeded, failed)).unwrap_or_default();
        let wrong = if succeeded > did || succeeded + failed > had {
            format!("counts {succeeded} succeeded and {failed} failed pods; it had {had}, of which {did} succeeded")
        } else if succeeded < before.0 || failed < before.1 {
            format!("counts {succeeded} succeeded and {failed} failed pods, and counted more before: {before:?}")
        } else {
            return Ok(());
        };
        Err(RuleViolation::new(format!("{key} {wrong}")))
    }
}

impl Rule for Jobs {
    fn prefixes(&self) -> &'static [&'static str] {
        &[JOBS, PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(JOBS) { self.check_job(key, value) } else { self.record_pod(key, value) }
    }
}
