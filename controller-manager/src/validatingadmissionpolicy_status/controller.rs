//! Starts the controller, which writes warnings into the status of policies.
//!
//! Corresponds to pkg/controller/validatingadmissionpolicystatus.

use super::check::{Kinds, warnings};
use super::matched::Matched;
use super::schemas::{document_path, kind_type};
use client::reconcile::Reconciler;
use client::request::Call;
use client::{Action, Client, Error, Event, Lister, Patch, Plan, ReconcileError};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::discovery::discover;
use http::Method;
use jiff::Timestamp;
use proto::kinds::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use proto::{Gvk, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Field manager of the applied status.
const MANAGER: &str = "validatingadmissionpolicy-status";

struct Controller {
    policies: Lister<ValidatingAdmissionPolicy>,
}

#[derive(Debug)]
pub struct Observed {
    pub policy: Arc<ValidatingAdmissionPolicy>,
    pub kinds: Kinds,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<ValidatingAdmissionPolicy>, queue| {
        if !matches!(event, Event::Deleted(_)) {
            queue.add(event.object().key());
        }
    });
    setup.run(
        queue,
        setup.settings.concurrent_validating_admission_policy_status_syncs,
        Controller { policies: setup.lister() },
    )
}

impl Reconciler for Controller {
    type Observed = Observed;

    /// Returns a policy whose present generation was not checked yet.
    fn observe(&self, key: &str) -> Option<Observed> {
        let policy = self.policies.by_key(key)?;
        let checked = policy.status.as_ref().and_then(|status| status.observed_generation);
        (checked < policy.metadata.generation).then_some(Observed { policy, kinds: Kinds::default() })
    }

    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let Some(spec) = &observed.policy.spec else { return Ok(Some(observed)) };
        let matched = Matched::of(spec, &discover(client).await?);
        let mut documents = BTreeMap::new();
        for path in matched.all().map(document_path).collect::<BTreeSet<String>>() {
            if let Some(document) = document(client, &path).await? {
                documents.insert(path, document);
            }
        }
        let type_of = |kind: &Gvk| kind_type(documents.get(&document_path(kind))?, kind);
        observed.kinds = Kinds::of(&matched, type_of);
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

/// Returns an OpenAPI document; `None` if its group and version are not served.
async fn document(client: &Client, path: &str) -> Result<Option<Value>, Error> {
    let answer = match client.call(&Call::new(Method::GET, path)).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer?,
    };
    let document = serde_json::from_slice(&answer);
    document.map(Some).map_err(|error| Error::Decode(format!("GET {path}: no OpenAPI document: {error}")))
}

pub fn plan(observed: &Observed) -> Plan {
    let Observed { policy, kinds } = observed;
    let warnings = policy.spec.as_ref().map(|spec| warnings(spec, kinds)).unwrap_or_default();
    let mut value = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy.name()},
        "status": {"observedGeneration": policy.metadata.generation, "typeChecking": {}},
    });
    if !warnings.is_empty() {
        value["status"]["typeChecking"]["expressionWarnings"] = json!(warnings);
    }
    let patch = Patch::Apply { value, manager: MANAGER.to_owned(), force: true };
    Plan::of([Action::patch_status::<ValidatingAdmissionPolicy>("", policy.name(), patch)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use cel::Type;
    use controller_base::fixture;
    use proto::kinds::api::admissionregistration::v1::{ValidatingAdmissionPolicySpec, Validation};

    #[test]
    fn the_status_has_the_warnings() {
        let validation = Validation { expression: "object.b".to_owned(), ..Validation::default() };
        let spec = ValidatingAdmissionPolicySpec { validations: Some(vec![validation]), ..Default::default() };
        let policy = ValidatingAdmissionPolicy { metadata: fixture::meta("p"), spec: Some(spec), status: None };
        let status = |kinds: Kinds| {
            let plan = plan(&Observed { policy: Arc::new(policy.clone()), kinds });
            let [Action::Patch { patch, subresource, .. }] = plan.actions.as_slice() else { panic!("{plan:?}") };
            assert_eq!(subresource.as_deref(), Some("status"));
            patch.value()["status"].clone()
        };
        assert_eq!(status(Kinds::default()), json!({"observedGeneration": 1, "typeChecking": {}}));
        let objects = [(Gvk::new("", "v1", "A"), Type::object("A", &[("a", Type::Int)]))].into();
        let written = status(Kinds { objects, params: None });
        let warning = "/v1, Kind=A: ERROR: <input>:1:7: undefined field 'b'\n | object.b\n | ......^\n";
        let warnings = json!([{"fieldRef": "spec.validations[0].expression", "warning": warning}]);
        assert_eq!(written["typeChecking"]["expressionWarnings"], warnings);
    }
}
