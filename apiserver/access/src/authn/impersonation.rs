//! Impersonation: the user that the `Impersonate-*` headers ask for, and the permissions that this requires.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/impersonation.

use http::HeaderMap;
use proto::Status;
use request::UserInfo;
use request::header_text::text;
use request::query::unescape;
use request::user_info::{
    ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, NODE_USER_PREFIX, NODES, service_account_groups,
    split_service_account,
};

const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Parses the user that the `Impersonate-*` headers ask for, if any.
pub fn requested(headers: &HeaderMap) -> Result<Option<UserInfo>, Status> {
    let first = |name: &str| headers.get(name).map(|value| text(value).into_owned()).unwrap_or_default();
    let mut user = UserInfo { name: first("impersonate-user"), uid: first("impersonate-uid"), ..UserInfo::default() };
    user.groups = headers.get_all("impersonate-group").iter().map(|value| text(value).into_owned()).collect();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            let key = unescape(key, false).unwrap_or_else(|| key.to_owned());
            user.extra.entry(key).or_default().push(text(value).into_owned());
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == UserInfo::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", in_go(&user))))
}

/// Formats the user as Go prints its `user.DefaultInfo`.
fn in_go(user: &UserInfo) -> String {
    let list = |items: &[String]| items.iter().map(|i| format!("{i:?}")).collect::<Vec<_>>().join(", ");
    let groups = match user.groups.as_slice() {
        [] => "(nil)".to_owned(),
        groups => format!("{{{}}}", list(groups)),
    };
    let extra = if user.extra.is_empty() {
        "(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", list(values))).collect();
        format!("{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}",
        user.name, user.uid
    )
}

/// One permission that the impersonating user needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    pub verb: String,
    pub group: &'static str,
    pub namespace: String,
    pub resource: &'static str,
    pub subresource: String,
    pub name: String,
}

/// Returns the permissions for verb `impersonate`: on the user, its groups, its extra values and its uid.
pub fn required_permissions(wanted: &UserInfo) -> Vec<RequiredPermission> {
    let one = |group, resource, name: &str| RequiredPermission {
        verb: "impersonate".to_owned(),
        group,
        namespace: String::new(),
        resource,
        subresource: String::new(),
        name: name.to_owned(),
    };
    let mut all = vec![match split_service_account(&wanted.name) {
        Some((namespace, name)) => {
            RequiredPermission { namespace: namespace.to_owned(), ..one("", "serviceaccounts", name) }
        }
        None => one("", "users", &wanted.name),
    }];
    all.extend(wanted.groups.iter().map(|group| one("", "groups", group)));
    for (key, values) in &wanted.extra {
        all.extend(values.iter().map(|value| RequiredPermission {
            subresource: key.clone(),
            ..one("authentication.k8s.io", "userextras", value)
        }));
    }
    if !wanted.uid.is_empty() {
        all.push(one("authentication.k8s.io", "uids", &wanted.uid));
    }
    all
}

/// Returns the mode of constrained impersonation, which is part of its verbs: `impersonate:<mode>` on the identity and
/// `impersonate-on:<mode>:<verb>` on the requested action.
pub fn mode(wanted: &UserInfo) -> &'static str {
    if split_service_account(&wanted.name).is_some() {
        "serviceaccount"
    } else if wanted.name.starts_with(NODE_USER_PREFIX) {
        "arbitrary-node"
    } else {
        "user-info"
    }
}

/// Returns the permissions that constrained impersonation requires on the identity: each part of it, in group
/// authentication.k8s.io. For a node, this is resource `nodes`, and its group `system:nodes` needs no permission.
pub fn constrained_permissions(wanted: &UserInfo) -> Vec<RequiredPermission> {
    let mode = mode(wanted);
    let mut parts = required_permissions(wanted);
    if mode == "arbitrary-node" {
        let name = wanted.name.strip_prefix(NODE_USER_PREFIX).unwrap_or_default().to_owned();
        parts[0].resource = "nodes";
        parts[0].name = name;
        parts.retain(|part| !(part.resource == "groups" && part.name == NODES));
    }
    for part in &mut parts {
        part.verb = format!("impersonate:{mode}");
        part.group = "authentication.k8s.io";
    }
    parts
}

/// Returns the impersonated user with its implied groups: those of a service account, and `system:authenticated` or
/// `system:unauthenticated`.
pub fn with_implied_groups(mut wanted: UserInfo) -> UserInfo {
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = split_service_account(&wanted.name)
    {
        wanted.groups = service_account_groups(namespace);
    }
    let has = |group: &str| wanted.in_group(group);
    if has(ALL_AUTHENTICATED) || has(ALL_UNAUTHENTICATED) {
        return wanted;
    }
    let implied = if wanted.name == ANONYMOUS { ALL_UNAUTHENTICATED } else { ALL_AUTHENTICATED };
    wanted.groups.push(implied.to_owned());
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_group_alone_is_refused_in_gos_words() {
        let status = requested(&headers(&[("impersonate-group", "devs")])).unwrap_err();
        assert_eq!(
            status.message,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, Extra:map[string][]string(nil)} without impersonating a user name"#
        );
        assert_eq!(requested(&headers(&[("impersonate-user", "")])).unwrap(), None);
    }

    /// A request for such a user must not be served as the impersonating user.
    #[test]
    fn names_may_have_any_letters() {
        let wanted = requested(&headers(&[
            ("impersonate-user", "zoë"),
            ("impersonate-group", "größe"),
            ("impersonate-extra-who", "naïve"),
        ]));
        let wanted = wanted.unwrap().unwrap();
        let extra = [("who".to_owned(), vec!["naïve".to_owned()])].into();
        assert_eq!(wanted, UserInfo { extra, ..UserInfo::new("zoë", &["größe"]) });
        let mut garbage = HeaderMap::new();
        garbage.append("impersonate-user", http::HeaderValue::from_bytes(b"a\xff").unwrap());
        assert_eq!(requested(&garbage).unwrap().unwrap().name, "a\u{fffd}");
    }

    #[test]
    fn every_part_of_an_identity_needs_permission() {
        let wanted = requested(&headers(&[
            ("impersonate-user", "ann"),
            ("impersonate-group", "devs"),
            ("impersonate-extra-scope", "x"),
            ("impersonate-uid", "u"),
        ]));
        let wanted = wanted.unwrap().unwrap();
        let resources: Vec<&str> = required_permissions(&wanted).iter().map(|n| n.resource).collect();
        assert_eq!(resources, ["users", "groups", "userextras", "uids"]);
        assert_eq!(with_implied_groups(wanted).groups, ["devs", ALL_AUTHENTICATED]);
    }

    #[test]
    fn a_service_account_brings_its_groups() {
        let wanted = UserInfo::new("system:serviceaccount:a:b", &[]);
        assert_eq!(required_permissions(&wanted)[0].resource, "serviceaccounts");
        assert_eq!(
            with_implied_groups(wanted).groups,
            ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
        );
    }
}
