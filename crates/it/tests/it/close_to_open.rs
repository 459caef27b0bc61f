//! Two mounts of one bucket, each with local state of its own, as on two hosts: what one closed, the
//! other sees when it opens.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use proptest::prelude::{Strategy, any, prop, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use testkit::{Mount, Opening, Program, append, is_long, noise, overwrite, wait};

use crate::{TTL, mounted, mounted_with};

/// One thing that one of the two does; `who` chooses which.
#[derive(Clone, Debug)]
enum Step {
    /// Writes a file anew.
    Write { who: bool, name: u8, len: usize, seed: u8 },
    /// Adds to a file.
    Append { who: bool, name: u8, len: usize, seed: u8 },
    /// Removes a file.
    Remove { who: bool, name: u8 },
    /// Opens a file and keeps it open, as a reader.
    Hold { who: bool, name: u8 },
    /// Opens a file and reads it.
    Read { who: bool, name: u8 },
    /// Lists the folder.
    List { who: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let (who, name, seed) = (any::<bool>, || 0..3_u8, any::<u8>);
    let len = || prop_oneof![3 => 0..5_000_usize, 1 => 100_000..400_000_usize];
    prop_oneof![
        4 => (who(), name(), len(), seed())
            .prop_map(|(who, name, len, seed)| Step::Write { who, name, len, seed }),
        3 => (who(), name(), len(), seed())
            .prop_map(|(who, name, len, seed)| Step::Append { who, name, len, seed }),
        1 => (who(), name()).prop_map(|(who, name)| Step::Remove { who, name }),
        2 => (who(), name()).prop_map(|(who, name)| Step::Hold { who, name }),
        5 => (who(), name()).prop_map(|(who, name)| Step::Read { who, name }),
        2 => who().prop_map(|who| Step::List { who }),
    ]
}

#[test]
fn what_one_mount_closed_the_other_sees_at_its_next_open() {
    // Without a time to live there is nothing to wait for.
    let (bucket, one) = mounted_with(&["--metadata-ttl", "0s"]);
    let other = testkit::Plan::of(&bucket).flags(["--metadata-ttl", "0s"]).mount();
    let mounts = [one, other];
    let cases = if is_long() { 500 } else { 25 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = if is_long() {
        TestRunner::new(config)
    } else {
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]))
    };
    let case = std::cell::Cell::new(0);
    let steps = prop::collection::vec(step(), 1..40);
    let result = runner.run(&steps, |steps| {
        case.set(case.get() + 1);
        let folder = format!("case-{}", case.get());
        play(&mounts, &folder, &steps).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Takes the steps in `folder` on both mounts. Whatever is opened must be what was closed last.
fn play(mounts: &[Mount; 2], folder: &str, steps: &[Step]) -> Result<(), String> {
    fs::create_dir(mounts[0].join(folder)).map_err(|error| error.to_string())?;
    let mut closed: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut held: Vec<File> = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let path = |who: bool, name: u8| mounts[usize::from(who)].join(format!("{folder}/{name}"));
        let wrong = |what: String| format!("{place}: {step:?}: {what}");
        match *step {
            Step::Write { who, name, len, seed } => {
                let bytes = noise(u64::from(seed), len);
                overwrite(&path(who, name), &bytes).map_err(|error| wrong(error.to_string()))?;
                closed.insert(name, bytes);
            }
            Step::Append { who, name, len, seed } => {
                let Some(want) = closed.get_mut(&name) else { continue };
                let bytes = noise(u64::from(seed), len);
                append(&path(who, name), &bytes).map_err(|error| wrong(error.to_string()))?;
                want.extend(bytes);
            }
            Step::Remove { who, name } => {
                let removed = fs::remove_file(path(who, name));
                if removed.is_ok() != closed.remove(&name).is_some() {
                    return Err(wrong(format!("{removed:?}")));
                }
            }
            Step::Hold { who, name } => held.extend(File::open(path(who, name))),
            Step::Read { who, name } => {
                check(&path(who, name), closed.get(&name)).map_err(wrong)?;
            }
            Step::List { who } => {
                let names = crate::names(&mounts[usize::from(who)].join(folder));
                let want: Vec<String> = closed.keys().map(ToString::to_string).collect();
                if names != want {
                    return Err(wrong(format!("{names:?}, not {want:?}")));
                }
            }
        }
    }
    Ok(())
}

fn check(path: &Path, want: Option<&Vec<u8>>) -> Result<(), String> {
    match (fs::read(path), want) {
        (Ok(bytes), Some(want)) if bytes == *want => Ok(()),
        (Ok(bytes), Some(want)) => {
            let at = bytes.iter().zip(want).position(|(one, other)| one != other);
            let lengths = (bytes.len(), want.len());
            Err(format!("{} of {} bytes, other from {at:?}", lengths.0, lengths.1))
        }
        (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        (read, want) => Err(format!("{:?}, not {:?}", read.map(|b| b.len()), want.map(Vec::len))),
    }
}

#[test]
fn what_one_mount_closed_the_other_opens_once_its_time_to_live_is_over() {
    let (bucket, writer) = mounted();
    let reader = testkit::Plan::of(&bucket).mount();
    for round in 0..5 {
        let bytes = noise(round, 50_000);
        overwrite(&writer.join("file"), &bytes).unwrap();
        // It may believe for so long what it saw before, but it never sees a mixture.
        wait::until("the other's bytes", TTL, || {
            let Ok(read) = fs::read(reader.join("file")) else { return false };
            assert!(read == bytes || read == noise(round.wrapping_sub(1), 50_000), "a mixture");
            read == bytes
        });
    }
}

#[test]
fn bytes_that_are_not_closed_yet_are_nobody_elses_business() {
    let (bucket, writer) = mounted_with(&["--metadata-ttl", "0s"]);
    let reader = testkit::Plan::of(&bucket).flags(["--metadata-ttl", "0s"]).mount();
    overwrite(&writer.join("file"), b"first").unwrap();
    // By a program of its own: the children of other tests of this process, which inherit what is open
    // for a moment, close it when they begin, and a child's close publishes.
    let mut program = Program::open(&writer.join("file"), Opening::Edit).unwrap();
    program.write(b"SECOND").unwrap();
    assert_eq!(fs::read(writer.join("file")).unwrap(), b"SECOND");
    assert_eq!(fs::read(reader.join("file")).unwrap(), b"first");
    program.close().unwrap();
    assert_eq!(fs::read(reader.join("file")).unwrap(), b"SECOND");
}
