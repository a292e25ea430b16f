use std::io::BufRead;
fn main() {
    let r = redact::Redactor::default();
    for l in std::io::stdin().lock().lines() {
        let l = l.unwrap();
        let l = l.replace("⏎", "\n");
        println!("{}", r.redact(&l));
    }
}
