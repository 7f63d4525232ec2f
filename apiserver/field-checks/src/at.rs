//! `At`: a value in an object together with its path, which errors name.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/validation/field Path.

use ipnet::IpNet;
use proto::meta::names;
use proto::meta::status::FieldError;
use proto::schema::{Schema, Shape, TypeRef, builtin};
use serde_json::{Map, Value, json};
use std::fmt;
use std::net::IpAddr;

pub type Errors = Vec<FieldError>;

static NOTHING: Value = Value::Null;

/// A value and its path. An absent value is null, so that reading a nested field never fails.
///
/// In debug builds a value in a built-in kind also has its type: `field` panics when the type has no field of that
/// name, because a misspelt name would silently read nothing. The type of custom resources, of free-form maps and of
/// values from `new` is unknown.
#[derive(Clone, Debug)]
pub struct At<'a> {
    pub path: String,
    pub value: &'a Value,
    schema: KnownType,
}

/// The built-in type of a value; `None` if it is unknown.
type KnownType = Option<&'static Schema>;

/// Returns the type of the field `name` in an object of type `schema`.
#[track_caller]
fn field_type(schema: KnownType, name: &str) -> KnownType {
    let schema = schema?;
    let is_object = match &schema.resolve().shape {
        Shape::Any => return None,
        Shape::Object(properties) if properties.preserve_unknown => return None,
        Shape::Object(_) => true,
        Shape::Map(_) => return schema.field(name),
        _ => false,
    };
    let found = schema.field(name);
    debug_assert!(found.is_some(), "no field {name:?} in {}", type_name(schema, is_object));
    found
}

/// Returns the name of a type for the message of a panic.
fn type_name(schema: &Schema, is_object: bool) -> String {
    match &schema.shape {
        Shape::Ref(reference) => reference.name.to_string(),
        Shape::Object(properties) => format!("an object of the fields {:?}", properties.fields.keys()),
        _ if is_object => "an object".to_owned(),
        shape => format!("a value without fields: {shape:?}"),
    }
}

impl<'a> At<'a> {
    /// Returns a whole object, whose type is unknown.
    pub fn root(value: &'a Value) -> Self {
        Self::new("", value)
    }

    /// Returns a whole object of a type in the resource table. Only built-in types are kept, and only in debug builds.
    pub fn typed_root(of: &TypeRef, value: &'a Value) -> Self {
        let schema = if cfg!(debug_assertions) { builtin::all().get(&of.name).map(TypeRef::schema) } else { None };
        Self { schema, ..Self::root(value) }
    }

    /// Returns a value under the path that the caller chooses. Its type is unknown.
    pub fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value, schema: None }
    }

    /// Returns the same value under another path, for errors that Kubernetes reports there.
    pub fn shown_at(&self, path: impl Into<String>) -> At<'a> {
        At { path: path.into(), value: self.value, schema: self.schema }
    }

    /// Returns the field of an object, at `spec.name`.
    #[track_caller]
    pub fn field(&self, name: &str) -> At<'a> {
        At {
            path: self.path_of(name),
            value: self.value.get(name).unwrap_or(&NOTHING),
            schema: field_type(self.schema, name),
        }
    }

    /// Returns a field that not all types of a shared check define. It is null in a type without it.
    pub fn field_if_defined(&self, name: &str) -> At<'a> {
        let schema = self.schema.filter(|schema| schema.field(name).is_some());
        At { schema, ..self.clone() }.field(name)
    }

    /// Returns the path of a field.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { [&self.path, ".", name].concat() }
    }

    /// Returns the field several levels down, at `spec.template.spec`.
    #[track_caller]
    pub fn down(&self, names: &str) -> At<'a> {
        let (mut value, mut schema) = (self.value, self.schema);
        for name in names.split('.') {
            value = value.get(name).unwrap_or(&NOTHING);
            schema = field_type(schema, name);
        }
        At { path: self.path_of(names), value, schema }
    }

    /// Returns the entry of a map, at `data[key]`.
    pub fn key(&self, key: &str) -> At<'a> {
        let value = self.value.get(key).unwrap_or(&NOTHING);
        At {
            path: [&self.path, "[", key, "]"].concat(),
            value,
            schema: self.schema.and_then(|schema| schema.field(key)),
        }
    }

    /// Returns the items of a list, at `ports[0]`, `ports[1]`.
    pub fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let (path, schema) = (self.path.clone(), self.schema.and_then(Schema::items));
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(move |(index, value)| At { path: format!("{path}[{index}]"), value, schema })
    }

    /// Returns the entries of a map, each at `path[key]`.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let (path, schema) = (self.path.clone(), self.schema);
        let fields = self.value.as_object().into_iter().flatten();
        fields.map(move |(key, value)| {
            let schema = schema.and_then(|schema| schema.field(key));
            (key.as_str(), At { path: [&path, "[", key, "]"].concat(), value, schema })
        })
    }

    pub fn map(&self) -> Option<&'a Map<String, Value>> {
        self.value.as_object()
    }

    /// Returns the number of items or entries, or of the bytes of a text.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            Value::String(text) => text.len(),
            _ => 0,
        }
    }

    /// Returns true for an absent value, and for an empty text, list or map.
    pub fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::Array(_) | Value::Object(_) | Value::String(_) => self.len() == 0,
            _ => false,
        }
    }

    /// Returns true for a value that is present, even if it is empty.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns the text, or the empty text for any other value.
    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub fn integer(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns true for the value `true` only.
    pub fn is_true(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    // Errors with this path.

    pub fn invalid(&self, detail: impl fmt::Display) -> FieldError {
        FieldError::invalid(self.path.clone(), self.value, detail)
    }

    /// Like `invalid`, for a text that counts as empty if it is absent.
    pub fn invalid_text(&self, detail: impl fmt::Display) -> FieldError {
        FieldError::invalid(self.path.clone(), &json!(self.text()), detail)
    }

    /// Like `invalid`, with another value in the message.
    pub fn invalid_as(&self, value: &Value, detail: impl fmt::Display) -> FieldError {
        FieldError::invalid(self.path.clone(), value, detail)
    }

    /// Like `invalid`, with a value that is formatted already, as Go prints a struct.
    pub fn invalid_shown(&self, shown: impl fmt::Display, detail: impl fmt::Display) -> FieldError {
        let message = format!("Invalid value: {shown}: {detail}");
        FieldError { field: self.path.clone(), reason: "FieldValueInvalid", message }
    }

    /// Like `invalid`, for a value that the message does not show.
    pub fn invalid_omitted(&self, detail: impl fmt::Display) -> FieldError {
        let message = format!("Invalid value: {detail}");
        FieldError { field: self.path.clone(), reason: "FieldValueInvalid", message }
    }

    pub fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.clone(), detail)
    }

    pub fn forbidden(&self, detail: impl fmt::Display) -> FieldError {
        FieldError::forbidden(self.path.clone(), detail)
    }

    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.clone(), self.value)
    }

    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path.clone(), self.value)
    }

    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(self.path.clone(), self.value, supported)
    }

    pub fn too_long(&self, max_bytes: usize) -> FieldError {
        FieldError::too_long(self.path.clone(), max_bytes)
    }

    // Common checks.

    /// Checks a required value that must be one of the given words.
    pub fn check_enum(&self, allowed: &[&str], errors: &mut Errors) {
        if self.text().is_empty() {
            errors.push(self.required(""));
        } else if !allowed.contains(&self.text()) {
            errors.push(self.not_supported(allowed));
        }
    }

    /// Checks an optional value that must be one of the given words.
    pub fn check_optional_enum(&self, allowed: &[&str], errors: &mut Errors) {
        if self.is_set() && !allowed.contains(&self.text()) {
            errors.push(self.not_supported(allowed));
        }
    }

    pub fn check_non_negative(&self, errors: &mut Errors) {
        if self.integer().is_some_and(|number| number < 0) {
            errors.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    pub fn check_positive(&self, errors: &mut Errors) {
        if self.integer().is_some_and(|number| number <= 0) {
            errors.push(self.invalid("must be greater than 0"));
        }
    }

    /// Checks the text by a rule, which returns a message for each fault.
    pub fn check(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        errors.extend(rule(self.text()).into_iter().map(|complaint| self.invalid_text(complaint)));
    }

    /// Like `check`, for a required value.
    pub fn check_required(&self, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if self.text().is_empty() {
            errors.push(self.required(""));
        } else {
            self.check(rule, errors);
        }
    }

    /// Checks that an update keeps an immutable field.
    pub fn check_unchanged(&self, old: &At<'_>, errors: &mut Errors) {
        if self.value != old.value {
            errors.push(self.invalid(IMMUTABLE));
        }
    }

    /// Checks the keys and the values of labels.
    pub fn check_labels(&self, errors: &mut Errors) {
        for (key, value) in self.map().into_iter().flatten() {
            let mut complain = |text: &str, complaints: Vec<String>| {
                errors.extend(complaints.into_iter().map(|complaint| self.invalid_as(&json!(text), complaint)));
            };
            let value = value.as_str().unwrap_or_default();
            complain(key, names::qualified_name(key));
            complain(value, names::label_value(value));
        }
    }
}

pub const IMMUTABLE: &str = "field is immutable";

/// Checks a port number: from 1 to 65535.
pub fn check_port_number(at: &At<'_>, errors: &mut Errors) {
    let port = at.integer().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        errors.push(at.invalid_as(&json!(port), "must be between 1 and 65535, inclusive"));
    }
}

/// Returns the faults of a port's name.
pub fn port_name(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > 15 {
        complaints.push("must be no more than 15 characters".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// Checks a port that is given by number or by name.
pub fn check_port_number_or_name(at: &At<'_>, errors: &mut Errors) {
    if at.value.is_string() { at.check(port_name, errors) } else { check_port_number(at, errors) }
}

/// Parses an IP address as Go does: octets may have leading zeros.
pub fn lenient_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    let octets = |text: &str| -> String {
        let short = |octet: &str| match octet.trim_start_matches('0') {
            "" if !octet.is_empty() => "0".to_owned(),
            digits => digits.to_owned(),
        };
        text.split('.').map(short).collect::<Vec<_>>().join(".")
    };
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => format!("{head}:{}", octets(tail)).parse().ok(),
        Some(_) => None,
        None => octets(text).parse().ok(),
    }
}

fn is_ipv4_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Returns the faults of an IP address, which need not be canonical.
pub fn ip(text: &str) -> Vec<String> {
    let Some(ip) = lenient_ip(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if is_ipv4_mapped(ip) { vec!["must not be an IPv4-mapped IPv6 address".to_owned()] } else { Vec::new() }
}

/// Returns the faults of an IP address in a newer field, where it has to be canonical.
pub fn canonical_ip(text: &str) -> Vec<String> {
    let complaints = ip(text);
    match text.parse::<IpAddr>() {
        Ok(ip) if complaints.is_empty() && ip.to_string() != text => vec![not_canonical(&ip.to_string())],
        _ => complaints,
    }
}

fn not_canonical(text: &str) -> String {
    format!("must be in canonical form ({text:?})")
}

/// Parses an IP range as Go does. Bits beyond the prefix are cleared.
pub fn lenient_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let net = IpNet::new(lenient_ip(address)?, length.parse().ok().filter(|_| digits)?).ok()?;
    Some(net.trunc())
}

/// Returns the faults of an IP range, which need not be canonical.
pub fn cidr(text: &str) -> Vec<String> {
    let Some(net) = lenient_cidr(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let (address, length) = text.split_once('/').unwrap_or_default();
    let Some(ip) = address.parse::<IpAddr>().ok().filter(|_| length.len() == 1 || !length.starts_with('0')) else {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    };
    let complaint = match ip {
        ip if is_ipv4_mapped(ip) => "must not have an IPv4-mapped IPv6 address",
        ip if ip != net.addr() => "must not have bits set beyond the prefix length",
        _ => return Vec::new(),
    };
    vec![complaint.to_owned()]
}

/// Returns the faults of an IP range in a newer field, where it has to be canonical.
pub fn canonical_cidr(text: &str) -> Vec<String> {
    let complaints = cidr(text);
    match lenient_cidr(text) {
        Some(net) if complaints.is_empty() && net.to_string() != text => vec![not_canonical(&net.to_string())],
        _ => complaints,
    }
}

/// Returns the faults of an address with a prefix length, which has to be canonical.
pub fn interface_address(text: &str) -> Vec<String> {
    let parsed = lenient_cidr(text).and_then(|net| Some((net, lenient_ip(text.split_once('/')?.0)?)));
    let Some((net, ip)) = parsed else {
        return vec!["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_owned()];
    };
    let ip = ip.to_canonical();
    let length = if ip.is_ipv4() && net.prefix_len() > 32 { net.prefix_len() - 96 } else { net.prefix_len() };
    let canonical = format!("{ip}/{length}");
    if canonical == text { Vec::new() } else { vec![not_canonical(&canonical)] }
}

/// Checks that the text is an IP address, which need not be canonical.
pub fn check_ip(at: &At<'_>, errors: &mut Errors) {
    at.check(ip, errors);
}

#[cfg(test)]
mod tests {
    use super::{At, canonical_cidr, canonical_ip, cidr, interface_address, ip};
    use proto::schema::builtin_type;
    use serde_json::{Value, json};

    fn pod(value: &Value) -> At<'_> {
        At::typed_root(&builtin_type("io.k8s.api.core.v1.Pod"), value)
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no field \"nmae\" in io.k8s.api.core.v1.Container")]
    fn a_misspelt_field_panics() {
        let object = json!({"spec": {"containers": [{}]}});
        pod(&object).down("spec.containers").items().for_each(|container| drop(container.field("nmae")));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no field \"contianers\" in io.k8s.api.core.v1.PodSpec")]
    fn a_misspelt_field_of_an_absent_value_panics() {
        pod(&Value::Null).down("spec.contianers");
    }

    #[test]
    fn values_of_unknown_type_may_have_any_field() {
        let custom = builtin_type("com.example.Widget");
        let crd = builtin_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition");
        let review = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"default": {"a": 1}}}}]}});
        let versions = At::typed_root(&crd, &review).down("spec.versions").items().next();
        let default = versions.map(|version| version.down("schema.openAPIV3Schema.default"));
        for (place, name) in [
            (At::root(&Value::Null), "nmae"),
            (At::typed_root(&custom, &Value::Null), "nmae"),
            (pod(&Value::Null).down("metadata.labels"), "example.com/app"),
            (pod(&Value::Null).down("spec").shown_at("x").field("overhead"), "example.com/gpu"),
            (At::new("made-up", &Value::Null), "nmae"),
        ]
        .into_iter()
        .chain(default.map(|default| (default, "b")))
        {
            assert!(!place.field(name).is_set(), "{name}");
        }
    }

    #[test]
    fn addresses_of_interfaces_may_have_bits_beyond_the_prefix() {
        let bad = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        for (text, expected) in [
            ("10.9.8.7/24", ""),
            ("2001:db8::1/64", ""),
            ("10.9.8.7", bad),
            ("300.9.8.0/24", bad),
            ("10.9.8.7/-1", bad),
            ("010.009.008.000/24", "must be in canonical form (\"10.9.8.0/24\")"),
            ("2001:0db8::1/64", "must be in canonical form (\"2001:db8::1/64\")"),
            ("::ffff:10.0.0.1/120", "must be in canonical form (\"10.0.0.1/24\")"),
        ] {
            assert_eq!(interface_address(text).join("|"), expected, "{text}");
        }
    }

    #[test]
    fn addresses_and_ranges_are_unambiguous() {
        let bad_ip = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        for (text, legacy, canonical) in [
            ("10.0.0.1", "", ""),
            ("fd00::1", "", ""),
            ("FD00:0::1", "", r#"must be in canonical form ("fd00::1")"#),
            ("10.00.0.01", "must not have leading 0s", "must not have leading 0s"),
            ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address", "must not be an IPv4-mapped IPv6 address"),
            ("::ffff:1.2.3.04", "must not have leading 0s", "must not have leading 0s"),
            ("10.0.0.256", bad_ip, bad_ip),
            ("10.0.0", bad_ip, bad_ip),
            ("", bad_ip, bad_ip),
            ("fe80::1%eth0", bad_ip, bad_ip),
        ] {
            assert_eq!((ip(text).join("|"), canonical_ip(text).join("|")), (legacy.into(), canonical.into()), "{text}");
        }
        let bad = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        let zeros = "must not have leading 0s in IP or prefix length";
        for (text, legacy, canonical) in [
            ("10.0.0.0/8", "", ""),
            ("0.0.0.0/0", "", ""),
            ("FD00::/64", "", r#"must be in canonical form ("fd00::/64")"#),
            (
                "10.0.0.1/8",
                "must not have bits set beyond the prefix length",
                "must not have bits set beyond the prefix length",
            ),
            ("010.0.0.0/8", zeros, zeros),
            ("10.0.0.0/08", zeros, zeros),
            (
                "::ffff:1.2.3.0/120",
                "must not have an IPv4-mapped IPv6 address",
                "must not have an IPv4-mapped IPv6 address",
            ),
            ("10.0.0.0", bad, bad),
            ("10.0.0.0/33", bad, bad),
            ("10.0.0.0/+8", bad, bad),
        ] {
            let found = (cidr(text).join("|"), canonical_cidr(text).join("|"));
            assert_eq!(found, (legacy.into(), canonical.into()), "{text}");
        }
    }
}
