//! What only Linux has: the one place that reads `/proc` and makes system calls which other systems lack.
//!
//! Another system needs the functions of these modules, with the same promises, and nothing else of this workspace changes.
//! ARCHITECTURE.md lists what is missing for macOS.

pub mod file;
pub mod peer;
pub mod process;
pub mod socket;

#[cfg(not(target_os = "linux"))]
compile_error!(
    "only Linux is supported: another system needs `codex_wire::os` (ARCHITECTURE.md, \"One system\")"
);
