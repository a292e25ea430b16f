//! Tests of `extent`.
