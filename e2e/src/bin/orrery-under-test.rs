//! The product itself, so that Cargo builds it for this crate's tests and gives them its path.

fn main() -> std::process::ExitCode {
    orrery::main()
}
