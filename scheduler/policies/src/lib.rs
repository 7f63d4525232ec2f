//! Policies of research papers as plugins, to compare with Kubernetes' own. None is in the default profile; a configuration
//! names them.
//!
//! Each file has the formula of its policy and the paper that it is from. Read `best_first.rs` first, then the files in the
//! order below.

mod best_first;

// Policies that choose a node.
mod random;
mod first_fit;
mod vector_packing;

// Shared GPUs.
mod ledger;
mod gradient;
mod gpu_share;
mod fgd;

// Policies about several pods.
mod finish_time_fairness;
mod gang;

#[cfg(test)]
mod fixture;

use component_base::rng::Random;
use fgd::Fgd;
use finish_time_fairness::FinishTimeFairness;
use first_fit::FirstFit;
use gang::Gang;
use gpu_share::GpuShare;
use ledger::Ledger;
use proto::meta::quantity::Quantity;
use random::RandomNode;
use scheduling_framework::{Points, Registry, WaitingPods};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use vector_packing::{Rule, VectorPacking};

/// Adds the policies to the plugins that a configuration may name. All profiles share what is known of GPUs.
///
/// Deviation: a configuration may name policies of research papers, from `Random` to `FGD`, and `GpuShare`, which writes an
/// annotation with the binding of a pod. Kubernetes' scheduler knows no such plugins.
pub fn register(registry: &mut Registry, waiting_pods: &WaitingPods, random: &Random) {
    let drawn = random.u64();
    registry.add("Random", move |args| {
        let plugin = Arc::new(RandomNode { args: read(args)?, drawn });
        Ok(Points::of(&plugin).score(&plugin))
    });
    registry.add("FirstFit", |args| {
        let _: NoArgs = read(args)?;
        let plugin = Arc::new(FirstFit);
        Ok(Points::of(&plugin).score(&plugin))
    });
    for rule in [Rule::BestFit, Rule::DotProduct, Rule::Tetris] {
        registry.add(rule.name(), move |args| {
            let plugin = Arc::new(VectorPacking { rule, args: read(args)? });
            Ok(Points::of(&plugin).score_after_pre_score(&plugin))
        });
    }
    let ledger = Arc::new(Ledger::default());
    let shared = ledger.clone();
    registry.add(gpu_share::NAME, move |args| {
        let plugin = Arc::new(GpuShare { args: read(args)?, ledger: shared.clone(), drawn });
        Ok(Points::of(&plugin).pre_filter(&plugin).filter(&plugin).reserve(&plugin))
    });
    registry.add(fgd::NAME, move |args| {
        let plugin = Arc::new(Fgd::new(read(args)?, ledger.clone())?);
        Ok(Points::of(&plugin).pre_filter(&plugin).score(&plugin))
    });
    registry.add(finish_time_fairness::NAME, |args| {
        let plugin = Arc::new(FinishTimeFairness::new(read(args)?)?);
        Ok(Points::of(&plugin).queue_sort(&plugin))
    });
    let waiting_pods = waiting_pods.clone();
    registry.add(gang::NAME, move |args| {
        let plugin = Arc::new(Gang { args: read(args)?, waiting_pods: waiting_pods.clone() });
        Ok(Points::of(&plugin).pre_filter(&plugin).score(&plugin).reserve(&plugin).permit(&plugin))
    });
}

/// The arguments of a plugin that has none.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

/// Reads the arguments of a plugin; null stands for the defaults.
fn read<T: Default + for<'de> Deserialize<'de>>(args: &Value) -> Result<T, String> {
    match args {
        Value::Null => Ok(T::default()),
        given => T::deserialize(given).map_err(|error| format!("args: {error}")),
    }
}

/// Reads a quantity of the arguments, which YAML may have read as a number.
fn quantity(value: &Value) -> Result<Quantity, String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Quantity::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_strict() {
        let mut registry = Registry::default();
        register(&mut registry, &WaitingPods::default(), &Random::from_seed(1, "policies"));
        for (plugin, args, complaint) in [
            ("Random", json!({"sead": 1}), "args: unknown field `sead`, expected `seed`"),
            ("FirstFit", json!({"seed": 1}), "args: unknown field `seed`, there are no fields"),
            ("BestFit", json!({"resources": "cpu"}), "args: invalid type: string \"cpu\", expected a sequence"),
            ("GpuShare", json!({"gpu": "Best"}), "args: unknown variant `Best`"),
            ("FGD", json!({"tasks": [{"cpu": "1x"}]}), "tasks[0].cpu"),
            ("FGD", json!({"tasks": [{"cpu": "1", "weight": 0}]}), "tasks[0].weight: must be greater than zero"),
            ("FGD", json!({"tasks": [{"gpuCount": 1, "gpuMilli": 1001}]}), "tasks[0].gpuMilli: must be between 1 and"),
            ("FinishTimeFairness", json!({"users": 0}), "users: must be greater than zero"),
            ("FinishTimeFairness", json!({"capacity": {"cpu": "0"}}), "capacity.cpu: must be greater than zero"),
            ("Gang", json!({"waitSeconds": -1}), "args: invalid value"),
        ] {
            let factory = registry.get(plugin).unwrap();
            assert!(factory(&Value::Null).is_ok(), "{plugin}");
            let error = factory(&args).map(|_| ()).unwrap_err();
            assert!(error.contains(complaint), "{plugin}: {error}");
        }
    }
}
