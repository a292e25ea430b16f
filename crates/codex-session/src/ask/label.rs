//! What a detail of a request is about.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a detail of a request is about. Its word is what people see, what JSON has and what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[expect(missing_docs, reason = "the names are the words")]
pub enum Label {
    Careful,
    NotShown,
    Command,
    Directory,
    Host,
    Reason,
    Sandbox,
    AlsoOpens,
    Opens,
    Session,
    Changes,
    Also,
    Message,
    Page,
    Fields,
    Description,
    Arguments,
    Note,
    /// A word of an older version.
    Other(String),
}

impl Label {
    const ALL: [(Self, &'static str); 18] = [
        (Self::Careful, "Careful"),
        (Self::NotShown, "Not shown"),
        (Self::Command, "Command"),
        (Self::Directory, "Directory"),
        (Self::Host, "Host"),
        (Self::Reason, "Reason"),
        (Self::Sandbox, "Sandbox"),
        (Self::AlsoOpens, "Also opens"),
        (Self::Opens, "Opens"),
        (Self::Session, "Session"),
        (Self::Changes, "Changes"),
        (Self::Also, "Also"),
        (Self::Message, "Message"),
        (Self::Page, "Page"),
        (Self::Fields, "Fields"),
        (Self::Description, "Description"),
        (Self::Arguments, "Arguments"),
        (Self::Note, "Note"),
    ];

    /// The word for people and programs.
    pub fn as_str(&self) -> &str {
        if let Self::Other(word) = self {
            return word;
        }
        Self::ALL.iter().find(|(label, _)| label == self).map_or("", |(_, word)| word)
    }
}

impl From<String> for Label {
    fn from(word: String) -> Self {
        let known = Self::ALL.into_iter().find(|(_, known)| *known == word);
        known.map_or(Self::Other(word), |(label, _)| label)
    }
}

impl From<&str> for Label {
    fn from(word: &str) -> Self {
        word.to_owned().into()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.as_str().to_owned()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_read_back_from_its_word() {
        for (label, word) in Label::ALL {
            assert_eq!((Label::from(word), label.as_str()), (label.clone(), word));
        }
        assert_eq!(Label::from("Elsewhere").as_str(), "Elsewhere");
    }
}
