//! The stories: short, of one kind of object each, and told in steps.
//!
//! A story creates, changes and deletes a few objects, and waits for the result of each step. Whatever fails meanwhile, each
//! step is completed, the cluster comes to rest, and no invariant is violated.

/// The names and the texts of the stories. Those of the cashier are demonstrations, two of which end badly.
pub const STORIES: [(&str, &str); 11] = [
    ("deployment", include_str!("stories/deployment.yaml")),
    ("stateful-set", include_str!("stories/stateful-set.yaml")),
    ("daemon-set", include_str!("stories/daemon-set.yaml")),
    ("job", include_str!("stories/job.yaml")),
    ("claim", include_str!("stories/claim.yaml")),
    ("autoscaler", include_str!("stories/autoscaler.yaml")),
    ("namespace", include_str!("stories/namespace.yaml")),
    ("gang", include_str!("stories/gang.yaml")),
    ("cashier", include_str!("stories/cashier.yaml")),
    ("cashier-pays-again", include_str!("stories/cashier-pays-again.yaml")),
    ("cashier-rejects", include_str!("stories/cashier-rejects.yaml")),
];

/// Returns the text of the story of a name.
pub fn text(name: &str) -> Option<&'static str> {
    STORIES.iter().find(|(story, _)| *story == name).map(|(_, text)| *text)
}
