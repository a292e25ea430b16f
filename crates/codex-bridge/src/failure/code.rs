//! The table of errors: each code with its word, its HTTP status, its exit code and its meaning.
//!
//! An error has the same code at every door. `docs/errors.md` and the OpenAPI document are generated from this table.

use std::fmt;

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// JSON-RPC 2.0: the parameters are wrong.
const INVALID_PARAMS: i32 = -32602;
/// JSON-RPC 2.0: the request is invalid.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: the server failed.
const INTERNAL_ERROR: i32 = -32603;

/// The exit codes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command failed.
    Failed = 1,
    /// The command line is wrong, or names something that does not exist.
    Usage = 2,
    /// A task needs an answer that the command cannot ask for.
    NeedsAnswer = 3,
}

macro_rules! codes {
    ($($name:ident $word:literal $status:ident $exit:ident $meaning:literal $(=> $hint:literal)?;)+) => {
        /// An error code: a stable word for programs.
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

            /// The exit code of a command that fails with it.
            pub fn exit(&self) -> Exit {
                match self {
                    $(Self::$name => Exit::$exit,)+
                    Self::Other(_) => Exit::Failed,
                }
            }

            /// The meaning, in a sentence without a full stop.
            #[cfg(test)]
            fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                    Self::Other(_) => "",
                }
            }

            /// The hint, if it is the same for every occurrence.
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
    BadCall "bad_call" BAD_REQUEST Usage "the body, the query, a header or a parameter is not valid";
    MissingParameter "missing_parameter" UNPROCESSABLE_ENTITY Usage "the call lacks a parameter";
    BadLimit "bad_limit" BAD_REQUEST Usage "the limit of a list is out of range";
    BadTimeout "bad_timeout" BAD_REQUEST Usage "the timeout is out of range";
    UnknownAction "unknown_action" UNPROCESSABLE_ENTITY Failed "the tool has no such action";
    UnknownStatus "unknown_status" UNPROCESSABLE_ENTITY Usage "there is no such status";
    Usage "usage" UNPROCESSABLE_ENTITY Usage "the command line is wrong";
    NotConfirmed "not_confirmed" UNPROCESSABLE_ENTITY Usage "a command that needs a confirmation did not get one";
    UnknownRoute "unknown_route" NOT_FOUND Failed "there is no such route" => "/v1/openapi.json lists the routes";
    WrongMethod "wrong_method" METHOD_NOT_ALLOWED Failed "the route does not support that method" => "the Allow header lists the methods that it supports";
    NotAcceptable "not_acceptable" NOT_ACCEPTABLE Failed "the response is not available in the requested media type";
    TooSlow "too_slow" REQUEST_TIMEOUT Failed "the body did not arrive in time";
    TooLarge "too_large" PAYLOAD_TOO_LARGE Failed "the body is too large";
    WrongMediaType "wrong_media_type" UNSUPPORTED_MEDIA_TYPE Failed "the body is not JSON" => "send content-type: application/json";

    Unauthorized "unauthorized" UNAUTHORIZED Failed "the token is missing or wrong";
    Forbidden "forbidden" FORBIDDEN Failed "the caller's role does not allow it";
    BeyondReach "beyond_reach" FORBIDDEN Failed "the task may do more than the caller could have asked for";
    PeerRefused "peer_refused" FORBIDDEN Failed "the caller was started by Codex, which must not approve its own commands";
    Nested "nested" UNPROCESSABLE_ENTITY Failed "the program was started by a Codex that codex-bridge started";
    BadOrigin "bad_origin" FORBIDDEN Failed "the request comes from another web page";
    BadHost "bad_host" MISDIRECTED_REQUEST Failed "the request's Host header names another host";
    TabLocked "tab_locked" FORBIDDEN Failed "the browser tab was not opened by a login";
    TooManyTries "too_many_tries" TOO_MANY_REQUESTS Failed "too many wrong tokens were tried";
    TooManyCalls "too_many_calls" TOO_MANY_REQUESTS Failed "the caller has too many calls in progress";
    NoRoom "no_room" TOO_MANY_REQUESTS Failed "the channel's inbox is full";
    QuotaOpenTasks "quota_open_tasks" TOO_MANY_REQUESTS Failed "the token has as many unfinished tasks as its quota allows";
    QuotaBytes "quota_bytes" TOO_MANY_REQUESTS Failed "the token's tasks have as many bytes of prompts as its quota allows";

    UnknownTask "unknown_task" NOT_FOUND Usage "there is no such task" => "`codex-bridge ps --all` lists the tasks";
    AmbiguousId "ambiguous_id" CONFLICT Usage "several tasks or requests begin with this id";
    WrongState "wrong_state" CONFLICT Failed "the task's status does not allow it: a turn is still running, or none is";
    NotSteered "not_steered" CONFLICT Failed "Codex did not accept the text that was added to the turn" => "check the task's status; a finished task can be continued";
    SteerUnconfirmed "steer_unconfirmed" GATEWAY_TIMEOUT Failed "Codex has not confirmed the text that was added to the turn" => "the text may have been added, or may still be: look at `codex-bridge logs` before you send it again";
    Refused "refused" UNPROCESSABLE_ENTITY Failed "the call asks for something impossible";
    NotThere "not_there" UNPROCESSABLE_ENTITY Failed "something that the call needs is not available now";
    Duplicate "duplicate" CONFLICT Failed "a row with this name already exists";
    KeyMismatch "key_mismatch" UNPROCESSABLE_ENTITY Failed "Idempotency-Key and client_request_id differ" => "send only one of them, or the same value in both";
    KeyReused "key_reused" UNPROCESSABLE_ENTITY Usage "the client_request_id belongs to another task" => "choose another name for other work; a repetition must have the same prompt and settings";

    EmptyPrompt "empty_prompt" UNPROCESSABLE_ENTITY Usage "the prompt is empty" => "say what Codex should do";
    PromptTooLong "prompt_too_long" PAYLOAD_TOO_LARGE Failed "the prompt has more bytes than the operator allows" => "put long text into a file in the task's directory and name the file in the prompt; the operator sets `prompt_limit_bytes`";
    InstructionsRefused "instructions_refused" UNPROCESSABLE_ENTITY Failed "the developer instructions are too long, or contain a secret";
    BadCwd "bad_cwd" UNPROCESSABLE_ENTITY Usage "the path is missing, relative, or not a directory";
    CwdOutsideRoots "cwd_outside_roots" UNPROCESSABLE_ENTITY Usage "the directory is outside the configured roots";
    CwdProtected "cwd_protected" UNPROCESSABLE_ENTITY Failed "no task may work or write in this directory";
    NoRoots "no_roots" UNPROCESSABLE_ENTITY Usage "remote callers need `roots` in the configuration, which has none";
    UnknownSandbox "unknown_sandbox" UNPROCESSABLE_ENTITY Usage "there is no such sandbox";
    SandboxRefused "sandbox_refused" UNPROCESSABLE_ENTITY Usage "no caller may choose this sandbox";
    UnknownApprovalPolicy "unknown_approval_policy" UNPROCESSABLE_ENTITY Usage "there is no such approval policy";
    ApprovalPolicyRefused "approval_policy_refused" UNPROCESSABLE_ENTITY Usage "no caller may choose this approval policy";
    UnknownProfile "unknown_profile" UNPROCESSABLE_ENTITY Usage "the configuration has no such profile";
    ProfileRefused "profile_refused" UNPROCESSABLE_ENTITY Usage "the profile is not for agents";
    HomeNotListed "home_not_listed" UNPROCESSABLE_ENTITY Usage "the configuration does not list this CODEX_HOME";
    ConfigRefused "config_refused" UNPROCESSABLE_ENTITY Failed "no caller may set this part of Codex's configuration";

    UnknownRequest "unknown_request" NOT_FOUND Usage "there is no such request" => "`codex-bridge requests` lists the pending requests";
    UnknownDecision "unknown_decision" UNPROCESSABLE_ENTITY Usage "there is no such decision" => "use accept, acceptForSession, decline or cancel, or give answers";
    BadAnswers "bad_answers" UNPROCESSABLE_ENTITY Usage "the answers do not fit the questions or the form" => "`codex-bridge requests` shows the fields and their valid values";
    IsQuestion "is_question" UNPROCESSABLE_ENTITY Failed "the request is a question: it takes answers, not an approval" => "answer with `codex-bridge answer`, or with `answers` in HTTP, MCP and the tool";
    DigestMissing "digest_missing" BAD_REQUEST Failed "the decision does not say which request was shown" => "send the `request_id` and `digest` of the request that you were shown";
    DigestMismatch "digest_mismatch" CONFLICT Failed "the request is not the one that was shown" => "read the request again, then decide";
    NeedsReveal "needs_reveal" FORBIDDEN Failed "the request contains a secret that is shown only on the machine itself" => "on the machine, `codex-bridge requests TASK --reveal` shows it and `codex-bridge approve` approves it";
    NotOpened "not_opened" UNPROCESSABLE_ENTITY Failed "the request has more changes than were shown" => "`changes` of the request has the whole diff and the digest for an approval; a diff that was not stored can only be declined";
    AlreadyResolved "already_resolved" CONFLICT Failed "somebody else decided first";
    Expired "expired" CONFLICT Failed "the request expired before it was answered";
    Orphaned "orphaned" CONFLICT Failed "the request ended with its turn before it was answered";
    NeedsAnswer "needs_answer" UNPROCESSABLE_ENTITY NeedsAnswer "the task needs an answer that the command cannot ask for";

    UnknownTarget "unknown_target" UNPROCESSABLE_ENTITY Usage "there is no such target, or it is not written correctly";
    UnknownDelivery "unknown_delivery" NOT_FOUND Usage "there is no such delivery" => "`codex-bridge deliveries --all` lists the deliveries";
    Undelivered "undelivered" BAD_GATEWAY Failed "the target could not be reached";
    UnknownMessage "unknown_message" NOT_FOUND Usage "there is no such message" => "`codex-bridge inbox --all` lists the messages";
    UnknownChannel "unknown_channel" NOT_FOUND Usage "there is no such channel" => "`codex-bridge channel list` lists the channels";
    ChannelConfig "channel_config" UNPROCESSABLE_ENTITY Failed "the channel's configuration is wrong";
    ChannelHeld "channel_held" UNPROCESSABLE_ENTITY Failed "another program serves this channel";
    ChannelStopped "channel_stopped" UNPROCESSABLE_ENTITY Failed "the channel stopped";
    ChannelUnreachable "channel_unreachable" UNPROCESSABLE_ENTITY Failed "the channel's platform could not be reached";

    UnknownToken "unknown_token" NOT_FOUND Usage "there is no such token" => "`codex-bridge token list` lists the tokens";
    TokenExists "token_exists" CONFLICT Usage "a token with this name exists" => "revoke that token first, or choose another name";
    BadName "bad_name" UNPROCESSABLE_ENTITY Usage "the token's name has characters other than letters, digits, dots and dashes" => "choose a name such as phone or ci.build-2";
    BadQuota "bad_quota" UNPROCESSABLE_ENTITY Failed "the quota is out of range";
    UnknownDirectory "unknown_directory" NOT_FOUND Usage "the directory has no trust level of its own";
    BadDirectory "bad_directory" UNPROCESSABLE_ENTITY Usage "the directory cannot have this trust level";
    UnknownSession "unknown_session" NOT_FOUND Failed "there is no such MCP session" => "start a session with `initialize`";

    Config "config" UNPROCESSABLE_ENTITY Usage "the configuration file is wrong";
    Listen "listen" UNPROCESSABLE_ENTITY Failed "the daemon cannot listen on the address";
    ListenBeyondLoopback "listen_beyond_loopback" UNPROCESSABLE_ENTITY Usage "an address other than loopback needs --behind-proxy";
    DaemonNotRunning "daemon_not_running" UNPROCESSABLE_ENTITY Failed "no daemon is running" => "start it with `codex-bridge serve`";
    DaemonHeld "daemon_held" UNPROCESSABLE_ENTITY Failed "another daemon uses the state directory";
    DaemonFailed "daemon_failed" UNPROCESSABLE_ENTITY Failed "the daemon did not start";
    DaemonGone "daemon_gone" UNPROCESSABLE_ENTITY Failed "the connection to the daemon was lost" => "repeat the command; nothing that the daemon confirmed is lost";
    DaemonStopping "daemon_stopping" SERVICE_UNAVAILABLE Failed "the daemon is stopping" => "repeat the command: the next daemon continues the tasks";
    DaemonStays "daemon_stays" UNPROCESSABLE_ENTITY Failed "the daemon does not exit";
    Hosts "hosts" INTERNAL_SERVER_ERROR Failed "Codex hosts cannot be run" => "`codex-bridge doctor` looks for the cause";
    Host "host" UNPROCESSABLE_ENTITY Failed "a Codex host failed";
    Launcher "launcher" UNPROCESSABLE_ENTITY Failed "the host launcher cannot be used";
    CodexMissing "codex_missing" UNPROCESSABLE_ENTITY Failed "codex was not found" => "`codex-bridge doctor` checks everything that is needed";
    CodexTooOld "codex_too_old" UNPROCESSABLE_ENTITY Failed "codex is too old" => "`codex-bridge doctor` checks everything that is needed";
    CodexBroken "codex_broken" UNPROCESSABLE_ENTITY Failed "codex does not work" => "`codex-bridge doctor` checks everything that is needed";
    CodexCopy "codex_copy" UNPROCESSABLE_ENTITY Failed "codex cannot be copied";
    Mcp "mcp" UNPROCESSABLE_ENTITY Failed "the MCP connection was lost";
    Demo "demo" UNPROCESSABLE_ENTITY Failed "the demo failed";

    NoHome "no_home" UNPROCESSABLE_ENTITY Usage "there is no home directory";
    DirNotPrivate "dir_not_private" UNPROCESSABLE_ENTITY Failed "other users can read or write a directory of codex-bridge";
    NoSpace "no_space" UNPROCESSABLE_ENTITY Failed "the disk is full";
    NoPermission "no_permission" UNPROCESSABLE_ENTITY Failed "a file of codex-bridge cannot be used: permission denied";
    ReadOnly "read_only" UNPROCESSABLE_ENTITY Failed "the file system is read-only";
    Io "io" UNPROCESSABLE_ENTITY Failed "a file cannot be read or written";
    Output "output" UNPROCESSABLE_ENTITY Failed "the output cannot be written";
    ReaderGone "reader_gone" UNPROCESSABLE_ENTITY Failed "the reader of the output is gone";
    SealKey "seal_key" UNPROCESSABLE_ENTITY Failed "the key file cannot be used" => "restore seal.key from a backup";
    StoreFull "store_full" INSUFFICIENT_STORAGE Failed "the disk of the store is full" => "free some space, then repeat the command";
    StoreReadOnly "store_read_only" INTERNAL_SERVER_ERROR Failed "the store is read-only";
    StoreLocked "store_locked" INTERNAL_SERVER_ERROR Failed "another program has the store locked" => "close the program that has it open, such as a database shell or a backup, then repeat the command";
    StoreCorrupt "store_corrupt" INTERNAL_SERVER_ERROR Failed "the store is damaged" => "`codex-bridge store check` says what is damaged; restore a backup";
    StoreTooNew "store_too_new" INTERNAL_SERVER_ERROR Failed "the store was written by a newer version";
    Store "store" INTERNAL_SERVER_ERROR Failed "the store failed";
    Internal "internal" INTERNAL_SERVER_ERROR Failed "an internal error";
}

impl Code {
    /// The JSON-RPC code in MCP: wrong parameters, a refused request, or a failure of the server.
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

    /// The codes of this version. Later versions may have more.
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

    /// If this variable is set, the page in docs is written again.
    const WRITE: &str = "CODEX_BRIDGE_TEST_WRITE_ERRORS";

    const HEAD: &str = "# Errors\n\n\
        Every failure has one code, the same at every door: in problem JSON ([http.md](http.md#failures)), in the replies of \
        the tool ([tool.md](tool.md)), on stderr with `--json`, and in the data of an MCP error. A failure also has a \
        sentence, and usually a hint what to do. Codes are never renamed; later versions may add some.\n\n\
        The column *exit* is the exit code of a command; [cli.md](cli.md#exit-codes) lists the exit codes for the status \
        of a task. The column *MCP* is the JSON-RPC code. This page is generated from the table in the program.\n\n\
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
        let page_in_docs = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            page_in_docs == page,
            "docs/errors.md is not the table: set {WRITE}=1 and run this test again"
        );
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
