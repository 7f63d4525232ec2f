//! ImageLocality prefers nodes that have the pod's images, unless few nodes have them.
//!
//! Corresponds to pkg/scheduler/framework/plugins/imagelocality.

use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FeasibleNodes, MAX_NODE_SCORE, Normalization, Plugin, Score};

pub struct ImageLocality;

const MIB: i64 = 1024 * 1024;
/// Total size below which images give no points.
const MIN_THRESHOLD_BYTES: i64 = 23 * MIB;
/// Size for each container above which images give no more points.
const MAX_CONTAINER_THRESHOLD_BYTES: i64 = 1000 * MIB;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }
}

impl Score for ImageLocality {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> i64 {
        Wanted::of(pod, snapshot).score(node)
    }

    fn score_all(&self, _: &CycleState, pod: &PodInfo, nodes: &FeasibleNodes<'_>, snapshot: &Snapshot) -> Vec<i64> {
        let wanted = Wanted::of(pod, snapshot);
        match wanted.uniform_score() {
            Some(score) => vec![score; nodes.len()],
            None => nodes.iter().map(|node| wanted.score(node)).collect(),
        }
    }

    fn uniform_score(&self, pod: &PodInfo, snapshot: &Snapshot) -> Option<i64> {
        Wanted::of(pod, snapshot).uniform_score()
    }

    fn normalization(&self) -> Normalization {
        Normalization::None
    }
}

/// The images of a pod that some nodes have.
struct Wanted {
    /// Names with the fraction of nodes that have the image. The size counts by that fraction, so that one node with the image
    /// does not attract all pods.
    images: Vec<(String, f64)>,
    containers: i64,
}

impl Wanted {
    fn of(pod: &PodInfo, snapshot: &Snapshot) -> Self {
        let all_nodes = snapshot.nodes().len().max(1) as f64;
        let spec = pod.spec();
        let of_containers = spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| &c.image);
        let containers = of_containers.clone().count() as i64;
        let of_volumes = spec.volumes.iter().flatten().filter_map(|v| v.image.as_ref()).map(|image| &image.reference);
        let images = of_containers.chain(of_volumes).map(|image| with_tag(image.as_deref().unwrap_or_default()));
        let with_spread = images.map(|image| {
            let spread = f64::from(snapshot.nodes_with_image(&image)) / all_nodes;
            (image, spread)
        });
        Self { images: with_spread.filter(|(_, spread)| *spread > 0.0).collect(), containers }
    }

    /// Returns the score of all nodes if none has an image.
    fn uniform_score(&self) -> Option<i64> {
        self.images.is_empty().then(|| self.score_of(0))
    }

    fn score(&self, node: &NodeInfo) -> i64 {
        let sizes = self.images.iter().filter_map(|(image, spread)| Some((node.images.get(image)?, spread)));
        let bytes: i64 = sizes.map(|(size, spread)| (*size as f64 * spread) as i64).sum();
        self.score_of(bytes)
    }

    fn score_of(&self, bytes: i64) -> i64 {
        let most = MAX_CONTAINER_THRESHOLD_BYTES * self.containers.max(1);
        let counted = bytes.clamp(MIN_THRESHOLD_BYTES, most);
        MAX_NODE_SCORE * (counted - MIN_THRESHOLD_BYTES) / (most - MIN_THRESHOLD_BYTES)
    }
}

/// Returns the image name with a tag, as nodes report it. Registry defaults are not added.
fn with_tag(image: &str) -> String {
    let tagged = image.rfind(':') > image.rfind('/');
    if tagged { image.to_owned() } else { format!("{image}:latest") }
}
