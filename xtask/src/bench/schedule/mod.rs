//! Pods that find their nodes through an API server: scheduler_perf's scenarios, each on servers of its own. No node agents:
//! what is measured is the API server and the scheduler.
//!
//! A scenario creates its nodes, lets the pods that run before be bound, and then measures until all measured pods are
//! bound. The reference evaluator checks the placements.

pub mod rows;
mod template;
mod node;
mod churn;
mod cluster;

use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::post;
use super::placements;
use super::pod_events::{until, watch_pods};
use super::scrape::Scrape;
use super::servers::{Servers, Setup};
use super::{Bench, Error};
use client::Client;
use client::watch::Watch;
use component_base::env::Env;
use futures::future::{Either, select};
use rows::{Extra, Pods, ROWS, Row};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use template::{BEFORE, MEASURED, Template};

const CREATORS: usize = 16;
/// The engine of the API server's store.
const ENGINE: &str = "embedded";
/// Admission plugins that scheduler_perf switches off: nodes are ready at once, and pods name their priorities.
const WITHOUT: &str = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority";
const ATTEMPTS: &str = "scheduler_scheduling_attempt_duration_seconds";
/// Its PostFilter is the search for victims.
const POINTS: &str = "scheduler_framework_extension_point_duration_seconds";

/// Measures the scenarios that are chosen, at each size.
pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    for nodes in &bench.nodes {
        for row in ROWS.iter().filter(|row| bench.rows.is_empty() || bench.rows.iter().any(|name| name == row.name)) {
            bench.record(measure(bench, row, *nodes).await?);
        }
    }
    Ok(Vec::new())
}

/// The servers of one row.
struct Run<'a> {
    bench: &'a Bench,
    servers: Servers,
    clients: Vec<Client>,
    scheduler: Client,
    watch: Watch,
}

impl<'a> Run<'a> {
    async fn start(bench: &'a Bench, row: &Row, nodes: usize) -> Result<Self, Error> {
        let gates = |more: &str| format!("--feature-gates=GenericWorkload=true{more}");
        let with_gangs = row.extra == Extra::Gangs;
        let mut arguments = vec![WITHOUT.to_owned()];
        if with_gangs {
            arguments.extend([gates(""), "--runtime-config=api/all=true".to_owned()]);
        }
        let mut servers = Servers::start_as(bench, ENGINE, &Setup { arguments, ..Setup::default() }).await?;
        let clients = servers.clients(CREATORS)?;
        cluster::create(&bench.env, &clients, row, nodes).await?;
        if matches!(row.extra, Extra::Devices { .. }) {
            let only = "--controllers=resourceclaim-controller";
            servers.add(bench, "controller-manager", &["--leader-elect=false", only])?;
        }
        let gangs = with_gangs.then(|| gates(",GangScheduling=true"));
        let arguments: Vec<&str> = ["--leader-elect=false"].into_iter().chain(gangs.as_deref()).collect();
        let scheduler = servers.add_serving(bench, "scheduler", &arguments)?;
        let watch = watch_pods(&clients[0], "").await?;
        Ok(Self { bench, servers, clients, scheduler, watch })
    }

    /// Creates pods, and waits until all of them are bound.
    async fn bind(&mut self, namespace: &str, prefix: &str, template: Template, count: usize) -> Result<(), Error> {
        let Self { bench, clients, watch, .. } = self;
        let env = &bench.env;
        let collection = &format!("/api/v1/namespaces/{namespace}/pods");
        let name = |number: usize| format!("{prefix}-{number}");
        let creating = closed_loop(env, clients, count, |client, number| async move {
            post(client, collection, template.pod(&name(number), number)).await
        });
        let mut bound = BTreeSet::new();
        let is_counted = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'));
        let binding = until(env, watch, |event| {
            if event.namespace == namespace && !event.node.is_empty() && is_counted(&event.name) {
                bound.insert(event.name.clone());
            }
            bound.len() == count
        });
        let (created, all_bound) = futures::join!(creating, binding);
        created.must_succeed()?;
        all_bound
    }

    /// Creates what the pods need.
    async fn prepare(&mut self, namespace: &str, prefix: &str, template: Template, count: usize) -> Result<(), Error> {
        let creating = closed_loop(&self.bench.env, &self.clients, count, |client, number| async move {
            for (collection, object) in template.needs(namespace, &format!("{prefix}-{number}"), number) {
                post(client.clone(), &collection, object).await?;
            }
            Ok(())
        });
        creating.await.must_succeed().map(drop)
    }
}

async fn measure(bench: &Bench, row: &Row, nodes: usize) -> Result<Measurement, Error> {
    let count = |pods: &Pods| bench.pods.unwrap_or(pods.per_1000_nodes * nodes / 1000);
    let scaled = |pods: &Pods| pods.template.whole(bench.count(count(pods)));
    let scaled_nodes = bench.count(nodes);
    let mut run = Run::start(bench, row, scaled_nodes).await?;
    // One pod that is not counted shows that the scheduler knows the nodes.
    run.bind(BEFORE, "warm", Template::Default, 1).await?;
    for (at, pods) in row.before.iter().enumerate() {
        let (prefix, count) = (format!("before-{at}"), scaled(pods));
        run.prepare(BEFORE, &prefix, pods.template, count).await?;
        run.bind(BEFORE, &prefix, pods.template, count).await?;
    }
    let pods = scaled(&row.measured);
    run.prepare(MEASURED, "p", row.measured.template, pods).await?;
    let (client, scheduler, env) = (run.clients[0].clone(), run.scheduler.clone(), bench.env.clone());
    let (before, scraped) = (run.servers.usage()?, Scrape::take(&scheduler).await?);
    let churned_nodes = AtomicUsize::new(0);
    let began = env.now();
    beside_churn(&env, row, &client, &churned_nodes, run.bind(MEASURED, "p", row.measured.template, pods)).await?;
    let took = env.now().duration_since(began);
    let after = run.servers.usage()?;
    let now = Scrape::take(&scheduler).await?;
    let attempts = now.buckets_since(&scraped, ATTEMPTS, &["result=\"scheduled\""]);
    let preempting = now.buckets_since(&scraped, POINTS, &["extension_point=\"PostFilter\"", "status=\"Success\""]);
    let what = format!("{}, {pods} pods over {scaled_nodes} nodes", row.name);
    let mut measurement = Measurement::new("schedule", what, ENGINE, pods as u64, took, (&before, &after));
    (measurement.latency, measurement.preempting) = (attempts.latency(), preempting.latency());
    let gone = (0..churned_nodes.load(Ordering::Relaxed)).map(churn::passing_node);
    let checked = placements::check(&env, &client, gone).await?;
    Ok(Measurement { errors: checked.wrong as u64, checked: Some(checked), ..measurement })
}

/// Does something while the cluster churns as the row says.
async fn beside_churn<T>(
    env: &Env,
    row: &Row,
    client: &Client,
    churned_nodes: &AtomicUsize,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(churn) = row.churn else { return work.await };
    match select(pin!(work), pin!(churn.run(env, client, churned_nodes))).await {
        Either::Left((done, _)) => done,
        Either::Right((error, _)) => Err(error),
    }
}
