//! The table of names: each type of Codex's schema that we read or write, with the fields and values that we use.

use crate::request::method;

/// One type that we rely on.
pub struct Reliance {
    /// The schema file.
    pub file: &'static str,
    /// The type in it; empty for the type of the file itself.
    pub definition: &'static str,
    /// The one alternative of the type, by its tag; empty for the type as a whole.
    pub variant: &'static str,
    /// The server request whose parameters it is, if any.
    pub method: Option<&'static str>,
    /// Fields that we read or write.
    pub fields: &'static [&'static str],
    /// Enum values, tags and one-key objects that we read or write.
    pub values: &'static [&'static str],
    /// Whether we send it: then the schema may require no other field.
    pub sent: bool,
}

const fn asked(definition: &'static str, method: &'static str, fields: &'static [&'static str]) -> Reliance {
    Reliance {
        file: "ServerRequest.json",
        definition,
        variant: "",
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
    Reliance { file, definition, variant: "", method: None, fields, values, sent: true }
}

const fn read(
    file: &'static str,
    definition: &'static str,
    fields: &'static [&'static str],
    values: &'static [&'static str],
) -> Reliance {
    Reliance { file, definition, variant: "", method: None, fields, values, sent: false }
}

const fn sent(
    definition: &'static str,
    fields: &'static [&'static str],
    values: &'static [&'static str],
) -> Reliance {
    Reliance { file: "ClientRequest.json", definition, variant: "", method: None, fields, values, sent: true }
}

const fn sent_as(
    definition: &'static str,
    variant: &'static str,
    fields: &'static [&'static str],
) -> Reliance {
    Reliance { variant, ..sent(definition, fields, &[]) }
}

const fn told(definition: &'static str, fields: &'static [&'static str]) -> Reliance {
    read("ServerNotification.json", definition, fields, &[])
}

const fn item(variant: &'static str, fields: &'static [&'static str]) -> Reliance {
    Reliance { variant, ..told("ThreadItem", fields) }
}

const fn words(definition: &'static str, values: &'static [&'static str]) -> Reliance {
    read("ServerNotification.json", definition, &[], values)
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
    Reliance {
        variant: "inputText",
        ..answered("DynamicToolCallResponse.json", "DynamicToolCallOutputContentItem", &["type", "text"], &[])
    },
    asked("CurrentTimeReadParams", method::CURRENT_TIME, &["threadId"]),
    answered("CurrentTimeReadResponse.json", "", &["currentTimeAt"], &[]),
];

/// Threads, turns and items: what we send and what we read.
pub const THREADS_AND_TURNS: &[Reliance] = &[
    sent("InitializeParams", &["clientInfo", "capabilities"], &[]),
    sent("ClientInfo", &["name", "title", "version"], &[]),
    sent("InitializeCapabilities", &["experimentalApi", "optOutNotificationMethods"], &[]),
    sent(
        "ThreadStartParams",
        &[
            "cwd",
            "sandbox",
            "approvalPolicy",
            "approvalsReviewer",
            "model",
            "developerInstructions",
            "config",
            "dynamicTools",
        ],
        &[],
    ),
    sent(
        "ThreadResumeParams",
        &[
            "threadId",
            "excludeTurns",
            "initialTurnsPage",
            "cwd",
            "sandbox",
            "approvalPolicy",
            "approvalsReviewer",
            "model",
            "developerInstructions",
            "config",
        ],
        &[],
    ),
    sent("ThreadResumeInitialTurnsPageParams", &["limit", "itemsView"], &[]),
    read("v2/ThreadResumeResponse.json", "", &["initialTurnsPage"], &[]),
    read("v2/ThreadResumeResponse.json", "TurnsPage", &["data"], &[]),
    sent(
        "ThreadForkParams",
        &[
            "threadId",
            "lastTurnId",
            "excludeTurns",
            "cwd",
            "sandbox",
            "approvalPolicy",
            "approvalsReviewer",
            "model",
            "developerInstructions",
            "config",
        ],
        &[],
    ),
    sent("ThreadUnsubscribeParams", &["threadId"], &[]),
    sent("ThreadArchiveParams", &["threadId"], &[]),
    sent("ThreadUnarchiveParams", &["threadId"], &[]),
    sent("ThreadTurnsListParams", &["threadId", "limit", "sortDirection", "itemsView"], &[]),
    sent("ThreadLoadedListParams", &[], &[]),
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
    sent("TurnSteerParams", &["threadId", "input", "clientUserMessageId", "expectedTurnId"], &[]),
    sent("TurnInterruptParams", &["threadId", "turnId"], &[]),
    sent_as("UserInput", "text", &["type", "text"]),
    sent_as("UserInput", "image", &["type", "url"]),
    sent_as("UserInput", "localImage", &["type", "path"]),
    sent_as("SandboxPolicy", "readOnly", &["type", "networkAccess"]),
    sent_as(
        "SandboxPolicy",
        "workspaceWrite",
        &["type", "networkAccess", "writableRoots", "excludeSlashTmp", "excludeTmpdirEnvVar"],
    ),
    sent_as("SandboxPolicy", "dangerFullAccess", &["type"]),
    sent("SandboxMode", &[], &["read-only", "workspace-write", "danger-full-access"]),
    sent("AskForApproval", &[], &["untrusted", "on-request", "never"]),
    sent("ApprovalsReviewer", &[], &["user", "auto_review"]),
    sent("SortDirection", &[], &["desc"]),
    sent("TurnItemsView", &[], &["summary", "full"]),
    read("v1/InitializeResponse.json", "", &["userAgent", "codexHome"], &[]),
    read(
        "v2/ThreadStartResponse.json",
        "",
        &["thread", "cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "model"],
        &[],
    ),
    read(
        "v2/ThreadResumeResponse.json",
        "",
        &["thread", "cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "model", "initialTurnsPage"],
        &[],
    ),
    read(
        "v2/ThreadForkResponse.json",
        "",
        &["thread", "cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "model"],
        &[],
    ),
    read("v2/ThreadTurnsListResponse.json", "", &["data"], &[]),
    read("v2/ThreadLoadedListResponse.json", "", &["data"], &[]),
    read("v2/ThreadReadResponse.json", "", &["thread"], &[]),
    read("v2/TurnStartResponse.json", "", &["turn"], &[]),
    read("v2/TurnSteerResponse.json", "", &["turnId"], &[]),
    told("ThreadStartedNotification", &["thread"]),
    told("Thread", &["id", "parentThreadId", "status", "path", "turns"]),
    told("ThreadStatusChangedNotification", &["threadId", "status"]),
    words("ThreadStatus", &["idle", "active", "systemError", "notLoaded"]),
    told("TurnStartedNotification", &["threadId", "turn"]),
    told("TurnCompletedNotification", &["threadId", "turn"]),
    told("Turn", &["id", "status", "error", "items"]),
    words("TurnStatus", &["inProgress", "completed", "interrupted", "failed"]),
    told("ErrorNotification", &["error", "willRetry", "threadId", "turnId"]),
    told("TurnError", &["message", "codexErrorInfo", "additionalDetails"]),
    words(
        "CodexErrorInfo",
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
    told("ItemStartedNotification", &["item", "threadId", "turnId"]),
    told("ItemCompletedNotification", &["item", "threadId", "turnId"]),
    told("AgentMessageDeltaNotification", &["delta", "itemId", "threadId", "turnId"]),
    told("ReasoningTextDeltaNotification", &["delta", "itemId", "threadId", "turnId"]),
    told("ReasoningSummaryTextDeltaNotification", &["delta", "itemId", "threadId", "turnId"]),
    told("CommandExecutionOutputDeltaNotification", &["delta", "itemId", "threadId", "turnId"]),
    told("TerminalInteractionNotification", &["itemId", "stdin", "threadId", "turnId"]),
    told("TurnDiffUpdatedNotification", &["diff", "threadId", "turnId"]),
    told("ServerRequestResolvedNotification", &["requestId", "threadId"]),
    told("WarningNotification", &["message"]),
    told("GuardianWarningNotification", &["message"]),
    told("ConfigWarningNotification", &["summary"]),
    told("DeprecationNoticeNotification", &["summary"]),
    told("ThreadTokenUsageUpdatedNotification", &["tokenUsage", "threadId", "turnId"]),
    told("ThreadTokenUsage", &["last", "total", "modelContextWindow"]),
    told(
        "TokenUsageBreakdown",
        &["totalTokens", "inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens"],
    ),
    told("AccountRateLimitsUpdatedNotification", &["rateLimits"]),
    told("RateLimitSnapshot", &["primary", "secondary"]),
    told("RateLimitWindow", &["usedPercent", "resetsAt"]),
    item("agentMessage", &["id", "text", "phase"]),
    item("reasoning", &["id", "summary", "content"]),
    item(
        "commandExecution",
        &["id", "command", "cwd", "status", "aggregatedOutput", "exitCode", "durationMs"],
    ),
    item("fileChange", &["id", "changes", "status"]),
    item("mcpToolCall", &["id", "server", "tool", "arguments", "result", "error", "status", "durationMs"]),
    item(
        "dynamicToolCall",
        &["id", "namespace", "tool", "arguments", "contentItems", "success", "status", "durationMs"],
    ),
    item("userMessage", &["id", "clientId", "content"]),
    item("webSearch", &["id", "query", "action", "results"]),
    item("plan", &["id", "text"]),
    item("contextCompaction", &["id"]),
    item("collabAgentToolCall", &["tool", "receiverThreadIds"]),
    words("CommandExecutionStatus", &["inProgress", "completed", "failed", "declined"]),
    words("PatchApplyStatus", &["inProgress", "completed", "failed", "declined"]),
    words("McpToolCallStatus", &["inProgress", "completed", "failed"]),
    words("DynamicToolCallStatus", &["inProgress", "completed", "failed"]),
    told("FileUpdateChange", &["path", "kind", "diff"]),
    words("PatchChangeKind", &["add", "delete", "update"]),
    Reliance { variant: "update", ..told("PatchChangeKind", &["move_path"]) },
    words("MessagePhase", &["commentary", "final_answer"]),
];
