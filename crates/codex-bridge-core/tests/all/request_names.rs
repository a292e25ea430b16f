//! Requests are found by a beginning of their names that fits no other, within their task or their conversation alone. What fits
//! several is refused, and nothing is decided.

use std::sync::Arc;

use codex_bridge_core::Bridge;
use codex_bridge_core::bridge::{DecisionOutcome, Error, RequestSelector};
use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::request::{Button, RequestName, RequestRecord, RequestState};
use codex_bridge_core::store::conformance::samples;
use codex_bridge_core::store::{RequestFilter, Write};
use codex_bridge_core::task::TaskId;
use codex_session::Decision;
use codex_wire::RequestId;
use scripted_model::Scenario;

use crate::inbox::from;
use crate::inbox_deciding::{asking, notice, told};
use crate::outbox::Stage;
use crate::workbench::{Serving, Workbench, asked, at_rest};

/// A name that is shown as a given one, and is another.
fn twin(name: &RequestName) -> String {
    let (start, end) = name.as_str().split_at(name.short().len());
    let turned: String = end.chars().map(|digit| if digit == '0' { '1' } else { '0' }).collect();
    format!("{start}{turned}")
}

/// Adds a request of a task under a name. Codex does not ask it.
async fn add(bridge: &Bridge, task: &TaskId, name: &str) {
    let id = RequestId::Text(format!("of {name}"));
    let request = RequestRecord {
        task_id: task.clone(),
        request_id: name.into(),
        ..samples::request(1, id, RequestState::Open)
    };
    bridge.store().commit(vec![Write::SaveRequest(Box::new(request))]).await.unwrap();
}

async fn open(bridge: &Bridge) -> usize {
    let open = RequestFilter { states: vec![RequestState::Open], ..RequestFilter::default() };
    bridge.store().requests(&open).await.unwrap().len()
}

#[tokio::test]
async fn a_request_is_found_by_a_beginning_within_its_task() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("done"));
    bench.model.script("say hi", Scenario::new().say("hi"));
    let bridge = bench.open().await;
    let other = bridge.start(bench.task("say hi")).await.unwrap().task.id;
    at_rest(&bridge, other.as_str()).await;
    let task = bridge.start(bench.writing_task("make x")).await.unwrap().task.id;
    let real = asked(&bridge, task.as_str()).await.open_requests.remove(0);
    let (name, digest) = (real.request_id.as_str(), real.digest.as_str());
    assert_eq!(name.len(), "req-".len() + 32, "{name}");
    let turn = bridge.turns(&task).await.unwrap().remove(0);
    assert_eq!(turn.client_id.rsplit('/').next().map(str::len), Some(32), "{}", turn.client_id);
    // An old name, and requests of another task, which do not count here.
    add(&bridge, &task, "req-12ab34cd").await;
    add(&bridge, &other, &twin(&real.request_id)).await;
    add(&bridge, &other, "req-12ab34cd0123456789abcdef01234567").await;
    let found = async |task: &TaskId, name: &str| {
        bridge.request(task, name).await.map(|found| found.request_id.0).map_err(|error| error.to_string())
    };
    for part in [name, &name[..35], real.request_id.short(), &name[..8], &format!(" {name} ")] {
        assert_eq!(found(&task, part).await.as_deref(), Ok(name), "{part}");
    }
    for part in ["req-12ab34cd", "req-12ab34"] {
        assert_eq!(found(&task, part).await.as_deref(), Ok("req-12ab34cd"), "{part}");
    }
    assert_eq!(found(&other, name).await, Err(format!("no request {name}")), "it is another task's");
    let (upper, long) = (name.to_uppercase(), format!("{name}0"));
    let digits = &name["req-".len()..];
    for odd in ["", " ", "r", "req", "req-", "req-%", "req-_", "REQ-1", "%", &upper, &long, digits, "é"] {
        assert_eq!(found(&task, odd).await, Err(format!("no request {odd}")), "{odd:?}");
    }
    let endless = "req-0".repeat(20_000);
    assert!(matches!(bridge.request(&task, &endless).await, Err(Error::UnknownRequest(_))));

    add(&bridge, &task, &twin(&real.request_id)).await;
    let short = real.request_id.short();
    let several = Err(Error::AmbiguousRequest(short.to_owned()));
    let before = open(&bridge).await;
    for (which, decision) in [
        (RequestSelector::Named(short), Decision::Decline),
        (RequestSelector::Shown { request_id: short, digest }, Decision::Accept),
        (RequestSelector::Revealed { request_id: short, digest }, Decision::Accept),
    ] {
        assert_eq!(bridge.decide(task.as_str(), which, decision, "ada").await, several);
    }
    assert_eq!(open(&bridge).await, before, "nothing was decided");
    let longer = &name[..=short.len()];
    let wrong = RequestSelector::Shown { request_id: longer, digest: "0123456789abcdef0123456789abcdef" };
    let refused = bridge.decide(task.as_str(), wrong, Decision::Accept, "ada").await;
    assert_eq!(refused, Err(Error::AnotherRequest(name.into())), "a beginning needs the digest all the same");
    let shown = RequestSelector::Shown { request_id: longer, digest };
    let report = bridge.decide(task.as_str(), shown, Decision::Accept, "ada").await.unwrap();
    assert_eq!((report.outcome, report.request_id.as_str()), (DecisionOutcome::Resolved, name));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_request_is_found_by_a_beginning_within_its_conversation() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("say hi", Scenario::new().say("hi"));
    let bridge = asking(&bench, &stage).await;
    let id = RequestName(notice(&bridge, codex_bridge_core::outbox::DeliveryState::Delivered).await);
    let task = bridge.open_requests(None).await.unwrap().remove(0).task_id;
    // Of a task that nobody told this conversation of.
    let other = bridge.start(bench.task("say hi")).await.unwrap().task.id;
    at_rest(&bridge, other.as_str()).await;
    let foreign = twin(&id);
    add(&bridge, &other, &foreign).await;
    let mut number = 1;
    let mut say = async |text: &str| {
        number += 1;
        told(&bridge, from("ada", &format!("m-{number}"), text)).await
    };
    for name in [foreign.as_str(), &foreign[..=id.short().len()], "req-", "req-%", "%", "REQ-0"] {
        for verb in ["approve", "deny"] {
            let answer = say(&format!("/{verb} {name}")).await;
            assert_eq!(answer, format!("There is no request {name} in this conversation."));
        }
    }
    // More requests begin so than could be looked at.
    for number in 0..17 {
        add(&bridge, &other, &format!("req-feed{number:028x}")).await;
    }
    let answer = say("/deny req-feed").await;
    assert_eq!(answer, "Several requests begin with req-feed: write more of the id.");
    let answer = say("/deny req-feed0000000000000000000000000003").await;
    assert!(answer.starts_with("There is no request req-feed"), "{answer}");

    // Of its own task.
    let near = format!("{}5", &twin(&id)[..35]);
    add(&bridge, &task, &near).await;
    let (short, before) = (id.short(), open(&bridge).await);
    for text in [format!("/approve {short}"), format!("/deny {short}"), format!("/answer {short} yes")] {
        assert_eq!(say(&text).await, format!("Several requests begin with {short}: write more of the id."));
    }
    let verdict = tap(&bridge, short, Decision::Decline).await;
    assert!(matches!(&verdict, Verdict::Forbidden { text } if text.contains("write more")), "{verdict:?}");
    let verdict = tap(&bridge, &foreign, Decision::Decline).await;
    assert!(matches!(&verdict, Verdict::Forbidden { text } if text.contains("no request")), "{verdict:?}");
    assert_eq!(open(&bridge).await, before, "nothing was decided");
    let answer = say(&format!("/approve {}", &id.as_str()[..=short.len()])).await;
    assert_eq!(answer, "Approved: Codex has it.");
    bench.tidy(bridge.end()).await;
}

/// Taps on a button of Ada's with this name.
async fn tap(bridge: &Serving, name: &str, decision: Decision) -> Verdict {
    let (button, choice) = (Button::named(name), Choice::from(decision));
    let pending = bridge.chats.decide_in_chat(&"chat".into(), &"ada".into(), "ada", button, choice).await;
    pending.unwrap().await.unwrap()
}
