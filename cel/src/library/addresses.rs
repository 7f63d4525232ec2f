//! Functions of IPv4 and IPv6 addresses and networks.

use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use ipnet::IpNet;
use std::net::IpAddr;

pub const DECLARED: &str = "
    isIP(string) bool
    ip(string) ip
    fn ip.isCanonical(string) bool
    isCIDR(string) bool
    cidr(string) cidr
    ip.family() int
    ip.isUnspecified() bool
    ip.isLoopback() bool
    ip.isLinkLocalMulticast() bool
    ip.isLinkLocalUnicast() bool
    ip.isGlobalUnicast() bool
    string(ip) string
    string(cidr) string
    cidr.containsIP(string) bool
    cidr.containsIP(ip) bool
    cidr.containsCIDR(string) bool
    cidr.containsCIDR(cidr) bool
    cidr.ip() ip
    cidr.masked() cidr
    cidr.prefixLength() int
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(address(text).is_ok())),
        ("ip", [Value::String(text)]) => address(text).map(Value::Ip),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(network(text).is_ok())),
        ("cidr", [Value::String(text)]) => network(text).map(Value::Cidr),
        ("ip.isCanonical", [Value::String(text)]) => address(text).map(|ip| Value::Bool(ip.to_string() == **text)),
        ("string", [Value::Ip(ip)]) => Ok(Value::string(ip.to_string())),
        ("string", [Value::Cidr(cidr)]) => Ok(Value::string(cidr.to_string())),
        (_, [Value::Ip(ip)]) => of_address(name, *ip),
        (_, [Value::Cidr(cidr), rest @ ..]) => of_network(name, *cidr, rest),
        _ => no_overload(name, arguments),
    }
}

/// Parses an address; refuses zones and IPv4-mapped IPv6 addresses.
fn address(text: &str) -> Result<IpAddr, Failure> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            error(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) if text.contains('%') => error(format!("IP address {text:?} with zone value is not allowed")),
        Err(_) => error(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )),
    }
}

fn network(text: &str) -> Result<IpNet, Failure> {
    let parsed = text.parse::<IpNet>().ok().filter(|_| {
        let bits = text.rsplit_once('/').map_or("", |(_, bits)| bits);
        bits == "0" || !bits.starts_with('0')
    });
    match parsed {
        Some(IpNet::V6(cidr)) if cidr.addr().to_ipv4_mapped().is_some() => {
            error(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Some(cidr) => Ok(cidr),
        None => error(format!(
            "network address parse error during conversion from string: network address {text:?} is invalid"
        )),
    }
}

fn of_address(name: &str, ip: IpAddr) -> Outcome {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    Ok(match name {
        "family" => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(ip.is_unspecified()),
        "isLoopback" => Value::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(local_multicast),
        "isLinkLocalUnicast" => Value::Bool(local),
        "isGlobalUnicast" => {
            Value::Bool(!is_broadcast && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !local)
        }
        _ => return no_overload(name, &[Value::Ip(ip)]),
    })
}

fn of_network(name: &str, cidr: IpNet, rest: &[Value]) -> Outcome {
    Ok(match (name, rest) {
        ("ip", []) => Value::Ip(cidr.addr()),
        ("masked", []) => Value::Cidr(cidr.trunc()),
        ("prefixLength", []) => Value::Int(cidr.prefix_len().into()),
        ("containsIP", [Value::Ip(ip)]) => Value::Bool(cidr.contains(ip)),
        ("containsIP", [Value::String(text)]) => Value::Bool(cidr.contains(&address(text)?)),
        ("containsCIDR", [Value::Cidr(other)]) => Value::Bool(cidr.contains(other)),
        ("containsCIDR", [Value::String(text)]) => Value::Bool(cidr.contains(&network(text)?)),
        _ => return no_overload(name, &[Value::Cidr(cidr)]),
    })
}
