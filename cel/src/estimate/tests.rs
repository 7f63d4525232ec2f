//! Tests of costs and sizes of every function that makes texts, lists, maps or bytes, computed from Kubernetes' rules.

use super::*;
use crate::check::check;
use crate::extension::Extensions;
use crate::parse::parse;
use crate::{Environment, Type};
use std::collections::BTreeMap;

fn text(max: u64) -> Declaration {
    Declaration::scalar(Type::String, 2).with_max(max)
}

/// Declares a text of 80 bytes, five texts of 40, three entries of 12, a number, and twelve bytes.
fn object() -> Declaration {
    Declaration::object(
        "selfType",
        BTreeMap::from([
            ("s".to_owned(), text(80)),
            ("l".to_owned(), Declaration::list(text(40), Some(5))),
            ("m".to_owned(), Declaration::map(text(12), Some(3))),
            ("n".to_owned(), Declaration::scalar(Type::Int, 1)),
            ("b".to_owned(), Declaration::scalar(Type::Bytes, 2).with_max(12)),
        ]),
        0,
    )
}

/// Returns the highest cost and the largest size of an expression about `self`.
fn estimated(declared: &Declaration, expression: &str) -> (u64, Option<u64>) {
    let tree = parse(expression, false).unwrap_or_else(|error| panic!("{}", error.shown(expression)));
    let node = check(&tree, &[("self", declared.kind.clone())], &Extensions::default())
        .unwrap_or_else(|errors| panic!("{}", crate::source::shown(&errors, expression)));
    let root = Origin::Declared(declared);
    let known = Estimator { scope: vec![Slot { origin: root, size: None, entries: None }], root }.node(&node);
    (known.cost.max, known.size.map(|size| size.max))
}

fn table(declared: &Declaration, rows: &[(&str, u64, Option<u64>)]) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(expression, cost, size)| (expression, (*cost, *size), estimated(declared, expression)))
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(expression, wanted, found)| format!("{expression}\n  wanted {wanted:?}\n  found  {found:?}"))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

const LOST: Option<u64> = Some(u64::MAX);

#[test]
fn texts() {
    table(
        &object(),
        &[
            ("self.s", 2, Some(80)),
            ("'é'", 0, Some(1)),
            ("b'\\xc3\\xa9'", 0, Some(2)),
            ("self.s.lowerAscii()", 2 + 8, Some(80)),
            ("self.s.upperAscii()", 2 + 8, Some(80)),
            ("self.s.trim()", 2 + 8, Some(80)),
            ("self.s.substring(1)", 2 + 8, Some(80)),
            ("self.s.substring(1, 2)", 2 + 8, Some(80)),
            // One character, which the estimate does not know.
            ("self.s.charAt(0)", 2 + 1, None),
            ("self.s.replace('a', 'bcd')", 2 + 16, Some(240)),
            ("self.s.replace('abc', 'd')", 2 + 16, Some(80)),
            ("self.s.replace('', '-')", 2 + 16, Some(81 + 80)),
            ("self.s.replace(self.s, 'd', 3)", 2 + 2 + 16, Some(81 + 80)),
            ("self.s + 'ab'", 2 + 9, Some(82)),
            ("self.b + b'ab'", 2 + 2, Some(14)),
            ("bytes(self.s)", 2 + 8, Some(320)),
            ("string(self.b)", 2 + 2, Some(12)),
            ("string(self.s)", 2 + 1, None),
            ("string(self.n)", 2 + 1, None),
            ("strings.quote(self.s)", 2 + 8, Some(162)),
            ("'%s'.format([self.s])", 12 + 1, None),
            ("true ? self.s : 'a'", 2, Some(80)),
            ("dyn(self.s)", 2 + 1, Some(80)),
            ("self.s.find('[0-9]')", 2 + 9 * 2, Some(80)),
            ("self.s.indexOf('a')", 2 + 8, Some(1)),
            ("self.s.contains('abc')", 2 + 8, Some(1)),
            ("self.s.matches('[0-9]')", 2 + 9 * 2, Some(1)),
            ("matches(self.s, '[0-9]')", 2 + 1, Some(1)),
            ("self.s == 'abc'", 2 + 1, Some(1)),
            ("self.s < self.s", 2 + 2 + 8, Some(1)),
            ("type(self.n) == int", 2 + 1 + 1, Some(1)),
        ],
    );
}

#[test]
fn lists() {
    table(
        &object(),
        &[
            ("self.l", 2, Some(5)),
            ("self.l[0]", 2 + 1, Some(40)),
            ("self.s.split('.')", 2 + 16, Some(80)),
            ("self.s.split('.', 3)", 2 + 16, Some(3)),
            ("self.s.split('.', -1)", 2 + 16, LOST),
            ("self.s.findAll('[0-9]')", 2 + 9 * 2, Some(80)),
            ("self.l.join()", 2 + 20, Some(200)),
            ("self.l.join(', ')", 2 + 21, Some(208)),
            ("self.l + ['a']", 2 + 10 + 1, Some(6)),
            ("(self.l + ['a'])[0]", 2 + 10 + 1 + 1, Some(0)),
            ("(['a'] + ['bcd'])[0]", 20 + 1 + 1, Some(3)),
            ("['a', 'bcd'][0]", 10 + 1, Some(3)),
            ("(true ? ['a'] : ['bcd'])[0]", 10 + 1, Some(3)),
            ("self.l.isSorted()", 2 + 5 * (1 + 4), Some(1)),
            ("self.l.indexOf('a')", 2 + 5 * (1 + 4), Some(1)),
            ("self.l.max()", 2 + 5 * (1 + 4), None),
            ("[1, 2].sum()", 10 + 2, Some(1)),
            ("self.l.slice(1, 3)", 2 + 2 + 11, Some(2)),
            ("self.l.slice(1, self.n)", 2 + 2 + 4 + 11, Some(4)),
            ("self.l.reverse()", 2 + 5 + 11, Some(5)),
            ("self.l.distinct()", 2 + 50 + 11, Some(25)),
            ("self.l.sort()", 2 + 53 + 11, Some(25)),
            // The binding and its list, the keys (two for the range and its list, fourteen per round), and the sorting.
            ("self.l.sortBy(x, x.size())", 10 + 2 + 1 + (1 + 10 + 5 * 14 + 1) + 50 + 11, Some(25)),
            ("lists.range(3)", 3 + 11, Some(3)),
            ("[[1], [2]].flatten()", 30 + 2 + 11, Some(2)),
            ("[[1], [2]].flatten(3)", 30 + 6 + 11, Some(2)),
            ("self.l.first()", 2 + 1, None),
            ("sets.contains(self.l, ['a', 'b'])", 2 + 10 + 10 + 1, Some(1)),
            ("sets.intersects(self.l, ['a', 'b'])", 2 + 10 + 10 + 1, Some(1)),
            ("sets.equivalent(self.l, ['a', 'b'])", 2 + 10 + 20 + 1, Some(1)),
            ("'a' in self.l", 2 + 5, Some(1)),
        ],
    );
    // The items of a computed list have no known size.
    for expression in ["['a', 'b'].join('-')", "self.s.split('.').join('-')", "['a'].isSorted()"] {
        assert!(estimated(&object(), expression).0 > u64::MAX / 20, "{expression}");
    }
    assert_eq!(estimated(&object(), "lists.range(self.n)").0, u64::MAX);
}

#[test]
fn comprehensions() {
    table(
        &object(),
        &[
            // Two for the list, ten for the new one, one for the result; per round the accumulator, a list of one, and `+`.
            ("self.l.map(x, x + 'ab')", 2 + 10 + 1 + 5 * (1 + 10 + (1 + 5) + 1), Some(5)),
            ("self.l.map(x, x + 'ab')[0]", 2 + 10 + 1 + 5 * 18 + 1, Some(42)),
            ("self.l.filter(x, x != 'a')", 2 + 10 + 1 + 5 * (2 + 13), Some(5)),
            ("self.l.filter(x, x != 'a')[0]", 2 + 10 + 1 + 5 * (2 + 13) + 1, Some(40)),
            ("self.l.transformList(i, v, v)", 2 + 10 + 1 + 5 * (1 + 11 + 1), Some(5)),
            ("self.l.transformMap(i, v, v)", 2 + 30 + 1 + 5 * (3 + 1), Some(5)),
            ("self.l.exists_one(x, x == 'a')", 2 + (1 + 1) + 5 * (2 + 2), Some(1)),
            ("self.m.all(k, k == 'a')", 2 + 1 + 3 * (2 + 1 + 1), Some(1)),
            ("self.m.all(k, v, v == 'a')", 2 + 1 + 3 * (2 + 1 + 2), Some(1)),
            // An item of a computed list counts as large as the variable, and an object counts as empty.
            ("self.s.split('.').all(x, x.matches('[0-9]'))", 18 + 1 + 80 * (2 + 1 + 1 + 2), Some(1)),
            ("self.?s.hasValue()", 1 + 1 + 1, Some(1)),
            ("optional.of(self.s).optMap(x, x.startsWith('a')).hasValue()", 10 + 3 + 2 + (10 + 2 + 2 + 1) + 1, Some(1)),
        ],
    );
}

#[test]
fn maps_and_kubernetes_types() {
    table(
        &object(),
        &[
            ("self.m", 2, Some(3)),
            ("self.m['k']", 2 + 1, Some(12)),
            ("self.m.k", 2 + 1, None),
            ("{'a': 'bcd'}['a']", 30 + 1, Some(3)),
            ("{'a': 'bcd'}", 30, Some(1)),
            ("url('https://a.example')", 2, Some(17)),
            ("url('https://a.example') == url('https://b.example')", 2 + 2 + 2, Some(1)),
            ("isURL(self.s)", 2 + 1, Some(1)),
            ("url(self.s).getHost()", 2 + 8 + 1, None),
            ("isIP(self.s)", 2 + 1, Some(1)),
            ("ip('::1') == ip('::1')", 1 + 1 + 1, Some(1)),
            ("ip.isCanonical(self.s)", 2 + 1, Some(1)),
            ("isCIDR(self.s)", 2 + 1, Some(1)),
            ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 1 + 4 + 1, Some(1)),
            ("cidr('10.0.0.0/8').containsIP(ip('10.0.0.1'))", 1 + 1 + 4, Some(1)),
            ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", 1 + 4 + 2 + 1 + 2, Some(1)),
            ("isQuantity(self.s)", 2 + 1, Some(1)),
            ("quantity('1Gi') == quantity('2')", 1 + 1 + 1, Some(1)),
            ("quantity('1Gi').add(quantity('2')).compareTo(quantity('3'))", 3 + 2, Some(1)),
            ("semver('1.2.3') == semver('1.2.3')", 1 + 1 + 1, Some(1)),
            ("format.dns1123Label().validate(self.s)", 1 + 2 + 8 * 32, None),
            ("format.dns1123Label() == format.dns1035Label()", 1 + 1 + 7, Some(1)),
        ],
    );
    // `!=` of quantities has no estimate.
    assert!(estimated(&object(), "quantity('1') != quantity('2')").0 > u64::MAX / 20);
}

#[test]
fn parts_of_a_text_are_as_large_as_the_text() {
    let declared = text(80);
    // Per round the condition, the accumulator, the item, and nine times three for the regular expression.
    table(
        &declared,
        &[("!self.split('.').exists(x, x.matches('^0[0-9]+$'))", 1 + 16 + 1 + 80 * (3 + 1 + 1 + 27) + 1, Some(1))],
    );
    let environment = Environment::default().with("self", Type::String, Some(&declared));
    let rule = environment.compile("!self.split('.').exists(x, x.matches('^0[0-9]+$'))").unwrap();
    assert!(rule.max_cost < 10_000_000, "{}", rule.max_cost);
}
