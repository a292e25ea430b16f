//! Named steps, timed, with a summary at the end. Knows nothing about what a step does.

use std::time::{Duration, Instant};

use crate::program::Program;

/// The steps that were done so far.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Does one step. If it fails, the error says which it was, why, and how to do it alone.
    pub fn step<T>(
        &mut self,
        name: &'static str,
        alone: &str,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        println!("== {name}");
        let started = Instant::now();
        let result = work();
        let took = started.elapsed();
        match result {
            Ok(value) => {
                println!("== {name}: done in {}", seconds(took));
                self.done.push((name, took));
                Ok(value)
            }
            Err(why) => Err(format!(
                "step `{name}` failed after {}: {why}; rerun it alone with `{alone}`",
                seconds(took)
            )),
        }
    }

    /// Does one step that is a single program.
    pub fn program(&mut self, name: &'static str, program: &Program) -> Result<(), String> {
        self.step(name, &program.to_string(), || program.run())
    }

    /// What was done and how long it took, a line each.
    pub fn summary(&self) -> String {
        let width = self.done.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max("total".len());
        let total = ("total", self.done.iter().map(|(_, took)| *took).sum());
        self.done.iter().chain([&total]).fold(String::new(), |text, (name, took)| {
            format!("{text}   {name:width$} {:>9}\n", seconds(*took))
        })
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{Duration, Steps};

    #[test]
    fn a_failed_step_says_its_name_its_reason_and_how_to_rerun_it() {
        let mut steps = Steps::default();
        let failed = steps.step::<()>("clippy", "cargo clippy", || Err("it ended with 101".into()));
        let sentence = failed.unwrap_err();
        assert!(sentence.starts_with("step `clippy` failed after 0.0 s: it ended with 101;"), "{sentence}");
        assert!(sentence.ends_with("; rerun it alone with `cargo clippy`"), "{sentence}");
        assert!(steps.done.is_empty());
    }

    #[test]
    fn the_summary_lists_steps_and_their_total() {
        let steps =
            Steps { done: vec![("format", Duration::from_millis(440)), ("clippy", Duration::from_secs(61))] };
        assert_eq!(steps.summary(), "   format     0.4 s\n   clippy    61.0 s\n   total     61.4 s\n");
    }
}
