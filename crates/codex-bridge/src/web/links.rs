//! Which links in a model's text may be clicked: links to the web, but not to this machine or to our own pages.
//!
//! A browser that follows a link to a server on this machine sends it the cookies of that host name. A link to one of our
//! pages could make a person open it by mistake. Browsers accept many spellings of an address, so an unusual address is
//! not a link. Neither is a numeric address, because it may belong to this machine.

use crate::http::origin::Names;

/// Names that every machine has for itself.
const LOOPBACK_NAMES: [&str; 5] =
    ["localhost", "localdomain", "ip6-localhost", "ip6-loopback", "localhost.localdomain"];

/// The rule for links: they must not lead to these names.
#[derive(Debug, Clone, Default)]
pub struct Links {
    own: Vec<String>,
}

impl Links {
    /// Allows links to other names than these and those of this machine.
    pub fn outside(names: Option<&Names>) -> Self {
        let allowed = names.into_iter().flat_map(|names| &names.allowed);
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // `box.example.org` may also be reached as `box.local`.
        let short = machine.split('.').next().unwrap_or_default().to_owned();
        let own = allowed.map(|name| host_of(name).to_owned()).chain([machine, short]);
        let own = own.map(|name| name.to_ascii_lowercase());
        Self { own: own.filter(|name| !name.is_empty()).collect() }
    }

    /// Whether a URL leads to the web and not to this machine.
    pub fn lead_to_the_web(&self, url: &str) -> bool {
        let Some((scheme, rest)) = url.split_once("://") else { return false };
        let is_web = ["http", "https"].iter().any(|web| web.eq_ignore_ascii_case(scheme));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        is_web && !has_unusual_characters(url) && self.is_outside(authority)
    }

    /// Whether this is a host name, with or without a port, that is not one of this machine's or ours.
    fn is_outside(&self, authority: &str) -> bool {
        let host = host_of(authority).strip_suffix('.').unwrap_or(host_of(authority)).to_ascii_lowercase();
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' || byte == b'_';
        // Browsers read a name whose last part is a number as an IP address.
        let last = host.rsplit('.').next().unwrap_or_default();
        let is_number =
            last.is_empty() || last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        let is_loopback = LOOPBACK_NAMES.contains(&host.as_str())
            || host.ends_with(".localhost")
            || host.ends_with(".localdomain");
        let is_ours = self.own.iter().any(|own| is_same_or_below(&host, own));
        // A name without a dot belongs to this machine or its network.
        host.contains('.') && host.bytes().all(is_plain) && !is_number && !is_loopback && !is_ours
    }
}

/// Whether a host is this name, or this name in a domain: `box` matches `box.local`.
fn is_same_or_below(host: &str, own: &str) -> bool {
    host == own || (!own.contains('.') && host.strip_prefix(own).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether a URL has characters that a browser drops or replaces.
fn has_unusual_characters(url: &str) -> bool {
    url.chars().any(|char| char.is_control() || char.is_whitespace() || char == '\\')
}

/// A host without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links { own: ["bridge.example.org", "box"].map(Into::into).into() }
    }

    #[test]
    fn links_lead_to_the_web() {
        for url in [
            "https://example.com",
            "http://example.com:8080/a?b#c",
            "HTTPS://Example.COM/",
            "https://example.com/?to=http://127.0.0.1:7777/",
            "https://localhost.example.com/",
            "https://my-localhost.com",
            "https://example.org",
            "https://boxes.example.org",
            "https://example.org/a_(b)",
        ] {
            assert!(links().lead_to_the_web(url), "{url}");
        }
    }

    #[test]
    fn no_spelling_of_this_machine_or_of_our_names_is_a_link() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "localhost:7777",
            "codex-bridge.localhost:7777",
            "a.b.localhost.",
            "localhost.localdomain",
            "ip6-localhost",
            "127.0.0.1",
            "127.0.0.1.",
            "127.0.0.1:80",
            "127.8.9.10",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0X7F.0.0.1",
            "0177.0.0.1",
            "017700000001",
            "127.0.0.0x1",
            "127.0.0.01",
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "[::1]",
            "[::1]:7777",
            "[::]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[::ffff:0.0.0.0]",
            "[::1",
            "[fe80::1%25eth0]",
            "box",
            "box.local",
            "box:80",
            "other-box",
            "bridge.example.org",
            "Bridge.Example.Org.:443",
            "10.1.2.3",
            "93.184.216.34",
            "[::ffff:10.1.2.3]",
            "[2001:db8:0::5]:8443",
            "user@127.0.0.1",
            "example.com@127.0.0.1",
            "example.com:80@127.0.0.1",
            "%6cocalhost",
            "local%68ost.com",
            "ⓛocalhost.com",
            "１２７.0.0.1",
            "127。0。0。1",
            "example.com\\@localhost",
            "\\localhost",
            "",
            ".",
            "..",
            "example.com..",
        ] {
            for url in [format!("http://{host}/x"), format!("https://{host}"), format!("http://{host}?q#f")] {
                assert!(!links().lead_to_the_web(&url), "{url}");
            }
        }
        for url in [
            "//example.com",
            "/tasks",
            "tasks",
            "#x",
            "http:/127.0.0.1",
            "http:example.com",
            "http:///127.0.0.1",
            "https:\\\\example.com",
            "http://exa\tmple.com",
            " https://example.com",
            "ftp://example.com",
            "javascript://example.com/%0aalert(1)",
        ] {
            assert!(!links().lead_to_the_web(url), "{url}");
        }
    }

    #[test]
    fn the_names_are_those_of_the_operator_and_of_the_machine() {
        let names = Names { port: 7777, allowed: vec!["Bridge.example.org:8443".into()] };
        let links = Links::outside(Some(&names));
        assert!(!links.lead_to_the_web("https://bridge.example.org/tasks"));
        assert!(links.lead_to_the_web("https://example.org/tasks"));
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(!links.lead_to_the_web(&format!("http://{machine}/")));
    }
}
