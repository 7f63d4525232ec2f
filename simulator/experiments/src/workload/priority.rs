//! The priorities that pods of a study can have: those of the classes that users may make, and of the system's two.

/// Highest value of a class that users make.
const MAX_OF_USERS: i32 = 1_000_000_000;
/// The classes that every cluster has, with their values.
pub const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Says what is wrong with a priority: no class can have it.
pub fn check(priority: i32) -> Result<(), String> {
    match priority <= MAX_OF_USERS || SYSTEM_PRIORITIES.iter().any(|(_, of_system)| *of_system == priority) {
        true => Ok(()),
        false => Err(format!(
            "must be at most {MAX_OF_USERS}, or the {} of a system class",
            SYSTEM_PRIORITIES.map(|(_, of_system)| of_system.to_string()).join(" or ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_it() {
        for (priority, expected) in [
            (0, true),
            (-5, true),
            (1_000_000_000, true),
            (1_000_000_001, false),
            (2_000_000_000, true),
            (2_000_001_000, true),
            (i32::MAX, false),
        ] {
            assert_eq!(check(priority).is_ok(), expected, "{priority}");
        }
    }
}
