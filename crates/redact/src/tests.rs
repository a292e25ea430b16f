//! Tests of the whole redactor. Those of a part stand beside it.

mod linear;
mod samples;
