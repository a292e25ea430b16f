//! Decisions on the page: with buttons, with forms, and by two people at once.

use codex_bridge_core::id::short;
use scripted_model::{Question, Scenario, ToolCall};
use serde_json::{Value, json};
use testkit::browser::{Page, Width};

use crate::web_rig::{Site, assert_content, decide, picture};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_answer_the_second_is_told_who_was_first() {
    let site = Site::new().await;
    site.shell.model.script("touch it", Scenario::new().exec("touch it.txt").then_say("Touched."));
    let anna = site.visitor("anna", "approver").await;
    let bert = site.visitor("bert", "approver").await;
    let watcher = site.visitor("vera", "operator").await;
    for page in [&anna, &bert, &watcher] {
        page.goto(&site.address("/approvals")).await;
        page.see("No pending requests").await;
    }
    let id = site.shell.start("touch it").await;
    for page in [&anna, &bert, &watcher] {
        page.see("touch it.txt").await;
        page.wait_for("document.title === '(1) Approvals – codex-bridge'").await;
    }
    let card = anna.text(".request").await;
    for part in [
        "Let Codex run a command?",
        "Directory",
        "Sandbox",
        "workspace-write",
        "Approve once",
        "Approve for this task",
        "Decline",
    ] {
        assert!(card.contains(part), "{part} in {card}");
    }
    assert_eq!(watcher.evaluate("document.querySelectorAll('.request button').length").await, 0);

    // Bert's page is as it was when he decides.
    let form = bert.evaluate(FORM).await;
    decide(&anna, ".request button[value=decline]").await;
    anna.see("Your decision was recorded: declined by token anna").await;
    bert.see("This request is closed").await;
    let told = bert.text(".request").await;
    assert!(told.contains("declined by token anna"), "{told}");
    bert.evaluate(&late_yes(&form)).await;
    bert.see("was already answered: declined, by token anna").await;
    bert.screenshot(&picture("approvals-late-desktop")).await;
    watcher.see("This request is closed: declined by token anna").await;
    watcher.reload().await;
    watcher.see("No pending requests").await;
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
    decide(&page, ".request button[value=answers]").await;
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

/// A task whose MCP server asks by this form, and its card on the page.
async fn form_of(site: &Site, page: &Page, schema: &Value) -> String {
    site.shell.script_form("paint it", schema);
    let id = site.shell.start("paint it").await;
    page.goto(&site.address("/approvals")).await;
    page.see("MCP server desk").await;
    if page.text(".request h2").await.contains("run a tool") {
        decide(page, ".request button[value=accept]").await;
    }
    page.see("MCP server desk asks for input").await;
    page.see("Which colour?").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_an_mcp_server_is_filled_in() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]});
    let id = form_of(&site, &page, &schema).await;
    page.type_into(".request input[name='field.answer']", "green").await;
    decide(&page, ".request button[value=form]").await;
    page.see("answered by token anna").await;
    site.shell.run(&["wait", &id]).await.ok();
    assert!(site.shell.is_told("{\"answer\":\"green\"}"));
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_nobody_touched_says_its_defaults_and_nothing_else() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    let schema = json!({"type": "object", "required": ["colour"], "properties": {
        "dry_run": {"type": "boolean", "default": true, "title": "Dry run", "description": "Change nothing, only say what would be"},
        "colour": {"type": "string", "enum": ["red", "green"], "enumNames": ["Red", "Green"]},
        "sure": {"type": "boolean"},
        "note": {"type": "string"},
        "count": {"type": "integer", "minimum": 1, "maximum": 5},
    }});
    let id = form_of(&site, &page, &schema).await;
    assert_eq!(page.evaluate("document.querySelector('[name=\"field.dry_run\"]').checked").await, true);
    let options = "[...document.querySelectorAll('[name=\"field.colour\"]')].map(it => it.value).join()";
    assert_eq!(page.evaluate(options).await, "red,green");
    let count =
        "(it => [it.type, it.min, it.max, it.step].join())(document.querySelector('[name=\"field.count\"]'))";
    assert_eq!(page.evaluate(count).await, "number,1,5,1");
    page.screenshot_whole(&picture("approvals-form-desktop")).await;
    page.resize(Width::Phone).await;
    page.screenshot_whole(&picture("approvals-form-phone")).await;
    page.resize(Width::Desktop).await;

    // Values that the form does not offer are refused, by whichever door, and the sentence says what is allowed.
    let request = page.evaluate("document.querySelector('.request').dataset.key").await;
    let request = request.as_str().unwrap().to_owned();
    let sent = send(&format!("/approvals/{id}/{request}"), "decision=form&field.colour=blue");
    let refused = page.evaluate(&sent).await;
    assert_eq!(refused[0], 422, "{refused}");
    assert!(refused[1].as_str().unwrap().contains("colour must be one of: red | green"), "{refused}");
    let shell = site.shell.run(&["answer", &id, &request, "colour=green", "count=9"]).await;
    assert!(shell.code != 0 && shell.err.contains("count must be at most 5"), "{} {}", shell.out, shell.err);

    page.click("[name='field.colour'][value=green]").await;
    decide(&page, ".request button[value=form]").await;
    page.see("answered by token anna").await;
    site.shell.run(&["wait", &id]).await.ok();
    assert!(site.shell.is_told("{\"colour\":\"green\",\"dry_run\":true}"), "no more and no less");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_diff_is_shown_by_its_beginning_and_can_be_had_whole() {
    let site = Site::new().await;
    let lines: Vec<String> = (0..12_000).map(|number| format!("line {number} of the table\n")).collect();
    let change = Scenario::new().call(ToolCall::add_file("table.txt", &lines.concat())).then_say("Written.");
    site.shell.model.script("write the table", change);
    let page = site.visitor("anna", "approver").await;
    let id = site.start_by_form(&page, "write the table", "workspace-write").await;
    page.see("Let Codex change files?").await;
    let card = page.text(".request").await;
    assert!(card.contains("+line 0 of the table") && !card.contains("line 11999"), "the beginning is there");
    assert!(
        card.contains("more of the changes are covered by the decision"),
        "{}",
        &card[card.len() - 600..]
    );
    let weight = page.evaluate("document.documentElement.outerHTML.length").await.as_u64().unwrap();
    assert!(weight < 400_000, "the page stays small: {weight}");
    let link = page.text(".cut a.whole").await;
    assert!(link.starts_with("Open the whole diff, ") && link.ends_with(" KB"), "{link}");
    // The counts are those of the whole, and of what is shown.
    let shown = page
        .evaluate("document.querySelector('.request .diff .add').textContent.trim().split('\\n').length")
        .await;
    let counts = page.text(".request .plus").await;
    assert!(shown.as_u64().unwrap() > 100, "{shown}");
    let shown = shown.as_u64().unwrap();
    assert_eq!(counts, format!("+12,000, {},{:03} shown", shown / 1000, shown % 1000));
    page.evaluate("document.querySelector('.cut').scrollIntoView({block: 'center'})").await;
    page.screenshot(&picture("approvals-cut-desktop")).await;
    page.resize(Width::Phone).await;
    page.evaluate("document.querySelector('.cut').scrollIntoView({block: 'center'})").await;
    page.screenshot(&picture("approvals-cut-phone")).await;
    page.resize(Width::Desktop).await;

    // All lines are there, for the eye and for programs.
    let whole = "fetch(document.querySelector('.cut a.text').href).then(it => it.text())";
    let diff = page.evaluate(whole).await;
    let added = diff.as_str().unwrap().lines().filter(|line| line.starts_with("+line ")).count();
    assert_eq!((added, diff.as_str().unwrap().contains("+line 11999 of the table\n")), (12_000, true));
    let read = site.shell.run(&["requests", &id]).await.ok();
    assert!(
        read.out.contains("+line 11999 of the table") && !read.out.contains("cut:"),
        "the shell shows all"
    );
    let list = site.shell.run(&["requests"]).await.ok();
    assert!(
        list.out.contains(&format!("`codex-bridge requests {}` shows all", short(&id))),
        "the list says where"
    );
    let json = site.shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(json[0]["whole_changes_bytes"], diff.as_str().unwrap().len());
    assert!(json[0]["changes"][0]["diff"].as_str().unwrap().len() <= 64 * 1024);

    // Nobody agrees to what was not shown: neither by the button, nor by a form of their own.
    let buttons =
        "[...document.querySelectorAll('.request button')].map(it => it.value + ' ' + it.disabled).join()";
    assert_eq!(page.evaluate(buttons).await, "accept true,acceptForSession true,decline false,cancel false");
    assert!(page.text(".request .held").await.contains("Open the whole diff first"));
    let request = json[0]["request_id"].as_str().unwrap();
    let refused = page.evaluate(&send(&format!("/approvals/{id}/{request}"), "decision=accept")).await;
    assert_eq!(refused[0], 422, "{refused}");
    assert!(refused[1].as_str().unwrap().contains("open the whole diff first"), "{refused}");
    page.click(".cut a.whole").await;
    page.wait_for(
        "document.querySelector('.request .diff').textContent.includes('+line 11999 of the table')",
    )
    .await;
    assert_eq!(
        page.evaluate(buttons).await,
        "accept false,acceptForSession false,decline false,cancel false"
    );
    assert_eq!(page.text(".request .plus").await, "+12,000");
    assert_eq!(page.evaluate("!!document.querySelector('.request .held, .request .cut')").await, false);
    page.screenshot(&picture("approvals-opened-desktop")).await;
    decide(&page, ".request button[value=accept]").await;
    page.see("Your decision was recorded: approved by token anna").await;
    site.shell.run(&["wait", &id]).await.ok();
    let written = std::fs::read_to_string(site.shell.home.workspace().join("table.txt")).unwrap();
    assert_eq!(written.lines().count(), 12_000);
    page.goto(&site.address(&format!("/approvals/{id}/{request}"))).await;
    assert!(page.text(".cut a.whole").await.starts_with("Open the whole diff"), "also afterwards");
    let complaints: Vec<String> = page.complaints().into_iter().filter(|it| !it.contains("422")).collect();
    assert_eq!(complaints, Vec::<String>::new());
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_command_is_shown_whole() {
    let site = Site::new().await;
    let command = format!("printf '%s' '{}' > long.txt", "0123456789".repeat(10_240));
    site.shell.model.script("print it", Scenario::new().exec(&command).then_say("Printed."));
    let page = site.visitor("anna", "approver").await;
    let id = site.start_by_form(&page, "print it", "workspace-write").await;
    page.see("Let Codex run a command?").await;
    let shown = page.evaluate("document.querySelector('.request .command').textContent").await;
    let shown = shown.as_str().unwrap();
    assert!(shown.contains(&command), "{} characters, and none is missing", shown.len());
    page.screenshot(&picture("approvals-long-command-desktop")).await;
    let wide = page.evaluate("document.documentElement.scrollWidth - innerWidth").await;
    assert!(wide.as_i64().unwrap() <= 0, "{wide} px too wide");
    decide(&page, ".request button[value=decline]").await;
    site.shell.run(&["wait", &id]).await;
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_answers_after_the_limit_is_told_that_it_was_a_no() {
    let site = Site::with("answer_limit_s = 3").await;
    site.shell.model.script("touch it", Scenario::new().exec("touch it.txt").then_say("Not touched."));
    let page = site.visitor("anna", "approver").await;
    page.goto(&site.address("/approvals")).await;
    page.see("No pending requests").await;
    let id = site.shell.start("touch it").await;
    page.see("touch it.txt").await;
    assert!(page.text(".request .asker").await.contains("declined automatically at"), "the limit is shown");
    let form = page.evaluate(FORM).await;
    page.see("This request is closed: declined at").await;
    assert_eq!(page.evaluate("document.querySelectorAll('.request button').length").await, 0);
    page.screenshot(&picture("approvals-expired-desktop")).await;
    page.evaluate(&late_yes(&form)).await;
    page.see("expired before it was answered").await;
    site.shell.run(&["wait", &id]).await.ok();
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.see("nobody answered in time").await;
    assert!(!site.shell.home.workspace().join("it.txt").exists());
    assert_content(&page, &site);
    site.end().await;
}

/// Where a form goes, and what it says that was shown.
const FORM: &str =
    "(form => [form.action, form.elements.digest.value])(document.querySelector('.request form'))";

/// Sends a form with the secret of the tab, about what is shown; gives the status and the page.
fn send(path: &str, body: &str) -> String {
    let digest = "document.querySelector('.request form').elements.digest.value";
    format!(
        "fetch({path:?}, {{method: 'POST', body: new URLSearchParams({body:?} + '&digest=' + {digest}), \
         headers: {{accept: 'text/html', 'x-codex-bridge-tab': sessionStorage.getItem('tab')}}}})\
         .then(async it => [it.status, await it.text()])"
    )
}

/// Sends a yes by a form that is not on the page any more.
fn late_yes(form: &serde_json::Value) -> String {
    format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {form}[0]; \
         const fields = [['decision', 'accept'], ['digest', {form}[1]], ['tab', sessionStorage.getItem('tab')]]; \
         for (const [name, value] of fields) {{ \
         const field = document.createElement('input'); field.name = name; field.value = value; form.append(field); }} \
         document.body.append(form); form.submit(); }})()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_a_patch_is_folded_away_while_it_can_be_approved() {
    let site = Site::new().await;
    let files =
        ["a", "b", "c", "d", "e", "f"].map(|name| format!("*** Add File: {name}.txt\n+hello\n")).concat();
    let patch = format!("*** Begin Patch\n{files}*** Add File: setup.py\n+import os\n*** End Patch\n");
    site.shell.model.script("write them", Scenario::new().apply_patch(patch).then_say("Written."));
    let page = site.visitor("anna", "approver").await;
    site.start_by_form(&page, "write them", "workspace-write").await;
    page.see("setup.py").await;
    let seen = "[...document.querySelectorAll('.request .diff')].map(it => it.checkVisibility()).join()";
    assert_eq!(page.evaluate(seen).await, "true,true,true,true,true,true,true");
    site.end().await;
}
