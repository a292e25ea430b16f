//! Tests of `headers`.
