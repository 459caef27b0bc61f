//! How long the work took, without the start of the program.

use std::time::Instant;

/// Runs since it was made.
pub(crate) struct Timer(Instant);

impl Timer {
    #[expect(clippy::disallowed_methods, reason = "measuring time is what the program is for")]
    pub(crate) fn start() -> Timer {
        Timer(Instant::now())
    }

    /// Prints the microseconds until now.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub(crate) fn tell(&self) {
        println!("{}", self.0.elapsed().as_micros());
    }
}
