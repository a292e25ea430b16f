//! A bounded map that a channel stores with its cursor: a new entry pushes out the oldest. Knows no platform.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of entries of each map.
pub const MAX_ENTRIES: usize = 64;

/// The newest [`MAX_ENTRIES`] entries, the oldest first. Serialised as a map whose order counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent<V> {
    entries: VecDeque<(String, V)>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets the value of a name. A name that exists keeps its age.
    pub fn insert(&mut self, name: &str, value: V) {
        if let Some((_, known)) = self.entries.iter_mut().find(|(known, _)| known == name) {
            *known = value;
            return;
        }
        self.entries.push_back((name.to_owned(), value));
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) {
        self.entries.retain(|(known, _)| known != name);
    }

    /// All names, the oldest first.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.entries.iter().map(|(name, _)| name)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<V: Serialize> Serialize for Recent<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.entries.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Recent<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// Reads a map in its written order, which a map of the standard library would lose.
struct InOrder<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
    type Value = Recent<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut recent = Recent::default();
        while let Some((name, value)) = map.next_entry::<String, V>()? {
            recent.insert(&name, value);
        }
        Ok(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that sort the other way round than they come.
    fn name(number: usize) -> String {
        format!("in-{:03}", 900 - number)
    }

    #[test]
    fn what_came_first_goes_first_in_the_next_life_too() {
        let mut recent = Recent::default();
        (0..MAX_ENTRIES).for_each(|number| recent.insert(&name(number), number));
        recent.insert(&name(0), 1000);
        assert_eq!(recent.get(&name(0)), Some(&1000), "what is known is no second one");
        recent.insert(&name(MAX_ENTRIES), MAX_ENTRIES);
        assert_eq!((recent.get(&name(0)), recent.get(&name(1))), (None, Some(&1)));
        let written = serde_json::to_string(&recent).unwrap();
        let mut next: Recent<usize> = serde_json::from_str(&written).unwrap();
        assert_eq!(next, recent);
        next.insert("a", 0);
        assert!(
            next.names().eq((2..=MAX_ENTRIES).map(name).chain(["a".to_owned()]).collect::<Vec<_>>().iter())
        );
        next.remove("a");
        assert_eq!(next.get("a"), None);
    }

    #[test]
    fn a_plain_map_is_read_and_no_more_of_it_than_is_remembered() {
        let plain: std::collections::BTreeMap<String, usize> =
            (0..100).map(|number| (format!("in-{number:03}"), number)).collect();
        let recent: Recent<usize> = serde_json::from_str(&serde_json::to_string(&plain).unwrap()).unwrap();
        assert!(recent.names().eq(plain.keys().skip(100 - MAX_ENTRIES)));
        assert!(serde_json::from_str::<Recent<usize>>("{}").unwrap().is_empty());
    }
}
