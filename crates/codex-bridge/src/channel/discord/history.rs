//! Reads the history of channels behind the last message that is known, and remembers where channels are.

use serde_json::{Value, json};

use super::event::{Place, Reader};
use super::link::{Link, list, number};
use super::{Discord, rest};
use crate::channel::ChannelError;
use crate::channel::chat::Reading;

/// The most pages of a channel that are read at once, and the messages of a page.
const MOST_PAGES: usize = 50;
const PAGE: usize = 100;
/// The most people whose private conversations are looked up.
const MOST_PEOPLE: usize = 20;

/// A channel whose history has to be read.
pub struct Missed {
    /// Its id.
    pub channel: String,
    /// Its place.
    pub place: Place,
    /// The last message that was read.
    pub after: u64,
    /// How many pages were read.
    pub pages: usize,
}

impl Discord {
    /// Notes the private conversations in which something may have been written: those that are known, and those with the
    /// people who may write. Discord lists them nowhere.
    pub(super) async fn miss_direct(&self, link: &mut Link) -> Result<(), ChannelError> {
        let known: Vec<String> = link.position.direct.names().cloned().collect();
        for channel in &known {
            link.miss(channel, Place::direct(channel), Some(u64::MAX));
        }
        for person in self.people.iter().take(MOST_PEOPLE) {
            let opened =
                self.rest.call("POST", "users/@me/channels", &json!({ "recipient_id": person })).await?;
            if opened.status == 429 {
                // Another attempt would begin with the same people. What they wrote comes as an event once they write again.
                tracing::warn!(channel = self.name, "not all private conversations could be looked up");
                break;
            }
            if !opened.is_success() && ![400, 403, 404].contains(&opened.status) {
                return Err(rest::error(&opened));
            }
            let Some(id) = opened.body["id"].as_str().filter(|id| !known.iter().any(|known| known == id))
            else {
                continue;
            };
            link.miss(id, Place::direct(id), number(&opened.body["last_message_id"]));
        }
        Ok(())
    }

    /// Reads a page of a channel's history.
    pub(super) async fn read_page(
        &self,
        link: &mut Link,
        missed: Missed,
        reading: &mut Reading,
    ) -> Result<(), ChannelError> {
        let Missed { channel, place, after, pages } = missed;
        let path = format!("channels/{channel}/messages?after={after}&limit={PAGE}");
        let reply = self.rest.get(&path).await?;
        if [403, 404].contains(&reply.status) {
            // The bot may not read it, or it is gone. Refusals are counted by Discord.
            self.state().note_unreadable(&channel);
            return Ok(());
        }
        if !reply.is_success() {
            return Err(rest::error(&reply));
        }
        let mut messages: Vec<(u64, &Value)> =
            list(&reply.body).filter_map(|one| Some((number(&one["id"])?, one))).collect();
        messages.sort_by_key(|(id, _)| *id);
        let roles = self.state().roles.clone();
        let reader = Reader { channel: &self.name, bot: &self.id, roles: &roles };
        reading.incoming.extend(messages.iter().filter_map(|(_, message)| reader.incoming(message, &place)));
        let Some((last, _)) = messages.last() else { return Ok(()) };
        let is_direct = place == Place::direct(&channel);
        link.position.note(&channel, *last, is_direct, false);
        if messages.len() < PAGE {
            return Ok(());
        }
        if pages + 1 == MOST_PAGES {
            tracing::warn!(
                channel = self.name,
                place = place.name,
                "more messages were written than are read at once; later ones are not read"
            );
            return Ok(());
        }
        link.missed.push_front(Missed { channel, place, after: *last, pages: pages + 1 });
        Ok(())
    }

    /// Where something happened; none if the channel is gone.
    pub(super) async fn place_of(&self, body: &Value) -> Result<Option<Place>, ChannelError> {
        let Some(id) = body["channel_id"].as_str() else { return Ok(None) };
        if !body["guild_id"].is_string() {
            return Ok(Some(Place::direct(id)));
        }
        if body["channel"]["type"].is_u64() {
            return Ok(Place::of_channel(&body["channel"]));
        }
        if let Some(place) = self.state().places.get(id) {
            return Ok(Some(place.clone()));
        }
        let reply = self.rest.get(&format!("channels/{id}")).await?;
        match reply.status {
            403 | 404 => return Ok(None),
            _ if !reply.is_success() => return Err(rest::error(&reply)),
            _ => {}
        }
        self.learn(std::iter::once(&reply.body));
        Ok(Place::of_channel(&reply.body))
    }

    /// Remembers the places of channels and threads.
    pub(super) fn learn<'a>(&self, channels: impl Iterator<Item = &'a Value>) {
        let mut state = self.state();
        for channel in channels {
            if let Some((id, place)) = channel["id"].as_str().zip(Place::of_channel(channel)) {
                state.note_place(id, place);
            }
        }
    }

    /// Remembers the roles that only the bot has.
    pub(super) fn learn_roles(&self, roles: &Value) {
        let own = list(roles).filter(|role| role["tags"]["bot_id"] == self.id.as_str());
        let own = own.filter_map(|role| role["id"].as_str());
        self.state().note_roles(own);
    }
}
