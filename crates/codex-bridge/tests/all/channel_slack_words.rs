//! What a model says, as people read it in Slack.

use scripted_model::Scenario;
use testkit::platform::slack::dm;

use crate::channel_slack::{ADA, Chat};

#[tokio::test]
async fn an_answer_arrives_as_it_was_written_with_its_formatting() {
    let chat = Chat::new().await;
    let answer = "## Done\n**bold** and *soft* `code` ~~no~~ [docs](https://example.com/a?b=1)\n\n```rust\nfn main() {}\n```\n\
        <@U0EVE> <!here> & <b> :smile: שלום \u{1f469}\u{200d}\u{1f4bb} e\u{301} src/**/*.rs __init__.py";
    chat.shell.model.script("tell me", Scenario::new().say(answer));
    chat.start().await;
    chat.server.write(ADA, "tell me");
    let said = chat.server.until_said(&dm(ADA), "Done").await;
    let shown = "Done\nbold and soft code no docs\n\nfn main() {}\n\
        <@U0EVE> <!here> & <b> :smile: שלום \u{1f469}\u{200d}\u{1f4bb} e\u{301} src/**/*.rs __init__.py";
    assert_eq!(said.text, shown);
    assert_eq!(said.styled("preformatted"), ["fn main() {}"]);
    assert_eq!(
        (said.styled("code"), said.styled("italic")),
        (vec!["code".to_owned()], vec!["soft".to_owned()])
    );
    assert!(said.blocks.to_string().contains("\"url\":\"https://example.com/a?b=1\""), "{}", said.blocks);
    chat.shell.end().await;
}

#[tokio::test]
async fn a_long_answer_takes_several_messages_and_a_very_long_one_is_a_file() {
    let chat = Chat::new().await;
    let line = |number: usize| format!("    fn line_{number}() -> usize {{ {number} }}\n");
    let lines = |count: usize| (0..count).map(line).collect::<Vec<_>>().concat();
    let answer = format!("```rust\n{}```\nThe end.", lines(300));
    let long = format!("# A report\n{}", lines(1_200));
    chat.shell.model.script("several", Scenario::new().say(answer.as_str()));
    chat.shell.model.script("a file", Scenario::new().say(long.as_str()));
    chat.start().await;
    chat.server.write(ADA, "several");
    chat.server.until_said(&dm(ADA), "The end.").await;
    let parts = chat.answers();
    assert!((3..=5).contains(&parts.len()), "{}", parts.len());
    let joined = parts.iter().map(|said| said.text.as_str()).collect::<Vec<_>>().join("\n");
    for number in 0..300 {
        assert_eq!(joined.matches(&format!("fn line_{number}()")).count(), 1, "{number}");
    }
    assert!(parts.iter().all(|said| said.styled("preformatted").len() == 1), "code stays code");
    chat.server.write(ADA, "a file");
    let file =
        chat.server.until("a file", |server| server.said().into_iter().find_map(|said| said.file)).await;
    assert_eq!((file.0.as_str(), file.1.trim_end()), ("answer.md", long.trim_end()));
    chat.shell.end().await;
}
