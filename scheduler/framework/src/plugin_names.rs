//! `PluginNames`: the names of a few plugins, such as those that a cycle skips.

/// A set of names. It is small and asked often, so it is faster as a list than as a tree.
#[derive(Clone, Debug, Default)]
pub struct PluginNames {
    names: Vec<&'static str>,
    /// Lengths of the names, as bits. Most names that are asked for have another length.
    lengths: u64,
}

impl PluginNames {
    pub fn insert(&mut self, name: &'static str) {
        if !self.contains(name) {
            self.names.push(name);
            self.lengths |= length_bit(name);
        }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.lengths & length_bit(name) != 0 && self.names.contains(&name)
    }
}

fn length_bit(name: &str) -> u64 {
    1 << (name.len() % u64::BITS as usize)
}

#[cfg(test)]
mod tests {
    use super::PluginNames;

    #[test]
    fn a_name_is_there_once() {
        let mut names = PluginNames::default();
        ["NodePorts", "NodeName", "NodePorts"].into_iter().for_each(|name| names.insert(name));
        assert_eq!(names.names, ["NodePorts", "NodeName"]);
        assert_eq!(["NodeName", "NodeAffinity", "NodeLast"].map(|name| names.contains(name)), [true, false, false]);
    }
}
