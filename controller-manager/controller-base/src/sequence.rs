//! Applies the actions of a plan one after the other, and hands each answer of the server to the caller.
//!
//! Corresponds to the updates in a row of pkg/controller, each of which goes on from the object in the last answer.

use crate::context::Actor;
use client::{Action, ApplyError, Plan, apply};
use proto::Gvr;
use serde_json::Value;

/// Applies the actions in order. If two actions in a row update one object, the second carries the version of the first one's
/// answer: it fails if anybody else has written in between.
pub async fn apply_in_sequence(
    actor: &Actor,
    actions: &[Action],
    mut answered: impl FnMut(&Action, Result<&Value, &ApplyError>) + Send,
) -> Result<(), ApplyError> {
    let mut last = Value::Null;
    for (done, action) in actions.iter().enumerate() {
        let sent = following(action, actions[..done].last(), &last);
        match apply(&actor.client, &actor.recorder, &Plan::of([sent])).await {
            Ok(answers) => {
                last = answers.into_iter().next().unwrap_or_default();
                answered(action, Ok(&last));
            }
            Err(error) => {
                answered(action, Err(&error));
                return Err(ApplyError { done, ..error });
            }
        }
    }
    Ok(())
}

/// Returns the action with the version in `answer`, the answer to `previous`, if both update the same object.
fn following(action: &Action, previous: Option<&Action>, answer: &Value) -> Action {
    let mut sent = action.clone();
    let is_same = previous.and_then(updated).zip(updated(action)).is_some_and(|(before, now)| before == now);
    if let Action::Update { object, .. } | Action::UpdateStatus { object, .. } = &mut sent
        && is_same
    {
        object["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
    }
    sent
}

/// Returns collection, namespace and name of the object that the action updates.
fn updated(action: &Action) -> Option<(&Gvr, &str, &str)> {
    let (Action::Update { gvr, namespace, object } | Action::UpdateStatus { gvr, namespace, object }) = action else {
        return None;
    };
    Some((gvr, namespace, object["metadata"]["name"].as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use serde_json::json;

    #[test]
    fn a_second_update_of_an_object_goes_on_from_the_answer() {
        let (web, db) = (fixture::pod("web"), fixture::pod("db"));
        let answer = json!({"metadata": {"resourceVersion": "17"}});
        let version = |action: &Action, previous: Option<&Action>| match following(action, previous, &answer) {
            Action::Update { object, .. } | Action::UpdateStatus { object, .. } => {
                object["metadata"]["resourceVersion"].clone()
            }
            other => panic!("{other}"),
        };
        let status = Action::update_status(&web);
        assert_eq!(version(&Action::update(&web), Some(&status)), "17");
        assert_eq!(version(&Action::update(&db), Some(&status)), "1");
        assert_eq!(version(&Action::update(&web), None), "1");
    }
}
