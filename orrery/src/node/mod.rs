//! `orrery node`: changes the machines of a cluster's fleet, while it runs.
//!
//! Every command is one change of the ConfigMap `orrery-fleet`, which kubelet-sim follows; `kubectl` can make it too. Only
//! `remove` also deletes Nodes.

mod words;

use crate::place::Place;
use clap::{Args, Subcommand};
use client::{Client, DeleteOptions, Patch, PatchOptions};
use component_base::env::Env;
use component_base::kubeconfig::{self, KubeconfigError};
use component_base::options::{self, OptionsError};
use kubelet_sim::machines::fleet_map::{FleetMap, NAME, NAMESPACE};
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Node};
use serde_json::{Value, json};
use std::path::PathBuf;
use words::Change;

/// How often a change is tried again when somebody else has changed the ConfigMap meanwhile.
const ATTEMPTS: usize = 10;

/// Options of `orrery node`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

/// The cluster whose machines are changed.
#[derive(Args, Clone, Debug)]
pub struct Access {
    #[command(flatten)]
    pub place: Place,
    /// Kubeconfig of an administrator [default: the cluster's own]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Let nodes join: those of a template, or one that was removed
    Add(AddOptions),
    /// Take nodes away for good; their Nodes are deleted
    Remove(Nodes),
    /// Cut the power of machines, with all that runs on them
    Kill(Nodes),
    /// Start machines again, whether they run or not
    Restart(Nodes),
    /// Shut machines down in order: pods stop by priority, and then the power goes
    Shutdown(Nodes),
    /// Cut machines off the network; their containers go on
    Partition(Nodes),
    /// End what partition, slow, fill-disk and skew-clock have done
    Heal(Nodes),
    /// Let everything on machines take longer
    Slow {
        #[command(flatten)]
        nodes: Nodes,
        /// How many times as long
        #[arg(long, default_value = "10x")]
        factor: String,
    },
    /// Fill a part of machines' disks
    FillDisk {
        #[command(flatten)]
        nodes: Nodes,
        /// How full they are then
        #[arg(long, default_value = "95%")]
        part: String,
    },
    /// Let machines' clocks be wrong
    SkewClock {
        #[command(flatten)]
        nodes: Nodes,
        /// How far they are ahead; behind with a minus
        #[arg(long, allow_hyphen_values = true, default_value = "5m")]
        by: String,
    },
}

impl Command {
    /// Returns the cluster that the command is for.
    pub fn access(&self) -> &Access {
        match self {
            Self::Add(options) => &options.access,
            Self::Remove(nodes)
            | Self::Kill(nodes)
            | Self::Restart(nodes)
            | Self::Shutdown(nodes)
            | Self::Partition(nodes)
            | Self::Heal(nodes)
            | Self::Slow { nodes, .. }
            | Self::FillDisk { nodes, .. }
            | Self::SkewClock { nodes, .. } => &nodes.access,
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct Nodes {
    /// Names of nodes
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Args, Clone, Debug)]
pub struct AddOptions {
    /// Name of the template, of which the nodes' names are made; or a node that was removed
    #[arg(id = "template_name", value_name = "NAME")]
    pub name: String,
    /// How many nodes the template has
    #[arg(long)]
    pub count: Option<u32>,
    /// What a node has, for example cpu=16,memory=64Gi,example.com/gpu=8
    #[arg(long, value_name = "RESOURCE=AMOUNT", value_delimiter = ',')]
    pub capacity: Vec<String>,
    /// Zones, in turn
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub zones: Vec<String>,
    /// Labels of the nodes
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub labels: Vec<String>,
    /// File with the whole template, instead of the options above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "capacity", "zones", "labels"])]
    pub template: Option<PathBuf>,
    #[command(flatten)]
    pub access: Access,
}

/// The reason why a change was not made, in one line.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("nodes {0:?} not found")]
    NoNode(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0:?} is not of the form NAME=VALUE")]
    NoPair(String),
    #[error("the ConfigMap {NAMESPACE}/{NAME} changes all the time")]
    Contended,
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{0}")]
    Client(#[from] client::Error),
}

/// Makes the change, and prints what was done to which node.
pub async fn run(options: Options, env: Env) -> Result<(), NodeError> {
    let Access { place, kubeconfig: path } = options.command.access().clone();
    let path = path.unwrap_or_else(|| place.kubeconfig());
    let client = Client::connect(&env, &kubeconfig::read(&path)?, "orrery-node")?;
    let removes = matches!(options.command, Command::Remove(_));
    let change = change_of(options.command)?;
    for node in change.nodes() {
        match client.api::<Node>("").get(node).await {
            Err(error) if error.is_not_found() => return Err(NodeError::NoNode(node.clone())),
            other => drop(other?),
        }
    }
    let token = env.random("orrery/node").uid();
    for _ in 0..ATTEMPTS {
        match apply(&client, &change, &token).await {
            Err(NodeError::Client(error)) if error.is_conflict() || error.is_already_exists() => {}
            Err(error) => return Err(error),
            Ok(()) => {
                if removes {
                    delete_nodes(&client, change.nodes()).await?;
                }
                change.lines().iter().for_each(|line| println!("{line}"));
                return Ok(());
            }
        }
    }
    Err(NodeError::Contended)
}

/// Deletes the Nodes of machines that are removed. A fleet does so itself; a process with the identity of one node may not.
async fn delete_nodes(client: &Client, nodes: &[String]) -> Result<(), NodeError> {
    for node in nodes {
        match client.api::<Node>("").delete(node, &DeleteOptions::default()).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn change_of(command: Command) -> Result<Change, NodeError> {
    let set = |nodes: Nodes, done, word, value: &str| Change::words(nodes.nodes, done, word, value);
    Ok(match command {
        Command::Add(options) => Change::Add { name: options.name.clone(), template: template(options)? },
        Command::Remove(nodes) => set(nodes, "removed", "state", "removed"),
        Command::Kill(nodes) => set(nodes, "killed", "state", "killed"),
        Command::Shutdown(nodes) => set(nodes, "shuts down", "state", "shutdown"),
        Command::Restart(nodes) => Change::Restart(nodes.nodes),
        Command::Partition(nodes) => set(nodes, "partitioned", "network", "partitioned"),
        Command::Heal(nodes) => Change::Heal(nodes.nodes),
        Command::Slow { nodes, factor } => set(nodes, "slowed down", "slow", &factor),
        Command::FillDisk { nodes, part } => set(nodes, "disk filled", "fillDisk", &part),
        Command::SkewClock { nodes, by } => set(nodes, "clock skewed", "clockSkew", &by),
    })
}

/// Returns the text of the template that the options describe.
fn template(options: AddOptions) -> Result<String, NodeError> {
    if let Some(path) = &options.template {
        return Ok(options::read_file("template", path)?);
    }
    let pairs = |pairs: &[String]| -> Result<Value, NodeError> {
        let pair = |pair: &String| match pair.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), json!(value))),
            None => Err(NodeError::NoPair(pair.clone())),
        };
        Ok(Value::Object(pairs.iter().map(pair).collect::<Result<_, _>>()?))
    };
    let document = json!({
        "count": options.count.unwrap_or(1), "capacity": pairs(&options.capacity)?, "zones": options.zones,
        "labels": pairs(&options.labels)?,
    });
    Ok(words::yaml_of(&document))
}

/// Reads the ConfigMap, changes it and writes it back; the error is a conflict when it has changed meanwhile.
async fn apply(client: &Client, change: &Change, token: &str) -> Result<(), NodeError> {
    let maps = client.api::<ConfigMap>(NAMESPACE);
    let present = match maps.get(NAME).await {
        Err(error) if error.is_not_found() => None,
        found => Some(found?),
    };
    let data = present.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
    let changes = change.of(&data, token);
    let mut next = data;
    for (key, value) in &changes {
        match value {
            Some(text) => drop(next.insert(key.clone(), text.clone())),
            None => drop(next.remove(key)),
        }
    }
    let mut map = ConfigMap { data: Some(next), ..ConfigMap::default() };
    let (_, problems) = FleetMap::read(&map);
    let of_this_change = |path: &str| changes.keys().any(|key| path.starts_with(&format!("data[{key}]")));
    if let Some(problem) = problems.iter().find(|problem| of_this_change(&problem.path)) {
        return Err(NodeError::Invalid(problem.to_string()));
    }
    match present {
        None => {
            map.metadata.name = Some(NAME.to_owned());
            map.metadata.namespace = Some(NAMESPACE.to_owned());
            maps.create(&map).await?;
        }
        Some(present) => {
            let metadata = json!({"resourceVersion": present.resource_version()});
            let patch = Patch::Merge(json!({"metadata": metadata, "data": changes}));
            maps.patch(NAME, &patch, &PatchOptions::default()).await?;
        }
    }
    Ok(())
}
