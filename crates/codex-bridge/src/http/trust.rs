//! How far directories are trusted: looked at and decided by the owner of the machine's account alone.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::place::Overlap;
use codex_bridge_core::task::TaskId;
use codex_bridge_core::trust::Trust;

use super::{App, Body, Query, Reply};
use crate::calls::{self, Door};
use crate::config::{self, trust as file};
use crate::failure::{Code, Failure};
use crate::view::{TrustChange, TrustEntry, TrustList, TrustOf};
use codex_bridge_core::desk::admission::default_trust;

pub async fn list(State(app): State<App>) -> Reply<TrustList> {
    let entry = |(dir, trust): (PathBuf, Trust)| TrustEntry {
        problem: file::oddity(&dir),
        dir: text(&dir),
        trust,
        meaning: trust.meaning().to_owned(),
    };
    Ok(Json(TrustList {
        directories: app.trusted_roots.all().into_iter().map(entry).collect(),
        elsewhere: file::ELSEWHERE.to_owned(),
        config_file: text(&app.paths.config_file),
    }))
}

/// What holds in a directory; with a level, whether it may be given that.
pub async fn show(State(app): State<App>, Query(which): Query<calls::TrustOf>) -> Reply<TrustOf> {
    let dir = real_directory(&which.dir)?;
    if let Some(level) = which.level {
        check(&app, &dir, level)?;
    }
    let in_question = which.level.or_else(|| app.trusted_roots.level(&dir));
    Ok(Json(of(&app, &dir, in_question, &which.dir)))
}

pub async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<calls::SetTrust>,
) -> Reply<TrustChange> {
    let dir = real_directory(&wanted.dir)?;
    check(&app, &dir, wanted.level)?;
    if wanted.level == Trust::Trusted && app.trusted_roots.all().get(&dir) != Some(&Trust::Trusted) {
        let writers = app.bridge.writers_in(&dir).await?;
        must_be_none(&dir, &writers)?;
    }
    carried_out(app, caller, wanted.dir, dir, Some(wanted.level)).await
}

/// What a task writes before a directory is trusted would count from then on.
fn must_be_none(dir: &Path, writers: &[TaskId]) -> Result<(), Failure> {
    let Some(first) = writers.first() else { return Ok(()) };
    let named: Vec<&str> = writers.iter().take(5).map(TaskId::short).collect();
    let message = format!("{} cannot be trusted while {} can write in it", dir.display(), named.join(", "));
    let hint = format!("wait for its end, or `codex-bridge interrupt {}`", first.short());
    Err(Failure::new(Code::WrongState, message).hint(hint))
}

pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(wanted): Body<calls::RemoveTrust>,
) -> Reply<TrustChange> {
    must_be_whole(&wanted.dir)?;
    // One that is gone can be forgotten too.
    let dir = file::real(&wanted.dir);
    carried_out(app, caller, wanted.dir, dir, None).await
}

/// A change that was begun comes to its end, whoever hangs up: the file and the daemon say the same.
async fn carried_out(
    app: App,
    caller: Caller,
    asked: PathBuf,
    dir: PathBuf,
    level: Option<Trust>,
) -> Reply<TrustChange> {
    let change = tokio::spawn(async move {
        let changing = app.trust_changes.clone();
        let _one_at_a_time = changing.lock().await;
        change(&app, &caller, &asked, &dir, level).await
    });
    Ok(Json(change.await.map_err(Failure::internal)??))
}

async fn change(
    app: &App,
    caller: &Caller,
    asked: &Path,
    dir: &Path,
    level: Option<Trust>,
) -> Result<TrustChange, Failure> {
    let before = decided(app)?.get(dir).copied();
    if level.is_none() && before.is_none() {
        let message =
            format!("{} has no entry of its own in {}", dir.display(), app.paths.config_file.display());
        return Err(
            Failure::new(Code::UnknownDirectory, message).hint("`codex-bridge trust --list` lists them")
        );
    }
    let word = |level: Option<Trust>| level.map_or("the default", Trust::as_str);
    let said = format!("{}: {}, before: {}", dir.display(), word(level), word(before));
    app.desk.note_trust(caller, &said).await?;
    let (config_file, entry) = (app.paths.config_file.clone(), dir.to_owned());
    let written = tokio::task::spawn_blocking(move || file::write(&config_file, &entry, level)).await;
    if let Err(failure) = written.map_err(Failure::internal)? {
        app.desk.note_trust(caller, &format!("{said}; failed: {}", failure.message)).await?;
        return Err(failure);
    }
    let unchanged = app.bridge.decide_trust(decided(app)?).await?;
    Ok(TrustChange {
        now: of(app, dir, level, asked),
        before,
        config_file: text(&app.paths.config_file),
        unchanged_tasks: unchanged.into_iter().map(|id| id.0).collect(),
    })
}

/// What the file says now. It may have been edited by hand since the daemon was started.
fn decided(app: &App) -> Result<BTreeMap<PathBuf, Trust>, Failure> {
    Ok(config::load(&app.paths)?.trusted_roots())
}

/// What holds, with what should be known about the level that is set, or is to be.
fn of(app: &App, dir: &Path, in_question: Option<Trust>, asked: &Path) -> TrustOf {
    let decided = app.trusted_roots.deciding(dir);
    let level = |door| decided.as_ref().map_or_else(|| default_trust(dir, door), |(_, level)| *level);
    let trust = level(Door::Cli);
    let mut warnings = Vec::new();
    if without_dots(asked) != dir {
        warnings.push(format!("{} is a link to {}, which is what counts", asked.display(), dir.display()));
    }
    if in_question.is_some_and(|level| level > Trust::Hostile) {
        warnings.extend(
            app.desk
                .rules()
                .protected
                .overlap(dir)
                .map(|overlap| format!("{} is a wide place: {overlap}", dir.display())),
        );
        warnings.extend(file::oddity(dir).map(|oddity| format!("{}: {oddity}", dir.display())));
    }
    TrustOf {
        dir: text(dir),
        trust,
        meaning: trust.meaning().to_owned(),
        trust_for_others: level(Door::Remote),
        decided_by: decided.map(|(root, _)| text(&root)),
        warnings,
    }
}

/// Refuses what nobody can mean: to have the whole home configure Codex, or a directory in which no task may work.
fn check(app: &App, dir: &Path, level: Trust) -> Result<(), Failure> {
    let refused = |what: &str, why: String| {
        let message = format!("{} {what}: {why}", dir.display());
        Failure::new(Code::BadDirectory, message).hint("name the directory of one project")
    };
    match app.desk.rules().protected.overlap(dir) {
        Some(overlap @ Overlap::Inside(_)) => Err(refused("can have no level", overlap.to_string())),
        Some(overlap @ Overlap::HoldsHome(_)) if level == Trust::Trusted => {
            Err(refused("cannot be trusted", overlap.to_string()))
        }
        _ => Ok(()),
    }
}

fn must_be_whole(dir: &Path) -> Result<(), Failure> {
    if dir.is_absolute() {
        return Ok(());
    }
    let message = format!("{} is not a whole path", dir.display());
    Err(Failure::new(Code::BadDirectory, message).hint("give the whole path, from / on"))
}

fn real_directory(asked: &Path) -> Result<PathBuf, Failure> {
    must_be_whole(asked)?;
    let wrong = |what: String| Failure::new(Code::BadDirectory, format!("{} {what}", asked.display()));
    let real = asked.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if asked.is_symlink() => {
            wrong("is a link that leads nowhere".to_owned())
        }
        std::io::ErrorKind::NotFound => {
            wrong("does not exist".to_owned()).hint("make it first, or name another")
        }
        _ => wrong(format!("cannot be looked at: {error}")),
    })?;
    if real.is_dir() {
        return Ok(real);
    }
    Err(wrong("is a file".to_owned()).hint("name the directory that it is in"))
}

/// The path without `..`, by its words alone.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        if part == Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
        path
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
