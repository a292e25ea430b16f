//! Changing a ready-made step: another thread or turn, one field different or gone.

use serde_json::{Map, Value, json};

use super::Step;
use super::requests::resolved;

impl Step {
    /// Lets the events be about another thread, such as a child's.
    pub fn in_thread(self, thread: &str) -> Self {
        self.edit(&|params| replace(params, &["/threadId"], thread))
    }

    /// Lets the events be about another turn, such as an earlier one.
    pub fn in_turn(self, turn: &str) -> Self {
        self.edit(&|params| replace(params, &["/turnId", "/turn/id", "/turn/rootTurnId"], turn))
    }

    /// Lets the events be about an item with this id.
    pub fn of_item(self, id: &str) -> Self {
        self.edit(&|params| replace(params, &["/itemId", "/item/id", "/callId"], id))
    }

    /// Sets one field, by JSON pointer into the result or the parameters.
    pub fn with(self, pointer: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.edit(&|params| set(params, pointer, value.clone()))
    }

    /// Takes one field away, by JSON pointer into the result or the parameters.
    pub fn without(self, pointer: &str) -> Self {
        self.edit(&|params| remove(params, pointer))
    }

    /// Awaits the answer to this request and says that it is resolved, as Codex does.
    pub fn asked(self) -> Self {
        let Self::Request { id, .. } = &self else {
            panic!("only a request can be asked, not {self:?}");
        };
        let id = id.clone();
        let thread = self.thread().unwrap_or_else(|| json!("$thread"));
        let resolved = resolved(id.clone()).with("/threadId", thread);
        Self::Group(vec![self, Self::AwaitAnswer(id), resolved])
    }

    fn thread(&self) -> Option<Value> {
        match self {
            Self::Request { params, .. } | Self::Notify { params, .. } => params.get("threadId").cloned(),
            _ => None,
        }
    }

    fn edit(mut self, change: &dyn Fn(&mut Value)) -> Self {
        self.edit_in_place(change);
        self
    }

    fn edit_in_place(&mut self, change: &dyn Fn(&mut Value)) {
        match self {
            Self::Reply(value) | Self::Notify { params: value, .. } | Self::Request { params: value, .. } => {
                change(value);
            }
            Self::Repeat { steps, .. } | Self::Group(steps) | Self::FreshItem(steps) => {
                for step in steps {
                    step.edit_in_place(change);
                }
            }
            _ => {}
        }
    }
}

fn replace(params: &mut Value, pointers: &[&str], id: &str) {
    for pointer in pointers {
        if let Some(found) = params.pointer_mut(pointer) {
            *found = json!(id);
        }
    }
}

fn set(value: &mut Value, pointer: &str, new: Value) {
    if value.is_string() {
        *value = json!({ "$extends": value.take() });
    }
    let mut place = value;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = new;
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(object) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        object.remove(key);
    }
}
