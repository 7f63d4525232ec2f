//! AlwaysPullImages: sets `imagePullPolicy: Always`, so that no pod uses an image without credentials for it.
//!
//! Corresponds to plugin/pkg/admission/alwayspullimages. Off by default, as there.

use crate::plugins::pod_parts::{CONTAINER_FIELDS, containers, items, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use proto::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct AlwaysPullImages;

#[async_trait]
impl AdmissionPlugin for AlwaysPullImages {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let is_new = attributes.operation == Operation::Create
            || !images(attributes.new_object()).is_subset(&images(attributes.old()));
        if !attributes.is("", "pods") || !is_new {
            return Ok(());
        }
        let Some(spec) = attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec")) else { return Ok(()) };
        for field in CONTAINER_FIELDS {
            for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
                container["imagePullPolicy"] = json!("Always");
            }
        }
        for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(image) = volume.get_mut("image") {
                image["pullPolicy"] = json!("Always");
            }
        }
        Ok(())
    }
}

fn images(pod: &Value) -> BTreeSet<&str> {
    let of_volumes = items(pod, "/spec/volumes").filter_map(|volume| volume.pointer("/image/reference")?.as_str());
    containers(&pod["spec"]).map(|c| text(c, "/image")).chain(of_volumes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn new_images_are_always_pulled() {
        let pod = |image: &str| {
            json!({"metadata": {"name": "p"}, "spec": {
                "containers": [{"name": "c", "image": image, "imagePullPolicy": "Never"}],
                "volumes": [{"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}],
            }})
        };
        for (write, policy) in [
            (Write::create("", "pods", pod("a")), "Always"),
            (Write::update("", "pods", pod("a"), pod("a")), "Never"),
            (Write::update("", "pods", pod("a"), pod("b")), "Always"),
        ] {
            let pod = write.run(&AlwaysPullImages).await.passed();
            assert_eq!(pod.pointer("/spec/containers/0/imagePullPolicy"), Some(&json!(policy)));
            assert_eq!(pod.pointer("/spec/volumes/0/image/pullPolicy"), Some(&json!(policy)));
        }
    }
}
