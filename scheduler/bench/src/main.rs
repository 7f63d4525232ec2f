//! The program `bench-cycles`.

fn main() -> std::process::ExitCode {
    scheduler_bench::main()
}
