//! How long the work took, without the start of the program.

use std::time::Instant;

/// Runs since it was made.
pub(crate) struct Timer(Instant);

impl Timer {
    #[expect(clippy::disallowed_methods, reason = "measuring time is what the program is for")]
    pub(crate) fn start() -> Timer {
        Timer(Instant::now())
    }

    /// The microseconds until now.
    pub(crate) fn micros(&self) -> u128 {
        self.0.elapsed().as_micros()
    }

    /// Prints the microseconds until now.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub(crate) fn tell(&self) {
        println!("{}", self.micros());
    }

    /// Prints them with how much was done meanwhile.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub(crate) fn tell_count(&self, count: usize) {
        println!("micros {}\ncount {count}", self.micros());
    }

    /// Prints them with the middle and the slowest hundredth of what was done meanwhile.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub(crate) fn tell_all(&self, mut single: Vec<u128>) {
        single.sort_unstable();
        let at =
            |percent: usize| single.get((single.len().max(1) - 1) * percent / 100).unwrap_or(&0);
        let (micros, count) = (self.micros(), single.len());
        println!("micros {micros}\ncount {count}\np50 {}\np99 {}", at(50), at(99));
    }
}
