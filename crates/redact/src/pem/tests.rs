//! Tests of `pem`.
