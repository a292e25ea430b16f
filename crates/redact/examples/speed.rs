//! How long redaction takes: `cargo run --release -p redact --example speed`.

use std::hint::black_box;
use std::time::Instant;

use redact::Redactor;

const PROSE: &str = "I looked at the failing test first. The parser drops the last line when the file does not end \
with a newline, so `read_all` returns one record too few. I will change the loop in src/parser.rs to flush the \
buffer once more after the end of input, and add a test that reads a file without a final newline. After that I'll \
run the whole suite again and look at the timings, because the extra flush might cost something on large inputs. \
Nothing else seems to depend on the old behaviour; the two callers only ever count the records that they get back. ";

const CODE: &str = r#"
pub fn read_all(input: impl BufRead) -> Result<Vec<Record>, Error> {
    let mut records = Vec::with_capacity(INITIAL_RECORDS);
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(|source| Error::Read { number, source })?;
        if line.trim_start().starts_with('#') { continue; }
        records.push(Record::parse(&line).map_err(|kind| Error::Parse { number, kind })?);
    }
    tracing::debug!(count = records.len(), "read all records");
    Ok(records)
}
"#;

const JSON: &str = r#"{"method":"item/completed","params":{"threadId":"019a8e0c-5f6e-7d83-b1c2-0d1e2f3a4b5c","turnId":"019a8e0c-6a10-7b21-8c3d-4e5f60718293","item":{"type":"commandExecution","id":"call_8fJ2kLmN4pQ6rS8t","command":"/bin/bash -lc 'cargo test --workspace'","cwd":"/home/user/project","status":"completed","exitCode":0,"durationMs":1843,"aggregatedOutput":"running 12 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n"}}}"#;

/// The best of several rounds, in nanoseconds per call.
fn nanoseconds_per_call(calls: u32, mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    (0..7).map(|_| round(&mut call)).fold(f64::INFINITY, f64::min)
}

fn chunks(text: &str, length: usize) -> Vec<&str> {
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(length.min(rest.len())));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn main() {
    let secret = format!("{PROSE}export DB_PASSWORD=hunter2 {}", &CODE[..100]);
    let known = Redactor::knowing((0..8).map(|number| format!("known secret number {number}")));
    let texts = [("prose", PROSE), ("code", CODE), ("json", JSON), ("with a secret", &secret)];
    for (redactor, rules) in [(Redactor::default(), "built-in rules"), (known, "and 8 known values")] {
        println!("{rules}:");
        for (name, text) in texts {
            let whole = nanoseconds_per_call(20_000, || {
                black_box(redactor.redact(black_box(text)));
            });
            let chunks = chunks(text, 40);
            let mut stream = redactor.stream();
            let streamed = nanoseconds_per_call(2_000, || {
                for chunk in &chunks {
                    black_box(stream.push(black_box(chunk)));
                }
            });
            let length = text.len();
            #[expect(clippy::cast_precision_loss, reason = "a few dozen chunks")]
            let per_push = streamed / chunks.len() as f64;
            println!("  {name:14} redact {length} bytes: {whole:7.0} ns   push 40 bytes: {per_push:7.0} ns");
        }
    }
}
