//! Reads the activity log: forward from our position, and backward if there is none.

use jiff::Timestamp;

use super::super::ChannelError;
use super::row::{self, Row};
use super::{Cursor, Molecule, api};

/// The platform's limit of rows per page.
const PAGE: usize = 500;
/// How far back the log is read without a position.
const LOOK_BACK_S: u64 = 600;
/// How long the platform keeps rows.
const RETENTION_S: u64 = 30 * 24 * 60 * 60;
/// The limit of pages that are read backward.
const PAGES: usize = 400;

/// The next rows. Without a position, or if the platform has deleted that row, these are the oldest page since the last
/// read; its last row is the position for the next read forward.
pub async fn read(molecule: &Molecule, cursor: &Cursor) -> Result<Vec<Row>, ChannelError> {
    if let Some(id) = &cursor.since_id
        && let Some(rows) = page(molecule, &format!("since_id={id}&limit=100")).await?
    {
        return Ok(rows);
    }
    let now_ms = Timestamp::now().as_millisecond();
    let age = cursor.at.and_then(|at| u64::try_from(now_ms - at).ok()).unwrap_or_default() / 1000;
    let mut oldest = Vec::new();
    // Clocks differ, so some rows are read twice; the inbox recognises their ids.
    read_back(molecule, (age + LOOK_BACK_S).min(RETENTION_S), |rows| oldest = rows).await?;
    Ok(oldest)
}

/// Reads backward from now, page by page. The rows of a page are in order.
pub async fn read_back(
    molecule: &Molecule,
    seconds: u64,
    mut visit: impl FnMut(Vec<Row>),
) -> Result<(), ChannelError> {
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
        // Rows with the same time as the last row of a page may be on the next page. So that row is read again, unless all
        // rows of the page have the same time.
        let next = |after_us| oldest.moment(after_us).map(|at| format!("&before_ts={at}"));
        before = next(1).filter(|next| *next != before).or_else(|| next(0)).unwrap_or_default();
    }
    Ok(())
}

/// One page, in order; none if the platform does not know the position.
pub async fn page(molecule: &Molecule, query: &str) -> Result<Option<Vec<Row>>, ChannelError> {
    let reply = molecule.api.activity(query).await?;
    match reply.status {
        200 => Ok(Some(row::in_order(&reply.body))),
        410 => Ok(None),
        401 | 403 => Err(molecule.refused(reply.status)),
        _ => Err(api::retry_later(&reply)),
    }
}
