//! A no never becomes a yes: nothing moves under a finger, and what has just come up cannot be pressed.

use std::time::Duration;

use scripted_model::Scenario;
use testkit::browser::{Page, Width};

use crate::web_rig::{Site, assert_content};

/// A task that asks for a command. It only reads, so that it waits for no other.
async fn asks(site: &Site, name: &str) -> String {
    let story = Scenario::new().exec(&format!("touch {name}.txt")).then_say("Well.");
    site.shell.model.script(&format!("touch {name}"), story);
    let said =
        site.shell.run(&["--json", "run", "-d", "-s", "read-only", &format!("touch {name}")]).await.ok();
    let id = said.json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(site.shell.run(&["wait", &id, "--timeout", "30"]).await.code, 3, "it asks");
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
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let place = page.middle_of(".request button[value=decline]").await;
        drum(&page, place, 25, 160).await;
        page.see("declined by token anna").await;
        assert_eq!(approvals(&site).await, 0, "{width:?}: {ids:?}");
        assert_content(&page, &site);
        site.end().await;
    }
}
