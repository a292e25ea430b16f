//! Text of a model, a command or a prompt is shown as text, however long it is.

use codex_bridge_core::event::NewEvent;
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{Store, Write};
use codex_bridge_core::task::TaskId;
use scripted_model::{Phase, Scenario};
use serde_json::{Value, json};
use testkit::browser::Width;

use crate::web_rig::{Site, assert_content, decide, picture};

const HOSTILE: &str = "<script>alert('x')</script><img src=x onerror=alert(1)> \u{1b}[31mred\u{1b}[0m \u{202e}txet\u{202c} \
    [click](javascript:alert(2)) <a href=\"javascript:alert(3)\">x</a> </textarea></script><style>*{display:none}</style>";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_text() {
    let site = Site::new().await;
    let story = Scenario::new().say_as(Phase::Commentary, HOSTILE);
    let story = story.exec("echo '<b id=injected>bold</b>'; head -c 1000000 /dev/zero | tr '\\0' x");
    let story = story.then_say(format!("{} <b id=injected>end</b>", "y".repeat(1_000_000)));
    site.shell.model.script(HOSTILE, story);
    let page = site.visitor("anna", "approver").await;
    let id = site.start_by_form(&page, HOSTILE, "read-only").await;
    page.see("Let Codex run a command?").await;
    let command = page.text(".request .command").await;
    assert!(command.contains("<b id=injected>bold</b>"), "{command}");
    decide(&page, ".request button[value=accept]").await;
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    for path in [
        format!("/tasks/{id}"),
        "/tasks".to_owned(),
        "/approvals".to_owned(),
        "/tasks?q=%3Cscript%3E".to_owned(),
    ] {
        page.goto(&site.address(&path)).await;
        let injected = "document.querySelectorAll('main script, main img, main style, #injected, a[href^=javascript]').length";
        assert_eq!(page.evaluate(injected).await, 0, "{path}");
        let shown = page.text("main").await;
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{path}");
        if path != "/approvals" {
            assert!(
                shown.contains("<script>alert('x')</script>"),
                "{path}: {}",
                &shown[..shown.len().min(2000)]
            );
        }
        let bytes = page.evaluate("document.documentElement.outerHTML.length").await.as_u64().unwrap();
        assert!(bytes < 400_000, "{path} has {bytes} bytes");
    }
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    let width = page.evaluate("document.documentElement.scrollWidth - innerWidth").await;
    assert!(width.as_i64().unwrap() <= 0, "a long line does not widen the page: {width}");
    let whole = "fetch(document.querySelector('#timeline a[href*=\"/events/\"]').href).then(it => it.text()).then(it => it.length)";
    assert!(page.evaluate(whole).await.as_u64().unwrap() > 1_000_000 / 2, "all of it can be had");
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_links_to_the_web_and_never_to_this_machine() {
    let site = Site::new().await;
    let own = site.port;
    let hosts = [
        format!("127.0.0.1:{own}"),
        format!("codex-bridge.localhost:{own}"),
        format!("localhost:{own}"),
        format!("[::1]:{own}"),
        format!("[::ffff:127.0.0.1]:{own}"),
        format!("2130706433:{own}"),
        format!("0x7f.1:{own}"),
        format!("017700000001:{own}"),
        format!("0.0.0.0:{own}"),
        format!("example.com@127.1:{own}"),
        format!("ｌｏｃａｌｈｏｓｔ:{own}"),
        format!("%6cocalhost:{own}"),
    ];
    let mut answer = "See [the docs](https://example.com/a?b=1#c) and <https://example.com>.\n".to_owned();
    let line = |host: &String| {
        format!("\n- [approve](http://{host}/approvals) <http://{host}/tasks> [x](http:\\\\{host}/)")
    };
    answer.extend(hosts.iter().map(line));
    answer.push_str("\n- [tasks](/tasks) [up](../approvals) [same](//codex-bridge.localhost/) [here](?said=continued) [top](#head)");
    site.shell.model.script("link", Scenario::new().say(answer));
    let page = site.visitor("anna", "viewer").await;
    let id = site.shell.start("link").await;
    site.shell.run(&["wait", &id]).await.ok();
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    // As the browser itself reads them.
    let links =
        page.evaluate("[...document.querySelectorAll('.message a')].map(it => it.hostname).join()").await;
    assert_eq!(links, "example.com,example.com");
    let shown = page.text(".message").await;
    assert!(shown.matches("approve").count() >= hosts.len() && shown.contains("tasks"), "{shown}");
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_text_while_it_is_written() {
    let site = Site::new().await;
    let story = Scenario::new().stall("before").reason(format!("I think {HOSTILE}"));
    // The second sequence lies across two pieces.
    let story =
        story.delta(format!("Now {HOSTILE} \u{1b}")).delta("[2J\n\tgoes on ").stall("amid").delta(".");
    site.shell.model.script("slowly", story);
    let page = site.visitor("anna", "operator").await;
    let id = site.shell.start("slowly").await;
    site.stalled("before").await;
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.evaluate("window.__same = true").await;
    site.shell.model.release("before");
    site.stalled("amid").await;
    page.wait_for("document.querySelector('#live-text').textContent.includes('goes on')").await;
    let check_text = async || {
        let written = page.evaluate("document.querySelector('#live-text').textContent").await;
        let written = written.as_str().unwrap();
        assert!(!written.contains(['\u{1b}', '\u{202e}', '\u{202c}']), "{written:?}");
        assert!(
            written.starts_with("Now <script>alert('x')</script>") && written.contains(" red txet "),
            "{written:?}"
        );
        assert!(written.ends_with("\n\tgoes on "), "lines and tabs stay: {written:?}");
    };
    check_text().await;
    // A thought is in its place as soon as it is whole.
    page.wait_for("document.querySelector('#timeline .thought')?.textContent.includes('I think')").await;
    assert_eq!(page.evaluate("window.__same").await, true, "without a reload");
    let all = page.evaluate("document.body.textContent").await;
    assert!(!all.as_str().unwrap().contains(['\u{1b}', '\u{202e}']), "{all}");
    page.reload().await;
    page.wait_for("document.querySelector('#live-text').textContent.includes('goes on')").await;
    check_text().await;
    site.shell.model.release("amid");
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;

    // Numbers of nobody lead to a page all the same.
    for odd in [
        "before=-9223372036854775808",
        "before=9223372036854775807",
        "after=9223372036854775807",
        "after=-9223372036854775808",
    ] {
        page.goto(&site.address(&format!("/tasks/{id}?{odd}"))).await;
        assert_eq!(page.text("#head .badge").await, "completed", "{odd}");
    }
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_prompt_is_folded_and_can_be_read_whole() {
    let site = Site::new().await;
    let lines: Vec<String> = (0..100).map(|number| format!("{number}. do this and that\n")).collect();
    let lines = lines.concat();
    let prompt =
        format!("Do all of it:\n{lines}With the key ghp_0123456789abcdefghijABCDEFGHIJ012345, at last.");
    site.shell.model.script_containing("Do all of it", Scenario::new().say("Done."));
    let page = site.visitor("anna", "operator").await;
    let id = site.start_by_form(&page, &prompt, "read-only").await;
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    let folded = page.text(".prompt").await;
    assert!(folded.contains("4. do this and that") && !folded.contains("5. do this and that"), "{folded}");
    page.evaluate("scrollTo(0, 0)").await;
    page.screenshot(&picture("task-prompt-desktop")).await;
    page.click(".prompt summary").await;
    page.wait_for("document.querySelector('.prompt details').open").await;
    let shown = page.text(".prompt").await;
    assert_eq!(shown.matches("0. do this and that").count(), 10, "once, folded or not: {shown}");
    assert!(shown.contains("at last.") && !shown.contains("ghp_0123"), "{shown}");
    page.resize(Width::Phone).await;
    page.evaluate("scrollTo(0, 0)").await;
    page.screenshot(&picture("task-prompt-phone")).await;
    let log = site.shell.run(&["--json", "logs", &id]).await.ok();
    let started = log.out.lines().find(|line| line.contains("\"turn_started\"")).unwrap();
    assert!(started.contains("99. do this and that"), "the log has it too");
    let listed = site.shell.run(&["--json", "show", &id]).await.ok().json();
    let summary = listed["prompt_summary"].as_str().unwrap();
    assert!(
        summary.ends_with('…') && summary.chars().count() == 200,
        "a list says that it is a beginning: {summary}"
    );

    // Beyond what a log keeps, it says so.
    let book = format!("Read this: {}", "word ".repeat(20_000));
    site.shell.model.script_containing("Read this", Scenario::new().say("Read."));
    site.shell.run_with_input(&["--json", "run", "-"], &book).await.ok();
    let tasks = site.shell.run(&["--json", "ps", "--all"]).await.json();
    page.goto(&site.address(&format!("/tasks/{}", tasks[0]["task_id"].as_str().unwrap()))).await;
    let shown = page.text(".prompt").await;
    assert!(shown.contains("34 KB more were not stored") && shown.contains("Show all"), "{shown}");
    let whole = "fetch(document.querySelector('.prompt a').href).then(it => it.text()).then(it => it.length)";
    assert_eq!(page.evaluate(whole).await, 64 * 1024);
    assert_content(&page, &site);
    site.end().await;
}

fn event(at: i64, kind: &str, mut body: Value) -> NewEvent {
    body["kind"] = kind.into();
    NewEvent { at, line: serde_json::from_value(body).unwrap() }
}

/// Ten thousand lines of a busy task: messages, and calls with output.
fn busy(at: i64) -> Vec<NewEvent> {
    let line = |index: i64| match index % 3 {
        0 => event(at, "message", json!({"text": format!("Step **{index}** is next.")})),
        1 => event(
            at,
            "tool_started",
            json!({"call_id": format!("c{index}"), "name": "exec_command",
            "args": {"command": format!("/bin/bash -lc 'make step-{index}'")}}),
        ),
        _ => event(
            at,
            "tool_completed",
            json!({"call_id": format!("c{}", index - 1), "name": "exec_command",
            "is_error": false, "duration_ms": 12, "result": "line of output\n".repeat(100)}),
        ),
    };
    (0..10_000).map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_ten_thousand_events_stays_usable() {
    let site = Site::new().await;
    site.shell.model.script("go on", Scenario::new().say("Still here."));
    site.shell.run(&["--json", "run", "say hello"]).await.ok();
    let tasks = site.shell.run(&["--json", "ps", "--all"]).await.json();
    let id = tasks[0]["task_id"].as_str().unwrap().to_owned();
    site.shell.run(&["stop"]).await.ok();
    {
        let store = Sqlite::open(&site.shell.home.dir().join("st/tasks.db")).unwrap();
        let append = Write::Append { task_id: TaskId(id.clone()), events: busy(1_700_000_000_000) };
        store.commit(vec![append]).await.unwrap();
    }
    let page = site.visitor("anna", "operator").await;
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.see("Step 9999 is next.").await;
    let nodes = || page.evaluate("document.querySelectorAll('*').length");
    let took =
        page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd").await.as_f64().unwrap();
    let (loaded, bytes) =
        (nodes().await.as_u64().unwrap(), page.evaluate("document.documentElement.outerHTML.length").await);
    println!("10,000 events: loaded in {took:.0} ms, {loaded} elements, {bytes} characters");
    assert!(took < 5000.0, "it takes {took} ms to load");
    assert!(loaded < 4000, "{loaded} elements");
    page.screenshot(&picture("task-long-desktop")).await;

    // The way back leads to the first one.
    page.click_through("#earlier a").await;
    page.see("Step 9600 is next.").await;
    page.goto(&site.address(&format!("/tasks/{id}?before=120"))).await;
    page.see("Step 99 is next.").await;
    page.see("say hello").await;
    assert_eq!(page.evaluate("document.querySelector('#earlier')").await, Value::Null);

    // It still lives.
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.type_into("#text", "go on").await;
    page.click_through("button[formaction$='/continue']").await;
    page.see("Still here.").await;
    assert!(nodes().await.as_u64().unwrap() < 4000);
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_left_open_lets_go_of_what_is_old() {
    let site = Site::new().await;
    let story = (0..450).fold(Scenario::new(), |story, index| {
        story.say_as(Phase::Commentary, format!("Message {index} of many."))
    });
    site.shell.model.script("talk", story.say("That is all."));
    let page = site.visitor("anna", "operator").await;
    let id = site.start_by_form(&page, "talk", "read-only").await;
    page.see("That is all.").await;
    page.wait_for("document.querySelector('#head .badge').textContent === 'completed'").await;
    let entries = page.evaluate("document.querySelectorAll('#timeline > li').length").await.as_u64().unwrap();
    assert!(entries <= 400, "{entries}");
    page.click_through("#earlier a").await;
    page.see("Message 1 of many.").await;
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.see("That is all.").await;
    assert_content(&page, &site);
    site.end().await;
}
