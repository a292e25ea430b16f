//! The texts of Slack's messages: what people wrote, without Slack's own marks; and our texts, without anything that Slack
//! would parse. Pure.

/// A text in which Slack finds no mention, link or emphasis.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A text as a person wrote it: links and mentions are words again.
pub fn plain(text: &str, name_of: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut words, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('<') {
        words.push_str(before);
        // What a person writes as `<` comes as `&lt;`.
        let Some((mark, after)) = behind.split_once('>') else {
            words.push('<');
            rest = behind;
            continue;
        };
        words.push_str(&meant(mark, name_of));
        rest = after;
    }
    words.push_str(rest);
    words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// What a mark such as `<https://example.com|label>` means.
fn meant(mark: &str, name_of: &dyn Fn(&str) -> Option<String>) -> String {
    let (target, label) = mark.split_once('|').map_or((mark, None), |(target, label)| (target, Some(label)));
    match target.chars().next() {
        Some('@') => {
            let name = label.map(str::to_owned).or_else(|| name_of(&target[1..]));
            format!("@{}", name.unwrap_or_else(|| target[1..].to_owned()))
        }
        Some('#') => format!("#{}", label.filter(|label| !label.is_empty()).unwrap_or(&target[1..])),
        Some('!') => {
            let word = target[1..].split('^').next().unwrap_or_default();
            label.map_or_else(|| format!("@{word}"), str::to_owned)
        }
        // An address that Slack made a link of has itself as its label.
        _ => match label {
            Some(label) if !target.ends_with(label) => format!("{label} ({target})"),
            Some(label) => label.to_owned(),
            None => target.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_has_no_marks_of_slacks() {
        let name_of = |id: &str| (id == "U1").then(|| "Ada".to_owned());
        for (sent, meant) in [
            ("a &lt;b&gt; &amp; c &amp;lt;", "a <b> & c &lt;"),
            ("see <http://example.com|example.com>", "see example.com"),
            ("see <https://example.com/a?b=1&amp;c=2>", "see https://example.com/a?b=1&c=2"),
            ("<https://example.com|the docs>", "the docs (https://example.com)"),
            ("<mailto:a@example.com|a@example.com>", "a@example.com"),
            ("<@U1> <@U2> <@U3|bob> <#C1|general> <#C2|>", "@Ada @U2 @bob #general #C2"),
            ("<!here> <!channel|@channel> <!date^1392734382^{date}|today>", "@here @channel today"),
            ("lone < mark", "lone < mark"),
            ("שלום \u{1f469}\u{200d}\u{1f4bb} e\u{301}", "שלום \u{1f469}\u{200d}\u{1f4bb} e\u{301}"),
        ] {
            assert_eq!(plain(sent, &name_of), meant, "{sent}");
        }
    }

    #[test]
    fn nothing_of_ours_is_a_mark() {
        let text = "<!channel> <@U1> & &lt; :x:";
        assert_eq!(escaped(text), "&lt;!channel&gt; &lt;@U1&gt; &amp; &amp;lt; :x:");
        assert_eq!(plain(&escaped(text), &|_| None), text);
    }
}
