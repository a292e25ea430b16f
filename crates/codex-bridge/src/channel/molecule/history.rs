//! The activity log, read forward from our place, and backward where there is none.

use jiff::Timestamp;

use super::super::Trouble;
use super::row::{self, Row};
use super::{Cursor, Molecule, api};

/// Rows that are asked for at once; the platform gives no more.
const PAGE: usize = 500;
/// Without any place: how far back the log is read.
const LOOK_BACK_S: u64 = 600;
/// The platform keeps nothing longer.
const KEPT_S: u64 = 30 * 24 * 60 * 60;
/// More pages than this are not read in one go.
const PAGES: usize = 400;

/// What comes next. Without a place, or when the platform has forgotten ours, that is the oldest page since we last read:
/// its end is a place that the platform knows, from which the rest is read forward.
pub async fn read(molecule: &Molecule, cursor: &Cursor) -> Result<Vec<Row>, Trouble> {
    if let Some(id) = &cursor.since_id
        && let Some(rows) = page(molecule, &format!("since_id={id}&limit=100")).await?
    {
        return Ok(rows);
    }
    let now_ms = Timestamp::now().as_millisecond();
    let age = cursor.at.and_then(|at| u64::try_from(now_ms - at).ok()).unwrap_or_default() / 1000;
    let mut oldest = Vec::new();
    // Clocks differ: what is read twice is known by its name.
    back(molecule, (age + LOOK_BACK_S).min(KEPT_S), |rows| oldest = rows).await?;
    Ok(oldest)
}

/// Reads backward from now, page by page; each is in order.
pub async fn back(molecule: &Molecule, seconds: u64, mut visit: impl FnMut(Vec<Row>)) -> Result<(), Trouble> {
    let mut before = String::new();
    for _ in 0..PAGES {
        let query = format!("since_secs={seconds}&limit={PAGE}{before}");
        let rows = page(molecule, &query).await?.unwrap_or_default();
        let oldest = rows.iter().find(|row| row.at() > 0).cloned();
        let is_last = rows.len() < PAGE;
        if !rows.is_empty() {
            visit(rows);
        }
        let Some(oldest) = oldest.filter(|_| !is_last) else { break };
        // What has the same time as the last one of a page may be on the next: that one is read again, unless a whole
        // page has but one time.
        let next = |after_us| oldest.moment(after_us).map(|at| format!("&before_ts={at}"));
        before = next(1).filter(|next| *next != before).or_else(|| next(0)).unwrap_or_default();
    }
    Ok(())
}

/// One page, in order; none if the platform does not know the place.
pub async fn page(molecule: &Molecule, query: &str) -> Result<Option<Vec<Row>>, Trouble> {
    let reply = molecule.api.activity(query).await.map_err(|error| api::trouble(&error))?;
    match reply.status {
        200 => Ok(Some(row::in_order(&reply.body))),
        410 => Ok(None),
        401 | 403 => Err(molecule.refused(reply.status)),
        _ => Err(api::later(&reply)),
    }
}
