//! Pods from a pod list of Alibaba's GPU trace of 2023 (OpenB):
//! `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`.
//!
//! Times are seconds. A pod runs from `scheduled_time` to `deletion_time`; one that the original cluster never scheduled runs
//! as long as it existed there. `gpu_spec` has the models that will do, as `V100M16|V100M32`.

use crate::amounts::{Amounts, CPU, MEMORY};
use crate::files::{self, Files};
use crate::problem::Problem;
use crate::study::PodFile;
use crate::table::Table;
use crate::units::micros;
use crate::workload::{Arrival, pod::Shape};
use std::collections::BTreeSet;

const MIB: f64 = 1_048_576.0;
const COLUMNS: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

pub fn arrivals(file: &PodFile, files: &dyn Files, place: &str) -> Result<Vec<Arrival>, Vec<Problem>> {
    let text = files::read(files, &file.file, &format!("{place}.file"))?;
    let mut names = BTreeSet::new();
    Table::read(&text, &file.file, &COLUMNS).each(|row| {
        let mut mistakes = Vec::new();
        let name = row.text("name").to_lowercase();
        if !names.insert(name.clone()) {
            mistakes.push(format!("name: another pod is named {name:?}"));
        }
        mistakes.extend(proto::meta::names::dns1123_subdomain(&name).into_iter().map(|why| format!("name: {why}")));
        let created = row.number("creation_time", &mut mistakes);
        let deleted = row.number("deletion_time", &mut mistakes);
        let scheduled = row.number_or("scheduled_time", created, &mut mistakes);
        if deleted < created {
            mistakes.push(format!("deletion_time: {deleted} is before creation_time, {created}"));
        }
        if scheduled < created {
            mistakes.push(format!("scheduled_time: {scheduled} is before creation_time, {created}"));
        }
        let gpus = row.number_or("num_gpu", 0.0, &mut mistakes);
        let milli = row.number_or("gpu_milli", if gpus > 0.0 { 1000.0 } else { 0.0 }, &mut mistakes);
        if gpus > 0.0 && !(1.0..=1000.0).contains(&milli) {
            mistakes.push(format!("gpu_milli: {milli} must be between 1 and 1000"));
        }
        let requests = Amounts::from([
            (CPU.to_owned(), row.number("cpu_milli", &mut mistakes) as i64),
            (MEMORY.to_owned(), (row.number("memory_mib", &mut mistakes) * MIB) as i64),
        ]);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let models = row.text("gpu_spec").split('|').filter(|model| !model.is_empty());
        let shape = Shape {
            name,
            requests,
            gpu_count: gpus as u32,
            gpu_milli: milli as u32,
            gpu_models: models.map(str::to_owned).collect(),
            user: row.text("qos").to_owned(),
            ..Shape::default()
        };
        let runs = micros((deleted - scheduled.min(deleted)) * 1e6);
        shape.arrival(micros(created * 1e6), Some(runs)).map(Some).map_err(|why| vec![why])
    })
}
