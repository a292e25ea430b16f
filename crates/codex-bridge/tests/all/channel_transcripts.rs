//! Conversations as people read them in a chat of Telegram's, on the real Codex. The snapshots are there to be read: what a person
//! would stumble over in one of them is a fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scripted_model::{Question, Scenario, ToolCall};
use testkit::platform::telegram::server::{Said, Server};

use crate::channel_telegram::{ADA, BOB, Chat, EVE, GROUP, WORKING, is_progress};

/// A conversation that is written down as it goes.
struct Scene {
    chat: Chat,
    /// What was written down.
    lines: String,
    /// How each message of the bot looked when it was last written down.
    seen: BTreeMap<i64, String>,
    shows_progress: bool,
}

impl Scene {
    async fn open() -> Self {
        Self::with("").await
    }

    /// With these settings of the channel.
    async fn with(settings: &str) -> Self {
        let chat = Chat::new().await;
        let file = chat.shell.home.dir().join("config.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let channel = "[channels.telegram]\n";
        std::fs::write(&file, config.replace(channel, &format!("{channel}{settings}\n"))).unwrap();
        chat.start().await;
        Self { chat, lines: String::new(), seen: BTreeMap::new(), shows_progress: false }
    }

    fn script(&self, prompt: &str, scenario: Scenario) {
        self.chat.shell.model.script(prompt, scenario);
    }

    /// Somebody writes in a private chat.
    fn writes(&mut self, who: i64, text: &str) -> i64 {
        self.note(name(who), text);
        self.chat.server.write(who, text)
    }

    fn writes_in_the_group(&mut self, who: i64, text: &str) -> i64 {
        self.note(name(who), text);
        self.chat.server.write_in(who, GROUP, None, text)
    }

    /// Somebody taps a button, and is told the result.
    async fn taps(&mut self, who: i64, said: &Said, button: &str) {
        let data = said.button(button).unwrap_or_else(|| panic!("{button} in {said:#?}"));
        let tap = self.chat.server.tap(who, said, &data);
        let told = self.chat.told(&tap).await;
        let toast = if told.is_empty() { String::new() } else { format!(" and is told: {told}") };
        writeln!(self.lines, "({} taps {button}{toast})", name(who)).unwrap();
    }

    /// Waits for words of the bot in this chat, and writes down all that is new or changed there.
    async fn reads(&mut self, chat: i64, words: &str) -> Said {
        let said = self.chat.server.until_said(chat, words).await;
        let news: Vec<Said> = self.chat.server.said().into_iter().filter(|one| one.chat == chat).collect();
        let shows_progress = self.shows_progress;
        for one in news.iter().filter(|one| shows_progress || !is_progress(one)) {
            let shown = shown(one);
            match self.seen.insert(one.message_id, shown.clone()) {
                None => self.note("Codex", &shown),
                Some(before) if before != shown => {
                    self.note("Codex, in place of what it wrote before", &shown);
                }
                Some(_) => {}
            }
        }
        said
    }

    async fn reacted(&mut self, chat: i64, message: i64, sign: &str) {
        let has = |server: &Server| server.reactions(chat, message).contains(&sign.to_owned()).then_some(());
        self.chat.server.until(sign, has).await;
        writeln!(self.lines, "(Codex reacts with {sign})").unwrap();
    }

    fn note(&mut self, who: &str, text: &str) {
        writeln!(self.lines, "{who}:").unwrap();
        text.lines().for_each(|line| writeln!(self.lines, "    {line}").unwrap());
    }

    /// Ends the scene. What differs from run to run is replaced.
    async fn end(self) -> String {
        let home = self.chat.shell.home.dir().display().to_string();
        self.chat.shell.end().await;
        let people = [ADA, BOB, EVE].map(|who| (format!("User {who}"), name(who)));
        let lines = people.iter().fold(self.lines, |lines, (shown, name)| lines.replace(shown, name));
        timeless(&lines.replace(&home, "~"))
    }
}

fn name(who: i64) -> &'static str {
    match who {
        ADA => "Ada",
        BOB => "Bob",
        _ => "Eve",
    }
}

/// A message as its reader sees it: code between backticks, buttons in brackets.
fn shown(said: &Said) -> String {
    let mut shown = said.text.clone();
    if let Some((name, content)) = &said.file {
        write!(shown, "[file {name}, {} lines]", content.lines().count()).unwrap();
    }
    for row in said.buttons.as_array().into_iter().flatten() {
        let labels =
            row.as_array().into_iter().flatten().map(|key| format!("[{}]", key["text"].as_str().unwrap()));
        write!(shown, "\n{}", labels.collect::<Vec<_>>().join(" ")).unwrap();
    }
    shown
}

/// Replaces ids, times and durations.
fn timeless(text: &str) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let id = ["codex-", "req-"].into_iter().find(|start| rest.starts_with(start));
        let hex = |text: &str| text.chars().take_while(char::is_ascii_hexdigit).count();
        if let Some(start) = id.filter(|start| hex(&rest[start.len()..]) >= 12) {
            write!(done, "{start}…").unwrap();
            rest = &rest[start.len() + hex(&rest[start.len()..])..];
        } else if char.is_ascii_digit() {
            let number =
                rest.chars().take_while(|char| char.is_ascii_digit() || ".,:".contains(*char)).count();
            let behind = &rest[number..];
            let is_time =
                behind.starts_with(" s ") || behind.starts_with(" UTC") || behind.starts_with(" tokens");
            done.push_str(if is_time { "N" } else { &rest[..number] });
            rest = behind;
        } else {
            done.push(char);
            rest = &rest[char.len_utf8()..];
        }
    }
    done
}

#[tokio::test]
async fn a_first_question() {
    let mut scene = Scene::open().await;
    let answer = "It parses the file **twice**:\n\n1. once for `[bin]`\n2. once for `[[bin]]`\n\n```rust\nlet x = &y[0];\n```\n\nSee [the docs](https://doc.example/bin).";
    scene.script("Why is it slow?", Scenario::new().say(answer));
    scene.writes(ADA, "Why is it slow?");
    scene.reads(ADA, "See the docs").await;
    scene.writes(ADA, "/usage");
    scene.reads(ADA, "of work").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn long_work_shows_what_it_does() {
    let mut scene = Scene::open().await;
    scene.shows_progress = true;
    let work = Scenario::new().exec("ls").then_exec("pwd").then().stall("gate").say("All tests pass.");
    scene.script("Run the tests.", work);
    scene.writes(ADA, "Run the tests.");
    scene.chat.server.until_said(ADA, "$ pwd").await;
    scene.reads(ADA, WORKING).await;
    scene.chat.shell.model.release("gate");
    scene.chat.server.until_said(ADA, "Done in ").await;
    scene.reads(ADA, "All tests pass.").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn an_approval() {
    let mut scene = Scene::open().await;
    let asks = Scenario::new().call(ToolCall::exec_escalated("touch made.txt", "It marks the release."));
    scene.script("Mark the release.", asks.then_say("It is marked."));
    scene.writes(ADA, "Mark the release.");
    scene.chat.with_button("Approve once").await;
    let asked = scene.reads(ADA, "Let Codex run").await;
    scene.writes(ADA, "yes");
    scene.reads(ADA, "Codex waits for your decision").await;
    scene.taps(ADA, &asked, "Approve once").await;
    scene.chat.server.until_said(ADA, "Approved by").await;
    scene.reads(ADA, "It is marked.").await;
    scene.taps(ADA, &asked, "Approve once").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn a_no_with_a_comment() {
    let mut scene = Scene::open().await;
    let asks = Scenario::new().call(ToolCall::exec_escalated("touch prod.txt", "It deploys."));
    scene.script("Deploy it.", asks.then_say("I did not deploy to production."));
    let staged = Scenario::new().say("Understood: I deployed to staging.");
    scene.chat.shell.model.script_containing("Use staging.", staged);
    scene.writes(ADA, "Deploy it.");
    scene.chat.with_button("Approve once").await;
    let asked = scene.reads(ADA, "Let Codex run").await;
    scene.taps(ADA, &asked, "Decline with a comment").await;
    scene.writes(ADA, "Use staging.");
    scene.chat.server.until_said(ADA, "Declined by").await;
    scene.reads(ADA, "deployed to staging").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn two_questions() {
    let mut scene = Scene::open().await;
    let questions = [
        Question::yes_no("tests", "Shall I write tests as well?"),
        Question::yes_no("docs", "And the documentation?"),
    ];
    let asks = Scenario::new().call(ToolCall::request_user_input(&questions));
    scene.script("Add the flag.", asks.then_say("Done, with tests and without docs."));
    scene.writes(ADA, "Add the flag.");
    let first = scene.reads(ADA, "Shall I write tests").await;
    scene.taps(ADA, &first, "Yes").await;
    let second = scene.reads(ADA, "And the documentation?").await;
    scene.taps(ADA, &second, "No").await;
    scene.chat.server.until_said(ADA, "Answered by").await;
    scene.reads(ADA, "without docs").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn more_is_written_while_codex_works() {
    let mut scene = Scene::open().await;
    scene.script("Begin.", Scenario::new().stall("gate").say("Begun."));
    scene.script("Then this instead.", Scenario::new().say("Did this instead."));
    scene.writes(ADA, "Begin.");
    scene.chat.shell.model.wait_for_stall("gate").await;
    let waiting = scene.writes(ADA, "Then that.");
    scene.reacted(ADA, waiting, "👀").await;
    scene.note("Ada, editing that message", "Then this instead.");
    scene.chat.server.edit(waiting, "Then this instead.");
    scene.reads(ADA, "taken over").await;
    scene.writes(ADA, "/queue");
    scene.reads(ADA, "1. ").await;
    scene.chat.shell.model.release("gate");
    scene.chat.server.until_said(ADA, "Begun.").await;
    scene.reads(ADA, "Did this instead.").await;
    scene.note("Ada, editing it once more", "Never mind.");
    scene.chat.server.edit(waiting, "Never mind.");
    scene.reads(ADA, "already has this message").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn something_breaks() {
    let mut scene = Scene::open().await;
    scene.script("Try it.", Scenario::new().fail("invalid_prompt", "the request was not accepted"));
    scene.writes(ADA, "Try it.");
    let failed = scene.reads(ADA, "This did not work").await;
    scene.taps(ADA, &failed, "Details").await;
    scene.reads(ADA, "Kind: ").await;
    scene.script("Try it.", Scenario::new().say("It worked this time."));
    scene.taps(ADA, &failed, "Retry").await;
    scene.reads(ADA, "It worked this time.").await;
    scene.writes(ADA, "/statsu");
    scene.reads(ADA, "There is no command").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn a_stranger_is_let_in() {
    let mut scene = Scene::with("pairing = true").await;
    scene.writes(EVE, "Hello?");
    let told = scene.reads(EVE, "codex-bridge channel allow ").await;
    let code = told.text.rsplit(' ').next().unwrap().to_owned();
    let allowed = scene.chat.shell.run(&["channel", "allow", &code]).await.ok();
    scene.note(
        "the operator, at a terminal",
        &format!("$ codex-bridge channel allow {code}\n{}", allowed.out),
    );
    scene.script("Hello again.", Scenario::new().say("Hello, Eve."));
    scene.writes(EVE, "Hello again.");
    scene.reads(EVE, "Hello, Eve.").await;
    scene.writes(EVE, "/whoami");
    scene.reads(EVE, "You are").await;
    let lines = scene.end().await;
    insta::assert_snapshot!(lines.replace(&code, "CODE"));
}

#[tokio::test]
async fn a_group() {
    let mut scene = Scene::open().await;
    let asks = Scenario::new().call(ToolCall::exec_escalated("touch made.txt", "It is needed."));
    scene.script("Release it, please.", asks.then_say("Released. Thanks, @ada_l."));
    scene.writes_in_the_group(BOB, "Lunch?");
    scene.writes_in_the_group(BOB, "@codex_bot Release it, please.");
    scene.chat.with_button("Approve once").await;
    let asked = scene.reads(GROUP, "Let Codex run").await;
    scene.taps(BOB, &asked, "Approve once").await;
    scene.taps(EVE, &asked, "Approve once").await;
    scene.taps(ADA, &asked, "Approve once").await;
    scene.chat.server.until_said(GROUP, "Approved by").await;
    scene.reads(GROUP, "Released.").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn the_commands() {
    let mut scene = Scene::with("models = [\"small\", \"large\"]").await;
    for (prompt, answer) in [("First thing.", "One."), ("Second thing.", "Two."), ("More of it.", "Three.")] {
        scene.script(prompt, Scenario::new().say(answer));
    }
    scene.writes(ADA, "/help");
    scene.reads(ADA, "/whoami").await;
    scene.writes(ADA, "First thing.");
    scene.reads(ADA, "One.").await;
    for (command, reply) in [
        ("/status", "Last asked"),
        ("/model", "The operator"),
        ("/model large", "uses large"),
        ("/effort high", "effort high"),
        ("/project", "Codex can work in"),
        ("/new", "begins a new conversation"),
    ] {
        scene.writes(ADA, command);
        let reply = if command == "/model" { "/model NAME" } else { reply };
        scene.reads(ADA, reply).await;
    }
    scene.writes(ADA, "Second thing.");
    scene.reads(ADA, "Two.").await;
    scene.writes(ADA, "/list");
    scene.reads(ADA, "1. Second thing.").await;
    scene.writes(ADA, "/switch 2");
    scene.reads(ADA, "From here on this goes on").await;
    scene.writes(ADA, "More of it.");
    scene.reads(ADA, "Three.").await;
    insta::assert_snapshot!(scene.end().await);
}

#[tokio::test]
async fn answers_that_are_too_long() {
    let mut scene = Scene::open().await;
    let table = "| file | lines |\n|---|---|\n| src/main.rs | 120 |\n| src/lib.rs | 9 |";
    scene.script("A table, please.", Scenario::new().say(table));
    let long: Vec<String> = (0..1_200).map(|number| format!("Line {number} of the report.")).collect();
    scene.script("The whole report.", Scenario::new().say(long.join("\n")));
    scene.writes(ADA, "A table, please.");
    scene.reads(ADA, "src/lib.rs").await;
    scene.writes(ADA, "The whole report.");
    let is_file = |server: &Server| server.said().into_iter().find(|said| said.file.is_some());
    scene.chat.server.until("the file", is_file).await;
    scene.chat.server.until_said(ADA, "in the file below").await;
    let beginning = scene.chat.server.until_said(ADA, "in the file below").await;
    let kept: Vec<&str> = beginning.text.lines().collect();
    let (first, last) = (kept[0], kept[kept.len() - 1]);
    scene.note("Codex", &format!("{first}\n({} lines)\n{last}", kept.len() - 2));
    let file = scene.chat.server.until("the file", is_file).await;
    scene.note("Codex", &shown(&file));
    insta::assert_snapshot!(scene.end().await);
}
