//! The program `compare-scheduler`.

fn main() -> std::process::ExitCode {
    scheduler_comparison::main()
}
