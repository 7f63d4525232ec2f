//! Templates as Go renders them.

use super::*;
use serde_json::json;

fn facts() -> Facts {
    Facts {
        now: "2026-01-02T03:04:05.000006Z".parse().unwrap(),
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        version: "v1".to_owned(),
        node_name: "node-0".to_owned(),
        node_ips: vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()],
        node_port: Some(10250),
        pod_ips: vec!["10.244.0.7".to_owned()],
    }
}

fn object() -> Json {
    json!({
        "metadata": {"name": "web", "uid": "u1", "annotations": {"a/b": "x"}, "generation": 0},
        "spec": {
            "nodeName": "node-0",
            "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2", "ready": false}],
        },
        "status": {"restarts": 10000000, "capacity": {"cpu": "2", "memory": "1Gi"}},
    })
}

fn rendered(text: &str) -> Result<String, String> {
    Template::parse(text)?.render(&object(), &facts())
}

#[test]
fn templates_are_rendered() {
    let cases = [
        ("plain {{ .metadata.name }}!", "plain web!"),
        ("{{ .spec.absent.field }}", "<no value>"),
        ("{{ $now := Now }}{{ $now | Quote }}", "\"2026-01-02T03:04:05.000006Z\""),
        ("{{ StartTime }} {{ Version }} {{ NodeName }} {{ NodePort }}", "2026-01-01T00:00:00Z v1 node-0 10250"),
        ("a  {{- 1 -}}  b", "a1b"),
        ("a {{/* a comment */}}b{{- /* c */ -}} d", "a bd"),
        ("{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }},{{ end }}", "0=a,1=b,"),
        ("{{ range .spec.initContainers }}x{{ else }}none{{ end }}", "none"),
        ("{{ range $k, $v := .status.capacity }}{{ $k }}:{{ $v }};{{ end }}", "cpu:2;memory:1Gi;"),
        ("{{ range .spec.containers }}{{ if eq .name \"b\" }}{{ break }}{{ end }}{{ .name }}{{ end }}", "a"),
        ("{{ range .spec.containers }}{{ if eq .name \"a\" }}{{ continue }}{{ end }}{{ .name }}{{ end }}", "b"),
        ("{{ $n := 0 }}{{ range .spec.containers }}{{ $n = add1 $n }}{{ end }}{{ $n }}", "2"),
        ("{{ $n := 0 }}{{ if true }}{{ $n := 1 }}{{ end }}{{ $n }}", "0"),
        ("{{ with .status.absent }}{{ . }}{{ else with .metadata }}{{ .name }}{{ else }}no{{ end }}", "web"),
        ("{{ with $x := .metadata.name }}{{ $x }}{{ . }}{{ end }}", "webweb"),
        ("{{ if and .metadata.name (not .absent) }}yes{{ else if true }}no{{ end }}", "yes"),
        ("{{ if .metadata.generation }}a number of the object is true{{ end }}", "a number of the object is true"),
        ("{{ or .absent.field \"default\" }} {{ and \"a\" \"\" }}|", "default |"),
        ("{{ (index .spec.containers 0).name }}{{ (index .spec.containers 1).image | upper }}", "aI:2"),
        ("{{ index .metadata.annotations \"a/b\" }} {{ index (or .absent dict) \"k\" }}", "x <no value>"),
        (
            "{{ .status.restarts }} {{ add1 .status.restarts }} {{ printf \"%v\" .status.restarts }}",
            "10000000 10000001 10000000",
        ),
        ("{{ eq .absent \"Always\" }} {{ ne .metadata.name \"x\" \"web\" | not }}", "error"),
        ("{{ eq \"a\" \"b\" \"a\" }} {{ lt 1 2 }} {{ ge 1.5 2.0 }} {{ eq nil nil }}", "true true false true"),
        ("{{ NodeIPWith .spec.nodeName }} {{ NodeIPsWith \"node-0\" }}", "10.0.0.1 [10.0.0.1 fd00::1]"),
        ("{{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) \"\" \"\" \"\" | Quote }}", "\"10.244.0.7\""),
        ("{{ PodIPWith .spec.nodeName true \"\" \"\" \"\" }}", "10.0.0.1"),
        ("c:{{ YAML .status.capacity 1 }}|", "c:\n  cpu: \"2\"\n  memory: 1Gi\n  |"),
        (
            "{{ 5 | Quote }} {{ nil | Quote }} {{ Quote .status.capacity }}",
            r#""5" "null" "{\"cpu\":\"2\",\"memory\":\"1Gi\"}""#,
        ),
        ("{{ define \"t\" }}<{{ .name }}{{ $.x }}>{{ end }}{{ template \"t\" dict \"name\" \"n\" \"x\" 1 }}", "<n1>"),
        ("{{ block \"b\" .metadata }}{{ .name }}{{ end }}{{ template \"b\" dict }}", "web<no value>"),
        ("{{ range $i := until 3 }}{{ $i }}{{ end }}{{ range 2 }}{{ . }}{{ end }}", "01201"),
        (
            "{{ printf \"%s-%03d|%-4s|%5.2f|%q|%t|%d\" \"a\" 7 \"b\" 1.5 \"q\" true \"s\" }}",
            "a-007|b   | 1.50|\"q\"|true|%!d(string=s)",
        ),
        ("{{ `raw \\n` }}{{ 'a' }} {{ 0x1F }} {{ -2 }} {{ 1e2 }}", "raw \\n97 31 -2 100"),
        (
            "{{ default 3 .absent }} {{ default 3 0 }} {{ ternary \"t\" \"f\" true }} {{ coalesce \"\" 0 \"c\" }}",
            "3 3 t c",
        ),
        ("{{ join \",\" (list 1 \"a\") }} {{ splitList \"/\" \"a/b\" | last }} {{ len .spec.containers }}", "1,a b 2"),
        (
            "{{ trimPrefix \"a\" \"ab\" }} {{ replace \"a\" \"x\" \"aba\" }} {{ trunc -2 \"abc\" }} {{ quote 1 \"b\" }}",
            "b xbx bc \"1\" \"b\"",
        ),
        ("{{ div 7 2 }} {{ mod 7 2 }} {{ mul 2 3 4 }} {{ max 1 5 3 }} {{ sub 1 2 }}", "3 1 24 5 -1"),
        (
            "{{ range NodeConditions }}{{ .type }}={{ .status }} {{ end }}",
            "Ready=True MemoryPressure=False DiskPressure=False PIDPressure=False NetworkUnavailable=False ",
        ),
    ];
    for (text, expected) in cases {
        match rendered(text) {
            Err(_) if expected == "error" => {}
            found => assert_eq!(found.as_deref(), Ok(expected), "{text}"),
        }
    }
}

#[test]
fn rendering_fails_with_a_reason() {
    let cases = [
        ("{{ .metadata.name.first }}", "can't evaluate field first in type string"),
        ("{{ index .spec.containers 7 }}", "error calling index: index out of range: 7"),
        ("{{ index .absent \"a\" }}", "error calling index: index of untyped nil"),
        ("{{ eq 1 \"a\" }}", "error calling eq: incompatible types for comparison"),
        ("{{ eq .metadata 1 }}", "error calling eq: non-comparable type"),
        ("{{ NodeIPWith .absent }}", "error calling NodeIPWith: invalid value; expected string"),
        ("{{ NodeIPWith \"other\" }}", "error calling NodeIPWith: node \"other\" is not the node of this object"),
        ("{{ div 1 0 }}", "error calling div: integer divide by zero"),
        ("{{ mod 1 .absent }}", "error calling mod: integer divide by zero"),
        ("{{ range .metadata.name }}{{ end }}", "range can't iterate over web"),
        ("{{ fail \"no\" }}", "error calling fail: no"),
        ("{{ add1 }}", "error calling add1: wrong number of args for add1: want 1 got 0"),
        ("{{ define \"t\" }}{{ template \"t\" . }}{{ end }}{{ template \"t\" . }}", "exceeded maximum template depth"),
        ("{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}", "the template does not end"),
        ("{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}", "a value becomes too large"),
        ("{{ $x := list }}{{ range until 200 }}{{ $x = list $x }}{{ end }}", "a value becomes too large"),
        ("{{ $x := list }}{{ range until 9000 }}{{ $x = append $x 1 }}{{ end }}", "the template does not end"),
        ("{{ repeat 1000000 \"abc\" }}", "error calling repeat: more than 100000 bytes"),
        ("{{ range until 100 }}{{ repeat 50000 \"a\" }}{{ end }}", "the template writes more than 1048576 bytes"),
        ("{{ until 1000000000 }}", "error calling until: more than 100000 numbers"),
    ];
    for (text, error) in cases {
        assert_eq!(rendered(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn what_is_no_template_is_refused() {
    let cases = [
        ("{{ .a", "unclosed action"),
        ("{{ }}", "missing value for command"),
        ("{{ nothing .a }}", "function \"nothing\" not defined"),
        ("{{ randInt 1 2 }}", "function \"randInt\" not defined"),
        ("{{ $x }}", "undefined variable \"$x\""),
        ("{{ $x = 1 }}", "undefined variable \"$x\""),
        ("{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}", "undefined variable \"$x\""),
        ("{{ if true }}", "unexpected EOF"),
        ("{{ if }}{{ end }}", "missing value for if"),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ else }}", "unexpected {{else}}"),
        ("{{ break }}", "{{break}} outside {{range}}"),
        ("{{ template \"t\" }}", "template \"t\" not defined"),
        ("{{ \"a }}", "unterminated quoted string"),
        ("{{ .a .b }}", "can't give argument to non-function"),
        ("{{ .a | .b }}", "non executable command in pipeline"),
        ("{{ (1 }}", "unclosed left paren"),
        ("{{ 1 ) }}", "unexpected \")\" in command"),
        ("{{ /* a }}", "unclosed comment"),
        ("{{ 12ab }}", "bad number syntax: \"12ab\""),
        ("{{ define \"a\" }}{{ end }}{{ define \"a\" }}{{ end }}", "template: multiple definition of template \"a\""),
        ("{{ .a ! }}", "unexpected '!' in an action"),
    ];
    for (text, error) in cases {
        assert_eq!(Template::parse(text).map(|_| ()).unwrap_err(), error, "{text}");
    }
    let deep = ["{{ if 1 }}".repeat(500), format!("{{{{ {}1 }}}}", "(".repeat(500))];
    assert!(deep.iter().all(|text| Template::parse(text).is_err()));
}

#[test]
fn what_is_rendered_is_read_as_yaml() {
    let template = Template::parse(
        "{{ $now := Now }}\nconditions:\n{{ range NodeConditions }}\n- lastHeartbeatTime: {{ $now | Quote }}\n  \
         type: {{ .type | Quote }}\n{{ end }}\n\nallocatable:\n{{ with .status.capacity }}\n{{ YAML . 1 }}\n{{ else }}\n  \
         cpu: 1k\n{{ end }}\nphase: Running\n",
    );
    let found = template.unwrap().render_yaml(&object(), &facts()).unwrap();
    assert_eq!(found["allocatable"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(found["phase"], "Running");
    assert_eq!(found["conditions"][4]["type"], "NetworkUnavailable");
    assert_eq!(found["conditions"][0]["lastHeartbeatTime"], "2026-01-02T03:04:05.000006Z");
}
