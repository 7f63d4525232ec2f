//! `Scraper`: asks every node for its usage, again and again, and keeps the last answers.
//!
//! Corresponds to pkg/scraper and pkg/storage of sigs.k8s.io/metrics-server.
//!
//! Deviation: the nodes are asked through the API server, and for `/stats/summary`, because the addresses of simulated nodes lead
//! nowhere. metrics-server connects to the nodes, and asks for `/metrics/resource`.

use crate::answers::{Item, Scope, Selection};
use crate::routes::Source;
use crate::summary::{PodStats, Summary};
use client::request::Call;
use client::{Client, Error, Informers, Lister, PartialObject};
use futures::StreamExt;
use http::Method;
use parking_lot::RwLock;
use proto::gvk::Gvr;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Nodes that are asked at the same time.
const PARALLEL: usize = 16;

/// The last measurements of all nodes.
pub struct Scraper {
    client: Client,
    informers: Informers,
    nodes: Lister<PartialObject>,
    pods: Lister<PartialObject>,
    /// By node. One that does not answer has none.
    measured: RwLock<BTreeMap<String, Measured>>,
}

struct Measured {
    at: Timestamp,
    summary: Summary,
}

/// Why a node has not been measured.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Client(#[from] Error),
    #[error("/stats/summary: {0}")]
    Page(#[from] serde_json::Error),
}

impl Scraper {
    pub fn new(client: &Client) -> Arc<Self> {
        let informers = Informers::new(client);
        let lister = |resource: &str| informers.metadata(&Gvr::new("", "v1", resource)).lister();
        let (nodes, pods) = (lister("nodes"), lister("pods"));
        Arc::new(Self { client: client.clone(), informers, nodes, pods, measured: RwLock::default() })
    }

    /// Measures every `period` until the environment shuts down.
    pub async fn run(&self, period: Duration) {
        self.informers.start();
        if !self.informers.synced().await {
            return;
        }
        let env = self.client.env();
        loop {
            self.measure().await;
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                () = env.sleep(period) => {}
            }
        }
    }

    /// Asks all nodes once.
    async fn measure(&self) {
        let names = self.nodes.list().into_iter().filter_map(|node| node.metadata.name.clone());
        let asked = futures::stream::iter(names).map(|name| async move {
            let answer = self.ask(&name).await;
            (name, answer)
        });
        let answers: Vec<_> = asked.buffer_unordered(PARALLEL).collect().await;
        let mut measured = BTreeMap::new();
        for (node, answer) in answers {
            match answer {
                Ok(summary) => {
                    measured.insert(node, Measured { at: self.client.env().wall(), summary });
                }
                Err(error) => tracing::warn!(node, %error, "node not measured"),
            }
        }
        *self.measured.write() = measured;
    }

    async fn ask(&self, node: &str) -> Result<Summary, ScrapeError> {
        let page =
            self.client.call(&Call::new(Method::GET, format!("/api/v1/nodes/{node}/proxy/stats/summary"))).await?;
        Ok(Summary::read(&page)?)
    }
}

impl Source for Scraper {
    fn items(&self, scope: &Scope, selection: &Selection) -> Vec<Item> {
        let measured = self.measured.read();
        let item = |objects: &Lister<PartialObject>, namespace: &str, name: &str, at: Timestamp| {
            let labels = objects.get(namespace, name)?.metadata.labels.clone();
            let is_selected = selection.selects(namespace, name, labels.as_ref());
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            is_selected.then_some(Item { namespace, name, labels, now: at, usages: Vec::new() })
        };
        match scope {
            Scope::Nodes => {
                let of_node = |(node, measured): (&String, &Measured)| {
                    let usages = vec![measured.summary.of_node()];
                    Some(Item { usages, ..item(&self.nodes, "", node, measured.at)? })
                };
                measured.iter().filter_map(of_node).collect()
            }
            Scope::Pods { namespace } => {
                let pods =
                    measured.values().flat_map(|of_node| of_node.summary.pods().iter().map(|pod| (of_node.at, pod)));
                let of_pod = |(at, pod): (Timestamp, &PodStats)| {
                    let reference = &pod.pod_ref;
                    let is_there = namespace.as_deref().is_none_or(|namespace| namespace == reference.namespace);
                    let item =
                        is_there.then(|| item(&self.pods, &reference.namespace, &reference.name, at)).flatten()?;
                    Some(Item { usages: pod.usages(), ..item })
                };
                pods.filter_map(of_pod).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::FakeServer;
    use component_base::env::Env;
    use serde_json::{Value, json};

    fn stats(nano_cores: u64, bytes: u64) -> Value {
        json!({"cpu": {"usageNanoCores": nano_cores}, "memory": {"workingSetBytes": bytes}})
    }

    /// Two nodes with a pod each; only the first one answers.
    #[tokio::test(start_paused = true)]
    async fn nodes_that_answer_are_shown_with_their_pods() {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        for name in ["node-0", "node-1"] {
            server.put("nodes", json!({"metadata": {"name": name, "labels": {"zone": name}}}));
        }
        for (name, node) in [("web", "node-0"), ("gone", "node-1")] {
            let metadata = json!({"name": name, "namespace": "shop", "labels": {"app": name}});
            server.put("pods", json!({"metadata": metadata, "spec": {"nodeName": node}}));
        }
        let mut container = stats(250_000_000, 64 << 20);
        container["name"] = json!("c");
        let pod =
            |name: &str| json!({"podRef": {"name": name, "namespace": "shop", "uid": "u"}, "containers": [container]});
        let summary = json!({"node": stats(300_000_000, 320 << 20), "pods": [pod("web"), pod("deleted")]});
        let client = Client::from_service(&env, server.service(), "metrics-server");
        let scraper = Scraper::new(&client);
        scraper.informers.start();
        assert!(scraper.informers.synced().await);
        let summary = Summary::read(summary.to_string().as_bytes()).unwrap();
        scraper.measured.write().insert("node-0".to_owned(), Measured { at: env.wall(), summary });

        let shown = |scope: &Scope, query: &[(&str, &str)]| {
            let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let items = scraper.items(scope, &Selection::of(&query).unwrap());
            items.into_iter().map(|item| format!("{} {:?}", item.name, item.usages[0])).collect::<Vec<_>>()
        };
        let all = Scope::Pods { namespace: None };
        let web = "web Usage { name: \"c\", cpu_cores: 0.25, memory_bytes: 67108864.0 }";
        assert_eq!(shown(&all, &[]), [web], "a pod that was deleted is not shown");
        assert_eq!(shown(&all, &[("labelSelector", "app=web")]), [web]);
        assert_eq!(shown(&all, &[("labelSelector", "app!=web")]), [""; 0]);
        assert_eq!(shown(&Scope::Pods { namespace: Some("other".to_owned()) }, &[]), [""; 0]);
        let node = "node-0 Usage { name: \"\", cpu_cores: 0.3, memory_bytes: 335544320.0 }";
        assert_eq!(shown(&Scope::Nodes, &[]), [node]);
        scraper.measure().await;
        assert_eq!(shown(&Scope::Nodes, &[]), [""; 0], "nobody answers any more");
    }
}
