use codex_session::TurnOutcome;
use codex_session::tool_display::ToolCompleted;
use codex_wire::TurnId;

use super::{LiveKind, News, Newsroom, OUTPUT_MAX_BYTES, OUTPUTS, OpenText, TEXT_MAX_BYTES};
use crate::event::{Event, Line, Message, Seq, StateChanged, TurnEnded, TurnStarted, Warning};
use crate::task::{Status, TaskId};

fn task() -> TaskId {
    TaskId("codex-000000000001".to_owned())
}

fn event(seq: Seq, line: impl Into<Line>) -> Event {
    Event { task_id: Some(task()), seq, at: 0, line: line.into() }
}

fn line(seq: Seq, kind: &str) -> Event {
    match kind {
        "state" => {
            let (status, reason, client_request_id) = (Status::Working, None, None);
            event(seq, StateChanged { status, reason, goes_on: false, client_request_id })
        }
        "turn_started" => {
            let turn_id = TurnId("turn".to_owned());
            event(seq, TurnStarted { turn_id, number: None, prompt: None, prompt_cut_bytes: None })
        }
        "message" => event(seq, Message { item_id: None, text: String::new(), phase: None }),
        "warning" => event(seq, Warning { message: String::new() }),
        "turn_ended" => {
            let (outcome, side_effects) = (TurnOutcome::Completed, Vec::new());
            let ended =
                TurnEnded { outcome, final_text: None, error: None, outcome_unknown: false, side_effects };
            event(seq, ended)
        }
        other => panic!("no line is {other}"),
    }
}

fn at_work() -> Newsroom {
    let news = Newsroom::new();
    news.turn_started(&task());
    news.tell_committed(vec![line(1, "state"), line(2, "turn_started")], Vec::new());
    news
}

fn open(news: &Newsroom) -> Option<OpenText> {
    news.join(&task()).1.into_iter().find(|text| text.call_id.is_none())
}

fn outputs(news: &Newsroom) -> Vec<(String, String)> {
    let open = news.join(&task()).1.into_iter();
    open.filter_map(|text| Some((text.call_id?, text.text))).collect()
}

fn ended(seq: Seq, call_id: &str) -> Event {
    let (call_id, name, result) = (call_id.to_owned(), "exec_command".to_owned(), String::new());
    event(seq, ToolCompleted { call_id, name, duration_ms: None, is_error: false, result })
}

fn text(after: Seq, text: &str) -> OpenText {
    OpenText { call_id: None, after, text: text.to_owned(), left_out_bytes: 0 }
}

#[test]
fn whoever_joins_gets_the_text_so_far_and_then_every_piece_once() {
    let news = at_work();
    assert_eq!(open(&news), None);
    news.tell_live(&task(), LiveKind::Text, "Once ");
    news.tell_live(&task(), LiveKind::Reasoning, "hm");
    news.tell_live(&task(), LiveKind::Text, "upon ");
    let (mut later, so_far) = news.join(&task());
    assert_eq!(so_far, [text(2, "Once upon ")]);
    news.tell_live(&task(), LiveKind::Text, "a time.");
    let Ok(News::Live { text, after: 2, kind: LiveKind::Text, .. }) = later.try_recv() else {
        panic!("no piece")
    };
    assert_eq!(text, "a time.");
    assert!(later.try_recv().is_err());
}

#[test]
fn a_text_is_open_until_its_message_is_in_the_log() {
    let news = at_work();
    news.tell_live(&task(), LiveKind::Text, "One.");
    news.tell_committed(vec![line(3, "warning")], Vec::new());
    assert_eq!(open(&news), Some(text(2, "One.")), "a warning ends no message");
    news.tell_committed(vec![line(4, "message")], Vec::new());
    assert_eq!(open(&news), None);
    news.tell_live(&task(), LiveKind::Text, "Two");
    assert_eq!(open(&news), Some(text(4, "Two")), "the next one begins after it");
    news.tell_committed(vec![line(5, "turn_ended")], Vec::new());
    assert_eq!(open(&news), None, "what was cut off by the turn's end is over");
    news.tell_live(&task(), LiveKind::Text, "x");
    news.turn_ended(&task());
    assert_eq!(open(&news), None);
}

#[test]
fn a_long_text_is_remembered_by_its_end_and_says_how_much_is_missing() {
    let news = at_work();
    let piece = "ä".repeat(5_000);
    for _ in 0..100 {
        news.tell_live(&task(), LiveKind::Text, &piece);
        let kept = open(&news).unwrap();
        assert!(kept.text.len() <= TEXT_MAX_BYTES);
    }
    let kept = open(&news).unwrap();
    assert_eq!(kept.text.len() + kept.left_out_bytes, 100 * piece.len());
    assert!(kept.text.len() >= TEXT_MAX_BYTES / 2 && kept.text.chars().all(|char| char == 'ä'));
    news.tell_live(&task(), LiveKind::Text, &"b".repeat(2 * TEXT_MAX_BYTES));
    assert!(open(&news).unwrap().text.len() <= TEXT_MAX_BYTES, "one piece may be too long by itself");
}

#[test]
fn output_is_kept_until_its_call_has_ended() {
    let news = at_work();
    let pair = |call_id: &str, text: &str| (call_id.to_owned(), text.to_owned());
    news.tell_output(&task(), "a".to_owned(), "one ");
    news.tell_output(&task(), "b".to_owned(), "other");
    news.tell_output(&task(), "a".to_owned(), "two");
    assert_eq!(outputs(&news), [pair("a", "one two"), pair("b", "other")]);
    news.tell_committed(vec![line(3, "message"), ended(4, "a")], Vec::new());
    assert_eq!(outputs(&news), [pair("b", "other")], "a message ends no command");
    news.tell_committed(vec![line(5, "turn_ended")], Vec::new());
    assert_eq!(outputs(&news), []);
}

#[test]
fn of_long_and_many_outputs_the_end_is_kept() {
    let news = at_work();
    for call in 0..2 * OUTPUTS {
        news.tell_live(&task(), LiveKind::Text, "said");
        news.tell_output(&task(), call.to_string(), &"x".repeat(2 * OUTPUT_MAX_BYTES));
    }
    let kept = outputs(&news);
    let calls: Vec<usize> = kept.iter().map(|(call, _)| call.parse().unwrap()).collect();
    assert_eq!(calls, (OUTPUTS..2 * OUTPUTS).collect::<Vec<_>>(), "the newest");
    assert!(kept.iter().all(|(_, text)| (1..=OUTPUT_MAX_BYTES).contains(&text.len())));
    assert!(open(&news).unwrap().text.starts_with("saidsaid"), "the message is none of them");
}

#[test]
fn half_a_message_is_not_told() {
    let news = Newsroom::new();
    news.turn_joined_midway(&task());
    let (mut heard, _) = news.join(&task());
    news.tell_live(&task(), LiveKind::Text, "a time.");
    assert!(heard.try_recv().is_err() && open(&news).is_none());
    news.tell_committed(vec![line(3, "message")], Vec::new());
    news.tell_live(&task(), LiveKind::Text, "The end.");
    assert_eq!(open(&news), Some(text(3, "The end.")), "the next message is seen from its beginning");
}

#[test]
fn what_could_deceive_the_eye_is_not_told() {
    let news = at_work();
    let (mut heard, _) = news.join(&task());
    let pieces = [
        "\u{1b}[31mred\u{1b}",
        "[0m\tand \u{202e}txet\u{202c}\u{200b}\n",
        "\u{9b}",
        "2J\u{1b}]0;title\u{7}.",
    ];
    for kind in [LiveKind::Text, LiveKind::Reasoning, LiveKind::Output] {
        let mut told = String::new();
        for piece in pieces {
            match kind {
                LiveKind::Output => news.tell_output(&task(), "call".to_owned(), piece),
                kind => news.tell_live(&task(), kind, piece),
            }
            let Ok(News::Live { text, .. }) = heard.try_recv() else { panic!("no piece") };
            told.push_str(&text);
        }
        assert_eq!(told, "red[0m\tand txet\n2Jtitle.", "{kind:?}");
    }
    assert_eq!(open(&news), Some(text(2, "red[0m\tand txet\n2Jtitle.")), "nor to those who come later");
    for piece in ["❤", "\u{fe0f}", "\u{fe0f}!"] {
        news.tell_live(&task(), LiveKind::Text, piece);
    }
    assert!(
        open(&news).unwrap().text.ends_with("❤\u{fe0f}!"),
        "a picture keeps its form, as in the whole message"
    );
}
