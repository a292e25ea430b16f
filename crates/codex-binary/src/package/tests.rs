use super::Platform;

#[test]
fn linux_and_mac_have_a_native_package_and_others_do_not() {
    let check = |os, arch, expected: Option<(&str, &str)>| {
        let found = Platform::of(os, arch);
        assert_eq!(found.map(|platform| (platform.package, platform.triple)), expected, "{os} {arch}");
    };
    check("linux", "x86_64", Some(("@openai/codex-linux-x64", "x86_64-unknown-linux-musl")));
    check("linux", "aarch64", Some(("@openai/codex-linux-arm64", "aarch64-unknown-linux-musl")));
    check("macos", "x86_64", Some(("@openai/codex-darwin-x64", "x86_64-apple-darwin")));
    check("macos", "aarch64", Some(("@openai/codex-darwin-arm64", "aarch64-apple-darwin")));
    check("linux", "riscv64", None);
    check("freebsd", "x86_64", None);
}
