//! The paths of the cloud's API. docs/cloud.md describes them.

use crate::model::{
    Backends, GroupSize, Items, LoadBalancer, LoadBalancerSpec, Machine, PowerChange, Route, Settings, SizedGroup,
};
use crate::problem::{Problem, Reason};
use crate::running::RunningCloud;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::{get, put};
use http::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Answer = Result<Response<Body>, Problem>;
type Shared = State<RunningCloud>;

/// Returns the API. `/v1/settings` has neither latency nor faults, so that both can be switched off.
pub fn routes(cloud: RunningCloud) -> Router {
    Router::new()
        .route("/v1/machines", get(machines))
        .route("/v1/machines/{name}", get(machine).delete(delete_machine))
        .route("/v1/machines/{name}/power", put(set_power))
        .route("/v1/groups", get(groups))
        .route("/v1/groups/{name}/size", put(scale))
        .route("/v1/loadbalancers", get(load_balancers))
        .route("/v1/loadbalancers/{name}", get(load_balancer).put(put_load_balancer).delete(delete_load_balancer))
        .route("/v1/loadbalancers/{name}/backends", put(set_backends))
        .route("/v1/routes", get(route_table))
        .route("/v1/routes/{name}", put(put_route).delete(delete_route))
        .route("/v1/settings", get(settings).put(set_settings))
        .with_state(cloud)
}

async fn machines(State(cloud): Shared) -> Answer {
    list(cloud.read(|cloud| Ok(cloud.holdings().machines.values().cloned().collect::<Vec<Machine>>())).await?)
}

async fn machine(State(cloud): Shared, Path(name): Path<String>) -> Answer {
    send(cloud.read(|cloud| cloud.machine(&name).cloned()).await?)
}

async fn delete_machine(State(cloud): Shared, Path(name): Path<String>) -> Answer {
    cloud.change(|cloud| cloud.delete_machine(&name)).await?;
    done()
}

async fn set_power(State(cloud): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let PowerChange { power } = read(&body)?;
    cloud.change(|cloud| cloud.set_power(&name, power)).await?;
    done()
}

async fn groups(State(cloud): Shared) -> Answer {
    list::<SizedGroup>(cloud.read(|cloud| Ok(cloud.groups())).await?)
}

async fn scale(State(cloud): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let GroupSize { size } = read(&body)?;
    cloud.change(|cloud| cloud.scale(&name, size)).await?;
    done()
}

async fn load_balancers(State(cloud): Shared) -> Answer {
    let all = cloud.read(|cloud| Ok(cloud.holdings().load_balancers.values().cloned().collect()));
    list::<LoadBalancer>(all.await?)
}

async fn load_balancer(State(cloud): Shared, Path(name): Path<String>) -> Answer {
    send(cloud.read(|cloud| cloud.load_balancer(&name).cloned()).await?)
}

async fn put_load_balancer(State(cloud): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let spec: LoadBalancerSpec = read(&body)?;
    cloud.change(|cloud| cloud.put_load_balancer(&name, spec)).await?;
    done()
}

async fn set_backends(State(cloud): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let Backends { backends } = read(&body)?;
    cloud.change(|cloud| cloud.set_backends(&name, backends)).await?;
    done()
}

async fn delete_load_balancer(State(cloud): Shared, Path(name): Path<String>) -> Answer {
    cloud.change(|cloud| cloud.delete_load_balancer(&name)).await?;
    done()
}

async fn route_table(State(cloud): Shared) -> Answer {
    list::<Route>(cloud.read(|cloud| Ok(cloud.holdings().routes.values().cloned().collect())).await?)
}

async fn put_route(State(cloud): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let route: Route = read(&body)?;
    if route.name != name {
        return Err(Problem::new(Reason::Invalid, format!("name must be {name:?}, as in the path")));
    }
    cloud.change(|cloud| cloud.put_route(route)).await?;
    done()
}

async fn delete_route(State(cloud): Shared, Path(name): Path<String>) -> Answer {
    cloud.change(|cloud| cloud.delete_route(&name)).await?;
    done()
}

async fn settings(State(cloud): Shared) -> Answer {
    send(cloud.look(|cloud| cloud.holdings().settings.clone()))
}

/// Changes the settings that the body names.
async fn set_settings(State(cloud): Shared, body: Bytes) -> Answer {
    let changes: Value = read(&body)?;
    let present = cloud.look(|cloud| cloud.holdings().settings.clone());
    let settings = changed(&present, &changes)?;
    cloud.change_at_once(|cloud| cloud.set_settings(settings.clone()))?;
    send(settings)
}

fn changed(present: &Settings, changes: &Value) -> Result<Settings, Problem> {
    let invalid = |message: String| Problem::new(Reason::Invalid, message);
    let mut whole = json!(present);
    let changes = changes.as_object().ok_or_else(|| invalid("settings must be an object".to_owned()))?;
    for (name, value) in changes {
        whole[name] = value.clone();
    }
    serde_json::from_value(whole).map_err(|error| invalid(error.to_string()))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::new(Reason::Invalid, error.to_string()))
}

fn send<T: Serialize>(value: T) -> Answer {
    Ok(axum::Json(value).into_response())
}

fn list<T: Serialize>(items: Vec<T>) -> Answer {
    send(Items { items })
}

fn done() -> Answer {
    send(json!({}))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let code = StatusCode::from_u16(self.reason.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, axum::Json(self)).into_response()
    }
}
