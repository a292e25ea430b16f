//! Keys that are known by how they begin: one row per issuer, each with its own proof.
//!
//! A row says how the key begins, of which characters the rest is made and how long that is at least. It is a
//! table of shapes rather than of regular expressions, so that every step is bounded and the work is linear by
//! construction. Knows nothing about the text around a key.

use std::sync::LazyLock;

use crate::text::{Span, is_run, is_word, looked_at};

/// No key in the table is shorter than this, so shorter runs need no look.
pub(crate) const SHORTEST_KEY: usize = 13;

/// How far into a key its proof of randomness must show. A bound keeps a failing look cheap.
const PROOF_WINDOW: usize = 64;

/// Of which characters the part after the beginning is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Letters and digits.
    Alnum,
    /// Upper-case letters and digits.
    Upper,
    /// Letters, digits, underscore.
    Word,
    /// Letters, digits, underscore, dash.
    Dashed,
    /// Letters, digits, underscore, dash, dot.
    Dotted,
}

impl Body {
    fn takes(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Word => is_word(byte),
            Self::Dashed => is_word(byte) || byte == b'-',
            Self::Dotted => is_run(byte),
        }
    }
}

/// What shows that this is a key and not a name that happens to begin like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing else begins like this.
    Unmistakable,
    /// Names begin like this too (`sk_buff_head`, `fc-cache-list`): a digit or a long unbroken word is needed.
    Random,
}

/// One issuer's keys. `body_sample` after any of `starts` must be hidden; `keeps` must come out unchanged.
struct Rule {
    kind: &'static str,
    starts: &'static [&'static str],
    body: Body,
    least: usize,
    proof: Proof,
    // The samples stand in the row so that a rule and its proof cannot drift apart. They hold bodies only:
    // a whole key in the source would alarm every secret scanner that reads it.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test that walks the table"))]
    body_sample: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "read by the test that walks the table"))]
    keeps: &'static [&'static str],
}

const GITLAB_STARTS: &[&str] = &[
    "glpat-",
    "gloas-",
    "gldt-",
    "glrt-",
    "glrtr-",
    "glcbt-",
    "glptt-",
    "glft-",
    "glimt-",
    "glagent-",
    "glsoat-",
    "glffct-",
    "glwt-",
    "GR1348941",
];

use Body::{Alnum, Dashed, Dotted, Upper, Word};
use Proof::{Random, Unmistakable};

/// Where two rows could match, the first wins: a longer beginning stands before a shorter one.
#[rustfmt::skip]
static RULES: &[Rule] = &[
    Rule { kind: "anthropic-key", starts: &["sk-ant-"], body: Dashed, least: 10, proof: Unmistakable,
        body_sample: "api03-aB3dE5gH7jK9mN1pQ", keeps: &["sk-ant-x", "task-ant-api03-aB3dE5gH7jK9"] },
    Rule { kind: "openai-key", starts: &["sk-"], body: Dotted, least: 10, proof: Random,
        body_sample: "proj-aB3dE5gH7jK9.mN1pQ_x-z", keeps: &["sk-abc", "sk-learn-contrib-tools", "disk-aB3dE5gH7jK9mN1"] },
    Rule { kind: "stripe-key", starts: &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], body: Alnum, least: 10, proof: Unmistakable,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["sk_live_abc", "task_live_aB3dE5gH7jK9"] },
    Rule { kind: "elevenlabs-key", starts: &["sk_"], body: Alnum, least: 20, proof: Random,
        body_sample: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", keeps: &["sk_buff_head_init_class_name", "sk_X509_EXTENSION_new_null", "sk_1234", "risk_0f1e2d3c4b5a69788796a5b4"] },
    Rule { kind: "codex-bridge-token", starts: &["cbt_"], body: Dashed, least: 20, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d_-4f5G6", keeps: &["cbt_short", "cbt_module_with_a_long_name"] },
    Rule { kind: "github-token", starts: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], body: Word, least: 10, proof: Unmistakable,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d", keeps: &["ghp_short", "xghp_aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "github-token", starts: &["github_pat_"], body: Word, least: 10, proof: Unmistakable,
        body_sample: "11AB3dE5gH7jK9mN1pQ_rS2tU4vW6xY8zA0bC2d", keeps: &["github_pat_x", "github_path_to_file_2"] },
    Rule { kind: "slack-token", starts: &["xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-"], body: Dashed, least: 10, proof: Unmistakable,
        body_sample: "123456789012-aB3dE5gH7jK9mN1pQ", keeps: &["xoxb-1", "xoxz-123456789012-aB3dE5gH7"] },
    Rule { kind: "slack-token", starts: &["xapp-"], body: Dashed, least: 10, proof: Random,
        body_sample: "1-A0B1C2D3E4F-123456789012-aB3dE5gH7jK9", keeps: &["xapp-1", "xapp-settings-page"] },
    Rule { kind: "google-key", starts: &["AIza"], body: Dashed, least: 30, proof: Unmistakable,
        body_sample: "SyA1b2C3d4E5f6G7h8I9j0K-L_M1n2O3p4Q", keeps: &["AIzawa", "AIzaSyA1b2C3d4E5f6G7h8"] },
    Rule { kind: "perplexity-key", starts: &["pplx-"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["pplx-api", "pplx-online-large-model"] },
    Rule { kind: "fal-key", starts: &["fal_"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["fal_abc", "fal_client_config_path"] },
    Rule { kind: "firecrawl-key", starts: &["fc-"], body: Dashed, least: 10, proof: Random,
        body_sample: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", keeps: &["fc-cache", "fc-cache-list-families", "kfc-0f1e2d3c4b5a69788796"] },
    Rule { kind: "browserbase-key", starts: &["bb_live_"], body: Dashed, least: 10, proof: Unmistakable,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["bb_live_x"] },
    Rule { kind: "fernet-token", starts: &["gAAAA"], body: Dashed, least: 20, proof: Unmistakable,
        body_sample: "ABmN1pQrS2tU4vW6xY8zA0bC2d_e-f", keeps: &["gAAAAABmN1"] },
    Rule { kind: "aws-key", starts: &["AKIA", "ASIA"], body: Upper, least: 16, proof: Unmistakable,
        body_sample: "IOSFODNN7EXAMPLE", keeps: &["AKIA", "ASIAPACIFIC", "AKIAiosfodnn7example"] },
    Rule { kind: "sendgrid-key", starts: &["SG."], body: Dotted, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ.rS2tU4vW6xY8zA0bC2d", keeps: &["SG.x", "SG.Singapore.region", "MSG.aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "huggingface-token", starts: &["hf_"], body: Alnum, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC", keeps: &["hf_hub", "hf_transformers_cache_dir", "shelf_aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "replicate-token", starts: &["r8_"], body: Alnum, least: 10, proof: Unmistakable,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2dE", keeps: &["r8_short", "var8_aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "npm-token", starts: &["npm_"], body: Alnum, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d", keeps: &["npm_package_version", "npm_config_registry", "npm_lifecycle"] },
    Rule { kind: "pypi-token", starts: &["pypi-"], body: Dashed, least: 10, proof: Random,
        body_sample: "AgEIcHlwaS5vcmcCJDB3dE5gH7jK9", keeps: &["pypi-publish", "pypi-publish-action"] },
    Rule { kind: "digitalocean-token", starts: &["dop_v1_", "doo_v1_", "dor_v1_"], body: Alnum, least: 10, proof: Unmistakable,
        body_sample: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", keeps: &["dop_v1_x"] },
    Rule { kind: "agentmail-key", starts: &["am_org_", "am_"], body: Word, least: 20, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4v", keeps: &["am_not_sure_about_this_name", "am_aB3dE5gH7", "team_aB3dE5gH7jK9mN1pQrS2tU4v"] },
    Rule { kind: "tavily-key", starts: &["tvly-"], body: Dashed, least: 10, proof: Unmistakable,
        body_sample: "dev-aB3dE5gH7jK9mN1pQ", keeps: &["tvly-x"] },
    Rule { kind: "exa-key", starts: &["exa_"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["exa_search", "exa_search_result_list", "hexa_aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "groq-key", starts: &["gsk_"], body: Alnum, least: 10, proof: Unmistakable,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2dE4f", keeps: &["gsk_x"] },
    Rule { kind: "matrix-token", starts: &["syt_"], body: Dashed, least: 10, proof: Random,
        body_sample: "Ym9i_aB3dE5gH7jK9mN1pQ_1a2b3c", keeps: &["syt_x", "syt_config_loader"] },
    Rule { kind: "retaindb-key", starts: &["retaindb_"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["retaindb_x", "retaindb_connection_name"] },
    Rule { kind: "hindsight-key", starts: &["hsk-"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["hsk-x", "hsk-level-exam-words"] },
    Rule { kind: "mem0-key", starts: &["mem0_"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["mem0_x", "mem0_client_settings"] },
    Rule { kind: "byterover-key", starts: &["brv_"], body: Dashed, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQ", keeps: &["brv_x", "brv_default_settings"] },
    Rule { kind: "xai-key", starts: &["xai-"], body: Dashed, least: 30, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d", keeps: &["xai-grok-2", "xai-aB3dE5gH7jK9mN1pQ"] },
    Rule { kind: "notion-token", starts: &["ntn_"], body: Alnum, least: 10, proof: Random,
        body_sample: "12345678901aB3dE5gH7jK9mN1pQ", keeps: &["ntn_x", "ntn_page_block_list"] },
    Rule { kind: "fireworks-key", starts: &["fw-", "fw_", "fpk_"], body: Dashed, least: 30, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d", keeps: &["fw_update_available_version_string", "fw-aB3dE5gH7"] },
    Rule { kind: "langfuse-key", starts: &["pk-lf-"], body: Dashed, least: 10, proof: Random,
        body_sample: "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", keeps: &["pk-lf-x"] },
    Rule { kind: "gitlab-token", starts: GITLAB_STARTS, body: Dotted, least: 10, proof: Random,
        body_sample: "aB3dE5gH7jK9mN1pQrS2", keeps: &["glpat-x", "glft-lexicon-tool"] },
];

/// A row and one of its beginnings.
type Beginning = (&'static Rule, &'static [u8]);

/// For each first byte of a beginning, the rows (and which of their beginnings) to try, in the table's order.
static BY_FIRST_BYTE: LazyLock<Vec<Vec<Beginning>>> = LazyLock::new(|| {
    let mut index = vec![Vec::new(); 128];
    for rule in RULES {
        for start in rule.starts {
            if let Some(slot) = start.bytes().next().and_then(|first| index.get_mut(usize::from(first))) {
                slot.push((rule, start.as_bytes()));
            }
        }
    }
    index
});

/// The first key inside the run `start..end` of `bytes`.
pub(crate) fn find(bytes: &[u8], start: usize, end: usize) -> Option<Span> {
    let mut next_dot = None;
    let last_start = end.checked_sub(SHORTEST_KEY)?;
    let found = (start..=last_start)
        .filter(|&at| at == start || !is_word(bytes[at - 1]))
        .find_map(|at| key_at(bytes, at, end, &mut next_dot));
    looked_at(found.map_or(end, |span| span.start) - start);
    found
}

/// The key that begins exactly at `at` within the run that ends at `end`.
pub(crate) fn key_at(bytes: &[u8], at: usize, end: usize, next_dot: &mut Option<usize>) -> Option<Span> {
    let run = bytes.get(at..end)?;
    let rows = BY_FIRST_BYTE.get(usize::from(*run.first()?)).map(Vec::as_slice).unwrap_or_default();
    let from_table = rows
        .iter()
        .find_map(|(rule, start)| rule.length(run, start).map(|length| (rule.kind, length)))
        .or_else(|| zhipu_length(run).map(|length| ("zhipu-key", length)));
    let (kind, length) = from_table.or_else(|| {
        if !run.starts_with(b"eyJ") {
            return None;
        }
        jwt_length(run, dot_after(bytes, at, end, next_dot)? - at).map(|length| ("jwt", length))
    })?;
    Some(Span { start: at, end: at + length, kind })
}

impl Rule {
    fn length(&self, run: &[u8], start: &[u8]) -> Option<usize> {
        let body = run.strip_prefix(start)?;
        if body.len() < self.least || !body[..self.least].iter().all(|&byte| self.body.takes(byte)) {
            return None;
        }
        if self.proof == Proof::Random && !looks_random(&body[..body.len().min(PROOF_WINDOW)], self.body) {
            return None;
        }
        let length = body.iter().position(|&byte| !self.body.takes(byte)).unwrap_or(body.len());
        looked_at(PROOF_WINDOW + length);
        Some(start.len() + without_trailing_dots(&body[..length]))
    }
}

/// A digit, or a word too long to be one of a name.
fn looks_random(window: &[u8], body: Body) -> bool {
    let mut letters = 0;
    for &byte in window.iter().take_while(|&&byte| body.takes(byte)) {
        if byte.is_ascii_digit() {
            return true;
        }
        letters = if byte.is_ascii_alphabetic() { letters + 1 } else { 0 };
        if letters >= 16 {
            return true;
        }
    }
    false
}

/// A key that ends a sentence does not own the full stop.
fn without_trailing_dots(body: &[u8]) -> usize {
    body.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1)
}

/// 32 hexadecimal digits, a dot, at least 16 letters and digits.
fn zhipu_length(run: &[u8]) -> Option<usize> {
    let (id, rest) = run.split_at_checked(32)?;
    let is_hex = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    let secret = rest.strip_prefix(b".")?;
    let length = secret.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    (id.iter().all(is_hex) && length >= 16).then_some(33 + length)
}

/// A JSON Web Token: a header of at least 10 characters and a payload. A lone `eyJ…` is any JSON in base64, and stays.
fn jwt_length(run: &[u8], dot: usize) -> Option<usize> {
    let payload = run.get(dot + 1..dot + 5)?;
    let is_token = dot >= 13 && !payload.contains(&b'.');
    looked_at(if is_token { run.len() } else { 0 });
    is_token.then(|| without_trailing_dots(run))
}

/// The first dot at or after `at`, remembered between calls so that a run of many `eyJ` is read once.
fn dot_after(bytes: &[u8], at: usize, end: usize, next_dot: &mut Option<usize>) -> Option<usize> {
    let known = next_dot.filter(|&dot| dot >= at);
    let dot = known.unwrap_or_else(|| {
        looked_at(end - at);
        bytes[at..end].iter().position(|&byte| byte == b'.').map_or(end, |offset| at + offset)
    });
    *next_dot = Some(dot);
    (dot < end).then_some(dot)
}

#[cfg(test)]
mod tests;
