//! The store and the network before it fail in every way there is: programs do not notice, and the
//! bucket has exactly what was written.

use std::fs;
use std::panic::{self, AssertUnwindSafe};

use testkit::{
    Bucket, Fault, Faults, MinIo, Mount, Plan, Weather, is_long, noise, wait, write_new,
};

use crate::{SOON, bytes, closing, conflicts, editing, keeping, renames, trees};

/// What is done through the mount, the request that is to fail of it, and what must be true then.
struct Case {
    name: &'static str,
    /// Of the request's first line; `{}` is the file's name.
    words: &'static str,
    act: fn(&Bucket<'_>, &Mount, &str),
}

const LARGE: usize = 11 << 20;

const CASES: [Case; 9] = [
    Case { name: "put", words: "PUT {}", act: makes_a_small_file },
    Case { name: "create", words: "POST {} ?uploads", act: makes_a_large_file },
    Case { name: "part", words: "PUT {} partNumber=", act: makes_a_large_file },
    Case { name: "complete", words: "POST {} uploadId=", act: makes_a_large_file },
    Case { name: "delete", words: "DELETE {}", act: removes_a_file },
    Case { name: "copy", words: "PUT {}-new", act: renames_a_file },
    Case { name: "list", words: "GET list-type=2 {}", act: lists_a_folder },
    Case { name: "head", words: "HEAD {}", act: looks_up_a_file },
    Case { name: "get", words: "GET {}", act: reads_a_file },
];

fn makes_a_small_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    let bytes = noise(1, 300_000);
    write_new(&mount.join(name), &bytes).unwrap();
    assert!(bucket.get(name).unwrap() == bytes);
}

fn makes_a_large_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    let bytes = noise(2, LARGE);
    write_new(&mount.join(name), &bytes).unwrap();
    assert!(bucket.get(name).unwrap() == bytes);
}

fn removes_a_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    write_new(&mount.join(name), b"bytes").unwrap();
    fs::remove_file(mount.join(name)).unwrap();
    assert_eq!(bucket.get(name), None);
}

fn renames_a_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    bucket.put(&format!("{name}-old"), b"of somebody else");
    let (old, new) = (mount.join(format!("{name}-old")), mount.join(format!("{name}-new")));
    wait::until("the object to appear", SOON, || old.exists());
    fs::rename(old, new).unwrap();
    assert_eq!(bucket.get(&format!("{name}-new")).unwrap(), b"of somebody else");
    assert_eq!(bucket.get(&format!("{name}-old")), None);
}

fn lists_a_folder(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    bucket.put(&format!("{name}/file"), b"bytes");
    wait::until("the folder to appear", SOON, || mount.join(name).exists());
    assert_eq!(crate::names(&mount.join(name)), ["file"]);
}

fn looks_up_a_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    bucket.put(name, b"bytes");
    assert_eq!(fs::metadata(mount.join(name)).unwrap().len(), 5);
}

fn reads_a_file(bucket: &Bucket<'_>, mount: &Mount, name: &str) {
    let bytes = noise(3, 700_000);
    bucket.put(name, &bytes);
    wait::until("the object to appear", SOON, || mount.join(name).exists());
    assert!(fs::read(mount.join(name)).unwrap() == bytes);
}

/// Runs parts of other suites with one request in twenty failing.
fn in_rough_weather(seed: u64, suites: &[fn()]) {
    let store = MinIo::shared();
    // A long form has time for every stall there is.
    let stalls_max = if is_long() { u64::MAX } else { 1 };
    let proxy = Faults::before(store.address(), Weather { stalls_max, ..Weather::rough(seed) });
    proxy.around(&store.endpoint(), || suites.iter().for_each(|suite| suite()));
    let met: u64 = proxy.met().values().sum();
    assert!(proxy.requests() < met * 40, "{met} faults in {} requests", proxy.requests());
}

#[test]
fn every_fault_of_every_request_goes_unnoticed() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let proxy = Faults::before(store.address(), Weather::calm());
    let plan = Plan::of(&bucket).instead("--endpoint", &proxy.endpoint());
    let mount = plan.flags(["--part-size", "5MiB", "--metadata-ttl", "0s"]).mount();
    let mut failed = Vec::new();
    for case in &CASES {
        for (number, fault) in Fault::ALL.into_iter().enumerate() {
            // It only takes long, which one test is enough for.
            if fault == Fault::Stall {
                continue;
            }
            let name = format!("{}-{number}", case.name);
            proxy.next(&case.words.replace("{}", &name), fault);
            let act = || (case.act)(&bucket, &mount, &name);
            if panic::catch_unwind(AssertUnwindSafe(act)).is_err() {
                failed.push(format!("{} fails at {fault:?}", case.name));
            }
            if 0 < proxy.unmet() {
                failed.push(format!("{} does not meet with {fault:?}", case.name));
            }
        }
    }
    assert_eq!(failed, Vec::<String>::new());
    mount.umount();
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
fn an_answer_that_takes_ten_seconds_is_waited_for() {
    let store = MinIo::shared();
    let bucket = store.bucket();
    let proxy = Faults::before(store.address(), Weather::calm());
    let mount = Plan::of(&bucket).instead("--endpoint", &proxy.endpoint()).mount();
    proxy.next("PUT file", Fault::Stall);
    makes_a_small_file(&bucket, &mount, "file");
    assert_eq!(proxy.met()[&Fault::Stall], 1);
    mount.umount();
}

#[test]
fn conflicts_are_told_apart_from_faults() {
    in_rough_weather(
        1,
        &[
            conflicts::an_edit_of_an_object_that_was_replaced_meanwhile_fails_and_is_kept,
            conflicts::an_edit_of_which_the_rest_is_gone_is_kept_at_its_place,
            conflicts::a_file_written_whole_replaces_what_came_meanwhile,
            conflicts::an_exclusive_create_does_not_replace_what_came_meanwhile,
            conflicts::an_edit_of_an_object_that_was_deleted_meanwhile_is_not_lost,
        ],
    );
}

#[test]
fn files_are_written_and_edited_over_faults() {
    in_rough_weather(
        2,
        &[
            closing::what_was_closed_is_in_the_bucket,
            closing::what_was_synced_is_in_the_bucket_while_the_file_is_still_open,
            closing::a_file_written_by_a_shell_is_in_the_bucket_when_the_shell_has_ended,
            editing::an_edit_in_the_middle_of_a_large_object_keeps_the_rest,
            editing::writes_here_and_there_end_as_on_a_local_disk,
            editing::a_hole_reads_as_zeros,
            editing::a_file_is_edited_again_and_again,
            bytes::what_is_written_through_a_shared_mapping_is_read_and_uploaded,
            bytes::ranges_are_copied_from_and_to_files_in_any_state,
            bytes::several_programs_append_whole_records_to_one_file,
            bytes::a_mapped_file_is_cut_and_grown,
        ],
    );
}

#[test]
fn names_change_over_faults() {
    in_rough_weather(
        3,
        &[
            renames::a_folder_is_renamed_with_everything_in_it,
            renames::files_open_in_a_renamed_folder_are_read_and_written_on,
            renames::a_large_file_removed_while_open_is_read_to_its_end,
            renames::two_names_change_places,
            keeping::everything_that_can_be_said_of_a_name_is_there_after_a_remount,
        ],
    );
}

#[test]
fn trees_are_made_and_removed_over_faults() {
    in_rough_weather(4, &[trees::a_tree_is_packed_unpacked_and_removed_in_place]);
    if is_long() {
        let tree =
            trees::a_tree_copied_in_and_out_is_the_same_and_every_object_has_its_key_and_bytes;
        in_rough_weather(5, &[tree]);
    }
}
