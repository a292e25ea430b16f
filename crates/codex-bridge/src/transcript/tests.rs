use super::bare_command;

#[test]
fn a_command_is_shown_without_the_shell_around_it_where_that_is_certain() {
    let check = |command: &str, bare: &str| assert_eq!(bare_command(command), bare);
    check("/bin/bash -lc 'ls -la'", "ls -la");
    check("/bin/bash -lc ls", "ls");
    check("/bin/bash -lc \"echo 'a'\"", "echo 'a'");
    check("/bin/bash -lc 'a'\\''b'", "/bin/bash -lc 'a'\\''b'");
    check("/bin/bash -lc \"echo $HOME\"", "/bin/bash -lc \"echo $HOME\"");
    check("ls -la", "ls -la");
}
