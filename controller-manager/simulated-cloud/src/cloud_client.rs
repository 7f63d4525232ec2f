//! `CloudClient`: calls the cloud's API, over the network or in the same process.

use crate::model::{
    Backends, GroupSize, Items, LoadBalancer, LoadBalancerSpec, Machine, Power, PowerChange, Route, Settings,
    SizedGroup,
};
use crate::problem::{Problem, Reason};
use client::Client;
use client::request::Target;
use component_base::http::{Body, read_all};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Time that a request may take; a cloud that does not answer is one that failed.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Clones share the connection.
#[derive(Clone, Debug)]
pub struct CloudClient {
    client: Client,
}

impl CloudClient {
    /// `client` is connected to the cloud, not to an API server.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    pub async fn machines(&self) -> Result<Vec<Machine>, Problem> {
        self.list("machines").await
    }

    /// Returns a machine; `None` if there is none of this name.
    pub async fn machine(&self, name: &str) -> Result<Option<Machine>, Problem> {
        absent_as_none(self.send(Method::GET, path(&["machines", name]), None).await)
    }

    pub async fn set_power(&self, name: &str, power: Power) -> Result<(), Problem> {
        self.put(path(&["machines", name, "power"]), &PowerChange { power }).await
    }

    pub async fn delete_machine(&self, name: &str) -> Result<(), Problem> {
        self.delete(path(&["machines", name])).await
    }

    pub async fn groups(&self) -> Result<Vec<SizedGroup>, Problem> {
        self.list("groups").await
    }

    pub async fn scale(&self, group: &str, size: u32) -> Result<(), Problem> {
        self.put(path(&["groups", group, "size"]), &GroupSize { size }).await
    }

    pub async fn load_balancers(&self) -> Result<Vec<LoadBalancer>, Problem> {
        self.list("loadbalancers").await
    }

    /// Returns a load balancer; `None` if there is none of this name.
    pub async fn load_balancer(&self, name: &str) -> Result<Option<LoadBalancer>, Problem> {
        absent_as_none(self.send(Method::GET, path(&["loadbalancers", name]), None).await)
    }

    pub async fn put_load_balancer(&self, name: &str, spec: &LoadBalancerSpec) -> Result<(), Problem> {
        self.put(path(&["loadbalancers", name]), spec).await
    }

    pub async fn set_backends(&self, name: &str, backends: &[String]) -> Result<(), Problem> {
        self.put(path(&["loadbalancers", name, "backends"]), &Backends { backends: backends.to_vec() }).await
    }

    pub async fn delete_load_balancer(&self, name: &str) -> Result<(), Problem> {
        self.delete(path(&["loadbalancers", name])).await
    }

    pub async fn routes(&self) -> Result<Vec<Route>, Problem> {
        self.list("routes").await
    }

    pub async fn put_route(&self, route: &Route) -> Result<(), Problem> {
        self.put(path(&["routes", &route.name]), route).await
    }

    pub async fn delete_route(&self, name: &str) -> Result<(), Problem> {
        self.delete(path(&["routes", name])).await
    }

    /// Changes the settings that `changes` names, and returns all.
    pub async fn change_settings(&self, changes: &Value) -> Result<Settings, Problem> {
        self.send(Method::PUT, path(&["settings"]), Some(changes.to_string())).await
    }

    async fn list<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<T>, Problem> {
        let list: Items<T> = self.send(Method::GET, path(&[kind]), None).await?;
        Ok(list.items)
    }

    async fn put<T: Serialize>(&self, path: String, body: &T) -> Result<(), Problem> {
        let body = serde_json::to_string(body).expect("bodies of requests are plain data");
        self.send::<Value>(Method::PUT, path, Some(body)).await.map(drop)
    }

    async fn delete(&self, path: String) -> Result<(), Problem> {
        self.send::<Value>(Method::DELETE, path, None).await.map(drop)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<String>,
    ) -> Result<T, Problem> {
        let request = Request::builder().method(method).uri(&path).header(CONTENT_TYPE, "application/json");
        let request = request.body(body.map_or_else(Body::empty, Body::from)).map_err(unavailable)?;
        let answered = async {
            let answer = self.client.send(request).await.map_err(unavailable)?;
            let code = answer.status();
            let body = read_all(answer.into_body(), MAX_ANSWER_BYTES).await.map_err(unavailable)?;
            if code.is_success() {
                return serde_json::from_slice(&body).map_err(unavailable);
            }
            // What is no answer of the cloud itself comes from the gate before it.
            Err(serde_json::from_slice::<Problem>(&body).unwrap_or_else(|_| refused(code.as_u16(), &body)))
        };
        self.client.env().timeout(TIME_LIMIT, answered).await.unwrap_or_else(|elapsed| Err(unavailable(elapsed)))
    }
}

fn path(segments: &[&str]) -> String {
    segments.iter().fold(Target::new("/v1".to_owned()), |target, segment| target.segment(segment)).into_string()
}

fn unavailable(error: impl std::fmt::Display) -> Problem {
    Problem::unavailable(error.to_string())
}

fn refused(code: u16, body: &[u8]) -> Problem {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(|| format!("answer {code}"), str::to_owned);
    let reason = if matches!(code, 401 | 403) { Reason::Unauthorized } else { Reason::Unavailable };
    Problem::new(reason, message)
}

fn absent_as_none<T>(found: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match found {
        Err(problem) if problem.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Cloud, Site};
    use crate::model::{BalancedPort, Holdings, NodeGroup};
    use crate::routes::routes;
    use crate::running::RunningCloud;
    use crate::state_file::StateFile;
    use component_base::env::Env;
    use component_base::http::HttpService;
    use serde_json::json;

    fn cloud(env: &Env) -> (RunningCloud, CloudClient) {
        let mut cloud = Cloud::new(Site::default(), Holdings::default());
        let group = NodeGroup { name: "node".into(), min: 0, max: 4, initial: 2, instance_type: "small".into() };
        cloud.set_up_group(group).unwrap();
        let running = RunningCloud::new(env, cloud, StateFile::new(None));
        let client = Client::from_service(env, HttpService::new(routes(running.clone())), "test");
        (running, CloudClient::new(&client))
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_asks_for_is_there_for_the_next_one() {
        let env = Env::simulated(1);
        let (_cloud, client) = cloud(&env);
        client.scale("node", 3).await.unwrap();
        client.set_power("node-1", Power::Stopped).await.unwrap();
        let machines = client.machines().await.unwrap();
        let powers: Vec<_> = machines.iter().map(|machine| (machine.name.as_str(), machine.power)).collect();
        let expected = [("node-0", Power::Running), ("node-1", Power::Stopped), ("node-2", Power::Running)];
        assert_eq!(powers, expected);
        client.delete_machine("node-1").await.unwrap();
        assert_eq!(client.machine("node-1").await.unwrap(), None);

        let port = BalancedPort { name: "http".into(), protocol: "TCP".into(), port: 80, node_port: Some(30080) };
        let spec = LoadBalancerSpec { ports: vec![port], ..LoadBalancerSpec::default() };
        client.put_load_balancer("a", &spec).await.unwrap();
        client.set_backends("a", &["node-0".to_owned()]).await.unwrap();
        let balancer = client.load_balancer("a").await.unwrap().unwrap();
        assert_eq!(
            (balancer.address.to_string(), balancer.spec.backends),
            ("203.0.113.1".into(), vec!["node-0".into()])
        );
        assert_eq!(client.load_balancers().await.unwrap().len(), 1);
        client.delete_load_balancer("a").await.unwrap();
        assert_eq!(client.load_balancer("a").await.unwrap(), None);

        let route = Route { name: "r".into(), destination: "10.244.0.0/24".into(), machine: "node-0".into() };
        client.put_route(&route).await.unwrap();
        assert_eq!(client.routes().await.unwrap(), [route]);
        client.delete_route("r").await.unwrap();
        assert!(client.routes().await.unwrap().is_empty());
        let refused = client.scale("node", 9).await.unwrap_err().to_string();
        assert_eq!(refused, r#"Invalid: size 9 of node group "node" is not from 0 to 4"#);
    }

    #[tokio::test(start_paused = true)]
    async fn settings_slow_the_cloud_down_and_let_it_fail() {
        let env = Env::simulated(1);
        let (running, client) = cloud(&env);
        let before = env.now();
        let settings = client.change_settings(&json!({"latencyMs": 2000})).await.unwrap();
        assert_eq!((settings.latency_ms, settings.load_balancer_quota), (2000, 100));
        client.machines().await.unwrap();
        assert_eq!(env.now().duration_since(before), Duration::from_secs(2));

        client.change_settings(&json!({"latencyMs": 0, "faultRate": 1})).await.unwrap();
        for size in 1..20 {
            let failed = client.scale("node", size % 4).await.unwrap_err();
            assert_eq!(failed.reason, Reason::Unavailable);
        }
        // Some of the failed requests were carried out all the same.
        let sizes = running.look(|cloud| cloud.groups()[0].size);
        client.change_settings(&json!({"faultRate": 0})).await.unwrap();
        assert_eq!(client.groups().await.unwrap()[0].size, sizes);
        let wrong = client.change_settings(&json!({"faultRate": 2})).await.unwrap_err().to_string();
        assert_eq!(wrong, "Invalid: faultRate must be from 0 to 1");
        let unknown = client.change_settings(&json!({"speed": 2})).await.unwrap_err();
        assert_eq!(unknown.reason, Reason::Invalid);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_that_takes_too_long_has_failed() {
        let env = Env::simulated(1);
        let (_cloud, client) = cloud(&env);
        client.change_settings(&json!({"latencyMs": 60_000})).await.unwrap();
        assert_eq!(client.machines().await.unwrap_err().reason, Reason::Unavailable);
    }
}
