//! Reads back what was written while nobody was connected: Slack sends no event twice that it could not deliver.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::api::{Client, Error};
use crate::channel::chat::positions::Positions;

/// The most channels that are read back, pages of a list, and threads of a channel.
const MOST_CHANNELS: usize = 200;
const MOST_PAGES: usize = 5;
const MOST_THREADS: usize = 20;
/// Events of one moment may come in any order, so that reading begins a little earlier. What is known is recognised.
const OVERLAP_S: u64 = 60;
/// Errors of places from which the bot was removed, or which it may not read.
const UNREADABLE: &str = "channel_not_found not_in_channel is_archived thread_not_found missing_scope no_permission access_denied \
    team_access_not_granted ekm_access_denied enterprise_is_restricted method_not_supported_for_channel_type";
/// How often a page is asked for.
const ATTEMPTS: usize = 5;

/// The channels and private chats that the bot is in, those with the newest messages first.
pub async fn channels_of(client: &Client, read: &Positions) -> Result<Vec<String>, Error> {
    let kinds = [("types", "public_channel,private_channel,mpim,im"), ("exclude_archived", "true")];
    let mut channels = read.chats();
    match list(client, "users.conversations", "channels", &kinds).await {
        Ok(listed) => {
            let listed = listed.iter().filter_map(|channel| channel["id"].as_str());
            channels.extend(listed.filter(|id| !read.has(id)).map(str::to_owned));
        }
        Err(error) if error.is("missing_scope") => {
            tracing::warn!("the app may not list its channels, so that only known ones are read back");
        }
        Err(error) => return Err(error),
    }
    channels.truncate(MOST_CHANNELS);
    Ok(channels)
}

/// What was written in a channel and its threads since they were read, the oldest first. `threads` are those of our messages.
pub async fn missed(
    client: &Client,
    read: &Positions,
    channel: &str,
    threads: &[String],
) -> Result<Vec<Value>, Error> {
    let since = |place: &str| {
        let (seconds, rest) = read.of(place).split_once('.').unwrap_or_default();
        format!("{}.{rest}", seconds.parse::<u64>().unwrap_or_default().saturating_sub(OVERLAP_S))
    };
    let history = [("channel", channel), ("oldest", &since(channel))];
    let mut messages = or_none(list(client, "conversations.history", "messages", &history).await)?;
    let has_replies = |message: &&Value| message["reply_count"].as_u64() > Some(0);
    let found = messages.iter().filter(has_replies).filter_map(|root| root["ts"].as_str());
    let ours = threads.iter().filter_map(|place| place.strip_prefix(channel)?.strip_prefix('/'));
    let roots: BTreeSet<String> =
        read.threads_in(channel).chain(ours).chain(found).map(str::to_owned).collect();
    for root in roots.iter().rev().take(MOST_THREADS) {
        let since = since(&format!("{channel}/{root}"));
        let thread = [("channel", channel), ("ts", root), ("oldest", &since)];
        messages.extend(or_none(list(client, "conversations.replies", "messages", &thread).await)?);
    }
    messages.sort_by(|one, other| one["ts"].as_str().cmp(&other["ts"].as_str()));
    messages.dedup_by(|one, other| one["ts"] == other["ts"]);
    Ok(messages)
}

/// Nothing, where the bot was removed or may not read.
fn or_none(listed: Result<Vec<Value>, Error>) -> Result<Vec<Value>, Error> {
    match listed {
        Err(error) if error.is(UNREADABLE) => {
            tracing::warn!(%error, "a channel or thread could not be read back");
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// All pages of a list, up to a limit. A channel's newest messages are on its first pages.
pub async fn list(
    client: &Client,
    method: &str,
    key: &str,
    query: &[(&str, &str)],
) -> Result<Vec<Value>, Error> {
    let (mut all, mut next) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let mut page =
            patiently(client, method, &[query, &[("limit", "200"), ("cursor", &next)]].concat()).await?;
        if let Value::Array(found) = page[key].take() {
            all.extend(found);
        }
        // The cursor is base64, two marks of which mean something else in a query.
        next = page["response_metadata"]["next_cursor"]
            .as_str()
            .unwrap_or_default()
            .replace('=', "%3D")
            .replace('+', "%2B");
        if next.is_empty() {
            return Ok(all);
        }
    }
    tracing::warn!(method, "there was more than is read");
    Ok(all)
}

/// One page. A limit is waited for, and a failure tried again.
async fn patiently(client: &Client, method: &str, query: &[(&str, &str)]) -> Result<Value, Error> {
    let mut failures = 0;
    loop {
        let wait = match client.read(method, query).await {
            Err(Error::Limited(wait)) => wait,
            Err(Error::Unanswered(_) | Error::Unclear(_)) if failures + 1 < ATTEMPTS => {
                failures += 1;
                Duration::from_secs(1)
            }
            read => return read,
        };
        tokio::time::sleep(wait).await;
    }
}
