//! The product itself, so that Cargo builds it for the tests of this crate and tells them where it is.

fn main() -> std::process::ExitCode {
    orrery::main()
}
