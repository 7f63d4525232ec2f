//! Flags that `up` passes on to the components. Each component's own table checks them before the start.

use super::components::stop_order;
use clap::Args;
use component_base::command;
use component_base::options::{Original, OriginalFlags};

/// Flags that only `up` sets: the addresses and ports of the components.
const OF_UP: [&str; 4] = ["secure-port", "port", "bind-address", "address"];

#[derive(Args, Clone, Debug, Default)]
pub struct PassedOn {
    /// A flag for the API server, as kube-apiserver has it; as often as you like
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub apiserver_arg: Vec<String>,
    /// A flag for the controller manager
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub controller_manager_arg: Vec<String>,
    /// A flag for the scheduler
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub scheduler_arg: Vec<String>,
    /// A flag for the simulated nodes, as the kubelet has it
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub kubelet_sim_arg: Vec<String>,
    /// A flag for the simulated service proxies, as kube-proxy has it
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub proxy_sim_arg: Vec<String>,
    /// A flag for the cloud controller manager; with --cloud
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub cloud_controller_manager_arg: Vec<String>,
    /// A flag for the simulated cloud; with --cloud
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse)]
    pub cloud_sim_arg: Vec<String>,
}

/// An invalid flag of a component.
#[derive(Debug, thiserror::Error)]
#[error("--{component}-arg: {message}")]
pub struct PassedOnError {
    component: &'static str,
    message: String,
}

impl PassedOn {
    /// Returns the flags of a component as arguments. Of two equal flags the later one counts.
    pub fn arguments(&self, component: &str) -> impl Iterator<Item = String> {
        let given = match component {
            "apiserver" => &self.apiserver_arg,
            "controller-manager" => &self.controller_manager_arg,
            "scheduler" => &self.scheduler_arg,
            "kubelet-sim" => &self.kubelet_sim_arg,
            "cloud-controller-manager" => &self.cloud_controller_manager_arg,
            "cloud-sim" => &self.cloud_sim_arg,
            _ => &self.proxy_sim_arg,
        };
        given.iter().map(|given| format!("--{given}"))
    }
}

/// Refuses flags that a component would refuse; returns the warnings that it would log.
pub fn check(passed_on: &PassedOn) -> Result<Vec<String>, PassedOnError> {
    let mut warnings = Vec::new();
    for component in stop_order() {
        let arguments: Vec<String> = passed_on.arguments(component).collect();
        let checked = match component {
            "apiserver" => warnings_of(component, &arguments, |config: apiserver::Config| config.original),
            "controller-manager" => {
                warnings_of(component, &arguments, |config: controller_manager::Config| config.original)
            }
            "scheduler" => warnings_of(component, &arguments, |config: scheduler::Config| config.original),
            "kubelet-sim" => warnings_of(component, &arguments, |config: kubelet_sim::Config| config.original),
            "cloud-controller-manager" => {
                warnings_of(component, &arguments, |config: controller_manager::cloud::options::Config| config.original)
            }
            // It has no original.
            "cloud-sim" => command::config_of::<simulated_cloud::Config>(component, &arguments).map(|_| Vec::new()),
            _ => warnings_of(component, &arguments, |config: proxy_sim::Config| config.original),
        };
        let found = checked.map_err(|message| PassedOnError { component, message })?;
        warnings.extend(found.into_iter().map(|warning| format!("{component}: {warning}")));
    }
    Ok(warnings)
}

fn warnings_of<Config: Args, O: Original>(
    component: &'static str,
    arguments: &[String],
    original: impl FnOnce(Config) -> OriginalFlags<O>,
) -> Result<Vec<String>, String> {
    Ok(original(command::config_of(component, arguments)?).warnings().collect())
}

fn parse(text: &str) -> Result<String, String> {
    let name = text.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty() && !name.starts_with('-'));
    match name {
        None => Err("want NAME=VALUE, for example max-pods=250".to_owned()),
        Some(name) if OF_UP.contains(&name) => {
            Err("up itself says where components serve: use its own --port and --bind-address".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::Options;
    use clap::Parser;

    #[derive(Parser)]
    struct Up {
        #[command(flatten)]
        options: Options,
    }

    fn checked(flags: &[&str]) -> Result<Vec<String>, String> {
        let up = Up::try_parse_from([&["up"], flags].concat()).map_err(|error| error.to_string())?;
        check(&up.options.passed_on).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_component_would_refuse_is_refused_before_it_starts() {
        assert_eq!(checked(&[]).unwrap(), [""; 0]);
        let flags = ["--apiserver-arg=request-timeout=2m", "--kubelet-sim-arg", "max-pods=250"];
        assert_eq!(checked(&flags).unwrap(), [""; 0]);
        // A flag that `up` sets itself can be overridden.
        assert_eq!(checked(&["--proxy-sim-arg=cluster-cidr=10.1.0.0/16"]).unwrap(), [""; 0]);
        let warnings = checked(&["--controller-manager-arg=cluster-name=lab"]).unwrap();
        let warning =
            "controller-manager: --cluster-name is accepted as by kube-controller-manager, and has no effect here";
        assert_eq!(warnings, [warning]);
        for (flag, why) in [
            ("--scheduler-arg=sped=1", "--scheduler-arg: unexpected argument '--sped' found"),
            ("--apiserver-arg=request-timeout=soon", "--apiserver-arg: invalid value 'soon' for '--request-timeout"),
            ("--apiserver-arg=profiling", "want NAME=VALUE"),
            ("--apiserver-arg=--profiling=true", "want NAME=VALUE"),
            ("--cloud-sim-arg=group=1", "--cloud-sim-arg: invalid value '1' for '--group"),
            ("--kubelet-sim-arg=port=1", "use its own --port and --bind-address"),
        ] {
            let error = checked(&[flag]).unwrap_err();
            assert!(error.contains(why), "{flag}: {error}");
        }
    }
}
