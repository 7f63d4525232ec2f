//! `step` agrees with the reference for one container.

use super::*;
use crate::testing::reference::{DrawnContainer, END_MS, Timeline, line, push, reference};
use component_base::rng::Random;

/// Returns the timeline of the pod, stepped only when a step is due.
fn stepped(container: &DrawnContainer) -> (Timeline, String) {
    let (spec, story) = container.pod();
    let mut life = Life::of(spec, story);
    life.images.insert("a".to_owned());
    let mut timeline = Timeline::new();
    let deleted_at = at(container.deleted_ms);
    loop {
        if life.now >= deleted_at && !life.pod.is_deleting() {
            life = life.delete(container.grace_s);
        }
        let wake_at = life.step();
        let now_ms = life.now.as_millisecond() - START_S * 1000;
        let status = &life.status.container_statuses.as_ref().unwrap()[0];
        push(&mut timeline, now_ms, line(status));
        let deletion = (!life.pod.is_deleting()).then_some(deleted_at);
        match [wake_at, deletion].into_iter().flatten().min().filter(|next| *next <= at(END_MS)) {
            Some(next) => life.now = next,
            None => return (timeline, life.log),
        }
    }
}

#[test]
fn a_container_lives_as_a_plain_loop_says() {
    let latency = Latency::default();
    let first_start_ms = i64::try_from((latency.sandbox + latency.container_start).as_millis()).unwrap();
    let start_latency_ms = i64::try_from(latency.container_start.as_millis()).unwrap();
    let (mut restarted, mut deleted) = (0, 0);
    for seed in 0..250 {
        let container = DrawnContainer::draw(&Random::from_seed(seed, "reference"));
        let expected = reference(&container, first_start_ms, start_latency_ms);
        let (found, log) = stepped(&container);
        assert_eq!(found, expected, "seed {seed}: {container:?}\n{log}");
        deleted += i32::from(expected.last().is_some_and(|(at_ms, _)| *at_ms > container.deleted_ms));
        restarted += i32::from(expected.iter().any(|(_, line)| line.ends_with("x2")));
    }
    assert!(restarted > 40 && deleted > 40, "{restarted} restart twice, {deleted} are deleted: too few");
}
