//! A whole refrigerator in virtual time, with a manager that may crash at any of its writes.

use crate::manager;
use crate::parts::{CoolingSpec, CoolingSystem, Door, DoorSpec, LightingSpec, LightingSystem, Refrigerator};
use crate::parts::{RefrigeratorSpec, RefrigeratorStatus, Thermostat, ThermostatSpec};
use client::Client;
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::http::HttpService;
use http::Method;
use proto::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tower::ServiceExt;

/// Virtual seconds after which a condition does not come any more.
const PATIENCE_S: u32 = 600;

/// A kitchen with one refrigerator, an API server and a manager.
struct Kitchen {
    env: Env,
    server: FakeServer,
}

/// A write at which the manager's process is killed.
#[derive(Clone, Copy, Debug)]
struct Crash {
    /// Number of the write, from 1.
    write: usize,
    /// Whether the server gets the write. The manager never gets the answer.
    arrives: bool,
}

impl Kitchen {
    /// Begins with a closed door, four degrees inside, and everything off.
    fn new(seed: u64) -> Self {
        let env = Env::simulated(seed);
        let kitchen = Self { server: FakeServer::new(&env), env };
        let mut body = Refrigerator::new("home", "white", RefrigeratorSpec { room_celsius: 21.0 });
        body.status = Some(RefrigeratorStatus { celsius: 4.0 });
        kitchen.put(&body);
        kitchen.put(&Thermostat::new("home", "white", ThermostatSpec { target_celsius: 4.0 }));
        kitchen.put(&LightingSystem::new("home", "white", LightingSpec::default()));
        kitchen.put(&CoolingSystem::new("home", "white", CoolingSpec::default()));
        kitchen.turn_door(false);
        kitchen
    }

    fn put<K: Kind>(&self, object: &K) {
        self.server.put(&K::gvr().qualified_resource(), object.encode());
    }

    fn turn_door(&self, open: bool) {
        self.put(&Door::new("home", "white", DoorSpec { open }));
    }

    fn get<K: Kind>(&self) -> K {
        let object = self.server.get(&K::gvr().qualified_resource(), "home/white").unwrap();
        K::decode_value(object).unwrap()
    }

    /// Returns what is wanted of the light, and what it reports.
    fn light(&self) -> (bool, Option<bool>) {
        let light: LightingSystem = self.get();
        (light.spec.on, light.status.map(|status| status.on))
    }

    fn compressor(&self) -> (bool, Option<bool>) {
        let compressor: CoolingSystem = self.get();
        (compressor.spec.on, compressor.status.map(|status| status.on))
    }

    fn celsius(&self) -> f64 {
        self.get::<Refrigerator>().status.unwrap().celsius
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        for _ in 0..PATIENCE_S {
            if condition() {
                return;
            }
            self.env.sleep(Duration::from_secs(1)).await;
        }
        let lines: Vec<String> = self.server.requests().into_iter().map(|request| request.line).collect();
        panic!("in vain until {what}:\n{}", lines.join("\n"));
    }

    /// Keeps a manager running: after the crash, if there is one, another process goes on.
    fn run_manager(&self, mut crash: Option<Crash>) {
        let (env, server) = (self.env.clone(), self.server.clone());
        self.env.spawn(async move {
            for number in 1.. {
                let (process, crashed) = (env.process(&format!("manager/{number}")), Arc::new(Notify::new()));
                let service = crash.take().map(|crash| with_crash(&server, crash, crashed.clone()));
                let service = service.unwrap_or_else(|| server.service());
                process.spawn(manager::run(Client::from_service(&process, service, "refrigerator")));
                tokio::select! {
                    biased;
                    () = crashed.notified() => process.kill().await,
                    () = env.shutdown().cancelled() => return process.kill().await,
                }
            }
        });
    }

    /// Opens the door until the compressor runs, closes it, and waits until it is cold again.
    async fn story(&self) {
        let (on, off) = ((true, Some(true)), (false, Some(false)));
        self.until("all parts have reported", || self.light() == off && self.compressor() == off).await;
        self.turn_door(true);
        self.until("the light is on", || self.light() == on).await;
        self.until("the compressor runs", || self.compressor() == on).await;
        assert!(self.celsius() > 4.0, "{}", self.celsius());
        self.turn_door(false);
        self.until("the light is off", || self.light() == off).await;
        self.until("the compressor rests", || self.compressor() == off).await;
        assert!(self.celsius() < 4.0, "{}", self.celsius());
    }

    /// Returns the temperatures that were reported.
    fn temperatures(&self) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        let reports = requests.filter(|request| request.line.contains("/refrigerators/white/status"));
        reports.map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect()
    }

    fn writes(&self) -> usize {
        self.server.requests().iter().filter(|request| !request.line.starts_with("GET ")).count()
    }
}

/// Returns the server behind a connection that never answers the write of a crash.
fn with_crash(server: &FakeServer, crash: Crash, crashed: Arc<Notify>) -> HttpService {
    let (inner, writes) = (server.service(), Arc::new(AtomicUsize::new(0)));
    HttpService::new(tower::service_fn(move |request: http::Request<_>| {
        let (inner, writes, crashed) = (inner.clone(), writes.clone(), crashed.clone());
        async move {
            let is_write = request.method() != Method::GET;
            if !is_write || writes.fetch_add(1, Ordering::Relaxed) + 1 != crash.write {
                return inner.oneshot(request).await;
            }
            if crash.arrives {
                let _ = inner.oneshot(request).await;
            }
            crashed.notify_one();
            std::future::pending().await
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn the_light_follows_the_door_and_the_compressor_the_temperature() {
    let kitchen = Kitchen::new(1);
    kitchen.run_manager(None);
    kitchen.story().await;
    let of_light = "/lightingsystems/white";
    assert_eq!(kitchen.server.count(of_light), 5, "the first report, then on and off, each wanted and reported");
    for kind in ["refrigerators", "doors", "thermostats", "lightingsystems", "coolingsystems"] {
        let watches = kitchen.server.count(&format!("/{kind}?"));
        assert_eq!(watches, 1, "all controllers and parts share the list and watch of {kind}");
    }
    kitchen.env.drain().await;
}

#[tokio::test(start_paused = true)]
async fn at_room_temperature_nothing_is_written() {
    let kitchen = Kitchen::new(1);
    kitchen.put(&Thermostat::new("home", "white", ThermostatSpec { target_celsius: 30.0 }));
    kitchen.turn_door(true);
    kitchen.run_manager(None);
    kitchen.until("it is as warm as the room", || kitchen.celsius() > 20.5).await;
    kitchen.env.sleep(Duration::from_secs(600)).await;
    let before = kitchen.writes();
    kitchen.env.sleep(Duration::from_secs(3600)).await;
    assert_eq!(kitchen.writes(), before);
    kitchen.env.drain().await;
}

/// Lives through the story with a manager that crashes. Returns whether its writes reached the one to crash at.
async fn crashes(crash: Crash) -> bool {
    let kitchen = Kitchen::new(1);
    kitchen.run_manager(Some(crash));
    kitchen.story().await;
    kitchen.env.drain().await;
    // A second manager has its own watch.
    kitchen.server.count("/doors?") == 2
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_changes_nothing_in_the_end() {
    let mut write = 1;
    while crashes(Crash { write, arrives: false }).await | crashes(Crash { write, arrives: true }).await {
        write += 1;
    }
    assert!(write > 10, "the story has more writes than {write}");
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_its_draughts() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let kitchen = Kitchen::new(seed);
        kitchen.put(&Thermostat::new("home", "white", ThermostatSpec { target_celsius: 30.0 }));
        kitchen.turn_door(true);
        kitchen.run_manager(None);
        kitchen.until("twenty reports", || kitchen.temperatures().len() >= 20).await;
        kitchen.env.drain().await;
        runs.push(kitchen.temperatures()[..20].to_vec());
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2], "another seed, another draught");
}
