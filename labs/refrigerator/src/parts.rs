//! The five kinds of a refrigerator. All parts of one refrigerator have its name and namespace.
//!
//! Corresponds to the CustomResourceDefinitions in labs/refrigerator/manifests/crds.yaml.

use client::{CustomResource, CustomSpec};
use serde::{Deserialize, Serialize};

const GROUP: &str = "kitchen.example.com";
const VERSION: &str = "v1";

/// The body. Its thermometer reports the temperature inside.
pub type Refrigerator = CustomResource<RefrigeratorSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RefrigeratorSpec {
    /// Temperature of the room around it.
    pub room_celsius: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RefrigeratorStatus {
    pub celsius: f64,
}

impl CustomSpec for RefrigeratorSpec {
    type Status = RefrigeratorStatus;
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "Refrigerator";
    const RESOURCE: &'static str = "refrigerators";
}

/// The door, which people open and close.
pub type Door = CustomResource<DoorSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct DoorSpec {
    pub open: bool,
}

impl CustomSpec for DoorSpec {
    type Status = ();
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "Door";
    const RESOURCE: &'static str = "doors";
}

/// The thermostat, which people turn.
pub type Thermostat = CustomResource<ThermostatSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ThermostatSpec {
    pub target_celsius: f64,
}

impl CustomSpec for ThermostatSpec {
    type Status = ();
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "Thermostat";
    const RESOURCE: &'static str = "thermostats";
}

/// Whether a part does what its spec asks for: it reports it, and nobody else writes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct SwitchStatus {
    pub on: bool,
}

/// The lamp.
pub type LightingSystem = CustomResource<LightingSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct LightingSpec {
    pub on: bool,
}

impl CustomSpec for LightingSpec {
    type Status = SwitchStatus;
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "LightingSystem";
    const RESOURCE: &'static str = "lightingsystems";
}

/// The compressor.
pub type CoolingSystem = CustomResource<CoolingSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct CoolingSpec {
    pub on: bool,
}

impl CustomSpec for CoolingSpec {
    type Status = SwitchStatus;
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "CoolingSystem";
    const RESOURCE: &'static str = "coolingsystems";
}
