//! `Diagnosis`, the rejections of a pod by all nodes, and `FitError`, the message that summarizes them.
//!
//! Corresponds to framework.Diagnosis and framework.FitError.

use crate::{Rejection, Rejections};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    pub rejections: Rejections,
    /// Rejection of every node that is not listed.
    pub others: Option<Rejection>,
    /// Plugins that rejected the pod. Only events that may change their decision cause a retry.
    pub plugins: BTreeSet<&'static str>,
    /// Message of a PreFilter plugin that rejected the pod for all nodes.
    pub pre_filter_message: String,
}

impl Diagnosis {
    /// Returns the diagnosis of a pod that a PreFilter plugin has rejected for all nodes.
    pub fn before_filters(rejection: Rejection) -> Self {
        let pre_filter_message = rejection.reasons.join(", ");
        Self { plugins: [rejection.plugin].into(), others: Some(rejection), pre_filter_message, ..Self::default() }
    }

    /// Returns the rejection of a node by its number in the snapshot, if there is one.
    pub fn of(&self, node: usize) -> Option<&Rejection> {
        self.rejections.of(node).or(self.others.as_ref())
    }

    /// Returns the numbers of the nodes on which the removal of other pods may help, of a snapshot of this size.
    pub fn resolvable(&self, nodes: usize) -> Vec<usize> {
        let may_help = |rejection: &Rejection| rejection.resolvable;
        if !self.others.as_ref().is_some_and(may_help) && !self.rejections.counts().any(|(reason, _)| may_help(reason))
        {
            return Vec::new();
        }
        let by_number = self.rejections.by_number(nodes).into_iter().enumerate();
        by_number.filter(|(_, own)| own.or(self.others.as_ref()).is_some_and(may_help)).map(|(node, _)| node).collect()
    }
}

/// An error that ends a cycle without a node.
#[derive(Clone, Debug)]
pub enum FitError {
    /// A plugin has failed. The pod backs off, and no event is awaited.
    Failed(String),
    /// The cluster has no nodes.
    NoNodes,
    NoFit {
        all_nodes: usize,
        diagnosis: Box<Diagnosis>,
        /// Message of the PostFilter plugins, as a separate sentence.
        post_filter_message: String,
    },
}

impl FitError {
    pub fn no_fit(all_nodes: usize, diagnosis: Diagnosis) -> Self {
        FitError::NoFit { all_nodes, diagnosis: Box::new(diagnosis), post_filter_message: String::new() }
    }

    /// Returns the error of a Reserve or Permit plugin that rejected the chosen node.
    pub fn rejected_on_chosen(rejection: Rejection) -> Self {
        let plugins = [rejection.plugin].into();
        Self::no_fit(1, Diagnosis { others: Some(rejection), plugins, ..Diagnosis::default() })
    }

    /// Replaces the message of the PostFilter plugins.
    pub fn set_post_filter_message(&mut self, message: &str) {
        if let FitError::NoFit { post_filter_message, .. } = self {
            message.clone_into(post_filter_message);
        }
    }

    pub fn plugins(&self) -> BTreeSet<&'static str> {
        match self {
            FitError::NoNodes | FitError::Failed(_) => BTreeSet::new(),
            FitError::NoFit { diagnosis, .. } => diagnosis.plugins.clone(),
        }
    }
}

impl std::error::Error for FitError {}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all_nodes, diagnosis, post_filter_message) = match self {
            FitError::Failed(message) => return f.write_str(message),
            FitError::NoNodes => return f.write_str("no nodes available to schedule pods"),
            FitError::NoFit { all_nodes, diagnosis, post_filter_message } => {
                (all_nodes, diagnosis, post_filter_message)
            }
        };
        write!(f, "0/{all_nodes} nodes are available:")?;
        if diagnosis.pre_filter_message.is_empty() {
            let mut histogram = Histogram::default();
            diagnosis.rejections.counts().for_each(|(rejection, nodes)| histogram.add(rejection, nodes));
            if let (Some(others), Some(rest)) = (&diagnosis.others, all_nodes.checked_sub(diagnosis.rejections.len())) {
                histogram.add(others, rest);
            }
            let listed = histogram.to_string();
            if !listed.is_empty() {
                write!(f, " {listed}.")?;
            }
        } else {
            write!(f, " {}.", diagnosis.pre_filter_message)?;
        }
        if !post_filter_message.is_empty() {
            write!(f, " {post_filter_message}")?;
        }
        Ok(())
    }
}

/// The number of nodes with each reason: `1 Insufficient cpu, 2 node(s) were unschedulable`.
#[derive(Debug, Default)]
pub struct Histogram(BTreeMap<Cow<'static, str>, usize>);

impl Histogram {
    pub fn add(&mut self, rejection: &Rejection, nodes: usize) {
        for reason in &rejection.reasons {
            self.add_reason(reason.clone(), nodes);
        }
    }

    pub fn add_reason(&mut self, reason: impl Into<Cow<'static, str>>, nodes: usize) {
        if nodes > 0 {
            *self.0.entry(reason.into()).or_insert(0) += nodes;
        }
    }
}

/// Sorted as text, including the numbers.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut listed: Vec<String> = self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        listed.sort();
        f.write_str(&listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_counts_reasons() {
        let taint = Rejection::unresolvable("TaintToleration", "node(s) had untolerated taint(s)");
        let cpu = |more: &'static str| Rejection {
            plugin: "NodeResourcesFit",
            resolvable: true,
            reasons: vec!["Insufficient cpu".into(), more.into()],
        };
        let mut rejections = Rejections::default();
        let reasons = [taint, cpu("Insufficient memory"), cpu("Too many pods")];
        reasons.into_iter().enumerate().for_each(|(node, reason)| rejections.set(node, reason));
        let diagnosis = Diagnosis {
            rejections,
            others: Some(Rejection::unresolvable("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]")),
            ..Diagnosis::default()
        };
        let error = FitError::NoFit {
            all_nodes: 5,
            diagnosis: Box::new(diagnosis),
            post_filter_message: "preemption: so so.".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), \
             2 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: so so."
        );
        let diagnosis = Diagnosis { pre_filter_message: "a claim is missing".to_owned(), ..Diagnosis::default() };
        let error =
            FitError::NoFit { all_nodes: 3, diagnosis: Box::new(diagnosis), post_filter_message: String::new() };
        assert_eq!(error.to_string(), "0/3 nodes are available: a claim is missing.");
        assert_eq!(FitError::NoNodes.to_string(), "no nodes available to schedule pods");
    }
}
