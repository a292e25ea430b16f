//! The host names under which the port answers, and whether a request comes from one of our own pages.
//!
//! A page of another site can make a browser send requests to the port. Its host name can also be made to resolve to our
//! address (DNS rebinding). `Origin` and `Sec-Fetch-Site` reveal the first, `Host` the second. No page can forge them.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};

use crate::failure::{Code, Failure};

/// The value of `Sec-Fetch-Site` for a request from a page of the same origin.
const SAME_ORIGIN: &str = "same-origin";
/// The host name of the page. Browsers resolve `*.localhost` to this machine, and keep cookies by host name, not by port:
/// under `localhost`, every other server on this machine would get the cookie.
pub const OWN_NAME: &str = "codex-bridge.localhost";
/// The port of a `Host` header without a port.
const DEFAULT_PORT: u16 = 80;

/// The host names under which the port answers.
#[derive(Debug, Clone)]
pub struct Names {
    /// The port, which loopback names must have.
    pub port: u16,
    /// Names that the operator allows. A name without a port is allowed with any.
    pub allowed: Vec<String>,
}

impl Names {
    /// Refuses a request to another host name, or from a page of another site.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let host = text(headers, HOST.as_str()).unwrap_or_default();
        if !self.has(host) {
            let message = format!("the host name {host:?} is not allowed here");
            let hint =
                format!("use localhost:{}, or list the name as `allowed_hosts` under [http]", self.port);
            return Err(Failure::new(Code::BadHost, message).hint(hint));
        }
        match text(headers, ORIGIN.as_str()) {
            None => Ok(()),
            Some(origin) if has_host(origin, host) => Ok(()),
            // A page with a strict referrer policy has the origin `null` even for its own server.
            Some("null") if is_same_site(headers) => Ok(()),
            Some(origin) => {
                Err(Failure::new(Code::BadOrigin, format!("a page of {origin} may not call this daemon"))
                    .hint("open the page of codex-bridge itself"))
            }
        }
    }

    fn has(&self, host: &str) -> bool {
        let (name, port) = split(host);
        let is_loopback =
            [OWN_NAME, "localhost", "127.0.0.1", "[::1]"].iter().any(|own| own.eq_ignore_ascii_case(name));
        let port_number = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok());
        let is_allowed = |allowed: &String| {
            let compared = if split(allowed).1.is_some() { host } else { name };
            allowed.eq_ignore_ascii_case(compared)
        };
        (is_loopback && port_number == Some(self.port)) || self.allowed.iter().any(is_allowed)
    }
}

/// Refuses a change that a page of another site could have sent with our cookie.
pub fn check_own_page(method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    // `Names::check` has already refused other origins.
    let is_own_page =
        text(headers, ORIGIN.as_str()).is_some_and(|origin| origin != "null") || is_same_site(headers);
    if method.is_safe() || is_own_page {
        return Ok(());
    }
    let message = "a change with the cookie must come from the page itself";
    Err(Failure::new(Code::BadOrigin, message).hint("programs send the token: Authorization: Bearer cbt_…"))
}

fn is_same_site(headers: &HeaderMap) -> bool {
    text(headers, "sec-fetch-site") == Some(SAME_ORIGIN)
}

fn has_host(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The text of a header; `?` if the header is repeated or is not text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("?"),
        (None, _) => None,
    }
}

/// The name and the port of a host. An IPv6 address keeps its brackets.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn code(headers: &[(&'static str, &'static str)]) -> String {
        let names = Names { port: 7777, allowed: vec!["bridge.example.org".into(), "other:8443".into()] };
        let headers =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_static(value)));
        names.check(&headers.collect()).map_or_else(|failure| failure.code.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let ours = [
            "codex-bridge.localhost:7777",
            "localhost:7777",
            "LOCALHOST:7777",
            "127.0.0.1:7777",
            "[::1]:7777",
        ];
        for host in ours.into_iter().chain(["bridge.example.org", "Bridge.example.org:443", "other:8443"]) {
            assert_eq!(code(&[("host", host)]), "ok", "{host}");
        }
        let theirs = ["", "localhost", "localhost:80", "localhost:77777", "evil.example:7777", "127.0.0.1"];
        for host in theirs.into_iter().chain([
            "x.bridge.example.org",
            "x.localhost:7777",
            "codex-bridge.localhost:1",
            "other",
            "other:1",
            "::1:7777",
            "[::1]",
        ]) {
            assert_eq!(code(&[("host", host)]), "bad_host", "{host}");
        }
        assert_eq!(code(&[]), "bad_host");
    }

    #[test]
    fn only_our_own_pages_are_answered() {
        let with = |origin, more: &[(&'static str, &'static str)]| {
            code(&[&[("host", "localhost:7777"), ("origin", origin)], more].concat())
        };
        assert_eq!(with("http://localhost:7777", &[]), "ok");
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:7778",
            "http://127.0.0.1:7777",
            "localhost:7777",
        ] {
            assert_eq!(with(origin, &[]), "bad_origin", "{origin}");
        }
        assert_eq!(with("null", &[("sec-fetch-site", "same-origin")]), "ok");
        assert_eq!(with("null", &[("sec-fetch-site", "cross-site")]), "bad_origin");
        assert_eq!(with("http://evil.example", &[("sec-fetch-site", "same-origin")]), "bad_origin");
    }

    #[test]
    fn a_change_by_cookie_comes_from_our_own_page() {
        let check = |method: Method, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_static(value)));
            check_own_page(&method, &headers.collect()).is_ok()
        };
        assert!(check(Method::GET, &[]));
        assert!(!check(Method::POST, &[]));
        assert!(!check(Method::DELETE, &[("sec-fetch-site", "same-site")]));
        assert!(!check(Method::POST, &[("origin", "null"), ("sec-fetch-site", "cross-site")]));
        assert!(check(Method::POST, &[("origin", "http://localhost:7777")]));
        assert!(check(Method::POST, &[("sec-fetch-site", "same-origin")]));
    }
}
