//! The workloads, in chapters.

pub(crate) mod jobs;
pub(crate) mod listing;
pub(crate) mod places;
pub(crate) mod programs;
pub(crate) mod sequential;
pub(crate) mod small;

use crate::stage::Stage;
use crate::workload::Workload;

/// Workloads that read the same files.
pub(crate) struct Chapter {
    /// A word for the command line.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Makes the files.
    pub(crate) prepare: fn(&Stage<'_>),
    pub(crate) workloads: fn() -> Vec<Workload>,
}

/// All of them.
pub(crate) const CHAPTERS: &[Chapter] = &[
    Chapter {
        name: "small",
        title: "Small files",
        prepare: small::prepare,
        workloads: small::workloads,
    },
    Chapter {
        name: "sequential",
        title: "Sequential reads",
        prepare: sequential::prepare,
        workloads: sequential::workloads,
    },
    Chapter {
        name: "places",
        title: "Parts of a large file",
        prepare: places::prepare,
        workloads: places::workloads,
    },
    Chapter {
        name: "programs",
        title: "Programs",
        prepare: programs::prepare,
        workloads: programs::workloads,
    },
    Chapter {
        name: "jobs",
        title: "Jobs of fio",
        prepare: jobs::prepare,
        workloads: jobs::workloads,
    },
    // The last: its files are so many that the store needs a while to make them.
    Chapter {
        name: "listing",
        title: "Listings",
        prepare: listing::prepare,
        workloads: listing::workloads,
    },
];
