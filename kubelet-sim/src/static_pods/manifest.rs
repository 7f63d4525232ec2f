//! Reads the manifest of a static pod, and gives the pod its name, uid and annotations.
//!
//! Corresponds to pkg/kubelet/config/common.go. The uid follows from node, source and manifest, so that another
//! manifest is another pod.

use pod_life::images::fingerprint;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Pod, PodSpec, Toleration, Volume};
use proto::serializer::yaml;
use serde_json::Value;

/// The annotations of a static pod and its mirror.
pub const HASH: &str = "kubernetes.io/config.hash";
pub const SEEN: &str = "kubernetes.io/config.seen";
pub const SOURCE: &str = "kubernetes.io/config.source";
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Characters of a uid that is made from a hash.
const UID_LENGTH: usize = 32;

/// Where a manifest comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    File,
    Http,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Origin::File => "file",
            Origin::Http => "http",
        }
    }
}

/// Reads the pods of a manifest: one Pod, or from a URL also a PodList. `place` is the file or the URL.
pub fn read(text: &str, origin: Origin, place: &str, node: &str, seen: &str) -> Result<Vec<Pod>, String> {
    let manifest = yaml::parse(text.as_bytes()).map_err(|error| error.to_string())?.value;
    let objects = match (manifest["kind"].as_str().unwrap_or_default(), origin) {
        ("Pod", _) => vec![manifest],
        ("PodList" | "List", Origin::Http) => manifest["items"].as_array().cloned().unwrap_or_default(),
        (kind, _) => return Err(format!("{kind:?} is no Pod")),
    };
    objects.into_iter().map(|object| read_one(object, origin, place, node, seen)).collect()
}

fn read_one(object: Value, origin: Origin, place: &str, node: &str, seen: &str) -> Result<Pod, String> {
    let version = object["apiVersion"].as_str().unwrap_or("v1");
    if version != "v1" {
        return Err(format!("apiVersion {version:?} has no kind \"Pod\""));
    }
    let content = object.to_string();
    let mut pod = Pod::decode_value(object).map_err(|error| error.to_string())?;
    if pod.name().is_empty() {
        return Err("metadata.name: Required value: name or generateName is required".to_owned());
    }
    let spec = pod.spec.get_or_insert_default();
    if spec.containers.is_empty() {
        return Err("spec.containers: Required value".to_owned());
    }
    refuse_references(spec)?;
    let tolerations = spec.tolerations.get_or_insert_default();
    let all = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    if !tolerations.contains(&all) {
        tolerations.push(all);
    }
    spec.node_name = Some(node.to_owned());
    let metadata = &mut pod.metadata;
    let name = metadata.name.take().unwrap_or_default();
    metadata.name = Some(format!("{name}-{}", node.to_lowercase()));
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    let hash = || fingerprint(&["static pod", node, origin.name(), place, &content])[..UID_LENGTH].to_owned();
    let uid = metadata.uid.get_or_insert_with(hash).clone();
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(HASH.to_owned(), uid);
    annotations.insert(SEEN.to_owned(), seen.to_owned());
    annotations.insert(SOURCE.to_owned(), origin.name().to_owned());
    Ok(pod)
}

/// Refuses a pod that refers to objects of the API: its node could not read them before there is an API server.
fn refuse_references(spec: &PodSpec) -> Result<(), String> {
    let all = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        return Err("static pods may not specify ephemeralContainers".to_owned());
    }
    let account = spec.service_account_name.as_ref().or(spec.service_account.as_ref());
    let resource = if account.is_some_and(|name| !name.is_empty()) {
        Some("serviceaccounts")
    } else if spec.image_pull_secrets.as_ref().is_some_and(|list| !list.is_empty()) {
        Some("secrets")
    } else if spec.resource_claims.as_ref().is_some_and(|list| !list.is_empty()) {
        Some("resourceclaims")
    } else {
        all().find_map(of_variables).or_else(|| spec.volumes.iter().flatten().find_map(of_volume))
    };
    resource.map_or(Ok(()), |resource| Err(format!("static pods may not reference {resource}")))
}

fn of_variables(container: &Container) -> Option<&'static str> {
    let from = container.env_from.iter().flatten().find_map(|from| match (&from.config_map_ref, &from.secret_ref) {
        (Some(_), _) => Some("configmaps"),
        (None, Some(_)) => Some("secrets"),
        (None, None) => None,
    });
    from.or_else(|| {
        let sources = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        sources.into_iter().find_map(|source| match (&source.config_map_key_ref, &source.secret_key_ref) {
            (Some(_), _) => Some("configmaps"),
            (None, Some(_)) => Some("secrets"),
            (None, None) => None,
        })
    })
}

fn of_volume(volume: &Volume) -> Option<&'static str> {
    let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let of_projected = projected.into_iter().find_map(|source| {
        let kinds = [
            (source.config_map.is_some(), "configmaps"),
            (source.secret.is_some(), "secrets"),
            (source.service_account_token.is_some(), "serviceaccounts"),
            (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
            (source.pod_certificate.is_some(), "podcertificates"),
        ];
        kinds.into_iter().find(|(is_there, _)| *is_there).map(|(_, resource)| resource)
    });
    let kinds = [
        (volume.config_map.is_some(), "configmaps"),
        (volume.secret.is_some(), "secrets"),
        (volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        (volume.ephemeral.is_some(), "persistentvolumeclaims"),
        (volume.csi.is_some(), "csidrivers"),
    ];
    kinds.into_iter().find(|(is_there, _)| *is_there).map(|(_, resource)| resource).or(of_projected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_file(text: &str) -> Result<Pod, String> {
        let mut pods = read(text, Origin::File, "/etc/kubernetes/manifests/web.yaml", "Node-1", "now")?;
        Ok(pods.remove(0))
    }

    const WEB: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\n\
                       spec: {containers: [{name: c, image: i}]}\n";

    #[test]
    fn a_pod_gets_the_name_of_its_node_and_a_uid_of_its_content() {
        let pod = read_file(WEB).unwrap();
        assert_eq!((pod.name(), pod.namespace(), pod.uid().len()), ("web-node-1", "default", 32));
        let annotations = pod.metadata.annotations.clone().unwrap();
        assert_eq!([&annotations[HASH], &annotations[SEEN], &annotations[SOURCE]], [pod.uid(), "now", "file"]);
        let spec = pod.encode()["spec"].clone();
        assert_eq!(spec["nodeName"], "Node-1");
        assert_eq!(spec["tolerations"], json!([{"effect": "NoExecute", "operator": "Exists"}]));

        assert_eq!(read_file(WEB).unwrap().uid(), pod.uid());
        assert_ne!(read_file(&WEB.replace("image: i", "image: j")).unwrap().uid(), pod.uid());
        let given = WEB.replace("name: web,", "name: web, uid: mine, namespace: kube-system,");
        let given = read_file(&given).unwrap();
        assert_eq!((given.uid(), given.namespace()), ("mine", "kube-system"));
    }

    #[test]
    fn what_is_no_pod_or_needs_the_api_server_is_refused() {
        let pod = |spec: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {spec}\n");
        for (text, error) in [
            (pod("{}"), "spec.containers: Required value"),
            (WEB.replace("kind: Pod", "kind: Service"), "\"Service\" is no Pod"),
            (WEB.replace("apiVersion: v1", "apiVersion: v2"), "apiVersion \"v2\" has no kind \"Pod\""),
            (pod("{serviceAccountName: a, containers: [{name: c}]}"), "static pods may not reference serviceaccounts"),
            (
                pod("{containers: [{name: c, envFrom: [{secretRef: {name: s}}]}]}"),
                "static pods may not reference secrets",
            ),
            (
                pod("{volumes: [{name: v, configMap: {name: m}}], containers: [{name: c}]}"),
                "static pods may not reference configmaps",
            ),
            (
                pod("{volumes: [{name: v, projected: {sources: [{secret: {name: s}}]}}], containers: [{name: c}]}"),
                "static pods may not reference secrets",
            ),
        ] {
            assert_eq!(read_file(&text).unwrap_err(), error);
        }
        assert!(read_file("a: [").is_err());
    }

    #[test]
    fn a_url_may_serve_several_pods() {
        let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [
            {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}},
            {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}},
        ]});
        let pods = read(&list.to_string(), Origin::Http, "http://localhost/pods", "n", "now").unwrap();
        assert_eq!(pods.iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>(), ["a-n", "b-n"]);
        assert!(read_file(&list.to_string()).is_err());
    }
}
