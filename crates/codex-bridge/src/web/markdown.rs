//! A model's Markdown as safe HTML: no embedded HTML, no images, and only links to the web.
//!
//! The result is the only text that the templates do not escape.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use redact::plain::plain;

use super::links::Links;

/// Longer texts are shown as plain text.
const MAX_BYTES: usize = 128 * 1024;

/// Renders Markdown as safe HTML.
pub fn to_html(text: &str, allowed: &Links) -> String {
    let text = plain(text);
    if text.len() > MAX_BYTES {
        return format!("<pre>{}</pre>", escaped(&text));
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut open_links: Vec<bool> = Vec::new();
    let events =
        Parser::new_ext(&text, options).filter_map(|event| sanitize(event, &mut open_links, allowed));
    let mut rendered = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut rendered, events);
    rendered
}

/// Removes what is not safe. `open_links` has an entry for each open link: whether it is kept.
fn sanitize<'a>(event: Event<'a>, open_links: &mut Vec<bool>, allowed: &Links) -> Option<Event<'a>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock) => Some(Event::Html(CowStr::Borrowed("<p>"))),
        Event::End(TagEnd::HtmlBlock) => Some(Event::Html(CowStr::Borrowed("</p>"))),
        // The description of an image stays as text.
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link { dest_url, .. }) => {
            let is_allowed = allowed.lead_to_the_web(&dest_url);
            open_links.push(is_allowed);
            is_allowed.then(|| Event::Html(anchor(&dest_url).into()))
        }
        Event::End(TagEnd::Link) => {
            open_links.pop().unwrap_or(false).then_some(Event::Html(CowStr::Borrowed("</a>")))
        }
        event => Some(event),
    }
}

/// The title shows the real URL, because the text of a link may lie.
fn anchor(url: &str) -> String {
    let url = escaped(url);
    format!("<a href=\"{url}\" title=\"{url}\" rel=\"noopener noreferrer nofollow\" target=\"_blank\">")
}

/// Escapes text for HTML elements and attributes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::Links;

    fn to_html(text: &str) -> String {
        super::to_html(text, &Links::default())
    }

    #[test]
    fn markdown_becomes_html() {
        let html = to_html("# Title\n\n- **one**\n- `two`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n");
        for part in ["<h1>Title</h1>", "<strong>one</strong>", "<code>two</code>", "<td>2</td>"] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn html_in_markdown_is_text() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick='x'>\n\nhello</div>",
            "<!-- --><svg/onload=alert(1)>",
            "`</code><script>alert(1)</script>`",
            "```\n</code></pre><script>alert(1)</script>\n```",
            "```\"><script>alert(1)</script>\nx\n```",
        ] {
            let html = to_html(hostile);
            for tag in ["<script", "<img", "<svg", "<div"] {
                assert!(!html.contains(tag), "{hostile} gave {html}");
            }
        }
    }

    #[test]
    fn links_lead_to_the_web_or_nowhere() {
        let html = to_html("[docs](https://example.com/?a=1&b=\"2\")");
        assert!(html.contains("<a href=\"https://example.com/?a=1&amp;b="), "{html}");
        assert!(html.contains("rel=\"noopener noreferrer nofollow\""), "{html}");
        for url in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "//x",
            "JaVaScRiPt://%0aalert(1)",
            "http://127.0.0.1:7777/approvals",
            "http://codex-bridge.localhost:7777/",
            "http://[::1]/",
            "/tasks",
        ] {
            let html = to_html(&format!("[here]({url}) and <{url}>"));
            assert!(!html.contains("<a") && html.contains("here"), "{url} gave {html}");
        }
        let html = to_html("[a [b](javascript:x) c](https://example.com)");
        assert_eq!(html.matches("<a").count(), html.matches("</a>").count(), "{html}");
    }

    #[test]
    fn images_become_text() {
        let html = to_html("![a cat](https://example.com/cat.png)");
        assert!(html.contains("a cat") && !html.contains("<img") && !html.contains("cat.png"), "{html}");
    }

    #[test]
    fn deceptive_characters_are_removed() {
        let html = to_html("\u{1b}[31mred\u{1b}[0m \u{202e}evil\u{2066}");
        assert_eq!(html, "<p>red evil</p>\n");
    }

    #[test]
    fn a_very_long_text_is_shown_as_plain_text() {
        let html = to_html(&"*<b>".repeat(64 * 1024));
        assert!(html.starts_with("<pre>*&lt;b&gt;*") && !html.contains("<b>"));
    }
}
