//! Counts unknown tokens by address.
//!
//! A valid token is always accepted, however many bad tokens came from its address. Otherwise a command that Codex runs
//! could lock out the person who has to approve it. A token cannot be guessed anyway; the limit makes trying expensive.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Attempts of one address in a window that are answered with 401. Later ones get 429.
const MAX_ATTEMPTS: u32 = 10;
/// The length of a window.
pub const WINDOW: Duration = Duration::from_mins(1);
/// At most this many addresses are remembered. The oldest window is forgotten first.
const MAX_ADDRESSES: usize = 1024;

/// The failed attempts of each address.
#[derive(Debug, Default)]
pub struct TokenAttempts(Mutex<HashMap<IpAddr, Window>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    attempts: u32,
}

impl TokenAttempts {
    /// Counts a failed attempt. Returns false if there were too many.
    pub fn count(&self, address: IpAddr, now: Instant) -> bool {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= MAX_ADDRESSES && !windows.contains_key(&address) {
            let oldest = windows.iter().min_by_key(|(_, window)| window.began).map(|(address, _)| *address);
            oldest.and_then(|oldest| windows.remove(&oldest));
        }
        let window = windows.entry(address).or_insert(Window { began: now, attempts: 0 });
        if now.saturating_duration_since(window.began) >= WINDOW {
            *window = Window { began: now, attempts: 0 };
        }
        window.attempts = window.attempts.saturating_add(1);
        window.attempts <= MAX_ATTEMPTS
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn each_address_has_ten_tries_a_minute() {
        let (attempts, now) = (TokenAttempts::default(), Instant::now());
        assert!((0..10).all(|_| attempts.count(address(1), now)));
        assert!(!attempts.count(address(1), now));
        assert!(!attempts.count(address(1), now + Duration::from_secs(59)));
        assert!(attempts.count(address(2), now), "another address");
        assert!(attempts.count(address(1), now + WINDOW), "another minute");
    }

    #[test]
    fn many_addresses_take_no_more_room() {
        let (attempts, now) = (TokenAttempts::default(), Instant::now());
        for number in 0..5000 {
            attempts.count(address(number), now + Duration::from_millis(u64::from(number)));
        }
        assert_eq!(attempts.0.lock().unwrap().len(), MAX_ADDRESSES);
    }
}
