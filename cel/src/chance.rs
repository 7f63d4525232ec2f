//! Tests of random expressions: none panics, and none runs for long.

use super::{Declaration, Environment, Failure, Meter, Type, Value};
use component_base_testing::cel_pieces::CEL_PIECES;
use proptest::prelude::*;
use proptest::sample::select;

fn run(text: &str) {
    let declared = Declaration::list(Declaration::scalar(Type::String, 2).with_max(9), Some(3));
    let environment = Environment::default().with("self", Type::Dyn, Some(&declared));
    let Ok(program) = environment.compile(text) else { return };
    let mut meter = Meter::new(10_000);
    let values = Value::list(vec![Value::string("a"), Value::Int(-1), Value::Null, Value::Broken("odd".into())]);
    if let Err(Failure::Error(why)) = program.run(vec![values], &mut meter) {
        assert!(!why.is_empty(), "{text}");
    }
}

proptest! {
    #[test]
    fn pieces_of_expressions(pieces in proptest::collection::vec(select(CEL_PIECES.to_vec()), 0..14)) {
        run(&pieces.concat());
    }

    #[test]
    fn pieces_that_close(
        pieces in proptest::collection::vec((select(CEL_PIECES.to_vec()), select(CEL_PIECES.to_vec())), 1..5),
    ) {
        // Closes each opened bracket, so that more of the expressions are valid.
        let text: String = pieces
            .iter()
            .map(|(piece, inner)| {
                let opened = piece.matches('(').count().saturating_sub(piece.matches(')').count());
                let inner = if opened > 0 { inner } else { "" };
                let inner = if inner.matches('(').count() == inner.matches(')').count() { inner } else { "1" };
                format!("{piece}{inner}{}", ")".repeat(opened))
            })
            .collect();
        run(&text);
    }

    #[test]
    fn any_text(text in "\\PC{0,40}") {
        run(&text);
    }

    #[test]
    fn numbers_of_any_size(a in any::<i64>(), b in any::<i64>(), operator in select(vec!["+", "-", "*", "/", "%"])) {
        run(&format!("({a}) {operator} ({b}) == 0 || 'abcé'.substring({a}, {b}) == '' || 'abcé'.indexOf('b', {a}) == {b}"));
        run(&format!("duration({a}) + timestamp({b}) == timestamp({a}) || 'aé'.replace('a', 'b', {a}).split('', {b}) == []"));
        run(&format!("'aé'.lastIndexOf('é', {a}) == 1 || 'aé'.charAt({b}) == 'a' || 'aa'.findAll('a', {a}) == []"));
    }
}
