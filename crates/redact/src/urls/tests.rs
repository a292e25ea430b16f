//! Tests of `urls`.
