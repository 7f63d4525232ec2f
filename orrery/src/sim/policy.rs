//! Turns the policy and the faults of a study into settings of components.

use component_base::options;
use component_base::options::feature_gates::GateValues;
use experiments::study::external::DEFAULT_SCHEDULER;
use experiments::study::{Faults, Policy};
use kubelet_sim::machines::failure_model::FailureModel;
use scheduler::framework::Features;
use scheduler::framework::configuration::{Configuration, OWN_FIELDS};
use serde_json::{Value, json};
use simulator::trial;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of a KubeSchedulerConfiguration that do not concern a simulated scheduler, which runs alone.
const WITHOUT_EFFECT: [&str; 8] = [
    "apiVersion",
    "kind",
    "clientConnection",
    "leaderElection",
    "healthzBindAddress",
    "metricsBindAddress",
    "enableProfiling",
    "enableContentionProfiling",
];

/// Returns the settings of a scheduler with this KubeSchedulerConfiguration and these feature gates, or everything that is wrong
/// with it.
pub fn settings(document: Option<&Value>, gates: &GateValues) -> Result<scheduler::Settings, Vec<String>> {
    let config: scheduler::Config = options::defaults();
    let features = Features::of(gates);
    let mut settings = config.settings;
    let Some(document) = document else {
        settings.configuration = settings.configuration.with_features(features);
        return Ok(settings);
    };
    let fields = document.as_object().ok_or_else(|| vec!["must be an object".to_owned()])?;
    let is_known = |name: &str| OWN_FIELDS.contains(&name) || WITHOUT_EFFECT.contains(&name);
    let unknown = fields.keys().filter(|name| !is_known(name)).map(|name| format!("{name}: unknown field"));
    let mut errors: Vec<String> = unknown.collect();
    let own: BTreeMap<&'static str, Value> =
        OWN_FIELDS.iter().filter_map(|name| Some((*name, fields.get(*name)?.clone()))).collect();
    match Configuration::read_for(&own, features) {
        Ok(configuration) if errors.is_empty() => Ok(scheduler::Settings { configuration, ..settings }),
        Ok(_) => Err(errors),
        Err(more) => {
            errors.extend(more);
            Err(errors)
        }
    }
}

/// Returns everything for which a scheduler with this KubeSchedulerConfiguration and these feature gates could not start.
pub fn problems(document: Option<&Value>, gates: &GateValues) -> Vec<String> {
    match settings(document, gates) {
        Ok(settings) => trial::scheduler_problems(&settings),
        Err(errors) => errors,
    }
}

/// Returns the names of profiles that several of these KubeSchedulerConfigurations have. A pod has one scheduler.
pub fn shared_names<'d>(documents: impl Iterator<Item = &'d Value>) -> BTreeSet<String> {
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for document in documents {
        let profiles = document["profiles"].as_array().map(Vec::as_slice).unwrap_or_default();
        let name = |profile: &Value| profile["schedulerName"].as_str().unwrap_or(DEFAULT_SCHEDULER).to_owned();
        let mut own: BTreeSet<String> = profiles.iter().map(name).collect();
        if profiles.is_empty() {
            own.insert(DEFAULT_SCHEDULER.to_owned());
        }
        twice.extend(own.intersection(&seen).cloned());
        seen.extend(own);
    }
    twice
}

/// Returns something like the KubeSchedulerConfiguration of the first scheduler of a policy, with the names of its profiles.
pub fn first(policy: &Policy, configuration: Option<Value>) -> Value {
    match &policy.external {
        Some(external) => json!({"profiles": [{"schedulerName": external.scheduler_name()}]}),
        None => configuration.unwrap_or_default(),
    }
}

/// Returns the failure models of the machines, or every mistake in them.
pub fn failures(faults: &Faults) -> Result<Vec<FailureModel>, Vec<String>> {
    let (mut models, mut errors) = (Vec::new(), Vec::new());
    for (index, document) in faults.machines.iter().enumerate() {
        match FailureModel::read(document, &format!("machines[{index}]")) {
            Ok(model) if model.failure.disk_fill > 0.0 => {
                errors.push(format!(
                    "machines[{index}].fillDisk: nodes of a study evict no pods, so a full disk has no effect"
                ));
            }
            Ok(model) => models.push(model),
            Err(problems) => errors.extend(problems.iter().map(ToString::to_string)),
        }
    }
    if errors.is_empty() { Ok(models) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_effect_is_refused() {
        let machines = vec![
            json!({"name": "a", "failure": "crash", "mtbf": "1h", "mttr": "1m"}),
            json!({"name": "b", "failure": "disk-full", "fillDisk": "97%", "after": "2m", "for": "5m"}),
        ];
        let errors = failures(&Faults { machines, ..Faults::default() }).unwrap_err();
        let why = "machines[1].fillDisk: nodes of a study evict no pods, so a full disk has no effect";
        assert_eq!(errors, [why]);
    }

    #[test]
    fn every_mistake_in_a_policy_is_reported() {
        assert!(settings(None, &GateValues::new()).is_ok());
        let good = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
        assert!(settings(Some(&good), &GateValues::new()).is_ok());
        let bad = json!({"profils": [], "percentageOfNodesToScore": "many"});
        let errors = settings(Some(&bad), &GateValues::new()).map(|_| ()).unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!(errors[0], "profils: unknown field");
    }

    #[test]
    fn plugins_that_do_not_exist_are_reported() {
        let profile = |name: &str, args: Value| {
            let score = json!({"enabled": [{"name": name}]});
            let config = json!([{"name": name, "args": args}]);
            let profile =
                json!({"schedulerName": "default-scheduler", "plugins": {"score": score}, "pluginConfig": config});
            problems(Some(&json!({"profiles": [profile]})), &GateValues::new())
        };
        assert_eq!(profile("BestFit", json!({"resources": ["cpu"]})), [""; 0]);
        let unknown = profile("WorstFit", json!({}));
        assert_eq!(
            unknown,
            ["creating profile for scheduler name default-scheduler: ScorePlugin \"WorstFit\" does not exist"]
        );
        let misspelt = profile("BestFit", json!({"resource": ["cpu"]}));
        assert!(
            misspelt[0].contains("initializing plugin \"BestFit\": args: unknown field `resource`"),
            "{misspelt:?}"
        );
        let script = profile("Script", json!({"source": "function score("}));
        assert!(script[0].contains("initializing plugin \"Script\""), "{script:?}");
    }

    #[test]
    fn two_schedulers_have_different_names() {
        let of = |name: &str| json!({"profiles": [{"schedulerName": name}]});
        let shared = |documents: &[Value]| shared_names(documents.iter()).into_iter().collect::<Vec<_>>();
        assert_eq!(shared(&[json!({}), of("batch"), of("gpu")]), [""; 0]);
        assert_eq!(
            shared(&[json!({}), of("batch"), of("default-scheduler"), of("batch")]),
            ["batch", "default-scheduler"]
        );
    }

    #[test]
    fn every_mistake_in_faults_is_reported() {
        let machines = vec![json!({"name": "a", "failure": "crash", "mtbf": "1h", "mttr": "1m"}), json!({"nme": "b"})];
        let good = Faults { machines: machines[..1].to_vec(), ..Faults::default() };
        assert_eq!(failures(&good).map(|models| models.len()), Ok(1));
        let errors = failures(&Faults { machines, ..Faults::default() }).unwrap_err();
        assert!(errors.iter().all(|error| error.contains("machines[1]")), "{errors:?}");
    }
}
