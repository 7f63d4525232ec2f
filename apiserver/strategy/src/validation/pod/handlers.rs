//! Validates probes and lifecycle hooks.
//!
//! Corresponds to validateProbe, validateHandler and validateLifecycle.

use field_checks::at::{At, Errors, check_port_number, check_port_number_or_name};

/// The kinds of handlers that a probe or a hook may have. It needs exactly one.
struct Kinds<'k>(&'k [&'k str]);

const PROBES: Kinds<'_> = Kinds(&["exec", "httpGet", "tcpSocket", "grpc"]);
const HOOKS: Kinds<'_> = Kinds(&["exec", "httpGet", "tcpSocket", "sleep"]);

fn handler(at: &At<'_>, kinds: &Kinds<'_>, grace_period_s: Option<i64>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds.0 {
        let one = at.field(kind);
        if !one.is_set() {
            continue;
        }
        if found {
            errors.push(one.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *kind {
            "exec" if one.field("command").is_empty() => errors.push(one.field("command").required("")),
            "httpGet" => http_get(&one, errors),
            "tcpSocket" => check_port_number_or_name(&one.field("port"), errors),
            "grpc" => check_port_number(&one.field("port"), errors),
            "sleep" => sleep(&one, grace_period_s, errors),
            _ => {}
        }
    }
    if !found {
        errors.push(at.required("must specify a handler type"));
    }
}

fn http_get(http: &At<'_>, errors: &mut Errors) {
    if http.field("path").is_empty() {
        errors.push(http.field("path").required(""));
    }
    check_port_number_or_name(&http.field("port"), errors);
    if !["HTTP", "HTTPS"].contains(&http.field("scheme").text()) {
        errors.push(http.field("scheme").not_supported(&["HTTP", "HTTPS"]));
    }
    for header in http.field("httpHeaders").items() {
        let name = header.field("name");
        let fits = !name.is_empty() && name.text().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !fits {
            errors.push(At::new(http.path_of("httpHeaders"), name.value).invalid_text(
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                 for validation is '[-A-Za-z0-9]+')",
            ));
        }
    }
}

fn sleep(sleep: &At<'_>, grace_period_s: Option<i64>, errors: &mut Errors) {
    let Some(grace_period_s) = grace_period_s else { return };
    let seconds = sleep.field("seconds");
    if !(0..=grace_period_s).contains(&seconds.integer().unwrap_or(0)) {
        errors.push(sleep.invalid_as(
            seconds.value,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period_s})"),
        ));
    }
}

pub fn lifecycle(lifecycle: &At<'_>, grace_period_s: Option<i64>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        if lifecycle.field(hook).is_set() {
            handler(&lifecycle.field(hook), &HOOKS, grace_period_s, errors);
        }
    }
}

pub fn probes(container: &At<'_>, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, &PROBES, None, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.field(field).check_non_negative(errors);
        }
        let grace = probe.field("terminationGracePeriodSeconds");
        grace.check_positive(errors);
        if name == "readinessProbe" {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if probe.field("successThreshold").integer() != Some(1) {
            errors.push(probe.field("successThreshold").invalid("must be 1"));
        }
    }
}
