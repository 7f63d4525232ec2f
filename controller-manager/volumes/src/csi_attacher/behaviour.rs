//! `Behaviour`: how a simulated driver attaches and detaches a volume, according to the volume's attributes.
//!
//! Corresponds to ControllerPublishVolume and ControllerUnpublishVolume of the Container Storage Interface.

use component_base::duration::parse_duration;
use proto::kinds::api::core::v1::PersistentVolume;
use std::time::Duration;

/// How a driver attaches, or detaches, one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub takes: Duration,
    /// The error with which it fails.
    pub error: Option<String>,
}

/// What a driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Attach,
    Detach,
}

impl Behaviour {
    /// Reads the attributes `orrery.dev/attach-latency` and `orrery.dev/attach-error`, or those that begin with
    /// `orrery.dev/detach`. An attribute with a mistake makes the driver fail.
    pub fn of(volume: &PersistentVolume, verb: Verb) -> Self {
        let verb = match verb {
            Verb::Attach => "attach",
            Verb::Detach => "detach",
        };
        let source = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        let attribute = |name: &str| source?.volume_attributes.as_ref()?.get(name).cloned();
        let error = attribute(&format!("orrery.dev/{verb}-error")).filter(|error| !error.is_empty());
        let latency = format!("orrery.dev/{verb}-latency");
        match attribute(&latency).map(|text| parse_duration(&text)) {
            None => Self { takes: Duration::ZERO, error },
            Some(Ok(takes)) => Self { takes, error },
            Some(Err(problem)) => {
                let why = format!("rpc error: code = InvalidArgument desc = {latency}: {problem}");
                Self { takes: Duration::ZERO, error: Some(why) }
            }
        }
    }
}
