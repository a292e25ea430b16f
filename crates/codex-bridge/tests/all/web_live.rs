//! Open pages stay right: across a reload in mid-message, and across a restart of the daemon.

use scripted_model::Scenario;

use crate::web_rig::{Site, assert_content};

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_mid_message_shows_what_is_written_and_goes_on() {
    let site = Site::new().await;
    let story = Scenario::new()
        .delta("The quick brown ")
        .stall("one")
        .delta("fox ")
        .stall("two")
        .delta("jumps.")
        .reason("Nobody saw the dog. That is well. ");
    site.shell.model.script("slowly", story);
    let page = site.visitor("anna", "operator").await;
    let id = site.shell.start("slowly").await;
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    site.stalled("one").await;
    let writes = |text: &str| format!("document.querySelector('#live-text').textContent === {text:?}");
    page.wait_for(&writes("The quick brown ")).await;
    page.reload().await;
    page.wait_for(&writes("The quick brown ")).await;
    site.shell.model.release("one");
    site.stalled("two").await;
    page.wait_for(&writes("The quick brown fox ")).await;
    page.reload().await;
    page.wait_for(&writes("The quick brown fox ")).await;
    site.shell.model.release("two");
    page.wait_for("document.querySelector('#head .badge').textContent === 'done'").await;
    page.see("The quick brown fox jumps.").await;
    assert_eq!(page.text("main").await.matches("quick brown").count(), 1);
    page.wait_for("document.querySelector('#timeline .thought:not([open])')?.textContent.includes('Nobody saw the dog.')")
        .await;
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_goes_on_when_the_daemon_was_restarted() {
    let site = Site::new().await;
    let story = Scenario::new()
        .say("First I look.")
        .exec("true")
        .then()
        .delta("Then, after a while, ")
        .stall("long")
        .delta("I wait.");
    site.shell.model.script("wait", story);
    let page = site.visitor("anna", "operator").await;
    let (id, _) = site.shell.start_asking("wait").await;
    site.shell.run(&["approve", &id]).await.ok();
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    site.stalled("long").await;
    page.see("First I look.").await;
    page.evaluate("window.__same = true").await;

    site.shell.run(&["stop"]).await.ok();
    page.wait_for("!document.querySelector('#offline').hidden").await;
    site.shell.run(&["ps"]).await.ok();
    page.wait_for("document.querySelector('#offline').hidden").await;
    site.shell.model.release("long");
    page.wait_for("document.querySelector('#head .badge').textContent === 'done'").await;
    page.see("Then, after a while, I wait.").await;
    assert_eq!(page.evaluate("window.__same").await, true, "it is still the same page");
    assert_eq!(page.text("#timeline").await.matches("First I look.").count(), 1);
    page.reload().await;
    page.see("Then, after a while, I wait.").await;
    let complaints: Vec<String> =
        page.complaints().into_iter().filter(|it| !it.starts_with("network:")).collect();
    assert_eq!(complaints, Vec::<String>::new());
    site.end().await;
}
