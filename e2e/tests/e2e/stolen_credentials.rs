//! Tests that stolen, altered and expired credentials are refused, and that no request gets another identity than its
//! own.

use crate::{program, webhook_server};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use client::Client;
use component_base::env::Env;
use component_base::json_web_token::SigningKey;
use component_base::kubeconfig::{self, Connection};
use component_base::network::HttpService;
use component_base::pki::Authority;
use component_base_testing::fixtures;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use e2e::wait;
use futures::future::join_all;
use http::{Request, Response, StatusCode};
use orrery::up::data_dir::DataDir;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ROBOT: &str = "system:serviceaccount:default:robot";

/// Returns a SelfSubjectReview request, which is answered with the authenticated user.
fn who() -> RawRequest {
    RawRequest::post(WHO, json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string())
}

/// Returns a SelfSubjectReview request with a bearer token.
fn bearing(token: &str) -> RawRequest {
    who().header("authorization", &format!("Bearer {token}"))
}

/// Returns the user name, or the code of the refusal.
fn name(answer: &Answer) -> Result<String, u16> {
    let name = answer.body["status"]["userInfo"]["username"].as_str();
    if answer.code == 201 { Ok(name.expect("everybody has one").to_owned()) } else { Err(answer.code) }
}

struct Server {
    server: ApiServer,
    kubectl: Kubectl,
    /// Client without a certificate.
    stranger: Client,
}

impl Server {
    async fn start(directory: &Path, flags: &[&str]) -> Self {
        let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
        let server = ApiServer::start_in(program(), data_dir, Store::Memory, flags).await;
        let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory);
        let nobody = Connection { client_cert_pem: None, client_key_pem: None, ..server.admin.clone() };
        let stranger = server.client(&nobody);
        Self { server, kubectl, stranger }
    }

    async fn name(&self, token: &str) -> Result<String, u16> {
        name(&bearing(token).send(&self.stranger).await.unwrap())
    }
}

/// Objects that a token can be bound to: flags of `kubectl create token`, the object's name, and its manifest.
const BOUND: [(&str, &str, &str); 4] = [
    ("", "serviceaccount/robot", r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}"#),
    (
        "--bound-object-kind=Pod --bound-object-name=p",
        "pod/p",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#,
    ),
    (
        "--bound-object-kind=Secret --bound-object-name=s",
        "secret/s",
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#,
    ),
    (
        "--bound-object-kind=Node --bound-object-name=n",
        "node/n",
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#,
    ),
];

#[tokio::test]
async fn a_token_is_refused_once_its_bound_object_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    let kubectl = &server.kubectl;
    let make = |object: &str| kubectl.with_input("create -f -", object).succeeded();
    make(BOUND[0].2);
    for (bound, object, manifest) in BOUND.iter().rev() {
        if *object != "serviceaccount/robot" {
            make(manifest);
        }
        let token = || kubectl.ok(&format!("create token robot {bound}")).trim().to_owned();
        let old = token();
        assert_eq!(server.name(&old).await, Ok(ROBOT.to_owned()), "{object}");
        kubectl.ok(&format!("delete {object} --grace-period=0 --force"));
        let gone = async || server.name(&old).await == Err(401);
        wait::until_async(&format!("the token of {object} is good for nothing"), gone).await;
        // A new object of the same name has another UID.
        make(manifest);
        let new = token();
        let known = async || server.name(&new).await == Ok(ROBOT.to_owned());
        wait::until_async(&format!("the token of the new {object} is known"), known).await;
        assert_eq!(server.name(&old).await, Err(401), "{object} was made anew");
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": old},
        });
        let review = RawRequest::post("/apis/authentication.k8s.io/v1/tokenreviews", review.to_string());
        let review = review.send(&server.server.client(&server.server.admin)).await.unwrap();
        assert_ne!(review.body["status"]["authenticated"], true, "{}", review.text);
        assert_eq!(review.body["status"]["user"], json!({}), "{}", review.text);
    }
}

fn part(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

#[tokio::test]
async fn altered_tokens_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    server.kubectl.ok("create serviceaccount robot");
    let token = server.kubectl.ok("create token robot").trim().to_owned();
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
    let own_pem = std::fs::read_to_string(server.server.data_dir.pki_of("apiserver").join("sa.key")).unwrap();
    let own = SigningKey::from_pem(&own_pem).unwrap();
    let with = |path: &str, value: Value| {
        let mut claims = claims.clone();
        *claims.pointer_mut(path).expect(path) = value;
        claims
    };
    let signed = |claims: &Value| own.sign(claims).unwrap();
    assert_eq!(server.name(&signed(&claims)).await, Ok(ROBOT.to_owned()), "this is how tokens are signed");
    let admin = with("/sub", json!("system:serviceaccount:kube-system:root")).to_string();
    let now_s = server.server.env.wall().as_second();
    let renamed = |algorithm: &str| {
        let mut head = head.clone();
        head["alg"] = json!(algorithm);
        part(&head.to_string())
    };
    for (what, altered) in [
        ("cut by a letter", token[..token.len() - 1].to_owned()),
        ("cut in the middle", token[..token.len() / 2].to_owned()),
        ("without a signature", format!("{header}.{payload}.")),
        ("without the last part", format!("{header}.{payload}")),
        ("with one part more", format!("{token}.{signature}")),
        ("with another's claims", format!("{header}.{}.{signature}", part(&admin))),
        ("signed by nobody", format!("{}.{payload}.", renamed("none"))),
        ("signed by Nobody", format!("{}.{payload}.{signature}", renamed("NONE"))),
        ("signed by a secret", format!("{}.{payload}.{signature}", renamed("HS256"))),
        ("signed otherwise", format!("{}.{payload}.{signature}", renamed("RS512"))),
        ("signed by another key", SigningKey::from_pem(fixtures::RSA_KEYS[0]).unwrap().sign(&claims).unwrap()),
        ("for others", signed(&with("/aud", json!(["vault"])))),
        ("for nobody", signed(&with("/aud", json!([])))),
        ("of another issuer", signed(&with("/iss", json!("https://elsewhere")))),
        ("of the past", signed(&with("/exp", json!(now_s - 60)))),
        ("of the future", signed(&with("/nbf", json!(now_s + 3_600)))),
        ("of another account", signed(&with("/kubernetes.io/serviceaccount/name", json!("root")))),
        ("of an older account", signed(&with("/kubernetes.io/serviceaccount/uid", json!("0-0")))),
        ("of no account", signed(&with("/kubernetes.io", json!({})))),
        ("of nobody", signed(&json!({"iss": claims["iss"], "aud": claims["aud"], "exp": claims["exp"]}))),
        ("no object", format!("{header}.{}.{signature}", part("[]"))),
        ("no text", format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode([0xff, 0xfe]))),
        ("beyond letters", "zoë".to_owned()),
    ] {
        assert_eq!(server.name(&altered).await, Err(401), "{what}");
    }
}

/// Sends requests of many callers over one connection, one after the other and in parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_on_one_connection_keep_their_own_users() {
    let directory = tempfile::tempdir().unwrap();
    let tokens: String = (0..8).map(|n| format!("token-{n},user-{n},{n},group-{n}\n")).collect();
    std::fs::write(directory.path().join("tokens.csv"), tokens).unwrap();
    let flag = format!("--token-auth-file={}", directory.path().join("tokens.csv").display());
    let server = Server::start(directory.path(), &[&flag]).await;
    let requests = (0..200).map(|number| {
        let (server, of) = (&server, number % 10);
        async move {
            let answer = match of {
                8 => who().send(&server.stranger).await,
                9 => bearing("token-of-nobody").send(&server.stranger).await,
                of => bearing(&format!("token-{of}")).send(&server.stranger).await,
            };
            let answer = answer.unwrap();
            let expected = match of {
                8 => Err(403),
                9 => Err(401),
                of => Ok(format!("user-{of}")),
            };
            assert_eq!(name(&answer), expected, "{}", answer.text);
            if of < 8 {
                let groups = json!([format!("group-{of}"), "system:authenticated"]);
                assert_eq!(answer.body["status"]["userInfo"]["groups"], groups);
            }
        }
    });
    let (first, rest): (Vec<_>, Vec<_>) = requests.enumerate().partition(|(number, _)| *number < 20);
    for (_, request) in first {
        request.await;
    }
    join_all(rest.into_iter().map(|(_, request)| request)).await;
    // A certificate counts more than a token. An impersonation counts only for its request.
    let admin = server.server.client(&server.server.admin);
    for (request, expected) in [
        (bearing("token-1"), "kubernetes-admin"),
        (bearing("token-of-nobody"), "kubernetes-admin"),
        (who().header("impersonate-user", "user-2"), "user-2"),
        (who(), "kubernetes-admin"),
        (who().header("impersonate-user", "zoë"), "zoë"),
        (who(), "kubernetes-admin"),
    ] {
        assert_eq!(name(&request.send(&admin).await.unwrap()), Ok(expected.to_owned()), "{request}");
    }
}

#[tokio::test]
async fn impersonation_needs_permission() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("tokens.csv"), "ann-token,ann,1,dev\nbob-token,bob,2,ops\n").unwrap();
    let flag = format!("--token-auth-file={}", directory.path().join("tokens.csv").display());
    let server = Server::start(directory.path(), &[&flag]).await;
    server.kubectl.ok("create clusterrole as-carl --verb=impersonate --resource=users --resource-name=carl");
    server.kubectl.ok("create clusterrolebinding as-carl --clusterrole=as-carl --user=bob");
    let allowed = async || {
        let request = bearing("bob-token").header("impersonate-user", "carl");
        name(&request.send(&server.stranger).await.unwrap()).is_ok()
    };
    wait::until_async("bob may act for carl", allowed).await;

    // Headers, with the result for ann, who may impersonate nobody, and for bob, who may impersonate carl.
    for (headers, of_ann, of_bob) in [
        (&[("impersonate-user", "carl")][..], Err(403), Ok("carl")),
        (&[("impersonate-user", "kubernetes-admin")], Err(403), Err(403)),
        (&[("impersonate-user", "ann")], Err(403), Err(403)),
        (&[("impersonate-user", "system:serviceaccount:kube-system:root")], Err(403), Err(403)),
        (&[("impersonate-user", "system:node:n")], Err(403), Err(403)),
        (&[("impersonate-user", "%63arl")], Err(403), Err(403)),
        (&[("impersonate-user", "Carl")], Err(403), Err(403)),
        (&[("impersonate-user", "zoë")], Err(403), Err(403)),
        (&[("impersonate-user", "carl"), ("impersonate-group", "system:masters")], Err(403), Err(403)),
        (&[("impersonate-user", "carl"), ("impersonate-group", "größe")], Err(403), Err(403)),
        (&[("impersonate-user", "carl"), ("impersonate-uid", "2")], Err(403), Err(403)),
        (&[("impersonate-user", "carl"), ("impersonate-extra-scopes", "all")], Err(403), Err(403)),
        (&[("impersonate-user", "carl"), ("impersonate-extra-a%2fb", "x")], Err(403), Err(403)),
        // Of two headers of one name, the first one counts.
        (&[("impersonate-user", "carl"), ("impersonate-user", "kubernetes-admin")], Err(403), Ok("carl")),
        (&[("impersonate-user", "kubernetes-admin"), ("impersonate-user", "carl")], Err(403), Err(403)),
        (&[("impersonate-group", "system:masters")], Err(400), Err(400)),
        (&[("impersonate-uid", "2")], Err(400), Err(400)),
        (&[("impersonate-extra-scopes", "all")], Err(400), Err(400)),
        (&[("impersonate-user", ""), ("impersonate-group", "system:masters")], Err(400), Err(400)),
        // Headers of an authenticating proxy are ignored, since no proxy is configured.
        (&[("x-remote-user", "kubernetes-admin"), ("x-remote-group", "system:masters")], Ok("ann"), Ok("bob")),
        (&[("x-remote-extra-scopes", "all"), ("x-forwarded-user", "kubernetes-admin")], Ok("ann"), Ok("bob")),
    ] {
        for (user, expected) in [("ann", of_ann), ("bob", of_bob)] {
            let request = bearing(&format!("{user}-token"));
            let request = headers.iter().fold(request, |request, (name, value)| request.and_header(name, value));
            let answer = request.send(&server.stranger).await.unwrap();
            assert_eq!(name(&answer), expected.map(str::to_owned), "{request}: {}", answer.text);
            let claimed =
                ["all", "system:masters"].iter().any(|claim| answer.body["status"].to_string().contains(claim));
            assert!(answer.code != 201 || !claimed, "{}", answer.text);
        }
    }
}

/// Starts a token webhook whose answer depends on the token. Returns the path of its kubeconfig.
async fn reviewer(env: &Env, authority: &Authority, directory: &Path) -> String {
    let service = HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let api = "authentication.k8s.io/v1";
        let status = |status: Value| json!({"apiVersion": api, "kind": "TokenReview", "status": status}).to_string();
        let mallory = json!({"username": "mallory", "groups": ["system:masters"]});
        let (code, body) = match review["spec"]["token"].as_str().unwrap() {
            "good" => (200, status(json!({"authenticated": true, "user": {"username": "gil", "groups": ["g"]}}))),
            "hangs" => std::future::pending().await,
            "refuses" => (200, status(json!({"authenticated": false, "user": mallory}))),
            "says-nothing" => (200, status(json!({"user": mallory}))),
            "says-yes" => (200, status(json!({"authenticated": "yes", "user": mallory}))),
            "fails-and-agrees" => (403, status(json!({"authenticated": true, "user": mallory}))),
            "goes-elsewhere" => (302, status(json!({"authenticated": true, "user": mallory}))),
            "for-others" => (200, status(json!({"authenticated": true, "user": mallory, "audiences": ["vault"]}))),
            "another-kind" => {
                let review =
                    json!({"apiVersion": api, "kind": "Review", "status": {"authenticated": true, "user": mallory}});
                (200, review.to_string())
            }
            "half" => {
                let whole = status(json!({"authenticated": true, "user": mallory}));
                (200, whole[..whole.len() / 2].to_owned())
            }
            "endless" => (200, " ".repeat(4 << 20) + &status(json!({"authenticated": true, "user": mallory}))),
            "deep" => (200, "[".repeat(100_000)),
            "empty" => (200, String::new()),
            _ => (200, "<html>".to_owned()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        Ok::<_, Infallible>(response)
    }));
    let address = webhook_server::serve(env, authority, service).await;
    let server = format!("https://{address}/tokens");
    let connection = Connection { server, ca_pem: Some(authority.cert_pem.clone()), ..Connection::default() };
    let path = directory.join("reviewer");
    kubeconfig::write(&path, &connection, "reviewer", "apiserver").unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_answers_of_a_token_webhook_authenticate_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system().child();
    let authority = Authority::load_or_create(&directory.path().join("reviewer-ca"), env.wall()).unwrap();
    let file = reviewer(&env, &authority, directory.path()).await;
    let flags = [
        format!("--authentication-token-webhook-config-file={file}"),
        "--authentication-token-webhook-version=v1".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(directory.path(), &flags).await;
    let hanging = async { panic!("who hangs says nothing, and not {:?}", server.name("hangs").await) };
    // A hanging webhook does not block other requests.
    let others = async {
        assert_eq!(server.name("good").await, Ok("gil".to_owned()));
        for token in [
            "refuses",
            "says-nothing",
            "says-yes",
            "fails-and-agrees",
            "goes-elsewhere",
            "for-others",
            "another-kind",
            "half",
            "endless",
            "deep",
            "empty",
            "garbage",
        ] {
            assert_eq!(server.name(token).await, Err(401), "{token}");
        }
        assert_eq!(server.name("good").await, Ok("gil".to_owned()));
        let admin = server.server.client(&server.server.admin);
        assert_eq!(name(&who().send(&admin).await.unwrap()), Ok("kubernetes-admin".to_owned()));
    };
    let hanging = std::pin::pin!(hanging);
    let others = std::pin::pin!(others);
    futures::future::select(hanging, others).await;
    env.drain().await;
}
