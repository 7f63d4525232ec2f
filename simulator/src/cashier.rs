//! A small controller with a mistake, to show what fault exploration finds.
//!
//! It pays orders: a ConfigMap `order-1` asks for one entry in the ConfigMap `ledger`, and names its customer, a Secret. Without
//! a mistake an entry has the name of its order, so that paying twice changes nothing, and an order waits for its customer.

use client::{Client, Informers, Patch, PatchOptions, ReconcileError, WorkQueue, run_workers};
use component_base::env::Env;
use proto::gvk::Gvr;
use proto::kinds::api::core::v1::{ConfigMap, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;

const LEDGER: &str = "ledger";
/// Every order is looked at again after this time.
const RESYNC: Duration = Duration::from_secs(10);
/// Annotations of an order: its entry in the ledger, or why there is none.
const PAID: &str = "cashier.example.com/paid";
const REJECTED: &str = "cashier.example.com/rejected";

/// What the cashier does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mistake {
    /// Nothing.
    #[default]
    None,
    /// It makes an entry under a new name, and notes only afterwards on the order that it has paid.
    PaysAgain,
    /// It rejects an order for ever whose customer it does not know yet.
    RejectsUnknown,
}

/// Runs until the environment shuts down.
pub async fn run(client: Client, mistake: Mistake, env: Env) -> Result<(), Infallible> {
    let informers = Informers::new(&client).resync_every(RESYNC);
    let queue = WorkQueue::new(&env, "cashier");
    let (orders, customers) = (informers.of::<ConfigMap>(), informers.of::<Secret>());
    orders.enqueue_changes(&queue);
    informers.start();
    if !(orders.synced().await && customers.synced().await) {
        return Ok(());
    }
    let (orders, customers) = (orders.lister(), customers.lister());
    let reconcile = move |key: String| {
        let (client, order) = (client.clone(), orders.by_key(&key));
        let customer = order.as_ref().and_then(|order| order.data.as_ref()?.get("customer").cloned());
        let is_known = customer.is_some_and(|name| customers.get("default", &name).is_some());
        async move {
            match order {
                Some(order) => serve(&client, &order, is_known, mistake).await,
                None => Ok(()),
            }
        }
    };
    run_workers(&env, "cashier", queue, 1, reconcile).await;
    Ok(())
}

async fn serve(client: &Client, order: &ConfigMap, is_known: bool, mistake: Mistake) -> Result<(), ReconcileError> {
    let name = order.metadata.name.clone().unwrap_or_default();
    let has = |key: &str| order.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key));
    if !name.starts_with("order-") || has(PAID) || has(REJECTED) {
        return Ok(());
    }
    if !is_known && mistake == Mistake::RejectsUnknown {
        return annotate(client, &name, REJECTED, "unknown customer").await;
    }
    if !is_known {
        return Err(ReconcileError::behind(format!("the customer of {name} is not there yet")));
    }
    let entry = match mistake {
        Mistake::PaysAgain => {
            let ledger = config_maps(client).get(LEDGER).await?;
            format!("entry-{}", ledger["data"].as_object().map_or(0, serde_json::Map::len) + 1)
        }
        _ => name.clone(),
    };
    patch(client, LEDGER, json!({"data": {&entry: "paid"}})).await?;
    annotate(client, &name, PAID, &entry).await
}

fn config_maps(client: &Client) -> client::DynamicApi {
    client.dynamic(&Gvr::new("", "v1", "configmaps"), "default")
}

async fn patch(client: &Client, name: &str, patch: Value) -> Result<(), ReconcileError> {
    config_maps(client).patch(name, &Patch::Merge(patch), &PatchOptions::default()).await?;
    Ok(())
}

async fn annotate(client: &Client, name: &str, key: &str, value: &str) -> Result<(), ReconcileError> {
    patch(client, name, json!({"metadata": {"annotations": {key: value}}})).await
}
