//! Files of messages: what is done with them before a turn begins, and what the sender is told. Pure.
//!
//! Speech is transcribed first, then text files are placed into the workspace. Only then is it known what cannot be read. A
//! message of which nothing can be read gets no turn.

use std::path::Path;

use super::{Effect, Facts, Outcome, answer};
use crate::inbox::attachment::{self, Attached, Is, StoredFile};
use crate::inbox::{Message, Party};
use crate::outbox::DeliveryId;
use crate::place::Place;
use crate::task::TimeMs;

/// A prompt that may be given to Codex.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The prompt, with a line for each file.
    pub prompt: String,
    /// Tells the sender what cannot be read.
    pub told: Option<Effect>,
    /// Whether images are given to Codex with it.
    pub has_images: bool,
}

/// The prompt of a message with its files, or what is to be done instead or first.
pub fn prepare(
    message: &Message,
    words: String,
    facts: &Facts,
    (cwd, place): (&Path, Place),
    now: TimeMs,
) -> Result<Prepared, Effect> {
    if message.attached == Attached::Nothing {
        return Ok(Prepared { prompt: words, told: None, has_images: false });
    }
    let files: &[StoredFile] = match &facts.outcome {
        Some(Outcome::Placed(files)) => files,
        _ if facts.files.iter().any(|file| file.about.is == Is::Text) => {
            return Err(Effect::Place(cwd.to_owned(), place, facts.files.clone()));
        }
        _ => &facts.files,
    };
    let unreadable = attachment::unreadable(files);
    if let Some(text) = unreadable.as_ref().filter(|_| words.trim().is_empty() && !has_readable(files)) {
        return Err(answer(message, None, text, now));
    }
    // The prompt says it too. An agent would answer this.
    let unreadable = unreadable.filter(|_| message.party == Party::Person);
    let id = DeliveryId(format!("{}-unreadable", message.own_reply_id()));
    Ok(Prepared {
        prompt: attachment::prompt(&words, &message.id, files),
        told: unreadable.map(|text| Effect::Tell(id, None, text)),
        has_images: files.iter().any(|file| matches!(file.about.is, Is::Image(_))),
    })
}

fn has_readable(files: &[StoredFile]) -> bool {
    files.iter().any(|file| matches!(file.about.is, Is::Image(_) | Is::Text))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::inbox::Room;
    use crate::inbox::attachment::{About, MediaType};
    use crate::store::conformance::samples;

    const NOW: TimeMs = 1_000;

    fn file(number: u32, kind: &str, is: Is) -> StoredFile {
        StoredFile { number, about: About { kind: kind.into(), name: String::new(), bytes: 3, is } }
    }

    fn prepared(words: &str, files: Vec<StoredFile>, outcome: Option<Outcome>) -> Result<Prepared, Effect> {
        let message = Message {
            party: Party::Person,
            room: Room::Direct,
            attached: Attached::Files,
            reply_id: None,
            ..samples::message(1, "room")
        };
        let facts = Facts { files, outcome, rules: Arc::default(), ..Facts::default() };
        prepare(&message, words.to_owned(), &facts, (Path::new("/srv"), Place { device: 1, inode: 2 }), NOW)
    }

    fn video() -> StoredFile {
        file(1, "video", Is::Unreadable("it is a film".into()))
    }

    fn image() -> StoredFile {
        file(2, "photo", Is::Image(MediaType::Png))
    }

    #[test]
    fn what_cannot_be_read_costs_no_turn_and_is_said() {
        let Err(Effect::Reply(reply)) = prepared(" ", vec![video()], None) else { panic!("a turn") };
        assert_eq!(reply.text, "I cannot read this: video: it is a film.");
    }

    #[test]
    fn with_words_or_another_file_it_is_said_beside_the_turn() {
        for (words, files) in [("look", vec![video()]), ("", vec![video(), image()])] {
            let prepared = prepared(words, files.clone(), None).unwrap();
            assert!(prepared.prompt.contains("[video attached; it cannot be read: it is a film]"));
            assert_eq!(prepared.has_images, files.len() == 2);
            let Some(Effect::Tell(id, None, text)) = prepared.told else { panic!("nothing is said") };
            assert_eq!(
                (id.as_str(), text.as_str()),
                ("dlv-in-000000000001-unreadable", "I cannot read this: video: it is a film.")
            );
        }
        assert_eq!(prepared("look", vec![image()], None).unwrap().told, None);
    }

    #[test]
    fn text_files_are_placed_before_anything_is_said() {
        let files = vec![file(1, "file", Is::Text)];
        assert!(matches!(prepared("", files.clone(), None), Err(Effect::Place(..))));
        let placed = prepared("", files, Some(Outcome::Placed(vec![video()])));
        assert!(matches!(placed, Err(Effect::Reply(_))), "it could not be placed, and nothing else was said");
    }
}
