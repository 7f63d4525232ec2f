//! Rolls back to the revision in an annotation, which replaces the old API's `spec.rollbackTo`. `kubectl rollout undo`
//! does not use it: it writes the old template itself.
//!
//! Corresponds to pkg/controller/deployment/rollback.go.

use super::history::{self, ROLLBACK_TO};
use super::sizes;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};

/// The result of a request to roll back: the deployment to write, and its event.
#[derive(Debug, PartialEq)]
pub struct Rollback {
    pub deployment: Deployment,
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

pub fn requested(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotations.as_ref()?.get(ROLLBACK_TO)?.parse().ok()
}

/// Plans the rollback. The deployment always loses the request, which would otherwise repeat for ever.
pub fn plan(deployment: &Deployment, all: &[ReplicaSet], to_revision: i64) -> Rollback {
    let mut updated = deployment.clone();
    updated.metadata.annotations.get_or_insert_default().remove(ROLLBACK_TO);
    let revision = if to_revision == 0 { last_revision(all) } else { to_revision };
    let target = all.iter().find(|replica_set| revision != 0 && history::revision(replica_set) == revision);
    let template = target.and_then(|target| target.spec.as_ref()?.template.as_ref());
    let (Some(target), Some(template)) = (target, template) else {
        let message = if revision == 0 {
            "Unable to find last revision.".to_owned()
        } else {
            "Unable to find the revision to rollback to.".to_owned()
        };
        return Rollback {
            deployment: updated,
            is_warning: true,
            reason: "DeploymentRollbackRevisionNotFound",
            message,
        };
    };
    if history::is_same_template(&sizes::spec(deployment).template, template) {
        let message =
            format!("The rollback revision contains the same template as current deployment {:?}", deployment.name());
        return Rollback {
            deployment: updated,
            is_warning: true,
            reason: "DeploymentRollbackTemplateUnchanged",
            message,
        };
    }
    let mut annotations = history::rolled_back_annotations(deployment, target);
    annotations.remove(ROLLBACK_TO);
    updated.metadata.annotations = Some(annotations);
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(crate::template_hash::POD_TEMPLATE_HASH);
    }
    updated.spec.as_mut().expect("validation requires a deployment's spec").template = template;
    let message = format!("Rolled back deployment {:?} to revision {revision}", deployment.name());
    Rollback { deployment: updated, is_warning: false, reason: "DeploymentRollback", message }
}

/// Returns the second highest revision; 0 if there is none.
fn last_revision(all: &[ReplicaSet]) -> i64 {
    let mut revisions: Vec<i64> = all.iter().map(history::revision).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn requests_come_to_one_of_three_ends() {
        let mut all = Vec::new();
        for (name, image, revision) in [("a", "nginx:0", "1"), ("b", "nginx:1", "2")] {
            let mut replica_set = fixture::replica_set(name, image, 1);
            fixture::annotate(&mut replica_set, &[(history::REVISION, revision)]);
            all.push(replica_set);
        }
        let cases = [
            (0, "DeploymentRollback", "nginx:0"),
            (1, "DeploymentRollback", "nginx:0"),
            (2, "DeploymentRollbackTemplateUnchanged", "nginx:1"),
            (7, "DeploymentRollbackRevisionNotFound", "nginx:1"),
        ];
        for (revision, reason, image) in cases {
            let mut deployment = fixture::deployment(3, "1", "1");
            fixture::annotate(&mut deployment, &[(ROLLBACK_TO, &revision.to_string())]);
            assert_eq!(requested(&deployment), Some(revision));
            let rollback = plan(&deployment, &all, revision);
            assert_eq!(rollback.reason, reason, "{revision}");
            assert_eq!(requested(&rollback.deployment), None, "{revision}");
            let template = &rollback.deployment.spec.as_ref().unwrap().template;
            assert_eq!(template.spec.as_ref().unwrap().containers[0].image.as_deref(), Some(image), "{revision}");
        }
    }
}
