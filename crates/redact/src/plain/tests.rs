//! Tests of `plain`.
