//! Nodes from a node list of Alibaba's GPU trace of 2023 (OpenB): `sn,cpu_milli,memory_mib,gpu,model`.

use crate::amounts::{Amounts, CPU, MEMORY, PODS};
use crate::cluster::{Machine, groups::DEFAULT_PODS};
use crate::files::{self, Files};
use crate::problem::Problem;
use crate::study::NodeFile;
use crate::table::Table;

const MIB: f64 = 1_048_576.0;

pub fn machines(file: &NodeFile, files: &dyn Files, place: &str) -> Result<Vec<Machine>, Vec<Problem>> {
    let text = files::read(files, &file.file, &format!("{place}.file"))?;
    let table = Table::read(&text, &file.file, &["sn", "cpu_milli", "memory_mib", "gpu", "model"]);
    let mut machines = table.each(|row| {
        let mut mistakes = Vec::new();
        let cpu = row.number("cpu_milli", &mut mistakes);
        let memory = row.number("memory_mib", &mut mistakes) * MIB;
        let gpus = row.number("gpu", &mut mistakes);
        if row.text("sn").is_empty() {
            mistakes.push("sn: is empty".to_owned());
        }
        if gpus > 0.0 && row.text("model").is_empty() {
            mistakes.push("model: is empty, but the node has GPUs".to_owned());
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let capacity = Amounts::from([
            (CPU.to_owned(), cpu as i64),
            (MEMORY.to_owned(), memory as i64),
            (PODS.to_owned(), DEFAULT_PODS),
        ]);
        let model = row.text("model");
        let machine = Machine {
            name: row.text("sn").to_lowercase(),
            group: if model.is_empty() { "cpu".to_owned() } else { model.to_owned() },
            allocatable: capacity.clone(),
            capacity,
            price_per_hour: file.price_per_hour.unwrap_or_default(),
            power: file.power.unwrap_or_default(),
            ..Machine::default()
        };
        Ok(Some(machine.with_gpus(gpus as u32, model)))
    })?;
    machines.truncate(file.limit.unwrap_or(usize::MAX));
    Ok(machines)
}
