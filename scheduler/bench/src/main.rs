//! The program `bench-cycles`.

/// The one of the released programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    scheduler_bench::main()
}
