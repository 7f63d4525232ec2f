//! Makes objects from the words and flags of `kubectl create KIND NAME --flags`.
//!
//! Corresponds to k8s.io/kubectl/pkg/cmd/create. A pure function.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

/// Flags of `kubectl create` about the object.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Objects without a file, as of kubectl create")]
pub struct Flags {
    /// Image of a container (deployment, job, cronjob)
    #[arg(long, value_name = "IMAGE")]
    pub image: Vec<String>,
    /// How many pods (deployment)
    #[arg(long, short, value_name = "N")]
    pub replicas: Option<i32>,
    /// Port of the container (deployment)
    #[arg(long, value_name = "PORT")]
    pub port: Option<i32>,
    /// When it runs (cronjob)
    #[arg(long, value_name = "CRON")]
    pub schedule: Option<String>,
    /// One entry (configmap, secret generic)
    #[arg(long, value_name = "KEY=VALUE")]
    pub from_literal: Vec<String>,
    /// Port, and where it leads (service)
    #[arg(long, value_name = "PORT[:TARGET]")]
    pub tcp: Vec<String>,
    /// Name that it stands for (service externalname)
    #[arg(long, value_name = "NAME")]
    pub external_name: Option<String>,
    /// What may be done (role, clusterrole)
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    pub verb: Vec<String>,
    /// With what (role, clusterrole)
    #[arg(long, value_name = "RESOURCE[.GROUP]", value_delimiter = ',')]
    pub resource: Vec<String>,
    /// Which role is given (rolebinding)
    #[arg(long, value_name = "NAME", conflicts_with = "clusterrole")]
    pub role: Option<String>,
    /// Which cluster role is given (rolebinding, clusterrolebinding)
    #[arg(long, value_name = "NAME")]
    pub clusterrole: Option<String>,
    /// To whom (rolebinding, clusterrolebinding)
    #[arg(long, value_name = "USER")]
    pub user: Vec<String>,
    /// To whom (rolebinding, clusterrolebinding)
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
    /// To whom (rolebinding, clusterrolebinding)
    #[arg(long, value_name = "NAMESPACE:NAME")]
    pub serviceaccount: Vec<String>,
    /// What the container runs (deployment, job, cronjob)
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The reason why no object was made, in one line.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum MadeError {
    #[error(
        "{0} cannot be made of words; write `kubectl create {0} … --dry-run=client -o yaml | orrery trace request create -f -`"
    )]
    Unknown(String),
    #[error("say its name: create {0} NAME")]
    NoName(String),
    #[error("create {kind}: {word:?} is one word too many")]
    Surplus { kind: String, word: String },
    #[error("create {kind}: it needs --{flag}")]
    NoFlag { kind: String, flag: &'static str },
    #[error("--{flag}: {text:?} is no {wanted}")]
    Flag { flag: &'static str, text: String, wanted: &'static str },
}

/// Makes the object that these words describe. `group_of` returns the API group of a resource.
pub fn object(
    kind: &str,
    words: &[String],
    flags: &Flags,
    group_of: impl Fn(&str) -> Option<String>,
) -> Result<Value, MadeError> {
    let of_two_words = matches!(kind, "service" | "svc" | "secret");
    let (kind, words) = match words {
        [second, rest @ ..] if of_two_words => (format!("{kind} {second}"), rest),
        words => (kind.to_owned(), words),
    };
    let maker = Maker { kind: &kind, flags };
    let make: &dyn Fn(&str) -> Result<Value, MadeError> = match kind.as_str() {
        "namespace" | "ns" => &|name| Ok(plain("v1", "Namespace", name)),
        "serviceaccount" | "sa" => &|name| Ok(plain("v1", "ServiceAccount", name)),
        "configmap" | "cm" => &|name| maker.config_map(name),
        "secret generic" => &|name| maker.secret(name),
        "deployment" | "deploy" => &|name| maker.deployment(name),
        "job" => &|name| maker.job(name),
        "cronjob" | "cj" => &|name| maker.cron_job(name),
        "service clusterip" | "svc clusterip" => &|name| maker.service(name, "ClusterIP"),
        "service nodeport" | "svc nodeport" => &|name| maker.service(name, "NodePort"),
        "service loadbalancer" | "svc loadbalancer" => &|name| maker.service(name, "LoadBalancer"),
        "service externalname" | "svc externalname" => &|name| maker.service(name, "ExternalName"),
        "role" => &|name| maker.role(name, "Role", &group_of),
        "clusterrole" => &|name| maker.role(name, "ClusterRole", &group_of),
        "rolebinding" => &|name| maker.role_binding(name, "RoleBinding"),
        "clusterrolebinding" => &|name| maker.role_binding(name, "ClusterRoleBinding"),
        _ => return Err(MadeError::Unknown(kind)),
    };
    match words {
        [] => Err(MadeError::NoName(kind.clone())),
        [name] => make(name),
        [_, word, ..] => Err(MadeError::Surplus { kind: kind.clone(), word: word.clone() }),
    }
}

fn plain(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

struct Maker<'a> {
    kind: &'a str,
    flags: &'a Flags,
}

impl Maker<'_> {
    fn needed<T>(&self, flag: &'static str, value: Option<T>) -> Result<T, MadeError> {
        value.ok_or_else(|| MadeError::NoFlag { kind: self.kind.to_owned(), flag })
    }

    fn literals(&self, encode: impl Fn(&str) -> String) -> Result<Value, MadeError> {
        let mut data = Map::new();
        for text in &self.flags.from_literal {
            let wanted = || MadeError::Flag { flag: "from-literal", text: text.clone(), wanted: "KEY=VALUE" };
            let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(wanted)?;
            data.insert(key.to_owned(), encode(value).into());
        }
        Ok(Value::Object(data))
    }

    fn config_map(&self, name: &str) -> Result<Value, MadeError> {
        let mut made = plain("v1", "ConfigMap", name);
        made["data"] = self.literals(str::to_owned)?;
        Ok(made)
    }

    fn secret(&self, name: &str) -> Result<Value, MadeError> {
        let mut made = plain("v1", "Secret", name);
        made["type"] = json!("Opaque");
        made["data"] = self.literals(|value| STANDARD.encode(value))?;
        Ok(made)
    }

    fn container(&self, name: &str, image: &str) -> Value {
        let mut container = json!({"name": name, "image": image});
        if !self.flags.command.is_empty() {
            container["command"] = json!(self.flags.command);
        }
        container
    }

    fn deployment(&self, name: &str) -> Result<Value, MadeError> {
        self.needed("image", self.flags.image.first())?;
        let mut containers: Vec<Value> =
            self.flags.image.iter().map(|image| self.container(&container_name(image), image)).collect();
        if let Some(port) = self.flags.port {
            containers[0]["ports"] = json!([{"containerPort": port}]);
        }
        let labels = json!({"app": name});
        let mut made = plain("apps/v1", "Deployment", name);
        made["metadata"]["labels"] = labels.clone();
        made["spec"] = json!({
            "replicas": self.flags.replicas.unwrap_or(1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        });
        Ok(made)
    }

    fn pod_of_job(&self, name: &str, restart_policy: &str) -> Result<Value, MadeError> {
        let image = self.needed("image", self.flags.image.first())?;
        Ok(json!({"spec": {"restartPolicy": restart_policy, "containers": [self.container(name, image)]}}))
    }

    fn job(&self, name: &str) -> Result<Value, MadeError> {
        let mut made = plain("batch/v1", "Job", name);
        made["spec"] = json!({"template": self.pod_of_job(name, "Never")?});
        Ok(made)
    }

    fn cron_job(&self, name: &str) -> Result<Value, MadeError> {
        let schedule = self.needed("schedule", self.flags.schedule.as_ref())?;
        let template = self.pod_of_job(name, "OnFailure")?;
        let mut made = plain("batch/v1", "CronJob", name);
        made["spec"] =
            json!({"schedule": schedule, "jobTemplate": {"metadata": {"name": name}, "spec": {"template": template}}});
        Ok(made)
    }

    fn service(&self, name: &str, service_type: &str) -> Result<Value, MadeError> {
        let ports = self.flags.tcp.iter().map(|text| port(text)).collect::<Result<Vec<Value>, _>>()?;
        let labels = json!({"app": name});
        let mut made = plain("v1", "Service", name);
        made["metadata"]["labels"] = labels.clone();
        made["spec"] = json!({"type": service_type, "selector": labels});
        if service_type == "ExternalName" {
            made["spec"]["externalName"] = json!(self.needed("external-name", self.flags.external_name.as_ref())?);
        } else {
            self.needed("tcp", ports.first())?;
        }
        if !ports.is_empty() {
            made["spec"]["ports"] = Value::Array(ports);
        }
        Ok(made)
    }

    fn role(&self, name: &str, kind: &str, group_of: impl Fn(&str) -> Option<String>) -> Result<Value, MadeError> {
        self.needed("verb", self.flags.verb.first())?;
        self.needed("resource", self.flags.resource.first())?;
        let mut rules: Vec<(String, Vec<&str>)> = Vec::new();
        for text in &self.flags.resource {
            let (resource, group) = match text.split_once('.') {
                Some((resource, group)) => (resource, group.to_owned()),
                None => {
                    let whole = text.split('/').next().unwrap_or_default();
                    let unknown =
                        || MadeError::Flag { flag: "resource", text: text.clone(), wanted: "resource of the server" };
                    (text.as_str(), group_of(whole).ok_or_else(unknown)?)
                }
            };
            match rules.iter_mut().find(|(known, _)| *known == group) {
                Some((_, resources)) => resources.push(resource),
                None => rules.push((group, vec![resource])),
            }
        }
        let rule = |(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": self.flags.verb});
        let mut made = plain("rbac.authorization.k8s.io/v1", kind, name);
        made["rules"] = rules.into_iter().map(rule).collect();
        Ok(made)
    }

    fn role_binding(&self, name: &str, kind: &str) -> Result<Value, MadeError> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let Flags { role, clusterrole, user, group, serviceaccount, .. } = self.flags;
        let named = match (role, clusterrole) {
            (Some(role), _) if kind == "RoleBinding" => ("Role", role),
            (_, clusterrole) => ("ClusterRole", self.needed("clusterrole", clusterrole.as_ref())?),
        };
        let people = [("User", user), ("Group", group)];
        let mut subjects: Vec<Value> = people
            .into_iter()
            .flat_map(|(kind, names)| {
                names.iter().map(move |name| json!({"apiGroup": GROUP, "kind": kind, "name": name}))
            })
            .collect();
        for text in serviceaccount {
            let wanted = || MadeError::Flag { flag: "serviceaccount", text: text.clone(), wanted: "NAMESPACE:NAME" };
            let (namespace, name) = text.split_once(':').ok_or_else(wanted)?;
            subjects.push(json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
        }
        let mut made = plain(&format!("{GROUP}/v1"), kind, name);
        made["roleRef"] = json!({"apiGroup": GROUP, "kind": named.0, "name": named.1});
        made["subjects"] = Value::Array(subjects);
        Ok(made)
    }
}

/// Parses `80` or `80:http` into a port with kubectl's name for it.
fn port(text: &str) -> Result<Value, MadeError> {
    let wanted = || MadeError::Flag { flag: "tcp", text: text.to_owned(), wanted: "PORT or PORT:TARGET" };
    let (port, target) = text.split_once(':').unwrap_or((text, text));
    let number: u16 = port.parse().map_err(|_| wanted())?;
    let target = target.parse::<u16>().map_or_else(|_| json!(target), |number| json!(number));
    Ok(json!({"name": text.replace(':', "-"), "protocol": "TCP", "port": number, "targetPort": target}))
}

/// Returns `nginx` for `registry.example:5000/library/nginx:1.27@sha256:…`.
fn container_name(image: &str) -> String {
    let base = image.rsplit('/').next().unwrap_or_default();
    let name = base.split([':', '@']).next().unwrap_or_default();
    let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    letters.collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        kind: String,
        words: Vec<String>,
        #[command(flatten)]
        flags: Flags,
    }

    fn made(line: &str) -> Result<Value, MadeError> {
        let line = Line::try_parse_from(format!("create {line}").split_whitespace()).unwrap();
        let group_of = |resource: &str| match resource {
            "pods" => Some(String::new()),
            "deployments" => Some("apps".to_owned()),
            _ => None,
        };
        object(&line.kind, &line.words, &line.flags, group_of)
    }

    #[test]
    fn words_make_what_kubectl_makes() {
        let web = json!({"app": "web"});
        let cases = [
            ("namespace shop", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})),
            (
                "configmap c --from-literal=a=1 --from-literal=b=x=y",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "x=y"}}),
            ),
            (
                "secret generic s --from-literal=a=1",
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque",
                       "data": {"a": "MQ=="}}),
            ),
            (
                "deployment web --image=r.example:5000/a/Ng_inx:1.27 --replicas 2 --port=80",
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": web},
                       "spec": {"replicas": 2, "selector": {"matchLabels": web}, "template": {
                           "metadata": {"labels": web}, "spec": {"containers": [{
                               "name": "ng-inx", "image": "r.example:5000/a/Ng_inx:1.27",
                               "ports": [{"containerPort": 80}]}]}}}}),
            ),
            (
                "job j --image=busybox -- sleep 5",
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {
                       "spec": {"restartPolicy": "Never",
                                "containers": [{"name": "j", "image": "busybox", "command": ["sleep", "5"]}]}}}}),
            ),
            (
                "service nodeport web --tcp=80:http",
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": web},
                       "spec": {"type": "NodePort", "selector": web, "ports": [
                           {"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}]}}),
            ),
            (
                "role r --verb=get,list --resource=pods,deployments,pods/log",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [
                       {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
                       {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}]}),
            ),
            (
                "rolebinding b --clusterrole=edit --user=ann --serviceaccount=shop:bot",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
                       "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                       "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"},
                                    {"kind": "ServiceAccount", "namespace": "shop", "name": "bot"}]}),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(made(line), Ok(expected), "{line}");
        }
        let cron_job = made("cronjob c --image=i --schedule=@daily").unwrap();
        assert_eq!(cron_job["spec"]["schedule"], "@daily");
        assert_eq!(cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"], "OnFailure");
    }

    #[test]
    fn what_cannot_be_made_is_said_with_what_to_write() {
        let cases = [
            (
                "quota q",
                "quota cannot be made of words; write `kubectl create quota … --dry-run=client -o yaml | orrery trace \
                 request create -f -`",
            ),
            ("deployment", "say its name: create deployment NAME"),
            ("deployment web", "create deployment: it needs --image"),
            ("deployment web two --image=i", "create deployment: \"two\" is one word too many"),
            ("secret generic", "say its name: create secret generic NAME"),
            ("configmap c --from-literal=a", "--from-literal: \"a\" is no KEY=VALUE"),
            ("service clusterip s --tcp=http", "--tcp: \"http\" is no PORT or PORT:TARGET"),
            ("role r --verb=get --resource=cats", "--resource: \"cats\" is no resource of the server"),
            ("clusterrolebinding b --role=r", "create clusterrolebinding: it needs --clusterrole"),
        ];
        for (line, expected) in cases {
            assert_eq!(made(line).unwrap_err().to_string(), expected, "{line}");
        }
    }
}
