//! `--controllers`: selects controllers of a table by their names.
//!
//! Corresponds to IsControllerEnabled of k8s.io/controller-manager/app.

use controller_base::descriptor::ControllerDescriptor;

/// `--controllers` names a controller that does not exist.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("--controllers: {0:?} is not in the list of known controllers")]
pub struct UnknownController(pub String);

/// Returns the controllers of a table that `--controllers` selects. A listed name starts its controller, and a name
/// with a dash does not. `*` starts the controllers that are on by default and not listed.
pub fn selected(
    table: &'static [ControllerDescriptor],
    names: &[String],
) -> Result<Vec<&'static ControllerDescriptor>, UnknownController> {
    for name in names.iter().filter(|name| *name != "*") {
        let bare = name.strip_prefix('-').unwrap_or(name);
        if !table.iter().any(|controller| controller.is_named(bare)) {
            return Err(UnknownController(bare.to_owned()));
        }
    }
    let has_star = names.iter().any(|name| name == "*");
    let is_selected = |controller: &&ControllerDescriptor| {
        let decides = |name: &&String| controller.is_named(name.strip_prefix('-').unwrap_or(name));
        match names.iter().find(decides) {
            Some(name) => !name.starts_with('-'),
            None => has_star && controller.on_by_default,
        }
    };
    Ok(table.iter().filter(is_selected).collect())
}
