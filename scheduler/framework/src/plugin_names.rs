//! `PluginNames`: the names of a few plugins, such as those that a cycle skips.

/// A set of names. It is small and asked often, so it is faster as a list than as a tree.
#[derive(Clone, Debug, Default)]
pub struct PluginNames(Vec<&'static str>);

impl PluginNames {
    pub fn insert(&mut self, name: &'static str) {
        if !self.contains(name) {
            self.0.push(name);
        }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::PluginNames;

    #[test]
    fn a_name_is_there_once() {
        let mut names = PluginNames::default();
        ["NodePorts", "NodeName", "NodePorts"].into_iter().for_each(|name| names.insert(name));
        assert_eq!(names.0, ["NodePorts", "NodeName"]);
        assert_eq!(["NodeName", "NodeAffinity"].map(|name| names.contains(name)), [true, false]);
    }
}
