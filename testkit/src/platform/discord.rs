//! Discord (API v10): [`server`] is its HTTP API and its gateway on one port, [`markup`] shows the content of a message as
//! its programs do.

pub mod gateway;
pub mod markup;
pub mod messages;
pub mod server;
