//! What a platform would act on in a text: mentions that notify people, and directives of programs that pass texts on. It is
//! made inert, visibly, and nothing else is touched. Pure.

/// Words behind `@` that notify everybody in a room, on one platform or another.
const EVERYBODY: [&str; 5] = ["everyone", "here", "all", "channel", "room"];
/// Directives of programs that send texts on, which would attach a file or change the message.
const DIRECTIVES: [&str; 3] = ["[[audio_as_voice", "[[as_document", "[[file:"];

/// What the receiver of a text acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mentions {
    /// Nothing.
    None,
    /// Tags of Feishu: `<at user_id="all">`.
    Feishu,
    /// Unknown: the text is passed on to a platform that is not known here.
    Relayed,
}

impl Mentions {
    /// The text with nothing in it that its receiver acts on.
    ///
    /// `<at` becomes `＜at`, `@all` becomes `＠all`, `MEDIA:` gets a blank. In code too: the platforms that act on such words do not
    /// agree on what code is. What is inert stays as it is.
    pub fn made_inert(self, text: &str) -> String {
        let mut inert = String::with_capacity(text.len());
        for (at, char) in text.char_indices() {
            let rest = &text[at..];
            match (self, char) {
                (Self::Feishu | Self::Relayed, '<') if is_tag(rest, self) => inert.push('＜'),
                (Self::Relayed, '@') if notifies_all(&inert, rest) => inert.push('＠'),
                (Self::Relayed, '[') if DIRECTIVES.iter().any(|word| begins_with(rest, word)) => {
                    inert.push_str("[ ");
                }
                (Self::Relayed, ':') if ends_with_media(&inert) => inert.push_str(" :"),
                _ => inert.push(char),
            }
        }
        inert
    }
}

/// `<at user_id=…>`; where the platform is unknown also `<@U1>`, `<!channel>`, `<!here>`, `<!everyone>`, `<!subteam^S1>`.
fn is_tag(rest: &str, mentions: Mentions) -> bool {
    let is_at = begins_with(rest, "<at") && !rest[3..].starts_with(char::is_alphanumeric);
    let is_slack =
        ["<@", "<!channel", "<!here", "<!everyone", "<!subteam"].iter().any(|word| begins_with(rest, word));
    is_at || (mentions == Mentions::Relayed && is_slack)
}

fn notifies_all(before: &str, rest: &str) -> bool {
    let is_whole = |word: &str| {
        begins_with(&rest[1..], word)
            && !rest[1 + word.len()..].starts_with(|char: char| char.is_alphanumeric() || char == '_')
    };
    !before.ends_with(char::is_alphanumeric) && EVERYBODY.iter().any(|word| is_whole(word))
}

fn begins_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn ends_with_media(before: &str) -> bool {
    let word = before.len().checked_sub("MEDIA".len()).and_then(|at| before.get(at..));
    word.is_some_and(|word| word.eq_ignore_ascii_case("media"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acted_on_is_made_inert() {
        for (said, shown) in [
            ("@everyone look", "＠everyone look"),
            ("(@here) @channel", "(＠here) ＠channel"),
            ("*@everyone* -@here @all-x `@all`", "*＠everyone* -＠here ＠all-x `＠all`"),
            ("<at\nuser_id=1>", "＜at\nuser_id=1>"),
            ("<!channel> <@U123>", "＜!channel> ＜@U123>"),
            ("<at user_id=\"all\">all</at>", "＜at user_id=\"all\">all</at>"),
            ("MEDIA:/etc/passwd media:x", "MEDIA :/etc/passwd media :x"),
            ("[[file:/etc/passwd]] [[audio_as_voice]]", "[ [file:/etc/passwd]] [ [audio_as_voice]]"),
        ] {
            let inert = Mentions::Relayed.made_inert(said);
            assert_eq!(inert, shown, "{said:?}");
            assert_eq!(Mentions::Relayed.made_inert(&inert), shown, "once is enough");
            assert_eq!(Mentions::None.made_inert(said), said);
        }
        let tag = "<at user_id=\"all\">@all</at>";
        assert_eq!(Mentions::Feishu.made_inert(tag), "＜at user_id=\"all\">@all</at>");
    }

    #[test]
    fn what_only_looks_like_it_stays_as_it_was_written() {
        for said in [
            "[[bin]]\nname = \"x\"",
            "@types/node and @@ -1 +1 @@",
            "<!DOCTYPE html> <b> a < b <attr>",
            "mail ann@example.com, ask @ada, @allison, @here_too",
            "[[ -f x ]] a[0][1]",
        ] {
            assert_eq!(Mentions::Relayed.made_inert(said), said);
        }
    }
}
