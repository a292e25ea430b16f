//! The record that a scripted app-server keeps of its life: one JSON value per line, in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened to a scripted app-server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The process began.
    Started(Start),
    /// A client connected; on stdio there is one connection, number 1.
    Opened {
        /// Counted from 1 in each process.
        connection: u64,
    },
    /// A client sent a JSON object.
    Received {
        /// The connection that it came on.
        connection: u64,
        /// The message, untouched.
        message: Value,
    },
    /// A client sent something that is no JSON object.
    Malformed {
        /// The connection that it came on.
        connection: u64,
        /// What came, with bytes that are not UTF-8 replaced.
        text: String,
    },
    /// A client went away.
    Closed {
        /// The connection that ended.
        connection: u64,
    },
    /// The process was asked to end by SIGTERM.
    Terminated,
}

/// How a scripted app-server was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Its process id.
    pub pid: u32,
    /// Its arguments without the program name.
    pub args: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
}

/// The writing end of the record.
#[derive(Debug)]
pub struct Writer {
    file: File,
}

impl Writer {
    /// Opens the record for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::options().create(true).append(true).open(path)? })
    }

    /// Appends one entry in a single write, so that several processes can share a record.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

/// Reads the record as far as it is complete; a record that does not exist yet is empty.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    text[..complete]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).map_err(io::Error::from))
        .collect()
}
