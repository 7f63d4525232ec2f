//! The manager: runs both controllers and the simulated parts in one process, with one informer for each kind.
//!
//! Corresponds to Manager of sigs.k8s.io/controller-runtime.

use crate::parts::{CoolingSystem, LightingSystem};
use crate::{air, cooling, lighting, switch};
use client::{Client, Informers};
use futures::future::join_all;

/// Runs until the client's environment shuts down. It waits for the CustomResourceDefinitions if they are not there yet.
pub async fn run(client: Client) {
    // Whoever asks these for a kind gets the same informer: one list, one watch and one cache.
    let informers = Informers::new(&client);
    // The server notes under these names who has set which field.
    let writer = |name: &str| client.with_user_agent(name);
    let running = [
        lighting::start(&writer("lighting-controller"), &informers),
        cooling::start(&writer("cooling-controller"), &informers),
        switch::start::<LightingSystem>("lamp", &writer("lamp"), &informers),
        switch::start::<CoolingSystem>("compressor", &writer("compressor"), &informers),
        air::start(&writer("thermometer"), &informers),
    ];
    informers.start();
    if informers.synced().await {
        join_all(running).await;
    }
}
