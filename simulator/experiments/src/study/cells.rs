//! The cells of a study: one run of one policy on one workload, cluster and case of faults, with one seed.

use crate::study::{Cluster, Faults, Policy, Study, Workload};
use std::fmt;

/// One run. All names in it are checked, so that they make a path.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'s> {
    pub cluster: &'s Cluster,
    pub workload: &'s Workload,
    pub policy: &'s Policy,
    /// `None` if the study has no faults.
    pub faults: Option<&'s Faults>,
    pub seed: u64,
}

impl Cell<'_> {
    pub fn faults_name(&self) -> &str {
        self.faults.map_or("none", |faults| faults.name.as_str())
    }

    /// Returns everything but policy and seed: cells of one setting are compared.
    pub fn setting(&self) -> String {
        format!("{}/{}/{}", self.cluster.name, self.workload.name, self.faults_name())
    }
}

/// The folder of the cell's results: `CLUSTER/WORKLOAD/FAULTS/POLICY/seed-N`.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/seed-{}", self.setting(), self.policy.name, self.seed)
    }
}

impl Study {
    /// Returns all cells, in the order of the file, seeds innermost.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        let faults: Vec<Option<&Faults>> = match self.faults.as_slice() {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        let mut cells = Vec::new();
        for cluster in &self.clusters {
            for workload in &self.workloads {
                for faults in &faults {
                    for policy in &self.policies {
                        let cell = |seed: &u64| Cell { cluster, workload, policy, faults: *faults, seed: *seed };
                        cells.extend(self.seeds.0.iter().map(cell));
                    }
                }
            }
        }
        cells
    }
}
