//! The table of errors: each code with its word, its HTTP status, its exit status and what it means.
//!
//! A condition has one code at every door. `docs/errors.md` and the OpenAPI document are made from this table.

use std::fmt;

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// JSON-RPC 2.0: the parameters are wrong.
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC 2.0: the request is refused.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: the server failed.
const INTERNAL_ERROR: i32 = -32603;

/// The exit statuses of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It could not be done.
    Failed = 1,
    /// The command line is wrong, or names what is not there.
    Usage = 2,
    /// A task needs an answer, and nobody here can give it.
    NeedsAnswer = 3,
}

macro_rules! codes {
    ($($name:ident $word:literal $status:ident $exit:ident $meaning:literal $(=> $hint:literal)?;)+) => {
        /// Which error it is: one stable word for programs.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)+
            /// A code of another version of the program.
            Other(String),
        }

        impl Code {
            /// All codes, in the order of the table.
            const ALL: &[Self] = &[$(Self::$name),+];

            /// The word for programs.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $word,)+
                    Self::Other(word) => word,
                }
            }

            fn of(word: &str) -> Self {
                match word {
                    $($word => Self::$name,)+
                    other => Self::Other(other.to_owned()),
                }
            }

            /// The HTTP status.
            pub fn status(&self) -> StatusCode {
                match self {
                    $(Self::$name => StatusCode::$status,)+
                    Self::Other(_) => StatusCode::UNPROCESSABLE_ENTITY,
                }
            }

            /// The exit status of a command that ends with it.
            pub fn exit(&self) -> Exit {
                match self {
                    $(Self::$name => Exit::$exit,)+
                    Self::Other(_) => Exit::Failed,
                }
            }

            /// What it means, in a sentence without a full stop.
            #[cfg(test)]
            fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                    Self::Other(_) => "",
                }
            }

            /// What to do about it, where that is always the same.
            pub fn hint(&self) -> Option<&'static str> {
                match self {
                    $($(Self::$name => Some($hint),)?)+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    BadCall "bad_call" BAD_REQUEST Usage "the body, the query, a header or a parameter is not what it should be";
    MissingParameter "missing_parameter" UNPROCESSABLE_ENTITY Usage "the call lacks a parameter";
    BadLimit "bad_limit" BAD_REQUEST Usage "the limit of a list is out of range";
    BadTimeout "bad_timeout" BAD_REQUEST Usage "the time to wait is out of range";
    UnknownAction "unknown_action" UNPROCESSABLE_ENTITY Failed "the tool has no such action";
    UnknownStatus "unknown_status" UNPROCESSABLE_ENTITY Usage "there is no such status";
    Usage "usage" UNPROCESSABLE_ENTITY Usage "the command line is wrong";
    NotConfirmed "not_confirmed" UNPROCESSABLE_ENTITY Usage "a command that needs a confirmation did not get one";
    UnknownRoute "unknown_route" NOT_FOUND Failed "there is no such route" => "/v1/openapi.json lists all of them";
    WrongMethod "wrong_method" METHOD_NOT_ALLOWED Failed "the route does not know that method" => "the Allow header lists the ones it knows";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE Failed "the answer cannot be given in the form that was asked for";
    TooSlow "too_slow" REQUEST_TIMEOUT Failed "the body did not arrive in time";
    TooLarge "too_large" PAYLOAD_TOO_LARGE Failed "the body is too large";
    WrongMediaType "wrong_media_type" UNSUPPORTED_MEDIA_TYPE Failed "the body is not JSON" => "send content-type: application/json";

    Unauthorized "unauthorized" UNAUTHORIZED Failed "the token is missing or wrong";
    Forbidden "forbidden" FORBIDDEN Failed "the caller's role does not allow it";
    BeyondReach "beyond_reach" FORBIDDEN Failed "the task may do more than the caller could have asked for";
    PeerRefused "peer_refused" FORBIDDEN Failed "the caller was started by Codex itself: nobody approves their own commands";
    Nested "nested" UNPROCESSABLE_ENTITY Failed "the program was started by a Codex that codex-bridge runs";
    BadOrigin "bad_origin" FORBIDDEN Failed "the request comes from another web page";
    BadHost "bad_host" MISDIRECTED_REQUEST Failed "the request names another host";
    TabLocked "tab_locked" FORBIDDEN Failed "the browser tab was not opened by a login";
    TooManyTries "too_many_tries" TOO_MANY_REQUESTS Failed "too many wrong tokens were tried";
    TooManyCalls "too_many_calls" TOO_MANY_REQUESTS Failed "too many calls of this caller are being answered";
    NoRoom "no_room" TOO_MANY_REQUESTS Failed "the channel's inbox is full";
    QuotaOpenTasks "quota_open_tasks" TOO_MANY_REQUESTS Failed "the token has as many unfinished tasks as its quota allows";
    QuotaBytes "quota_bytes" TOO_MANY_REQUESTS Failed "the token has handed over as many bytes as its quota allows";

    UnknownTask "unknown_task" NOT_FOUND Usage "there is no such task" => "`codex-bridge ps --all` lists the tasks";
    AmbiguousId "ambiguous_id" CONFLICT Usage "several tasks or requests begin with this id";
    WrongState "wrong_state" CONFLICT Failed "the task's status does not allow it: it still runs, or nothing runs";
    NotSteered "not_steered" CONFLICT Failed "Codex did not take what was added to the turn";
    Refused "refused" UNPROCESSABLE_ENTITY Failed "the call asks for something that cannot be";
    NotThere "not_there" UNPROCESSABLE_ENTITY Failed "what the call needs is not available now";
    Duplicate "duplicate" CONFLICT Failed "a row with this name exists already";
    KeyMismatch "key_mismatch" UNPROCESSABLE_ENTITY Failed "Idempotency-Key and client_request_id differ" => "send one of them, or both alike";
    KeyReused "key_reused" UNPROCESSABLE_ENTITY Usage "the client_request_id belongs to other work" => "give other work a name of its own; the same work must have the same prompt and settings";

    EmptyPrompt "empty_prompt" UNPROCESSABLE_ENTITY Usage "the prompt says nothing" => "say what Codex shall do";
    PromptTooLong "prompt_too_long" PAYLOAD_TOO_LARGE Failed "the prompt has more bytes than the operator allows" => "put long text into a file in the task's directory and name it; the operator sets `prompt_limit_bytes`";
    InstructionsRefused "instructions_refused" UNPROCESSABLE_ENTITY Failed "the developer instructions are too long, or hold a secret";
    BadCwd "bad_cwd" UNPROCESSABLE_ENTITY Usage "the directory is missing, relative, or no directory";
    CwdOutsideRoots "cwd_outside_roots" UNPROCESSABLE_ENTITY Usage "the directory is outside of the configured roots";
    CwdProtected "cwd_protected" UNPROCESSABLE_ENTITY Failed "no task may work, or write, in this directory";
    NoRoots "no_roots" UNPROCESSABLE_ENTITY Usage "remote callers need `roots` in the configuration, and there are none";
    UnknownSandbox "unknown_sandbox" UNPROCESSABLE_ENTITY Usage "there is no such sandbox";
    SandboxRefused "sandbox_refused" UNPROCESSABLE_ENTITY Usage "no caller may choose this sandbox";
    UnknownApprovalPolicy "unknown_approval_policy" UNPROCESSABLE_ENTITY Usage "there is no such approval policy";
    ApprovalPolicyRefused "approval_policy_refused" UNPROCESSABLE_ENTITY Usage "no caller may choose this approval policy";
    UnknownProfile "unknown_profile" UNPROCESSABLE_ENTITY Usage "the configuration has no such profile";
    ProfileRefused "profile_refused" UNPROCESSABLE_ENTITY Usage "the profile is not for agents";
    HomeNotListed "home_not_listed" UNPROCESSABLE_ENTITY Usage "the operator does not list this home of Codex";
    ConfigRefused "config_refused" UNPROCESSABLE_ENTITY Failed "no caller may set this part of Codex's configuration";

    UnknownRequest "unknown_request" NOT_FOUND Usage "there is no such request" => "`codex-bridge requests` lists what is open";
    UnknownDecision "unknown_decision" UNPROCESSABLE_ENTITY Usage "there is no such decision" => "use accept, acceptForSession, decline or cancel, or give answers";
    BadAnswers "bad_answers" UNPROCESSABLE_ENTITY Usage "the answers do not fit the questions or the form" => "`codex-bridge requests` shows the fields, and what each of them takes";
    IsQuestion "is_question" UNPROCESSABLE_ENTITY Failed "the request is a question: it takes answers, and no yes" => "answer it: `codex-bridge answer`, or `answers` by the door you came by";
    DigestMissing "digest_missing" BAD_REQUEST Failed "the decision does not say which request was shown" => "send `request_id` and `digest` as the request that you were shown has them";
    DigestMismatch "digest_mismatch" CONFLICT Failed "the request is not the one that was shown" => "look at the request again, and decide on what it asks now";
    NeedsReveal "needs_reveal" FORBIDDEN Failed "the request holds a secret that is shown only at the machine itself" => "on the machine, `codex-bridge requests TASK --reveal` shows it and `codex-bridge approve` approves it";
    NotOpened "not_opened" UNPROCESSABLE_ENTITY Failed "the request changes more than was shown" => "`changes` of the request has the whole diff and the digest for a yes; diffs that were not kept can only be declined";
    AlreadyResolved "already_resolved" CONFLICT Failed "somebody else decided first";
    Expired "expired" CONFLICT Failed "the request expired before it was answered";
    Orphaned "orphaned" CONFLICT Failed "the request ended with its turn before it was answered";
    NeedsAnswer "needs_answer" UNPROCESSABLE_ENTITY NeedsAnswer "the task needs an answer, and nobody here can give it";

    UnknownTarget "unknown_target" UNPROCESSABLE_ENTITY Usage "there is no such target, or it cannot be read";
    UnknownDelivery "unknown_delivery" NOT_FOUND Usage "there is no such delivery" => "`codex-bridge deliveries --all` lists them";
    Undelivered "undelivered" BAD_GATEWAY Failed "the target was not reached";
    UnknownMessage "unknown_message" NOT_FOUND Usage "there is no such message" => "`codex-bridge inbox --all` lists them";
    UnknownChannel "unknown_channel" NOT_FOUND Usage "there is no such channel" => "`codex-bridge channel list` lists them";
    ChannelConfig "channel_config" UNPROCESSABLE_ENTITY Failed "the channel's configuration is wrong";
    ChannelHeld "channel_held" UNPROCESSABLE_ENTITY Failed "another program serves this channel";
    ChannelStopped "channel_stopped" UNPROCESSABLE_ENTITY Failed "the channel stopped";
    ChannelUnreachable "channel_unreachable" UNPROCESSABLE_ENTITY Failed "the channel's platform was not reached";

    UnknownToken "unknown_token" NOT_FOUND Usage "there is no such token" => "`codex-bridge token list` lists them";
    TokenExists "token_exists" CONFLICT Usage "a token of this name exists" => "revoke it first, or choose another name";
    BadName "bad_name" UNPROCESSABLE_ENTITY Usage "the name of a token has other characters than letters, digits, dots and dashes" => "such as phone or ci.build-2";
    BadQuota "bad_quota" UNPROCESSABLE_ENTITY Failed "the quota is out of range";
    UnknownDirectory "unknown_directory" NOT_FOUND Usage "the directory has no trust level of its own";
    BadDirectory "bad_directory" UNPROCESSABLE_ENTITY Usage "the directory cannot have this trust level";
    UnknownSession "unknown_session" NOT_FOUND Failed "there is no such MCP session" => "begin one with `initialize`";

    Config "config" UNPROCESSABLE_ENTITY Usage "the configuration file is wrong";
    Listen "listen" UNPROCESSABLE_ENTITY Failed "the address cannot be listened on";
    ListenBeyondLoopback "listen_beyond_loopback" UNPROCESSABLE_ENTITY Usage "an address beyond this machine needs --behind-proxy";
    DaemonNotRunning "daemon_not_running" UNPROCESSABLE_ENTITY Failed "no daemon runs" => "start it with `codex-bridge serve`";
    DaemonHeld "daemon_held" UNPROCESSABLE_ENTITY Failed "another daemon has the state directory";
    DaemonFailed "daemon_failed" UNPROCESSABLE_ENTITY Failed "the daemon did not start";
    DaemonGone "daemon_gone" UNPROCESSABLE_ENTITY Failed "the connection to the daemon broke" => "repeat the command; what the daemon had acknowledged is not lost";
    DaemonStopping "daemon_stopping" SERVICE_UNAVAILABLE Failed "the daemon stops" => "repeat the command: a new daemon goes on where this one was";
    DaemonStays "daemon_stays" UNPROCESSABLE_ENTITY Failed "the daemon does not end";
    Hosts "hosts" INTERNAL_SERVER_ERROR Failed "the hosts of Codex cannot be kept" => "`codex-bridge doctor` looks for the cause";
    Host "host" UNPROCESSABLE_ENTITY Failed "a host of Codex failed";
    Launcher "launcher" UNPROCESSABLE_ENTITY Failed "the launcher of hosts cannot be used";
    CodexMissing "codex_missing" UNPROCESSABLE_ENTITY Failed "there is no codex" => "`codex-bridge doctor` looks at everything that is needed";
    CodexTooOld "codex_too_old" UNPROCESSABLE_ENTITY Failed "the codex is too old" => "`codex-bridge doctor` looks at everything that is needed";
    CodexBroken "codex_broken" UNPROCESSABLE_ENTITY Failed "the codex does not work" => "`codex-bridge doctor` looks at everything that is needed";
    CodexCopy "codex_copy" UNPROCESSABLE_ENTITY Failed "the codex cannot be copied aside";
    Mcp "mcp" UNPROCESSABLE_ENTITY Failed "the MCP connection broke";
    Demo "demo" UNPROCESSABLE_ENTITY Failed "the demo failed";

    NoHome "no_home" UNPROCESSABLE_ENTITY Usage "there is no home directory";
    DirNotPrivate "dir_not_private" UNPROCESSABLE_ENTITY Failed "others can read or write a directory of ours";
    NoSpace "no_space" UNPROCESSABLE_ENTITY Failed "the disk is full";
    NoPermission "no_permission" UNPROCESSABLE_ENTITY Failed "a file of ours cannot be used: permission denied";
    ReadOnly "read_only" UNPROCESSABLE_ENTITY Failed "the file system is read-only";
    Io "io" UNPROCESSABLE_ENTITY Failed "a file cannot be read or written";
    Output "output" UNPROCESSABLE_ENTITY Failed "the output cannot be written";
    ReaderGone "reader_gone" UNPROCESSABLE_ENTITY Failed "nobody reads the output any more";
    SealKey "seal_key" UNPROCESSABLE_ENTITY Failed "the key file cannot be used" => "restore seal.key from a backup";
    StoreFull "store_full" INSUFFICIENT_STORAGE Failed "the disk of the store is full" => "free some space, then repeat it";
    StoreReadOnly "store_read_only" INTERNAL_SERVER_ERROR Failed "the store is read-only";
    StoreLocked "store_locked" INTERNAL_SERVER_ERROR Failed "another program has the store locked" => "close the program that has it open, such as a database shell or a backup, then repeat it";
    StoreCorrupt "store_corrupt" INTERNAL_SERVER_ERROR Failed "the store is damaged" => "`codex-bridge store check` says what is damaged; restore a backup";
    StoreTooNew "store_too_new" INTERNAL_SERVER_ERROR Failed "the store is of a newer version";
    Store "store" INTERNAL_SERVER_ERROR Failed "the store failed";
    Internal "internal" INTERNAL_SERVER_ERROR Failed "an error of ours";
}

impl Code {
    /// The JSON-RPC code in MCP: what the caller got wrong, what is refused, or what failed here.
    pub fn mcp(&self) -> i32 {
        match self.status() {
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => INVALID_PARAMS,
            status if status.is_client_error() => INVALID_REQUEST,
            _ => INTERNAL_ERROR,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Self::of(&String::deserialize(input)?))
    }
}

impl schemars::JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// The codes of this version; later versions may have more.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<&str> = Self::ALL.iter().map(Self::as_str).collect();
        schemars::json_schema!({ "anyOf": [{ "type": "string", "enum": words }, { "type": "string" }] })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    /// Set to anything, the page in docs is written anew.
    const WRITE: &str = "CODEX_BRIDGE_TEST_WRITE_ERRORS";

    const HEAD: &str = "# Errors\n\n\
        Every failure has one code, the same at every door: in problem JSON ([http.md](http.md#failures)), in the replies of \
        the tool ([tool.md](tool.md)), on stderr with `--json`, and in the data of an MCP error. A failure also has a \
        sentence, and mostly a hint that says what to do. Codes are never renamed; later versions may have more.\n\n\
        The exit status of a command is in the column *exit*; [cli.md](cli.md#exit-codes) lists those that tell how a task \
        stands. The column *MCP* is the JSON-RPC code. This page is made from the table in the program.\n\n\
        | code | when | HTTP | exit | MCP |\n|---|---|---|---|---|\n";

    #[test]
    fn the_page_in_docs_lists_all_codes() {
        let mut page = HEAD.to_owned();
        for code in Code::ALL {
            let (status, exit) = (code.status().as_u16(), code.exit() as u8);
            writeln!(page, "| `{code}` | {} | {status} | {exit} | {} |", code.meaning(), code.mcp()).unwrap();
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == page, "docs/errors.md is not the table: set {WRITE}=1 and run this test again");
    }

    #[test]
    fn a_word_is_one_code_and_is_read_back() {
        let words: HashSet<&str> = Code::ALL.iter().map(Code::as_str).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), *code);
        }
        let later: Code = serde_json::from_str("\"of_a_later_version\"").unwrap();
        assert_eq!(later, Code::Other("of_a_later_version".to_owned()));
    }
}
