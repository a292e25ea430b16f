//! Tests of `scan`.
