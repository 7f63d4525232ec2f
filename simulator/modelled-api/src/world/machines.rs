//! What becomes of machines: they join and leave, fail and come back, and their pods with them.

use super::{Change, Due, State};
use crate::fleet::Condition;
use crate::pod;
use kubelet_sim::plan::NodePlan;
use proto::Kind;
use std::time::Duration;

/// Requests of a kubelet between the start of a machine and the moment at which the scheduler may use it.
const REQUESTS_TO_JOIN: u32 = 3;
/// The same until the node of a machine that leaves is gone, and until one that is back is ready.
const REQUESTS_TO_LEAVE: u32 = 1;
const REQUESTS_TO_RETURN: u32 = 1;
/// Reason of a pod that is evicted from a node that nobody reaches.
const EVICTED: &str = "DeletionByTaintManager";
/// The same of a pod whose node is gone.
const ORPHANED: &str = "DeletionByPodGC";

impl State {
    pub(super) fn join(&mut self, plans: Vec<NodePlan>) -> Result<(), String> {
        let (elapsed, now) = (self.elapsed(), self.env.wall());
        for plan in plans {
            let name = self.fleet.add(plan, elapsed, now)?;
            self.plan(self.request * REQUESTS_TO_JOIN, Due::Register(name));
        }
        self.plan_failures();
        Ok(())
    }

    pub(super) fn order_to_leave(&mut self, node: &str) {
        self.plan(self.request * REQUESTS_TO_LEAVE, Due::Leave(node.to_owned()));
    }

    pub(super) fn register(&mut self, node: &str) {
        self.show_node(node);
        self.changes.push(Change::Node { name: node.to_owned(), is_ready: true });
    }

    pub(super) fn node_leaves(&mut self, node: &str) {
        let Some(member) = self.fleet.remove(node) else { return };
        self.node_informer.take_away(member.node);
        self.changes.push(Change::Node { name: node.to_owned(), is_ready: false });
        let now = self.env.wall();
        for key in self.on_node.remove(node).unwrap_or_default() {
            self.change(&key, |pod| pod::disrupt(pod, ORPHANED, now));
            self.remove(&key);
        }
    }

    pub(super) fn condition_changed(&mut self, node: String) {
        let Some(member) = self.fleet.members.get(&node) else { return };
        let (condition, changes) = (member.condition, member.changes);
        if condition == Condition::Off {
            self.unreported.remove(&node);
            for key in self.on_node.get(&node).into_iter().flatten() {
                if let Some(held) = self.pods.get_mut(key) {
                    held.is_lost |= held.course.is_some();
                }
            }
        }
        match condition {
            Condition::Healthy => self.plan(self.request * REQUESTS_TO_RETURN, Due::Reached(node, changes)),
            Condition::Off | Condition::CutOff => self.plan(self.node_grace, Due::Unreachable(node, changes)),
        }
    }

    pub(super) fn node_is_lost(&mut self, node: &str, changes: u64) {
        let now = self.env.wall();
        let Some(member) = self.fleet.members.get_mut(node).filter(|member| member.changes == changes) else { return };
        if !member.is_ready() {
            return;
        }
        member.set_reachable(false, now);
        self.show_node(node);
        self.changes.push(Change::Node { name: node.to_owned(), is_ready: false });
        for key in self.on_node.get(node).cloned().unwrap_or_default() {
            let Some(held) = self.pods.get(&key) else { continue };
            let number = held.number;
            if let Some(after_s) = pod::tolerates_s(&held.pod) {
                self.plan(Duration::from_secs(after_s.unsigned_abs()), Due::Evict(key, number));
            }
        }
    }

    pub(super) fn evict(&mut self, key: &str, number: u64) {
        let is_there = self.pods.get(key).is_some_and(|held| held.number == number && !held.pod.is_deleting());
        let node = self.pods.get(key).map(|held| pod::node_name(&held.pod).to_owned()).unwrap_or_default();
        if !is_there || self.fleet.members.get(&node).is_some_and(|member| member.is_ready()) {
            return;
        }
        let now = self.env.wall();
        self.change(key, |pod| pod::disrupt(pod, EVICTED, now));
        self.change(key, |pod| pod::delete(pod, now));
    }

    pub(super) fn node_is_back(&mut self, node: &str, changes: u64) {
        let now = self.env.wall();
        let Some(member) = self.fleet.members.get_mut(node).filter(|member| member.changes == changes) else { return };
        if !member.is_ready() {
            member.set_reachable(true, now);
            self.show_node(node);
            self.changes.push(Change::Node { name: node.to_owned(), is_ready: true });
        }
        for key in self.on_node.get(node).cloned().unwrap_or_default() {
            let Some(held) = self.pods.get_mut(&key) else { continue };
            let (number, was_lost) = (held.number, std::mem::take(&mut held.is_lost));
            match () {
                () if held.pod.is_deleting() => self.stop(&key, node, number),
                () if was_lost => {
                    self.change(&key, |pod| pod::end(pod, false));
                    self.forget(&key);
                }
                () if held.course.is_none() => self.begin(&key),
                () => {}
            }
        }
        for due in self.unreported.remove(node).unwrap_or_default() {
            self.kubelet_reports(due);
        }
    }
}
