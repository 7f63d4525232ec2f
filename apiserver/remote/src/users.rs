//! `Users`: the credentials that this server presents to webhooks, by their host names.
//!
//! The users of a kubeconfig have names that are hosts: `hooks.example.com:8443`, `*.example.com`, `*`.
//! Corresponds to AuthenticationInfoResolver of k8s.io/apiserver/pkg/util/webhook.

use component_base::kubeconfig::{self, Credentials};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<String, Credentials>);

impl Users {
    /// Reads the users of a kubeconfig file. The error is one line.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        kubeconfig::users(path).map(Self).map_err(|error| error.to_string())
    }

    /// Returns the credentials for a host. The most exact name wins; port 443 may be left out of a name.
    pub fn of(&self, host: &str, port: u16) -> Option<&Credentials> {
        let with_port = format!("{host}:{port}");
        let usual = (port == 443).then_some(host);
        [with_port.as_str()].into_iter().chain(usual).find_map(|name| self.named(name)).or_else(|| self.0.get("*"))
    }

    fn named(&self, name: &str) -> Option<&Credentials> {
        let dots = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]));
        self.0.get(name).or_else(|| dots.into_iter().find_map(|pattern| self.0.get(&pattern)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_name_wins() {
        let credentials = |token: &&str| {
            ((*token).to_owned(), Credentials { token: Some((*token).to_owned()), ..Credentials::default() })
        };
        let names = ["a.example.com", "a.example.com:444", "*.example.com", "*.com:444", "s.n.svc", "*"];
        let users = Users(names.iter().map(credentials).collect());
        for (host, port, expected) in [
            ("a.example.com", 443, "a.example.com"),
            ("a.example.com", 444, "a.example.com:444"),
            ("b.example.com", 443, "*.example.com"),
            ("b.c.example.com", 443, "*.example.com"),
            ("b.example.com", 444, "*.com:444"),
            ("b.example.com", 445, "*"),
            ("s.n.svc", 443, "s.n.svc"),
            ("example.org", 443, "*"),
        ] {
            assert_eq!(users.of(host, port).and_then(|found| found.token.as_deref()), Some(expected), "{host}:{port}");
        }
        assert_eq!(Users::default().of("a", 1), None);
    }
}
