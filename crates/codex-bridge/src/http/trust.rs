//! Trust levels of directories. Only the owner of the machine's account sees and changes them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use axum::Json;
use axum::extract::State;
use codex_bridge_core::Caller;
use codex_bridge_core::trust::Trust;

use super::{App, Body, Call, Query, Reply};
use crate::calls::{self, Door};
use crate::config::{self, trust as file};
use crate::failure::{Code, Failure};
use crate::view::{TrustChange, TrustEntry, TrustList, TrustOf};
use codex_bridge_core::desk::admission::default_trust;

pub async fn list(State(app): State<App>) -> Reply<TrustList> {
    let entry = |(dir, trust): (PathBuf, Trust)| TrustEntry {
        problem: file::problem_with(&dir),
        dir: text(&dir),
        trust,
        meaning: trust.meaning().to_owned(),
    };
    Ok(Json(TrustList {
        directories: app.trusted_roots.all().into_iter().map(entry).collect(),
        elsewhere: file::DEFAULT_LEVELS.to_owned(),
        config_file: text(&app.paths.config_file),
    }))
}

/// The trust level of a directory. With `level`, checks whether the directory may have that level.
pub async fn show(State(app): State<App>, Query(which): Query<calls::TrustOf>) -> Reply<TrustOf> {
    let dir = real_directory(&which.dir)?;
    if let Some(level) = which.level {
        app.desk.check_trust(&dir, level)?;
    }
    let level = which.level.or_else(|| app.trusted_roots.level(&dir));
    Ok(Json(describe(&app, &dir, level, &which.dir)))
}

pub async fn set(Call { app, caller }: Call, Body(wanted): Body<calls::SetTrust>) -> Reply<TrustChange> {
    let dir = real_directory(&wanted.dir)?;
    complete(app, caller, wanted.dir, dir, Some(wanted.level)).await
}

pub async fn remove(
    Call { app, caller }: Call,
    Body(wanted): Body<calls::RemoveTrust>,
) -> Reply<TrustChange> {
    must_be_absolute(&wanted.dir)?;
    // A directory that does not exist any more can be removed too.
    let dir = file::real_path(&wanted.dir);
    complete(app, caller, wanted.dir, dir, None).await
}

/// Completes a change even if the caller hangs up, so that the file and the daemon agree.
async fn complete(
    app: App,
    caller: Caller,
    asked: PathBuf,
    dir: PathBuf,
    level: Option<Trust>,
) -> Reply<TrustChange> {
    let change = tokio::spawn(async move {
        let changing = app.trust_changes.clone();
        let _guard = changing.lock().await;
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
    if let Some(level) = level {
        app.desk.may_trust(caller, dir, level).await?;
    }
    let before = configured(app)?.get(dir).copied();
    if level.is_none() && before.is_none() {
        let message =
            format!("{} has no entry of its own in {}", dir.display(), app.paths.config_file.display());
        return Err(Failure::new(Code::UnknownDirectory, message)
            .hint("`codex-bridge trust --list` lists the entries"));
    }
    let word = |level: Option<Trust>| level.map_or("the default", Trust::as_str);
    let record = format!("{}: {}, before: {}", dir.display(), word(level), word(before));
    app.desk.note_trust(caller, &record).await?;
    let (config_file, entry) = (app.paths.config_file.clone(), dir.to_owned());
    let written = tokio::task::spawn_blocking(move || file::write(&config_file, &entry, level)).await;
    if let Err(failure) = written.map_err(Failure::internal)? {
        app.desk.note_trust(caller, &format!("{record}; failed: {}", failure.message)).await?;
        return Err(failure);
    }
    let unchanged = app.bridge.decide_trust(configured(app)?).await?;
    Ok(TrustChange {
        now: describe(app, dir, level, asked),
        before,
        config_file: text(&app.paths.config_file),
        unchanged_tasks: unchanged.into_iter().map(|id| id.0).collect(),
    })
}

/// The trust levels in the configuration file, which may have been edited since the daemon started.
fn configured(app: &App) -> Result<BTreeMap<PathBuf, Trust>, Failure> {
    Ok(config::load(&app.paths)?.trusted_roots())
}

/// Describes the trust of a directory, with warnings about the level that it has or is to get.
fn describe(app: &App, dir: &Path, wanted: Option<Trust>, asked: &Path) -> TrustOf {
    let decided = app.trusted_roots.deciding(dir);
    let level = |door| decided.as_ref().map_or_else(|| default_trust(dir, door), |(_, level)| *level);
    let trust = level(Door::Cli);
    let mut warnings = Vec::new();
    if without_dots(asked) != dir {
        warnings.push(format!(
            "{} is a link to {}; the level applies to the latter",
            asked.display(),
            dir.display()
        ));
    }
    if wanted.is_some_and(|level| level > Trust::Hostile) {
        warnings.extend(
            app.desk
                .rules()
                .protected
                .overlap(dir)
                .map(|overlap| format!("{} is not an ordinary project directory: {overlap}", dir.display())),
        );
        warnings.extend(file::problem_with(dir).map(|problem| format!("{}: {problem}", dir.display())));
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

fn must_be_absolute(dir: &Path) -> Result<(), Failure> {
    if dir.is_absolute() {
        return Ok(());
    }
    let message = format!("{} is not an absolute path", dir.display());
    Err(Failure::new(Code::BadDirectory, message).hint("write the path from / on"))
}

fn real_directory(asked: &Path) -> Result<PathBuf, Failure> {
    must_be_absolute(asked)?;
    let bad_directory =
        |what: String| Failure::new(Code::BadDirectory, format!("{} {what}", asked.display()));
    let real = asked.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if asked.is_symlink() => {
            bad_directory("is a link to something that does not exist".to_owned())
        }
        std::io::ErrorKind::NotFound => {
            bad_directory("does not exist".to_owned()).hint("create it first, or name another directory")
        }
        _ => bad_directory(format!("cannot be read: {}", codex_wire::reason(&error))),
    })?;
    if real.is_dir() {
        return Ok(real);
    }
    Err(bad_directory("is a file".to_owned()).hint("name the directory that it is in"))
}

/// Resolves `..` in the text of a path. Links are not followed.
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
