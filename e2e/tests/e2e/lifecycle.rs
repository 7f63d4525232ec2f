//! Tests detached clusters: they are started, named, shown, saved, restored, stopped and purged.

use crate::{etcd, program};
use e2e::kubectl::{Kubectl, Printed};
use e2e::processes::{free_ports, signal};
use e2e::wait;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder with data directories of clusters. The clusters are stopped when this value is dropped.
struct Workspace<'a> {
    folder: &'a Path,
    clusters: Vec<&'static str>,
}

impl<'a> Workspace<'a> {
    fn new(folder: &'a Path) -> Self {
        fs::create_dir_all(folder.join("home/.kube")).unwrap();
        fs::write(folder.join("home/.kube/config"), "mine\n").unwrap();
        Self { folder, clusters: Vec::new() }
    }

    /// Runs `orrery` in the folder.
    fn run(&self, line: &str) -> Printed {
        let mut command = Command::new(program());
        command.args(line.split_whitespace()).current_dir(self.folder).env_remove("KUBECONFIG");
        let output = command.env("HOME", self.folder.join("home")).stdin(Stdio::null()).output().unwrap();
        Printed {
            command: format!("orrery {line}"),
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn ok(&self, line: &str) -> String {
        self.run(line).succeeded()
    }

    /// Runs a command that must fail with one line on standard error. Returns that line.
    fn refused(&self, line: &str) -> String {
        let printed = self.run(line);
        assert!(!printed.success, "{line} should fail but printed:\n{}", printed.stdout);
        assert_eq!(printed.stderr.lines().count(), 1, "{}", printed.stderr);
        printed.stderr.trim_end().to_owned()
    }

    /// Starts a cluster, and waits until it is ready.
    fn up(&mut self, data_dir: &'static str, flags: &str) -> String {
        self.clusters.push(data_dir);
        self.ok(&format!("up --detach --data-dir={data_dir} --nodes=1 --port={} {flags}", free_ports()))
    }

    fn kubectl(&self, data_dir: &str) -> Kubectl {
        Kubectl::new(&self.folder.join(data_dir).join("kubeconfig"), &self.folder.join("home"))
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        for data_dir in &self.clusters {
            let _ = self.run(&format!("down --data-dir={data_dir}"));
        }
    }
}

#[test]
fn a_detached_cluster_is_shown_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut workspace = Workspace::new(folder.path());
    assert_eq!(workspace.refused("status --data-dir=a"), "status: cluster orrery is not running");
    let greeting = workspace.up("a", "--store=memory");
    assert!(greeting.contains("The cluster is ready. Stop it with `orrery down`"), "{greeting}");
    let shown = workspace.ok("status --data-dir=a");
    assert_eq!(shown.lines().filter(|line| line.contains("  ready, process ")).count(), 5, "{shown}");
    let taken = workspace.refused("up --data-dir=a --detach");
    assert!(taken.ends_with("another `orrery up` is running on this data directory"), "{taken}");

    let scheduler = shown.lines().find(|line| line.starts_with("scheduler")).unwrap();
    signal("KILL", scheduler.rsplit(' ').next().unwrap().parse().unwrap());
    wait::until("the scheduler is back", || {
        let shown = workspace.run("status --data-dir=a");
        shown.success && shown.stdout.contains("restarted 1 times, last end: signal: 9 (SIGKILL)")
    });

    assert_eq!(workspace.ok("down --data-dir=a --purge"), "cluster orrery has ended\na is removed\n");
    assert!(!folder.path().join("a").exists());
    assert_eq!(workspace.ok("down --data-dir=a"), "cluster orrery is not running\n");
    // Without `--kubeconfig`, `up` does not change the user's own kubeconfig.
    assert_eq!(fs::read_to_string(folder.path().join("home/.kube/config")).unwrap(), "mine\n");
}

#[test]
fn a_cluster_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path());
    let refused = workspace.refused("up --detach --data-dir=a --scheduler-arg=sped=1");
    assert!(refused.starts_with("orrery: --scheduler-arg: unexpected argument '--sped' found"), "{refused}");
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::write(folder.path().join("b/cat.png"), "meow").unwrap();
    for line in ["up --detach --data-dir=b", "down --purge --data-dir=b"] {
        let refused = workspace.refused(line);
        assert!(refused.contains("not a directory of this program"), "{refused}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("b/cat.png")).unwrap(), "meow");
}

#[test]
fn clusters_of_different_names_run_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path());
    for name in ["one", "two"] {
        let greeting = workspace.ok(&format!("up --detach --name={name} --store=memory --nodes=0"));
        assert!(greeting.contains(&format!("`orrery down --name {name}`")), "{greeting}");
    }
    let servers = ["one", "two"].map(|name| {
        let kubectl = workspace.kubectl(&format!("orrery-data-{name}"));
        assert_eq!(kubectl.ok("config get-clusters").lines().last(), Some(name));
        kubectl.ok("get endpoints kubernetes -o jsonpath={.subsets[0].ports[0].port}")
    });
    assert_ne!(servers[0], servers[1]);
    for name in ["one", "two"] {
        assert_eq!(workspace.ok(&format!("down --name={name}")), format!("cluster {name} has ended\n"));
    }
}

#[test]
fn a_snapshot_moves_a_cluster_from_engine_to_engine() {
    let folder = tempfile::tempdir().unwrap();
    let mut workspace = Workspace::new(folder.path());
    workspace.up("memory", "--store=memory");
    workspace.kubectl("memory").ok("create configmap kept --from-literal=a=b");
    let saved = workspace.ok("snapshot save --data-dir=memory first");
    assert!(saved.contains(" objects at revision "), "{saved}");
    let damaged = fs::read(folder.path().join("first")).unwrap();
    fs::write(folder.path().join("cut"), &damaged[..damaged.len() - 10]).unwrap();
    assert!(workspace.refused("snapshot restore --data-dir=embedded cut").contains("cut: damaged"));
    assert!(!folder.path().join("embedded").exists());

    let holds = |workspace: &Workspace<'_>, data_dir: &str| {
        let held = workspace.kubectl(data_dir).ok("get configmap kept -o jsonpath={.data.a}");
        assert_eq!(held, "b", "{data_dir}");
    };
    workspace.ok("snapshot restore --data-dir=embedded first");
    let again = "snapshot: the store is not empty: a snapshot is restored into an empty one";
    assert_eq!(workspace.refused("snapshot restore --data-dir=embedded first"), again);
    workspace.up("embedded", "--store=embedded");
    holds(&workspace, "embedded");
    workspace.ok("snapshot save --data-dir=embedded second");

    let Some(members) = etcd(&folder.path().join("members")) else { return };
    let urls = members.urls().join(",");
    workspace.ok(&format!("snapshot restore --data-dir=etcd --etcd-servers={urls} second"));
    workspace.up("etcd", &format!("--store=etcd --etcd-endpoints={urls}"));
    holds(&workspace, "etcd");
    workspace.ok("snapshot save --data-dir=etcd third");

    workspace.up("again", "--store=memory --restore=third");
    holds(&workspace, "again");
    let admin = workspace.kubectl("again").run("get --raw /orrery/snapshot --as=system:serviceaccount:default:default");
    assert!(!admin.success && admin.stderr.contains("forbidden"), "{}", admin.stderr);
}
