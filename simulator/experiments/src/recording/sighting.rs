//! `Sighting`: something that a recording shows of a pod.

use proto::kinds::api::core::v1::Pod;
use proto::kinds::metav1::Time;

/// Something that a recording shows of a pod. Times are those of the cluster.
#[derive(Clone, Debug)]
pub(crate) enum Sighting {
    /// The pod as it was then. `created` is there if this was its creation.
    Object { pod: Box<Pod>, created: Option<Time> },
    /// It got a node.
    Bound { key: String, at: Time },
    /// Its deletion was asked for.
    Deleted { key: String, at: Time },
}
