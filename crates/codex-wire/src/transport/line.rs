//! Messages as lines: the framing of stdio.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::Error;

/// Splits a byte stream at newlines, with a limit.
#[derive(Debug)]
pub struct LineCodec {
    limit: usize,
    /// How much of the buffer is known to hold no newline, so that a long line is searched once.
    searched: usize,
}

impl LineCodec {
    /// A codec for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, searched: 0 }
    }
}

impl Decoder for LineCodec {
    type Item = Bytes;
    type Error = Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        let newline = buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(length) = newline.map(|at| self.searched + at) else {
            self.searched = buffer.len();
            return if buffer.len() > self.limit {
                Err(Error::MessageTooLong { limit: self.limit })
            } else {
                Ok(None)
            };
        };
        self.searched = 0;
        if length > self.limit {
            return Err(Error::MessageTooLong { limit: self.limit });
        }
        let mut line = buffer.split_to(length);
        buffer.advance(1);
        if line.last() == Some(&b'\r') {
            line.truncate(length - 1);
        }
        Ok(Some(line.freeze()))
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        // An unfinished line at the end is not a message.
        let line = self.decode(buffer)?;
        if line.is_none() {
            buffer.clear();
        }
        Ok(line)
    }
}

impl Encoder<Bytes> for LineCodec {
    type Error = Error;

    fn encode(&mut self, message: Bytes, buffer: &mut BytesMut) -> Result<(), Error> {
        buffer.reserve(message.len() + 1);
        buffer.put(message);
        buffer.put_u8(b'\n');
        Ok(())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Read(crate::reason(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(codec: &mut LineCodec, input: &[u8], chunk: usize) -> Result<Vec<String>, Error> {
        let mut buffer = BytesMut::new();
        let mut lines = Vec::new();
        for part in input.chunks(chunk) {
            buffer.extend_from_slice(part);
            while let Some(line) = codec.decode(&mut buffer)? {
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        while let Some(line) = codec.decode_eof(&mut buffer)? {
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        Ok(lines)
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        for chunk in 1..12 {
            let lines = decode_all(&mut LineCodec::new(100), b"{\"a\":1}\n\r\nlast\r\nhalf", chunk).unwrap();
            assert_eq!(lines, ["{\"a\":1}", "", "last"]);
        }
    }

    #[test]
    fn a_line_over_the_limit_ends_the_stream() {
        let too_long = Err(Error::MessageTooLong { limit: 4 });
        assert_eq!(decode_all(&mut LineCodec::new(4), b"12345\n", 100), too_long);
        assert_eq!(decode_all(&mut LineCodec::new(4), b"123456", 1), too_long);
        assert_eq!(decode_all(&mut LineCodec::new(4), b"1234\n", 1).unwrap(), ["1234"]);
    }
}
