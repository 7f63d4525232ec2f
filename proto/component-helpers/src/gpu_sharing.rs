//! GPU sharing: what a pod needs of the GPUs of one node, which of them it gets, and how fragmented the rest is.
//!
//! GPUs are counted in thousandths of one. Corresponds to the annotations of Alibaba's open-gpu-share, which the trace OpenB
//! uses. Fragmentation is that of FGD ("Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
//! Gradient Descent", USENIX ATC 2023):
//!
//! ```text
//! F(n, m) = all that is left of the GPUs of node n, if n cannot host task m (CPU, GPUs, model), or m wants no GPU;
//!           otherwise what is left of the GPUs that have less than m needs of one
//! F(n)    = sum over the tasks m of popularity(m) · F(n, m)
//! ```

use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;

/// Thousandths of all GPUs of a node, and the annotation with what a pod needs of each of its GPUs.
pub const GPU_MILLI: &str = "alibabacloud.com/gpu-milli";
/// Annotation with the number of a pod's GPUs, and a resource of nodes that have some.
pub const GPU_COUNT: &str = "alibabacloud.com/gpu-count";
/// Annotation with the places of the GPUs that a pod has been given, as `0-3`.
pub const GPU_INDEX: &str = "alibabacloud.com/gpu-index";
/// Label with the model of a node's GPUs, and annotation with the models that a pod accepts, as `V100M16|V100M32`.
pub const GPU_MODEL: &str = "alibabacloud.com/gpu-card-model";

/// Thousandths of a whole GPU.
pub const WHOLE: u32 = 1000;
/// Most GPUs of a node.
pub const MAX_GPUS: u32 = 1024;

/// What a pod needs of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuNeed {
    pub count: u32,
    /// Thousandths of each.
    pub milli: u32,
    /// Models that will do; all if empty.
    pub models: Vec<String>,
}

impl GpuNeed {
    /// Reads the annotations of a pod; `None` if it wants no GPU. The error names the annotation.
    pub fn of(metadata: &ObjectMeta) -> Result<Option<Self>, String> {
        let text = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let number = |key: &str, absent: u32, most: u32| match text(key).map(|text| (text, text.parse::<u32>())) {
            None => Ok(absent),
            Some((_, Ok(number))) if number <= most => Ok(number),
            Some((text, _)) => Err(format!("annotation {key}: {text:?} is no number between 0 and {most}")),
        };
        let milli = number(GPU_MILLI, if text(GPU_COUNT).is_some() { WHOLE } else { 0 }, WHOLE)?;
        let count = number(GPU_COUNT, u32::from(milli > 0), MAX_GPUS)?;
        if count == 0 || milli == 0 {
            return Ok(None);
        }
        let models = text(GPU_MODEL).unwrap_or_default().split('|').filter(|model| !model.is_empty());
        Ok(Some(Self { count, milli, models: models.map(str::to_owned).collect() }))
    }

    pub fn accepts(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|accepted| accepted == model)
    }

    /// Returns the places of the GPUs that have room.
    pub fn fitting(&self, left: &[i64]) -> impl Iterator<Item = usize> {
        let milli = i64::from(self.milli);
        left.iter().enumerate().filter(move |(_, left)| **left >= milli).map(|(place, _)| place)
    }

    /// Returns true if enough GPUs have room. A pod uses each of its GPUs only once.
    pub fn fits(&self, left: &[i64]) -> bool {
        self.fitting(left).count() >= self.count as usize
    }

    /// Returns the places of the GPUs that fit most tightly; `None` if too few have room.
    pub fn tightest(&self, left: &[i64]) -> Option<Vec<usize>> {
        self.first_of(self.by_tightness(left))
    }

    /// Returns the places on which a pod is assumed that nobody has given any: those that fit most tightly, or fewer than it
    /// needs, because a policy that does not know GPUs may have put it where it does not fit.
    pub fn assumed(&self, left: &[i64]) -> Vec<usize> {
        let mut places = self.by_tightness(left);
        places.truncate(self.count as usize);
        places
    }

    fn by_tightness(&self, left: &[i64]) -> Vec<usize> {
        let mut places: Vec<usize> = self.fitting(left).collect();
        places.sort_by_key(|place| (left[*place], *place));
        places
    }

    /// Returns as many of the places as the pod needs, in their order; `None` if there are too few.
    pub fn first_of(&self, mut places: Vec<usize>) -> Option<Vec<usize>> {
        if places.len() < self.count as usize {
            return None;
        }
        places.truncate(self.count as usize);
        places.sort_unstable();
        Some(places)
    }
}

/// Returns the places that a pod has been given; empty without the annotation, or if it is unreadable.
pub fn places(metadata: &ObjectMeta) -> Vec<usize> {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(GPU_INDEX)).map_or("", String::as_str);
    parse_places(text)
}

/// Reads places as the annotation has them.
pub fn parse_places(text: &str) -> Vec<usize> {
    let numbers: Result<Vec<usize>, _> = text.split('-').map(str::parse).collect();
    numbers.unwrap_or_default()
}

/// Writes places as the annotation has them.
pub fn places_text(places: &[usize]) -> String {
    places.iter().map(usize::to_string).collect::<Vec<_>>().join("-")
}

/// A kind of pod of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub milli_cpu: i64,
    /// `None` if the task wants no GPU.
    pub gpus: Option<GpuNeed>,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLeft<'a> {
    pub milli_cpu: i64,
    pub model: &'a str,
    /// Thousandths that are left of each GPU.
    pub gpus: &'a [i64],
}

impl Task {
    /// Returns F(n, m) in thousandths of a GPU.
    pub fn fragment(&self, node: NodeLeft<'_>) -> i64 {
        match &self.gpus {
            Some(need) if self.milli_cpu <= node.milli_cpu && need.accepts(node.model) && need.fits(node.gpus) => {
                node.gpus.iter().filter(|left| **left < i64::from(need.milli)).sum()
            }
            _ => node.gpus.iter().sum(),
        }
    }
}

/// The tasks of a workload with their popularity; the sum of popularities is 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Popularity(Vec<(Task, f64)>);

impl Popularity {
    /// Counts the pods of a workload.
    pub fn of(pods: impl Iterator<Item = Task>) -> Self {
        let mut counts: BTreeMap<Task, u64> = BTreeMap::new();
        for task in pods {
            *counts.entry(task).or_default() += 1;
        }
        Self::weighted(counts.into_iter().map(|(task, count)| (task, count as f64)).collect())
    }

    /// Takes tasks with weights.
    pub fn weighted(mut tasks: Vec<(Task, f64)>) -> Self {
        let total: f64 = tasks.iter().map(|(_, weight)| weight).sum();
        tasks.iter_mut().for_each(|(_, weight)| *weight /= total);
        Self(tasks)
    }

    /// Returns F(n) in thousandths of a GPU.
    pub fn fragment(&self, node: NodeLeft<'_>) -> f64 {
        self.0.iter().map(|(task, popularity)| popularity * task.fragment(node) as f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(count: u32, milli: u32) -> GpuNeed {
        GpuNeed { count, milli, models: Vec::new() }
    }

    fn task(milli_cpu: i64, count: u32, milli: u32) -> Task {
        Task { milli_cpu, gpus: (count > 0).then(|| need(count, milli)) }
    }

    /// A node with 4 free cores, and GPUs with 1000, 400 and 300 thousandths left: 1700 in all.
    const NODE: NodeLeft<'_> = NodeLeft { milli_cpu: 4000, model: "T4", gpus: &[1000, 400, 300] };

    #[test]
    fn fragments_worked_by_hand() {
        assert_eq!(task(2000, 1, 400).fragment(NODE), 300, "fits; the third GPU has too little");
        assert_eq!(task(2000, 1, 1000).fragment(NODE), 700, "fits on the first alone");
        assert_eq!(task(2000, 2, 1000).fragment(NODE), 1700, "wants two whole GPUs");
        assert_eq!(task(8000, 1, 100).fragment(NODE), 1700, "wants more cores");
        assert_eq!(task(1000, 0, 0).fragment(NODE), 1700, "wants no GPU");
        assert_eq!(task(4000, 1, 300).fragment(NODE), 0, "can use all");
        let of_model = |models: &[&str]| {
            let models = models.iter().map(|model| (*model).to_owned()).collect();
            Task { milli_cpu: 0, gpus: Some(GpuNeed { models, ..need(1, 400) }) }.fragment(NODE)
        };
        assert_eq!((of_model(&["V100", "T4"]), of_model(&["V100"])), (300, 1700), "the model must do");
        // Three of four tasks leave 300, one leaves 700.
        let popularity = Popularity::of([400, 400, 1000, 400].into_iter().map(|milli| task(0, 1, milli)));
        assert_eq!(popularity.fragment(NODE), 400.0);
        assert_eq!(Popularity::weighted(vec![(task(0, 1, 400), 6.0), (task(0, 1, 1000), 2.0)]), popularity);
    }

    #[test]
    fn annotations_say_what_a_pod_needs() {
        let read = |pairs: &[(&str, &str)]| {
            let annotations = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            GpuNeed::of(&ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() })
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[(GPU_MILLI, "500")]), Ok(Some(need(1, 500))));
        assert_eq!(read(&[(GPU_COUNT, "2")]), Ok(Some(need(2, 1000))));
        assert_eq!(read(&[(GPU_COUNT, "0"), (GPU_MILLI, "0")]), Ok(None));
        let models = vec!["P100".to_owned(), "T4".to_owned()];
        assert_eq!(read(&[(GPU_COUNT, "1"), (GPU_MODEL, "P100|T4")]), Ok(Some(GpuNeed { models, ..need(1, 1000) })));
        for (pair, why) in [
            ((GPU_MILLI, "1001"), r#"annotation alibabacloud.com/gpu-milli: "1001" is no number between 0 and 1000"#),
            ((GPU_COUNT, "-1"), r#"annotation alibabacloud.com/gpu-count: "-1" is no number between 0 and 1024"#),
        ] {
            assert_eq!(read(&[pair]), Err(why.to_owned()));
        }
    }

    #[test]
    fn the_tightest_gpus_are_chosen() {
        let left = [1000, 400, 300, 400];
        for (need, expected) in [
            (need(1, 350), Some(vec![1])),
            (need(1, 300), Some(vec![2])),
            (need(2, 400), Some(vec![1, 3])),
            (need(3, 400), Some(vec![0, 1, 3])),
            (need(4, 400), None),
        ] {
            assert_eq!((need.tightest(&left), need.fits(&left)), (expected.clone(), expected.is_some()), "{need:?}");
        }
        assert_eq!(need(4, 400).assumed(&left), [1, 3, 0]);
        assert_eq!((parse_places("0-3"), places_text(&[0, 3])), (vec![0, 3], "0-3".to_owned()));
        assert_eq!((parse_places(""), parse_places("0-x")), (vec![], vec![]));
    }
}
