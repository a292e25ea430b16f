//! All routes of the API.

use codex_bridge_core::desk::Verb;
use codex_bridge_core::desk::calls::{Decide, Fork, Prompt, Start};
use serde_json::Value;

use super::route::{ReplyKind, Route, get, post};
use super::{
    audit, channels, deliveries, events, hosts, inbox, metrics, news, openapi, readiness, requests, store,
    tasks, tokens, tool, trust,
};
use crate::{calls, view};

/// All routes.
pub fn all() -> Vec<Route> {
    [public(), of_tasks(), of_requests(), of_deliveries(), of_daemon(), of_owner()]
        .into_iter()
        .flatten()
        .collect()
}

fn public() -> Vec<Route> {
    vec![
        get("/healthz", hosts::health, "Whether the daemon runs").for_anyone().gives::<view::Fine>(),
        get("/readyz", readiness::ready, "Whether the daemon accepts work now; a 503 says why not")
            .for_anyone()
            .gives::<view::Fine>(),
    ]
}

fn of_tasks() -> Vec<Route> {
    vec![
        get("/v1/tasks", tasks::list, "List tasks, newest first; the Link header has the next page")
            .query::<calls::List>()
            .gives::<Vec<view::ShortTask>>(),
        post("/v1/tasks", tasks::start, "Start a task; it is durable once the reply is sent")
            .by(Verb::Start)
            .header(
                "Idempotency-Key",
                "The caller's name for this request; a repeated name gives the same task",
            )
            .takes::<Start>()
            .gives::<view::Task>(),
        get("/v1/tasks/{id}", tasks::show, "Show a task, by its id or a unique prefix of it")
            .gives::<view::Task>(),
        get(
            "/v1/tasks/{id}/wait",
            tasks::wait,
            "Wait until a task is finished, needs a decision, or the timeout has passed",
        )
        .query::<calls::Wait>()
        .gives::<view::Task>(),
        get(
            "/v1/tasks/{id}/events",
            events::read,
            "Read a task's log, as JSON lines or as server-sent events",
        )
        .query::<calls::Events>()
        .header("Last-Event-ID", "The number of the last received event; overrides `after`")
        .streams::<view::Event>(),
        get("/v1/tasks/{id}/turns", tasks::turns, "List the turns of a task, oldest first")
            .gives::<Vec<view::Turn>>(),
        post("/v1/tasks/{id}/turns", tasks::continue_task, "Continue a finished task")
            .by(Verb::Continue)
            .header(
                "Idempotency-Key",
                "The caller's name for this request; a repeated name on the same task gives the same turn",
            )
            .takes::<Prompt>()
            .gives::<view::Task>(),
        post("/v1/tasks/{id}/steer", tasks::steer, "Add text to the running turn")
            .by(Verb::Steer)
            .takes::<calls::Steer>()
            .gives::<view::Outcome>(),
        post("/v1/tasks/{id}/interrupt", tasks::interrupt, "Stop a task; replies once Codex has confirmed")
            .by(Verb::Interrupt)
            .query::<calls::Interrupt>()
            .gives::<view::Outcome>(),
        post("/v1/tasks/{id}/fork", tasks::fork, "Fork a finished task")
            .by(Verb::Fork)
            .header(
                "Idempotency-Key",
                "The caller's name for this request; a repeated name on the same task gives the same fork",
            )
            .takes::<Fork>()
            .gives::<view::Task>(),
        post(
            "/v1/tasks/{id}/release",
            tasks::release,
            "Release a task's thread for use in Codex's own terminal",
        )
        .by(Verb::Release)
        .gives::<view::Task>(),
        get("/v1/tasks/{id}/result", tasks::result, "Show the answer of a finished task")
            .gives::<view::TaskResult>(),
        get("/v1/tasks/{id}/diff", tasks::diff, "Show the diff of the last turn that changed files")
            .gives_or_text::<view::Diff>("text/x-diff"),
        get(
            "/v1/events",
            news::listen,
            "Watch all tasks and the number of open requests, as server-sent events",
        )
        .query::<calls::News>()
        .gives_other(ReplyKind::Events),
    ]
}

fn of_requests() -> Vec<Route> {
    vec![
        get("/v1/requests", requests::list, "List the open requests of all tasks, oldest first")
            .gives::<Vec<view::Request>>(),
        get(
            "/v1/tasks/{id}/requests",
            requests::of_task,
            "List all requests of a task, including closed ones",
        )
        .gives::<Vec<view::Request>>(),
        get("/v1/tasks/{id}/requests/{request}", requests::show, "Show a request, and who decided it")
            .gives::<view::Request>(),
        get(
            "/v1/tasks/{id}/requests/{request}/changes",
            requests::changes,
            "Show the changes of a request, with whole diffs",
        )
        .gives_or_text::<view::WholeChanges>("text/x-diff"),
        post(
            "/v1/tasks/{id}/requests/{request}/decision",
            requests::decide,
            "Decide a request; `-` means the only open one",
        )
        .by(Verb::Decide)
        .takes::<Decide>()
        .gives::<view::Decided>(),
    ]
}

fn of_deliveries() -> Vec<Route> {
    vec![
        get("/v1/deliveries", deliveries::list, "List pending and failed deliveries, newest first")
            .query::<calls::Deliveries>()
            .gives::<Vec<view::Delivery>>(),
        post("/v1/deliveries/{id}/retry", deliveries::retry, "Retry a delivery now")
            .by(Verb::Deliver)
            .gives::<view::Delivery>(),
        post("/v1/deliveries/test", deliveries::test, "Send one test message to a target")
            .by(Verb::Deliver)
            .takes::<calls::TestTarget>()
            .gives::<view::Tried>(),
    ]
}

fn of_daemon() -> Vec<Route> {
    vec![
        get("/v1/hosts", hosts::list, "List the running Codex hosts").gives::<Vec<view::Host>>(),
        get("/v1/about", hosts::about, "Show the daemon's version, process and paths").gives::<view::About>(),
        get("/v1/openapi.json", openapi::show, "Show this document").gives::<Value>(),
        get("/metrics", metrics::show, "Metrics for Prometheus")
            .gives_other(ReplyKind::Text("application/openmetrics-text")),
        post("/v1/tool", tool::call, "Call the codex_bridge tool; each action has its own required role")
            .takes::<calls::Tool>()
            .gives::<Value>(),
    ]
}

fn of_owner() -> Vec<Route> {
    let routes = vec![
        get("/v1/tokens", tokens::list, "List the tokens, without their secrets").gives::<Vec<view::Token>>(),
        post(
            "/v1/tasks/{id}/requests/{request}/reveal",
            requests::reveal,
            "Show a request without redaction",
        )
        .gives::<view::Revealed>(),
        post("/v1/tokens", tokens::create, "Create a token")
            .takes::<calls::NewToken>()
            .gives::<view::FreshToken>(),
        post("/v1/tokens/{name}/quota", tokens::quota, "Change the quota of a token")
            .takes::<calls::Quota>()
            .gives::<view::Token>(),
        post("/v1/tokens/{name}/revoke", tokens::revoke, "Revoke a token").gives::<view::Token>(),
        get("/v1/channels", channels::list, "List the channels and their status")
            .gives::<Vec<view::Channel>>(),
        post("/v1/channels/{name}/run", channels::run, "Run a channel")
            .takes::<calls::RunChannel>()
            .gives::<view::Channel>(),
        post("/v1/channels/{name}/pause", channels::pause, "Pause a channel").gives::<view::Channel>(),
        post("/v1/channels/allow", channels::allow, "Allow a stranger to write, by the stranger's code")
            .takes::<calls::AllowSender>()
            .gives::<view::Allowed>(),
        post("/v1/channels/{name}/disallow", channels::disallow, "Take back what a code allowed")
            .takes::<calls::DisallowSender>()
            .gives::<view::Channel>(),
        post("/v1/channels/{name}/test", channels::test, "Test whether a channel's platform can be reached")
            .takes::<calls::RunChannel>()
            .gives::<view::Reached>(),
        get("/v1/channels/{name}/log", channels::log, "Show the recent log lines of a channel")
            .query::<calls::Lines>()
            .gives::<view::ChannelLog>(),
        get("/v1/trust", trust::list, "List the directories with a trust level, and the default")
            .gives::<view::TrustList>(),
        get("/v1/trust/directory", trust::show, "Show the trust level of a directory, and why it has it")
            .query::<calls::TrustOf>()
            .gives::<view::TrustOf>(),
        post("/v1/trust", trust::set, "Set the trust level of a directory")
            .takes::<calls::SetTrust>()
            .gives::<view::TrustChange>(),
        post("/v1/trust/remove", trust::remove, "Remove the trust level of a directory")
            .takes::<calls::RemoveTrust>()
            .gives::<view::TrustChange>(),
        get("/v1/inbox", inbox::list, "List the messages from channels that are not finished, newest first")
            .query::<calls::Inbox>()
            .gives::<Vec<view::Message>>(),
        post("/v1/inbox/{id}/retry", inbox::retry, "Retry a message that was given up")
            .gives::<view::Message>(),
        get("/v1/audit", audit::list, "Show the audit log: who decided or ordered what")
            .query::<calls::Audit>()
            .gives::<Vec<view::AuditLine>>(),
        post("/v1/store/check", store::check, "Check the store for damage").gives::<view::StoreCheck>(),
        post("/v1/store/backup", store::backup, "Copy the store to a new file")
            .takes::<calls::Backup>()
            .gives::<calls::Backup>(),
        post("/v1/gc", store::gc, "Delete finished tasks that are older than the configured age")
            .gives::<view::Forgotten>(),
        post("/v1/stop", hosts::stop, "Stop the daemon").takes::<calls::Stop>().gives::<view::Stopping>(),
    ];
    routes.into_iter().map(|route| route.by(Verb::Administer)).collect()
}
