//! What a pod refers to has to be there: volumes before its sandbox, variables before each container.

use super::*;
use crate::needs::references::{Reference, Source};
use std::sync::Arc;

impl Life {
    fn with(mut self, source: Source, name: &str, entries: Option<&[(&str, &str)]>) -> Self {
        let reference = Reference { source, name: name.to_owned() };
        let entries = entries.map(|pairs| {
            Arc::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
        });
        self.objects.sources.insert(reference, entries.ok_or(crate::needs::references::ReadError::NotFound));
        self
    }
}

#[test]
fn a_volume_whose_config_map_is_missing_holds_the_pod_back() {
    let spec = json!({
        "volumes": [{"name": "config", "configMap": {"name": "game", "items": [{"key": "lives", "path": "lives"}]}}],
        "containers": [{"name": "web", "image": "nginx:1.29"}],
    });
    let life = Life::of(spec, json!({})).with(Source::ConfigMap, "game", None).until(4_000);
    let life = life.with(Source::ConfigMap, "game", Some(&[("level", "1")])).until(8_000);
    life.with(Source::ConfigMap, "game", Some(&[("lives", "3")])).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap "game" not found 
        0.5s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap "game" not found 
        1.5s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap "game" not found 
        3.5s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap "game" not found 
        4.0s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap references non-existent config key: lives 
        7.5s  Pending web=ContainerCreating
                ! FailedMount: MountVolume.SetUp failed for volume "config" : configmap references non-existent config key: lives 
        8.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        8.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn a_variable_whose_source_is_missing_holds_its_container_back() {
    let of_key = json!({"name": "LIVES", "valueFrom": {"configMapKeyRef": {"name": "game", "key": "lives"}}});
    let spec = json!({"containers": [
        {"name": "web", "image": "nginx:1.29", "env": [of_key], "envFrom": [{"secretRef": {"name": "keys"}}]},
        {"name": "log", "image": "log:1"},
    ]});
    let life = Life::of(spec, json!({})).with(Source::ConfigMap, "game", None).with(Source::Secret, "keys", None);
    let life = life.until(12_000).with(Source::Secret, "keys", Some(&[])).until(25_000);
    let life = life.with(Source::ConfigMap, "game", Some(&[])).until(38_000);
    life.with(Source::ConfigMap, "game", Some(&[("lives", "3")])).until(60_000).check(&expect![[r#"
        0.0s  Pending log=ContainerCreating web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Pending log=running+ web=CreateContainerConfigError
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                ! Failed: Error: secret "keys" not found spec.containers{web}
                  Pulling: Pulling image "log:1" spec.containers{log}
                  Pulled: Successfully pulled image "log:1" in 400ms (400ms including waiting). Image size: 119746957 bytes. spec.containers{log}
                  Created: Container created spec.containers{log}
                  Started: Container started spec.containers{log}
        10.5s Pending log=running+ web=CreateContainerConfigError
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                ! Failed: Error: secret "keys" not found spec.containers{web}
        12.0s Pending log=running+ web=CreateContainerConfigError
                ! Failed: Error: configmap "game" not found spec.containers{web}
        20.1s Pending log=running+ web=CreateContainerConfigError
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                ! Failed: Error: configmap "game" not found spec.containers{web}
        25.0s Pending log=running+ web=CreateContainerConfigError
                ! Failed: Error: couldn't find key lives in ConfigMap shop/game spec.containers{web}
        30.1s Pending log=running+ web=CreateContainerConfigError
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                ! Failed: Error: couldn't find key lives in ConfigMap shop/game spec.containers{web}
        38.0s Running Ready log=running+ web=running+
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn what_is_optional_may_be_missing() {
    let spec = json!({
        "volumes": [
            {"name": "config", "configMap": {"name": "game", "optional": true}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "keys", "optional": true}}]}},
        ],
        "containers": [{
            "name": "web", "image": "nginx:1.29",
            "env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k", "optional": true}}}],
            "envFrom": [{"configMapRef": {"name": "game", "optional": true}}],
        }],
    });
    let life = Life::of(spec, json!({})).with(Source::ConfigMap, "game", None).with(Source::Secret, "keys", None);
    assert!(life.until(1_000).log.ends_with("Started: Container started spec.containers{web}\n"));
}

#[test]
fn a_path_that_leaves_its_volume_fails_the_container() {
    for (path, error) in [
        (json!({"subPathExpr": "$(POD_NAME)"}), None),
        (json!({"subPathExpr": "logs/$(LEVEL)"}), Some("unable to provision SubPath `logs/..`: must not contain '..'")),
        (json!({"subPathExpr": "$(ROOT)"}), Some("error SubPath `/tmp` must not be an absolute path")),
        (json!({"subPathExpr": "$(NOBODY)"}), Some("missing value for \"NOBODY\"")),
        (json!({"subPath": "a/../b"}), Some("unable to provision SubPath `a/../b`: must not contain '..'")),
    ] {
        let mut mount = json!({"name": "data", "mountPath": "/data"});
        mount.as_object_mut().unwrap().extend(path.as_object().unwrap().clone());
        let spec = json!({
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "web", "image": "nginx:1.29", "volumeMounts": [mount], "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LEVEL", "value": ".."},
                {"name": "ROOT", "value": "/tmp"},
            ]}],
        });
        let life = Life::of(spec, json!({})).until(1_000);
        let waiting = life.status.container_statuses.unwrap()[0].state.clone().unwrap().waiting;
        let found = waiting.map(|waiting| (waiting.reason.unwrap(), waiting.message.unwrap()));
        assert_eq!(found, error.map(|error| ("CreateContainerConfigError".to_owned(), error.to_owned())), "{path}");
    }
}
