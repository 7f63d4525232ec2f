//! Tables of Services and the rules that a node gets for them.

use super::*;
use expect_test::{Expect, expect};
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use std::sync::Arc;

fn service(spec: Value) -> Arc<Service> {
    let value = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec});
    Arc::new(Service::decode_value(value).unwrap())
}

fn slice(endpoints: Value) -> Arc<EndpointSlice> {
    let value = json!({
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    Arc::new(EndpointSlice::decode_value(value).unwrap())
}

fn endpoint(ip: &str, node: &str) -> Value {
    json!({"addresses": [ip], "nodeName": node, "conditions": {"ready": true}})
}

/// The rules of node `a` that exist because of the Service.
fn check(spec: Value, endpoints: Value, expected: Expect) {
    let node = NodeSettings { name: "a".into(), cluster_cidr: "10.244.0.0/16".into() };
    let without = rules(&Model::default(), &node).to_string();
    let model = Model::build([&service(spec)], [&slice(endpoints)]);
    let text = rules(&model, &node).to_string();
    let own: Vec<&str> = text.lines().filter(|line| line.starts_with("-A") && !without.contains(line)).collect();
    expected.assert_eq(&own.join("\n"));
}

const PORT: &str = r#"{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080}"#;

fn port(node_port: bool) -> Value {
    let mut port: Value = serde_json::from_str(PORT).unwrap();
    if !node_port {
        port.as_object_mut().unwrap().remove("nodePort");
    }
    port
}

#[test]
fn a_cluster_ip_is_spread_over_its_endpoints() {
    check(
        json!({"clusterIP": "10.0.0.9", "ports": [port(false)]}),
        json!([endpoint("10.244.0.5", "a"), endpoint("10.244.1.5", "b"), endpoint("10.244.2.5", "c")]),
        expect![[r#"
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.1.5:8080
            -A KUBE-SEP-CXXRTNR2DI2TYC6R -s 10.244.2.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-CXXRTNR2DI2TYC6R -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.2.5:8080
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-2QFQVMZDRZXAQWB2
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.5:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-34ZZ2QFGO32YYXXO
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.2.5:8080" -j KUBE-SEP-CXXRTNR2DI2TYC6R"#]],
    );
}

#[test]
fn without_endpoints_it_is_refused() {
    check(
        json!({"clusterIP": "10.0.0.9", "type": "NodePort", "ports": [port(true)]}),
        json!([]),
        expect![[r#"
        -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 30080 -m addrtype --dst-type LOCAL -j REJECT --reject-with icmp-port-unreachable
        -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable"#]],
    );
}

#[test]
fn a_node_port_masquerades_and_enters_the_service() {
    check(
        json!({"clusterIP": "10.0.0.9", "type": "NodePort", "ports": [port(true)]}),
        json!([endpoint("10.244.0.5", "a")]),
        expect![[r#"
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade traffic for shop/web:http external destinations" -j KUBE-MARK-MASQ
            -A KUBE-EXT-67NZLRHBNDSAWJRO -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -p tcp -m comment --comment shop/web:http -m tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -j KUBE-SEP-2QFQVMZDRZXAQWB2"#]],
    );
}

#[test]
fn the_local_policy_keeps_to_this_node() {
    check(
        json!({"clusterIP": "10.0.0.9", "type": "NodePort", "externalTrafficPolicy": "Local", "ports": [port(true)]}),
        json!([endpoint("10.244.0.5", "a"), endpoint("10.244.1.5", "b")]),
        expect![[r#"
            -A KUBE-EXT-67NZLRHBNDSAWJRO -s 10.244.0.0/16 -m comment --comment "pod traffic for shop/web:http external destinations" -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade LOCAL traffic for shop/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "route LOCAL traffic for shop/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-EXT-67NZLRHBNDSAWJRO -j KUBE-SVL-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -p tcp -m comment --comment shop/web:http -m tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment shop/web:http -m tcp -j DNAT --to-destination 10.244.1.5:8080
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-2QFQVMZDRZXAQWB2
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.5:8080" -j KUBE-SEP-34ZZ2QFGO32YYXXO
            -A KUBE-SVL-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -j KUBE-SEP-2QFQVMZDRZXAQWB2"#]],
    );
}

#[test]
fn the_local_policy_drops_where_only_others_could_serve() {
    check(
        json!({"clusterIP": "10.0.0.9", "internalTrafficPolicy": "Local", "ports": [port(false)]}),
        json!([endpoint("10.244.1.5", "b")]),
        expect![[
            r#"-A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http has no local endpoints" -m tcp --dport 80 -j DROP"#
        ]],
    );
}

#[test]
fn affinity_remembers_the_client() {
    check(
        json!({"clusterIP": "10.0.0.9", "sessionAffinity": "ClientIP", "ports": [port(false)]}),
        json!([endpoint("10.244.0.5", "a"), endpoint("10.244.1.5", "b")]),
        expect![[r#"
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment shop/web:http -m recent --set --name KUBE-SEP-2QFQVMZDRZXAQWB2 --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment shop/web:http -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment shop/web:http -m recent --set --name KUBE-SEP-34ZZ2QFGO32YYXXO --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.5:8080
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-2QFQVMZDRZXAQWB2 --mask 255.255.255.255 --rsource -j KUBE-SEP-2QFQVMZDRZXAQWB2
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.5:8080" -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-34ZZ2QFGO32YYXXO --mask 255.255.255.255 --rsource -j KUBE-SEP-34ZZ2QFGO32YYXXO
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-2QFQVMZDRZXAQWB2
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.5:8080" -j KUBE-SEP-34ZZ2QFGO32YYXXO"#]],
    );
}

#[test]
fn headless_and_external_names_have_no_rules() {
    check(json!({"clusterIP": "None", "ports": [port(false)]}), json!([endpoint("10.244.0.5", "a")]), expect![""]);
    check(json!({"type": "ExternalName", "externalName": "x.example"}), json!([]), expect![""]);
}

#[test]
fn terminating_endpoints_serve_while_nobody_is_ready() {
    let terminating = json!({"addresses": ["10.244.0.5"], "nodeName": "a", "conditions": {"ready": false, "serving": true, "terminating": true}});
    let model = Model::build(
        [&service(json!({"clusterIP": "10.0.0.9", "ports": [port(false)]}))],
        [&slice(json!([terminating]))],
    );
    let endpoints = model.endpoints.values().next().unwrap();
    assert_eq!(categorize(endpoints, "a").cluster.len(), 1);
    assert!(categorize(endpoints, "b").local.is_empty());
}

#[test]
fn probabilities_are_printed_as_the_kernel_keeps_them() {
    let shown: Vec<String> = [2, 3, 4, 7].into_iter().map(probability).collect();
    assert_eq!(shown, ["0.50000000000", "0.33333333349", "0.25000000000", "0.14285714272"]);
}
