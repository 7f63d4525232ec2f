//! How objects get from one version to another.

use crate::registry::validation::at::{At, Errors};

pub fn check(conversion: &At<'_>, errors: &mut Errors) {
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.field("strategy");
    strategy.check_enum(&["None", "Webhook"], errors);
    let webhook = conversion.field("webhook");
    if strategy.text() != "Webhook" {
        if webhook.is_set() {
            let at = At::new(format!("{}.webhookClientConfig", conversion.path), webhook.value);
            errors.push(at.forbidden("should not be set when strategy is not set to Webhook"));
        }
        return;
    }
    let client = webhook.field("clientConfig");
    let at = At::new(format!("{}.webhookClientConfig", conversion.path), client.value);
    if !client.is_set() {
        errors.push(at.required("required when strategy is set to Webhook"));
    } else {
        let (url, service) = (at.field("url"), at.field("service"));
        if url.is_set() == service.is_set() {
            errors.push(at.required("exactly one of url or service is required"));
        }
        if service.is_set() {
            for key in ["name", "namespace"] {
                if service.field(key).text().is_empty() {
                    errors.push(service.field(key).required(""));
                }
            }
        }
        if url.is_set() && !url.text().starts_with("https://") {
            errors.push(url.invalid("'https' is the only allowed URL scheme; desired format: https://host[/path]"));
        }
    }
    let reviews = webhook.field("conversionReviewVersions");
    let at = At::new(format!("{}.conversionReviewVersions", conversion.path), reviews.value);
    if at.is_empty() {
        errors.push(at.required(""));
    } else if !at.items().any(|version| matches!(version.text(), "v1" | "v1beta1")) {
        errors.push(at.invalid("must include at least one of v1, v1beta1"));
    }
}
