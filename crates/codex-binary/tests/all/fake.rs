//! Small scripts laid out as codex and npm are.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use codex_binary::MINIMUM;

/// Writes an executable script, with the folders above it.
///
/// A process of its own writes it: were it this one, a child that another test forks meanwhile would hold the file
/// open for writing, and the system refuses to run such a file.
pub fn script(path: &Path, body: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(body).status().unwrap();
    assert!(status.success());
    path.canonicalize().unwrap()
}

/// A codex that prints a version and nothing else.
pub fn codex(path: &Path, version: &str) -> PathBuf {
    script(path, &format!("echo codex-cli {version}"))
}

/// The oldest version that is accepted, as codex would print it.
pub fn good() -> String {
    MINIMUM.to_string()
}

/// A package as npm unpacks it. Its codex fails unless the parts that it needs are where they belong.
pub fn package(root: &Path, version: &str) -> PathBuf {
    fs::create_dir_all(root.join("codex-resources/voice")).unwrap();
    fs::write(root.join("codex-package.json"), "{}").unwrap();
    fs::write(root.join("codex-resources/voice/NOTICE.md"), "notice").unwrap();
    script(&root.join("codex-resources/bwrap"), "exit 0");
    script(&root.join("codex-path/rg"), "exit 0");
    symlink("rg", root.join("codex-path/ripgrep")).unwrap();
    script(
        &root.join("bin/codex"),
        &format!(
            "root=${{0%/bin/codex}}\n\"$root/codex-resources/bwrap\" && \"$root/codex-path/ripgrep\" && echo codex-cli {version}"
        ),
    )
}

/// Where the native package of this platform has its package root, below a `node_modules`.
pub fn native_root(node_modules: &Path) -> PathBuf {
    let (name, triple) = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("linux-x64", "x86_64-unknown-linux-musl"),
        ("linux", _) => ("linux-arm64", "aarch64-unknown-linux-musl"),
        (_, "x86_64") => ("darwin-x64", "x86_64-apple-darwin"),
        _ => ("darwin-arm64", "aarch64-apple-darwin"),
    };
    node_modules.join(format!("@openai/codex-{name}/vendor/{triple}"))
}

/// The Node shim and the link to it, without any native package. The shim fails if anyone runs it.
pub fn shim(node_modules: &Path) -> PathBuf {
    let shim = node_modules.join("@openai/codex/bin/codex.js");
    fs::create_dir_all(shim.parent().unwrap()).unwrap();
    fs::write(&shim, "#!/usr/bin/env node\nthrow new Error('the shim was run')\n").unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let bin = node_modules.join(".bin");
    fs::create_dir_all(&bin).unwrap();
    symlink("../@openai/codex/bin/codex.js", bin.join("codex")).unwrap();
    bin.join("codex")
}
