//! Runs `orrery` itself. This crate has the binary so that Cargo builds it for the tests and gives them its path.

fn main() -> std::process::ExitCode {
    orrery::main()
}
