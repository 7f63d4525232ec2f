//! `Points`, a plugin with the extension points that it implements.
//!
//! Corresponds to the type assertions of pkg/scheduler/framework/runtime.

use crate::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, Plugin, PodGroupPostFilter, PostBind, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score, Sign,
};
use std::sync::Arc;

/// ```text
/// Points::of(&plugin).filter(&plugin).score(&plugin)
/// ```
#[derive(Clone)]
pub struct Points {
    pub plugin: Arc<dyn Plugin>,
    pub pre_enqueue: Option<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Option<Arc<dyn PreFilter>>,
    pub filter: Option<Arc<dyn Filter>>,
    pub post_filter: Option<Arc<dyn PostFilter>>,
    pub pre_score: Option<Arc<dyn PreScore>>,
    pub score: Option<Arc<dyn Score>>,
    /// True if Score reads what PreScore has left. Then the plugin runs at PreScore wherever it scores.
    pub scores_after_pre_score: bool,
    pub reserve: Option<Arc<dyn Reserve>>,
    pub permit: Option<Arc<dyn Permit>>,
    pub pre_bind: Option<Arc<dyn PreBind>>,
    pub bind: Option<Arc<dyn Bind>>,
    pub post_bind: Option<Arc<dyn PostBind>>,
    pub sign: Option<Arc<dyn Sign>>,
    pub pod_group_post_filter: Option<Arc<dyn PodGroupPostFilter>>,
    pub placement_generate: Option<Arc<dyn PlacementGenerate>>,
    pub placement_score: Option<Arc<dyn PlacementScore>>,
}

impl Points {
    /// Returns a plugin that runs at no extension point yet.
    pub fn of<P: Plugin + 'static>(plugin: &Arc<P>) -> Self {
        Self {
            plugin: plugin.clone(),
            pre_enqueue: None,
            queue_sort: None,
            pre_filter: None,
            filter: None,
            post_filter: None,
            pre_score: None,
            score: None,
            scores_after_pre_score: false,
            reserve: None,
            permit: None,
            pre_bind: None,
            bind: None,
            post_bind: None,
            sign: None,
            pod_group_post_filter: None,
            placement_generate: None,
            placement_score: None,
        }
    }

    pub fn pre_enqueue<P: PreEnqueue + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { pre_enqueue: Some(plugin.clone()), ..self }
    }

    pub fn queue_sort<P: QueueSort + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { queue_sort: Some(plugin.clone()), ..self }
    }

    pub fn pre_filter<P: PreFilter + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { pre_filter: Some(plugin.clone()), ..self }
    }

    pub fn filter<P: Filter + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { filter: Some(plugin.clone()), ..self }
    }

    pub fn post_filter<P: PostFilter + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { post_filter: Some(plugin.clone()), ..self }
    }

    pub fn pre_score<P: PreScore + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { pre_score: Some(plugin.clone()), ..self }
    }

    /// Scores by what PreScore leaves, also in a profile that names the plugin at Score alone.
    pub fn score_after_pre_score<P: PreScore + Score + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { scores_after_pre_score: true, ..self.pre_score(plugin).score(plugin) }
    }

    pub fn score<P: Score + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { score: Some(plugin.clone()), ..self }
    }

    pub fn reserve<P: Reserve + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { reserve: Some(plugin.clone()), ..self }
    }

    pub fn permit<P: Permit + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { permit: Some(plugin.clone()), ..self }
    }

    pub fn pre_bind<P: PreBind + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { pre_bind: Some(plugin.clone()), ..self }
    }

    pub fn bind<P: Bind + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { bind: Some(plugin.clone()), ..self }
    }

    pub fn post_bind<P: PostBind + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { post_bind: Some(plugin.clone()), ..self }
    }

    pub fn sign<P: Sign + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { sign: Some(plugin.clone()), ..self }
    }

    pub fn pod_group_post_filter<P: PodGroupPostFilter + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { pod_group_post_filter: Some(plugin.clone()), ..self }
    }

    pub fn placement_generate<P: PlacementGenerate + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { placement_generate: Some(plugin.clone()), ..self }
    }

    pub fn placement_score<P: PlacementScore + 'static>(self, plugin: &Arc<P>) -> Self {
        Self { placement_score: Some(plugin.clone()), ..self }
    }
}
