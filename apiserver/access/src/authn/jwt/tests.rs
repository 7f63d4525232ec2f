//! Tests of token authentication against an issuer in this process, with valid and forged tokens.

use super::JwtAuthenticator;
use super::configuration::{self, KIND};
use axum::body::Body;
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use component_base_testing::fixtures;
use http::{Request, Response, StatusCode};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

const URL: &str = "https://issuer:1";

/// The key set that the issuer serves, and how often it was fetched.
struct Issuer {
    keys: Arc<Mutex<Vec<Jwk>>>,
    asked: Arc<Mutex<usize>>,
}

fn signing(pem: &str, algorithm: Algorithm) -> EncodingKey {
    match algorithm {
        Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()).unwrap(),
        _ => EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap(),
    }
}

fn public(pem: &str, algorithm: Algorithm, kid: &str) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(&signing(pem, algorithm), algorithm).unwrap();
    jwk.common.key_id = Some(kid.to_owned());
    jwk
}

impl Issuer {
    fn serve(env: &Env) -> Self {
        let keys = Arc::new(Mutex::new(vec![public(fixtures::RSA_KEYS[0], Algorithm::RS256, "rsa")]));
        let asked: Arc<Mutex<usize>> = Arc::default();
        let (served, counted) = (keys.clone(), asked.clone());
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let page = match request.uri().path() {
                "/.well-known/openid-configuration" => json!({"issuer": URL, "jwks_uri": format!("{URL}/keys")}),
                "/keys" => {
                    *counted.lock() += 1;
                    json!({"keys": *served.lock()})
                }
                _ => Value::Null,
            };
            let code = if page.is_null() { StatusCode::NOT_FOUND } else { StatusCode::OK };
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(page.to_string())).unwrap()) }
        }));
        let Network::InProcess(network) = env.network() else { panic!("simulated") };
        network.register("issuer:1", service);
        Self { keys, asked }
    }
}

fn sign(pem: &str, algorithm: Algorithm, kid: &str, claims: &Value) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    jsonwebtoken::encode(&header, claims, &signing(pem, algorithm)).unwrap()
}

fn claims(env: &Env, more: Value) -> Value {
    let now_s = env.wall().as_second();
    let mut claims = json!({"iss": URL, "aud": "me", "sub": "ann", "exp": now_s + 3600, "iat": now_s});
    for (key, value) in more.as_object().unwrap() {
        claims[key] = value.clone();
    }
    claims
}

fn configured(env: &Env, more: &str) -> JwtAuthenticator {
    let mapped = "claimMappings: {username: {claim: sub, prefix: 'oidc:'}}";
    let more = if more.contains("claimMappings") { more.to_owned() } else { format!("{mapped}{more}") };
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: {KIND}, jwt: [{{issuer: {{url: '{URL}', audiences: [me]}}, {more}}}]}}"
    );
    let settings = configuration::parse(&text, &[]).unwrap().issuers.pop().unwrap();
    JwtAuthenticator::new(env, settings)
}

/// Returns the authenticated user's name and groups, or the end of the error.
async fn known(authenticator: &JwtAuthenticator, token: &str) -> Result<String, String> {
    let user = authenticator.authenticate(token).await?;
    Ok(user
        .map_or("nobody".to_owned(), |user| format!("{} {:?} {} {:?}", user.name, user.groups, user.uid, user.extra)))
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_as_long_as_everything_about_it_is() {
    let env = Env::simulated(1);
    let issuer = Issuer::serve(&env);
    issuer.keys.lock().push(public(fixtures::EC_KEYS[0], Algorithm::ES256, "ec"));
    let authenticator = configured(&env, "");
    let rsa = fixtures::RSA_KEYS[0];
    let now_s = env.wall().as_second();
    let good = sign(rsa, Algorithm::RS256, "rsa", &claims(&env, json!({})));
    let (head, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let none = {
        use base64::Engine;
        let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("{}.{payload}.", encode(r#"{"alg":"none","kid":"rsa"}"#))
    };
    // Signed with HMAC, with the public key as the shared secret.
    let confused = {
        let secret = serde_json::to_vec(&public(rsa, Algorithm::RS256, "rsa")).unwrap();
        let header = Header { kid: Some("rsa".to_owned()), ..Header::new(Algorithm::HS256) };
        jsonwebtoken::encode(&header, &claims(&env, json!({})), &EncodingKey::from_secret(&secret)).unwrap()
    };
    let resigned = sign(fixtures::EC_KEYS[0], Algorithm::ES256, "rsa", &claims(&env, json!({})));
    let of = |more: Value| sign(rsa, Algorithm::RS256, "rsa", &claims(&env, more));
    let ann = Ok("oidc:ann []  {}");
    for (token, expected) in [
        (good.clone(), ann),
        (sign(fixtures::EC_KEYS[0], Algorithm::ES256, "ec", &claims(&env, json!({}))), ann),
        (of(json!({"aud": ["other", "me"]})), ann),
        (of(json!({"nbf": now_s + 299})), ann),
        (of(json!({"jti": "7"})), Ok("oidc:ann []  {\"authentication.kubernetes.io/credential-id\": [\"JTI=7\"]}")),
        (of(json!({"iss": "https://other"})), Ok("nobody")),
        ("abcdef.0123456789abcdef".to_owned(), Ok("nobody")),
        (format!("{head}.{payload}"), Ok("nobody")),
        (
            format!("{head}.{payload}."),
            Err("oidc: verify token: failed to verify signature: failed to verify id token signature"),
        ),
        (
            format!("{head}.{payload}.{}", &signature[..signature.len() - 4]),
            Err("oidc: verify token: failed to verify signature: "),
        ),
        (resigned, Err("oidc: verify token: failed to verify signature: ")),
        (none, Err("oidc: verify token: oidc: malformed jwt: ")),
        (confused, Err("oidc: verify token: oidc: malformed jwt: unexpected signature algorithm HS256")),
        (
            of(json!({"exp": now_s})),
            Err("oidc: verify token: oidc: token is expired (Token Expiry: 2026-01-01T00:00:00Z)"),
        ),
        (of(json!({"exp": null})), Err("oidc: verify token: oidc: token is expired")),
        (of(json!({"nbf": now_s + 301})), Err("oidc: verify token: oidc: current time ")),
        (of(json!({"aud": "other"})), Err("oidc: verify token: oidc: expected audience in [\"me\"] got [\"other\"]")),
        (of(json!({"sub": 1})), Err("oidc: parse username claims \"sub\": claim is no string")),
    ] {
        let got = known(&authenticator, &token).await;
        match (&got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected),
            (Err(got), Err(expected)) => assert!(got.starts_with(expected), "{got}"),
            _ => panic!("{got:?} {expected:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_when_they_are_missed_and_not_more_often() {
    let env = Env::simulated(1);
    let authenticator = configured(&env, "");
    let token = |kid: &str| sign(fixtures::RSA_KEYS[0], Algorithm::RS256, kid, &claims(&env, json!({})));
    let failed = known(&authenticator, &token("rsa")).await.unwrap_err();
    assert!(
        failed.contains(
            "failed to verify signature: fetching keys Get \"https://issuer:1/.well-known/openid-configuration\""
        ),
        "{failed}"
    );
    let issuer = Issuer::serve(&env);
    // No further attempt follows at once, however many tokens arrive.
    assert_eq!(known(&authenticator, &token("rsa")).await.unwrap_err(), failed);
    env.sleep(Duration::from_secs(10)).await;
    assert!(known(&authenticator, &token("rsa")).await.is_ok());
    for number in 0..100 {
        known(&authenticator, &token(&format!("made-up-{number}"))).await.unwrap_err();
    }
    assert_eq!(*issuer.asked.lock(), 1);
    // The issuer rotates its key: the old one is removed.
    *issuer.keys.lock() = vec![public(fixtures::EC_KEYS[0], Algorithm::ES256, "ec")];
    env.sleep(Duration::from_secs(10)).await;
    let new = sign(fixtures::EC_KEYS[0], Algorithm::ES256, "ec", &claims(&env, json!({})));
    assert!(known(&authenticator, &new).await.is_ok());
    assert!(known(&authenticator, &token("rsa")).await.is_err());
    assert_eq!(*issuer.asked.lock(), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_make_a_user() {
    let env = Env::simulated(1);
    Issuer::serve(&env);
    let roles =
        json!({"sub": "1", "email": "ann@example.com", "roles": ["a", "b"], "team": {"name": "x"}, "tenant": "t"});
    for (rules, claims_more, expected) in [
        (
            "claimMappings: {username: {claim: email, prefix: ''}, groups: {claim: roles, prefix: 'g:'}}",
            roles.clone(),
            Ok("ann@example.com [\"g:a\", \"g:b\"]  {}"),
        ),
        (
            "claimMappings: {username: {claim: email, prefix: ''}}",
            json!({"email": "ann@example.com", "email_verified": false}),
            Err("oidc: email not verified"),
        ),
        (
            "claimMappings: {username: {expression: \"claims.sub + ':' + claims.team.name\"}, \
             groups: {expression: \"claims.roles.filter(r, r != 'a')\"}, uid: {claim: sub}, \
             extra: [{key: example.com/tenant, valueExpression: claims.tenant}]}",
            roles.clone(),
            Ok("1:x [\"b\"] 1 {\"example.com/tenant\": [\"t\"]}"),
        ),
        (
            "claimMappings: {username: {expression: claims.nothing}}",
            roles.clone(),
            Err(
                "oidc: error evaluating username claim expression: expression 'claims.nothing' resulted in error: no such key: nothing",
            ),
        ),
        (
            "claimMappings: {username: {expression: \"''\"}}",
            roles.clone(),
            Err("oidc: empty username via CEL expression is not allowed"),
        ),
        (", claimValidationRules: [{claim: tenant, requiredValue: t}]", roles.clone(), Ok("oidc:1 []  {}")),
        (
            ", claimValidationRules: [{claim: tenant, requiredValue: u}]",
            roles.clone(),
            Err("oidc: required claim tenant value does not match. Got = t, want = u"),
        ),
        (
            ", claimValidationRules: [{claim: hd, requiredValue: u}]",
            roles.clone(),
            Err("oidc: required claim hd not present in ID token"),
        ),
        (
            ", claimValidationRules: [{expression: 'claims.exp - claims.iat <= 60', message: it lives too long}]",
            roles.clone(),
            Err(
                "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= 60' failed: it lives too long",
            ),
        ),
        (
            ", userValidationRules: [{expression: \"!user.username.startsWith('oidc:')\", message: reserved}]",
            roles.clone(),
            Err(
                "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('oidc:')' failed: reserved",
            ),
        ),
    ] {
        let authenticator = configured(&env, rules);
        let token = sign(fixtures::RSA_KEYS[0], Algorithm::RS256, "rsa", &claims(&env, claims_more));
        let got = known(&authenticator, &token).await;
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{rules}");
    }
}

#[test]
fn a_configuration_is_refused_in_a_line() {
    let own = ["https://kubernetes.default.svc".to_owned()];
    let refused = |body: &str| {
        let text = format!("{{apiVersion: apiserver.config.k8s.io/v1, kind: {KIND}, {body}}}");
        configuration::parse(&text, &own).map(|known| known.issuers.len().to_string()).unwrap_or_else(|error| error)
    };
    let issuer = "issuer: {url: 'https://i', audiences: [a]}";
    let named = "claimMappings: {username: {claim: sub, prefix: ''}}";
    for (body, expected) in [
        (format!("jwt: [{{{issuer}, {named}}}]"), "1"),
        ("anonymous: {enabled: true, conditions: [{path: /livez}]}".to_owned(), "0"),
        (
            "anonymous: {enabled: false, conditions: [{path: /livez}]}".to_owned(),
            "anonymous.conditions: Invalid value: [\"/livez\"]: enabled should be set to true when conditions are defined",
        ),
        (
            format!("jwt: [{{{issuer}, {named}}}, {{{issuer}, {named}}}]"),
            "jwt[1].issuer.url: Duplicate value: \"https://i\"",
        ),
        (
            "jwt: [{}]".to_owned(),
            "[jwt[0].issuer.url: Required value: URL is required, jwt[0].issuer.audiences: Required value: at least one \
             jwt[0].issuer.audiences is required, jwt[0].claimMappings.username: Required value: claim or expression is required]",
        ),
        (
            format!("jwt: [{{issuer: {{url: 'http://u@i?q#f', audiences: [a, a]}}, {named}}}]"),
            "[jwt[0].issuer.url: Invalid value: \"http://u@i?q#f\": URL scheme must be https, jwt[0].issuer.url: Invalid \
             value: \"http://u@i?q#f\": URL must not contain a username or password, jwt[0].issuer.url: Invalid value: \
             \"http://u@i?q#f\": URL must not contain a query, jwt[0].issuer.url: Invalid value: \"http://u@i?q#f\": URL must \
             not contain a fragment, jwt[0].issuer.audiences[1]: Duplicate value: \"a\", jwt[0].issuer.audienceMatchPolicy: \
             Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences]",
        ),
        (
            format!("jwt: [{{issuer: {{url: 'https://kubernetes.default.svc', audiences: [a]}}, {named}}}]"),
            "jwt[0].issuer.url: Invalid value: \"https://kubernetes.default.svc\": URL must not overlap with disallowed issuers: ",
        ),
        (
            format!("jwt: [{{{issuer}, claimMappings: {{username: {{claim: sub}}}}}}]"),
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set.",
        ),
        (
            format!("jwt: [{{{issuer}, claimMappings: {{username: {{expression: '1'}}}}}}]"),
            "jwt[0].claimMappings.username.expression: Invalid value: \"1\": must evaluate to string",
        ),
        (
            format!("jwt: [{{{issuer}, {named}, userValidationRules: [{{expression: user.nick == ''}}]}}]"),
            "jwt[0].userValidationRules[0].expression: Invalid value: \"user.nick == ''\": compilation failed: ERROR: <input>:1:5: undefined field 'nick'",
        ),
        ("jwts: []".to_owned(), "strict decoding error: unknown field `jwts`"),
    ] {
        let got = refused(&body);
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
}
