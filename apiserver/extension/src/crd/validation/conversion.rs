//! Validates `spec.conversion`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::meta::names::dns1035_label;
use strategy::validation::at::{At, Errors};
use strategy::validation::webhooks;

/// Checks `spec.conversion`. With `checks_bundle`, the certificates of a webhook must be readable. They need not be before
/// the definition is served, or if the old ones were not.
pub fn check(conversion: &At<'_>, checks_bundle: bool, errors: &mut Errors) {
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.field("strategy");
    strategy.check_enum(&["None", "Webhook"], errors);
    let webhook = conversion.field("webhook");
    let (client, reviews) = (webhook.field("clientConfig"), webhook.field("conversionReviewVersions"));
    // Errors name these fields as before the field `webhook` was introduced.
    let client = client.shown_at(conversion.path_of("webhookClientConfig"));
    let reviews = reviews.shown_at(conversion.path_of("conversionReviewVersions"));
    if strategy.text() != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if client.is_set() {
            errors.push(client.forbidden(why));
        }
        if !reviews.is_empty() {
            errors.push(reviews.forbidden(why));
        }
        return;
    }
    if client.is_set() {
        webhooks::client_config(&client, errors);
        let bundle = client.field("caBundle");
        if checks_bundle && !bundle.is_empty() && !is_bundle(bundle.text()) {
            let why = "unable to load root certificates: unable to parse bytes as PEM block";
            errors.push(bundle.invalid(why));
        }
    } else {
        errors.push(client.required("required when strategy is set to Webhook"));
    }
    check_reviews(&reviews, errors);
}

fn check_reviews(reviews: &At<'_>, errors: &mut Errors) {
    if reviews.is_empty() {
        errors.push(reviews.required(""));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for version in reviews.items() {
        if seen.contains(&version.text()) {
            errors.push(version.invalid("duplicate version"));
            continue;
        }
        seen.push(version.text());
        version.check(dns1035_label, errors);
    }
    if !seen.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        errors.push(reviews.invalid("must include at least one of v1, v1beta1"));
    }
}

/// Tells whether a text is base64 of PEM certificates.
pub fn is_bundle(base64: &str) -> bool {
    let blocks = pem::parse_many(STANDARD.decode(base64).unwrap_or_default()).unwrap_or_default();
    blocks.iter().any(|block| block.tag() == "CERTIFICATE")
}
