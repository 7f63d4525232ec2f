//! Compares the flags that should be equal on all API servers of one store.
//!
//! Each server writes its flags into its lease ([`super::master_leases`]), and compares those of the other servers.
//! Different flags do not damage the store, because keys, values and reservations are the same for all servers. So no
//! server is refused, but the answer to a request depends on the server. The range of Services is not among these
//! flags: it is compared with the cluster's ServiceCIDR, which exists without any server.

use crate::config::Config;
use access::authn::Authentication;
use admission::chain;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Values by the names of their flags.
pub type Flags = BTreeMap<String, String>;

/// The condition under which the flags of two servers agree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Both have the same values.
    Equal,
    /// This server's values contain the first value of the other one, by which that server issues tokens.
    Accepts,
}

/// A flag that is compared.
struct Row {
    flag: &'static str,
    rule: Rule,
    values: fn(&Config, &Authentication) -> Vec<String>,
}

const ROWS: &[Row] = &[
    // Otherwise one server does not authenticate the users of the other.
    Row { flag: "client-ca-file", rule: Rule::Equal, values: |config, _| client_authority(config) },
    // Otherwise one server does not accept the tokens that the other issues.
    Row {
        flag: "service-account-issuer",
        rule: Rule::Accepts,
        values: |config, _| config.service_account_issuer.clone(),
    },
    Row {
        flag: "service-account-signing-key-file",
        rule: Rule::Accepts,
        values: |_, authentication| {
            let tokens = authentication.service_accounts.iter();
            tokens.flat_map(|tokens| tokens.key_ids().map(str::to_owned)).collect()
        },
    },
    // Otherwise one server allows requests that the other forbids.
    Row {
        flag: "authorization-mode",
        rule: Rule::Equal,
        values: |config, _| config.authorization.authorization_mode.iter().map(ToString::to_string).collect(),
    },
    // Otherwise one server stores objects that the other would change or refuse.
    Row {
        flag: "enable-admission-plugins",
        rule: Rule::Equal,
        values: |config, _| {
            let names = chain::names(&config.enable_admission_plugins, &config.disable_admission_plugins);
            names.into_iter().map(str::to_owned).collect()
        },
    },
    // Otherwise the garbage collector takes the resources of one server for all there are.
    Row {
        flag: "runtime-config",
        rule: Rule::Equal,
        values: |config, _| config.runtime_config.iter().map(ToString::to_string).collect(),
    },
    // Otherwise one server allocates node ports that the other reports as errors.
    Row {
        flag: "service-node-port-range",
        rule: Rule::Equal,
        values: |config, _| vec![config.service_node_port_range.clone()],
    },
];

/// Returns the fingerprint of the authority of clients. The file exists, because the start has read it.
fn client_authority(config: &Config) -> Vec<String> {
    let file = config.serving.client_ca_file.as_ref().and_then(|path| std::fs::read(path).ok());
    file.iter().map(|pem| Sha256::digest(pem).iter().take(8).map(|byte| format!("{byte:02x}")).collect()).collect()
}

/// Returns the flags of this server.
pub fn own(config: &Config, authentication: &Authentication) -> Flags {
    ROWS.iter().map(|row| (row.flag.to_owned(), (row.values)(config, authentication).join(","))).collect()
}

/// Describes the flags on which another server does not agree with this one, in the order of the table. A flag that is
/// missing in the other lease is not compared, because that server may be of an older version.
pub fn differences(own: &Flags, other: &Flags) -> Vec<String> {
    let differs = |row: &&Row| match (own.get(row.flag), other.get(row.flag)) {
        (Some(own), Some(other)) => match row.rule {
            Rule::Equal => own != other,
            Rule::Accepts => !own.split(',').any(|accepted| Some(accepted) == other.split(',').next()),
        },
        _ => false,
    };
    let shown = |flags: &Flags, flag: &str| match flags.get(flag).map_or("", String::as_str) {
        "" => "nothing".to_owned(),
        value => value.to_owned(),
    };
    let describe =
        |row: &Row| format!("--{} is {} here and {} there", row.flag, shown(own, row.flag), shown(other, row.flag));
    ROWS.iter().filter(differs).map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_agree_where_one_accepts_what_the_other_makes() {
        let flags = |pairs: &[(&str, &str)]| -> Flags {
            pairs.iter().map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned())).collect()
        };
        let (modes, issuer) = ("authorization-mode", "service-account-issuer");
        let cases = [
            (flags(&[(modes, "Node,RBAC")]), flags(&[(modes, "Node,RBAC")]), vec![]),
            (
                flags(&[(modes, "Node,RBAC")]),
                flags(&[(modes, "AlwaysAllow")]),
                vec!["--authorization-mode is Node,RBAC here and AlwaysAllow there"],
            ),
            (flags(&[(issuer, "b,a")]), flags(&[(issuer, "a")]), vec![]),
            (
                flags(&[(issuer, "a")]),
                flags(&[(issuer, "b,a")]),
                vec!["--service-account-issuer is a here and b,a there"],
            ),
            (flags(&[("runtime-config", "")]), flags(&[]), vec![]),
            (
                flags(&[("runtime-config", "")]),
                flags(&[("runtime-config", "api/beta=false")]),
                vec!["--runtime-config is nothing here and api/beta=false there"],
            ),
            (flags(&[]), flags(&[("later", "x")]), vec![]),
        ];
        for (own, other, expected) in cases {
            assert_eq!(differences(&own, &other), expected, "{own:?} {other:?}");
        }
    }
}
