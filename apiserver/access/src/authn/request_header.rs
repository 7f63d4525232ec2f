//! Authenticates by request headers: a trusted proxy shows its own client certificate and names the user in headers.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/headerrequest.

use clap::Args;
use component_base::network::ConnectionInfo;
use component_base::options::OptionsError;
use component_base::pki;
use http::{HeaderMap, HeaderName, header};
use request::UserInfo;
use request::header_text::text;
use request::query::unescape;
use std::path::PathBuf;

/// Flags `--requestheader-*`: the trusted proxies, and the headers in which they name the user.
#[derive(Args, Clone, Debug, Default)]
pub struct RequestHeaderOptions {
    /// Proxies that show a certificate of this authority (PEM) are believed about their callers
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that such a certificate may have; any where none is given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers with the caller's name, the first that has one; X-Remote-User is usual
    #[arg(long, value_delimiter = ',', value_name = "HEADERS")]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the caller's groups; X-Remote-Group is usual
    #[arg(long, value_delimiter = ',', value_name = "HEADERS")]
    pub requestheader_group_headers: Vec<String>,
    /// Beginnings of headers with more about the caller; X-Remote-Extra- is usual
    #[arg(long, value_delimiter = ',', value_name = "PREFIXES")]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Headers with the caller's uid; X-Remote-Uid is usual
    #[arg(long, value_delimiter = ',', value_name = "HEADERS")]
    pub requestheader_uid_headers: Vec<String>,
}

impl RequestHeaderOptions {
    /// Returns each flag that takes a list, with its values.
    fn lists(&self) -> [(&'static str, &[String]); 5] {
        [
            ("requestheader-allowed-names", &self.requestheader_allowed_names),
            ("requestheader-username-headers", &self.requestheader_username_headers),
            ("requestheader-group-headers", &self.requestheader_group_headers),
            ("requestheader-extra-headers-prefix", &self.requestheader_extra_headers_prefix),
            ("requestheader-uid-headers", &self.requestheader_uid_headers),
        ]
    }

    /// Returns the authenticator, or `None` when no certificate authority is configured.
    pub fn authenticator(&self) -> Result<Option<RequestHeaders>, OptionsError> {
        for (flag, values) in self.lists() {
            if values.iter().any(|value| value.trim().is_empty()) {
                return Err(OptionsError::Invalid { flag, message: format!("empty value in {flag:?}") });
            }
        }
        Ok(self.requestheader_client_ca_file.as_ref().map(|_| RequestHeaders { options: self.clone() }))
    }
}

/// The authenticator for trusted proxies.
#[derive(Clone, Debug)]
pub struct RequestHeaders {
    options: RequestHeaderOptions,
}

impl RequestHeaders {
    /// Returns the user that a trusted proxy names. `None` leaves the request to the other authenticators.
    pub fn user_of(&self, connection: &ConnectionInfo, headers: &HeaderMap) -> Option<UserInfo> {
        let certificate = connection.proxy_certificate.as_ref()?;
        let allowed = &self.options.requestheader_allowed_names;
        if !allowed.is_empty() {
            let (common_name, _) = pki::subject(certificate)?;
            allowed.contains(&common_name).then_some(())?;
        }
        let first = |names: &[String]| values(headers, names).next().unwrap_or_default();
        let name = Some(first(&self.options.requestheader_username_headers)).filter(|name| !name.is_empty())?;
        let mut user = UserInfo {
            name,
            uid: first(&self.options.requestheader_uid_headers),
            groups: values(headers, &self.options.requestheader_group_headers).collect(),
            ..UserInfo::default()
        };
        for (header, value) in headers {
            for key in self.extra_keys(header) {
                let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
                user.extra.entry(key).or_default().push(text(value).into_owned());
            }
        }
        Some(user)
    }

    /// Returns the extra keys of a header: its name without each configured prefix.
    fn extra_keys<'a>(&self, header: &'a HeaderName) -> impl Iterator<Item = &'a str> {
        let prefixes = self.options.requestheader_extra_headers_prefix.iter();
        prefixes.filter_map(|prefix| header.as_str().strip_prefix(prefix.to_ascii_lowercase().as_str()))
    }

    /// Removes the `Authorization` and identity headers, so that no later handler or backend can reuse them.
    pub fn remove(&self, headers: &mut HeaderMap) {
        headers.remove(header::AUTHORIZATION);
        let Self { options } = self;
        let named = [
            &options.requestheader_username_headers,
            &options.requestheader_uid_headers,
            &options.requestheader_group_headers,
        ];
        for name in named.into_iter().flatten() {
            headers.remove(name.as_str());
        }
        let extra: Vec<HeaderName> =
            headers.keys().filter(|name| self.extra_keys(name).next().is_some()).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }

    /// Returns the list-valued keys of ConfigMap `extension-apiserver-authentication`, with their items.
    pub fn published(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let is_said = |(flag, items): &(&'static str, &[String])| {
            // Kubernetes writes no such key when the flag is not set.
            *flag != "requestheader-uid-headers" || !items.is_empty()
        };
        self.options.lists().into_iter().filter(is_said)
    }
}

/// Returns the values of these headers in the order of `names`, without empty ones.
fn values<'a>(headers: &'a HeaderMap, names: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let all = names.iter().flat_map(|name| headers.get_all(name.as_str()));
    all.filter(|value| !value.is_empty()).map(|value| text(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::pki::{Authority, Subject};
    use component_base::tls;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    fn usual(allowed: &[&str]) -> RequestHeaders {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let options = RequestHeaderOptions {
            requestheader_client_ca_file: Some("ca.crt".into()),
            requestheader_allowed_names: list(allowed),
            requestheader_username_headers: list(&["X-Remote-User", "X-Old-User"]),
            requestheader_group_headers: list(&["X-Remote-Group"]),
            requestheader_extra_headers_prefix: list(&["X-Remote-Extra-"]),
            requestheader_uid_headers: list(&["X-Remote-Uid"]),
        };
        options.authenticator().unwrap().expect("an authority is named")
    }

    fn proxy(common_name: &str) -> ConnectionInfo {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let authority = Authority::load_or_create(folder.path(), now).unwrap();
        let pair = authority.issue(&Subject { common_name, ..Subject::default() }, now).unwrap();
        let leaf = tls::certificates("proxy", &pair.cert_pem).unwrap().remove(0);
        ConnectionInfo {
            peer_certificates: Arc::default(),
            rejected_certificate: true,
            proxy_certificate: Some(Arc::new(leaf)),
            remote_address: (Ipv4Addr::LOCALHOST, 0).into(),
        }
    }

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_an_allowed_proxy_is_believed() {
        let said = headers(&[("x-remote-user", "ann")]);
        for (allowed, name, is_believed) in
            [(&[][..], "front", true), (&["front"], "front", true), (&["aggregator", "front"], "frond", false)]
        {
            let user = usual(allowed).user_of(&proxy(name), &said);
            assert_eq!(user.is_some(), is_believed, "{allowed:?} {name}");
        }
        let stranger = ConnectionInfo { proxy_certificate: None, ..proxy("front") };
        assert_eq!(usual(&[]).user_of(&stranger, &said), None);
    }

    #[test]
    fn headers_say_who_it_is() {
        let (headers_of_all, proxies) = (
            headers(&[
                ("x-remote-user", "ann"),
                ("x-remote-group", "dev"),
                ("x-remote-group", "ops"),
                ("x-remote-uid", "7"),
                ("x-remote-extra-example.com%2fteam", "red"),
                ("x-remote-extra-example.com%2fteam", "blue"),
                ("authorization", "Bearer x"),
                ("accept", "*/*"),
            ]),
            usual(&[]),
        );
        let user = proxies.user_of(&proxy("front"), &headers_of_all).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(user.groups, ["dev", "ops"]);
        assert_eq!(user.extra["example.com/team"], ["red", "blue"]);
        let old = headers(&[("x-remote-user", ""), ("x-old-user", "bob")]);
        assert_eq!(proxies.user_of(&proxy("front"), &old).unwrap().name, "bob");
        assert_eq!(proxies.user_of(&proxy("front"), &headers(&[("x-remote-group", "dev")])), None);
        let mut rest = headers_of_all;
        proxies.remove(&mut rest);
        assert_eq!(rest.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn an_empty_name_is_refused_and_without_an_authority_nobody_is_believed() {
        let options = RequestHeaderOptions::default();
        assert!(options.authenticator().unwrap().is_none());
        let options = RequestHeaderOptions { requestheader_group_headers: vec![" ".to_owned()], ..options };
        let error = options.authenticator().unwrap_err().to_string();
        assert_eq!(error, r#"--requestheader-group-headers: empty value in "requestheader-group-headers""#);
    }
}
