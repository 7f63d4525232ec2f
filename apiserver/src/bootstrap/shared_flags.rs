//! The flags that API servers of one store should agree on, and what becomes of a cluster where they do not.
//!
//! Each server writes down its own beside its lease ([`super::master_leases`]), and compares those of the others. None
//! of these differences harms what is stored (keys, values and reservations are the same for all servers), so nobody is
//! refused; but what a client gets depends on whom it asks. The range of Services is compared with the cluster's
//! ServiceCIDR, which outlives its servers.

use crate::config::Config;
use access::authn::Authentication;
use admission::chain;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Values by the names of their flags.
pub type Flags = BTreeMap<String, String>;

/// When two servers agree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Both say the same.
    Equal,
    /// This one accepts what the other makes, the first of its values.
    Accepts,
}

struct Row {
    flag: &'static str,
    rule: Rule,
    values: fn(&Config, &Authentication) -> Vec<String>,
}

const ROWS: &[Row] = &[
    // Else a user of one server is a stranger to the other.
    Row { flag: "client-ca-file", rule: Rule::Equal, values: |config, _| client_authority(config) },
    // Else a token of one server is none to the other.
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
    // Else one allows what the other refuses.
    Row {
        flag: "authorization-mode",
        rule: Rule::Equal,
        values: |config, _| config.authorization.authorization_mode.iter().map(ToString::to_string).collect(),
    },
    // Else one stores what the other would change or refuse.
    Row {
        flag: "enable-admission-plugins",
        rule: Rule::Equal,
        values: |config, _| {
            let names = chain::names(&config.enable_admission_plugins, &config.disable_admission_plugins);
            names.into_iter().map(str::to_owned).collect()
        },
    },
    // Else a controller sees and collects what one of them serves, and takes it for everything.
    Row {
        flag: "runtime-config",
        rule: Rule::Equal,
        values: |config, _| config.runtime_config.iter().map(ToString::to_string).collect(),
    },
    // Else the ports that one gives out are the other's errors.
    Row {
        flag: "service-node-port-range",
        rule: Rule::Equal,
        values: |config, _| vec![config.service_node_port_range.clone()],
    },
];

/// The authority's fingerprint. A server without the file would not have started.
fn client_authority(config: &Config) -> Vec<String> {
    let file = config.serving.client_ca_file.as_ref().and_then(|path| std::fs::read(path).ok());
    file.iter().map(|pem| Sha256::digest(pem).iter().take(8).map(|byte| format!("{byte:02x}")).collect()).collect()
}

/// What this server writes down.
pub fn own(config: &Config, authentication: &Authentication) -> Flags {
    ROWS.iter().map(|row| (row.flag.to_owned(), (row.values)(config, authentication).join(","))).collect()
}

/// Where another server's flags do not agree with this one's, in the order of the table. What it does not tell is not
/// compared: it may be an older version.
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
    let tell =
        |row: &Row| format!("--{} is {} here and {} there", row.flag, shown(own, row.flag), shown(other, row.flag));
    ROWS.iter().filter(differs).map(tell).collect()
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
