//! `NodeTable`: what an agent observes of the nodes. From one decision to the next few nodes change, and only their rows are
//! computed again.

use super::layout::{Layout, NodeState};

/// The rows of all nodes. `N` is a shared node: one that has changed is another one.
#[derive(Debug)]
pub struct NodeTable<N> {
    /// The nodes of the table, each with its row; without one if the layout does not have the node.
    shown: Vec<(N, Option<usize>)>,
    cells: Vec<f32>,
}

impl<N> Default for NodeTable<N> {
    fn default() -> Self {
        Self { shown: Vec::new(), cells: Vec::new() }
    }
}

impl<N: Clone> NodeTable<N> {
    /// Shows these nodes. `is_same` tells whether a node has not changed.
    pub fn show(
        &mut self,
        layout: &Layout,
        nodes: &[N],
        is_same: impl Fn(&N, &N) -> bool,
        state: impl for<'n> Fn(&'n N) -> NodeState<'n>,
    ) {
        let is_in_place =
            |(old, _): &(N, Option<usize>), new: &N| is_same(old, new) || state(old).name == state(new).name;
        let size = layout.nodes().len() * layout.width();
        let is_in_order = self.cells.len() == size
            && self.shown.len() == nodes.len()
            && self.shown.iter().zip(nodes).all(|(shown, node)| is_in_place(shown, node));
        if !is_in_order {
            self.cells = vec![0.0; size];
            self.shown = nodes.iter().map(|node| (node.clone(), layout.row_of(state(node).name))).collect();
        }
        for ((shown, row), node) in self.shown.iter_mut().zip(nodes) {
            if is_in_order && is_same(shown, node) {
                continue;
            }
            shown.clone_from(node);
            if let Some(row) = *row {
                let width = layout.width();
                layout.fill(&mut self.cells[row * width..(row + 1) * width], state(node));
            }
        }
    }

    /// Returns the rows one after another.
    pub fn cells(&self) -> &[f32] {
        &self.cells
    }

    /// Returns the row of a node by its place among those that are shown.
    pub fn row(&self, place: usize) -> Option<usize> {
        self.shown.get(place)?.1
    }
}
