//! Tests `--config` of the components that have it: a file sets the same options as flags, flags take precedence, and
//! an invalid file is refused with one line.

use clap::Args;
use component_base::command;
use component_base::options::ConfigFileError;

/// A component that reads a configuration file.
struct Component<C> {
    name: &'static str,
    /// The API version and the kind of its file.
    head: &'static str,
    complete: fn(C) -> Result<C, ConfigFileError>,
}

const SCHEDULER: Component<scheduler::Config> = Component {
    name: "scheduler",
    head: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
    complete: scheduler::Config::with_file,
};

const PROXY: Component<proxy_sim::Config> = Component {
    name: "proxy-sim",
    head: "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n",
    complete: proxy_sim::Config::with_file,
};

impl<C: Args> Component<C> {
    /// Returns the component's configuration from a file and these flags.
    fn read(&self, fields: &str, flags: &[&str]) -> Result<C, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{}{fields}", self.head)).unwrap();
        let path = file.path().display().to_string();
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let arguments: Vec<String> = [format!("--config={path}")].into_iter().chain(flags).collect();
        let config = command::config_of(self.name, &arguments).unwrap();
        (self.complete)(config).map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    fn refuses(&self, fields: &str, expected: &str) {
        let error = self.read(fields, &[]).err().unwrap_or_default();
        assert!(error.starts_with(expected), "{fields}: {error}");
    }
}

#[test]
fn a_schedulers_file() {
    let fields = "clientConnection: {kubeconfig: /k, qps: 7}\nleaderElection: {leaderElect: false}\n\
                  profiles: [{schedulerName: mine, plugins: {score: {disabled: [{name: ImageLocality}]}}}]\n";
    let config = SCHEDULER.read(fields, &[]).unwrap();
    assert_eq!((config.client.kubeconfig, config.client.kube_api_qps), (Some("/k".into()), Some(7.0)));
    assert!(!config.settings.leader_election.leader_elect);
    let [profile] = &config.settings.configuration.profiles[..] else { panic!("want one profile") };
    assert_eq!(profile.scheduler_name, "mine");
    assert!(profile.plugins.score.disables("ImageLocality"));
    let flags = ["--leader-elect", "--kubeconfig=/l", "--scheduler-name=theirs"];
    let config = SCHEDULER.read(fields, &flags).unwrap();
    assert!(config.settings.leader_election.leader_elect);
    let profile = &config.settings.configuration.profiles[0];
    assert_eq!((config.client.kubeconfig, profile.scheduler_name.as_str()), (Some("/l".into()), "theirs"));
    for (fields, expected) in [
        ("parallel: 1\n", r#"--config: FILE: unknown field "parallel""#),
        (
            "profiles: [{}, {}]\n",
            "--config: FILE: [profiles[0].schedulerName: Required value, profiles[1].schedulerName: Required value, ",
        ),
        (
            "leaderElection: {leaseDuration: long}\n",
            "--config: FILE: leaderElection.leaseDuration: invalid value 'long'",
        ),
        (
            "parallel: 1\nprofiles: [{plugin: {}}]\nleaderElection: {leaseDuration: long, resourceName: ''}\n",
            r#"--config: FILE: [unknown field "parallel", unknown field "profiles[0].plugin", leaderElection.leaseDuration: "#,
        ),
        (
            "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]\n",
            "--config: FILE: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range",
        ),
    ] {
        SCHEDULER.refuses(fields, expected);
    }
}

#[test]
fn a_proxys_file() {
    let fields = "bindAddress: 127.0.0.1\nclusterCIDR: 10.9.0.0/16\nmode: nftables\n\
                  clientConnection: {kubeconfig: /k, qps: 7, burst: 9}\n";
    let config = PROXY.read(fields, &[]).unwrap();
    assert_eq!(config.serving.bind_address.to_string(), "127.0.0.1");
    assert_eq!(config.settings.cluster_cidr.to_string(), "10.9.0.0/16");
    assert_eq!((config.client.kubeconfig, config.client.kube_api_burst), (Some("/k".into()), Some(9)));
    let config = PROXY.read(fields, &["--cluster-cidr=10.8.0.0/16"]).unwrap();
    assert_eq!(config.settings.cluster_cidr.to_string(), "10.8.0.0/16");
    PROXY.refuses("clusterCidr: 10.9.0.0/16\n", r#"--config: FILE: unknown field "clusterCidr""#);
    PROXY.refuses("clusterCIDR: wide\n", "--config: FILE: clusterCIDR: invalid value 'wide'");
}
