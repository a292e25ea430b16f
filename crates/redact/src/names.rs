//! Which names announce a secret: `OPENAI_API_KEY`, `dbPassword`, `x-auth-token`, but not `author` or `max_tokens_count`.
//!
//! A name is split into its words; the last one that matters decides. Knows nothing about values.

/// The form that a value must have to be hidden under a name. Ordered from ambiguous names to certain ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// The name is ambiguous (`key`): the value must look like a generated secret.
    Opaque,
    /// The name is usually a secret (`token`): the value may be anything but an ordinary word or a number.
    NotPlain,
    /// The name is certain (`password`): any value is hidden.
    AnyValue,
}

/// A name that announces a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) kind: &'static str,
    pub(crate) need: Need,
    /// All letters are upper case, as in environment variables.
    pub(crate) is_env: bool,
}

impl Name {
    /// The same name at a position where a secret is likelier (an environment variable, a JSON field, a query).
    pub(crate) fn likelier(self) -> Self {
        let need = match self.need {
            Need::Opaque => Need::NotPlain,
            Need::NotPlain | Need::AnyValue => Need::AnyValue,
        };
        Self { need, ..self }
    }

    pub(crate) fn is_password(&self) -> bool {
        self.kind == PASSWORD
    }
}

const PASSWORD: &str = "password";
const SECRET: &str = "secret";
const API_KEY: &str = "api-key";
const TOKEN: &str = "token";
const CREDENTIAL: &str = "credential";
pub(crate) const AUTHORIZATION: &str = "authorization";
pub(crate) const COOKIE: &str = "cookie";

/// Longer names are cut to their end, where the deciding word is.
const MAX_NAME: usize = 96;
const MAX_WORDS: usize = 12;
const MAX_WORD: usize = 24;

/// One word of a name, in lower case.
#[derive(Clone, Copy)]
struct Word {
    letters: [u8; MAX_WORD],
    length: usize,
}

impl Word {
    fn as_bytes(&self) -> &[u8] {
        &self.letters[..self.length]
    }
}

/// The meaning of a word within a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Says {
        kind: &'static str,
        need: Need,
    },
    Key,
    Token,
    /// Adds nothing: `secret_value`, `password_old`.
    Neutral,
    /// Speaks *about* a secret: `token_count`, `key_id`, `password_field`.
    About,
    Other,
}

/// The secret that `run` announces as the name of a field or variable, if any.
pub(crate) fn classify(run: &[u8]) -> Option<Name> {
    if !may_announce(run) {
        return None;
    }
    let mut words = [Word { letters: [0; MAX_WORD], length: 0 }; MAX_WORDS];
    let count = split(run, &mut words);
    let words = &words[..count];
    let is_env = !run.iter().any(u8::is_ascii_lowercase);
    let (kind, need) = decide(words)?;
    let name = Name { kind, need, is_env };
    Some(if is_env && is_announcement_last(words) { name.likelier() } else { name })
}

/// A cheap first test: nearly all names contain none of these pairs.
fn may_announce(run: &[u8]) -> bool {
    const PAIRS: [&[u8; 2]; 10] = [b"pa", b"pw", b"se", b"to", b"ke", b"au", b"cr", b"co", b"be", b"jw"];
    run.windows(2).any(|pair| PAIRS.contains(&&[pair[0] | 0x20, pair[1] | 0x20]))
}

/// Whether the announcing word is the last one that is not neutral. Upper case does not make `TOKEN_STYLE=…` likelier.
fn is_announcement_last(words: &[Word]) -> bool {
    head(words).is_some_and(|(role, _)| !matches!(role, Role::Other | Role::About))
}

/// The last word that is not neutral, and the ones before it.
fn head(words: &[Word]) -> Option<(Role, &[Word])> {
    let mut rest = words;
    while let [before @ .., last] = rest {
        let role = role(last.as_bytes());
        if role != Role::Neutral {
            return Some((role, before));
        }
        rest = before;
    }
    None
}

fn decide(words: &[Word]) -> Option<(&'static str, Need)> {
    let (role, before) = head(words)?;
    let qualifier = before.last().map(Word::as_bytes);
    match role {
        Role::Says { kind, need } => Some((kind, need)),
        Role::Key => qualified_key(qualifier),
        Role::Token => Some((TOKEN, qualified_token(qualifier))),
        Role::Neutral | Role::About => None,
        // SECRET_FOR_DEPLOY, API_KEY_OPENAI: the announcing word is not at the end, so the value must look generated.
        Role::Other => before.iter().rev().find_map(|word| match self::role(word.as_bytes()) {
            Role::Says { kind, .. } if kind != AUTHORIZATION && kind != COOKIE => Some((kind, Need::Opaque)),
            Role::Key => Some((API_KEY, Need::Opaque)),
            Role::Token => Some((TOKEN, Need::Opaque)),
            _ => None,
        }),
    }
}

fn qualified_key(qualifier: Option<&[u8]>) -> Option<(&'static str, Need)> {
    match qualifier {
        Some(
            b"api" | b"secret" | b"access" | b"private" | b"auth" | b"signing" | b"encryption" | b"master"
            | b"account" | b"app" | b"deploy" | b"license" | b"shared" | b"storage" | b"subscription"
            | b"raw",
        ) => Some((API_KEY, Need::AnyValue)),
        Some(
            b"public" | b"primary" | b"foreign" | b"sort" | b"partition" | b"cache" | b"object"
            | b"idempotency" | b"row" | b"lookup" | b"group" | b"routing" | b"hot" | b"unique" | b"react",
        ) => None,
        _ => Some((API_KEY, Need::Opaque)),
    }
}

fn qualified_token(qualifier: Option<&[u8]>) -> Need {
    match qualifier {
        Some(
            b"access" | b"refresh" | b"auth" | b"api" | b"session" | b"bearer" | b"oauth" | b"bot"
            | b"secret" | b"security" | b"vault" | b"private" | b"personal" | b"deploy",
        ) => Need::AnyValue,
        _ => Need::NotPlain,
    }
}

fn role(word: &[u8]) -> Role {
    use Need::{AnyValue, NotPlain};
    let says = |kind, need| Role::Says { kind, need };
    match word {
        b"pwd" | b"passcode" | b"passphrase" => says(PASSWORD, AnyValue),
        b"pass" | b"pw" | b"dbpass" | b"userpass" | b"rootpass" | b"smtppass" | b"dbpw" | b"passwords" => {
            says(PASSWORD, NotPlain)
        }
        b"secrets" => says(SECRET, NotPlain),
        b"apikey" | b"accesskey" | b"secretkey" | b"privatekey" | b"authkey" | b"signingkey"
        | b"masterkey" => says(API_KEY, AnyValue),
        b"authtoken" | b"accesstoken" | b"refreshtoken" | b"sessiontoken" | b"apitoken" => {
            says(TOKEN, AnyValue)
        }
        b"apikeys" | b"tokens" | b"bearer" | b"jwt" => says(TOKEN, NotPlain),
        b"cred" | b"creds" | b"auth" => says(CREDENTIAL, NotPlain),
        b"authorization" => says(AUTHORIZATION, AnyValue),
        b"cookie" => says(COOKIE, AnyValue),
        b"key" | b"keys" => Role::Key,
        b"value" | b"raw" | b"input" | b"str" | b"string" | b"text" | b"plain" | b"plaintext" | b"prod"
        | b"dev" | b"test" | b"staging" | b"live" | b"old" | b"new" | b"current" | b"default" | b"main"
        | b"backup" | b"encoded" | b"hex" | b"base" | b"b" | b"material" | b"again" | b"confirm"
        | b"confirmation" | b"repeat" => Role::Neutral,
        b"id" | b"ids" | b"count" | b"counts" | b"length" | b"len" | b"size" | b"limit" | b"type"
        | b"kind" | b"name" | b"names" | b"path" | b"file" | b"filename" | b"dir" | b"url" | b"uri"
        | b"endpoint" | b"ttl" | b"expiry" | b"expires" | b"expiration" | b"field" | b"label" | b"index"
        | b"usage" | b"budget" | b"env" | b"var" | b"format" | b"algorithm" | b"version" | b"hash"
        | b"checksum" | b"fingerprint" | b"digest" | b"policy" | b"mode" | b"method" | b"scheme"
        | b"required" | b"enabled" | b"manager" | b"store" | b"provider" | b"placeholder" | b"json"
        | b"yaml" | b"yml" | b"toml" | b"txt" | b"html" | b"pem" | b"pub" | b"lock" | b"hint" | b"reset"
        | b"error" | b"message" => Role::About,
        _ => compound(word),
    }
}

/// `pgpassword`, `mysecret`, `githubtoken`: the announcing word at the end of a longer one.
fn compound(word: &[u8]) -> Role {
    let ends = |ending: &[u8]| word.ends_with(ending);
    if ends(b"password") || ends(b"passwd") || ends(b"passphrase") {
        Role::Says { kind: PASSWORD, need: Need::AnyValue }
    } else if ends(b"secret") {
        Role::Says { kind: SECRET, need: Need::AnyValue }
    } else if ends(b"apikey") {
        Role::Says { kind: API_KEY, need: Need::AnyValue }
    } else if ends(b"credential") || ends(b"credentials") {
        Role::Says { kind: CREDENTIAL, need: Need::NotPlain }
    } else if ends(b"token") {
        Role::Token
    } else {
        Role::Other
    }
}

/// Splits at separators, digits and changes of case; keeps the last words, in lower case, and returns how many.
fn split(run: &[u8], words: &mut [Word; MAX_WORDS]) -> usize {
    let run = &run[run.len().saturating_sub(MAX_NAME)..];
    let mut count = 0;
    let mut start = 0;
    while start < run.len() {
        if !run[start].is_ascii_alphabetic() {
            start += 1;
            continue;
        }
        let end = word_end(run, start);
        if count == MAX_WORDS {
            words.rotate_left(1);
            count -= 1;
        }
        words[count] = lower(&run[start..end]);
        count += 1;
        start = end;
    }
    count
}

/// The end of the word that begins at `start`: `apiKey` → `api`, `APIKey` → `API`, `TOKEN2` → `TOKEN`.
fn word_end(run: &[u8], start: usize) -> usize {
    let letter = |index: usize| run.get(index).copied().filter(u8::is_ascii_alphabetic);
    let mut index = start + 1;
    while let Some(here) = letter(index) {
        let before = run[index - 1];
        let rises = before.is_ascii_lowercase() && here.is_ascii_uppercase();
        let falls = before.is_ascii_uppercase()
            && here.is_ascii_uppercase()
            && letter(index + 1).is_some_and(|next| next.is_ascii_lowercase())
            // APIKeys, but TOKENs is one word
            && letter(index + 2).is_some();
        if rises || falls {
            break;
        }
        index += 1;
    }
    index
}

/// The word in lower case. Only the end of a very long word is kept, where the announcement would be.
fn lower(word: &[u8]) -> Word {
    let tail = &word[word.len().saturating_sub(MAX_WORD)..];
    let mut letters = [0; MAX_WORD];
    for (to, from) in letters.iter_mut().zip(tail) {
        *to = from.to_ascii_lowercase();
    }
    Word { letters, length: tail.len() }
}

/// Whether the name means a secret only as a parameter of a URL or a form.
pub(crate) fn is_signature(run: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"sig",
        b"signature",
        b"x-amz-signature",
        b"x-goog-signature",
        b"x-amz-credential",
        b"x-goog-credential",
        b"otp",
        b"sid",
    ];
    NAMES.iter().any(|name| run.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
