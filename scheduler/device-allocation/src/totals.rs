//! `Totals`: how many devices of a class a node can reach, and how many of them claims have.
//!
//! For scores of nodes by resources that devices stand for. Corresponds to calculateDRAResourceTotals of
//! pkg/scheduler/framework/plugins/noderesources.

use crate::allocator::Allocator;
use crate::pool;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::DeviceClass;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub devices: i64,
    pub allocated: i64,
}

impl Allocator {
    /// Counts the devices of all slices, those of older generations too. Nothing is counted if an expression fails.
    pub fn totals(&self, node: &Node, class: &DeviceClass) -> Totals {
        let selectors = class.spec.selectors.as_deref().unwrap_or_default();
        let slices = self.slices.of_node(node.name()).filter(|slice| pool::is_for_node(slice, node));
        let mut totals = Totals::default();
        for device in slices.flat_map(|slice| &slice.devices).filter(|device| pool::is_in_reach(device, node)) {
            match self.selectors.match_all(selectors, device, &String::new) {
                Ok(true) => {
                    totals.devices += 1;
                    totals.allocated += i64::from(self.allocated.is_allocated(&device.id));
                }
                Ok(false) => {}
                Err(_) => return Totals::default(),
            }
        }
        totals
    }
}
