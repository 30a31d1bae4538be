//! The binary: everything is in the library.

/// Spans come and go by the million between stores that live for minutes. After a burst, glibc's allocator keeps several times of
/// what is in use for good; this one gives it back, librdkafka's part too. The figures are in docs/guarantees.md.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    assayd::cli::main()
}
