//! The pages: who may see them, how they look, and that they work without a script.

use scripted_model::{Phase, Scenario, ToolCall};
use testkit::browser::{Page, Width};

use crate::web_rig::{Site, assert_content, at_rest, picture};

/// Tasks of all kinds, for pictures: one done, one that waits to change files, one that waits for a command.
async fn furnish(site: &Site) -> Vec<String> {
    let model = &site.shell.model;
    let report = "The parser dropped the last field when a line had no newline at its end.\n\n\
        - `split` now keeps what is left\n- `a,b` gives both fields\n\n| case | before | now |\n|---|---|---|\n| `a,b` | `a` | `a`, `b` |\n";
    let patch = "*** Begin Patch\n*** Update File: fields.py\n@@\n def split(line):\n-    return line.split(',')[:-1]\n\
        +    fields = line.rstrip('\\n').split(',')\n+    return fields\n*** End Patch";
    std::fs::write(
        site.shell.home.workspace().join("fields.py"),
        "def split(line):\n    return line.split(',')[:-1]\n",
    )
    .unwrap();
    let fixed = Scenario::new().say_as(Phase::Commentary, "First I try it, to see it fail.");
    let check = "from fields import split\nassert split('a,b') == ['a', 'b'], split('a,b')\n";
    std::fs::write(site.shell.home.workspace().join("check.py"), check).unwrap();
    let fixed = fixed.exec("python3 check.py").then().apply_patch(patch);
    let fixed = fixed.then_exec("python3 check.py").then_say(report);
    model.script("Find out why the parser drops the last field, and fix it", fixed);
    let command = Scenario::new().say_as(Phase::Commentary, "Everything is in place. Only the push is left.");
    let command = command.call(ToolCall::exec_escalated(
        "git push https://x:ghp_0123456789abcdefghijABCDEFGHIJ012345@example.org/parser.git main",
        "The fix must be on the server before the release.",
    ));
    model.script("Publish the fix of the parser", command.then_say("Published."));
    let change =
        Scenario::new().call(ToolCall::add_file("CHANGES.md", "# 1.2.1\n\n- the last field is kept\n"));
    model.script("Write the notes for the next release", change.then_say("Written."));

    let prompt = "Find out why the parser drops the last field, and fix it";
    let run = ["--json", "run", "-d", "-s", "workspace-write", "--notify", "exec:note", prompt];
    let done = site.shell.run(&run).await.ok().json()["task_id"].as_str().unwrap().to_owned();
    let mut asked = site.shell.run(&["--json", "wait", &done, "--timeout", "120"]).await;
    while asked.code == 3 {
        site.shell.approve(&done).await.ok();
        asked = site.shell.run(&["--json", "wait", &done, "--timeout", "120"]).await;
    }
    let (push, _) = site.shell.start_asking("Publish the fix of the parser").await;
    vec![done, push]
}

async fn both_widths(page: &Page, name: &str) {
    for (width, suffix) in [(Width::Desktop, "desktop"), (Width::Phone, "phone")] {
        page.resize(width).await;
        at_rest(page).await;
        page.screenshot(&picture(&format!("{name}-{suffix}"))).await;
    }
    page.resize(Width::Narrow).await;
    let excess = page.evaluate("document.documentElement.scrollWidth - innerWidth").await;
    assert!(excess.as_i64().unwrap() <= 0, "{name} is {excess} px too wide at 360");
    let small = "[...document.querySelectorAll('main button, main summary.button, .top nav a')].filter(it => it.offsetParent && \
        it.getBoundingClientRect().height < 43.5).map(it => it.textContent.trim()).join()";
    assert_eq!(page.evaluate(small).await, "", "{name}: these are too small for a finger");
    page.resize(Width::Desktop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_looks_right_on_a_desk_and_on_a_phone() {
    let site = Site::new().await;
    let stranger = site.stranger().await;
    let page = site.visitor("phone", "approver").await;
    stranger.goto(&site.address("/login")).await;
    both_widths(&stranger, "login").await;
    both_widths(&page, "tasks-empty").await;
    page.goto(&site.address("/approvals")).await;
    both_widths(&page, "approvals-empty").await;
    let tasks = furnish(&site).await;
    for (name, path) in [
        ("tasks", "/tasks".to_owned()),
        ("task", format!("/tasks/{}", tasks[0])),
        ("task-waiting", format!("/tasks/{}", tasks[1])),
        ("approvals", "/approvals".to_owned()),
        ("hosts", "/hosts".to_owned()),
        ("deliveries", "/deliveries".to_owned()),
        ("wrong", "/tasks/codex-none".to_owned()),
    ] {
        page.prefer("light").await;
        page.goto(&site.address(&path)).await;
        both_widths(&page, name).await;
        page.screenshot_whole(&picture(&format!("{name}-whole"))).await;
        page.prefer("dark").await;
        at_rest(&page).await;
        page.screenshot(&picture(&format!("{name}-desktop-dark"))).await;
    }
    page.goto(&site.address("/deliveries")).await;
    page.see("completed → exec:note").await;
    page.goto(&site.address("/approvals")).await;
    let card = page.text(".request").await;
    assert!(card.contains("1 secret is hidden") && !card.contains("ghp_0123"), "{card}");
    page.resize(Width::Phone).await;
    at_rest(&page).await;
    page.screenshot(&picture("approvals-phone-dark")).await;
    // The page of a task that is not there is a 404, which Chromium puts on the console.
    let complaints: Vec<String> =
        page.complaints().into_iter().filter(|it| !it.contains("codex-none")).collect();
    assert_eq!(complaints, Vec::<String>::new());
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_and_forms_sent_without_a_script() {
    let site = Site::new().await;
    site.shell
        .model
        .script("touch it", Scenario::new().say("I **will**.").exec("touch it.txt").then_say("Touched."));
    let token = site.token("anna", "approver").await;
    let page = site.stranger().await;
    page.switch_script_off().await;
    page.goto(&site.address("/")).await;
    page.type_into("#token", &token).await;
    page.click_through("main button").await;
    page.wait_for("location.pathname === '/tasks'").await;
    let (id, _) = site.shell.start_asking("touch it").await;
    page.goto(&site.address("/tasks")).await;
    assert!(page.text(".task").await.contains("needs approval"));
    page.goto(&site.address("/approvals")).await;
    // The cookie alone decides nothing, and whoever presses twice is asked once more.
    let place = page.middle_of(".request button[value=accept]").await;
    page.click_through(".request button[value=accept]").await;
    page.see("Enter your token").await;
    page.screenshot(&picture("locked-desktop")).await;
    page.press_at(place).await;
    page.type_into("#token", "cbt_wrong").await;
    page.click_through("#locked button").await;
    page.see("This is not the token of this login.").await;
    let open = site.shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open[0]["state"], "open", "{open}");
    page.type_into("#token", &token).await;
    assert_eq!(page.text("#locked button").await, "Approve once");
    page.click_through("#locked button").await;
    page.see("Your decision was recorded: approved by token anna").await;
    assert_eq!(page.evaluate("document.querySelectorAll('.request button').length").await, 0);
    site.shell.run(&["wait", &id]).await.ok();
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    let shown = page.text("#timeline").await;
    for part in ["I will.", "$ touch it.txt", "Touched."] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(site.shell.home.workspace().join("it.txt").exists());
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_a_page_without_a_token() {
    let site = Site::new().await;
    let page = site.visitor("anna", "viewer").await;
    let stranger = site.stranger().await;
    for path in ["/", "/tasks", "/approvals", "/hosts", "/deliveries", "/tasks/codex-x"] {
        stranger.goto(&site.address(path)).await;
        assert_eq!(stranger.evaluate("location.pathname").await, "/login", "{path}");
    }
    stranger.type_into("#token", "cbt_wrong").await;
    stranger.click_through("main button").await;
    stranger.see("This token is not known, or was revoked.").await;

    // By its own name, which no other server of this machine shares, the page is found and sends its forms.
    let by_name = site.stranger().await;
    by_name.goto(&site.named_address("/login")).await;
    let token = site.token("carl", "viewer").await;
    by_name.type_into("#token", &token).await;
    by_name.click_through("main button").await;
    by_name
        .wait_for("location.pathname === '/tasks' && location.hostname === 'codex-bridge.localhost'")
        .await;

    // A viewer reads; a form that they make up is refused.
    let forged = "fetch('/tasks', {method: 'POST', headers: {'content-type': 'application/x-www-form-urlencoded'}, body: 'prompt=x&cwd=/'})\
        .then(it => it.status)";
    assert_eq!(page.evaluate(forged).await, 403);
    let headers = page
        .evaluate("fetch('/tasks').then(it => ['content-security-policy', 'x-content-type-options', 'cache-control'].map(name => it.headers.get(name)))")
        .await;
    assert!(headers[0].as_str().unwrap().contains("default-src 'none'; script-src 'self'"), "{headers}");
    assert_eq!((headers[1].as_str(), headers[2].as_str()), (Some("nosniff"), Some("no-store")));
    let headers = page
        .evaluate("fetch('/v1/tasks').then(it => ['x-content-type-options', 'cache-control'].map(name => it.headers.get(name)))")
        .await;
    assert_eq!((headers[0].as_str(), headers[1].as_str()), (Some("nosniff"), Some("no-store")));

    // The cookie dies with its token, and at the log-out.
    page.click_through(".who button").await;
    page.wait_for("location.pathname === '/login'").await;
    let other = site.visitor("bert", "viewer").await;
    site.shell.run(&["token", "revoke", "bert"]).await.ok();
    other.goto(&site.address("/tasks")).await;
    assert_eq!(other.evaluate("location.pathname").await, "/login");
    assert_content(&stranger, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_from_a_failure_leads_to_what_was_written() {
    let site = Site::new().await;
    site.shell.model.script("go on", Scenario::new().delta("Going on ").stall("on").delta("."));
    let (page, token) = site.visitor_with_token("anna", "operator").await;
    let id = site.start_by_form(&page, "say hello", "read-only").await;
    site.shell.run(&["wait", &id]).await.ok();
    page.switch_script_off().await;
    page.reload().await;
    page.type_into("#text", "words that took long to find").await;
    site.shell.run(&["--json", "continue", &id, "go on"]).await.ok();
    site.stalled("on").await;
    page.click_through("button[formaction$='/continue']").await;
    page.see("Enter your token").await;
    page.type_into("#token", &token).await;
    page.click_through("#locked button").await;
    page.see("That did not work").await;
    page.back_by(2).await;
    let kept = page.evaluate("document.querySelector('#text').value").await;
    assert_eq!(kept, "words that took long to find");
    site.shell.model.release("on");
    site.end().await;
}
