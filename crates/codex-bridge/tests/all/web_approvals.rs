//! Answering Codex on the page: by buttons, by forms, and by two people at once.

use scripted_model::{CodexConfig, Question, Scenario, ToolCall};
use serde_json::json;

use crate::web_rig::{Site, assert_content, picture};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_answer_the_second_is_told_who_was_first() {
    let site = Site::new().await;
    site.shell.model.script("touch it", Scenario::new().exec("touch it.txt").then_say("Touched."));
    let anna = site.visitor("anna", "approver").await;
    let bert = site.visitor("bert", "approver").await;
    let watcher = site.visitor("vera", "operator").await;
    for page in [&anna, &bert, &watcher] {
        page.goto(&site.address("/approvals")).await;
        page.see("Nobody waits for you").await;
    }
    let id = site.shell.start("touch it").await;
    for page in [&anna, &bert, &watcher] {
        page.see("touch it.txt").await;
        page.wait_for("document.title === '(1) Approvals – codex-bridge'").await;
    }
    let card = anna.text(".request").await;
    for part in
        ["Let Codex run a command?", "Directory", "Sandbox", "workspace-write", "Once", "Session", "Decline"]
    {
        assert!(card.contains(part), "{part} in {card}");
    }
    assert_eq!(watcher.evaluate("document.querySelectorAll('.request button').length").await, 0);

    // Bert's page is as it was when he decides.
    let form = bert.evaluate("document.querySelector('.request form').action").await;
    anna.click_through(".request button[value=decline]").await;
    anna.see("declined by token anna").await;
    bert.see("No answer is needed any more").await;
    let told = bert.text(".request").await;
    assert!(told.contains("declined by token anna"), "{told}");
    let late = format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {form}; \
         const field = document.createElement('input'); field.name = 'decision'; field.value = 'accept'; \
         form.append(field); document.body.append(form); form.submit(); }})()"
    );
    bert.evaluate(&late).await;
    bert.see("Your answer came too late.").await;
    let told = bert.text("#told").await;
    assert!(told.contains("declined by token anna at"), "{told}");
    bert.screenshot(&picture("approvals-late-desktop")).await;
    watcher.see("No answer is needed any more: declined by token anna").await;
    watcher.reload().await;
    watcher.see("Nobody waits for you").await;
    site.shell.run(&["wait", &id]).await;
    assert!(!site.shell.home.workspace().join("it.txt").exists(), "the first answer counts");
    for page in [&anna, &bert, &watcher] {
        assert_content(page, &site);
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_by_their_form() {
    let site = Site::new().await;
    let questions = [Question::yes_no("q1", "Shall I go on?")];
    let story = Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("Thank you.");
    site.shell.model.script("ask me", story);
    let page = site.visitor("anna", "approver").await;
    let id = site.shell.start("ask me").await;
    page.goto(&site.address("/approvals")).await;
    page.see("Shall I go on?").await;
    page.screenshot(&picture("approvals-question-desktop")).await;
    page.click(".choice").await;
    // Something else changes meanwhile: what is chosen stays chosen.
    site.shell.run(&["--json", "run", "say hello"]).await.ok();
    assert_eq!(page.evaluate("document.querySelector('.choice input').checked").await, true);
    page.click_through(".request button[value=answers]").await;
    page.see("answered by token anna").await;
    site.shell.run(&["wait", &id]).await.ok();
    let answered = site.shell.model.requests().iter().any(|request| {
        let output = request.body.to_string();
        output.contains("request_user_input") && output.contains("Yes")
    });
    assert!(answered, "the model has the answer");
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_an_mcp_server_is_filled_in() {
    let site = Site::new().await;
    let program = testkit::bin("scripted-model");
    let config = CodexConfig::new(site.shell.model.base_url());
    let config = config.mcp_server("desk", program.to_str().unwrap(), &["mcp-server"]);
    site.shell.home.write_config(&config.to_string());
    let call = ToolCall::mcp("desk", "ask", json!({"text": "Which colour?"}));
    site.shell.model.script("paint it", Scenario::new().call(call).then_say("Painted."));
    let page = site.visitor("anna", "approver").await;
    let id = site.shell.start("paint it").await;
    page.goto(&site.address("/approvals")).await;
    page.see("MCP server desk").await;
    if page.text(".request h2").await.contains("run a tool") {
        page.click_through(".request button[value=accept]").await;
    }
    page.see("MCP server desk asks for input").await;
    page.see("Which colour?").await;
    page.type_into(".request input[name='field.answer']", "green").await;
    page.click_through(".request button[value=form]").await;
    page.see("answered by token anna").await;
    site.shell.run(&["wait", &id]).await.ok();
    let has_answer = |body: String| body.contains("the user answered") && body.contains("green");
    assert!(site.shell.model.requests().iter().any(|request| has_answer(request.body.to_string())));
    assert_content(&page, &site);
    site.end().await;
}
