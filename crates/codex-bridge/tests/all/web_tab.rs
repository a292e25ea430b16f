//! The secret of a tab: a server on another port learns the cookie, and still cannot change anything.

use std::net::TcpListener;

use scripted_model::Scenario;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http_rig::Call;
use crate::web_rig::{Site, assert_content, begin_to_decide, decide, picture};

/// A server of somebody else on another port; gives the cookies that the next browser brings.
fn other_server() -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let served = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 16 * 1024];
            let length = stream.read(&mut read).await.unwrap();
            let asked = String::from_utf8_lossy(&read[..length]).into_owned();
            let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
            stream.write_all(page.as_bytes()).await.unwrap();
            let cookie = asked.lines().find_map(|line| {
                line.to_ascii_lowercase().starts_with("cookie: ").then(|| line[8..].to_owned())
            });
            if let Some(cookie) = cookie {
                return cookie;
            }
        }
    });
    (port, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_another_port_gets_the_cookie_and_can_change_nothing_with_it() {
    let site = Site::new().await;
    site.shell.model.script("touch it", Scenario::new().exec("touch it.txt").then_say("Touched."));
    let page = site.visitor("anna", "approver").await;
    let secret = page.evaluate("sessionStorage.getItem('tab')").await.as_str().unwrap().to_owned();
    let (id, request) = site.shell.start_asking("touch it").await;
    let request = request["request_id"].as_str().unwrap().to_owned();
    page.goto(&site.address("/approvals")).await;
    page.see("touch it.txt").await;
    let html = page.evaluate("document.documentElement.outerHTML").await;
    assert!(!html.as_str().unwrap().contains(&secret[..40]), "it is in no page");

    let other = site.tab(&page).await;
    let (port, served) = other_server();
    other.goto(&format!("http://127.0.0.1:{port}/")).await;
    let cookie = tokio::time::timeout(crate::shell::PATIENCE, served).await.unwrap().unwrap();
    assert!(
        cookie.contains("codex_bridge_session="),
        "browsers keep cookies by name, whatever the port: {cookie}"
    );
    assert_eq!(other.evaluate("sessionStorage.getItem('tab')").await, json!(null), "but this they do not");

    // A program that has the cookie can forge whatever else a browser says.
    let own = format!("127.0.0.1:{}", site.port);
    let with_cookie = |method: &str, path: &str| {
        let call = Call::to(site.port, method, path).header("host", &own).header("cookie", &cookie);
        call.header("origin", &format!("http://{own}")).header("sec-fetch-site", "same-origin")
    };
    let read = |path: String| {
        let call = with_cookie("GET", &path).header("accept", "text/html");
        async move { call.send().await.ok().body }
    };
    for path in
        ["/approvals".to_owned(), format!("/tasks/{id}"), format!("/approvals/{id}/{request}?whole=true")]
    {
        let shown = read(path.clone()).await;
        assert!(shown.contains("touch it.txt") && !shown.contains("data-tab"), "{path} shows no secret");
    }
    let form = "application/x-www-form-urlencoded";
    let decision = format!("/approvals/{id}/{request}");
    for (path, said) in [
        (decision.as_str(), "decision=accept".to_owned()),
        (&decision, "decision=accept&tab=".to_owned()),
        (&decision, format!("decision=accept&tab={}", &secret[..secret.len() - 2])),
        (&decision, "decision=accept&token=cbt_nothing".to_owned()),
        ("/tasks", format!("prompt=x&cwd={}", site.shell.home.workspace().display())),
        (&format!("/tasks/{id}/interrupt"), String::new()),
    ] {
        let answer = with_cookie("POST", path).header("content-type", form).body(said.clone()).send().await;
        assert_eq!(answer.status, 403, "{path} {said}");
        assert!(
            answer.body.contains("Enter your token") && !answer.body.contains(&secret),
            "{}",
            answer.body
        );
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "it is a page like the others: {policy}");
    }
    let decide_by_call = || {
        let call = with_cookie("POST", &format!("/v1/tasks/{id}/requests/{request}/decision"));
        call.header("content-type", "application/json").body(json!({"decision": "accept"}).to_string())
    };
    assert_eq!(decide_by_call().send().await.problem(), (403, "tab_locked".into()));
    // The secret of a tab is good with its own token alone, and under its own name.
    let bert = site.visitor("bert", "approver").await;
    let his = bert.evaluate("sessionStorage.getItem('tab')").await;
    let with_his = decide_by_call().header("x-codex-bridge-tab", his.as_str().unwrap()).send().await;
    assert_eq!(with_his.problem(), (403, "tab_locked".into()));
    let elsewhere = decide_by_call().header("x-codex-bridge-tab", &secret);
    let name = format!("localhost:{}", site.port);
    let elsewhere = elsewhere.header("host", &name).header("origin", &format!("http://{name}")).send().await;
    assert_eq!(elsewhere.problem(), (403, "tab_locked".into()));
    let open = site.shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open[0]["state"], "open", "{open}");
    assert_eq!(site.shell.run(&["--json", "ps", "--all"]).await.ok().json().as_array().unwrap().len(), 1);

    // The tab that was told it decides.
    page.bring_to_front().await;
    decide(&page, ".request button[value=accept]").await;
    site.shell.run(&["wait", &id]).await.ok();
    assert!(site.shell.home.workspace().join("it.txt").exists());
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tab_looks_without_the_token_and_decides_with_it() {
    let site = Site::new().await;
    site.shell.model.script("touch it", Scenario::new().exec("touch it.txt").then_say("Touched."));
    let (page, token) = site.visitor_with_token("anna", "approver").await;
    let (id, _) = site.shell.start_asking("touch it").await;
    let tab = site.tab(&page).await;
    tab.goto(&site.address("/approvals")).await;
    tab.see("touch it.txt").await;
    let button = begin_to_decide(&tab, ".request button[value=accept]").await;
    tab.wait_for("document.querySelector('#unlock').open").await;
    assert_eq!(tab.text("#unlock button.primary").await, "Approve once");
    tab.screenshot(&picture("unlock-desktop")).await;
    tab.resize(testkit::browser::Width::Phone).await;
    tab.prefer("dark").await;
    tab.screenshot(&picture("unlock-phone-dark")).await;
    tab.resize(testkit::browser::Width::Desktop).await;
    // Whoever does not know it leaves everything as it is.
    tab.type_into("#unlock-token", "cbt_wrong").await;
    tab.click("#unlock button.primary").await;
    tab.see("This token is not known, or was revoked.").await;
    tab.click("#unlock button[value=leave]").await;
    tab.wait_for(&format!(
        "!document.querySelector('#unlock').open && !document.querySelector({button:?}).disabled"
    ))
    .await;
    let open = site.shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open[0]["state"], "open", "{open}");
    // With it, what was pressed is done.
    begin_to_decide(&tab, ".request button[value=accept]").await;
    Site::unlock(&tab, &token).await;
    tab.see("Your decision was recorded: approved by token anna").await;

    // It goes on without asking again, and so does the first tab: one log-in does not end another.
    for (which, words) in [(&tab, "one"), (&page, "two")] {
        site.shell.run(&["wait", &id]).await.ok();
        which.bring_to_front().await;
        which.goto(&site.address(&format!("/tasks/{id}"))).await;
        which.type_into("#text", words).await;
        which.click_through("button[formaction$='/continue']").await;
        which.see(&format!("You said: {words}")).await;
    }
    // A form that leads to another page asks for it as well.
    site.shell.run(&["wait", &id]).await.ok();
    let third = site.tab(&page).await;
    third.goto(&site.address(&format!("/tasks/{id}"))).await;
    third.type_into("#text", "three").await;
    third.evaluate("window.__before = true").await;
    third.click("button[formaction$='/continue']").await;
    Site::unlock(&third, &token).await;
    third.wait_for("!window.__before && document.readyState === 'complete'").await;
    third.see("You said: three").await;
    site.shell.run(&["wait", &id]).await.ok();
    assert_content(&page, &site);
    let complaints: Vec<String> = tab.complaints().into_iter().filter(|it| !it.contains("401")).collect();
    assert_eq!(complaints, Vec::<String>::new());

    // At the log-out the tab forgets it.
    page.click_through(".who button").await;
    page.wait_for("location.pathname === '/login'").await;
    assert_eq!(page.evaluate("sessionStorage.getItem('tab')").await, json!(null));
    site.end().await;
}
