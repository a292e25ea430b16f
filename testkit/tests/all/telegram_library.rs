//! The stand-in of Telegram and a library that others write for the real one, python-telegram-bot: what it sends is taken,
//! what it reads is what it expects, and every refusal is the one that it knows.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::platform::telegram::server::Server;
use testkit::platform::telegram::{BLOCKED, flooded};
use testkit::platform::{Answer, Day};

const TOKEN: &str = "4711:a-token-of-the-library";
const ADA: i64 = 42;
const GROUP: i64 = -77;
const MOVED: i64 = -100_777;

/// Runs a script with `bot`, a bot of the library's, in it; gives the last line that it printed, read as JSON.
async fn run(server: &Server, token: &str, script: &str) -> Value {
    let start = "import asyncio, json, sys\nfrom telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup\n\
        from telegram import error\nasync def main():\n    async with Bot(sys.argv[2], base_url=sys.argv[1]) as bot:\n";
    let body = format!("        {}\n", script.replace('\n', "\n        "));
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/python-telegram-bot/bin/python");
    let mut command = Command::new(python);
    command.args(["-c", &format!("{start}{body}asyncio.run(main())\n")]);
    command.args([format!("{}/bot", server.base()), token.to_owned()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.expect("the library is there after `cargo xtask setup`");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[tokio::test]
async fn a_bot_of_the_library_talks_with_people_on_the_stand_in() {
    let server = Server::open(TOKEN).await;
    let written = server.write(ADA, "hello & goodbye +1");
    let asked = run(
        &server,
        TOKEN,
        "update = (await bot.get_updates(timeout=5, allowed_updates=['message']))[0]\n\
         keys = InlineKeyboardMarkup([[InlineKeyboardButton('Approve', callback_data='a:req-1')]])\n\
         said = await bot.send_message(update.effective_chat.id, 'Codex asks: ' + update.message.text, reply_markup=keys,\n\
         \x20   reply_to_message_id=update.message.message_id)\n\
         rest = await bot.get_updates(offset=update.update_id + 1, timeout=0)\n\
         print(json.dumps([said.message_id, said.chat.type, said.date.year, update.message.from_user.first_name, len(rest)]))",
    )
    .await;
    assert_eq!(
        (&asked[1], &asked[3], &asked[4]),
        (&"private".into(), &"User 42".into(), &0.into()),
        "{asked}"
    );
    let said = server.said().remove(0);
    assert_eq!((said.text.as_str(), said.answers), ("Codex asks: hello & goodbye +1", Some(written)));
    assert_eq!((asked[0].as_i64(), server.unconfirmed()), (Some(said.message_id), 0));

    let tap = server.tap(ADA, &said, &said.button("Approve").unwrap());
    let edited = run(
        &server,
        TOKEN,
        "query = (await bot.get_updates(timeout=5))[0].callback_query\n\
         await query.answer(text='Codex has taken it.')\n\
         edited = await query.edit_message_text(query.message.text + ' approved')\n\
         print(json.dumps([query.data, query.from_user.id, edited.text, edited.reply_markup is None]))",
    )
    .await;
    assert_eq!(edited.to_string(), r#"["a:req-1",42,"Codex asks: hello & goodbye +1 approved",true]"#);
    assert_eq!(server.toasts(), [(tap, "Codex has taken it.".to_owned())]);
    assert_eq!((server.said()[0].edits, server.said()[0].button("Approve")), (1, None));
}

#[tokio::test]
async fn every_refusal_of_the_stand_in_is_one_that_the_library_knows() {
    let server = Server::open(TOKEN).await;
    server.migrate(GROUP, MOVED);
    server.have("sendMessage", flooded(7));
    server.have("getUpdates", Day::Refuses(Answer::json(409, serde_json::json!({
        "ok": false, "error_code": 409, "description": "Conflict: terminated by other getUpdates request",
    }))));
    let script = format!(
        "async def fails(call):\n\
         \x20   try:\n\
         \x20       await call\n\
         \x20   except error.TelegramError as it:\n\
         \x20       return [type(it).__name__, str(it)]\n\
         flood = await fails(bot.send_message({ADA}, 'x'))\n\
         gone = await fails(bot.send_message({BLOCKED}, 'x'))\n\
         moved = await fails(bot.send_message({GROUP}, 'x'))\n\
         long = await fails(bot.send_message({ADA}, 'x' * 4097))\n\
         keys = InlineKeyboardMarkup([[InlineKeyboardButton('A', callback_data='x' * 65)]])\n\
         data = await fails(bot.send_message({ADA}, 'x', reply_markup=keys))\n\
         said = await bot.send_message({ADA}, 'x')\n\
         same = await fails(bot.edit_message_text('x', {ADA}, said.message_id))\n\
         conflict = await fails(bot.get_updates(timeout=0))\n\
         print(json.dumps([flood, gone, moved, long, data, same, conflict]))"
    );
    let told = run(&server, TOKEN, &script).await;
    let names: Vec<&str> = told.as_array().unwrap().iter().map(|one| one[0].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["RetryAfter", "Forbidden", "ChatMigrated", "BadRequest", "BadRequest", "BadRequest", "Conflict"],
        "{told:#}"
    );
    assert!(told[0][1].as_str().unwrap().contains("7 seconds"), "{told:#}");
    assert!(told[2][1].as_str().unwrap().contains(&MOVED.to_string()), "{told:#}");
    assert!(told[5][1].as_str().unwrap().to_lowercase().contains("not modified"), "{told:#}");
}

#[tokio::test]
async fn formatting_and_files_of_the_library_are_taken_and_wrong_ones_refused() {
    let server = Server::open(TOKEN).await;
    let told = run(
        &server,
        TOKEN,
        "from telegram import MessageEntity\n\
         bold = await bot.send_message(42, '𝄞 bold', entities=[MessageEntity('bold', offset=3, length=4)])\n\
         file = await bot.send_document(42, document=b'# A report\\r\\n--x\\n', filename='answer.md', caption='all of it')\n\
         try:\n\
         \x20   await bot.send_message(42, 'short', entities=[MessageEntity('bold', offset=3, length=40)])\n\
         except error.BadRequest as refused:\n\
         \x20   print(json.dumps([bold.parse_entities()[bold.entities[0]], file.document.file_name, str(refused)]))",
    )
    .await;
    assert_eq!((&told[0], &told[1]), (&"bold".into(), &"answer.md".into()), "{told}");
    let said = server.said();
    assert_eq!(said[0].styled("bold"), ["bold"]);
    let file = Some(("answer.md".to_owned(), "# A report\r\n--x\n".to_owned()));
    assert_eq!((&said[1].file, said[1].text.as_str(), said.len()), (&file, "all of it", 2));
}
