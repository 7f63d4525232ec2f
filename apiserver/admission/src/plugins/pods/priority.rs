//! Priority: sets the priority of a pod, or of a PodGroup, from its PriorityClass, and allows only one default class.
//!
//! Corresponds to plugin/pkg/admission/priority.

use crate::plugins::pod_parts::text;
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use serde_json::{Value, json};
use std::sync::Arc;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
/// Priority without a class and without a default class.
const DEFAULT_PRIORITY: i64 = 0;
const DEFAULT_POLICY: &str = "PreemptLowerPriority";
/// The classes that every cluster has.
const SYSTEM_CLASSES: &[&str] = &["system-cluster-critical", "system-node-critical"];

#[derive(Default)]
pub struct Priority {
    /// True if PodGroups have priorities: the gate WorkloadAwarePreemption.
    pub ranks_pod_groups: bool,
}

/// The values that a class gives a pod.
struct Ranked {
    class: String,
    priority: i64,
    policy: Option<String>,
}

#[async_trait]
impl AdmissionPlugin for Priority {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if self.ranks_pod_groups && attributes.is(GROUP, "podgroups") && attributes.operation == Operation::Create {
            let ranked = Ranked { policy: None, ..rank(attributes)? };
            refuse_other(attributes, &ranked, "PodGroup")?;
            if let Some(group) = attributes.object.as_deref_mut() {
                write(&mut group["spec"], &ranked);
            }
            return Ok(());
        }
        if !attributes.is("", "pods") {
            return Ok(());
        }
        match attributes.operation {
            Operation::Create => {
                let ranked = rank(attributes)?;
                refuse_other(attributes, &ranked, "pod")?;
                if let Some(pod) = attributes.object.as_deref_mut() {
                    write(&mut pod["spec"], &ranked);
                }
            }
            Operation::Update => keep(attributes),
            Operation::Delete | Operation::Connect => {}
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !attributes.is(GROUP, CLASSES) {
            return Ok(());
        }
        if attributes.operation == Operation::Delete {
            // In Kubernetes, the strategy of PriorityClass does this check.
            return match SYSTEM_CLASSES.contains(&attributes.name) {
                true => Err(attributes.forbidden("this is a system priority class and cannot be deleted")),
                false => Ok(()),
            };
        }
        let class = attributes.new_object();
        if class["globalDefault"] != true {
            return Ok(());
        }
        let Some(default) = global_default(attributes)? else { return Ok(()) };
        let (other, name) = (text(&default, "/metadata/name"), text(class, "/metadata/name"));
        if attributes.operation == Operation::Create || other != name {
            return Err(attributes.forbidden(format_args!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            )));
        }
        Ok(())
    }
}

fn rank(attributes: &Attributes<'_>) -> Result<Ranked, Status> {
    let name = text(attributes.new_object(), "/spec/priorityClassName");
    let class = match name {
        "" => global_default(attributes)?,
        name => Some(named(attributes, name)?),
    };
    Ok(match class {
        Some(class) => Ranked {
            class: text(&class, "/metadata/name").to_owned(),
            priority: class["value"].as_i64().unwrap_or(DEFAULT_PRIORITY),
            policy: class["preemptionPolicy"].as_str().map(str::to_owned),
        },
        None => Ranked { class: String::new(), priority: DEFAULT_PRIORITY, policy: Some(DEFAULT_POLICY.to_owned()) },
    })
}

fn named(attributes: &Attributes<'_>, name: &str) -> Result<Arc<Value>, Status> {
    let class = attributes.lookup.get(ObjectKey::cluster(GROUP, CLASSES, name))?;
    class
        .map(|class| class.value())
        .ok_or_else(|| attributes.forbidden(format_args!("no PriorityClass with name {name} was found")))
}

/// Returns the default class; the lowest one if a race has created several.
fn global_default(attributes: &Attributes<'_>) -> Result<Option<Arc<Value>>, Status> {
    let classes = attributes.lookup.list(GROUP, CLASSES, "")?;
    Ok(classes
        .iter()
        .map(|class| class.value())
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64()))
}

/// Rejects a pod, or what else `owner` names, whose priority or preemption policy differs from its class.
fn refuse_other(attributes: &Attributes<'_>, ranked: &Ranked, owner: &str) -> Result<(), Status> {
    let spec = &attributes.new_object()["spec"];
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != ranked.priority) {
        return Err(attributes.forbidden(format_args!(
            "the integer value of priority ({given}) must not be provided in {owner} spec; priority admission \
             controller computed {} from the given PriorityClass name",
            ranked.priority
        )));
    }
    match (spec["preemptionPolicy"].as_str(), ranked.policy.as_deref()) {
        (Some(given), Some(policy)) if given != policy => Err(attributes.forbidden(format_args!(
            "the string value of PreemptionPolicy ({given}) must not be provided in {owner} spec; priority \
             admission controller computed {policy} from the given PriorityClass name"
        ))),
        _ => Ok(()),
    }
}

fn write(spec: &mut Value, ranked: &Ranked) {
    if !ranked.class.is_empty() {
        spec["priorityClassName"] = json!(ranked.class);
    }
    spec["priority"] = json!(ranked.priority);
    if let Some(policy) = &ranked.policy {
        spec["preemptionPolicy"] = json!(policy);
    }
}

/// Keeps the fields on update, for clients that do not know them.
fn keep(attributes: &mut Attributes<'_>) {
    let (Some(pod), Some(old)) = (attributes.object.as_deref_mut(), attributes.old_object) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if pod["spec"].get(field).is_none_or(Value::is_null)
            && let Some(value) = old["spec"].get(field)
        {
            pod["spec"][field] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    fn class(name: &str, value: i64, policy: &str, default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy, "globalDefault": default})
    }

    fn pod(spec: Value) -> Write {
        Write::create("", "pods", json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec})).beside(
            GROUP,
            CLASSES,
            class("high", 1000, "Never", false),
        )
    }

    #[tokio::test]
    async fn pods_get_the_priority_of_their_class() {
        let none = json!({"priority": 0, "preemptionPolicy": DEFAULT_POLICY});
        let high = json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"});
        for (spec, expected) in [
            (json!({}), none.clone()),
            (json!({"priority": 0}), none),
            (json!({"priorityClassName": "high"}), high.clone()),
            (json!({"priorityClassName": "high", "priority": 1000}), high),
        ] {
            assert_eq!(pod(spec).run(&Priority::default()).await.passed()["spec"], expected);
        }
        let default = pod(json!({})).beside(GROUP, CLASSES, class("usual", 7, DEFAULT_POLICY, true));
        assert_eq!(
            default.run(&Priority::default()).await.passed()["spec"],
            json!({"priorityClassName": "usual", "priority": 7, "preemptionPolicy": DEFAULT_POLICY})
        );
    }

    #[tokio::test]
    async fn pods_may_not_choose_their_own() {
        for (spec, why) in [
            (json!({"priorityClassName": "none"}), "no PriorityClass with name none was found"),
            (
                json!({"priorityClassName": "high", "priority": 5}),
                "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name",
            ),
            (
                json!({"priority": 7}),
                "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
            ),
            (
                json!({"priorityClassName": "high", "preemptionPolicy": DEFAULT_POLICY}),
                "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
            ),
        ] {
            assert_eq!(pod(spec).run(&Priority::default()).await.message(), format!(r#"pods "p" is forbidden: {why}"#));
        }
    }

    #[tokio::test]
    async fn pod_groups_get_the_priority_of_their_class() {
        let ranks = Priority { ranks_pod_groups: true };
        let group = |spec: Value| {
            let group = json!({"metadata": {"name": "g", "namespace": "a"}, "spec": spec});
            Write::create(GROUP, "podgroups", group).beside(GROUP, CLASSES, class("high", 1000, "Never", false))
        };
        let high = json!({"priorityClassName": "high", "priority": 1000});
        for (spec, expected) in [
            (json!({}), json!({"priority": 0})),
            (json!({"priorityClassName": "high"}), high.clone()),
            (high.clone(), high),
        ] {
            assert_eq!(group(spec).run(&ranks).await.passed()["spec"], expected);
        }
        for (spec, why) in [
            (json!({"priorityClassName": "none"}), "no PriorityClass with name none was found"),
            (
                json!({"priority": 7}),
                "the integer value of priority (7) must not be provided in PodGroup spec; priority admission controller computed 0 from the given PriorityClass name",
            ),
        ] {
            let refusal = format!(r#"podgroups.scheduling.k8s.io "g" is forbidden: {why}"#);
            assert_eq!(group(spec.clone()).run(&ranks).await.message(), refusal);
            assert_eq!(group(spec.clone()).run(&Priority::default()).await.passed()["spec"], spec, "the gate is off");
        }
    }

    #[tokio::test]
    async fn updates_keep_what_clients_leave_out() {
        let old = json!({"metadata": {"name": "p"}, "spec": {"priority": 3, "preemptionPolicy": "Never"}});
        let new = json!({"metadata": {"name": "p"}, "spec": {}});
        let object = Write::update("", "pods", old.clone(), new).run(&Priority::default()).await.passed();
        assert_eq!(object["spec"], old["spec"]);
    }

    #[tokio::test]
    async fn one_class_is_the_default_and_the_systems_stay() {
        let usual = || class("usual", 7, DEFAULT_POLICY, true);
        let second = Write::create(GROUP, CLASSES, class("b", 1, "Never", true)).beside(GROUP, CLASSES, usual());
        assert_eq!(
            second.run(&Priority::default()).await.message(),
            r#"priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"#
        );
        Write::update(GROUP, CLASSES, usual(), usual())
            .beside(GROUP, CLASSES, usual())
            .run(&Priority::default())
            .await
            .passed();
        let system = Write::delete(GROUP, CLASSES, class("system-node-critical", 1, "Never", false));
        assert_eq!(
            system.run(&Priority::default()).await.message(),
            r#"priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted"#
        );
        Write::delete(GROUP, CLASSES, usual()).run(&Priority::default()).await.passed();
    }
}
