//! What holds for every turn, whatever happens: random interleavings on a small model of a host, and on no model at
//! all.

mod host;
mod model;
mod witness;

use codex_wire::RequestId;
use codex_wire::answer::Answer;
use codex_wire::escalation::Escalation;
use codex_wire::event::Event;
use codex_wire::request::{CommandApproval, DynamicToolCall, FileChangeApproval, ServerRequest};
use codex_wire::thread::TurnStatus;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::tests::{
    accepted, attached, closed, command, ended, lost, message, own, plan, prompt_item, refused, started,
    steer, timed_out, turn_start, turns, wire_turn,
};
use super::{Begin, Decide, Input, Limits, Loss, Plan, Reply, Turn};
use crate::decision::{Decider, Decision, RequestKey};
use crate::policy::{ApprovalPolicy, Escalations};
use model::{Op, World};
use witness::Witness;

/// A longer look, for the full-length runs.
const PROVE: &str = "CODEX_BRIDGE_PROVE";

fn config() -> Config {
    let factor = if std::env::var_os(PROVE).is_some() { 20 } else { 1 };
    Config { cases: 256 * factor, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let limit = || prop::option::weighted(0.3, 1_u64..100_000);
    (limit(), limit(), limit()).prop_map(|(work_ms, idle_ms, quiet_after_tool_ms)| Limits {
        work_ms,
        idle_ms,
        quiet_after_tool_ms,
    })
}

fn any_policy() -> impl Strategy<Value = ApprovalPolicy> {
    let limit = prop::option::weighted(0.3, (1_u64..100).prop_map(std::time::Duration::from_secs));
    let escalations = prop::sample::select(vec![Escalations::Ask, Escalations::Decline]);
    (limit, prop::bool::weighted(0.2), escalations).prop_map(
        |(answer_limit, accept_commands, escalations)| ApprovalPolicy {
            accept_commands,
            escalations,
            answer_limit,
            ..ApprovalPolicy::default()
        },
    )
}

fn any_begin() -> impl Strategy<Value = Begin> {
    prop_oneof![
        4 => Just(Begin::Prompt(turn_start())),
        1 => Just(Begin::PromptOnce { start: turn_start(), host_lives: true }),
        1 => Just(Begin::PromptOnce { start: turn_start(), host_lives: false }),
        1 => Just(Begin::Attach("u1".into())),
        1 => Just(Begin::Compact),
    ]
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let someone = prop::bool::weighted(0.9);
    (any_begin(), any_limits(), any_policy(), someone).prop_map(|(begin, limits, policy, someone_answers)| {
        Plan { limits, policy, someone_answers, ..plan(begin) }
    })
}

fn any_decision() -> impl Strategy<Value = Decision> {
    prop::sample::select(vec![
        Decision::Accept,
        Decision::AcceptForSession,
        Decision::Decline,
        Decision::Cancel,
    ])
}

fn any_request() -> impl Strategy<Value = ServerRequest> {
    prop::sample::select(vec![
        ServerRequest::Command(CommandApproval::default()),
        ServerRequest::FileChange(FileChangeApproval::default()),
        ServerRequest::ToolCall(DynamicToolCall::default()),
        ServerRequest::CurrentTime,
        ServerRequest::Unknown { method: "do/magic".to_owned(), params: serde_json::Value::Null },
    ])
}

fn any_escalation() -> impl Strategy<Value = Escalation> {
    prop::sample::select(Escalation::ALL.to_vec())
}

fn any_status() -> impl Strategy<Value = TurnStatus> {
    prop::sample::select(vec![TurnStatus::Completed, TurnStatus::Failed, TurnStatus::Interrupted])
}

fn any_pause() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0_u64..100, 2 => 100_u64..3_000, 1 => 3_000_u64..40_000]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Deliver),
        8 => Just(Op::HostTakes),
        1 => any::<bool>().prop_map(|takes| Op::TimesOut { takes }),
        1 => Just(Op::HostRefuses),
        4 => Just(Op::Announces),
        4 => any::<u8>().prop_map(Op::Works),
        1 => Just(Op::Noise),
        3 => (any_request(), any::<bool>()).prop_map(|(request, by_text)| Op::HostAsks { request: Box::new(request), by_text }),
        1 => any_status().prop_map(Op::HostEnds),
        1 => Just(Op::AnsweredElsewhere),
        4 => (any_decision(), any::<prop::sample::Index>()).prop_map(|(decision, which)| Op::Decides { decision, which }),
        1 => Just(Op::DecidesForeign),
        1 => any::<prop::sample::Index>().prop_map(Op::DecidesUnseen),
        6 => any_escalation().prop_map(Op::FindsOut),
        3 => Just(Op::ProgramAnswers),
        1 => Just(Op::Interrupt),
        2 => Just(Op::Steer),
        5 => any_pause().prop_map(Op::Passes),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(taken, late)| Op::Disconnect { taken, late }),
        3 => Just(Op::Reconnect),
        1 => prop::bool::weighted(0.2).prop_map(|replaced| Op::HostDies { replaced }),
    ]
}

fn any_script() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any_op(), 0..120)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_turn_whose_host_behaves_in_the_end_ends_and_leaves_nothing_unanswered(plan in any_plan(), script in any_script()) {
        let mut world = World::played(plan, script);
        world.settle();
        world.assert_nothing_waits();
        world.finish();
        prop_assert!(world.turn.has_ended(), "{world:?}");
        world.assert_prompted_once();
    }

    #[test]
    fn a_turn_whose_host_dies_ends_at_once(plan in any_plan(), script in any_script()) {
        let mut world = World::played(plan, script);
        world.play(Op::HostDies { replaced: false });
        prop_assert!(world.turn.has_ended(), "{world:?}");
    }

    #[test]
    fn a_turn_that_is_to_stop_ends_even_if_its_host_falls_silent(plan in any_plan(), script in any_script()) {
        let mut world = World::played(plan, script);
        world.play(Op::Interrupt);
        world.fall_silent();
        prop_assert!(world.turn.has_ended(), "{world:?}");
    }

    #[test]
    fn no_input_in_any_order_breaks_the_rules(plan in any_plan(), script in prop::collection::vec(any_input(), 0..120)) {
        let mut effects = Vec::new();
        let mut witness = Witness::new(&plan);
        let mut turn = Turn::begin(plan, 0, &mut effects);
        witness.see(&turn, &effects);
        let mut now = 0;
        let death = Input::Lost(Loss::HostGone("killed".to_owned()));
        for (token, (pause, mut input)) in (0..).zip(script.into_iter().chain([(0, death)])) {
            if let Input::Steer { token: own, .. } = &mut input {
                *own = token;
            }
            now += pause;
            effects.clear();
            witness.hear(&turn, &input, now);
            turn.step(input, now, &mut effects);
            witness.see(&turn, &effects);
            effects.clear();
            witness.hear(&turn, &Input::Time, now);
            turn.step(Input::Time, now, &mut effects);
            witness.see(&turn, &effects);
            // Its actor steps as long as a deadline is due: one that stays due would be a loop without an end.
            prop_assert!(turn.next_deadline(now).is_none_or(|at| at > now), "{turn:?}");
        }
        prop_assert!(turn.has_ended());
    }
}

fn once(make: fn() -> Input) -> impl Strategy<Value = Input> {
    Just(make).prop_map(|make| make())
}

/// Inputs of no plausible order.
fn any_input() -> impl Strategy<Value = (u64, Input)> {
    let request_id = || {
        (0_i64..4, any::<bool>()).prop_map(|(id, by_text)| {
            if by_text { RequestId::Text(id.to_string()) } else { RequestId::Number(id) }
        })
    };
    let key = move || {
        (request_id(), "e[12]").prop_map(|(id, epoch)| RequestKey { epoch: epoch.as_str().into(), id })
    };
    let event = prop_oneof![
        3 => once(started),
        1 => any_status().prop_map(ended),
        2 => (0_u8..5).prop_map(|id| own(Event::ItemCompleted(message(&id.to_string(), "<turn_aborted>")))),
        2 => (0_u8..5).prop_map(|id| own(Event::ItemCompleted(command(&id.to_string(), "completed")))),
        2 => request_id().prop_map(|id| own(Event::RequestResolved(id))),
    ];
    let error = || prop::sample::select(vec![refused("no rollout"), refused("no"), timed_out(), closed()]);
    let reply = prop_oneof![
        4 => once(accepted),
        1 => error().prop_map(|error| Input::Reply(Reply::Start(Err(error)))),
        1 => error().prop_map(|error| Input::Reply(Reply::Compact(Err(error)))),
        1 => (0_u64..100).prop_map(|token| Input::Reply(Reply::Steer { token, result: Ok(None) })),
        2 => once(|| turns(vec![])),
        2 => (any_status(), prop::bool::weighted(0.8)).prop_map(|(status, runs)| {
            let status = if runs { TurnStatus::InProgress } else { status };
            turns(vec![wire_turn("u", status, vec![prompt_item("c1"), message("1", "read")])])
        }),
        1 => error().prop_map(|error| Input::Reply(Reply::Turns(Err(error)))),
    ];
    let input = prop_oneof![
        8 => event,
        6 => reply,
        4 => (request_id(), any_request()).prop_map(|(id, request)| Input::Request { id, request: Box::new(request) }),
        4 => (key(), any_request(), any_decision()).prop_map(|(key, request, decision)| {
            Input::Decide(Decide { key, digest: request.digest(None), decision, by: Decider::TimeLimit })
        }),
        6 => (key(), any_request(), any_escalation()).prop_map(|(key, request, escalation)| {
            Input::Inspected { key, digest: request.digest(None), inspection: escalation.into() }
        }),
        2 => key().prop_map(|key| Input::ProgramAnswered { key, answer: Answer::unknown_method("x") }),
        1 => once(|| Input::Interrupt),
        2 => once(|| steer(0)),
        2 => once(lost),
        3 => once(|| attached("e1")),
        1 => prop::bool::weighted(0.1).prop_map(|other| attached(if other { "e2" } else { "e1" })),
        3 => once(|| Input::Time),
    ];
    (any_pause(), input)
}
