//! Tests authentication with every kind of credential, by a stock `kubectl` and kube-rs, and permissions of users.

use crate::{program, webhook_server};
use access::authn::service_account::ServiceAccountTokens;
use axum::body::Body;
use component_base::env::Env;
use component_base::json_web_token::SigningKey;
use component_base::kubeconfig::{self, Connection};
use component_base::network::HttpService;
use component_base::pki::Authority;
use component_base_testing::fixtures;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use http::{Request, Response};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use orrery::up::data_dir::DataDir;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, OnceLock};

const AUDIENCE: &str = "orrery-lab";

/// Starts an OpenID Connect issuer on loopback. Returns its URL.
async fn issuer(env: &Env, authority: &Authority) -> String {
    let keys = ServiceAccountTokens::new(fixtures::RSA_KEYS[0], &[], &[], Vec::new()).unwrap().jwks();
    let url = Arc::new(OnceLock::new());
    let own_url = url.clone();
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let own: &String = own_url.get().expect("no request arrives before the address is known");
        let body = match request.uri().path() {
            "/keys" => keys.to_string(),
            _ => json!({"issuer": own, "jwks_uri": format!("{own}/keys")}).to_string(),
        };
        async move { Ok::<_, Infallible>(Response::new(Body::from(body))) }
    }));
    let address = webhook_server::serve(env, authority, service).await;
    url.get_or_init(|| format!("https://{address}")).clone()
}

fn configuration(issuer: &str, ca_pem: &str) -> String {
    let ca = ca_pem.lines().map(|line| format!("      {line}\n")).collect::<String>();
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {issuer}\n    \
         audiences: [{AUDIENCE}]\n    certificateAuthority: |\n{ca}  claimMappings:\n    username: {{expression: \"'lab:' + \
         claims.sub\"}}\n    groups: {{claim: teams, prefix: 'lab:'}}\n"
    )
}

/// Returns the user name and the groups that the server authenticates, as both kubectl and kube-rs get them.
async fn whoami(connection: &Connection, directory: &Path) -> Result<(String, Vec<String>), String> {
    let path = directory.join("caller");
    kubeconfig::write(&path, connection, "orrery", "caller").unwrap();
    let printed = Kubectl::new(&path, directory).run("auth whoami -o json");
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(&path).unwrap(), &KubeConfigOptions::default())
            .await
            .unwrap();
    config.read_timeout = None;
    let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).unwrap());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    if !printed.success {
        assert!(review.is_err());
        return Err(printed.stderr);
    }
    let seen: Value = serde_json::from_str(&printed.stdout).unwrap();
    let user = review.unwrap().status.unwrap().user_info.unwrap();
    assert_eq!(seen["status"]["userInfo"]["username"], user.username.clone().unwrap());
    let mut groups = user.groups.unwrap_or_default();
    groups.retain(|group| group != "system:authenticated");
    Ok((user.username.unwrap(), groups))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_credential_authenticates_its_user() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system().child();
    let authority = Authority::load_or_create(&directory.path().join("issuer"), env.wall()).unwrap();
    let url = issuer(&env, &authority).await;
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tokens = write("tokens.csv", "static-token,bob,7,\"dev,ops\"\n");
    let config = write("authentication.yaml", &configuration(&url, &authority.cert_pem));
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let flags = [
        format!("--token-auth-file={tokens}"),
        format!("--authentication-config={config}"),
        "--enable-bootstrap-token-auth=true".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = ApiServer::start_in(program(), data_dir, Store::Memory, &flags).await;
    let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory.path());
    let (admin, home) = (&server.admin, directory.path());
    let bearing = |token: &str| Connection {
        server: admin.server.clone(),
        ca_pem: admin.ca_pem.clone(),
        token: Some(token.to_owned()),
        ..Connection::default()
    };

    kubectl.ok("create serviceaccount robot");
    let robot = kubectl.ok("create token robot --duration=10m");
    let foreign = kubectl.ok("create token robot --audience=vault");
    kubectl.ok("-n kube-system create secret generic bootstrap-token-abcdef --type=bootstrap.kubernetes.io/token \
         --from-literal=token-id=abcdef --from-literal=token-secret=0123456789abcdef \
         --from-literal=usage-bootstrap-authentication=true");
    let now_s = env.wall().as_second();
    let key = SigningKey::from_pem(fixtures::RSA_KEYS[0]).unwrap();
    let claims = |until_s: i64| json!({"iss": url, "aud": AUDIENCE, "sub": "ada", "teams": ["a"], "exp": until_s});
    let (lab, expired) = (key.sign(&claims(now_s + 600)).unwrap(), key.sign(&claims(now_s - 1)).unwrap());
    let forged = SigningKey::from_pem(fixtures::EC_KEYS[0]).unwrap().sign(&claims(now_s + 600)).unwrap();

    let known = |name: &str, groups: &[&str]| {
        Some((name.to_owned(), groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>()))
    };
    let accounts = ["system:serviceaccounts", "system:serviceaccounts:default"];
    for (what, connection, expected) in [
        ("a certificate", admin.clone(), known("kubernetes-admin", &["system:masters"])),
        ("a static token", bearing("static-token"), known("bob", &["dev", "ops"])),
        ("a service account's token", bearing(robot.trim()), known("system:serviceaccount:default:robot", &accounts)),
        (
            "a bootstrap token",
            bearing("abcdef.0123456789abcdef"),
            known("system:bootstrap:abcdef", &["system:bootstrappers"]),
        ),
        ("an issuer's token", bearing(&lab), known("lab:ada", &["lab:a"])),
        ("a token for somebody else", bearing(foreign.trim()), None),
        ("a token whose time has passed", bearing(&expired), None),
        ("a token that another key signed", bearing(&forged), None),
        ("a token that was cut", bearing(&robot.trim()[..robot.trim().len() - 9]), None),
    ] {
        let seen = whoami(&connection, home).await;
        match (&seen, expected) {
            (Ok(seen), Some(expected)) => assert_eq!(*seen, expected, "{what}"),
            (Err(refused), None) => assert!(refused.contains("must be logged in"), "{what}: {refused}"),
            _ => panic!("{what}: {seen:?}"),
        }
    }

    // A deleted account's token does not authenticate.
    kubectl.ok("delete serviceaccount robot");
    wait::until("the account's token is good for nothing", || {
        let path = home.join("gone");
        kubeconfig::write(&path, &bearing(robot.trim()), "orrery", "robot").unwrap();
        !Kubectl::new(&path, home).run("auth whoami").success
    });

    permissions(&kubectl, &bearing(&lab), home);
    env.drain().await;
}

/// Grants permissions with `auth reconcile`, and checks that the user has them and can list them.
fn permissions(kubectl: &Kubectl, caller: &Connection, home: &Path) {
    let path = home.join("lab");
    kubeconfig::write(&path, caller, "orrery", "lab").unwrap();
    let lab = Kubectl::new(&path, home);
    assert!(lab.fails("get configmaps").contains("User \"lab:ada\" cannot list resource \"configmaps\""));
    let api = "rbac.authorization.k8s.io";
    let grant = |verbs: &[&str]| {
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        let role = json!({
            "apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata("reader"),
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
        });
        let binding = json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata("readers"),
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "lab:a"}],
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string()
    };
    for verbs in [&["get", "list"][..], &["watch"]] {
        let printed = kubectl.with_input("auth reconcile -f -", &grant(verbs)).succeeded();
        assert!(printed.contains("role.rbac.authorization.k8s.io/reader reconciled"), "{printed}");
    }
    wait::until("the binding counts", || lab.run("get configmaps").success);
    let listed = lab.ok("auth can-i --list");
    // The second reconcile keeps the verbs of the first one.
    let row = listed.lines().find(|line| line.starts_with("configmaps ")).unwrap_or_default();
    assert!(["get", "list", "watch"].iter().all(|verb| row.contains(verb)), "{listed}");
    assert_eq!(lab.ok("auth can-i watch configmaps").trim(), "yes");
    assert_eq!(lab.run("auth can-i delete configmaps").stdout.trim(), "no");
}
