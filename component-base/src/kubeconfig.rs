//! Reads kubeconfig files into a `Connection`, and writes them for people and components.
//!
//! Corresponds to k8s.io/client-go/tools/clientcmd.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The address of a server and the identity to use there.
#[derive(Clone, Default, PartialEq)]
pub struct Connection {
    /// URL such as `https://127.0.0.1:6443`; its path is a prefix of every request.
    pub server: String,
    pub ca_pem: Option<String>,
    pub client_cert_pem: Option<String>,
    pub client_key_pem: Option<String>,
    pub token: Option<String>,
    /// File that is read again now and then, since its token may be rotated. Wins over `token`.
    pub token_file: Option<PathBuf>,
    /// Name that the server's certificate must have, if not the host of the URL.
    pub tls_server_name: Option<String>,
    pub insecure: bool,
    /// User to impersonate; empty for none.
    pub impersonate_user: String,
    pub impersonate_groups: Vec<String>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Credentials of a user.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials {
    pub client_cert_pem: Option<String>,
    pub client_key_pem: Option<String>,
    pub token: Option<String>,
    /// As in [`Connection`].
    pub token_file: Option<PathBuf>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// An unusable kubeconfig; the text is one line for people.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: not a kubeconfig: {message}", .path.display())]
    Parse { path: PathBuf, message: String },
    #[error("{}: {message}", .path.display())]
    Content { path: PathBuf, message: String },
    #[error("no kubeconfig: give --kubeconfig or set KUBECONFIG")]
    NotGiven,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    clusters: Vec<Named>,
    users: Vec<Named>,
    contexts: Vec<Named>,
    current_context: String,
}

/// An entry of any of the three lists; exactly one of the optional fields is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Cluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    impersonate: Option<String>,
    #[serde(rename = "as-groups", skip_serializing_if = "Vec::is_empty")]
    impersonate_groups: Vec<String>,
    /// Ways to authenticate that are not supported. They are read so that they can be refused: their user would be anonymous.
    #[serde(skip_serializing)]
    exec: Option<Value>,
    #[serde(skip_serializing)]
    auth_provider: Option<Value>,
    #[serde(skip_serializing)]
    username: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Context {
    cluster: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

/// Returns the file that `--kubeconfig` names, or else the first of `KUBECONFIG` that exists.
///
/// Deviation: the files of `KUBECONFIG` are not merged, and credential plugins and passwords are refused: components
/// have a file of their own.
pub fn locate(flag: Option<&Path>) -> Result<PathBuf, KubeconfigError> {
    if let Some(path) = flag {
        return Ok(path.to_owned());
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    let chosen = paths.iter().find(|path| path.exists()).or(paths.first());
    chosen.cloned().ok_or(KubeconfigError::NotGiven)
}

/// Reads the connection of the file's current context. Paths in it are relative to the file.
pub fn read(path: &Path) -> Result<Connection, KubeconfigError> {
    let text = read_text(path)?;
    parse(&text, path)
}

/// Returns the file itself, and all files with certificates and keys that it names.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_owned()];
    let Some(file) = read_text(path).and_then(|text| parse_file(&text, path)).ok() else { return files };
    for entry in file.clusters.into_iter().chain(file.users) {
        let Named { cluster, user, .. } = entry;
        let user = user.unwrap_or_default();
        let named = [cluster.unwrap_or_default().certificate_authority, user.client_certificate, user.client_key];
        files.extend(named.into_iter().flatten().map(|file| beside(path, &file)));
    }
    files
}

/// Returns the names of all clusters in a file.
pub fn clusters(path: &Path) -> Result<Vec<String>, KubeconfigError> {
    let file = parse_file(&read_text(path)?, path)?;
    Ok(file.clusters.into_iter().map(|cluster| cluster.name).collect())
}

/// Returns the credentials of all users in a file, by name.
pub fn users(path: &Path) -> Result<BTreeMap<String, Credentials>, KubeconfigError> {
    let file = parse_file(&read_text(path)?, path)?;
    let each = file.users.into_iter().map(|entry| {
        let credentials = entry.user.unwrap_or_default().credentials(&entry.name, path)?;
        Ok((entry.name, credentials))
    });
    each.collect()
}

fn read_text(path: &Path) -> Result<String, KubeconfigError> {
    fs::read_to_string(path).map_err(|source| KubeconfigError::Io { path: path.to_owned(), source })
}

fn parse_file(text: &str, path: &Path) -> Result<File, KubeconfigError> {
    serde_saphyr::from_str(text).map_err(|error| KubeconfigError::Parse {
        path: path.to_owned(),
        message: error.to_string().lines().next().unwrap_or_default().to_owned(),
    })
}

fn parse(text: &str, path: &Path) -> Result<Connection, KubeconfigError> {
    let file = parse_file(text, path)?;
    let content = |message: String| KubeconfigError::Content { path: path.to_owned(), message };
    let named = |list: &[Named], what: &str, name: &str| {
        let entry = list.iter().find(|entry| entry.name == name).cloned();
        entry.ok_or_else(|| content(format!("no {what} named {name:?}")))
    };
    if file.current_context.is_empty() {
        return Err(content("current-context is not set".into()));
    }
    let context = named(&file.contexts, "context", &file.current_context)?.context.unwrap_or_default();
    let cluster = named(&file.clusters, "cluster", &context.cluster)?.cluster.unwrap_or_default();
    let user = named(&file.users, "user", &context.user)?.user.unwrap_or_default();
    if !cluster.server.starts_with("https://") && !cluster.server.starts_with("http://") {
        return Err(content(format!("cluster {:?}: server {:?} is no URL", context.cluster, cluster.server)));
    }
    let credentials = user.credentials(&context.user, path)?;
    let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
    Ok(Connection {
        ca_pem: pem("certificate-authority-data", data, file, path)?,
        client_cert_pem: credentials.client_cert_pem,
        client_key_pem: credentials.client_key_pem,
        server: cluster.server,
        token: credentials.token,
        token_file: credentials.token_file,
        tls_server_name: cluster.tls_server_name,
        insecure: cluster.insecure_skip_tls_verify,
        impersonate_user: user.impersonate.unwrap_or_default(),
        impersonate_groups: user.impersonate_groups,
    })
}

impl User {
    fn credentials(&self, name: &str, path: &Path) -> Result<Credentials, KubeconfigError> {
        let wrong = |why: &str| {
            let message = format!("user {name:?}: {why}");
            Err(KubeconfigError::Content { path: path.to_owned(), message })
        };
        if self.exec.is_some() || self.auth_provider.is_some() || self.username.is_some() {
            return wrong("only client certificates, token and tokenFile are supported");
        }
        let (cert, key) = (&self.client_certificate_data, &self.client_key_data);
        let credentials = Credentials {
            client_cert_pem: pem("client-certificate-data", cert, &self.client_certificate, path)?,
            client_key_pem: pem("client-key-data", key, &self.client_key, path)?,
            token: self.token.clone(),
            token_file: self.token_file.as_ref().map(|file| beside(path, file)),
        };
        if credentials.client_cert_pem.is_some() != credentials.client_key_pem.is_some() {
            return wrong("a client certificate needs its key, and a key its certificate");
        }
        Ok(credentials)
    }
}

fn beside(path: &Path, file: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(file)
}

/// Returns the PEM text that an entry holds, or else the content of the file that it names.
fn pem(
    what: &str,
    data: &Option<String>,
    file: &Option<PathBuf>,
    path: &Path,
) -> Result<Option<String>, KubeconfigError> {
    match (data, file) {
        (Some(data), _) => {
            let refused = |why| KubeconfigError::Content { path: path.to_owned(), message: format!("{what}: {why}") };
            decode_pem(data).map(Some).map_err(refused)
        }
        (None, Some(file)) => read_text(&beside(path, file)).map(Some),
        (None, None) => Ok(None),
    }
}

fn decode_pem(data: &str) -> Result<String, String> {
    let bytes = BASE64.decode(data.trim()).map_err(|error| format!("not base64: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "not PEM".to_owned())
}

/// Returns a kubeconfig of one cluster, one user and one context, with certificates and keys inline.
pub fn to_yaml(connection: &Connection, cluster: &str, user: &str) -> String {
    let encoded = |pem: &Option<String>| pem.as_ref().map(|pem| BASE64.encode(pem));
    let context = format!("{user}@{cluster}");
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let file = File {
        api_version: "v1".into(),
        kind: "Config".into(),
        clusters: vec![Named {
            name: cluster.into(),
            cluster: Some(Cluster {
                server: connection.server.clone(),
                certificate_authority_data: encoded(&connection.ca_pem),
                tls_server_name: connection.tls_server_name.clone(),
                insecure_skip_tls_verify: connection.insecure,
                certificate_authority: None,
            }),
            ..Named::default()
        }],
        users: vec![Named {
            name: user.into(),
            user: Some(User {
                client_certificate_data: encoded(&connection.client_cert_pem),
                client_key_data: encoded(&connection.client_key_pem),
                token: connection.token.clone(),
                token_file: connection.token_file.clone(),
                impersonate: some(&connection.impersonate_user),
                impersonate_groups: connection.impersonate_groups.clone(),
                ..User::default()
            }),
            ..Named::default()
        }],
        contexts: vec![Named {
            name: context.clone(),
            context: Some(Context { cluster: cluster.into(), user: user.into(), namespace: None }),
            ..Named::default()
        }],
        current_context: context,
    };
    serde_saphyr::to_string(&file).expect("a kubeconfig is plain data")
}

/// Writes such a kubeconfig atomically, readable by its owner alone.
pub fn write(path: &Path, connection: &Connection, cluster: &str, user: &str) -> Result<(), KubeconfigError> {
    crate::private_file::write(path, to_yaml(connection, cluster, user).as_bytes())
        .map_err(|source| KubeconfigError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection {
            server: "https://127.0.0.1:6443".into(),
            ca_pem: Some("CA\n".into()),
            client_cert_pem: Some("CERT\n".into()),
            client_key_pem: Some("KEY\n".into()),
            impersonate_user: "jane".into(),
            impersonate_groups: vec!["dev".into()],
            ..Connection::default()
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.conf");
        write(&path, &connection(), "orrery", "admin").unwrap();
        assert_eq!(read(&path).unwrap(), connection());
    }

    #[test]
    fn files_are_relative_to_the_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.crt"), "FROM FILE").unwrap();
        let text = r#"
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://h:1", certificate-authority: ca.crt}}]
users: [{name: u, user: {token: secret, tokenFile: token}}]
extensions: [{name: x}]
preferences: {}
"#;
        let read = parse(text, &directory.path().join("conf")).unwrap();
        assert_eq!(read.ca_pem.as_deref(), Some("FROM FILE"));
        assert_eq!(read.token.as_deref(), Some("secret"));
        assert_eq!(read.token_file, Some(directory.path().join("token")));
    }

    #[test]
    fn all_users_have_credentials() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("conf");
        fs::write(&path, "users: [{name: a, user: {token: x}}, {name: b}, {name: c, user: {client-key-data: Sw==}}]")
            .unwrap();
        assert_eq!(
            users(&path).unwrap_err().to_string(),
            format!("{}: user \"c\": a client certificate needs its key, and a key its certificate", path.display())
        );
        fs::write(&path, "users: [{name: a, user: {token: x}}, {name: b}]").unwrap();
        let a = Credentials { token: Some("x".into()), ..Credentials::default() };
        assert_eq!(users(&path).unwrap(), BTreeMap::from([("a".into(), a), ("b".into(), Credentials::default())]));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let cases = [
            ("current-context: c", r#"/k: no context named "c""#),
            ("kind: Config", "/k: current-context is not set"),
            (
                "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {server: nowhere}}], users: [{name: u}]}",
                r#"/k: cluster "k": server "nowhere" is no URL"#,
            ),
            (
                "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {server: 'https://h'}}], users: [{name: u, user: {client-key-data: '!'}}]}",
                "/k: client-key-data: not base64: Invalid symbol 33, offset 0.",
            ),
            (
                "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {server: 'https://h'}}], users: [{name: u, user: {exec: {command: x}}}]}",
                r#"/k: user "u": only client certificates, token and tokenFile are supported"#,
            ),
            (
                "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {server: 'https://h'}}], users: [{name: u, user: {client-key-data: eA==}}]}",
                r#"/k: user "u": a client certificate needs its key, and a key its certificate"#,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text, Path::new("/k")).unwrap_err().to_string(), expected);
        }
        let error = parse("clusters: [", Path::new("/k")).unwrap_err().to_string();
        assert!(error.starts_with("/k: not a kubeconfig: ") && !error.contains('\n'), "{error}");
    }
}
