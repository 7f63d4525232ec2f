//! Runs the hooks of containers in their simulated processes: commands in their files, requests over their network.
//!
//! Corresponds to pkg/kubelet/lifecycle. When a hook ends, and whether it succeeds, `pod_life::handlers::hook` has decided
//! from the spec; here happens what others see of it.

use crate::runtime::container::{NodeContext, PodContainer};
use crate::runtime::run::Run;
use crate::runtime::switch;
use proto::Kind;
use proto::kinds::IntOrString;
use proto::kinds::api::core::v1::{HTTPGetAction, LifecycleHandler, Pod, PodStatus};
use std::sync::Arc;
use userland::network::fetch::{FetchOptions, fetch};
use userland::network::http::{Headers, Request};
use userland::network::url::Url;
use userland::process::kernel::Task;
use userland::process::signal::ExitStatus;
use userland::process::streams::Streams;

/// The two moments of a container's life that have hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    PostStart,
    PreStop,
}

/// Runs the hook of a container that runs, if it has one; `status` is that of its pod.
pub async fn run(node: &NodeContext<'_>, pod: &Arc<Pod>, status: &PodStatus, name: &str, moment: Moment) {
    let Some(container) = PodContainer::new(pod.clone(), status.clone(), name).filter(PodContainer::is_running) else {
        return;
    };
    let Some(handler) = handler(&container, moment).cloned() else { return };
    let Some(Ok(run)) = container.container_status().map(|status| Run::of(status, pod.name(), false)) else { return };
    let processes = container.processes(node, &run).await;
    let key = container.key(&run);
    switch::advance(node, &container, &key, &processes).await;
    let streams = Streams::of_client(false, false);
    let started = match (&handler.exec, &handler.http_get) {
        (Some(exec), _) => processes.lock().start(exec.command.clone().unwrap_or_default(), streams),
        (None, Some(http)) => match request(&container, http) {
            Some((url, request)) => {
                let get = move |mut proc| -> Task {
                    Box::pin(async move {
                        // Nobody reads the answer.
                        let _ = fetch(&mut proc, &url, &request, &FetchOptions::default()).await;
                        ExitStatus::Code(0)
                    })
                };
                processes.lock().start_task(vec!["hook".to_owned()], streams, get)
            }
            None => None,
        },
        _ => None,
    };
    if started.is_some() {
        node.runtime.touch(&key);
        switch::advance(node, &container, &key, &processes).await;
    }
}

fn handler(container: &PodContainer, moment: Moment) -> Option<&LifecycleHandler> {
    let lifecycle = container.container.lifecycle.as_ref()?;
    match moment {
        Moment::PostStart => lifecycle.post_start.as_ref(),
        Moment::PreStop => lifecycle.pre_stop.as_ref(),
    }
}

/// Returns where a request goes: to the pod itself, unless it names a host.
fn request(container: &PodContainer, http: &HTTPGetAction) -> Option<(Url, Request)> {
    let port = match &http.port {
        IntOrString::Int(port) => u16::try_from(*port).ok()?,
        IntOrString::String(name) => {
            let named = container.container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            u16::try_from(named?.container_port).ok()?
        }
    };
    let host = http.host.clone().or_else(|| container.addresses().first().map(ToString::to_string))?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let path = http.path.as_deref().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let scheme = http.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let url = Url::parse(&format!("{scheme}://{host}:{port}{path}"))?;
    let own = [("Host", format!("{host}:{port}")), ("User-Agent", "kube-lifecycle/".to_owned())];
    let given = http.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    let headers = own.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(given).collect();
    let target = url.target.clone();
    let version = "HTTP/1.1".to_owned();
    Some((url, Request { method: "GET".to_owned(), target, version, headers: Headers(headers), body: Vec::new() }))
}
