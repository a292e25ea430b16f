//! What a bot's settings may be.

use serde_json::json;

use super::*;

/// `4711` in base64, and two parts that say nothing.
const TOKEN: &str = "NDcxMQ.token.planted";

fn discord(settings: Value, allow: &[&str]) -> Result<Discord, String> {
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let common = Common { allow: allow.iter().map(|one| (*one).to_owned()).collect(), ..Common::default() };
    Discord::new("discord", &settings, &common, &|_| None)
}

#[test]
fn the_bot_is_named_by_its_token_and_a_wrong_token_is_refused() {
    assert_eq!(discord(json!({ "token": TOKEN }), &["42"]).unwrap().identity(), "Discord bot 4711");
    for token in ["4711:telegram", "NDcxMQ", "NDcxMQ.x", "x.y.z", "NDcxMQ.to ken.x"] {
        let why = discord(json!({ "token": token }), &["42"]).map(drop).unwrap_err();
        assert!(why.contains("not a Discord bot's token") && !why.contains(token), "{why}");
    }
}

#[test]
fn a_role_that_there_is_not_is_refused_with_those_that_there_are() {
    let why = |allowed: &str| discord(json!({ "token": TOKEN }), &[allowed]).map(drop).unwrap_err();
    assert_eq!(why("42:aprover"), "\"aprover\" is not a role: use user or approver");
    assert!(why("@ada").contains("users are numbers") && why("*").contains("users are numbers"));
}

#[test]
fn a_place_is_a_channel_that_is_listed_or_a_thread_in_one() {
    let bot = discord(json!({ "token": TOKEN, "channel": 7, "channels": ["8"] }), &["42"]).unwrap();
    for place in ["", "7", "8", "8/9"] {
        assert_eq!(bot.check_place(place), Ok(()), "{place}");
    }
    for place in ["9", "9/8", "8/9/1", "#general", "8/"] {
        assert!(bot.check_place(place).is_err(), "{place}");
    }
    assert!(bot.reaches("9/10") && !bot.reaches("x"), "replies go where their message came from");
    assert_eq!(bot.place(""), Ok("7".to_owned()));
    assert!(discord(json!({ "token": TOKEN, "channel": "general" }), &[]).is_err());
}
