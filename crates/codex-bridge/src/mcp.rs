//! The MCP door: the tool `codex_bridge`, and the drop-ins `codex` and `codex-reply` for users of `codex mcp-server`.
//!
//! The same server runs on stdio, where it calls the daemon's socket, and as `/mcp` in the daemon, where it calls the desk
//! in the name of the caller. The server stores nothing: tasks, logs and requests belong to the daemon, so a client that
//! reconnects finds them again. MCP 2026-07-28 and older revisions are supported side by side.

mod access;
mod arguments;
mod begin;
mod call;
mod elicitation;
mod http;
mod progress;
mod request_form;
mod result;
mod sessions;
mod tasks;
mod tools;
mod turn;

use std::sync::Arc;

use codex_bridge_core::Caller;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::token::Role;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ErrorData, GetTaskParams, GetTaskResult,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::io::stdio_pipes;
use serde_json::Value;

use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::http::App;
use access::Access;

pub use http::routes;

const INSTRUCTIONS: &str = "Runs work on OpenAI Codex as durable tasks. `codex` runs a prompt and returns the answer, \
    `codex-reply` continues a thread, `codex_bridge` starts, watches, steers and stops tasks in the background. When Codex \
    asks for an approval, ask the user. Never decide for the user.";

/// Serves the parent process on stdin and stdout, until stdin ends.
pub async fn serve_stdio(client: Client, role: Role) -> Result<(), Failure> {
    let server = Server { backend: Backend::Socket(Arc::new(client.delegate(role)), role) };
    let broken = |error: String| Failure::new(Code::Mcp, format!("the MCP connection failed: {error}"));
    match Box::pin(server.serve(stdio_pipes())).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| broken(error.to_string())),
        // A client that disconnects before `initialize` is not an error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// The server. Clones are cheap; every session and every request gets one.
#[derive(Clone)]
struct Server {
    backend: Backend,
}

/// How the server reaches the daemon.
#[derive(Clone)]
enum Backend {
    /// Through the socket, for an agent with this role.
    Socket(Arc<Client>, Role),
    /// In the daemon's own process, as the caller of each request.
    InProcess(Box<App>),
}

impl Server {
    fn access(&self, context: &RequestContext<RoleServer>) -> Result<Access, ErrorData> {
        match &self.backend {
            Backend::Socket(client, role) => {
                let may_decide = Caller::owner().delegate(*role).may(Verb::Decide).is_ok();
                Ok(Access::by_socket(Arc::clone(client), may_decide))
            }
            Backend::InProcess(app) => http::access(app, context),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("codex-bridge", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let access = self.access(&context)?;
        match request.name.as_ref() {
            tools::BRIDGE => {
                let arguments = Value::Object(request.arguments.unwrap_or_default());
                let reply = tokio::select! {
                    reply = access.tool(arguments) => reply,
                    () = context.ct.cancelled() => return Err(call::cancelled()),
                };
                Ok(result::reply(reply.unwrap_or_else(crate::tool::refusal)).into())
            }
            tools::CODEX | tools::REPLY => call::answer(access, request, context).await,
            other => Err(ErrorData::invalid_params(format!("unknown tool {other:?}"), None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&self.access(&context)?, &request.task_id, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(&self.access(&context)?, &request.task_id, &request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(&self.access(&context)?, &request.task_id).await
    }
}
