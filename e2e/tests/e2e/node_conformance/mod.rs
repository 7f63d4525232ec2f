//! Runs what Kubernetes' conformance documentation asks of nodes, with the images and commands that its tests use.
//!
//! Each `Spec` is one pod; all run at the same time, and what each printed is compared. The table of `docs/nodes.md` names
//! the specs. The pods are our own: Kubernetes' tests say only what they have to show.

mod environment;
mod network;
mod processes;
mod volumes;

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

/// One pod, and what it has to show.
pub struct Spec {
    /// The name of the pod.
    pub name: &'static str,
    /// The pod's spec, as YAML in one flow mapping; its policy is `Never` unless it says another.
    pub pod: &'static str,
    pub shows: Shows,
}

/// What a pod has to show.
pub enum Shows {
    /// It succeeds, and the log of its first container has these lines or parts of lines.
    Log(&'static [&'static str]),
    /// It succeeds, and the log of its first container is exactly this.
    WholeLog(&'static str),
    /// It runs or has ended, and a path of the object has this value.
    Field(&'static str, &'static str),
    /// Its first container is restarted.
    Restarts,
    /// It runs, and a command in it prints this.
    Prints(&'static [&'static str], &'static str),
}

#[test]
fn nodes_do_what_conformance_asks() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    let groups = [environment::GROUP, volumes::GROUP, processes::GROUP, network::GROUP];
    for (objects, _) in groups {
        kubectl.with_input("apply -f -", objects).succeeded();
    }
    let specs: Vec<&Spec> = groups.iter().flat_map(|(_, specs)| specs.iter()).collect();
    let pods: Vec<String> = specs.iter().map(|spec| manifest(spec)).collect();
    kubectl.with_input("create -f -", &pods.join("---\n")).succeeded();
    let wrong: Vec<String> = specs.iter().filter_map(|spec| problem(&kubectl, spec)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), specs.len(), wrong.join("\n"));
    network::hooks_reach_servers(&kubectl);
    cluster.stop();
}

fn manifest(spec: &Spec) -> String {
    let Spec { name, pod, .. } = spec;
    let policy = if pod.contains("restartPolicy") { "" } else { "  restartPolicy: Never\n" };
    let (labels, annotations) = ("{zone: us-est-coast, tier: backend}", "{builder: foo}");
    let pod = pod.trim().replace('\n', "\n  ");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {labels}, annotations: {annotations}}}\nspec:\n{policy}  {pod}\n"
    )
}

/// Returns what is wrong with a pod; `None` when it shows what it has to.
fn problem(kubectl: &Kubectl, spec: &Spec) -> Option<String> {
    let name = spec.name;
    let phase = || kubectl.ok(&format!("get pod {name} -o jsonpath={{.status.phase}}"));
    let log = || kubectl.run(&format!("logs {name}")).stdout;
    let described = || kubectl.run(&format!("describe pod {name}")).stdout;
    let ended = || {
        let has_ended = wait::whether(|| ["Succeeded", "Failed"].contains(&phase().as_str()));
        (!has_ended || phase() != "Succeeded").then(|| format!("{name}: {}: {}{}", phase(), log(), described()))
    };
    match &spec.shows {
        Shows::Log(parts) => ended().or_else(|| {
            let log = log();
            let missing: Vec<&&str> = parts.iter().filter(|part| !log.contains(**part)).collect();
            (!missing.is_empty()).then(|| format!("{name}: no {missing:?} in\n{log}"))
        }),
        Shows::WholeLog(expected) => ended().or_else(|| {
            let log = log();
            (log != *expected).then(|| format!("{name}: {expected:?} is not\n{log:?}"))
        }),
        Shows::Field(path, expected) => {
            let read = || kubectl.run_args(&["get", "pod", name, "-o", &format!("jsonpath={path}")]).stdout;
            let mut found = String::new();
            let is_found = wait::whether(|| {
                found = read();
                found == *expected
            });
            (!is_found).then(|| format!("{name}: {path} is {found:?} and not {expected:?}\n{}{}", log(), described()))
        }
        Shows::Restarts => {
            let restarts = format!("get pod {name} -o jsonpath={{.status.containerStatuses[0].restartCount}}");
            let is_restarted = wait::whether(|| !["", "0"].contains(&kubectl.ok(&restarts).as_str()));
            (!is_restarted).then(|| format!("{name} is not restarted: {}", described()))
        }
        Shows::Prints(command, expected) => {
            kubectl.ok(&format!("wait --for=condition=Ready pod/{name} --timeout=60s"));
            let mut arguments = vec!["exec", name, "--"];
            arguments.extend(*command);
            let printed = kubectl.run_args(&arguments);
            (printed.stdout != *expected)
                .then(|| format!("{name}: {command:?} prints {printed:?} and not {expected:?}"))
        }
    }
}
