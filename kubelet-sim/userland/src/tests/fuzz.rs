//! Arbitrary input neither panics nor hangs.

use super::sh;
use crate::pattern::glob::Glob;
use crate::shell::arithmetic;
use crate::shell::parser::parse;
use crate::shell::variables::Variables;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_parser_reads_anything(text in "\\PC{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn the_parser_reads_what_looks_like_a_script(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "if ", "then ", "fi", "; ", "do ", "done", "while ", "for x in ", "case a in ", "a) ", ";; ", "esac",
                "{ ", "}", "(", ")", "$(", "`", "\"", "'", "${A", ":-", "#", "$((", "))", "<<E\n", "E\n", "|", "&&",
                "& ", ">", "2>&1 ", "echo ", "x=", "\\", "\n", "f() ", "! ",
            ]),
            0..24,
        )
    ) {
        let _ = parse(&parts.concat());
    }

    #[test]
    fn arithmetic_and_globs_take_anything(text in "[-+*/%()0-9a-z<>=!&|?:,^~ \\[\\]]{0,40}") {
        let _ = arithmetic::evaluate(&text, &mut Variables::default());
        let _ = Glob::parse(&text).matches("a-1");
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("(", ")"), ("$(", ")"), ("{ ", "; }"), ("\"${A:-", "}\""), ("if ", "")] {
        let line = format!("echo {}{}", open.repeat(500), close.repeat(500));
        assert!(!sh(&line).ends_with("running"), "{open}");
    }
    assert!(arithmetic::evaluate(&"(".repeat(10_000), &mut Variables::default()).is_err());
    assert!(arithmetic::evaluate(&"-".repeat(10_000), &mut Variables::default()).is_err());
}
