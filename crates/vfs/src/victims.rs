//! Which files are brought into the bucket to make room for writers; pure.
//!
//! A file that is closed goes as soon as it can. One that is still being written is published as it is
//! only if that helps: it must be so large that the rest can follow as an edit, whose unchanged parts the
//! store copies. Others see it before it is whole, so it is done for want of anything else, and to a file
//! that is overwritten in place, and may be of no use to anyone until it is closed, only if the disk
//! itself is full.

/// Why room is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// There is more than the limit allows.
    Limit,
    /// The disk is full: a program would get an error.
    Disk,
}

/// What is known of a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    /// How large it is.
    pub(crate) bytes: u64,
    /// What of it the bucket does not have.
    pub(crate) dirty_bytes: u64,
    /// By how much it is longer than what the bucket has.
    pub(crate) grown_bytes: u64,
    /// What it takes of the disk. Bytes that were uploaded while others were written stay with these, and
    /// go with them once they are uploaded, too.
    pub(crate) disk_bytes: u64,
}

/// If the disk is full, room for such a part of a part is worth an upload: the alternative is an error.
const DISK_PARTS_MIN: u64 = 8;

/// The indices of the files to publish as they are, in order, if files of more than `part_bytes` are
/// sent in parts.
pub(crate) fn choose(need: Need, weights: &[Weight], part_bytes: u64) -> Vec<usize> {
    let helps = |weight: &Weight| {
        let is_worth_it = match need {
            Need::Limit => part_bytes <= weight.dirty_bytes.min(weight.grown_bytes),
            Need::Disk => part_bytes / DISK_PARTS_MIN <= weight.disk_bytes,
        };
        is_worth_it && part_bytes < weight.bytes
    };
    let mut chosen: Vec<usize> = (0..weights.len()).filter(|&at| helps(&weights[at])).collect();
    let frees = |weight: &Weight| match need {
        Need::Limit => weight.dirty_bytes,
        Need::Disk => weight.disk_bytes,
    };
    chosen.sort_by_key(|&at| std::cmp::Reverse(frees(&weights[at])));
    chosen
}

#[cfg(test)]
mod tests {
    use super::{Need, Weight, choose};

    const PART: u64 = 16;

    #[test]
    fn the_largest_that_grow_go_first() {
        let weights = [new(40), new(90), new(60)];
        assert_eq!(choose(Need::Limit, &weights, PART), [1, 2, 0]);
    }

    #[test]
    fn small_files_stay_since_they_would_be_sent_whole_again() {
        assert!(choose(Need::Disk, &[new(PART)], PART).is_empty());
    }

    #[test]
    fn what_is_overwritten_in_place_goes_only_if_the_disk_is_full() {
        let overwritten = Weight { grown_bytes: 0, ..edited(100, 80) };
        assert!(choose(Need::Limit, &[overwritten], PART).is_empty());
        assert_eq!(choose(Need::Disk, &[overwritten], PART), [0]);
    }

    #[test]
    fn little_is_not_worth_an_upload() {
        assert!(choose(Need::Limit, &[edited(100, PART - 1)], PART).is_empty());
        assert_eq!(choose(Need::Disk, &[edited(100, PART - 1), edited(100, 1)], PART), [0]);
    }

    #[test]
    fn what_was_uploaded_while_it_was_written_goes_with_the_little_that_was_not() {
        let synced = Weight { disk_bytes: 90, ..edited(100, 1) };
        assert_eq!(choose(Need::Disk, &[new(50), synced], PART), [1, 0]);
        assert!(choose(Need::Limit, &[synced], PART).is_empty());
    }

    fn new(bytes: u64) -> Weight {
        edited(bytes, bytes)
    }

    /// A file with so many new bytes at its end.
    fn edited(bytes: u64, new: u64) -> Weight {
        Weight { bytes, dirty_bytes: new, grown_bytes: new, disk_bytes: new }
    }
}
