//! Validates VolumeAttachments: attacher, volume and node.
//!
//! Corresponds to ValidateVolumeAttachment of pkg/apis/storage/validation.

use super::persistent_volumes::{self, Place};
use super::storage::csi_driver_name;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, IMMUTABLE};
use proto::meta::names;

type Context<'a> = WriteContext<'a>;

pub fn create(_context: &Context<'_>, attachment: &At<'_>, errors: &mut Errors) {
    let spec = attachment.field("spec");
    let (attacher, source) = (spec.field("attacher"), spec.field("source"));
    if attacher.is_empty() {
        errors.push(attacher.required(""));
    }
    let (name, inline) = (source.field("persistentVolumeName"), source.field("inlineVolumeSpec"));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (name.is_set(), inline.is_set()) {
        (true, true) => errors.push(source.forbidden(ONE)),
        (false, false) => errors.push(source.required(ONE)),
        (true, false) if name.is_empty() => {
            errors.push(name.required("must specify non empty persistentVolumeName"));
        }
        (true, false) => {}
        (false, true) => persistent_volumes::validate(&inline, Place::Inline, errors),
    }
    spec.field("nodeName").check(names::dns1123_subdomain, errors);
    // Kubernetes adds these checks for the v1 API, after the older ones.
    csi_driver_name(&attacher, errors);
    if name.is_set() {
        name.check(names::dns1123_subdomain, errors);
    }
}

pub fn update(_context: &Context<'_>, attachment: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if attachment.field("spec").value != old.field("spec").value {
        errors.push(attachment.field("spec").invalid(IMMUTABLE));
    }
}
