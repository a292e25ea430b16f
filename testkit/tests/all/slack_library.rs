//! The stand-in of Slack and Slack's own library, slack_sdk: what it sends is taken, what it reads is what it expects, and every
//! refusal is one that it knows.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::platform::slack::{ARCHIVED, BOT_USER, Server, dm, limited};

const TOKEN: &str = "xoxb-1-a-token-of-the-library";
const APP_TOKEN: &str = "xapp-1-A0BRIDGE-1-a-token-of-the-library";
const ADA: &str = "U0ADA";
const ROOM: &str = "C0ROOM";

/// Runs a script of Python's with `web`, a client of the Web API, and `listen`, which connects by Socket Mode and calls back for
/// every request; gives the last line that it printed, read as JSON.
async fn run(server: &Server, token: &str, script: &str) -> Value {
    const START: &str = "
import json, queue, sys
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
web = WebClient(token=sys.argv[2], base_url=sys.argv[1] + '/')
requests = queue.Queue()
def listen(acknowledges=True):
    client = SocketModeClient(app_token=sys.argv[3], web_client=web)
    def on_request(client, request):
        if acknowledges:
            client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        requests.put(request)
    client.socket_mode_request_listeners.append(on_request)
    client.connect()
    return client
def next_of(kind):
    while True:
        request = requests.get(timeout=20)
        event = request.payload.get('event', request.payload)
        if event.get('type') == kind and event.get('user') != 'U0CODEX':
            return request, event
def fails(call):
    try:
        call()
    except SlackApiError as refused:
        return [refused.response['error'], refused.response.status_code, refused.response.headers.get('retry-after')]
print('started', flush=True)
";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/slack-sdk/bin/python");
    let mut command = Command::new(python);
    command.args(["-c", &format!("{START}{script}\n"), &server.base(), token, APP_TOKEN]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.expect("the library is there after `cargo xtask setup`");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

#[tokio::test]
async fn an_app_of_the_library_talks_with_people_on_the_stand_in() {
    let server = Server::open(TOKEN, APP_TOKEN).await;
    let script = "
client = listen()
request, event = next_of('message')
blocks = [
    {'type': 'rich_text', 'elements': [{'type': 'rich_text_section', 'elements': [
        {'type': 'text', 'text': 'Codex asks: '}, {'type': 'text', 'text': event['text'], 'style': {'code': True}}]}]},
    {'type': 'actions', 'elements': [{'type': 'button', 'action_id': 'a', 'value': 'a:req-1', 'style': 'primary',
        'text': {'type': 'plain_text', 'text': 'Approve'}}]},
]
said = web.chat_postMessage(channel=event['channel'], text='Codex asks', blocks=blocks,
    metadata={'event_type': 'x', 'event_payload': {'key': '1'}})
web.reactions_add(channel=event['channel'], timestamp=event['ts'], name='eyes')
_, tap = next_of('block_actions')
edited = web.chat_update(channel=tap['channel']['id'], ts=tap['container']['message_ts'], text='approved')
web.chat_postEphemeral(channel=tap['channel']['id'], user=tap['user']['id'], text='Codex has taken it.')
found = web.conversations_history(channel=event['channel'], include_all_metadata=True)['messages']
name = web.users_info(user=event['user'])['user']['real_name']
print(json.dumps([request.retry_attempt, said['ts'], tap['actions'][0]['value'], edited['text'], name,
    [one.get('metadata', {}).get('event_payload') for one in found], web.auth_test()['user_id']]))
client.close()
";
    let talk = async {
        server.until_connected().await;
        server.write(ADA, "hello &amp; goodbye");
        let asked = server.until_said(&dm(ADA), "Codex asks: hello &amp; goodbye").await;
        assert_eq!(asked.styled("code"), ["hello &amp; goodbye"]);
        server.tap(ADA, &asked, &asked.button("Approve").unwrap());
        asked
    };
    let (asked, told) = tokio::join!(talk, run(&server, TOKEN, script));
    let expected = serde_json::json!([
        0, asked.ts, "a:req-1", "approved", "Name of U0ADA", [{"key": "1"}, null], BOT_USER
    ]);
    assert_eq!(told, expected);
    let said = server.said().remove(0);
    assert_eq!((said.edits, said.text.as_str(), said.button("Approve")), (1, "approved", None));
    assert_eq!(server.told(), [(ADA.to_owned(), "Codex has taken it.".to_owned())]);
    assert_eq!(server.unacknowledged(), (0, 0));
}

#[tokio::test]
async fn an_event_that_is_not_acknowledged_comes_again_and_a_connection_is_replaced() {
    let server = Server::open(TOKEN, APP_TOKEN).await;
    let script = "
client = listen(acknowledges=False)
first, _ = next_of('message')
again, _ = next_of('message')
client.close()
client = listen()
print('connected', flush=True)
_, before = next_of('app_mention')
_, behind = next_of('app_mention')
print(json.dumps([first.retry_attempt, again.retry_attempt, again.retry_reason, again.envelope_id == first.envelope_id,
    before['text'], behind['text'], behind['channel']]))
client.close()
";
    let talk = async {
        server.until_connected().await;
        server.write(ADA, "hello");
        server.until("the second connection", |server| (server.connections().1 >= 2).then_some(())).await;
        server.write_in(ADA, ROOM, None, &format!("<@{BOT_USER}> one"));
        server.refresh("warning", Duration::from_millis(500));
        server.until("the third connection", |server| (server.connections() == (1, 3)).then_some(())).await;
        server.write_in(ADA, ROOM, None, &format!("<@{BOT_USER}> two"));
    };
    let ((), told) = tokio::join!(talk, run(&server, TOKEN, script));
    let (one, two) = (format!("<@{BOT_USER}> one"), format!("<@{BOT_USER}> two"));
    assert_eq!(told, serde_json::json!([0, 1, "timeout", true, one, two, ROOM]));
    assert!(server.unacknowledged().1 > 0);
}

#[tokio::test]
async fn files_and_pages_of_the_library_are_taken_and_every_refusal_is_one_that_it_knows() {
    let server = Server::open(TOKEN, APP_TOKEN).await;
    for number in 0..45 {
        server.write_in(ADA, ROOM, None, &format!("{number}"));
    }
    server.have("chat.postMessage", limited(7));
    let script = format!(
        "
web.files_upload_v2(channel='{ROOM}', filename='answer.md', content='# A report\\n--x\\n', initial_comment='all of it')
pages = [page['messages'] for page in web.conversations_history(channel='{ROOM}', limit=20)]
def say(**more):
    return fails(lambda: web.chat_postMessage(**{{'channel': '{ROOM}', 'text': 'x', **more}}))
part = {{'type': 'rich_text_section', 'elements': [{{'type': 'text', 'text': ''}}]}}
told = [say(), say(text='x' * 4001), say(channel='{ARCHIVED}'), say(channel='general'),
    say(blocks=[{{'type': 'rich_text', 'elements': [part]}}]), fails(lambda: web.chat_update(channel='{ROOM}', ts='1.2', text='x')),
    fails(lambda: web.reactions_add(channel='{ROOM}', timestamp=pages[0][0]['ts'], name='no_such')),
    fails(lambda: WebClient(token='xoxb-2', base_url=sys.argv[1] + '/').auth_test()),
    fails(lambda: web.apps_connections_open(app_token=sys.argv[2]))]
print(json.dumps([[len(page) for page in pages], pages[0][1]['text'], told]))
"
    );
    let told = run(&server, TOKEN, &script).await;
    assert_eq!(
        (told[0].to_string(), &told[1]),
        ("[20,20,6]".to_owned(), &"44".into()),
        "the newest first: {told}"
    );
    let codes: Vec<&str> = told[2].as_array().unwrap().iter().map(|one| one[0].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "ratelimited",
            "msg_too_long",
            "is_archived",
            "channel_not_found",
            "invalid_blocks",
            "message_not_found",
            "invalid_name",
            "invalid_auth",
            "not_allowed_token_type"
        ]
    );
    assert_eq!((&told[2][0][1], &told[2][0][2]), (&429.into(), &"7".into()), "{told}");
    let file = server.said().into_iter().find_map(|said| Some((said.text, said.file?))).unwrap();
    assert_eq!(file, ("all of it".to_owned(), ("answer.md".to_owned(), "# A report\n--x\n".to_owned())));
}
