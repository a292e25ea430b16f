//! The stand-in of Discord and a library that others write for the real one, discord.py: it connects, resumes and keeps its
//! connection, what it sends is taken, what it reads is what it expects, and every refusal is one that it knows.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::platform::Day;
use testkit::platform::discord::server::{BLOCKED, BOT, GENERAL, HIDDEN, Server, direct, limited};

const TOKEN: &str = "NDcxMQ.token.of-the-library";
const ADA: u64 = 42;

/// Runs a script with `client`, a connected client of the library's, in it; gives the last line that it printed, read as JSON.
/// The addresses of Discord are class variables of the library, and nothing else of it is changed.
async fn run(server: &Server, token: &str, script: &str) -> Value {
    let start = "import asyncio, json, sys, discord, yarl\nfrom discord.gateway import DiscordWebSocket\n\
        discord.http.Route.BASE = sys.argv[1]\nDiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(sys.argv[2])\n\
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)\n\
        client = discord.Client(intents=intents, max_messages=100)\nready = asyncio.Event()\ndiscord.utils.setup_logging()\n\
        @client.event\nasync def on_ready():\n    ready.set()\n\
        async def main():\n    async with client:\n        task = asyncio.create_task(client.start(sys.argv[3]))\n\
        \x20       waits = asyncio.create_task(ready.wait())\n\
        \x20       await asyncio.wait([task, waits], return_when=asyncio.FIRST_COMPLETED, timeout=10)\n";
    let body = format!("        {}\n", script.replace('\n', "\n        "));
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/discord-py/bin/python");
    let mut command = Command::new(python);
    command.args(["-c", &format!("{start}{body}asyncio.run(asyncio.wait_for(main(), 20))\n")]);
    command.args([server.base(), server.gateway(), token.to_owned()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.expect("the library is there after `cargo xtask setup`");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

#[tokio::test]
async fn a_bot_of_the_library_talks_with_people_on_the_stand_in() {
    let server = Server::open(TOKEN).await;
    server.set_heartbeat(Duration::from_millis(500));
    let people = async {
        server.until("the bot to be ready", |server| server.typing(GENERAL).first().copied()).await;
        let written = server.write_in(ADA, GENERAL, &format!("<@{BOT}> hello"));
        let said = server.until_said(GENERAL, "Codex asks").await;
        assert_eq!(said.answers, Some(written));
        // The library knows its buttons once it has the answer to its message.
        let has = |server: &Server| server.reactions(written).contains(&"👍".to_owned()).then_some(());
        server.until("the library to have its answer", has).await;
        let tap = server.tap(ADA, &said, &said.button("Approve").unwrap());
        server.until_said(GENERAL, "approved").await;
        server
            .until("a word to who tapped", |server| server.toasts().into_iter().find(|(id, _)| *id == tap))
            .await;
        server.until("heartbeats", |server| (server.heartbeats().len() >= 2).then_some(())).await;
        server.drop_connections();
        let after = server.write(ADA, "after a break");
        server
            .until("it to be read", |server| server.reactions(after).contains(&"👀".to_owned()).then_some(()))
            .await;
        server.typing(direct(ADA)).len()
    };
    let script = "said = []\n\
        async def tapped(interaction):\n\
        \x20   await interaction.response.defer()\n\
        \x20   await interaction.message.edit(content=interaction.message.content + ' approved', view=None)\n\
        \x20   await interaction.followup.send('Codex has it', ephemeral=True)\n\
        async def on_message(message):\n\
        \x20   if message.author == client.user:\n\
        \x20       return\n\
        \x20   said.append([message.clean_content, message.author.display_name, message.guild is None, client.user in message.mentions])\n\
        \x20   if message.guild is None:\n\
        \x20       async with message.channel.typing():\n\
        \x20           await message.add_reaction('👀')\n\
        \x20       return\n\
        \x20   view = discord.ui.View()\n\
        \x20   button = discord.ui.Button(label='Approve', custom_id='a:req-1', style=discord.ButtonStyle.green)\n\
        \x20   button.callback = tapped\n\
        \x20   view.add_item(button)\n\
        \x20   await message.reply('Codex asks', view=view, mention_author=False)\n\
        \x20   await message.add_reaction('👍')\n\
        client.event(on_message)\n\
        await client.get_channel(6000).typing()\n\
        for _ in range(300):\n\
        \x20   if len(said) < 2:\n\
        \x20       await asyncio.sleep(0.05)\n\
        assert len(said) == 2, said\n\
        await asyncio.sleep(0.3)\n\
        print(json.dumps([said, client.guilds[0].get_channel(6000).name, client.user.name]))";
    let (told, typed) = tokio::join!(run(&server, TOKEN, script), people);
    assert_eq!(
        told.to_string(),
        r#"[[["<@4711> hello","User 42",false,true],["after a break","User 42",true,false]],"general","codex"]"#
    );
    assert_eq!((typed >= 1, server.sessions()), (true, (1, 1)), "the library resumes its session");
    assert_eq!(server.failed_taps(), Vec::<u64>::new());
    assert_eq!(server.said()[0].components, serde_json::json!([]), "the buttons are gone");
}

#[tokio::test]
async fn every_refusal_of_the_stand_in_is_one_that_the_library_knows() {
    let server = Server::open(TOKEN).await;
    let script = format!(
        "async def fails(call):\n\
         \x20   try:\n\
         \x20       await call\n\
         \x20   except discord.HTTPException as it:\n\
         \x20       return [type(it).__name__, it.status, it.code]\n\
         general = client.get_channel({GENERAL})\n\
         view = discord.ui.View()\n\
         view.add_item(discord.ui.Button(label='A', custom_id='x'))\n\
         view.add_item(discord.ui.Button(label='B', custom_id='x'))\n\
         long = await fails(general.send('x' * 2001))\n\
         empty = await fails(general.send('  '))\n\
         twice = await fails(general.send('x', view=view))\n\
         hidden = await fails(client.get_channel({HIDDEN}).send('x'))\n\
         person = client.get_partial_messageable({}, type=discord.ChannelType.private)\n\
         blocked = await fails(person.send('x'))\n\
         gone = await fails(general.get_partial_message(1).edit(content='x'))\n\
         first = await general.send('twin')\n\
         nonce = await general.send('once', nonce='a-nonce')\n\
         limit = await general.send('after a pause')\n\
         old = [message.content async for message in general.history(after=first, limit=10, oldest_first=True)]\n\
         print(json.dumps([long, empty, twice, hidden, blocked, gone, nonce.nonce, old]))",
        direct(BLOCKED)
    );
    // A refusal for its rate is waited out by the library.
    let limits = async {
        let has = |server: &Server| server.said().iter().any(|said| said.text == "once").then_some(());
        server.until("a message", has).await;
        server.have("createMessage", Day::Refuses(limited(0.4, false)));
    };
    let (told, ()) = tokio::join!(run(&server, TOKEN, &script), limits);
    let expected = r#"[["HTTPException",400,50035],["HTTPException",400,50006],["HTTPException",400,50035],["Forbidden",403,50001],["Forbidden",403,50007],["NotFound",404,10008],"a-nonce",["once","after a pause"]]"#;
    assert_eq!(told.to_string(), expected);
}

#[tokio::test]
async fn a_wrong_token_a_missing_intent_and_a_lost_session_are_what_the_library_takes_them_for() {
    let server = Server::open(TOKEN).await;
    let script = "print(json.dumps(type(task.exception()).__name__))";
    assert_eq!(run(&server, "wrong", script).await, "LoginFailure");
    server.refuse_intents();
    assert_eq!(run(&server, TOKEN, script).await, "PrivilegedIntentsRequired");

    let server = Server::open(TOKEN).await;
    let loses = async {
        server.until_connected().await;
        server.end_sessions();
        server.drop_connections();
        let again = |server: &Server| (server.sessions().0 == 2 && server.is_connected()).then_some(());
        server.until("another session", again).await;
    };
    let script =
        "ready.clear()\nawait asyncio.wait_for(ready.wait(), 60)\nprint(json.dumps(len(client.guilds)))";
    let (told, ()) = tokio::join!(run(&server, TOKEN, script), loses);
    assert_eq!((told, server.sessions()), (1.into(), (2, 0)));
}
