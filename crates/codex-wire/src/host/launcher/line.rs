//! One line of bounded length over a unix socket, optionally with an open descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::os::socket;

/// How much is read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// Writes a line; the descriptor goes with its first byte.
pub(super) async fn write(
    stream: &UnixStream,
    text: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let line = [text, b"\n"].concat();
    let mut rest = line.as_slice();
    let mut descriptor = descriptor;
    while !rest.is_empty() {
        let sent = stream.async_io(Interest::WRITABLE, || send(stream, rest, descriptor)).await?;
        descriptor = None;
        rest = rest.get(sent..).unwrap_or_default();
    }
    Ok(())
}

fn send(stream: &UnixStream, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(stream.as_fd(), &[IoSlice::new(bytes)], &mut ancillary, socket::SEND)?)
}

/// Reads a line without its end, of at most `limit` bytes; what follows it is not read. Descriptors beyond the first one
/// are closed.
pub(super) async fn read(stream: &UnixStream, limit: usize) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut line = Vec::new();
    let mut descriptor = None;
    loop {
        let (bytes, came) = stream.async_io(Interest::READABLE, || receive(stream)).await?;
        descriptor = descriptor.or(came);
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default());
        if line.len() > limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the line has more than {limit} bytes"),
            ));
        }
        if end.is_some() {
            return Ok((line, descriptor));
        }
    }
}

fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; CHUNK_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, socket::RECEIVE)?;
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let first = descriptors.next();
    descriptors.for_each(drop);
    bytes.truncate(received.bytes);
    Ok((bytes, first))
}
