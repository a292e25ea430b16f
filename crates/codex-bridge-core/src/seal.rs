//! Seals secrets that must still be acted on, such as prompts and decisions. The database alone does not reveal them.
//!
//! This module does not know where a sealed text is stored or what it means.

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

use codex_wire::reason;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Long enough that two texts never have the same mark.
const MARK_BYTES: usize = 16;
/// The first byte of each sealed text. Another format can have another number.
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

/// Why there is no key, or why a text cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other users can read the key.
    #[error("the key {} can be read by others: run `chmod 600 {}`, and treat everything sealed with it as known to others", .0.display(), .0.display())]
    Exposed(PathBuf),
    /// The key belongs to another user.
    #[error("the key {} belongs to another user: it must belong to the one that codex-bridge runs as", .0.display())]
    Foreign(PathBuf),
    /// The file is not a key.
    #[error("{} is not a key ({KEY_BYTES} bytes): restore it from a backup; without it, what is sealed is lost", .0.display())]
    NotAKey(PathBuf),
    /// The key can be neither read nor created.
    #[error("the key {} can be neither read nor created: {}", .file.display(), reason(error))]
    Unreachable {
        /// The key's file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The text was sealed with another key or for another purpose, or it was changed.
    #[error(
        "a sealed text cannot be opened: it was sealed with another key or for another purpose, or it was changed"
    )]
    Closed,
    /// There is no randomness, or the text is too long.
    #[error("a text could not be sealed: {0}")]
    Unsealed(String),
}

impl Key {
    /// Reads the key from a file, or creates the file with a new key.
    pub fn load_or_create(file: &Path) -> Result<Self, Error> {
        let unreachable = |error| Error::Unreachable { file: file.to_owned(), error };
        match File::open(file) {
            Ok(open) => Self::load(open, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(file).map_err(unreachable)?;
                // Of several processes that create the file, one wins. All of them read the winner's key.
                Self::load(File::open(file).map_err(unreachable)?, file)
            }
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Seals a text for a purpose, `context`. It can be opened only for the same purpose.
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

    /// A short keyed hash of a text for a purpose. The same text has the same mark. Guessing it needs the key.
    pub fn mark(&self, text: &[u8], context: &str) -> Result<String, Error> {
        // Marks use a key of their own, derived with a nonce that no sealed text has: random ones are never all zero.
        let payload = Payload { msg: &[0; KEY_BYTES], aad: b"mark" };
        let own = self.cipher.encrypt(&XNonce::from([0; NONCE_BYTES]), payload);
        let own = own.map_err(|_| Error::Unsealed("the cipher fails".into()))?;
        // Hashed first, so that the keyed input has a fixed length and cannot be extended.
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

/// Creates the file whole or not at all, and never overwrites one: it hard-links a finished draft.
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

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
