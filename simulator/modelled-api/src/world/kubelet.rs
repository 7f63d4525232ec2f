//! What kubelets do with the pods of their nodes, and when they report it.

use super::{Due, State};
use crate::fleet::Condition;
use crate::life::Course;
use crate::pod;
use proto::Kind;
use std::time::Duration;

/// Requests of a kubelet that reports something.
const REPORT: u32 = 1;

impl State {
    /// Lets the node of a bound pod begin with it, if it can.
    pub(super) fn begin(&mut self, key: &str) {
        let now = self.env.wall();
        let Some(held) = self.pods.get(key) else { return };
        let Some(member) = self.fleet.members.get(pod::node_name(&held.pod)) else { return };
        if member.condition == Condition::Healthy {
            let number = held.number;
            let requests = self.read.read(&held.pod, now, self.request);
            self.plan(self.request * requests, Due::Sync(key.to_owned(), number));
        }
    }

    pub(super) fn sync(&mut self, key: &str, number: u64) {
        let now = self.env.wall();
        let Some(held) = self.pods.get_mut(key) else { return };
        let Some(member) = self.fleet.members.get(pod::node_name(&held.pod)) else { return };
        let is_late = held.number != number || held.course.is_some() || held.pod.is_deleting();
        if is_late || member.condition != Condition::Healthy {
            return;
        }
        let course = Course::of(&held.pod, member.latency(), now);
        let sandbox = course.sandbox;
        held.course = Some(course);
        self.plan(self.request * REPORT, Due::Admit(key.to_owned(), number));
        self.plan(sandbox, Due::Container(key.to_owned(), number, 0));
    }

    /// Starts a container, or reports that all run. A kubelet that nobody reaches goes on.
    pub(super) fn start_container(&mut self, key: &str, number: u64, index: usize) {
        let now = self.env.wall();
        let Some(held) = self.pods.get(key).filter(|held| held.number == number && !held.is_lost) else { return };
        let Some(member) = self.fleet.members.get_mut(pod::node_name(&held.pod)) else { return };
        let Some(course) = held.course.as_ref().filter(|_| !held.pod.is_deleting()) else { return };
        let after = |since, then| Duration::try_from(then - since).unwrap_or_default();
        let Some(start) = course.containers.get(index) else {
            // What happens during the first report is reported after it.
            let waits = match now == course.began {
                true => Duration::ZERO,
                false => after(now, course.began + self.request * REPORT),
            };
            return self.plan(waits + self.request * REPORT, Due::Start(key.to_owned(), number));
        };
        let started_at = member.start(held.pod.uid(), start, now);
        let next = after(now, started_at) + start.holds_for;
        self.plan(next, Due::Container(key.to_owned(), number, index + 1));
    }

    /// Lets the node of a pod that is deleted stop it, if it can.
    pub(super) fn stop(&mut self, key: &str, node: &str, number: u64) {
        let now = self.env.wall();
        let (Some(held), Some(member)) = (self.pods.get(key), self.fleet.members.get(node)) else { return };
        if member.condition != Condition::Healthy {
            return;
        }
        let report = self.request * REPORT;
        let stops_at = pod::stops_at(&held.pod, member.latency().stop, now);
        let waits = Duration::try_from(stops_at - now).unwrap_or_default();
        // A pod that takes time is first reported as one that is to stop.
        let waits = if waits.is_zero() { waits } else { waits.max(report) };
        self.plan(waits + report, Due::Stop(key.to_owned(), number));
    }

    pub(super) fn kubelet_reports(&mut self, due: Due) {
        let (Due::Admit(key, number)
        | Due::Start(key, number)
        | Due::End(key, number)
        | Due::Stop(key, number)
        | Due::Remove(key, number)) = &due
        else {
            return;
        };
        let (key, number) = (key.clone(), *number);
        let Some(held) = self.pods.get(&key).filter(|held| held.number == number && !held.is_lost) else { return };
        let node = pod::node_name(&held.pod);
        match self.fleet.members.get(node).map(|member| member.condition) {
            Some(Condition::Healthy) => {}
            Some(Condition::CutOff) => return self.unreported.entry(node.to_owned()).or_default().push(due),
            _ => return,
        }
        let (is_deleting, now) = (held.pod.is_deleting(), self.env.wall());
        let course = held.course.clone();
        match due {
            Due::Admit(..) if !is_deleting => self.change(&key, |pod| pod::admit(pod, now)),
            Due::Start(..) if !is_deleting => {
                self.change(&key, |pod| pod::start(pod, now));
                if let Some(runs_for) = course.and_then(|course| course.runs_for) {
                    self.plan(runs_for, Due::End(key, number));
                }
            }
            Due::End(..) if !is_deleting => {
                self.change(&key, |pod| pod::end(pod, course.is_none_or(|course| course.succeeds)));
                // The owner has seen it, and the scheduler needs it no more.
                self.forget(&key);
            }
            Due::Stop(..) => {
                self.change(&key, |pod| pod::end(pod, false));
                self.plan(self.request * REPORT, Due::Remove(key, number));
            }
            Due::Remove(..) => self.remove(&key),
            _ => {}
        }
    }
}
