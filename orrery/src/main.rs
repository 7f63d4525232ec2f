//! The `orrery` program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    use_small_pages();
    orrery::main()
}

/// Asks the kernel for pages of 4 KiB, here and in the processes that this one starts. The allocator advises pages of 2 MiB,
/// and each of those is zeroed and counts as used as soon as one byte of it is.
#[cfg(target_os = "linux")]
fn use_small_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true); // a kernel without huge pages has nothing to disable
}

#[cfg(not(target_os = "linux"))]
fn use_small_pages() {}
