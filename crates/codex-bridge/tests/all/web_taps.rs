//! A decline never becomes an approval: no button moves under a finger, and a new card ignores presses.

use std::time::Duration;

use scripted_model::Scenario;
use testkit::browser::{Page, Width};

use crate::web_rig::{Site, assert_content, at_rest, decide, picture};

/// A task that asks for a command. It only reads, so that it waits for no other.
async fn asks(site: &Site, name: &str) -> String {
    let story = Scenario::new().exec(format!("touch {name}.txt")).then_say("Well.");
    site.shell.model.script(format!("touch {name}"), story);
    let said =
        site.shell.run(&["--json", "run", "-d", "-s", "read-only", &format!("touch {name}")]).await.ok();
    let id = said.json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(site.shell.run(&["wait", &id, "--timeout", "120"]).await.code, 3, "it asks");
    id
}

/// How often something was agreed to, whatever it was.
async fn approvals(site: &Site) -> usize {
    let said = site.shell.run(&["audit"]).await.ok();
    said.out.lines().filter(|line| line.contains("decide accept")).count()
}

/// Presses the same place again and again.
async fn drum(page: &Page, place: (f64, f64), times: u32, pause_ms: u64) {
    for _ in 0..times {
        page.press_at(place).await;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// Where the cards and their buttons are, in the window.
const BOXES: &str = "JSON.stringify([...document.querySelectorAll('.request')].map(it => it.getBoundingClientRect().toJSON()))";

/// Counts the decisions that the page sends from now on.
async fn count_sent(page: &Page) {
    let wrap = "(() => { window.__sent = 0; const real = window.fetch; window.fetch = (address, how) => { \
        if (how?.method === 'POST') window.__sent += 1; return real(address, how); }; })()";
    page.evaluate(wrap).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_presses_decline_again_and_again_approves_nothing() {
    for width in [Width::Desktop, Width::Phone] {
        let site = Site::new().await;
        let page = site.visitor("anna", "approver").await;
        page.resize(width).await;
        let ids = [asks(&site, "one").await, asks(&site, "two").await];
        page.goto(&site.address("/approvals")).await;
        page.see("touch one.txt").await;
        page.see("touch two.txt").await;
        let place = page.middle_of(".request button[value=decline]").await;
        at_rest(&page).await;
        let before = page.evaluate(BOXES).await;
        page.press_at(place).await;
        // Before it is known what came of it, soon after, and long after.
        drum(&page, place, 12, 60).await;
        page.see("Your decision was recorded: declined by token anna").await;
        assert_eq!(page.evaluate(BOXES).await, before, "{width:?}: nothing has moved");
        page.screenshot(&picture(&format!("approvals-decided-{width:?}").to_lowercase())).await;
        drum(&page, place, 10, 160).await;
        // Another one comes while the finger is still there.
        let third = asks(&site, "three").await;
        page.wait_for("document.querySelectorAll('.request').length === 3").await;
        drum(&page, place, 10, 160).await;
        let now = page.evaluate(BOXES).await;
        let now = now.as_str().unwrap();
        let kept = &before.as_str().unwrap()[..before.as_str().unwrap().len() - 1];
        assert!(now.starts_with(kept), "{width:?}: {now} was {before}");
        assert_eq!(approvals(&site).await, 0, "{width:?}: {ids:?} {third}");
        let open = site.shell.run(&["--json", "requests"]).await.ok().json();
        assert_eq!(open.as_array().unwrap().len(), 2, "and nothing else was decided");
        assert_content(&page, &site);
        site.end().await;
    }
}

/// Presses a button by finger and by key, as long as that is surely too soon after a moment of the page's own clock. A busy
/// machine may come to none: the press in that very moment, of which the page has kept what came, is always tried.
async fn press_too_soon(page: &Page, selector: &str, since: &str) {
    assert_eq!(page.evaluate("window.__at_once").await, 0, "no press counts at once");
    let place = page.middle_of(selector).await;
    while page.evaluate(&format!("performance.now() - {since} < 450")).await == true {
        page.press_at(place).await;
        page.evaluate(&format!("document.querySelector({selector:?}).focus({{preventScroll: true}})")).await;
        page.press_enter().await;
        let sent = page.evaluate(&format!("performance.now() - {since} < 690 ? window.__sent : 0")).await;
        assert_eq!(sent, 0, "no press counts so soon");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_takes_no_press_when_it_has_just_come_up() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    page.goto(&site.address("/approvals")).await;
    page.see("No pending requests").await;
    count_sent(&page).await;
    // One in the very moment in which the card comes up.
    page.evaluate(
        "new MutationObserver(() => { const yes = document.querySelector('.request button[value=accept]'); \
         if (yes && !window.__came) { window.__came = performance.now(); yes.click(); window.__at_once = window.__sent; } })\
         .observe(document.querySelector('#requests'), {childList: true})",
    )
    .await;
    let story = Scenario::new().exec("touch one.txt").then_say("Well.");
    site.shell.model.script("touch one", story);
    let id = site.shell.start("touch one").await;
    page.wait_for("!!window.__came").await;
    press_too_soon(&page, ".request button[value=accept]", "window.__came").await;
    // A moment later it is taken.
    decide(&page, ".request button[value=accept]").await;
    site.shell.run(&["wait", &id]).await.ok();
    assert_eq!(approvals(&site).await, 1);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_takes_no_press_when_it_has_just_moved() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    asks(&site, "one").await;
    page.goto(&site.address("/approvals")).await;
    page.see("touch one.txt").await;
    count_sent(&page).await;
    let yes = ".request button[value=accept]";
    page.middle_of(yes).await;
    for shift in [
        // Something comes above it, it is laid out anew, or the page scrolls by itself.
        "(() => { const more = document.createElement('div'); more.style.height = '90px'; document.querySelector('#requests').before(more); })()",
        "document.querySelector('.request .buttons').style.flexDirection = 'row-reverse', document.querySelector('.request .buttons').style.width = '60%'",
        "(() => { const more = document.createElement('div'); more.style.height = '3000px'; document.querySelector('main').append(more); \
         scrollTo({top: 60, behavior: 'instant'}); })()",
    ] {
        at_rest(&page).await;
        page.evaluate(&format!(
            "{shift}; document.querySelector({yes:?}).click(); window.__moved = performance.now(); window.__at_once = window.__sent"
        ))
        .await;
        press_too_soon(&page, yes, "window.__moved").await;
    }
    assert_eq!(approvals(&site).await, 0);
    // Whoever scrolls knows where they are: that is no move.
    at_rest(&page).await;
    page.turn_wheel(40.0).await;
    page.wait_for("scrollY > 60").await;
    let ready = page.evaluate("document.querySelector('form.decide').hasAttribute('data-ready')").await;
    assert_eq!(ready, true);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_at_rest_is_answered_by_the_keyboard_and_a_held_key_answers_once() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    asks(&site, "one").await;
    asks(&site, "two").await;
    page.goto(&site.address("/approvals")).await;
    page.see("touch two.txt").await;
    at_rest(&page).await;
    count_sent(&page).await;
    page.evaluate("document.querySelector('.request button[value=decline]').focus({preventScroll: true})")
        .await;
    page.hold_enter(20).await;
    page.see("Your decision was recorded: declined by token anna").await;
    // Whoever reads by ear hears what came of it, and goes on from there.
    let focus = "document.activeElement.classList.contains('decide') && document.activeElement.innerText.includes('declined')";
    page.wait_for(focus).await;
    page.press_enter().await;
    assert_eq!(page.evaluate("window.__sent").await, 1);
    assert_eq!(approvals(&site).await, 0);
    // A key that was held down before the focus came to a button presses nothing.
    at_rest(&page).await;
    page.evaluate("document.querySelector('form.decide button[value=accept]').focus({preventScroll: true})")
        .await;
    page.repeat_enter(10).await;
    assert_eq!(page.evaluate("window.__sent").await, 1);
    assert_content(&page, &site);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_page_of_a_task_the_card_stays_while_the_turn_goes_on_above_it() {
    let site = Site::new().await;
    let page = site.visitor("anna", "approver").await;
    page.resize(Width::Phone).await;
    let story = Scenario::new()
        .exec("echo one")
        .then_exec("seq 1 40")
        .then_exec("touch two.txt")
        .then()
        .delta("Some words that are written while nobody scrolls.\n\nAnd more of them.\n\n")
        .stall("end")
        .delta("Well.");
    site.shell.model.script("do it", story);
    let id = site.shell.start("do it").await;
    page.goto(&site.address(&format!("/tasks/{id}"))).await;
    page.see("echo one").await;
    for name in ["echo one", "seq 1 40"] {
        let is_there = format!(
            "[...document.querySelectorAll('.request:not(.closed) .command')].some(it => it.textContent.includes({name:?}))"
        );
        page.wait_for(&is_there).await;
        let place = page.middle_of(".request:not(.closed) button[value=decline]").await;
        at_rest(&page).await;
        let card = "document.querySelector('.request.closed:last-of-type, .request:not(.closed)')";
        let key = page.evaluate(&format!("{card}.dataset.key")).await;
        let top = format!("document.querySelector('[data-key={key}]').getBoundingClientRect().top");
        let before = page.evaluate(&top).await;
        page.press_at(place).await;
        drum(&page, place, 20, 100).await;
        page.wait_for(&format!(
            "document.querySelector('[data-key={key}]').innerText.includes('declined by')"
        ))
        .await;
        let after = page.evaluate(&top).await;
        let moved = after.as_f64().unwrap() - before.as_f64().unwrap();
        assert!(moved.abs() < 2.0, "{name}: the card moved by {moved} px under the finger");
        assert_eq!(approvals(&site).await, 0, "{name}");
    }
    assert_content(&page, &site);
    site.end().await;
}
