//! Ids of tasks, requests, messages and deliveries: a prefix, a dash and random hex digits. Pure.
//!
//! Programs get whole ids. People get short ids, as in `git` and `docker`. Every command accepts a short id: a task or a request
//! is found by any beginning that no other one shares.

/// The random hex digits of an id, which are 128 bits. Older ids have fewer.
const DIGITS: usize = 32;
/// How many of the digits people see.
const SHOWN: usize = 12;

/// The short form of an id: its prefix and its first digits. Any other text is returned unchanged, such as an older id or a name
/// that contains an id.
///
/// ```
/// use codex_bridge_core::id::short;
/// assert_eq!(short("codex-0123456789abcdef0123456789abcdef"), "codex-0123456789ab");
/// assert_eq!(short("req-12ab34cd"), "req-12ab34cd");
/// ```
pub fn short(id: &str) -> &str {
    let Some((word, digits)) = id.split_once('-') else { return id };
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_word && is_hex && digits.len() == DIGITS { &id[..word.len() + 1 + SHOWN] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_whole_id_is_shown_by_its_first_digits() {
        for word in ["codex", "req", "in", "dlv"] {
            let id = format!("{word}-{}", Random::from_seed(7).hex());
            assert_eq!(id.len(), word.len() + 1 + 32);
            assert_eq!(short(&id), &id[..word.len() + 1 + 12]);
            assert_eq!(short(short(&id)), short(&id), "what is short stays as it is");
        }
    }

    #[test]
    fn no_redactor_takes_a_whole_id_for_a_secret() {
        let random = Random::from_seed(7);
        for _ in 0..1_000 {
            let [task, request, message, delivery] =
                ["codex", "req", "in", "dlv"].map(|word| format!("{word}-{}", random.hex()));
            let line = format!(
                "turn{{task={task} turn=1}}: told request={request} message_id={message} delivery={delivery} \
                 {{\"request_id\": \"{request}\", \"idempotency_key\": \"{delivery}\"}} {task}/1/{}",
                random.hex()
            );
            assert_eq!(redact::Redactor::default().redact(&line), line);
        }
    }

    #[test]
    fn everything_else_is_shown_as_it_is() {
        let hex = "0123456789abcdef0123456789abcdef";
        let others = [
            String::new(),
            "-".to_owned(),
            "codex-".to_owned(),
            "codex-ca27987d4505".to_owned(),
            "req-73866003".to_owned(),
            hex.to_owned(),
            format!("-{hex}"),
            format!("req-{hex}0"),
            format!("req-{}", &hex[1..]),
            format!("req-{}", hex.to_uppercase()),
            format!("REQ-{hex}"),
            format!("in-{hex}-reply"),
            format!("dlv-in-{hex}"),
            format!("req-{hex}.0123456789abcdef"),
            format!("req-{}", "é".repeat(16)),
            "é-ü".to_owned(),
        ];
        for id in others {
            assert_eq!(short(&id), id);
        }
    }
}
