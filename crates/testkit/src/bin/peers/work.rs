//! The workloads, in chapters.

mod jobs;
mod listing;
mod places;
mod programs;
mod sequential;
mod small;

use crate::stage::Stage;
use crate::workload::Workload;

/// A word for the command line, a title, and what makes the workloads and the files they read.
type Chapter = (&'static str, &'static str, fn(&Stage<'_>) -> Vec<Workload>);

/// All of them.
pub(crate) const CHAPTERS: &[Chapter] = &[
    ("small", "Small files", small::workloads),
    ("sequential", "Sequential reads", sequential::workloads),
    ("places", "Parts of a large file", places::workloads),
    ("programs", "Programs", programs::workloads),
    ("listing", "Listings", listing::workloads),
    ("jobs", "Jobs of fio", jobs::workloads),
];
