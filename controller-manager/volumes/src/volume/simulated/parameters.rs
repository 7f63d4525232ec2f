//! `Parameters`: what a StorageClass says about its simulated volumes.
//!
//! ```text
//!   capacity: 100Gi             what all volumes of the class together may hold
//!   latency: 2s                 how long a volume takes to be made, deleted or resized
//!   zones: zone-a,zone-b        a volume is reachable from the nodes of one of these zones
//!   provisioningFaults: 0.25    how many attempts to make a volume fail
//!   deletionFaults: 0.25        how many attempts to delete a volume fail
//! ```
//!
//! Corresponds to the parameters of a CSI driver. Those that begin with `csi.storage.k8s.io/` are the external-provisioner's.

use component_base::duration::parse_duration;
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::quantity::Quantity;
use std::time::Duration;

/// Prefix of the parameters that a driver does not get.
const PROVISIONERS_OWN: &str = "csi.storage.k8s.io/";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    pub capacity: Option<Quantity>,
    pub latency: Duration,
    pub zones: Vec<String>,
    /// The file system that volumes name.
    pub fs_type: Option<String>,
    /// From 0 to 1.
    pub provisioning_faults: f64,
    pub deletion_faults: f64,
}

impl Parameters {
    /// Reads the parameters of a class. Fails with the first that cannot be read.
    pub fn of(class: &StorageClass) -> Result<Self, String> {
        let mut parameters = Self::default();
        for (key, value) in class.parameters.iter().flatten() {
            parameters.set(key, value).map_err(|why| format!("parameter {key:?}: {why}"))?;
        }
        Ok(parameters)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "capacity" => self.capacity = Some(Quantity::parse(value).map_err(|error| error.to_string())?),
            "latency" => self.latency = parse_duration(value)?,
            "zones" => self.zones = value.split(',').map(|zone| zone.trim().to_owned()).collect(),
            "provisioningFaults" => self.provisioning_faults = share(value)?,
            "deletionFaults" => self.deletion_faults = share(value)?,
            "csi.storage.k8s.io/fstype" => self.fs_type = Some(value.to_owned()),
            _ if key.starts_with(PROVISIONERS_OWN) => {}
            _ => return Err("simulated volumes have no such parameter".to_owned()),
        }
        Ok(())
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is no number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::class;
    use controller_base::fixture::labels;

    fn read(pairs: &[(&str, &str)]) -> Result<Parameters, String> {
        let mut class = class("c", super::super::PROVISIONER);
        class.parameters = Some(labels(pairs));
        Parameters::of(&class)
    }

    #[test]
    fn parameters_are_read_or_refused_by_name() {
        assert_eq!(read(&[]), Ok(Parameters::default()));
        let all = read(&[
            ("capacity", "10Gi"),
            ("latency", "1m30s"),
            ("zones", "a, b"),
            ("provisioningFaults", "0.5"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("csi.storage.k8s.io/provisioner-secret-name", "s"),
        ])
        .unwrap();
        assert_eq!((all.latency, all.zones), (Duration::from_secs(90), vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((all.provisioning_faults, all.fs_type.as_deref()), (0.5, Some("xfs")));
        for (key, value, why) in [
            ("size", "1", "simulated volumes have no such parameter"),
            ("deletionFaults", "2", "\"2\" is no number from 0 to 1"),
            ("deletionFaults", "NaN", "\"NaN\" is no number from 0 to 1"),
        ] {
            assert_eq!(read(&[(key, value)]), Err(format!("parameter {key:?}: {why}")));
        }
        assert!(read(&[("capacity", "much")]).is_err() && read(&[("latency", "soon")]).is_err());
    }
}
