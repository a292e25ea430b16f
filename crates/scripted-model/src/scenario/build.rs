//! The builder: a scenario reads like the turn that it makes.
//!
//! A plain verb (`say`, `exec`) adds to the response at hand. A `then_` verb waits for the outputs of the calls
//! so far: it begins the next response if the one at hand has a call, and adds to it otherwise.

use serde_json::Value;

use super::{Phase, Response, Scenario, Step, ToolCall, Usage};

impl Scenario {
    /// A scenario in which nothing has been said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A message in one piece, without a phase.
    pub fn say(self, text: impl Into<String>) -> Self {
        self.step(Step::Say { chunks: vec![text.into()], phase: None })
    }

    /// A message in one piece, marked as a remark on the way or as the answer.
    pub fn say_as(self, phase: Phase, text: impl Into<String>) -> Self {
        self.step(Step::Say { chunks: vec![text.into()], phase: Some(phase) })
    }

    /// A message streamed in several pieces.
    pub fn say_in_chunks<T: Into<String>>(self, chunks: impl IntoIterator<Item = T>) -> Self {
        self.step(Step::Say { chunks: chunks.into_iter().map(Into::into).collect(), phase: None })
    }

    /// A piece of a message that stays open, for stalls and cuts in its middle.
    pub fn delta(self, text: impl Into<String>) -> Self {
        self.step(Step::Delta { text: text.into(), phase: None })
    }

    /// `deltas` times the same piece of text, as quickly as possible.
    pub fn flood(self, deltas: u32, text: impl Into<String>) -> Self {
        self.step(Step::Flood { deltas, text: text.into() })
    }

    /// Reasoning with a summary of one part.
    pub fn reason(self, summary: impl Into<String>) -> Self {
        self.step(Step::Reason { summary: vec![summary.into()] })
    }

    /// A call of any tool.
    pub fn call(self, call: ToolCall) -> Self {
        self.step(Step::Call(call))
    }

    /// A shell command.
    pub fn exec(self, command: impl Into<String>) -> Self {
        self.call(ToolCall::exec(command))
    }

    /// A patch, in the form that `apply_patch` takes.
    pub fn apply_patch(self, patch: impl Into<String>) -> Self {
        self.call(ToolCall::apply_patch(patch))
    }

    /// Waits until `name` is released: before the first byte if nothing was said, else in mid-stream.
    pub fn stall(self, name: impl Into<String>) -> Self {
        self.step(Step::Stall { name: name.into() })
    }

    /// The token counts of the response at hand.
    pub fn usage(self, usage: Usage) -> Self {
        self.step(Step::Usage(usage))
    }

    /// Any event of the Responses API.
    pub fn event(self, event: Value) -> Self {
        self.step(Step::Event(event))
    }

    /// A line of the stream that need not be an event.
    pub fn line(self, line: impl Into<String>) -> Self {
        self.step(Step::Line { line: line.into() })
    }

    /// Ends the stream with `response.failed` and this error code.
    pub fn fail(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.step(Step::Failed { code: code.into(), message: message.into() })
    }

    /// Ends the stream with `response.incomplete`.
    pub fn incomplete(self, reason: impl Into<String>) -> Self {
        self.step(Step::Incomplete { reason: reason.into() })
    }

    /// Ends the stream without `response.completed`.
    pub fn end_early(self) -> Self {
        self.step(Step::EndEarly)
    }

    /// Drops the connection.
    pub fn cut(self) -> Self {
        self.step(Step::Cut)
    }

    /// Adds a header to the response at hand.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.at_hand().headers.insert(name.into(), value.into());
        self
    }

    /// What comes now follows the outputs of the calls so far.
    pub fn then(mut self) -> Self {
        if self.responses.last().is_some_and(Response::has_call) {
            self.responses.push(Response::default());
        }
        self
    }

    /// [`then`](Self::then) and [`say`](Self::say).
    pub fn then_say(self, text: impl Into<String>) -> Self {
        self.then().say(text)
    }

    /// [`then`](Self::then) and [`exec`](Self::exec).
    pub fn then_exec(self, command: impl Into<String>) -> Self {
        self.then().exec(command)
    }

    /// [`then`](Self::then) and [`call`](Self::call).
    pub fn then_call(self, call: ToolCall) -> Self {
        self.then().call(call)
    }

    /// A whole response, such as a failure, after those so far.
    ///
    /// ```
    /// use scripted_model::{Response, Scenario};
    ///
    /// let flaky = Scenario::new().respond(Response::internal_error()).times(2).say("third time lucky");
    /// assert_eq!(flaky.pick(0, 1), Some(&flaky.responses()[0]));
    /// assert_eq!(flaky.pick(0, 2), Some(&flaky.responses()[1]));
    /// ```
    pub fn respond(mut self, response: Response) -> Self {
        // `then` has opened a response that nothing was added to.
        self.responses.pop_if(|last| *last == Response::default());
        self.responses.push(response);
        self
    }

    /// Limits the response at hand to this many attempts; what is added next answers the attempts after them.
    pub fn times(mut self, attempts: u32) -> Self {
        if let Some(last) = self.responses.last_mut() {
            last.times = Some(attempts);
        }
        self
    }

    /// Any step, in the response at hand.
    pub fn step(mut self, step: Step) -> Self {
        self.at_hand().steps.push(step);
        self
    }

    fn at_hand(&mut self) -> &mut Response {
        if self.responses.last().is_none_or(Response::is_closed) {
            self.responses.push(Response::default());
        }
        let last = self.responses.len() - 1;
        &mut self.responses[last]
    }
}

impl Response {
    fn has_call(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Call(_)))
    }

    fn is_closed(&self) -> bool {
        self.times.is_some() || self.steps.last().is_some_and(Step::ends_the_response)
    }
}

impl Step {
    fn ends_the_response(&self) -> bool {
        matches!(
            self,
            Self::Http { .. } | Self::Failed { .. } | Self::Incomplete { .. } | Self::EndEarly | Self::Cut
        )
    }
}
