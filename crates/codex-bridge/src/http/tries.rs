//! How often somebody tried a token that is none.
//!
//! A good token is let in whoever tried bad ones from the same address: otherwise any process on this machine, such as a
//! command that Codex runs, could lock out the person who is to approve it. Guessing is hopeless at any rate; the limit
//! keeps it from being cheap.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many are answered as what they are.
const TRIES: u32 = 10;
/// Within so long.
pub const WINDOW: Duration = Duration::from_mins(1);
/// Addresses that are remembered; when there are more, the oldest window is forgotten.
const ADDRESSES: usize = 1024;

/// The bad tries of each address.
#[derive(Debug, Default)]
pub struct Tries(Mutex<HashMap<IpAddr, Window>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    tries: u32,
}

impl Tries {
    /// Counts a bad try; false if there were too many.
    pub fn count(&self, address: IpAddr, now: Instant) -> bool {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= ADDRESSES && !windows.contains_key(&address) {
            let oldest = windows.iter().min_by_key(|(_, window)| window.began).map(|(address, _)| *address);
            oldest.and_then(|oldest| windows.remove(&oldest));
        }
        let window = windows.entry(address).or_insert(Window { began: now, tries: 0 });
        if now.saturating_duration_since(window.began) >= WINDOW {
            *window = Window { began: now, tries: 0 };
        }
        window.tries = window.tries.saturating_add(1);
        window.tries <= TRIES
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
        let (tries, now) = (Tries::default(), Instant::now());
        assert!((0..10).all(|_| tries.count(address(1), now)));
        assert!(!tries.count(address(1), now));
        assert!(!tries.count(address(1), now + Duration::from_secs(59)));
        assert!(tries.count(address(2), now), "another address");
        assert!(tries.count(address(1), now + WINDOW), "another minute");
    }

    #[test]
    fn many_addresses_take_no_more_room() {
        let (tries, now) = (Tries::default(), Instant::now());
        for number in 0..5000 {
            tries.count(address(number), now + Duration::from_millis(u64::from(number)));
        }
        assert_eq!(tries.0.lock().unwrap().len(), ADDRESSES);
    }
}
