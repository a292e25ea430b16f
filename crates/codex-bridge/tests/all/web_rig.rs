//! A test site: the daemon on a port, the real Codex with the scripted model, and a real browser.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::browser::{Browser, Page};

use crate::http_rig::free_port;
use crate::shell::{PATIENCE, Shell};

/// The daemon with its page, and a browser.
pub struct Site {
    pub shell: Shell,
    browser: Browser,
    pub port: u16,
}

impl Site {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// A site whose daemon has more configuration.
    pub async fn with(settings: &str) -> Self {
        let shell = Shell::new().await;
        // A port that is free now: the daemon must find it again after a restart.
        let port = free_port();
        let file = shell.home.dir().join("config.toml");
        let config = fs::read_to_string(&file).unwrap();
        let workspace = shell.home.workspace();
        let more = format!(
            "roots = [{:?}]\n{settings}\n{config}\n[channels.note]\ntype = \"exec\"\nargv = [\"true\"]\n[http]\nlisten = \"127.0.0.1:{port}\"\n",
            workspace.to_string_lossy()
        );
        fs::write(&file, more).unwrap();
        Self { shell, browser: Browser::start().await, port }
    }

    /// The URL of a path.
    pub fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The URL of a path under `codex-bridge.localhost`.
    pub fn named_address(&self, path: &str) -> String {
        format!("http://codex-bridge.localhost:{}{path}", self.port)
    }

    /// Creates a token.
    pub async fn token(&self, name: &str, role: &str) -> String {
        let said = self.shell.run(&["token", "create", name, "--role", role]).await.ok();
        let is_token = |word: &&str| word.starts_with("cbt_");
        said.out.split_whitespace().find(is_token).unwrap_or_else(|| panic!("{}", said.out)).to_owned()
    }

    /// A logged-in page that shows the tasks.
    pub async fn visitor(&self, name: &str, role: &str) -> Page {
        self.visitor_with_token(name, role).await.0
    }

    /// As `visitor`, with the token.
    pub async fn visitor_with_token(&self, name: &str, role: &str) -> (Page, String) {
        let token = self.token(name, role).await;
        let page = self.browser.page().await;
        page.goto(&self.address("/")).await;
        page.see("Token").await;
        page.type_into("#token", &token).await;
        page.click_through("main button").await;
        page.wait_for("location.pathname === '/tasks'").await;
        (page, token)
    }

    /// Another page of the same browser profile.
    pub async fn tab(&self, beside: &Page) -> Page {
        self.browser.tab(beside).await
    }

    /// Unlocks a tab that has not logged in, through its dialog.
    pub async fn unlock(page: &Page, token: &str) {
        page.wait_for("document.querySelector('#unlock').open").await;
        page.type_into("#unlock-token", token).await;
        page.click("#unlock button.primary").await;
        // What was pressed may have led to another page by now.
        page.wait_for("document.querySelector('#unlock')?.open === false").await;
    }

    /// A page without a login.
    pub async fn stranger(&self) -> Page {
        self.browser.page().await
    }

    /// Starts a task with the form of the page. Returns the task's id.
    pub async fn start_by_form(&self, page: &Page, prompt: &str, sandbox: &str) -> String {
        page.goto(&self.address("/tasks")).await;
        page.evaluate("document.querySelector('#new').open = true").await;
        page.type_into("#prompt", prompt).await;
        page.type_into("#cwd", &self.shell.home.workspace().to_string_lossy()).await;
        page.evaluate(&format!("document.querySelector('#sandbox').value = {sandbox:?}")).await;
        page.click_through("#new form > button").await;
        page.wait_for("location.pathname.startsWith('/tasks/codex-')").await;
        let id = page.evaluate("document.querySelector('#task').dataset.task").await;
        id.as_str().unwrap().to_owned()
    }

    /// Waits until the model has reached the stall of this name.
    pub async fn stalled(&self, name: &str) {
        if tokio::time::timeout(PATIENCE, self.shell.model.wait_for_stall(name)).await.is_err() {
            let tasks = self.shell.run(&["--json", "ps", "--all"]).await;
            panic!("the model did not come to {name}: {}{}", tasks.out, tasks.err);
        }
    }

    /// Ends the daemon, its hosts and the browser.
    pub async fn end(self) {
        drop(self.browser);
        self.shell.end().await;
    }
}

/// Waits until all cards accept presses.
pub async fn at_rest(page: &Page) {
    page.wait_for("[...document.querySelectorAll('form.decide')].every(it => it.hasAttribute('data-ready'))")
        .await;
}

/// Presses a button once, as soon as its card accepts presses, and waits for the outcome.
pub async fn decide(page: &Page, selector: &str) {
    let button = begin_to_decide(page, selector).await;
    page.wait_for(&format!("!document.querySelector({})", json!(button))).await;
}

/// As above, without waiting for the outcome. Returns a selector for the button.
pub async fn begin_to_decide(page: &Page, selector: &str) -> String {
    let quoted = json!(selector);
    page.wait_for(&format!("!!document.querySelector({quoted})?.closest('[data-key]')")).await;
    let key =
        page.evaluate(&format!("document.querySelector({quoted}).closest('[data-key]').dataset.key")).await;
    let button = format!("[data-key='{}'] {}", key.as_str().unwrap(), selector.replace(".request ", ""));
    let quoted = json!(button);
    // A page that just moves takes no press: who looks presses again.
    for _ in 0..20 {
        page.middle_of(&button).await;
        page.wait_for(&format!("document.querySelector({quoted}).form.hasAttribute('data-ready')")).await;
        page.click(&button).await;
        let taken = format!(
            "(() => {{ const it = document.querySelector({quoted}); return !it || it.disabled; }})()"
        );
        if page.evaluate(&taken).await == true {
            return button;
        }
    }
    panic!("{button} takes no press");
}

/// Asserts that a page had no errors and sent no request to another server.
pub fn assert_content(page: &Page, site: &Site) {
    // A browser complains of a form that was refused, as a late decision is.
    let complaints: Vec<String> = page.complaints().into_iter().filter(|it| !it.contains("409")).collect();
    assert_eq!(complaints, Vec::<String>::new());
    let own = site.address("/");
    let others: Vec<String> =
        page.requested().into_iter().filter(|url| !url.starts_with(&own) && url != "about:blank").collect();
    assert_eq!(others, Vec::<String>::new());
}

/// The path of a screenshot.
pub fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots").join(format!("{name}.png"))
}
