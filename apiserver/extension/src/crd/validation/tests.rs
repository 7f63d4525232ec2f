//! Tables of definitions and their errors, in the order in which Kubernetes reports them.

use crate::crd::{definition as definitions, strategies};
use proto::resources::builtin;
use serde_json::{Value, json};
use strategy::testing::generated::validate_generated;
use strategy::testing::{at, create_by, update_by};

fn create(definition: Value) -> Vec<String> {
    create_by(strategies::of, definition)
}

fn update_of(subresource: &str, old: Value, new: Value) -> Vec<String> {
    update_by(strategies::of, subresource, old, new)
}

fn update(old: Value, new: Value) -> Vec<String> {
    update_of("", old, new)
}

fn version(name: &str, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
}

fn definition(changes: &[(&str, Value)]) -> Value {
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.a.example"},
        "spec": {
            "group": "a.example", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version("v1", json!({"type": "object"}))],
        },
    });
    for (pointer, value) in changes {
        *at(&mut definition, pointer) = value.clone();
    }
    definition
}

fn errors_with(changes: &[(&str, Value)]) -> Vec<String> {
    create(definition(changes))
}

const ROOT: &str = "spec.validation.openAPIV3Schema";

/// Returns the errors of a definition with this schema. Their paths start at its root.
fn schema_errors(schema: Value) -> Vec<String> {
    let errors = errors_with(&[("/spec/versions/0/schema/openAPIV3Schema", schema)]);
    errors.iter().map(|error| error.strip_prefix(ROOT).unwrap_or(error).to_owned()).collect()
}

/// Returns the errors of a definition whose `.spec` has this schema. Their paths start at `.spec`.
fn spec_errors(spec: Value) -> Vec<String> {
    let errors = schema_errors(json!({"type": "object", "properties": {"spec": spec}}));
    errors.iter().map(|error| error.strip_prefix(".properties[spec]").unwrap_or(error).to_owned()).collect()
}

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                     character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn names_are_required_and_valid() {
    let names = json!({"plural": "gadgets", "singular": "Bad", "kind": "", "listKind": "Bad_List",
        "shortNames": ["Bad"], "categories": ["Bad"]});
    let mixed = "may have mixed case, but should otherwise match: ";
    assert_eq!(
        errors_with(&[("/spec/names", names)]),
        [
            "spec.names.kind: Required value".to_owned(),
            format!("spec.names.singular: Invalid value: \"Bad\": {LABEL}"),
            format!("spec.names.listKind: Invalid value: \"Bad_List\": {mixed}{LABEL}"),
            format!("spec.names.shortNames[0]: Invalid value: \"Bad\": {LABEL}"),
            format!("spec.names.categories[0]: Invalid value: \"Bad\": {LABEL}"),
        ]
    );
    // Every complaint about a name is in one error.
    let long = "B".repeat(64);
    assert_eq!(
        errors_with(&[("/spec/names/singular", json!(long))]),
        [format!("spec.names.singular: Invalid value: {long:?}: must be no more than 63 characters,{LABEL}")]
    );
    let names = json!({"plural": "gadgets", "kind": "Gadget", "listKind": "Gadget", "categories": ["Bad"]});
    assert_eq!(
        errors_with(&[("/spec/names", names)]),
        [
            "spec.names.listKind: Invalid value: \"Gadget\": kind and listKind may not be the same".to_owned(),
            format!("spec.names.categories[0]: Invalid value: \"Bad\": {LABEL}"),
        ]
    );
    let accepted = definition(&[("/status/acceptedNames", json!({"plural": "Bad", "kind": "Gadget"}))]);
    assert_eq!(
        update_of("status", definition(&[]), accepted),
        [format!("status.acceptedNames.plural: Invalid value: \"Bad\": {LABEL}")]
    );
}

#[test]
fn versions_are_checked_one_after_another() {
    let mut versions = [
        version("v_1", json!({"type": "string"})),
        version("v1", json!({"type": "object", "nullable": true})),
        json!({"name": "v2", "served": true, "storage": true}),
    ];
    versions[0]["deprecated"] = json!(true);
    versions[0]["deprecationWarning"] = json!(format!("\u{7}{}", "x".repeat(256)));
    versions[1]["deprecationWarning"] = json!("");
    versions[1]["additionalPrinterColumns"] = json!([{"name": "", "type": "odd", "format": "odd", "jsonPath": ""}, {"name": "a", "type": "", "jsonPath": "."}]);
    let errors = errors_with(&[("/spec/versions", json!(versions)), ("/status/storedVersions", json!(["v0"]))]);
    let starts = [
        "spec.versions[2].schema.openAPIV3Schema: Required value",
        "spec.versions[0].name: Invalid value: \"v_1\": a DNS-1035 label",
        "spec.versions[0].deprecationWarning: Invalid value: \"\\axxx",
        "spec.versions[0].deprecationWarning: Invalid value: \"\\axxx",
        "spec.versions[0].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        "spec.versions[1].deprecationWarning: Invalid value: \"\": can only be set for deprecated versions",
        "spec.versions[1].schema.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
        "spec.versions[1].additionalPrinterColumns[0].name: Required value",
        "spec.versions[1].additionalPrinterColumns[0].type: Invalid value: \"odd\": must be one of boolean,date,integer,\
         number,string",
        "spec.versions[1].additionalPrinterColumns[0].format: Invalid value: \"odd\": must be one of byte,date,date-time,\
         double,float,int32,int64,password",
        "spec.versions[1].additionalPrinterColumns[0].JSONPath: Required value",
        "spec.versions[1].additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string",
        "spec.versions: Invalid value: [{",
        "spec.version: Invalid value: \"v_1\": a DNS-1035 label",
        "status.storedVersions",
    ];
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error} does not start with {start}");
    }
    assert!(errors[2].ends_with("must be <= 256 characters long"), "{}", errors[2]);
    assert!(
        errors[3].ends_with(": must only contain printable UTF-8 characters; non-printable character found at index 0")
    );
    assert!(errors[12].ends_with(": must have exactly one version marked as storage version"));
}

#[test]
fn a_stored_version_stays_in_the_versions() {
    let stored = |names: Value| definition(&[("/status/storedVersions", names)]);
    let missing = "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage \
                   version, and must remain in spec.versions until a storage migration ensures no data remains persisted in \
                   v0 and removes v0 from status.storedVersions";
    assert_eq!(update(stored(json!(["v0"])), stored(json!(["v0"]))), [missing]);
}

#[test]
fn a_schema_is_structural_first() {
    let cases: &[(Value, &[&str])] = &[
        // Errors of the structure come first, sorted by path.
        (
            json!({"type": "object", "uniqueItems": true, "properties": {"b": {"type": "array"}, "a": {}}}),
            &[
                ".properties[a].type: Required value: must not be empty for specified object fields",
                ".properties[b].items: Required value: must be specified",
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        // An unsupported feature hides the errors of the structure.
        (
            json!({"type": "object", "properties": {"a": {}, "b": {"type": "null", "$ref": "#/x", "id": "y"}}}),
            &[
                ".properties[b].type: Unsupported value: \"null\": supported values: \"array\", \"boolean\", \"integer\", \
                 \"number\", \"object\", \"string\"",
                ".properties[b].id: Forbidden: id is not supported",
                ".properties[b].$ref: Forbidden: $ref is not supported",
                ".properties[b].type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {}}),
            &[".additionalProperties.type: Required value: must not be empty for specified object fields"],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-embedded-resource": true}),
            &[
                ".type: Required value: must be object if x-kubernetes-embedded-resource is true",
                ".x-kubernetes-embedded-resource: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is \
                 true",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "kind": {"type": "integer"}, "apiVersion": {"type": "boolean"}, "metadata": {"type": "string"}}}),
            &[
                ".properties[apiVersion].type: Invalid value: \"boolean\": must be string",
                ".properties[kind].type: Invalid value: \"integer\": must be string",
                ".properties[metadata].type: Invalid value: \"string\": must be object",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            &[".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without \
               x-kubernetes-preserve-unknown-fields"],
        ),
        (
            json!({"type": "object", "allOf": [{"type": "object", "default": {}, "nullable": true, "description": "d",
                "additionalProperties": {"maxLength": 1}, "x-kubernetes-int-or-string": true,
                "x-kubernetes-map-type": "atomic", "x-kubernetes-list-map-keys": ["a"],
                "properties": {"metadata": {}}, "items": {"title": "t"}}]}),
            &[
                ".allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
                ".allOf[0].default: Forbidden: must be undefined to be structural",
                ".allOf[0].description: Forbidden: must be empty to be structural",
                ".allOf[0].items.title: Forbidden: must be empty to be structural",
                ".allOf[0].nullable: Forbidden: must be false to be structural",
                ".allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
                ".allOf[0].type: Forbidden: must be empty to be structural",
                ".allOf[0].x-kubernetes-int-or-string: Forbidden: must be false to be structural",
                ".allOf[0].x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
                ".allOf[0].x-kubernetes-map-type: Forbidden: must be undefined to be structural",
                ".allOf[0].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
                ".allOf[0].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
            ],
        ),
        // Below the root, a branch may name what the structure does not.
        (json!({"type": "object", "anyOf": [{"required": ["b"], "properties": {"b": {"enum": [1]}}}]}), &[]),
        (
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]}),
            &[],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "message": " "}],
                "x-kubernetes-list-type": "atomic"}),
            &[
                ".type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified",
                ".x-kubernetes-validations[0].message: Invalid value: \" \": must be non-empty if specified",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "messageExpression": " "}]}),
            &[".x-kubernetes-validations[0].messageExpression: Required value: must be non-empty if specified"],
        ),
    ];
    for (schema, errors) in cases {
        assert_eq!(spec_errors(schema.clone()), *errors, "{schema}");
    }
}

#[test]
fn a_schema_with_a_dialect_or_too_deep_a_nesting_has_one_error() {
    assert_eq!(
        schema_errors(json!({"type": "object", "$schema": "x", "properties": {"a": {}}})),
        [": Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]
    );
    let deep = (0..70).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}));
    let at = ".items".repeat(64);
    assert_eq!(spec_errors(deep), [format!("{at}: Forbidden: schemas may not be nested deeper than 64 levels")]);
}

#[test]
fn fields_of_branches_are_in_the_structure() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}, "not": {"properties": {
        "other": {"minLength": 1}, "spec": {"properties": {"a": {"minLength": 1}}}}}});
    assert_eq!(
        schema_errors(schema),
        [
            format!(".properties[other]: Required value: because it is defined in {ROOT}.not.properties[other]"),
            format!(
                ".properties[spec].properties[a]: Required value: because it is defined in \
                 {ROOT}.not.properties[spec].properties[a]"
            ),
        ]
    );
    let metadata = |metadata: Value| schema_errors(json!({"type": "object", "properties": {"metadata": metadata}}));
    let names = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}});
    assert_eq!(metadata(names), [""; 0]);
    let only = ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata \
                is implicitly specified";
    assert_eq!(metadata(json!({"type": "object", "description": "d"})), [only]);
    assert_eq!(
        metadata(json!({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}})),
        [".properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"]
    );
}

#[test]
fn lists_and_maps_say_how_they_merge() {
    let item = |more: Value| {
        let mut schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}});
        schema.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        schema
    };
    let cases: &[(Value, &[&str])] = &[
        (item(json!({})), &[]),
        (
            item(json!({"x-kubernetes-list-map-keys": ["k", "k", "l"]})),
            &[
                ".x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\",\"l\"]: must not contain duplicate entries",
                ".x-kubernetes-list-map-keys: Invalid value: [\"k\",\"k\",\"l\"]: entries must all be names of item \
                 properties",
            ],
        ),
        (
            item(json!({"items": {"type": "object", "nullable": true, "properties": {
                "k": {"type": "array", "nullable": true, "items": {"type": "string"}}}}})),
            &[
                ".items.properties[k].type: Invalid value: \"object\": must be a scalar type if parent array's \
                 x-kubernetes-list-type is map",
                ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
                ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must \
                 have a default or be a required property",
                ".items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be \
                 nullable",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set",
                "x-kubernetes-list-map-keys": ["k"]}),
            &[
                ".x-kubernetes-list-type: Invalid value: \"set\": must be map if x-kubernetes-list-map-keys is non-empty",
                ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
            ],
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "odd",
                "x-kubernetes-list-type": "odd"}),
            &[
                ".type: Required value: must be object if x-kubernetes-map-type is specified",
                ".x-kubernetes-map-type: Unsupported value: \"odd\": supported values: \"atomic\", \"granular\"",
                ".type: Required value: must be array if x-kubernetes-list-type is specified",
                ".x-kubernetes-list-type: Unsupported value: \"odd\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
    ];
    for (schema, errors) in cases {
        assert_eq!(spec_errors(schema.clone()), *errors, "{schema}");
    }
}

#[test]
fn defaults_are_valid_by_their_own_schema() {
    let object = |more: Value| {
        let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        schema.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        schema
    };
    let metadata =
        |name: Value| object(json!({"properties": {"metadata": {"type": "object", "properties": {"name": name}}}}));
    let rule = |rule: &str| json!([{"rule": rule, "message": "too small"}]);
    let cases: &[(Value, &[&str])] = &[
        (json!({"type": "integer", "default": 5, "x-kubernetes-validations": rule("self > 3")}), &[]),
        (
            json!({"type": "integer", "default": 2, "x-kubernetes-validations": rule("self > 3")}),
            &[".default: Invalid value: 2: too small"],
        ),
        (
            json!({"type": "object", "default": {"a": 2}, "properties": {
                "a": {"type": "integer", "x-kubernetes-validations": rule("self > 3")}}}),
            &[".default.a: Invalid value: 2: too small"],
        ),
        // The rules of a default that does not fit its schema are not checked.
        (
            json!({"type": "integer", "maximum": 1, "default": 2, "x-kubernetes-validations": rule("self > 3")}),
            &[".default: Invalid value: 2:  in body should be less than or equal to 1"],
        ),
        // A default must be valid as an unchanged value and as a new one.
        (json!({"type": "integer", "default": 2, "x-kubernetes-validations": rule("self == oldSelf")}), &[]),
        (
            json!({"type": "integer", "default": 2,
                "x-kubernetes-validations": [{"rule": "oldSelf.hasValue()", "message": "new", "optionalOldSelf": true}]}),
            &[".default: Invalid value: 2: new"],
        ),
        (
            json!({"type": "object", "default": {"metadata": {}}}),
            &[".default: Invalid value: {\"metadata\":{}}: must not have unknown fields"],
        ),
        (object(json!({"default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}}})), &[]),
        (
            object(json!({"default": {"apiVersion": "a/b/c", "kind": "Bad_Kind", "metadata": {"name": "a/b"}}})),
            &[
                ".default.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                &format!(
                    ".default.kind: Invalid value: \"Bad_Kind\": may have mixed case, but should otherwise match: {LABEL}"
                ),
                ".default.metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            object(json!({"default": {"metadata": {}}})),
            &[".default.apiVersion: Required value", ".default.kind: Required value"],
        ),
        (metadata(json!({"type": "string", "default": "web"})), &[]),
        (
            metadata(json!({"type": "string", "default": "a/b"})),
            &[
                ".properties[metadata].properties[name].default: Invalid value: \"a/b\": must result in valid metadata: \
                 metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ];
    for (schema, errors) in cases {
        assert_eq!(spec_errors(schema.clone()), *errors, "{schema}");
    }
}

#[test]
fn a_schema_with_a_status_subresource_has_a_plain_root() {
    let errors = |schema: Value| {
        let mut version = version("v1", schema);
        version["subresources"] = json!({"status": {}});
        errors_with(&[("/spec/versions", json!([version]))])
    };
    assert_eq!(errors(json!({"type": "object", "description": "d", "required": ["spec"]})), [""; 0]);
    let found = errors(json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
        "kind": {"type": "string"}}}));
    assert!(found[0].starts_with("spec.validation.openAPIV3Schema: Invalid value: {"), "{found:?}");
    assert!(
        found[0].ends_with(
            ": only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
             Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
             XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is \
             enabled"
        ),
        "{found:?}"
    );
    assert_eq!(
        errors(json!({"type": "string"})),
        [
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": only \"object\" is allowed as the type at the \
             root of the schema if the status subresource is enabled",
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ]
    );
}

#[test]
fn selectable_fields_exist_and_have_simple_types() {
    let schema = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {"type": "object", "properties": {"a": {"type": "string", "nullable": true}, "n": {"type": "number"}}}}});
    let fields: Vec<Value> = [".metadata.name", ".spec.a", ".spec.a", ".spec.n", ".spec.none", ""]
        .iter()
        .map(|path| json!({"jsonPath": path}))
        .collect();
    let mut version = version("v1", schema);
    version["selectableFields"] = json!(fields);
    assert_eq!(
        errors_with(&[("/spec/versions", json!([version]))]),
        [
            "spec.selectableFields[0].jsonPath: Invalid value: \".metadata.name\": must not point to fields in metadata",
            "spec.selectableFields[2].jsonPath: Duplicate value: \".spec.a\"",
            "spec.selectableFields[3].jsonPath: Invalid value: \".spec.n\": must point to a field of type string, boolean or \
             integer. Enum string fields and strings with formats are allowed.",
            "spec.selectableFields[4].jsonPath: Invalid value: \".spec.none\": is an invalid path: does not refer to a valid \
             field",
            "spec.selectableFields[5].jsonPath: Required value",
        ]
    );
}

#[test]
fn conversion_webhooks_are_complete() {
    let conversion = |conversion: Value| errors_with(&[("/spec/conversion", conversion)]);
    let at = "spec.conversion";
    assert_eq!(
        conversion(json!({"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}})),
        [format!("{at}.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook")]
    );
    let client = json!({"url": "http://u:p@h?q#f", "caBundle": "eA=="});
    assert_eq!(
        conversion(json!({"strategy": "Webhook", "webhook": {"clientConfig": client,
            "conversionReviewVersions": ["v2", "v2", "V_3"]}})),
        [
            format!(
                "{at}.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired \
                 format: https://host[/path]"
            ),
            format!(
                "{at}.webhookClientConfig.url: Invalid value: \"u:p\": user information is not permitted in the URL"
            ),
            format!("{at}.webhookClientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL"),
            format!(
                "{at}.webhookClientConfig.url: Invalid value: \"q\": query parameters are not permitted in the URL"
            ),
            format!("{at}.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version"),
            format!("{at}.conversionReviewVersions[2]: Invalid value: \"V_3\": {LABEL}"),
            format!(
                "{at}.conversionReviewVersions: Invalid value: [\"v2\",\"v2\",\"V_3\"]: must include at least one of v1, \
                 v1beta1"
            ),
        ]
    );
    let service = json!({"service": {"name": "", "namespace": "n", "path": "x", "port": 0}});
    assert_eq!(
        conversion(json!({"strategy": "Webhook", "webhook": {"clientConfig": service,
            "conversionReviewVersions": ["v1"]}})),
        [
            format!("{at}.webhookClientConfig.service.name: Required value"),
            format!(
                "{at}.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, \
                 inclusive"
            ),
            format!("{at}.webhookClientConfig.service.path: Invalid value: \"x\": must start with a '/'"),
        ]
    );
    let with_bundle = |bundle: &str, served: &str| {
        definition(&[
            (
                "/spec/conversion",
                json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://h", "caBundle": bundle}}}),
            ),
            ("/status", json!({"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": served}]})),
        ])
    };
    let unreadable = format!(
        "{at}.webhookClientConfig.caBundle: Invalid value: \"eA==\": unable to load root certificates: unable to parse bytes \
         as PEM block"
    );
    assert_eq!(update(with_bundle("", "True"), with_bundle("eA==", "True")), [unreadable]);
    assert_eq!(update(with_bundle("", "False"), with_bundle("eA==", "False")), [""; 0]);
    assert_eq!(update(with_bundle("eQ==", "True"), with_bundle("eA==", "True")), [""; 0]);
}

#[test]
fn kubernetes_own_groups_need_an_approval() {
    let of = |annotation: Option<&str>| {
        let annotations = annotation.map_or(json!({}), |text| json!({"api-approved.kubernetes.io": text}));
        definition(&[
            ("/metadata", json!({"name": "gadgets.x.k8s.io", "annotations": annotations})),
            ("/spec/group", json!("x.k8s.io")),
        ])
    };
    let at = "metadata.annotations[api-approved.kubernetes.io]";
    let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let missing = format!("{at}: Required value: {must}, {see}");
    assert_eq!(create(of(None)), std::slice::from_ref(&missing));
    assert_eq!(create(of(Some("https://example.com/pull/1"))), [""; 0]);
    assert_eq!(create(of(Some("unapproved, experimental"))), [""; 0]);
    assert_eq!(
        create(of(Some("odd"))),
        [format!(
            "{at}: Invalid value: \"odd\": {must} with either a URL or a reason starting with \"unapproved\", {see}"
        )]
    );
    assert_eq!(update(of(None), of(None)), [""; 0]);
    assert_eq!(update(of(Some("odd")), of(Some("even"))), [""; 0]);
    assert_eq!(update(of(Some("unapproved")), of(None)), [missing]);
}

#[test]
fn unknown_fields_cannot_be_preserved_in_all_versions() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "default": "b"}}});
    let conversion = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://h"}, "conversionReviewVersions": ["v1"]}});
    let keeps = [
        ("/spec/preserveUnknownFields", json!(true)),
        ("/spec/versions/0/schema/openAPIV3Schema", schema),
        ("/spec/conversion", conversion),
    ];
    let at = "spec.preserveUnknownFields: Invalid value: true:";
    assert_eq!(
        errors_with(&keeps),
        [
            format!("{at} must be false in order to use defaults in the schema"),
            "spec.conversion.strategy: Invalid value: \"Webhook\": must be None if spec.preserveUnknownFields is true"
                .to_owned(),
            format!(
                "{at} cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                 instead"
            ),
        ]
    );
    // An update may keep it.
    assert_eq!(update(definition(&keeps[..1]), definition(&keeps[..1])), [""; 0]);
}

/// `At::field` panics at a field that the type does not define.
#[test]
fn validation_reads_only_fields_that_definitions_have() {
    let row = builtin().iter().find(|row| row.storage_version().resource == definitions::RESOURCE);
    validate_generated(strategies::of, row.unwrap(), 7, 300);
}
