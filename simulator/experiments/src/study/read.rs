//! Reads a study, and reports every mistake at once.

use crate::amounts::CPU;
use crate::metric_names::NAMES;
use crate::problem::Problem;
use crate::study::external::MAX_SPEED;
use crate::study::{
    API_VERSION, AutoscaledGroup, Deployment, Depth, Distribution, External, Generate, KIND, PodGpus, Span, Study,
    schema,
};
use crate::table::TIME_UNITS;
use proto::meta::names;
use proto::serializer::yaml;
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads the text of a study. Reads no file that it names; `sources` does.
pub fn read(text: &str) -> Result<Study, Vec<Problem>> {
    let draft = Draft::read(text);
    match draft.study {
        Some(study) if draft.form.is_empty() && draft.rules.is_empty() => Ok(study),
        _ => Err([draft.form, draft.rules].concat()),
    }
}

/// A study as far as it can be read. Something stands where a field has the wrong form, so that the rest can be checked too.
#[derive(Clone, Debug)]
pub struct Draft {
    /// `None` if the text is no document.
    pub study: Option<Study>,
    /// What has the wrong form.
    pub form: Vec<Problem>,
    /// What breaks a rule.
    pub rules: Vec<Problem>,
}

impl Draft {
    pub fn read(text: &str) -> Self {
        let none = |why: String| Self { study: None, form: vec![Problem::new("", why)], rules: Vec::new() };
        let mut parsed = match yaml::parse(text.as_bytes()) {
            Ok(parsed) => parsed,
            Err(why) => return none(why),
        };
        let duplicates = parsed.duplicates.iter().map(|path| Problem::new("", format!("duplicate field {path:?}")));
        let mut form: Vec<Problem> = duplicates.collect();
        form.extend(schema::mend(&mut parsed.value, &schema::schema()));
        let study: Study = match serde_json::from_value(parsed.value) {
            Ok(study) => study,
            Err(_) if !form.is_empty() => return Self { study: None, form, rules: Vec::new() },
            Err(error) => return none(error.to_string()),
        };
        let mut check = Check::default();
        check.study(&study);
        let mut rules = check.problems;
        rules.retain(|rule| !form.iter().any(|problem| problem.concerns(&rule.place)));
        Self { study: Some(study), form, rules }
    }

    /// Returns everything that is known to be wrong.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.form.iter().chain(&self.rules)
    }
}

/// The rules that a schema cannot say.
#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    fn study(&mut self, study: &Study) {
        if study.api_version != API_VERSION {
            self.report("apiVersion", format!("must be {API_VERSION}"));
        }
        if study.kind != KIND {
            self.report("kind", format!("must be {KIND}"));
        }
        self.name("name", &study.name);
        self.names("clusters", study.clusters.iter().map(|cluster| &cluster.name), true);
        self.names("workloads", study.workloads.iter().map(|workload| &workload.name), true);
        self.names("policies", study.policies.iter().map(|policy| &policy.name), true);
        self.names("faults", study.faults.iter().map(|faults| &faults.name), false);
        if study.sample_every.as_ref().is_some_and(|span| span.duration.is_zero()) {
            self.report("sampleEvery", "must be greater than zero");
        }
        for (index, metric) in study.metrics.iter().enumerate() {
            self.metric(format!("metrics[{index}]"), metric);
        }
        for (index, part) in study.reward.iter().enumerate() {
            let path = format!("reward[{index}]");
            self.one_of(&path, &[("term", part.term.is_some()), ("metric", part.metric.is_some())]);
            if let Some(metric) = &part.metric {
                self.metric(format!("{path}.metric"), metric);
            }
        }
        self.clusters(study);
        self.workloads(study);
        for (index, policy) in study.policies.iter().enumerate() {
            let path = format!("policies[{index}]");
            let firsts = [policy.configuration.is_some(), policy.file.is_some(), policy.external.is_some()];
            if firsts.iter().filter(|is_set| **is_set).count() > 1 {
                self.report(path.as_str(), "must have at most one of configuration, file and external");
            }
            if let Some(external) = &policy.external {
                self.external(&format!("{path}.external"), study.depth, external);
            }
            let kind = policy.configuration.as_ref().map(|configuration| &configuration["kind"]);
            let first = kind.map(|kind| (format!("{path}.configuration"), kind));
            let further = policy.schedulers.iter().enumerate();
            let further = further.map(|(at, document)| (format!("{path}.schedulers[{at}]"), &document["kind"]));
            for (path, kind) in first.into_iter().chain(further) {
                if kind != "KubeSchedulerConfiguration" {
                    self.report(format!("{path}.kind"), "must be KubeSchedulerConfiguration");
                }
            }
        }
    }

    fn external(&mut self, path: &str, depth: Depth, external: &External) {
        if depth == Depth::Scheduler {
            self.report(path, "depth `scheduler` has no API server that it could ask; it needs depth `full`");
        }
        if external.command.first().is_some_and(String::is_empty) {
            self.report(format!("{path}.command[0]"), "must name a program");
        }
        for why in names::dns1123_subdomain(external.scheduler_name()) {
            self.report(format!("{path}.schedulerName"), why);
        }
        if !(external.speed() > 0.0 && external.speed() <= MAX_SPEED) {
            self.report(format!("{path}.speed"), format!("must be greater than zero, and at most {MAX_SPEED}"));
        }
    }

    fn clusters(&mut self, study: &Study) {
        for (index, cluster) in study.clusters.iter().enumerate() {
            let path = format!("clusters[{index}]");
            let fixed = [
                ("nodes", !cluster.nodes.is_empty()),
                ("openbNodes", cluster.openb_nodes.is_some()),
                ("kubectlNodes", cluster.kubectl_nodes.is_some()),
            ];
            if cluster.node_groups.is_empty() || fixed.iter().any(|(_, is_set)| *is_set) {
                self.one_of(&path, &fixed);
            }
            self.names(&format!("{path}.nodes"), cluster.nodes.iter().map(|group| &group.name), false);
            for (index, group) in cluster.node_groups.iter().enumerate() {
                self.autoscaled(&format!("{path}.nodeGroups[{index}]"), group);
            }
            let fixed = cluster.nodes.iter().enumerate().map(|(at, group)| (format!("{path}.nodes[{at}]"), group));
            let scaled = cluster.node_groups.iter().enumerate();
            let scaled = scaled.map(|(at, group)| (format!("{path}.nodeGroups[{at}].template"), &group.template));
            for (path, group) in fixed.chain(scaled) {
                for (index, taint) in group.taints.iter().enumerate() {
                    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&taint.effect.as_str()) {
                        let message = "must be NoSchedule, PreferNoSchedule or NoExecute";
                        self.report(format!("{path}.taints[{index}].effect"), message);
                    }
                }
                for (key, value) in &group.labels {
                    for why in names::label_key(key).into_iter().chain(names::label_value(value)) {
                        self.report(format!("{path}.labels.{key}"), why);
                    }
                }
                for (resource, reserved) in &group.reserved {
                    let is_more = group
                        .capacity
                        .get(resource)
                        .is_none_or(|capacity| reserved.quantity.as_f64() > capacity.quantity.as_f64());
                    if is_more {
                        self.report(format!("{path}.reserved.{resource}"), "must not be greater than the capacity");
                    }
                }
                self.not_negative(format!("{path}.pricePerHour"), group.price_per_hour);
            }
        }
    }

    fn autoscaled(&mut self, path: &str, group: &AutoscaledGroup) {
        self.name(&format!("{path}.template.name"), &group.template.name);
        if group.template.count.is_some() {
            self.report(format!("{path}.template.count"), "must not be set, because min and max say it");
        }
        if group.max == 0 {
            self.report(format!("{path}.max"), "must be greater than zero");
        } else if group.min.unwrap_or_default() > group.max {
            self.report(format!("{path}.min"), "must not be greater than max");
        }
    }

    fn workloads(&mut self, study: &Study) {
        for (index, workload) in study.workloads.iter().enumerate() {
            let path = format!("workloads[{index}]");
            let sources = [
                ("generate", workload.generate.is_some()),
                ("openbPods", workload.openb_pods.is_some()),
                ("csv", workload.csv.is_some()),
                ("kubectlPods", workload.kubectl_pods.is_some()),
            ];
            if workload.deployments.is_empty() || sources.iter().any(|(_, is_set)| *is_set) {
                self.one_of(&path, &sources);
            }
            if !workload.deployments.is_empty() && study.until.is_none() {
                self.report("until", format!("Required value: the Deployments of {path} have no end"));
            }
            let names = workload.deployments.iter().map(|deployment| &deployment.name);
            self.names(&format!("{path}.deployments"), names, false);
            for (index, deployment) in workload.deployments.iter().enumerate() {
                self.deployment(&format!("{path}.deployments[{index}]"), deployment);
            }
            self.positive(format!("{path}.arrivalScale"), workload.arrival_scale);
            self.positive(format!("{path}.durationScale"), workload.duration_scale);
            if let (Some(from), Some(until)) = (&workload.from, &workload.until)
                && from.duration >= until.duration
            {
                self.report(format!("{path}.until"), "must be after from");
            }
            if let Some(generate) = &workload.generate {
                self.generate(&format!("{path}.generate"), generate);
            }
            let Some(csv) = &workload.csv else { continue };
            if csv.columns.duration.is_none() == csv.columns.end.is_none() {
                self.report(format!("{path}.csv.columns"), "must have exactly one of duration and end");
            }
            self.time_unit(format!("{path}.csv.timeUnit"), csv.time_unit.as_deref());
        }
    }

    fn generate(&mut self, path: &str, generate: &Generate) {
        let arrivals = &generate.arrivals;
        self.one_of(
            &format!("{path}.arrivals"),
            &[
                ("poisson", arrivals.poisson.is_some()),
                ("mmpp", arrivals.mmpp.is_some()),
                ("diurnal", arrivals.diurnal.is_some()),
                ("waves", arrivals.waves.is_some()),
            ],
        );
        if let Some(mmpp) = &arrivals.mmpp {
            if mmpp.phases.is_empty() {
                self.report(format!("{path}.arrivals.mmpp.phases"), "Required value");
            }
            for (index, phase) in mmpp.phases.iter().enumerate() {
                if phase.mean.duration.is_zero() {
                    self.report(format!("{path}.arrivals.mmpp.phases[{index}].mean"), "must be greater than zero");
                }
            }
        }
        if let Some(diurnal) = &arrivals.diurnal {
            self.wave(&format!("{path}.arrivals.diurnal"), diurnal.swing, diurnal.period.as_ref());
        }
        if arrivals.waves.as_ref().is_some_and(|waves| waves.size == 0) {
            self.report(format!("{path}.arrivals.waves.size"), "must be greater than zero");
        }
        if generate.count == 0 {
            self.report(format!("{path}.count"), "must be greater than zero");
        }
        self.names(&format!("{path}.sizes"), generate.sizes.iter().map(|size| &size.name), true);
        for (index, size) in generate.sizes.iter().enumerate() {
            let path = format!("{path}.sizes[{index}]");
            self.positive(format!("{path}.weight"), size.weight);
            self.distribution(&format!("{path}.duration"), &size.duration);
            if size.gang == Some(0) {
                self.report(format!("{path}.gang"), "must be greater than zero");
            }
            self.gpus(&path, size.gpus.as_ref());
            self.is_object(format!("{path}.spec"), size.spec.as_ref());
        }
    }

    fn deployment(&mut self, path: &str, deployment: &Deployment) {
        self.gpus(path, deployment.gpus.as_ref());
        self.is_object(format!("{path}.spec"), deployment.spec.as_ref());
        if let Some(autoscaler) = &deployment.autoscaler {
            let path = format!("{path}.autoscaler");
            let requested = deployment.requests.get(CPU).map(|cpu| cpu.quantity.signum());
            if requested != Some(1) {
                let message = "needs requests.cpu, because it compares the usage with it";
                self.report(path.as_str(), message);
            }
            let min = autoscaler.min.unwrap_or(1);
            for (field, number) in
                [("min", min), ("max", autoscaler.max), ("cpuUtilization", autoscaler.cpu_utilization)]
            {
                if number == 0 {
                    self.report(format!("{path}.{field}"), "must be greater than zero");
                }
            }
            if min > autoscaler.max && autoscaler.max > 0 {
                self.report(format!("{path}.min"), "must not be greater than max");
            }
            self.is_object(format!("{path}.behavior"), autoscaler.behavior.as_ref());
        }
        let (path, load) = (format!("{path}.load"), &deployment.load);
        let csv = load.csv.as_ref();
        let sources = [("steps", !load.steps.is_empty()), ("diurnal", load.diurnal.is_some()), ("csv", csv.is_some())];
        self.one_of(&path, &sources);
        self.time_unit(format!("{path}.csv.timeUnit"), csv.and_then(|csv| csv.time_unit.as_deref()));
        let times = load.steps.iter().map(|step| step.at.duration);
        for (index, _) in times.clone().zip(times.skip(1)).enumerate().filter(|(_, (one, next))| one >= next) {
            self.report(format!("{path}.steps[{}].at", index + 1), "must be after the step before");
        }
        if let Some(diurnal) = &load.diurnal {
            self.wave(&format!("{path}.diurnal"), diurnal.swing, diurnal.period.as_ref());
        }
        self.not_negative(format!("{path}.noise"), load.noise);
    }

    /// Checks what rises and falls with a period.
    fn wave(&mut self, path: &str, swing: f64, period: Option<&Span>) {
        if !(0.0..=1.0).contains(&swing) {
            self.report(format!("{path}.swing"), "must be between 0 and 1");
        }
        if period.is_some_and(|period| period.duration.is_zero()) {
            self.report(format!("{path}.period"), "must be greater than zero");
        }
    }

    fn gpus(&mut self, path: &str, gpus: Option<&PodGpus>) {
        if gpus.is_some_and(|gpus| !(1..=1000).contains(&gpus.milli.unwrap_or(1000))) {
            self.report(format!("{path}.gpus.milli"), "must be between 1 and 1000");
        }
    }

    fn is_object(&mut self, path: String, value: Option<&Value>) {
        if value.is_some_and(|value| !value.is_object()) {
            self.report(path, "must be of type object");
        }
    }

    fn distribution(&mut self, path: &str, of: &Distribution) {
        self.one_of(
            path,
            &[
                ("constant", of.constant.is_some()),
                ("exponential", of.exponential.is_some()),
                ("logNormal", of.log_normal.is_some()),
                ("pareto", of.pareto.is_some()),
            ],
        );
        self.not_negative(format!("{path}.logNormal.sigma"), of.log_normal.as_ref().map(|log_normal| log_normal.sigma));
        self.positive(format!("{path}.pareto.alpha"), of.pareto.as_ref().map(|pareto| pareto.alpha));
    }

    fn time_unit(&mut self, path: String, unit: Option<&str>) {
        if unit.is_some_and(|unit| !TIME_UNITS.contains(&unit)) {
            self.report(path, "must be us, ms, s, m, h or timestamp");
        }
    }

    fn metric(&mut self, path: String, metric: &str) {
        if !NAMES.iter().any(|(name, _, _)| *name == metric) {
            self.report(path, format!("unknown metric {metric:?}"));
        }
    }

    fn one_of(&mut self, path: &str, fields: &[(&str, bool)]) {
        if fields.iter().filter(|(_, is_set)| *is_set).count() != 1 {
            let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            self.report(path, format!("must have exactly one of {}", names.join(", ")));
        }
    }

    fn names<'n>(&mut self, path: &str, all: impl Iterator<Item = &'n String>, is_required: bool) {
        let mut seen = BTreeSet::new();
        for (index, name) in all.enumerate() {
            let path = format!("{path}[{index}].name");
            self.name(&path, name);
            if !seen.insert(name) {
                self.report(path, format!("Duplicate value: {name:?}"));
            }
        }
        if seen.is_empty() && is_required {
            self.report(path, "must have at least one item");
        }
    }

    fn name(&mut self, path: &str, name: &str) {
        for why in names::dns1123_label(name) {
            self.report(path, why);
        }
    }

    fn positive(&mut self, path: String, number: Option<f64>) {
        if number.is_some_and(|number| number <= 0.0) {
            self.report(path, "must be greater than zero");
        }
    }

    fn not_negative(&mut self, path: String, number: Option<f64>) {
        if number.is_some_and(|number| number < 0.0) {
            self.report(path, "must not be negative");
        }
    }
}
