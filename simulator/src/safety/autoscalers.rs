//! The rule that an autoscaler never scales its target beyond its bounds.
//!
//! The size of a target is written in a request of its own, so it may follow bounds that have just changed: any bounds that
//! the autoscaler ever had will do. Nobody else scales a Deployment that has an autoscaler, once it has been created.

use super::{Rule, RuleViolation, WriteContext, read};
use proto::Kind;
use proto::kinds::api::apps::v1::Deployment;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use std::collections::BTreeMap;

const AUTOSCALERS: &str = "/registry/horizontalpodautoscalers/";
const DEPLOYMENTS: &str = "/registry/deployments/";

#[derive(Default)]
pub struct Autoscalers {
    /// The least and the greatest bound that the autoscalers of each Deployment ever had.
    bounds: BTreeMap<String, (i32, i32)>,
    sizes: BTreeMap<String, i32>,
    /// The size that each autoscaler asks for.
    desired: BTreeMap<String, i32>,
}

impl Autoscalers {
    /// Checks the size that a status asks for. The server refuses a status whose writer has not seen the newest bounds.
    fn check_autoscaler(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let before = self.desired.remove(key).unwrap_or(0);
        let Some(autoscaler) = read::<HorizontalPodAutoscaler>(key, value)? else { return Ok(()) };
        let spec = &autoscaler.spec;
        let (least, most) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        if spec.scale_target_ref.kind == "Deployment" {
            let target = format!("{DEPLOYMENTS}{}/{}", autoscaler.namespace(), spec.scale_target_ref.name);
            let widest = self.bounds.entry(target).or_insert((least, most));
            *widest = (widest.0.min(least), widest.1.max(most));
        }
        let desired = autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas);
        self.desired.insert(key.to_owned(), desired);
        if desired != before && desired != 0 && !(least..=most).contains(&desired) {
            return Err(RuleViolation::new(format!("{key} asks for {desired} replicas, and is for {least} to {most}")));
        }
        Ok(())
    }

    fn check_target(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let before = self.sizes.remove(key);
        let Some(deployment) = read::<Deployment>(key, value)? else { return Ok(()) };
        let size = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        self.sizes.insert(key.to_owned(), size);
        match (before, self.bounds.get(key)) {
            (Some(before), Some((least, most))) if before != size && !(*least..=*most).contains(&size) => {
                let what =
                    format!("{key} goes from {before} to {size} replicas, and its autoscaler is for {least} to {most}");
                Err(RuleViolation::new(what))
            }
            _ => Ok(()),
        }
    }
}

impl Rule for Autoscalers {
    fn prefixes(&self) -> &'static [&'static str] {
        &[AUTOSCALERS, DEPLOYMENTS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(AUTOSCALERS) { self.check_autoscaler(key, value) } else { self.check_target(key, value) }
    }
}
