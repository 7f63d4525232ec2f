//! `RunningCloud`: the cloud as its server has it: one request at a time changes it, after its latency and with its faults.

use crate::cloud::Cloud;
use crate::problem::Problem;
use crate::state_file::StateFile;
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Clones share the cloud.
#[derive(Clone)]
pub struct RunningCloud {
    env: Env,
    cloud: Arc<Mutex<Cloud>>,
    file: StateFile,
    chance: Random,
}

impl RunningCloud {
    pub fn new(env: &Env, cloud: Cloud, file: StateFile) -> Self {
        let chance = env.random("simulated-cloud/faults");
        Self { env: env.clone(), cloud: Arc::new(Mutex::new(cloud)), file, chance }
    }

    /// Reads the cloud as it is, without latency and without faults.
    pub fn look<T>(&self, look: impl FnOnce(&Cloud) -> T) -> T {
        look(&self.cloud.lock())
    }

    /// Answers a request that only reads.
    pub async fn read<T>(&self, read: impl FnOnce(&Cloud) -> Result<T, Problem>) -> Result<T, Problem> {
        self.wait().await;
        if self.draws_fault() {
            return Err(fault());
        }
        read(&self.cloud.lock())
    }

    /// Answers a request that changes something. What it has changed is on the disk before the answer.
    pub async fn change<T>(&self, change: impl FnOnce(&mut Cloud) -> Result<T, Problem>) -> Result<T, Problem> {
        self.wait().await;
        let fails = self.draws_fault();
        let loses_answer = fails && self.chance.below(2) == 0;
        if fails && !loses_answer {
            return Err(fault());
        }
        let answer = self.change_at_once(change);
        if loses_answer { Err(fault()) } else { answer }
    }

    /// Changes the cloud without latency and without faults.
    pub fn change_at_once<T>(&self, change: impl FnOnce(&mut Cloud) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut cloud = self.cloud.lock();
        let before = cloud.holdings().clone();
        let answer = change(&mut cloud);
        if *cloud.holdings() != before
            && let Err(error) = self.file.write(cloud.holdings())
        {
            tracing::error!(%error, "the cloud forgets a change");
            return Err(Problem::unavailable(error.to_string()));
        }
        answer
    }

    async fn wait(&self) {
        let latency = Duration::from_millis(self.look(|cloud| cloud.holdings().settings.latency_ms));
        if !latency.is_zero() {
            self.env.sleep(latency).await;
        }
    }

    fn draws_fault(&self) -> bool {
        let rate = self.look(|cloud| cloud.holdings().settings.fault_rate);
        rate > 0.0 && self.chance.unit() < rate
    }
}

fn fault() -> Problem {
    Problem::unavailable("the simulated cloud has failed, as its settings want it")
}
