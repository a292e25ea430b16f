//! Bounded collections that a channel stores with its cursor: a new entry pushes out the oldest. Knows no platform.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// The number of entries of each collection.
pub const MAX_ENTRIES: usize = 64;

/// The newest [`MAX_ENTRIES`] entries, the oldest first. Serialised as a map whose order counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "IndexMap<String, V>")]
pub struct Recent<V>(IndexMap<String, V>);

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

impl<V> From<IndexMap<String, V>> for Recent<V> {
    fn from(mut entries: IndexMap<String, V>) -> Self {
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        Self(entries)
    }
}

impl<V> Recent<V> {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.get(name)
    }

    /// Sets the value of a name. A name that exists keeps its age.
    pub fn insert(&mut self, name: &str, value: V) {
        self.0.insert(name.to_owned(), value);
        if self.0.len() > MAX_ENTRIES {
            self.0.shift_remove_index(0);
        }
    }

    /// Removes a name.
    pub fn remove(&mut self, name: &str) {
        self.0.shift_remove(name);
    }

    /// Keeps only the values that are wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&V) -> bool) {
        self.0.retain(|_, value| is_wanted(value));
    }

    /// All names, the oldest first.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// All names with their values, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &V)> {
        self.0.iter()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Adds an entry to a list, the oldest first.
pub fn push<T>(list: &mut Vec<T>, entry: T) {
    list.push(entry);
    list.drain(..list.len().saturating_sub(MAX_ENTRIES));
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
