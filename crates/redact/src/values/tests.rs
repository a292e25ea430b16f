//! Tests of `values`.
