//! One page: go, wait, look, click, type, take a picture. Every wait has a deadline and says what was seen instead.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::devtools::DevTools;

/// Nothing on a page takes longer.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(30);

/// How wide a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 1280 × 800.
    Desktop,
    /// 390 × 844, twice as fine, touched rather than clicked.
    Phone,
    /// 360 × 740, the narrowest that must do.
    Narrow,
}

/// A page with cookies of its own, or one of several tabs that share them.
pub struct Page {
    devtools: DevTools,
    session: String,
    /// Where the cookies are.
    pub(super) context: String,
}

impl Page {
    pub(super) async fn new(devtools: DevTools, session: String, context: String) -> Self {
        let page = Self { devtools, session, context };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page.resize(Width::Desktop).await;
        page
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        self.devtools.call(Some(&self.session), method, params).await
    }

    /// Goes to an address and waits until it is loaded.
    pub async fn goto(&self, url: &str) {
        let gone = self.call("Page.navigate", json!({ "url": url })).await;
        assert_eq!(gone.get("errorText"), None, "{url}");
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'").await;
    }

    /// Loads it again.
    pub async fn reload(&self) {
        self.evaluate("window.__before = true").await;
        self.call("Page.reload", json!({})).await;
        self.wait_for("!window.__before && document.readyState === 'complete'").await;
    }

    /// Goes back, as by the button of the browser, and waits until that page is there.
    pub async fn back(&self) {
        self.back_by(1).await;
    }

    /// Goes back by several pages at once.
    pub async fn back_by(&self, pages: usize) {
        let history = self.call("Page.getNavigationHistory", json!({})).await;
        let current = history["currentIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
        let before = current.and_then(|index| index.checked_sub(pages)).expect("a page before this one");
        let entry = json!({ "entryId": history["entries"][before]["id"] });
        self.call("Page.navigateToHistoryEntry", entry).await;
        let there = format!(
            "location.href === {} && document.readyState === 'complete'",
            history["entries"][before]["url"]
        );
        self.wait_for(&there).await;
    }

    /// Brings it before the other tabs of its window.
    pub async fn bring_to_front(&self) {
        self.call("Page.bringToFront", json!({})).await;
    }

    /// What an expression gives, awaited if it is a promise.
    pub async fn evaluate(&self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let given = self.call("Runtime.evaluate", params).await;
        assert_eq!(given.get("exceptionDetails"), None, "{expression}");
        given["result"]["value"].clone()
    }

    /// Waits until an expression holds, across loads; says what the page shows if it never does.
    pub async fn wait_for(&self, expression: &str) {
        let began = Instant::now();
        let params = json!({ "expression": expression, "returnByValue": true });
        loop {
            // A page that is just being left answers nothing.
            let given = self.devtools.try_call(Some(&self.session), "Runtime.evaluate", params.clone()).await;
            if given.is_ok_and(|given| given["result"]["value"] == true) {
                return;
            }
            if began.elapsed() > PATIENCE {
                let address = self.evaluate("location.href").await;
                let shown = self.evaluate("document.body && document.body.innerText").await;
                let shown = shown.as_str().unwrap_or_default();
                panic!(
                    "waited in vain for: {expression}\nat {address}\ncomplaints: {:?}\nthe page shows:\n{shown}",
                    self.complaints()
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the page shows this text.
    pub async fn see(&self, text: &str) {
        self.wait_for(&format!("document.body && document.body.innerText.includes({})", json!(text))).await;
    }

    /// The visible text of an element; of the whole page with `body`.
    pub async fn text(&self, selector: &str) -> String {
        self.wait_for(&format!("!!document.querySelector({})", json!(selector))).await;
        let text = self.evaluate(&format!("document.querySelector({}).innerText", json!(selector))).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses the mouse on an element, where a person would: once it has stopped moving, since a page moves as text comes in.
    pub async fn click(&self, selector: &str) {
        let began = Instant::now();
        let mut place = self.middle_of(selector).await;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.middle_of(selector).await;
            if now == place || began.elapsed() > PATIENCE {
                return self.press_at(now).await;
            }
            place = now;
        }
    }

    /// Presses the mouse at a place of the window, whatever is there.
    pub async fn press_at(&self, (x, y): (f64, f64)) {
        let press = |kind: &str| json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", press("mousePressed")).await;
        self.call("Input.dispatchMouseEvent", press("mouseReleased")).await;
    }

    /// Turns the wheel in the middle of the window, as a person who scrolls.
    pub async fn turn_wheel(&self, down: f64) {
        let turn = json!({ "type": "mouseWheel", "x": 195, "y": 400, "deltaX": 0, "deltaY": down });
        self.call("Input.dispatchMouseEvent", turn).await;
    }

    /// Presses Enter on whatever has the focus.
    pub async fn press_enter(&self) {
        self.hold_enter(0).await;
    }

    /// Holds Enter down until it has repeated itself so often.
    pub async fn hold_enter(&self, repeats: u32) {
        self.enter("keyDown", false).await;
        self.repeat_enter(repeats).await;
    }

    /// Enter, held down since before anybody looked, repeats itself and is let go.
    pub async fn repeat_enter(&self, repeats: u32) {
        for _ in 0..repeats {
            self.enter("keyDown", true).await;
        }
        self.enter("keyUp", false).await;
    }

    async fn enter(&self, kind: &str, is_repeat: bool) {
        let mut key = json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "autoRepeat": is_repeat });
        if kind == "keyDown" {
            key["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", key).await;
    }

    /// Presses the button and waits until the page that it leads to is loaded.
    pub async fn click_through(&self, selector: &str) {
        self.evaluate("window.__before = true").await;
        self.click(selector).await;
        self.wait_for("!window.__before && document.readyState === 'complete'").await;
    }

    /// Where the middle of an element is, once it is scrolled to.
    pub async fn middle_of(&self, selector: &str) -> (f64, f64) {
        let quoted = json!(selector);
        self.wait_for(&format!("!!document.querySelector({quoted})")).await;
        let place = self
            .evaluate(&format!(
                "(() => {{ const it = document.querySelector({quoted}); it.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
                 const box = it.getBoundingClientRect(); const x = box.x + box.width / 2, y = box.y + box.height / 2; \
                 const top = document.elementFromPoint(x, y); \
                 return [x, y, it === top || it.contains(top) || (!!top && top.contains(it))]; }})()"
            ))
            .await;
        assert_eq!(
            place[2], true,
            "{selector} cannot be reached: something lies over it, or it is not shown"
        );
        (place[0].as_f64().unwrap_or_default(), place[1].as_f64().unwrap_or_default())
    }

    /// Types into a field, in place of what is in it.
    pub async fn type_into(&self, selector: &str, text: &str) {
        self.click(selector).await;
        self.evaluate(&format!("document.querySelector({}).select()", json!(selector))).await;
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Makes the page as wide as a screen of this kind.
    pub async fn resize(&self, width: Width) {
        let (width, height, scale, is_mobile) = match width {
            Width::Desktop => (1280, 800, 1, false),
            Width::Phone => (390, 844, 2, true),
            Width::Narrow => (360, 740, 2, true),
        };
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_mobile });
        self.call("Emulation.setDeviceMetricsOverride", screen).await;
    }

    /// Prefers `dark` or `light`.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Runs no script of the pages that are loaded from now on.
    pub async fn switch_script_off(&self) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
    }

    /// Writes a picture of what is shown.
    pub async fn screenshot(&self, file: &Path) {
        self.picture(json!({ "format": "png" }), file).await;
    }

    /// Writes a picture of the whole page, also of what one would have to scroll to.
    pub async fn screenshot_whole(&self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({})).await["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        self.picture(json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }), file).await;
    }

    async fn picture(&self, how: Value, file: &Path) {
        let picture = self.call("Page.captureScreenshot", how).await;
        let bytes = from_base64(picture["data"].as_str().unwrap_or_default());
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir).expect("a directory for pictures");
        }
        fs::write(file, bytes).expect("a picture can be written");
    }

    /// What went wrong on the page: errors on its console, exceptions, violations of its policy, dialogs.
    pub fn complaints(&self) -> Vec<String> {
        let methods = [
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        ];
        let told = self.devtools.told(&self.session, &methods);
        let is_bad = |message: &&Value| {
            let params = &message["params"];
            match message["method"].as_str() {
                Some("Runtime.consoleAPICalled") => {
                    matches!(params["type"].as_str(), Some("error" | "warning" | "assert"))
                }
                Some("Log.entryAdded") => {
                    matches!(params["entry"]["level"].as_str(), Some("error" | "warning"))
                }
                _ => true,
            }
        };
        told.iter().filter(is_bad).map(complaint).collect()
    }

    /// The addresses that the page asked for.
    pub fn requested(&self) -> Vec<String> {
        let told = self.devtools.told(&self.session, &["Network.requestWillBeSent"]);
        told.iter().filter_map(|it| it["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }
}

fn complaint(message: &Value) -> String {
    let params = &message["params"];
    match message["method"].as_str() {
        Some("Log.entryAdded") => {
            let entry = &params["entry"];
            format!("{}: {} {}", entry["source"].as_str().unwrap_or_default(), entry["text"], entry["url"])
        }
        Some("Page.javascriptDialogOpening") => format!("dialog: {}", params["message"]),
        Some(method) => format!("{method}: {params}"),
        None => params.to_string(),
    }
}

/// Standard base64 without anything around it.
fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|it| *it == byte));
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_usize, 0_u32);
    for digit in digits {
        held = (held << 6 | digit) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xFF).unwrap_or_default());
        }
    }
    bytes
}
