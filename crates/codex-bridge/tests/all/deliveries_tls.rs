//! A target with TLS: it is believed if the machine, or `SSL_CERT_FILE`, vouches for it, and is sent nothing otherwise.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::shell::Shell;

/// Answers every POST, and says on its stdout at which port, and then for each how long it was.
const SERVER: &str = "import http.server, ssl, sys\n\
    class Hook(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_POST(self):\n\
    \x20       body = self.rfile.read(int(self.headers['content-length']))\n\
    \x20       self.send_response(204)\n\
    \x20       self.end_headers()\n\
    \x20       print(len(body), flush=True)\n\
    \x20   def log_message(self, *_): pass\n\
    server = http.server.HTTPServer(('127.0.0.1', 0), Hook)\n\
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
    context.load_cert_chain(sys.argv[1], sys.argv[2])\n\
    server.socket = context.wrap_socket(server.socket, server_side=True)\n\
    print(server.server_port, flush=True)\n\
    server.serve_forever()\n";

/// An authority of our own, and a server that it vouches for; ended with this.
struct Secure {
    server: Child,
    out: BufReader<std::process::ChildStdout>,
    port: u16,
}

fn openssl(dir: &Path, args: &str) {
    let made = Command::new("openssl").args(args.split(' ')).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&made.stderr));
}

impl Secure {
    fn open(dir: &Path) -> Self {
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
        openssl(dir, &format!("{new} -subj /CN=authority -keyout ca.key -out ca.pem"));
        let leaf =
            "-subj /CN=server -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        openssl(dir, &format!("{new} {leaf} -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem"));
        let mut command = Command::new("python3");
        command.args(["-c", SERVER, "server.pem", "server.key"]).current_dir(dir);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(server.stdout.take().unwrap());
        let port = line(&mut out).parse().unwrap();
        Self { server, out, port }
    }
}

fn line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test]
async fn a_target_whose_certificate_nobody_vouches_for_is_sent_nothing() {
    let shell = Shell::new().await;
    let mut secure = Secure::open(shell.home.dir());
    shell.configure(&format!(
        "[channels.tls]\ntype = \"webhook\"\nurl = \"https://127.0.0.1:{}/in\"\n",
        secure.port
    ));
    let refused = shell.run(&["--json", "deliveries", "test", "webhook:tls"]).await;
    let why = refused.failure()["message"].as_str().unwrap().to_owned();
    assert!(refused.code == 1 && why.contains("certificate is not trusted here"), "{why}");
    shell.run(&["stop"]).await.ok();

    let mut trusting = shell.command(&["deliveries", "test", "webhook:tls"]);
    trusting.env("SSL_CERT_FILE", shell.home.dir().join("ca.pem"));
    shell.output(move || trusting.output().unwrap()).await.ok();
    let length: usize = line(&mut secure.out).parse().unwrap();
    assert!(length > 100, "what came first is what was sent to a server that was trusted: {length}");
    drop(secure);
    shell.end().await;
}
