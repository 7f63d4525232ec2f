//! Tests both policies, and that a configuration may name them.

use super::*;
use scheduler::framework::assembly::assemble;
use scheduler::framework::configuration::profile::ProfileConfiguration;

#[test]
fn few_pods_and_quiet_nodes() {
    let mut scores = [-3, -1, -2];
    let (pod, state) = (PodInfo::new(Arc::default()), CycleState::default());
    FewestPods.normalize(&state, &pod, &FeasibleNodes::new(&Snapshot::default(), &[]), &mut scores);
    assert_eq!(scores, [0, 100, 50]);
    let mut node = NodeInfo::default();
    assert_eq!(Quiet.filter(&state, &pod, &node), Ok(()));
    let mut labelled = proto::kinds::api::core::v1::Node::default();
    labelled.metadata.labels.get_or_insert_default().insert("quiet".to_owned(), String::new());
    node.set_node(Arc::new(labelled));
    assert_eq!(Quiet.filter(&state, &pod, &node).unwrap_err().reasons, ["node(s) want quiet pods"]);
}

#[test]
fn a_configuration_may_name_them() {
    let mut registry = Registry::default();
    register(&mut registry);
    let errors = assemble(&ProfileConfiguration::default(), &registry).err().unwrap_or_default();
    // Without Kubernetes' plugins nobody sorts the queue and binds.
    assert_eq!(errors.len(), 2, "{errors:?}");
    let mut configuration = ProfileConfiguration::default();
    for (name, weight) in [("FewestPods", 5), ("Quiet", 0)] {
        let plugin = scheduler::framework::configuration::plugin_sets::PluginRef { name: name.to_owned(), weight };
        configuration.plugins.multi_point.enabled.push(plugin);
    }
    assert_eq!(assemble(&configuration, &registry).err(), Some(errors));
}
