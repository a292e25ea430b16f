use super::{InlineError, Response, Scenario, Step, ToolCall, Usage};

fn check_inline(prompt: &str, expected: Scenario) {
    assert_eq!(Scenario::from_prompt(prompt), Ok(Some(expected)), "{prompt}");
}

#[test]
fn a_prompt_can_carry_its_own_script() {
    check_inline("[play] say a b", Scenario::new().say("a b"));
    check_inline("words [play] say a => exec x => say b", Scenario::new().say("a").exec("x").then_say("b"));
    check_inline("[play]\nexec a | b; c\nsay done\n", Scenario::new().exec("a | b; c").then_say("done"));
    check_inline("[play] exec a => and exec b", Scenario::new().exec("a").exec("b"));
    check_inline(
        "[play] mcp srv peek",
        Scenario::new().call(ToolCall::mcp("srv", "peek", serde_json::json!({}))),
    );
    check_inline(
        "[play] usage 4 3 2 1 => say x",
        Scenario::new().usage(Usage { input: 4, cached: 3, output: 2, reasoning: 1 }).say("x"),
    );
}

#[test]
fn a_script_that_cannot_be_read_says_why() {
    let check = |prompt, expected| assert_eq!(Scenario::from_prompt(prompt), Err(expected));
    check("[play] sing la", InlineError::UnknownWord("sing".to_owned()));
    check("[play] http many", InlineError::BadNumber("many".to_owned()));
    check("[play] tool x {", InlineError::BadJson("{".to_owned()));
    check("[play] usage 1 2", InlineError::MissingArgument("one of the four token counts"));
}

#[test]
fn a_step_after_a_failure_or_a_limit_belongs_to_the_next_response() {
    let scenario = Scenario::new().delta("half").cut().times(1).say("whole");
    assert_eq!(scenario.responses().len(), 2);
    assert_eq!(scenario.responses()[0].steps.last(), Some(&Step::Cut));
    assert_eq!(scenario.responses()[0].times, Some(1));
}

#[test]
fn a_failure_can_follow_a_tool_output() {
    let scenario = Scenario::new().exec("ls").then().respond(Response::unauthorized());
    assert_eq!(scenario.responses()[1..], [Response::unauthorized()]);
}

#[test]
fn attempts_use_up_limited_responses_within_their_round() {
    let scenario = Scenario::new()
        .exec("ls")
        .respond(Response::internal_error())
        .times(2)
        .respond(Response::unauthorized())
        .times(1)
        .say("fine");
    let index = |round, attempt| {
        scenario.pick(round, attempt).and_then(|found| scenario.responses().iter().position(|r| r == found))
    };
    assert_eq!(index(0, 0), Some(0));
    assert_eq!(index(0, 7), Some(0), "an unlimited response answers every attempt");
    assert_eq!([index(1, 0), index(1, 1), index(1, 2), index(1, 3)], [Some(1), Some(1), Some(2), Some(3)]);
    assert_eq!(index(2, 0), None);
}

#[test]
fn a_scenario_survives_json() {
    let scenario = Scenario::new()
        .reason("hm")
        .say("a")
        .exec("x")
        .apply_patch("p")
        .then_say("b")
        .cut()
        .respond(Response::usage_limit_reached(std::time::Duration::from_mins(1)));
    let text = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
}
