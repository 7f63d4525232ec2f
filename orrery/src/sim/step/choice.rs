//! Chooses the one cell of a study in which an agent learns. The seed of each episode comes later.

use super::Options;
use experiments::study::{Cell, Cluster, Faults, Policy, Study, Workload};

/// Returns the cell of the options, or everything that they leave open.
pub fn cell<'s>(study: &'s Study, options: &Options) -> Result<Cell<'s>, Vec<String>> {
    let mut errors = Vec::new();
    let cluster = one(&study.clusters, |one: &Cluster| &one.name, "cluster", options.cluster.as_deref(), &mut errors);
    let workload =
        one(&study.workloads, |one: &Workload| &one.name, "workload", options.workload.as_deref(), &mut errors);
    let policy = one(&study.policies, |one: &Policy| &one.name, "policy", options.policy.as_deref(), &mut errors);
    let faults = match (study.faults.as_slice(), options.faults.as_deref()) {
        ([], None | Some("none")) => None,
        (all, wanted) => one(all, |one: &Faults| &one.name, "faults", wanted, &mut errors),
    };
    match (cluster, workload, policy) {
        (Some(cluster), Some(workload), Some(policy)) if errors.is_empty() => {
            Ok(Cell { cluster, workload, policy, faults, seed: 0 })
        }
        _ => Err(errors),
    }
}

/// Returns the member that is wanted, or the only one.
fn one<'s, T>(
    all: &'s [T],
    name: impl Fn(&T) -> &String,
    option: &str,
    wanted: Option<&str>,
    errors: &mut Vec<String>,
) -> Option<&'s T> {
    let found = match (all, wanted) {
        ([only], None) => Some(only),
        (_, Some(wanted)) => all.iter().find(|one| name(one) == wanted),
        _ => None,
    };
    if found.is_none() {
        let names: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        let names = names.join(", ");
        errors.push(match wanted {
            Some(wanted) => format!("--{option}={wanted}: must be one of {names}"),
            None => format!("--{option}: Required value: the study has several: {names}"),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiments::study;

    fn options(cluster: Option<&str>, policy: Option<&str>) -> Options {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Options {
            study: "study.yaml".into(),
            cluster: own(cluster),
            workload: None,
            faults: None,
            policy: own(policy),
            environments: 1,
        }
    }

    #[test]
    fn every_open_choice_is_reported() {
        let mut study = study::read(study::EXAMPLE).unwrap();
        study.clusters.push(study::Cluster { name: "other".to_owned(), ..study.clusters[0].clone() });
        let chosen = cell(&study, &options(Some("other"), Some("default"))).unwrap();
        assert_eq!((chosen.cluster.name.as_str(), chosen.policy.name.as_str()), ("other", "default"));
        let errors = cell(&study, &options(None, Some("fastest"))).map(|_| ()).unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].starts_with("--cluster: Required value: the study has several: "), "{errors:?}");
        assert_eq!(errors[1], "--policy=fastest: must be one of default, most-allocated");
    }
}
