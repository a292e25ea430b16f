use serde_json::json;

use super::*;

#[track_caller]
fn check(line: &str, kind: Option<Kind>, thread: Option<&str>, turn: Option<&str>) {
    let envelope = Envelope::parse(line.as_bytes()).unwrap();
    assert_eq!(envelope.kind(), kind, "{line}");
    assert_eq!(envelope.route.thread_id.as_deref(), thread, "{line}");
    assert_eq!(envelope.route.turn_id.as_deref(), turn, "{line}");
}

#[test]
fn routes_are_found_wherever_the_method_keeps_them() {
    let note = Some(Kind::Notification);
    check(r#"{"method":"m","params":{"threadId":"t","turnId":"u"}}"#, note, Some("t"), Some("u"));
    check(
        r#"{"method":"m","params":{"turn":{"items":[{"id":"x"}],"id":"u"},"threadId":"t"}}"#,
        note,
        Some("t"),
        Some("u"),
    );
    check(r#"{"method":"m","params":{"thread":{"turns":[],"id":"t"}}}"#, note, Some("t"), None);
    check(r#"{"method":"m","params":{"conversationId":"t"}}"#, note, Some("t"), None);
    check(r#"{"method":"m","params":{"threadId":"a\"b"},"emittedAtMs":1}"#, note, Some("a\"b"), None);
}

#[test]
fn odd_parameters_do_not_cost_the_message() {
    for params in
        ["null", "1", "-1", "1.5", "true", "\"x\"", "[1,{\"a\":2}]", "{}", "{\"threadId\":null,\"turn\":3}"]
    {
        check(&format!(r#"{{"method":"m","params":{params}}}"#), Some(Kind::Notification), None, None);
    }
    check(r#"{"method":"m"}"#, Some(Kind::Notification), None, None);
}

#[test]
fn ids_keep_their_json_type() {
    for (id, expected) in
        [("0", RequestId::Number(0)), ("7", RequestId::Number(7)), ("\"s-1\"", RequestId::Text("s-1".into()))]
    {
        let line = format!(r#"{{"method":"m","id":{id},"params":{{}}}}"#);
        let envelope = Envelope::parse(line.as_bytes()).unwrap();
        assert_eq!(envelope.kind(), Some(Kind::Request));
        assert_eq!(envelope.id, Some(expected.clone()));
        assert_eq!(serde_json::to_string(&expected).unwrap(), id);
    }
}

// peer: C12
#[test]
fn replies_carry_a_result_or_a_typed_error() {
    let envelope = Envelope::parse(br#"{"id":3,"result":{"turn":{"id":"u"}}}"#).unwrap();
    assert_eq!(envelope.kind(), Some(Kind::Reply));
    assert_eq!(envelope.result.unwrap().get(), r#"{"turn":{"id":"u"}}"#);

    let line =
        json!({"id": 4, "error": {"code": -32600, "message": "no", "data": {"type": "x"}}}).to_string();
    let envelope = Envelope::parse(line.as_bytes()).unwrap();
    assert_eq!(envelope.kind(), Some(Kind::Reply));
    let error = envelope.error.unwrap();
    assert_eq!((error.code, error.message.as_str(), error.data), (-32600, "no", Some(json!({"type": "x"}))));
}

#[test]
fn what_is_no_message_is_said_to_be_none() {
    for line in
        ["", "garbage", "[]", "1", "null", "\"x\"", "{", "{\"method\":1}", "{\"id\":1.5,\"method\":\"m\"}"]
    {
        assert!(Envelope::parse(line.as_bytes()).is_err(), "{line}");
    }
    for line in ["{}", r#"{"id":1}"#, r#"{"result":{}}"#] {
        assert_eq!(Envelope::parse(line.as_bytes()).unwrap().kind(), None, "{line}");
    }
}

#[test]
fn ids_of_an_odd_type_are_none_and_do_not_hide_others() {
    let note = Some(Kind::Notification);
    check(r#"{"method":"m","params":{"threadId":5,"turnId":[1]}}"#, note, None, None);
    check(
        r#"{"method":"m","params":{"threadId":"t","thread":null,"turnId":"u","turn":{}}}"#,
        note,
        Some("t"),
        Some("u"),
    );
    check(r#"{"method":"m","params":{"thread":{"id":7},"turn":"u"}}"#, note, None, Some("u"));
}

#[test]
fn an_error_of_an_odd_shape_is_still_an_error() {
    for odd in ["\"no\"", "5", "[]", "{}"] {
        let line = format!(r#"{{"id":1,"error":{odd}}}"#);
        let envelope = Envelope::parse(line.as_bytes()).unwrap();
        assert_eq!(envelope.kind(), Some(Kind::Reply));
        assert_eq!(envelope.error.unwrap().message, odd);
    }
    let envelope = Envelope::parse(br#"{"id":1,"error":null,"result":{}}"#).unwrap();
    assert!(envelope.error.is_none() && envelope.result.is_some());
}
