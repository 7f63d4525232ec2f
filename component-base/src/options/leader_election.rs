//! Flags for leader election.
//!
//! Corresponds to k8s.io/component-base/config/options/leaderelectionconfig.go; the election itself is
//! `client::leader`.

use super::OptionsError;
use crate::duration::parse_duration;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// A candidate's wait is lengthened by up to this many retry periods: client-go's JitterFactor.
pub const LEADER_JITTER: f64 = 1.2;

#[derive(Args, Clone, Debug)]
pub struct LeaderElectionOptions {
    /// Stand for leader before starting, and lead alone
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// How long a silent leader is waited for
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew before it gives up
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub leader_elect_renew_deadline: Duration,
    /// How long to wait between tries to become or stay leader
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub leader_elect_retry_period: Duration,
    /// Kind of object that stands for the leadership
    #[arg(long, value_enum, default_value_t)]
    pub leader_elect_resource_lock: ResourceLock,
    /// Name of that object; the component's own where none is given
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,
    /// Namespace of that object
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}

/// Kind of the lock object; Kubernetes supports only Leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ResourceLock {
    #[default]
    Leases,
}

impl LeaderElectionOptions {
    /// Refuses durations that would let two components lead at once, or leave none leading for long.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let invalid = |flag, message: &str| Err(OptionsError::Invalid { flag, message: message.to_owned() });
        if !self.leader_elect {
            return Ok(());
        }
        if self.leader_elect_retry_period.is_zero() {
            return invalid("leader-elect-retry-period", "must be greater than zero");
        }
        if self.leader_elect_renew_deadline <= self.leader_elect_retry_period.mul_f64(LEADER_JITTER) {
            let message = "must be greater than 1.2 times --leader-elect-retry-period";
            return invalid("leader-elect-renew-deadline", message);
        }
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return invalid("leader-elect-lease-duration", "must be greater than --leader-elect-renew-deadline");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        election: LeaderElectionOptions,
    }

    fn refused(flags: &[&str]) -> Option<String> {
        let all = [&["component"], flags].concat();
        Command::parse_from(all).election.validate().err().map(|error| error.to_string())
    }

    #[test]
    fn durations_that_let_two_lead_are_refused() {
        assert_eq!(refused(&[]), None);
        assert_eq!(refused(&["--leader-elect=false", "--leader-elect-lease-duration=1s"]), None);
        for (flag, why) in [
            (
                "--leader-elect-lease-duration=10s",
                "--leader-elect-lease-duration: must be greater than --leader-elect-renew-deadline",
            ),
            (
                "--leader-elect-retry-period=9s",
                "--leader-elect-renew-deadline: must be greater than 1.2 times --leader-elect-retry-period",
            ),
            ("--leader-elect-retry-period=0s", "--leader-elect-retry-period: must be greater than zero"),
        ] {
            assert_eq!(refused(&[flag]).as_deref(), Some(why));
        }
        assert!(Command::try_parse_from(["component", "--leader-elect-resource-lock=endpoints"]).is_err());
    }
}
