//! `codex-bridge audit`: shows who decided and commanded what, also for deleted tasks.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use redact::plain::plain;

use super::render::paint::Paint;
use super::render::width::{beginning, columns, pad};
use super::terminal::Terminal;
use super::{Globals, number};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::AuditLine;

#[derive(clap::Args)]
pub struct Args {
    /// Show only lines about this task; the beginning of its id
    id: Option<String>,
    /// Show only lines since this time: 2026-01-31T12:00:00Z, or an age such as 90min, 12h or 7d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Show at most N lines, the newest [default: 200]
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<i64>)]
    limit: Option<i64>,
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let since = args.since.map(|when| since(&when, Timestamp::now())).transpose()?;
    let filter = calls::Audit { task: args.id, since, limit: args.limit };
    let lines: Vec<AuditLine> = globals.client()?.get(&["audit"], &filter).await?;
    let terminal = Terminal::of_stdout();
    let width = if terminal.is_terminal { terminal.columns() } else { usize::MAX };
    globals.print_list(&lines, "no audit lines", |lines| table(lines, terminal.paint, width))
}

/// A time for the daemon, from a time or an age.
fn since(when: &str, now: Timestamp) -> Result<String, Failure> {
    let ago = || {
        let span: Span = when.parse().ok()?;
        // Weeks and months have a length only in a calendar.
        Some(now.to_zoned(TimeZone::UTC).checked_sub(span.abs()).ok()?.timestamp())
    };
    let time = when.parse().ok().or_else(ago).ok_or_else(|| {
        let message = format!("{when:?} is not a time");
        Failure::new(Code::Usage, message)
            .hint("write 2026-01-31T12:00:00Z, or an age such as 90min, 12h or 7d")
    })?;
    Ok(crate::amount::rfc3339(time.as_millisecond()))
}

fn table(lines: &[AuditLine], paint: Paint, width: usize) -> Vec<String> {
    let widest = |of: fn(&AuditLine) -> &str| lines.iter().map(|line| columns(of(line))).max().unwrap_or(0);
    let (by, action) = (widest(|line| &line.by), widest(|line| &line.action));
    let row = |line: &AuditLine| {
        let task = line.task_id.as_deref().map_or("-", short);
        let row = format!(
            "{}  {}  {}  {}  {}",
            line.at,
            pad(&plain(&line.by), by),
            pad(&plain(&line.action), action),
            pad(task, 18),
            plain(&detail(line))
        );
        cut_end(&row, width)
    };
    let mut rows = vec![paint.faint(&cut_end(
        &format!(
            "{}  {}  {}  {}  DETAIL",
            pad("AT", 24),
            pad("WHO", by),
            pad("WHAT", action),
            pad("TASK", 18)
        ),
        width,
    ))];
    rows.extend(lines.iter().map(row));
    rows
}

/// The detail of a line. It begins with the id of the decided request, if there is one.
fn detail(line: &AuditLine) -> String {
    match line.detail.split_once(' ') {
        Some((request, rest)) if request.starts_with("req-") => format!("{} {rest}", short(request)),
        _ => line.detail.clone(),
    }
}

/// Cuts a row at the end of the window. Unlike `cut`, it keeps the blanks between columns.
fn cut_end(row: &str, width: usize) -> String {
    let row = row.replace(['\n', '\t'], " ");
    let row = row.trim_end();
    if columns(row) <= width {
        return row.to_owned();
    }
    format!("{}…", beginning(row, width.saturating_sub(1)).trim_end())
}

#[cfg(test)]
mod tests {
    use crate::failure::Code;

    use jiff::Timestamp;

    use super::{since, table};
    use crate::cli::render::paint::Paint;
    use crate::cli::render::width::columns;
    use crate::view::AuditLine;

    #[test]
    fn a_time_is_told_or_counted_back() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let check = |when: &str, expected: &str| assert_eq!(since(when, now).unwrap(), expected, "{when}");
        check("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z");
        check("2026-01-31T12:00:00+01:00", "2026-01-31T11:00:00.000Z");
        check("90min", "2026-03-10T10:30:00.000Z");
        check("12h", "2026-03-10T00:00:00.000Z");
        check("7d", "2026-03-03T12:00:00.000Z");
        check("2 weeks", "2026-02-24T12:00:00.000Z");
        for wrong in ["yesterday", "7", ""] {
            assert_eq!(since(wrong, now).unwrap_err().code, Code::Usage, "{wrong:?}");
        }
    }

    #[test]
    fn a_line_says_when_who_what_and_on_which_task_in_any_window() {
        let line = |by: &str, detail: &str| AuditLine {
            at: "2026-03-10T12:00:00.000Z".into(),
            by: by.into(),
            action: "decide accept".into(),
            task_id: Some("codex-0123456789abcdef0123456789abcdef".into()),
            detail: detail.into(),
        };
        let lines = [
            line("local user", "req-0102030405060708090a0b0c0d0e0f10 Let Codex\nrun a command?"),
            line("token phone", "req-2"),
        ];
        let wide = table(&lines, Paint::Plain, usize::MAX);
        assert_eq!(
            wide[1],
            "2026-03-10T12:00:00.000Z  local user   decide accept  codex-0123456789ab  req-010203040506 Let Codex run a command?"
        );
        for width in [20, 60, 80] {
            assert!(table(&lines, Paint::Plain, width).iter().all(|row| columns(row) <= width), "{width}");
        }
    }
}
