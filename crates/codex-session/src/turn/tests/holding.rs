//! What comes before it can be taken is held, within bounds, and what goes beyond them is looked up.

use super::*;

fn flood(bench: &mut Bench, at: Millis) {
    for number in 0..3_000 {
        let event = Event::DiffUpdated(number.to_string());
        assert_eq!(bench.step(at, own(event)), "");
    }
}

#[test]
fn a_flood_before_the_reply_costs_a_look_but_not_the_end() {
    let (mut bench, _) = Bench::begin(prompt());
    bench.step(1, started());
    flood(&mut bench, 1);
    assert_eq!(bench.step(2, completed()), "");
    assert_eq!(bench.step(3, accepted()), "list");
    let over = turns(vec![wire_turn("u", TurnStatus::Completed, vec![message("m", "done")])]);
    assert_eq!(bench.step(4, over), "end Completed");
    assert_eq!(bench.result().final_text, "done");
    assert!(bench.told.len() < 2_000);
}

#[test]
fn a_flood_during_a_read_back_costs_another() {
    let (mut bench, _) = Bench::begin(plan(Begin::Attach("u".into())));
    flood(&mut bench, 1);
    assert_eq!(bench.step(2, asks(0)), "");
    assert_eq!(bench.step(3, running(vec![])), "list; ask 0");
    assert_eq!(bench.step(4, running(vec![])), "");
    assert_eq!(bench.step(5, completed()), "closed 0 orphaned None; end Completed");
}

#[test]
fn a_flood_during_the_look_for_the_prompt_is_remembered_until_the_turn_is_known() {
    let (mut bench, _) = Bench::begin(prompt_once(false));
    flood(&mut bench, 1);
    assert_eq!(bench.step(2, turns(vec![])), "start");
    assert_eq!(bench.step(3, accepted()), "list");
}

#[test]
fn held_events_are_no_silence() {
    let limits = Limits { idle_ms: Some(1_000), ..Limits::default() };
    let (mut bench, _) = Bench::begin(Plan { limits, ..plan(Begin::Attach("u".into())) });
    for at in (900..9_000).step_by(900) {
        assert_eq!(bench.step(at, own(Event::Compacted)), "");
    }
}
