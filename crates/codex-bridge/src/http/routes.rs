//! The list of all routes of the API.

use codex_bridge_core::desk::Verb;
use codex_bridge_core::desk::calls::{Decide, Fork, Prompt, Start};
use serde_json::Value;

use super::route::{Gives, Route, get, post};
use super::{
    audit, channels, deliveries, events, hosts, inbox, metrics, news, openapi, readiness, requests, store,
    tasks, tokens, tool, trust,
};
use crate::{calls, view};

/// All of them.
pub fn all() -> Vec<Route> {
    [open(), of_tasks(), of_requests(), of_deliveries(), of_daemon(), of_owner()]
        .into_iter()
        .flatten()
        .collect()
}

fn open() -> Vec<Route> {
    vec![
        get("/healthz", hosts::health, "Whether the daemon lives").for_anyone().gives::<view::Fine>(),
        get("/readyz", readiness::ready, "Whether it would take work now; 503 says why not")
            .for_anyone()
            .gives::<view::Fine>(),
    ]
}

fn of_tasks() -> Vec<Route> {
    vec![
        get("/v1/tasks", tasks::list, "Tasks, the newest first; the Link header leads to the next page")
            .query::<calls::List>()
            .gives::<Vec<view::ShortTask>>(),
        post("/v1/tasks", tasks::start, "Hand over work; it is durable when this answers")
            .by(Verb::Start)
            .header(
                "Idempotency-Key",
                "The caller's own name for this request: the same one gives the same task",
            )
            .takes::<Start>()
            .gives::<view::Task>(),
        get("/v1/tasks/{id}", tasks::show, "A task, by its id or a unique beginning of it")
            .gives::<view::Task>(),
        get(
            "/v1/tasks/{id}/wait",
            tasks::wait,
            "A task once it is at rest or needs an answer, or the time is up",
        )
        .query::<calls::Wait>()
        .gives::<view::Task>(),
        get("/v1/tasks/{id}/events", events::read, "A task's log, as JSON lines or as server-sent events")
            .query::<calls::Events>()
            .header("Last-Event-ID", "The number of the last event that was had; wins over `after`")
            .streams::<view::Event>(),
        get("/v1/tasks/{id}/turns", tasks::turns, "The turns of a task, the oldest first")
            .gives::<Vec<view::Turn>>(),
        post("/v1/tasks/{id}/turns", tasks::continue_task, "Give a task at rest another turn")
            .by(Verb::Continue)
            .header(
                "Idempotency-Key",
                "The caller's own name for this request: of one task, the same one gives no second turn",
            )
            .takes::<Prompt>()
            .gives::<view::Task>(),
        post("/v1/tasks/{id}/steer", tasks::steer, "Add to the turn that runs")
            .by(Verb::Steer)
            .takes::<calls::Steer>()
            .gives::<view::Outcome>(),
        post(
            "/v1/tasks/{id}/interrupt",
            tasks::interrupt,
            "Stop a task; answers when Codex has confirmed it",
        )
        .by(Verb::Interrupt)
        .query::<calls::Interrupt>()
        .gives::<view::Outcome>(),
        post("/v1/tasks/{id}/fork", tasks::fork, "Branch a task at rest")
            .by(Verb::Fork)
            .header(
                "Idempotency-Key",
                "The caller's own name for this request: of one task, the same one gives the same branch",
            )
            .takes::<Fork>()
            .gives::<view::Task>(),
        post("/v1/tasks/{id}/release", tasks::release, "Free a task's thread for Codex's own terminal")
            .by(Verb::Release)
            .gives::<view::Task>(),
        get("/v1/tasks/{id}/result", tasks::result, "The answer of a task at rest")
            .gives::<view::TaskResult>(),
        get("/v1/tasks/{id}/diff", tasks::diff, "What the last turn that changed files did to them")
            .gives_or_text::<view::Diff>("text/x-diff"),
        get(
            "/v1/events",
            news::listen,
            "That tasks or the number of open requests changed, as server-sent events",
        )
        .query::<calls::News>()
        .gives_other(Gives::Events),
    ]
}

fn of_requests() -> Vec<Route> {
    vec![
        get("/v1/requests", requests::list, "All that waits for people, the oldest first")
            .gives::<Vec<view::Request>>(),
        get("/v1/tasks/{id}/requests", requests::of_task, "All requests of a task, closed ones too")
            .gives::<Vec<view::Request>>(),
        get("/v1/tasks/{id}/requests/{request}", requests::show, "One request, and who answered it")
            .gives::<view::Request>(),
        get(
            "/v1/tasks/{id}/requests/{request}/changes",
            requests::changes,
            "The changes that a request asks for, with their whole diffs",
        )
        .gives_or_text::<view::WholeChanges>("text/x-diff"),
        post(
            "/v1/tasks/{id}/requests/{request}/decision",
            requests::decide,
            "Answer; `-` is the only open one",
        )
        .by(Verb::Decide)
        .takes::<Decide>()
        .gives::<view::Decided>(),
    ]
}

fn of_deliveries() -> Vec<Route> {
    vec![
        get(
            "/v1/deliveries",
            deliveries::list,
            "What is to be sent to targets, or could not be; newest first",
        )
        .query::<calls::Deliveries>()
        .gives::<Vec<view::Delivery>>(),
        post("/v1/deliveries/{id}/retry", deliveries::retry, "Try one again now")
            .by(Verb::Deliver)
            .gives::<view::Delivery>(),
        post("/v1/deliveries/test", deliveries::test, "Send a test to a target, once")
            .by(Verb::Deliver)
            .takes::<calls::TestTarget>()
            .gives::<view::Tried>(),
    ]
}

fn of_daemon() -> Vec<Route> {
    vec![
        get("/v1/hosts", hosts::list, "The Codex hosts that run").gives::<Vec<view::Host>>(),
        get("/v1/about", hosts::about, "The daemon about itself").gives::<view::About>(),
        get("/v1/openapi.json", openapi::show, "This document").gives::<Value>(),
        get("/metrics", metrics::show, "Numbers for Prometheus")
            .gives_other(Gives::Text("application/openmetrics-text")),
        post(
            "/v1/tool",
            tool::call,
            "One call of the codex_bridge tool; each action needs a role of its own",
        )
        .takes::<calls::Tool>()
        .gives::<Value>(),
    ]
}

fn of_owner() -> Vec<Route> {
    let routes = vec![
        get("/v1/tokens", tokens::list, "The tokens, without their secrets").gives::<Vec<view::Token>>(),
        post(
            "/v1/tasks/{id}/requests/{request}/reveal",
            requests::reveal,
            "What a request asks, with nothing hidden",
        )
        .gives::<view::Revealed>(),
        post("/v1/tokens", tokens::create, "Make a token")
            .takes::<calls::NewToken>()
            .gives::<view::FreshToken>(),
        post(
            "/v1/tokens/{name}/quota",
            tokens::quota,
            "Change how much a token may have handed over at once",
        )
        .takes::<calls::Quota>()
        .gives::<view::Token>(),
        post("/v1/tokens/{name}/revoke", tokens::revoke, "Make a token worthless").gives::<view::Token>(),
        get("/v1/channels", channels::list, "Where work arrives by chat, and how each is")
            .gives::<Vec<view::Channel>>(),
        post("/v1/channels/{name}/run", channels::run, "Serve a channel")
            .takes::<calls::RunChannel>()
            .gives::<view::Channel>(),
        post("/v1/channels/{name}/pause", channels::pause, "Have a channel rest").gives::<view::Channel>(),
        post("/v1/channels/{name}/test", channels::test, "Reach a channel's platform once")
            .takes::<calls::RunChannel>()
            .gives::<view::Reached>(),
        get("/v1/channels/{name}/log", channels::log, "What a channel said lately")
            .query::<calls::Lines>()
            .gives::<view::ChannelLog>(),
        get("/v1/trust", trust::list, "The directories that have a trust level, and what holds elsewhere")
            .gives::<view::TrustList>(),
        get("/v1/trust/directory", trust::show, "How far a directory is trusted, and why")
            .query::<calls::TrustOf>()
            .gives::<view::TrustOf>(),
        post("/v1/trust", trust::set, "Decide how far a directory is trusted")
            .takes::<calls::SetTrust>()
            .gives::<view::TrustChange>(),
        post("/v1/trust/remove", trust::remove, "Take the decision about a directory back")
            .takes::<calls::RemoveTrust>()
            .gives::<view::TrustChange>(),
        get("/v1/inbox", inbox::list, "What came in by channels and is not done with; newest first")
            .query::<calls::Inbox>()
            .gives::<Vec<view::Message>>(),
        post("/v1/inbox/{id}/retry", inbox::retry, "Take a message up again that was given up")
            .gives::<view::Message>(),
        get("/v1/audit", audit::list, "Who decided or commanded what")
            .query::<calls::Audit>()
            .gives::<Vec<view::AuditLine>>(),
        post("/v1/store/check", store::check, "Look for damage in the store").gives::<view::StoreCheck>(),
        post("/v1/store/backup", store::backup, "Copy the store to a new file")
            .takes::<calls::Backup>()
            .gives::<calls::Backup>(),
        post("/v1/gc", store::gc, "Forget what is older than the configuration says")
            .gives::<view::Forgotten>(),
        post("/v1/stop", hosts::stop, "Stop the daemon").takes::<calls::Stop>().gives::<view::Stopping>(),
    ];
    routes.into_iter().map(|route| route.by(Verb::Administer)).collect()
}
