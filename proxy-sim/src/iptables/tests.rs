//! Services, and the rules that a node gets for them.

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

fn on(node: &str) -> NodeSettings {
    let (zone, cluster_cidr) = ("z".to_owned(), "10.244.0.0/16".to_owned());
    NodeSettings { name: node.to_owned(), zone, ip: Some(Ipv4Addr::new(192, 168, 0, 1)), cluster_cidr }
}

/// Compares the rules of node `a` that the Service adds.
fn check(spec: Value, endpoints: Value, expected: Expect) {
    let node = on("a");
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
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.5:8080
            -A KUBE-SEP-CXXRTNR2DI2TYC6R -s 10.244.2.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-CXXRTNR2DI2TYC6R -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.2.5:8080
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
            -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "shop/web:http has no endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable
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
            -A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.0.5:8080
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
            -A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.5:8080
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
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment "shop/web:http" -m recent --set --name KUBE-SEP-2QFQVMZDRZXAQWB2 --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.0.5:8080
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -s 10.244.1.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
            -A KUBE-SEP-34ZZ2QFGO32YYXXO -p tcp -m comment --comment "shop/web:http" -m recent --set --name KUBE-SEP-34ZZ2QFGO32YYXXO --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.5:8080
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
    let conditions = json!({"ready": false, "serving": true, "terminating": true});
    let terminating = json!({"addresses": ["10.244.0.5"], "nodeName": "a", "conditions": conditions});
    check(
        json!({"clusterIP": "10.0.0.9", "ports": [port(false)]}),
        json!([terminating]),
        expect![[r#"
        -A KUBE-SEP-2QFQVMZDRZXAQWB2 -s 10.244.0.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ
        -A KUBE-SEP-2QFQVMZDRZXAQWB2 -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.0.5:8080
        -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
        -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
        -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.0.5:8080" -j KUBE-SEP-2QFQVMZDRZXAQWB2"#]],
    );
}

#[test]
fn an_empty_cluster_has_its_chains_all_the_same() {
    expect![[r#"
        *mangle
        :PREROUTING ACCEPT [0:0]
        :INPUT ACCEPT [0:0]
        :FORWARD ACCEPT [0:0]
        :OUTPUT ACCEPT [0:0]
        :POSTROUTING ACCEPT [0:0]
        :KUBE-PROXY-CANARY - [0:0]
        COMMIT
        *filter
        :INPUT ACCEPT [0:0]
        :FORWARD ACCEPT [0:0]
        :OUTPUT ACCEPT [0:0]
        :KUBE-EXTERNAL-SERVICES - [0:0]
        :KUBE-FIREWALL - [0:0]
        :KUBE-FORWARD - [0:0]
        :KUBE-NODEPORTS - [0:0]
        :KUBE-PROXY-CANARY - [0:0]
        :KUBE-PROXY-FIREWALL - [0:0]
        :KUBE-SERVICES - [0:0]
        -A INPUT -j KUBE-FIREWALL
        -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
        -A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
        -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
        -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
        -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
        -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
        -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
        -A OUTPUT -j KUBE-FIREWALL
        -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
        -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
        -A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
        -A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP
        -A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
        -A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
        COMMIT
        *nat
        :PREROUTING ACCEPT [0:0]
        :INPUT ACCEPT [0:0]
        :OUTPUT ACCEPT [0:0]
        :POSTROUTING ACCEPT [0:0]
        :KUBE-MARK-MASQ - [0:0]
        :KUBE-NODEPORTS - [0:0]
        :KUBE-POSTROUTING - [0:0]
        :KUBE-PROXY-CANARY - [0:0]
        :KUBE-SERVICES - [0:0]
        -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
        -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
        -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
        -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
        -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
        -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
        -A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
        -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
        COMMIT
    "#]].assert_eq(&rules(&Model::default(), &on("a")).to_string());
}

fn load_balancer(spec: Value, ingress: Value) -> Arc<Service> {
    let mut whole = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.9", "ports": [port(true)]});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let value = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": whole,
        "status": {"loadBalancer": {"ingress": ingress}}});
    Arc::new(Service::decode_value(value).unwrap())
}

/// Compares the rules of node `a` in these chains.
fn check_chains(service: Arc<Service>, endpoints: Value, chains: &[&str], expected: Expect) {
    let text = rules(&Model::build([&service], [&slice(endpoints)]), &on("a")).to_string();
    let is_wanted = |line: &&str| chains.iter().any(|chain| line.starts_with(&format!("-A {chain}")));
    expected.assert_eq(&text.lines().filter(is_wanted).collect::<Vec<_>>().join("\n"));
}

#[test]
fn source_ranges_guard_a_load_balancer() {
    check_chains(
        load_balancer(
            json!({"loadBalancerSourceRanges": ["192.168.0.7/16", "1.2.3.4/32", "0.0.0.0/0"]}),
            json!([{"ip": "5.6.7.8"}]),
        ),
        json!([endpoint("10.244.0.5", "a")]),
        &["KUBE-SERVICES", "KUBE-FW-", "KUBE-PROXY-FIREWALL", "KUBE-EXT-"],
        expect![[r#"
            -A KUBE-PROXY-FIREWALL -d 5.6.7.8/32 -p tcp -m comment --comment "shop/web:http traffic not accepted by KUBE-FW-67NZLRHBNDSAWJRO" -m tcp --dport 80 -j DROP
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade traffic for shop/web:http external destinations" -j KUBE-MARK-MASQ
            -A KUBE-EXT-67NZLRHBNDSAWJRO -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-FW-67NZLRHBNDSAWJRO -s 192.168.0.0/16 -m comment --comment "shop/web:http loadbalancer IP" -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-FW-67NZLRHBNDSAWJRO -s 1.2.3.4/32 -m comment --comment "shop/web:http loadbalancer IP" -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-FW-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http loadbalancer IP" -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-FW-67NZLRHBNDSAWJRO -s 5.6.7.8/32 -m comment --comment "shop/web:http loadbalancer IP" -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-FW-67NZLRHBNDSAWJRO -m comment --comment "other traffic to shop/web:http will be dropped by KUBE-PROXY-FIREWALL"
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -d 5.6.7.8/32 -p tcp -m comment --comment "shop/web:http loadbalancer IP" -m tcp --dport 80 -j KUBE-FW-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"#]],
    );
}

#[test]
fn without_endpoints_there_is_nothing_to_guard() {
    check_chains(
        load_balancer(json!({"loadBalancerSourceRanges": ["1.2.3.4/32"]}), json!([{"ip": "5.6.7.8"}])),
        json!([]),
        &["KUBE-SERVICES", "KUBE-FW-", "KUBE-PROXY-FIREWALL", "KUBE-EXT-", "KUBE-EXTERNAL"],
        expect![[r#"
            -A KUBE-EXTERNAL-SERVICES -d 5.6.7.8/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
            -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "shop/web:http has no endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
            -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"#]],
    );
}

#[test]
fn a_local_load_balancer_answers_health_checks_and_drops_what_only_others_could_serve() {
    check_chains(
        load_balancer(
            json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "externalIPs": ["1.2.3.4"]}),
            json!([{"ip": "5.6.7.8"}]),
        ),
        json!([endpoint("10.244.1.5", "b")]),
        &["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXT", "KUBE-SV"],
        expect![[r#"
            -A KUBE-EXTERNAL-SERVICES -d 1.2.3.4/32 -p tcp -m comment --comment "shop/web:http has no local endpoints" -m tcp --dport 80 -j DROP
            -A KUBE-EXTERNAL-SERVICES -d 5.6.7.8/32 -p tcp -m comment --comment "shop/web:http has no local endpoints" -m tcp --dport 80 -j DROP
            -A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "shop/web:http has no local endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP
            -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http health check node port" -m tcp --dport 31000 -j ACCEPT
            -A KUBE-EXT-67NZLRHBNDSAWJRO -s 10.244.0.0/16 -m comment --comment "pod traffic for shop/web:http external destinations" -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade LOCAL traffic for shop/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
            -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "route LOCAL traffic for shop/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -d 127.0.0.0/8 -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -m nfacct --nfacct-name  localhost_nps_accepted_pkts -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -d 1.2.3.4/32 -p tcp -m comment --comment "shop/web:http external IP" -m tcp --dport 80 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -d 5.6.7.8/32 -p tcp -m comment --comment "shop/web:http loadbalancer IP" -m tcp --dport 80 -j KUBE-EXT-67NZLRHBNDSAWJRO
            -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
            -A KUBE-SVC-67NZLRHBNDSAWJRO ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
            -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.244.1.5:8080" -j KUBE-SEP-34ZZ2QFGO32YYXXO"#]],
    );
}

#[test]
fn other_protocols_have_matches_of_their_own() {
    let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"clusterIP": "10.0.0.9", "ports": [
        {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "sig", "port": 36412, "protocol": "SCTP"}]}});
    let ports =
        json!([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "sig", "port": 36412, "protocol": "SCTP"}]);
    let slice = json!({
        "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [endpoint("10.244.0.5", "a")], "ports": ports,
    });
    let (service, slice) = (Service::decode_value(service).unwrap(), EndpointSlice::decode_value(slice).unwrap());
    let text = rules(&Model::build([&Arc::new(service)], [&Arc::new(slice)]), &on("a")).to_string();
    let own: Vec<&str> = text.lines().filter(|line| line.starts_with("-A") && line.contains("shop/web")).collect();
    expect![[r#"
        -A KUBE-SEP-AOY42PWCJJU5YEQZ -s 10.244.0.5/32 -m comment --comment "shop/web:dns" -j KUBE-MARK-MASQ
        -A KUBE-SEP-AOY42PWCJJU5YEQZ -p udp -m comment --comment "shop/web:dns" -m udp -j DNAT --to-destination 10.244.0.5:53
        -A KUBE-SEP-EOHEJCIDMWBMNBN7 -s 10.244.0.5/32 -m comment --comment "shop/web:sig" -j KUBE-MARK-MASQ
        -A KUBE-SEP-EOHEJCIDMWBMNBN7 -p sctp -m comment --comment "shop/web:sig" -m sctp -j DNAT --to-destination 10.244.0.5:36412
        -A KUBE-SERVICES -d 10.0.0.9/32 -p udp -m comment --comment "shop/web:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-UDAYG4HHTBF7BYCC
        -A KUBE-SERVICES -d 10.0.0.9/32 -p sctp -m comment --comment "shop/web:sig cluster IP" -m sctp --dport 36412 -j KUBE-SVC-SPL5TETNJ2ZTGT4Z
        -A KUBE-SVC-SPL5TETNJ2ZTGT4Z ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p sctp -m comment --comment "shop/web:sig cluster IP" -m sctp --dport 36412 -j KUBE-MARK-MASQ
        -A KUBE-SVC-SPL5TETNJ2ZTGT4Z -m comment --comment "shop/web:sig -> 10.244.0.5:36412" -j KUBE-SEP-EOHEJCIDMWBMNBN7
        -A KUBE-SVC-UDAYG4HHTBF7BYCC ! -s 10.244.0.0/16 -d 10.0.0.9/32 -p udp -m comment --comment "shop/web:dns cluster IP" -m udp --dport 53 -j KUBE-MARK-MASQ
        -A KUBE-SVC-UDAYG4HHTBF7BYCC -m comment --comment "shop/web:dns -> 10.244.0.5:53" -j KUBE-SEP-AOY42PWCJJU5YEQZ"#]].assert_eq(&own.join("\n"));
}

#[test]
fn a_large_cluster_does_without_most_comments() {
    let model = |endpoints: usize| {
        let endpoints: Vec<Value> =
            (0..endpoints).map(|n| endpoint(&format!("10.244.{}.{}", n / 250, n % 250), "a")).collect();
        Model::build([&service(json!({"clusterIP": "10.0.0.9", "ports": [port(false)]}))], [&slice(json!(endpoints))])
    };
    let comments = |model: &Model| rules(model, &on("a")).to_string().matches("shop/web:http").count();
    // Two at the cluster IP; three for each endpoint.
    assert_eq!([comments(&model(1000)), comments(&model(1001))], [3002, 2]);
}

#[test]
fn probabilities_are_printed_as_the_kernel_keeps_them() {
    let shown: Vec<String> = [2, 3, 4, 7].into_iter().map(probability).collect();
    assert_eq!(shown, ["0.50000000000", "0.33333333349", "0.25000000000", "0.14285714272"]);
    // Ten digits of 1/n come first, and may cost a unit: 2^31/44 is 48806446.55, and 0.0227272727 of 2^31 is
    // 48806446.49.
    assert_eq!(probability(44).parse::<f64>().unwrap(), 0.02272727247);
    assert_eq!((f64::from(1_u32 << 31) * 0.02272727247).round(), 48_806_446.0);
}
