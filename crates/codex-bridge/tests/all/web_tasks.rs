//! A task on the page: start, watch, approve, see the changes, steer, interrupt, continue.

use codex_bridge_core::id::short;
use scripted_model::{Phase, Scenario, ToolCall};

use crate::web_rig::{Site, assert_content, decide, picture};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_handed_over_watched_approved_and_its_change_seen() {
    let site = Site::new().await;
    let story = Scenario::new().say_as(Phase::Commentary, "I will write **note.txt**.");
    let story = story.call(ToolCall::add_file("note.txt", "hello\nworld\n"));
    let story =
        story.then_exec("cat note.txt").then().delta("Done: `note.txt` is ").stall("end").delta("there.");
    site.shell.model.script("write a note", story);
    let page = site.visitor("anna", "approver").await;
    let id = site.start_by_form(&page, "write a note", "workspace-write").await;

    // It asks, and the page says so by itself.
    page.see("Let Codex change files?").await;
    page.wait_for("document.title.startsWith('(1) ')").await;
    let card = page.text(".request").await;
    for part in ["write a note", "note.txt", "+hello", "+world", short(&id)] {
        assert!(card.contains(part), "{part} in {card}");
    }
    assert_eq!(page.evaluate("!!document.querySelector('.message strong')").await, true, "Markdown is drawn");
    page.screenshot(&picture("task-asking-desktop")).await;
    decide(&page, ".request button[value=accept]").await;
    page.see("approved by token anna").await;
    page.wait_for("document.querySelector('.request .command')?.textContent.includes('cat note.txt')").await;
    decide(&page, ".request button[value=acceptForSession]").await;

    // It writes, and the page shows it while it does.
    site.stalled("end").await;
    page.wait_for("document.querySelector('#live-text').textContent.includes('Done: `note.txt` is')").await;
    assert!(!page.text("body").await.contains("there."));
    site.shell.model.release("end");
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    page.wait_for("document.querySelector('#live').hidden").await;
    page.wait_for("document.title.startsWith('write a note')").await;
    let shown = page.text("#timeline").await;
    for part in ["$ cat note.txt", "1 file changed", "+hello", "+world", "Done: note.txt is there."] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(shown.matches("is there.").count(), 1, "{shown}");
    let added = page.evaluate("document.querySelector('#timeline .diff .add').textContent").await;
    assert_eq!(added, "+hello\n+world\n");
    let live = page.evaluate("document.querySelector('#timeline').innerText").await;
    page.reload().await;
    assert_eq!(
        page.evaluate("document.querySelector('#timeline').innerText").await,
        live,
        "live or loaded is the same"
    );
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_turn_is_steered_and_interrupted_and_goes_on_in_a_branch() {
    let site = Site::new().await;
    let story = Scenario::new().delta("Counting sheep, one by one, ").stall("sheep").delta(" for ever.");
    site.shell.model.script("count sheep", story);
    let black = Scenario::new().delta("And black ones, one by one, ").stall("black").delta("for ever.");
    site.shell.model.script("black ones too", black);
    site.shell.model.script("count goats", Scenario::new().say("One goat."));
    site.shell.model.script("count cows", Scenario::new().say("One cow."));
    let page = site.visitor("olga", "operator").await;
    let id = site.start_by_form(&page, "count sheep", "read-only").await;
    site.stalled("sheep").await;
    page.see("Counting sheep").await;

    page.type_into("#text", "black ones too").await;
    page.click_through("button[formaction$='/steer']").await;
    page.see("Codex has added your text").await;
    let audit = site.shell.run(&["--json", "audit", &id]).await.ok().json();
    let steered = audit.as_array().unwrap().iter().find(|line| line["action"] == "steer");
    assert_eq!(steered.unwrap_or_else(|| panic!("{audit:#}"))["by"], "token olga");
    site.shell.model.release("sheep");
    page.see("And black ones").await;
    page.click_through("button[formaction$='/interrupt']").await;
    page.see("The turn was interrupted.").await;
    page.wait_for("document.querySelector('#head .badge').textContent === 'cancelled'").await;

    page.type_into("#text", "count goats").await;
    page.click_through("button[formaction$='/continue']").await;
    page.see("One goat.").await;
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    page.type_into("#text", "count cows").await;
    page.click_through("button[formaction$='/fork']").await;
    page.see("This is the fork.").await;
    page.see("One cow.").await;
    let branch = page.evaluate("document.querySelector('#task').dataset.task").await;
    assert_ne!(branch, id.as_str());
    assert_content(&page, &site);
    site.shell.model.release("black");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_live_filtered_and_searched() {
    let site = Site::new().await;
    site.shell
        .model
        .script("sleep", Scenario::new().delta("zzz zzz zzz ").stall("morning").delta("good morning."));
    let page = site.visitor("vera", "viewer").await;
    page.see("No tasks yet").await;
    assert_eq!(
        page.evaluate("document.querySelector('#new')").await,
        serde_json::Value::Null,
        "viewers start nothing"
    );
    let sleeper = site.shell.start("sleep").await;
    page.wait_for("document.querySelector('.task .badge')?.textContent === 'working'").await;
    site.shell.run(&["--json", "run", "say hello"]).await.ok();
    page.wait_for("document.querySelectorAll('.task').length === 2").await;
    page.wait_for(
        "[...document.querySelectorAll('.task .badge')].map(it => it.textContent).join() === 'completed,working'",
    )
    .await;
    page.goto(&site.address("/tasks?state=completed")).await;
    assert_eq!(page.evaluate("document.querySelectorAll('.task').length").await, 1);
    page.type_into(".search input[type=search]", "SLEE").await;
    page.click_through(".search button").await;
    page.see("No matching tasks").await;
    page.goto(&site.address("/tasks?q=SLEE")).await;
    assert!(page.text(".task").await.contains("sleep"));
    page.goto(&site.address(&format!("/tasks/{sleeper}"))).await;
    page.see("zzz").await;
    assert_eq!(
        page.evaluate("document.querySelectorAll('main form').length").await,
        0,
        "viewers change nothing"
    );
    site.shell.model.release("morning");
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    assert_content(&page, &site);
    site.end().await;
}
