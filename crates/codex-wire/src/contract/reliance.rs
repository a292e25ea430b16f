//! The table of names: each type of Codex's schema that we read or write, with the fields and values that we use.

use crate::request::method;

/// One type that we rely on.
pub struct Reliance {
    /// The schema file.
    pub file: &'static str,
    /// The type in it; empty for the file's own.
    pub definition: &'static str,
    /// The server request whose parameters it is, if any.
    pub method: Option<&'static str>,
    /// Fields that we read or write.
    pub fields: &'static [&'static str],
    /// Enum values, tags and one-key objects that we read or write.
    pub values: &'static [&'static str],
    /// Whether we send it: then no other field may be required.
    pub sent: bool,
}

const fn asked(definition: &'static str, method: &'static str, fields: &'static [&'static str]) -> Reliance {
    Reliance {
        file: "ServerRequest.json",
        definition,
        method: Some(method),
        fields,
        values: &[],
        sent: false,
    }
}

const fn answered(
    file: &'static str,
    definition: &'static str,
    fields: &'static [&'static str],
    values: &'static [&'static str],
) -> Reliance {
    Reliance { file, definition, method: None, fields, values, sent: true }
}

const fn read(
    file: &'static str,
    definition: &'static str,
    fields: &'static [&'static str],
    values: &'static [&'static str],
) -> Reliance {
    Reliance { file, definition, method: None, fields, values, sent: false }
}

const fn sent(
    definition: &'static str,
    fields: &'static [&'static str],
    values: &'static [&'static str],
) -> Reliance {
    Reliance { file: "ClientRequest.json", definition, method: None, fields, values, sent: true }
}

/// Requests of the server and our answers.
pub const APPROVALS: &[Reliance] = &[
    asked(
        "CommandExecutionRequestApprovalParams",
        method::COMMAND,
        &[
            "threadId",
            "turnId",
            "itemId",
            "kind",
            "command",
            "cwd",
            "reason",
            "proposedExecpolicyAmendment",
            "networkApprovalContext",
            "additionalPermissions",
            "availableDecisions",
        ],
    ),
    answered("CommandExecutionRequestApprovalResponse.json", "", &["decision"], &[]),
    read(
        "CommandExecutionRequestApprovalResponse.json",
        "CommandExecutionApprovalDecision",
        &[],
        &["accept", "acceptForSession", "decline", "cancel", "acceptWithExecpolicyAmendment"],
    ),
    asked(
        "FileChangeRequestApprovalParams",
        method::FILE_CHANGE,
        &["threadId", "turnId", "itemId", "reason", "grantRoot"],
    ),
    answered("FileChangeRequestApprovalResponse.json", "", &["decision"], &[]),
    read(
        "FileChangeRequestApprovalResponse.json",
        "FileChangeApprovalDecision",
        &[],
        &["accept", "acceptForSession", "decline", "cancel"],
    ),
    asked(
        "PermissionsRequestApprovalParams",
        method::PERMISSIONS,
        &["threadId", "turnId", "itemId", "cwd", "reason", "permissions"],
    ),
    answered("PermissionsRequestApprovalResponse.json", "", &["permissions", "scope"], &[]),
    read("PermissionsRequestApprovalResponse.json", "PermissionGrantScope", &[], &["turn", "session"]),
    read(
        "PermissionsRequestApprovalResponse.json",
        "AdditionalFileSystemPermissions",
        &["read", "write", "entries"],
        &[],
    ),
    read("PermissionsRequestApprovalResponse.json", "AdditionalNetworkPermissions", &["enabled"], &[]),
    asked("ToolRequestUserInputParams", method::USER_INPUT, &["threadId", "turnId", "itemId", "questions"]),
    read(
        "ServerRequest.json",
        "ToolRequestUserInputQuestion",
        &["id", "header", "question", "isOther", "isSecret", "options"],
        &[],
    ),
    read("ServerRequest.json", "ToolRequestUserInputOption", &["label", "description"], &[]),
    answered("ToolRequestUserInputResponse.json", "", &["answers"], &[]),
    answered("ToolRequestUserInputResponse.json", "ToolRequestUserInputAnswer", &["answers"], &[]),
    asked(
        "McpServerElicitationRequestParams",
        method::ELICITATION,
        &["threadId", "turnId", "serverName", "mode", "message", "requestedSchema", "url", "_meta"],
    ),
    answered("McpServerElicitationRequestResponse.json", "", &["action", "content", "_meta"], &[]),
    read(
        "McpServerElicitationRequestResponse.json",
        "McpServerElicitationAction",
        &[],
        &["accept", "decline", "cancel"],
    ),
    asked(
        "DynamicToolCallParams",
        method::TOOL_CALL,
        &["threadId", "turnId", "callId", "namespace", "tool", "arguments"],
    ),
    answered("DynamicToolCallResponse.json", "", &["contentItems", "success"], &[]),
    read("DynamicToolCallResponse.json", "DynamicToolCallOutputContentItem", &["text"], &["inputText"]),
    asked("ChatgptAuthTokensRefreshParams", method::REFRESH_TOKENS, &["reason", "previousAccountId"]),
    answered(
        "ChatgptAuthTokensRefreshResponse.json",
        "",
        &["accessToken", "chatgptAccountId", "chatgptPlanType"],
        &[],
    ),
    asked("AttestationGenerateParams", method::ATTESTATION, &[]),
    answered("AttestationGenerateResponse.json", "", &["token"], &[]),
    asked("CurrentTimeReadParams", method::CURRENT_TIME, &["threadId"]),
    answered("CurrentTimeReadResponse.json", "", &["currentTimeAt"], &[]),
    asked(
        "ExecCommandApprovalParams",
        method::LEGACY_COMMAND,
        &["conversationId", "callId", "command", "cwd", "reason"],
    ),
    answered("ExecCommandApprovalResponse.json", "", &["decision"], &[]),
    asked(
        "ApplyPatchApprovalParams",
        method::LEGACY_PATCH,
        &["conversationId", "callId", "fileChanges", "reason", "grantRoot"],
    ),
    read(
        "ApplyPatchApprovalResponse.json",
        "ReviewDecision",
        &[],
        &["approved", "approved_for_session", "denied", "abort"],
    ),
];

const SETTINGS: &[&str] =
    &["cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "model", "developerInstructions", "config"];

/// Threads, turns and items: what we send and what we read.
pub const THREADS_AND_TURNS: &[Reliance] = &[
    sent("InitializeParams", &["clientInfo", "capabilities"], &[]),
    sent("ClientInfo", &["name", "title", "version"], &[]),
    sent("InitializeCapabilities", &["experimentalApi", "optOutNotificationMethods"], &[]),
    sent("ThreadStartParams", SETTINGS, &[]),
    sent("ThreadStartParams", &["dynamicTools"], &[]),
    sent("ThreadResumeParams", SETTINGS_AND_THREAD, &[]),
    sent("ThreadForkParams", &["threadId", "lastTurnId", "excludeTurns"], &[]),
    sent("ThreadUnsubscribeParams", &["threadId"], &[]),
    sent("ThreadTurnsListParams", &["threadId", "limit", "sortDirection", "itemsView"], &[]),
    sent("ThreadReadParams", &["threadId", "includeTurns"], &[]),
    sent("ThreadCompactStartParams", &["threadId"], &[]),
    sent("ThreadBackgroundTerminalsCleanParams", &["threadId"], &[]),
    sent(
        "TurnStartParams",
        &[
            "threadId",
            "input",
            "clientUserMessageId",
            "cwd",
            "approvalPolicy",
            "approvalsReviewer",
            "sandboxPolicy",
            "model",
            "effort",
            "outputSchema",
        ],
        &[],
    ),
    sent("TurnSteerParams", &["threadId", "input", "expectedTurnId"], &[]),
    sent("TurnInterruptParams", &["threadId", "turnId"], &[]),
    read("ClientRequest.json", "UserInput", &["text", "url", "path"], &["text", "image", "localImage"]),
    read("ClientRequest.json", "SandboxMode", &[], &["read-only", "workspace-write", "danger-full-access"]),
    read("ClientRequest.json", "AskForApproval", &[], &["untrusted", "on-request", "never"]),
    read("ClientRequest.json", "ApprovalsReviewer", &[], &["user", "auto_review"]),
    read("ClientRequest.json", "SandboxPolicy", &[], &["readOnly", "workspaceWrite", "dangerFullAccess"]),
    read("ClientRequest.json", "SortDirection", &[], &["desc"]),
    read("ClientRequest.json", "TurnItemsView", &[], &["summary", "full"]),
    read(
        "v2/ThreadStartResponse.json",
        "",
        &["thread", "cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "model"],
        &[],
    ),
    read(
        "v2/ThreadResumeResponse.json",
        "",
        &["thread", "cwd", "sandbox", "approvalPolicy", "approvalsReviewer"],
        &[],
    ),
    read("v2/ThreadTurnsListResponse.json", "", &["data", "nextCursor"], &[]),
    read("v2/ThreadLoadedListResponse.json", "", &["data"], &[]),
    read("v2/ThreadReadResponse.json", "", &["thread"], &[]),
    read("v2/TurnStartResponse.json", "", &["turn"], &[]),
    read("v2/TurnSteerResponse.json", "", &["turnId"], &[]),
    read("ServerNotification.json", "Thread", &["id", "parentThreadId", "status", "path", "turns"], &[]),
    read(
        "ServerNotification.json",
        "ThreadStatus",
        &["activeFlags"],
        &["idle", "active", "systemError", "notLoaded"],
    ),
    read("ServerNotification.json", "Turn", &["id", "status", "error", "items"], &[]),
    read("ServerNotification.json", "TurnStatus", &[], &["inProgress", "completed", "interrupted", "failed"]),
    read("ServerNotification.json", "TurnError", &["message", "codexErrorInfo", "additionalDetails"], &[]),
    read(
        "ServerNotification.json",
        "CodexErrorInfo",
        &[],
        &[
            "unauthorized",
            "usageLimitExceeded",
            "rateLimitExceeded",
            "contextWindowExceeded",
            "serverOverloaded",
            "internalServerError",
            "modelNotFound",
            "httpConnectionFailed",
            "responseTooManyFailedAttempts",
        ],
    ),
    read("ServerNotification.json", "ItemStartedNotification", &["item", "threadId", "turnId"], &[]),
    read("ServerNotification.json", "ItemCompletedNotification", &["item", "threadId", "turnId"], &[]),
    read(
        "ServerNotification.json",
        "AgentMessageDeltaNotification",
        &["delta", "itemId", "threadId", "turnId"],
        &[],
    ),
    read("ServerNotification.json", "CommandExecutionOutputDeltaNotification", &["delta", "itemId"], &[]),
    read("ServerNotification.json", "TurnStartedNotification", &["threadId", "turn"], &[]),
    read("ServerNotification.json", "TurnCompletedNotification", &["threadId", "turn"], &[]),
    read("ServerNotification.json", "ErrorNotification", &["error", "willRetry", "threadId", "turnId"], &[]),
    read("ServerNotification.json", "ServerRequestResolvedNotification", &["requestId", "threadId"], &[]),
    read("ServerNotification.json", "ThreadTokenUsage", &["last", "total", "modelContextWindow"], &[]),
    read(
        "ServerNotification.json",
        "TokenUsageBreakdown",
        &["totalTokens", "inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens"],
        &[],
    ),
    read("ServerNotification.json", "RateLimitSnapshot", &["primary", "secondary"], &[]),
    read("ServerNotification.json", "RateLimitWindow", &["usedPercent", "resetsAt"], &[]),
    read(
        "ServerNotification.json",
        "ThreadItem",
        &[
            "id",
            "text",
            "phase",
            "summary",
            "content",
            "command",
            "cwd",
            "status",
            "aggregatedOutput",
            "exitCode",
            "durationMs",
            "changes",
            "server",
            "tool",
            "arguments",
            "result",
            "error",
            "contentItems",
            "success",
            "clientId",
        ],
        &[
            "agentMessage",
            "reasoning",
            "commandExecution",
            "fileChange",
            "mcpToolCall",
            "dynamicToolCall",
            "userMessage",
            "webSearch",
            "plan",
            "contextCompaction",
        ],
    ),
    read("ServerNotification.json", "FileUpdateChange", &["path", "kind", "diff"], &[]),
    read("ServerNotification.json", "PatchChangeKind", &["move_path"], &["add", "delete", "update"]),
    read("ServerNotification.json", "MessagePhase", &[], &["commentary", "final_answer"]),
];

const SETTINGS_AND_THREAD: &[&str] = &[
    "threadId",
    "excludeTurns",
    "cwd",
    "sandbox",
    "approvalPolicy",
    "approvalsReviewer",
    "model",
    "developerInstructions",
    "config",
];
