//! Tests of expressions, as tables of their values, costs and errors.

use super::*;
use std::collections::BTreeMap;

/// Returns the printed value or the error of an expression without variables.
fn eval(text: &str) -> String {
    let program = match Environment::default().compile(text) {
        Ok(program) => program,
        Err(why) => return why,
    };
    match program.run(Vec::new(), &mut Meter::new(1_000_000)) {
        Ok(value) => shown(&value),
        Err(Failure::TooCostly) => "too costly".to_owned(),
        Err(Failure::Error(why)) => format!("error: {why}"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) => format!("{number:?}"),
        Value::String(text) => format!("{text:?}"),
        Value::List(list) => format!("[{}]", list.items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", shown(&key.value()), shown(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("some({})", shown(inner)),
        other => format!("{other:?}"),
    }
}

pub fn table(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(text, wanted)| (text, wanted, eval(text)))
        .filter(|(_, wanted, found)| found != *wanted)
        .map(|(text, wanted, found)| format!("{text}\n  wanted {wanted}\n  found  {found}"))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_value_gets_a_name_where_bindings_are_known() {
    let text = "cel.bind(a, 2 + 3, cel.bind(b, a * a, b - a))";
    let program = Environment::default().with_bindings().compile(text).unwrap();
    assert_eq!(shown(&program.run(Vec::new(), &mut Meter::new(1_000)).unwrap()), "20");
    let unnamed = Environment::default().with_bindings().compile("cel.bind(a.b, 2, 3)").unwrap_err();
    assert!(unnamed.contains("cel.bind() variable names must be simple identifiers"), "{unnamed}");
    assert!(eval(text).contains("undeclared reference to 'cel'"), "{}", eval(text));
}

#[test]
fn literals_and_operators() {
    table(&[
        ("1 + 2 * 3 - 4 / 2 % 3", "5"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775807 + 1", "error: integer overflow"),
        ("-(-9223372036854775808)", "error: integer overflow"),
        ("0x1F", "31"),
        ("3u - 4u", "error: unsigned integer overflow"),
        ("1.5e1 + .5", "15.5"),
        ("1 / 0", "error: division by zero"),
        ("1 % 0", "error: modulus by zero"),
        ("'a' + \"b\" + r'\\n' + '''c\n'''", "\"ab\\\\nc\\n\""),
        ("'\\u00e9\\x41\\101\\n'", "\"éAA\\n\""),
        ("b'\\xff' == b'\\377'", "true"),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && 2 > 1.5", "true"),
        ("[1, 2] + [3]", "[1, 2, 3]"),
        ("2 in [1, 2] && 'a' in {'a': 1} && !('b' in {'a': 1})", "true"),
        ("true ? 'yes' : 'no'", "\"yes\""),
        ("1 / 0 == 1 || true", "true"),
        ("false && 1 / 0 == 1", "false"),
        ("1 / 0 == 1 && true", "error: division by zero"),
        ("{'a': {'b': 1}}.a.b", "1"),
        ("{'a': 1}['b']", "error: no such key: b"),
        ("[1][1]", "error: index out of bounds: 1"),
        ("{'a': 1, 'a': 2}", "error: insert failed: key a already exists"),
        ("!!true && --1 == 1", "true"),
        ("type(1) == int && type([]) == list", "true"),
        ("'é'.size() == 1 && size(b'\\xc3\\xa9') == 2", "true"),
    ]);
}

#[test]
fn macros() {
    table(&[
        ("has({'a': 1}.a) && !has({'a': 1}.b)", "true"),
        ("[1, 2, 3].all(x, x > 0)", "true"),
        ("[1, 2, 3].exists(x, x > 2)", "true"),
        ("[1, 0].exists(x, 1 / x == 1)", "true"),
        ("[0, 1].all(x, 1 / x == 2)", "false"),
        ("[1, 2, 3].exists_one(x, x > 2)", "true"),
        ("[1, 2, 3].map(x, x * 2)", "[2, 4, 6]"),
        ("[1, 2, 3].map(x, x > 1, x * 2)", "[4, 6]"),
        ("[1, 2, 3].filter(x, x != 2)", "[1, 3]"),
        ("{'a': 1, 'b': 2}.filter(k, k != 'a')", "[\"b\"]"),
        ("[[1], [2, 3]].map(x, x.map(y, y + x[0]))", "[[2], [4, 5]]"),
        ("[4, 5].all(i, v, v == i + 4)", "true"),
        ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", "true"),
        ("[4, 5].existsOne(i, v, i == 1)", "true"),
        ("[4, 5].transformList(i, v, i + v)", "[4, 6]"),
        ("[4, 5].transformList(i, v, i > 0, v)", "[5]"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", "{\"a\": 2, \"b\": 3}"),
        ("{'a': 'x', 'b': 'y'}.transformMapEntry(k, v, {v: k})", "{\"x\": \"a\", \"y\": \"b\"}"),
        ("['x', 'x'].transformMapEntry(i, v, {v: i})", "error: insert failed: key x already exists"),
        ("optional.of(2).optMap(x, x + 1)", "some(3)"),
        ("optional.none().optMap(x, 1)", "none"),
        ("optional.of(2).optFlatMap(x, x > 2 ? optional.of(x) : optional.none())", "none"),
        ("{'a': {'b': 1}}.?a.?b", "some(1)"),
        ("{'a': {'b': 1}}.?c.b.orValue(7)", "7"),
        ("[1][?3].orValue(0) + {'a': 1}[?'a'].orValue(0)", "1"),
        ("[?optional.none(), ?optional.of(1)]", "[1]"),
        ("{?'a': optional.none(), 'b': 1}", "{\"b\": 1}"),
        ("optional.ofNonZeroValue('').hasValue()", "false"),
        ("optional.none().or(optional.of(1)).value()", "1"),
        ("optional.none().value() == 1", "error: optional.none() dereference"),
    ]);
}

#[test]
fn libraries() {
    table(&[
        ("'tacocat'.charAt(3)", "\"o\""),
        ("'hello mellow'.indexOf('ello', 2)", "7"),
        ("'hello mellow'.lastIndexOf('ello')", "7"),
        ("'hello mellow'.lastIndexOf('ello', 6)", "1"),
        ("'hello'.indexOf('x')", "-1"),
        ("'TacoCat'.lowerAscii() + 'x'.upperAscii()", "\"tacocatX\""),
        ("'hello hello'.replace('he', 'we', 1)", "\"wello hello\""),
        ("'a,b,c'.split(',', 2)", "[\"a\", \"b,c\"]"),
        ("'abc'.split('')", "[\"a\", \"b\", \"c\"]"),
        ("'tacocat'.substring(0, 4)", "\"taco\""),
        ("'tacocat'.substring(4, 2)", "error: invalid substring range. start: 4, end: 2"),
        ("' a\\t'.trim() + ['x', 'y'].join('-')", "\"ax-y\""),
        ("'abc 123'.find('[0-9]+') + 'a1b2'.findAll('[0-9]')[1]", "\"1232\""),
        ("'a1b2c3'.findAll('[0-9]', 2)", "[\"1\", \"2\"]"),
        ("'abc'.matches('^a.c$') && matches('abc', 'b')", "true"),
        ("'abc'.matches('(' + '')", "error: error parsing regexp: `(`"),
        ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", "true"),
        ("[1, 2].sum() + [3, 1].max() + [3, 1].min()", "7"),
        ("[duration('1m'), duration('30s')].sum() == duration('90s')", "true"),
        ("['a', 'b', 'a'].lastIndexOf('a') - ['a', 'b'].indexOf('b')", "1"),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", "true"),
        ("quantity('1Gi').isGreaterThan(quantity('1G')) && isQuantity('5k') && !isQuantity('5x')", "true"),
        ("quantity('1500m').asApproximateFloat()", "1.5"),
        ("quantity('50k').add(20).compareTo(quantity('50020')) + quantity('-3').sign()", "-1"),
        ("quantity('1.5').isInteger() || quantity('2k').asInteger() == 2000", "true"),
        ("url('https://a.example:80/p q?x=1&x=2').getHostname()", "\"a.example\""),
        ("url('https://a.example:80/p q?x=1&x=2').getPort()", "\"80\""),
        ("url('https://a.example:80/p q?x=1&x=2').getEscapedPath()", "\"/p%20q\""),
        ("url('https://a.example/?x=1&x=2').getQuery()['x']", "[\"1\", \"2\"]"),
        ("url('https://[::1]:80/').getHost() + url('https://[::1]:80/').getHostname()", "\"[::1]:80::1\""),
        ("isURL('/path') && !isURL('../x') && isURL('https://a.example') && !isURL('https://a.example:x')", "true"),
        ("ip('192.168.0.1').family() + ip('::1').family()", "10"),
        (
            "ip('127.0.0.1').isLoopback() && ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && !isIP('1.2.3')",
            "true",
        ),
        ("cidr('192.168.0.0/24').containsIP('192.168.0.9') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "true"),
        ("string(cidr('192.168.0.7/24').masked()) + string(cidr('10.0.0.0/8').ip())", "\"192.168.0.0/2410.0.0.0\""),
        ("cidr('10.0.0.0/8').prefixLength()", "8"),
        ("format.dns1123Label().validate('Web').hasValue()", "true"),
        ("!format.named('dns1123Label').value().validate('web').hasValue()", "true"),
        ("format.named('nothing').hasValue()", "false"),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('v1.2', true) && !isSemver('v1.2')", "true"),
        ("semver('1.2.3-alpha').compareTo(semver('1.2.3')) + semver('01.2', true).minor()", "1"),
        ("timestamp('2026-01-02T03:04:05.678Z').getMonth() + timestamp('2026-01-02T03:04:05Z').getDate()", "2"),
        ("timestamp('2026-01-02T23:04:05Z').getHours('+02:00')", "1"),
        ("timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')", "true"),
        ("duration('1h30m').getMinutes() + duration('1.5s').getMilliseconds()", "1590"),
        ("string(duration('1h')) + string(timestamp('2026-01-02T03:04:05Z'))", "\"3600s2026-01-02T03:04:05Z\""),
        ("int('12') + int(2.9) + int(timestamp('1970-01-01T00:00:05Z'))", "19"),
        ("int('x')", "error: type conversion error from 'string' to 'int'"),
        ("string(1.5) + string(true) + string(b'a') + string(2u)", "\"1.5truea2\""),
        ("double('1e3') + double(2)", "1002.0"),
        ("uint(-1)", "error: unsigned integer overflow"),
        ("bool('t') && !bool('false')", "true"),
    ]);
}

#[test]
fn what_is_no_expression_is_told_with_its_place() {
    const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
    let missing =
        format!("ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {STARTS}\n | 1 +\n | ...^");
    table(&[
        ("1 +", &missing),
        ("1 2", "ERROR: <input>:1:3: Syntax error: extraneous input '2' expecting <EOF>\n | 1 2\n | ..^"),
        ("'é' == #", "ERROR: <input>:1:8: Syntax error: token recognition error at: '#'\n | 'é' == #\n | .．.....^"),
        ("true &&\n  x", "ERROR: <input>:2:3: undeclared reference to 'x' (in container '')\n |   x\n | ..^"),
        (
            "x.a + y(1)",
            "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x.a + y(1)\n | ^\nERROR: <input>:1:8: undeclared reference to 'y' (in container '')\n | x.a + y(1)\n | .......^",
        ),
        (
            "1 + 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
        ),
        (
            "'a'.startsWith(1)",
            "ERROR: <input>:1:15: found no matching overload for 'startsWith' applied to 'string.(int)'\n | 'a'.startsWith(1)\n | ..............^",
        ),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^"),
        (
            "1.all(x, true)",
            "ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | 1.all(x, true)\n | ^",
        ),
        ("has(1)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(1)\n | ....^"),
        ("(1).a", "ERROR: <input>:1:4: type 'int' does not support field selection\n | (1).a\n | ...^"),
        ("if", "ERROR: <input>:1:1: reserved identifier: if\n | if\n | ^"),
        (
            "true ? 1 : 'a'",
            "ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'\n | true ? 1 : 'a'\n | .....^",
        ),
        ("A{b: 1}", "ERROR: <input>:1:2: undeclared reference to 'A' (in container '')\n | A{b: 1}\n | .^"),
    ]);
}

#[test]
fn types_are_found_where_nobody_wrote_them() {
    let result = |text: &str| match Environment::default().compile(text) {
        Ok(program) => program.result().to_string(),
        Err(why) => why,
    };
    assert_eq!(result("[1].map(x, 'a')"), "list(string)");
    assert_eq!(result("[] + [1u]"), "list(uint)");
    assert_eq!(result("{'a': [1]}.transformMap(k, v, v.size() > 0)"), "map(string, bool)");
    assert_eq!(result("optional.none().orValue(1)"), "int");
    assert_eq!(result("[dyn(1), 'a'][0]"), "dyn");
    assert_eq!(result("duration('1s') + timestamp(0)"), "timestamp");
}

#[test]
fn nothing_runs_for_ever() {
    let deep = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let doubling = format!("optional.of('ab'){}.hasValue()", ".optMap(x, x + x)".repeat(60));
    let nested = format!("optional.of([1]){}.optMap(x, x == x).hasValue()", ".optMap(x, [x, x])".repeat(40));
    let listed = format!("optional.of([1]){}.hasValue()", ".optMap(x, x + x)".repeat(60));
    let range = "[0,1,2,3,4,5,6,7,8,9]";
    let loops =
        format!("{range}.all(a, {range}.all(b, {range}.all(c, {range}.all(d, {range}.all(e, {range}.all(f, true))))))");
    for text in [&doubling, &nested, &listed, &loops] {
        assert_eq!(eval(text), "too costly", "{text}");
    }
    for text in [
        deep("(", "1", ")", 99),
        deep("[", "1", "]", 99),
        deep("-", "1", "", 5000),
        deep("!", "true", "", 5000),
        deep("1 + ", "1", "", 200),
        deep("true && ", "true", "", 10_000),
        deep("true ? 1 : ", "1", "", 90),
        deep("{'a': ", "1", "}", 90),
    ] {
        assert!(!eval(&text).starts_with("ERROR"), "{text}: {}", eval(&text));
    }
    for text in [
        deep("(", "1", ")", 5000),
        deep("[{(", "1", "", 5000),
        deep("1 + ", "1", "", 5000),
        deep("'a'.", "b", "", 5000),
        deep("[1].map(x, ", "1", ")", 300),
        deep("true ? 1 : ", "1", "", 5000),
        "x".repeat(100_001),
        format!("'{}'", "(a{1000}){1000}".repeat(2)),
        "'a'.matches('((((a{100}){100}){100}){100}')".to_owned(),
        "'a'.matches('(((a{100}){100}){100}){100}')".to_owned(),
    ] {
        let found = eval(&text);
        assert!(
            found.contains("rror") || found.starts_with("ERROR") || found.contains("limit") || found.len() < 100,
            "{found}"
        );
    }
}

#[test]
fn costs_are_estimated_by_how_large_things_can_be() {
    let text = |max: u64| Declaration::scalar(Type::String, 2).with_max(max);
    let object = Declaration::object(
        "selfType",
        BTreeMap::from([
            ("s".to_owned(), text(10)),
            ("list".to_owned(), Declaration::list(text(10), Some(5))),
            ("long".to_owned(), Declaration::list(text(3_145_726), None)),
            ("n".to_owned(), Declaration::scalar(Type::Int, 1)),
        ]),
        0,
    );
    let environment = Environment::default().with("self", object.kind.clone(), Some(&object));
    let cost = |text: &str| environment.compile(text).unwrap().max_cost;
    for (text, wanted) in [
        ("self.s == 'a'", 3),
        ("self.n > 1", 3),
        ("self.s.startsWith('a')", 3),
        ("has(self.s)", 1),
        // Two for the list, then for each item: two for the condition, one for the result, and the item's own cost.
        ("self.list.all(x, x.startsWith('a'))", 2 + 5 * (2 + 1 + 2) + 1),
        ("self.s.matches('abcd')", 2 + 2),
        ("self.list.exists(x, x == 'a') ? 1 : 2", 2 + 5 * (3 + 1 + 2) + 1),
    ] {
        assert_eq!(cost(text), wanted, "{text}");
    }
    assert!(cost("self.long.all(x, x.contains('abc'))") > 10_000_000);
}
