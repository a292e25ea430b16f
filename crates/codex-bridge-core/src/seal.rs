//! Seals what must still be acted on and may hold secrets, so that the database alone gives none away.
//!
//! Knows nothing of where a sealed text is kept or what it means.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// As much of a hash as nobody finds twice.
const MARK_BYTES: usize = 16;
/// Begins each sealed text, so that another way of sealing can be told apart one day.
const FORMAT: u8 = 1;

/// The key of one state directory.
#[derive(Clone)]
pub struct Key {
    cipher: XChaCha20Poly1305,
}

/// Never shows the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Why there is no key, or no text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others than its owner can read the key.
    #[error("the key {} can be read by others: run `chmod 600 {}`, and treat what was sealed with it as known", .0.display(), .0.display())]
    Exposed(PathBuf),
    /// The key belongs to another user.
    #[error("the key {} belongs to another user: it must belong to the one that codex-bridge runs as", .0.display())]
    Foreign(PathBuf),
    /// The file holds something else.
    #[error("{} is not a key ({KEY_BYTES} bytes): restore it from a backup; without it, what is sealed is lost", .0.display())]
    NotAKey(PathBuf),
    /// The key can be neither read nor written.
    #[error("the key {} is out of reach: {error}", .file.display())]
    Unreachable {
        /// Where it should be.
        file: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The text was not sealed with this key, or not for this purpose, or was changed.
    #[error("what is sealed does not open: another key, another purpose, or it was changed")]
    Closed,
    /// No randomness, or a text beyond all measure.
    #[error("it could not be sealed: {0}")]
    Unsealed(String),
}

impl Key {
    /// The key in this file; a new one if there is no file.
    pub fn load_or_create(file: &Path) -> Result<Self, Error> {
        let unreachable = |error| Error::Unreachable { file: file.to_owned(), error };
        match File::open(file) {
            Ok(open) => Self::load(open, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(file).map_err(unreachable)?;
                // Whoever was first has made it: all read the same.
                Self::load(File::open(file).map_err(unreachable)?, file)
            }
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Seals a text for a purpose: it opens only for the same one.
    pub fn seal(&self, plaintext: &[u8], context: &str) -> Result<Vec<u8>, Error> {
        let nonce: [u8; NONCE_BYTES] = random().map_err(|error| Error::Unsealed(error.to_string()))?;
        let payload = Payload { msg: plaintext, aad: context.as_bytes() };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| Error::Unsealed("the text is too long".into()))?;
        Ok([&[FORMAT], &nonce[..], &sealed[..]].concat())
    }

    /// Opens what was sealed for this purpose.
    pub fn open(&self, sealed: &[u8], context: &str) -> Result<Vec<u8>, Error> {
        let (&format, rest) = sealed.split_first().ok_or(Error::Closed)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Error::Closed)?;
        if format != FORMAT {
            return Err(Error::Closed);
        }
        let payload = Payload { msg: text, aad: context.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| Error::Closed)
    }

    /// A short mark of a text for a purpose: the same text has the same one, and without the key nobody can tell from
    /// a mark what the text was, not even by guessing.
    pub fn mark(&self, text: &[u8], context: &str) -> Result<String, Error> {
        // A key of its own, drawn from this one: no text is ever sealed with this nonce, which no chance gives.
        let payload = Payload { msg: &[0; KEY_BYTES], aad: b"mark" };
        let own = self.cipher.encrypt(&XNonce::from([0; NONCE_BYTES]), payload);
        let own = own.map_err(|_| Error::Unsealed("the cipher fails".into()))?;
        // Hashed before: what is hashed with the key has always the same length, so nothing can be appended to it.
        let inner = [Sha256::digest(context.as_bytes()), Sha256::digest(text)].concat();
        let mark = Sha256::new().chain_update(own).chain_update(inner).finalize();
        Ok(mark.iter().take(MARK_BYTES).fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")))
    }

    fn load(mut open: File, file: &Path) -> Result<Self, Error> {
        let unreachable = |error| Error::Unreachable { file: file.to_owned(), error };
        let found = open.metadata().map_err(unreachable)?;
        if found.mode() & 0o077 != 0 {
            return Err(Error::Exposed(file.to_owned()));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::Foreign(file.to_owned()));
        }
        let mut bytes = [0; KEY_BYTES];
        if found.len() != KEY_BYTES as u64 || open.read_exact(&mut bytes).is_err() {
            return Err(Error::NotAKey(file.to_owned()));
        }
        Ok(Self { cipher: XChaCha20Poly1305::new(&bytes.into()) })
    }
}

/// Whole or not at all, and never over another: a link to a finished file.
fn create(file: &Path) -> io::Result<()> {
    let mark: [u8; 8] = random()?;
    let draft = file.with_added_extension(format!("{:016x}", u64::from_le_bytes(mark)));
    let outcome = write_draft(&draft).and_then(|()| match fs::hard_link(&draft, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&draft)?;
    outcome?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn write_draft(draft: &Path) -> io::Result<()> {
    let key: [u8; KEY_BYTES] = random()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(&key)?;
    file.sync_all()
}

/// Random bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
