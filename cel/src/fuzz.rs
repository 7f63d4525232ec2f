//! The fuzz target of expressions: any text compiles or is refused, and runs within its limits.

use super::{Declaration, Environment, Failure, Meter, Type, Value};

/// Compiles and runs an expression about `self`, which is declared as a list of texts.
pub fn expression(input: &[u8]) {
    const LIMIT: u64 = 10_000;
    let text = String::from_utf8_lossy(input);
    let declared = Declaration::list(Declaration::scalar(Type::String, 2).with_max(9), Some(3));
    for kind in [Type::Dyn, declared.kind.clone()] {
        let environment = Environment::default().with("self", kind, Some(&declared));
        let program = match environment.compile(&text) {
            Ok(program) => program,
            Err(why) => {
                assert!(why.starts_with("ERROR: <input>:"), "{why}");
                continue;
            }
        };
        let values = Value::list(vec![Value::string("a"), Value::string("é")]);
        let mut meter = Meter::new(LIMIT);
        match program.run(vec![values], &mut meter) {
            Ok(_) => assert!(meter.cost() <= LIMIT),
            Err(Failure::TooCostly) => {}
            Err(Failure::Error(why)) => assert!(!why.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base_testing::cel_pieces::CEL_PIECES;

    #[test]
    fn expressions_compile_or_are_refused() {
        proto::mutation::run(
            &[
                b"self.all(x, x.matches('^[a-z]+$') && x.size() < 5) ? [1, 2u, 3.5e1] : []",
                b"has(self.a) || {'a': [b'\\xff', null]}.a[0] == b'' && !(1 in [self.size()])",
                b"self.map(x, x + '\\u00e9').exists_one(x, x.replace('a', 'b', 1) == r'\\n') // end",
                b"duration('1h') + timestamp('2026-01-02T03:04:05Z') > timestamp(0) && quantity('1Gi').sign() == 1",
                b"optional.of(self).optMap(x, x[?0].orValue('''c''')).hasValue() && self.sortBy(x, x).first() == {}.?k",
            ],
            CEL_PIECES,
            3_000,
            expression,
        );
    }
}
