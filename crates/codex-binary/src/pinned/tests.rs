use super::{PACKAGE, PACKAGE_LOCK, PINNED_VERSION, telling_line};

#[test]
fn the_version_named_in_code_is_the_one_in_the_package_files() {
    let wanted = format!("\"@openai/codex\": \"{PINNED_VERSION}\"");
    assert!(PACKAGE.contains(&wanted), "package.json lacks {wanted}");
    assert!(PACKAGE_LOCK.contains(&wanted), "package-lock.json lacks {wanted}");
}

#[test]
fn of_a_failed_npm_the_line_for_people_is_kept() {
    let check = |stderr: &str, expected: Option<&str>| {
        assert_eq!(telling_line(stderr).as_deref(), expected, "{stderr:?}");
    };
    // npm 11.19, as it was seen to fail without a network.
    check(
        "npm warn Unknown user config \"nodedir\".\nnpm error code ENOTFOUND\nnpm error syscall getaddrinfo\n\
         npm error errno ENOTFOUND\nnpm error network request to http://registry.invalid/@openai%2fcodex failed, \
         reason: getaddrinfo ENOTFOUND registry.invalid\nnpm error network This is a problem related to network \
         connectivity.\nnpm error A complete log of this run can be found in: /x.log\n",
        Some(
            "network request to http://registry.invalid/@openai%2fcodex failed, reason: getaddrinfo ENOTFOUND registry.invalid",
        ),
    );
    check("npm ERR! code E404\nnpm ERR! 404 Not Found\nnpm ERR! 404\n", Some("404 Not Found"));
    check(
        "/usr/bin/env: 'node': No such file or directory\n\n",
        Some("/usr/bin/env: 'node': No such file or directory"),
    );
    check("npm error code EWHATEVER\n", Some("npm error code EWHATEVER"));
    check("\n", None);
}
