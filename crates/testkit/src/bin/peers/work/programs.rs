//! Programs as they are used: a viewer of slides, a reader of alignments, a reader of images.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{dev_dir, noise, python, root_folder, run};

use crate::client::Client;
use crate::limited::Stop;
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, mib_fetched, milliseconds};

const LIMIT: Duration = Duration::from_mins(2);
const MADE_WITHIN: Duration = Duration::from_mins(20);
const SLIDE: &str = "slide.svs";
const ALIGNMENTS: &str = "reads.bam";
const INDEX: &str = "reads.bam.bai";
const IMAGE: &str = "image.tif";
const READS: usize = 600_000;
const READ_LEN: usize = 150;
const REFERENCE_LEN: usize = 60_000_000;

/// Each cold, and again.
pub(crate) fn workloads(stage: &Stage<'_>) -> Vec<Workload> {
    let slide = kept("slide-200.svs", |path| script("crates/it/py/slide_make.py", path));
    stage.copy(SLIDE, &slide);
    let alignments = kept("bench-reads.bam", make_alignments);
    stage.copy(ALIGNMENTS, &alignments);
    stage.copy(INDEX, &alignments.with_extension("bam.bai"));
    stage.copy(
        IMAGE,
        &kept("bench-image.tif", |path| script("crates/testkit/py/image_make.py", path)),
    );
    vec![
        workload("OpenSlide: open, thumbnail, 20 regions of a slide of 200 MB", |session, step| {
            look(session, step, "slide_regions.py", SLIDE)
        }),
        workload("samtools view: 20 regions of alignments", regions),
        workload("rasterio: 20 windows of a cloud-optimised GeoTIFF", |session, step| {
            look(session, step, "image_windows.py", IMAGE)
        }),
    ]
}

fn workload(
    title: &str,
    look: impl Fn(&mut Session<'_>, &str) -> Result<(), Stop> + 'static,
) -> Workload {
    let play = move |session: &mut Session<'_>| {
        look(session, "cold")?;
        look(session, "again")?;
        session.remount()?;
        look(session, "remounted")
    };
    Workload {
        title: title.to_owned(),
        road: Road::Far,
        limit: LIMIT,
        clients: Client::ALL.into_iter().filter(|&client| client != Client::Raw).collect(),
        figures: vec![
            less("cold", "cold, ms", milliseconds),
            less("cold", "cold, MiB fetched", mib_fetched),
            less("again", "again, ms", milliseconds),
            less("remounted", "after a remount, ms", milliseconds),
        ],
        costs: &["cold", "again"],
        play: Box::new(play),
    }
}

/// A script that measures itself.
fn look(session: &mut Session<'_>, step: &str, script: &str, name: &str) -> Result<(), Stop> {
    let mut command = Command::new(python());
    command.arg(root_folder().join("crates/testkit/py").join(script)).arg(session.path(name));
    session.step(step, &mut command)
}

fn regions(session: &mut Session<'_>, step: &str) -> Result<(), Stop> {
    let mut line = String::from(r#"samtools view "$1""#);
    for number in 0..20 {
        // All over the reference, in no order.
        let start = (number * 7 % 20) * (REFERENCE_LEN / 20) + 1000;
        let _ = write!(line, " chr1:{start}-{}", start + 5000);
    }
    session.shell(step, &line, ALIGNMENTS)
}

/// A file that takes long to make and is kept beside the tools.
fn kept(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let path = dev_dir().join(name);
    if !path.is_file() {
        let fresh = path.with_file_name(format!("fresh-{name}"));
        make(&fresh);
        let index = |path: &Path| path.with_extension("bam.bai");
        if index(&fresh).is_file() {
            fs::rename(index(&fresh), index(&path)).expect("made above");
        }
        fs::rename(&fresh, &path).expect("made above");
    }
    path
}

fn script(script: &str, path: &Path) {
    run(Command::new(python()).arg(root_folder().join(script)).arg(path), MADE_WITHIN).ok();
}

/// Reads at even distances of a reference of chance, as samtools sorts, packs and indexes them.
fn make_alignments(path: &Path) {
    let sam = path.with_extension("sam");
    let mut out = BufWriter::new(File::create(&sam).expect("the disk takes a file"));
    let head = format!("@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr1\tLN:{REFERENCE_LEN}\n");
    out.write_all(head.as_bytes()).expect("the disk takes the file");
    for read in 0..READS {
        let chances = noise(read as u64, READ_LEN * 2);
        let (bases, qualities) = chances.split_at(READ_LEN);
        let bases: String =
            bases.iter().map(|chance| b"ACGT"[usize::from(chance % 4)] as char).collect();
        let qualities: String =
            qualities.iter().map(|chance| (b'#' + chance % 40) as char).collect();
        let at = read * (REFERENCE_LEN / READS) + 1;
        let line =
            format!("r{read}\t0\tchr1\t{at}\t60\t{READ_LEN}M\t*\t0\t0\t{bases}\t{qualities}\n");
        out.write_all(line.as_bytes()).expect("the disk takes the file");
    }
    out.flush().expect("the disk takes the file");
    run(Command::new("samtools").args(["view", "-b", "-o"]).args([path, &sam]), MADE_WITHIN).ok();
    let index = path.with_extension("bam.bai");
    run(Command::new("samtools").arg("index").args([path, &index]), MADE_WITHIN).ok();
    fs::remove_file(&sam).expect("made above");
}
