//! The pace of a cluster's virtual time beside the real one.

use crate::sim::door::Exchange;
use component_base::env::Env;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender};

/// Real time after which the cluster's clock goes on without a request too.
const TICK: Duration = Duration::from_millis(5);
/// Most real time that counts at once. A cluster that needs longer for it gets behind, and does not hurry afterwards: nobody
/// would have had the time to answer.
const MAX_STEP: Duration = Duration::from_millis(20);

/// Virtual time that has passed since the moment before, and a request that comes after it.
pub struct Moment {
    pub passed: Duration,
    pub exchange: Option<Exchange>,
}

/// Sends the cluster one moment after another, until it takes no more. Virtual time passes `speed` times as fast as the real one, or
/// slower.
pub async fn lead(env: &Env, speed: f64, exchanges: &mut Receiver<Exchange>, cluster: &Sender<Moment>) {
    let mut before = env.now();
    loop {
        let exchange = tokio::select! {
            biased;
            exchange = exchanges.recv() => match exchange {
                None => return,
                some => some,
            },
            () = env.sleep(TICK) => None,
        };
        if cluster.is_closed() {
            return;
        }
        // A cluster that has not done with the moment before needs no tick.
        let is_busy = cluster.capacity() < cluster.max_capacity();
        if exchange.is_none() && is_busy {
            continue;
        }
        let now = env.now();
        let passed = virtual_time(now.duration_since(before), speed);
        before = now;
        if cluster.send(Moment { passed, exchange }).await.is_err() {
            return;
        }
    }
}

fn virtual_time(real: Duration, speed: f64) -> Duration {
    real.min(MAX_STEP).mul_f64(speed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn time_passes_as_fast_as_it_is_told_or_slower() {
        assert_eq!(virtual_time(Duration::from_millis(5), 50.0), Duration::from_millis(250));
        assert_eq!(virtual_time(Duration::from_millis(5), 0.5), Duration::from_micros(2500));
        assert_eq!(virtual_time(Duration::from_secs(3), 2.0), Duration::from_millis(40), "a pause is not made up for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_cluster_gets_no_ticks() {
        let env = Env::simulated(1);
        let (_door, mut exchanges) = mpsc::channel(1);
        let (sender, mut moments) = mpsc::channel::<Moment>(4);
        let mut passed = Vec::new();
        let cluster = async {
            for busy_ms in [0, 12, 0] {
                env.sleep(Duration::from_millis(busy_ms)).await;
                passed.push(moments.recv().await.unwrap().passed.as_millis());
            }
        };
        tokio::select! {
            biased;
            () = cluster => {}
            () = lead(&env, 10.0, &mut exchanges, &sender) => unreachable!("the cluster takes moments"),
        }
        // At 5, 10 and 20 ms; at 15 ms it is busy.
        assert_eq!(passed, [50, 50, 100]);
    }
}
