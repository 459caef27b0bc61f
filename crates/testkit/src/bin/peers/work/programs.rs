//! Programs as they are used: a viewer of slides, a reader of alignments, a reader of images.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{dev_dir, noise, python, root_folder, run};

use crate::client::Client;
use crate::limited::{Numbers, Stop};
use crate::session::Session;
use crate::stage::{Road, Stage};
use crate::workload::{Workload, less, mib_fetched, milliseconds};

const LIMIT: Duration = Duration::from_secs(40);
const MADE_WITHIN: Duration = Duration::from_mins(20);
/// A slide as a scanner makes them, in three levels of detail.
struct Slide {
    title: &'static str,
    name: &'static str,
    /// The finest level, in pixels.
    size: [&'static str; 2],
}

const SLIDE: Slide = Slide { title: SLIDE_TITLE, name: "slide-200.svs", size: ["12288", "10240"] };
const LARGE_SLIDE: Slide =
    Slide { title: LARGE_SLIDE_TITLE, name: "slide-1500.svs", size: ["36864", "25600"] };
const ALIGNMENTS: &str = "reads.bam";
const INDEX: &str = "reads.bam.bai";
const IMAGE: &str = "image.tif";
const READS: usize = 600_000;
const READ_LEN: usize = 150;
const REFERENCE_LEN: usize = 60_000_000;

pub(crate) const SLIDE_TITLE: &str = "OpenSlide: open, thumbnail, 20 regions of a slide of 200 MB";
pub(crate) const LARGE_SLIDE_TITLE: &str =
    "OpenSlide: open, thumbnail, 20 regions of a slide of 1.5 GB";
pub(crate) const COLD: &str = "cold, ms";
pub(crate) const AGAIN: &str = "again, ms";

pub(crate) fn prepare(stage: &Stage<'_>) {
    for slide in [SLIDE, LARGE_SLIDE] {
        let make = |path: &Path| script("crates/it/py/slide_make.py", path, &slide.size);
        stage.copy(slide.name, &kept(slide.name, make));
    }
    stage.also_to_google(SLIDE.name);
    let alignments = kept("bench-reads.bam", make_alignments);
    stage.copy(ALIGNMENTS, &alignments);
    stage.copy(INDEX, &alignments.with_extension("bam.bai"));
    let make = |path: &Path| script("crates/testkit/py/image_make.py", path, &[]);
    stage.copy(IMAGE, &kept("bench-image.tif", make));
    for name in [ALIGNMENTS, INDEX, IMAGE] {
        stage.also_to_google(name);
    }
}

/// Each cold, and again.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        slide(&SLIDE, Road::Far, &[]),
        // What the emulator keeps, it keeps in memory.
        slide(&LARGE_SLIDE, Road::Far, &[Client::Gcsfuse]),
        slide(&SLIDE, Road::Direct, &[]),
        workload("samtools view: 20 regions of alignments", Road::Far, &[], regions),
        workload(
            "rasterio: 20 windows of a cloud-optimised GeoTIFF",
            Road::Far,
            &[],
            |session, step| look(session, step, "image_windows.py", IMAGE),
        ),
    ]
}

fn slide(slide: &Slide, road: Road, without: &[Client]) -> Workload {
    let name = slide.name;
    workload(slide.title, road, without, move |session, step| {
        look(session, step, "slide_regions.py", name)
    })
}

fn workload(
    title: &str,
    road: Road,
    without: &[Client],
    look: impl Fn(&mut Session<'_>, &str) -> Result<Numbers, Stop> + 'static,
) -> Workload {
    let play = move |session: &mut Session<'_>| {
        look(session, "cold")?;
        look(session, "again")?;
        session.remount()?;
        look(session, "remounted").map(drop)
    };
    let without: Vec<Client> = without.iter().copied().chain([Client::Raw]).collect();
    Workload {
        title: title.to_owned(),
        road,
        limit: LIMIT,
        clients: Client::all_but(road, &without),
        figures: vec![
            less("cold", COLD, milliseconds),
            less("cold", "cold, MiB fetched", mib_fetched),
            less("again", AGAIN, milliseconds),
            less("remounted", "after a remount, ms", milliseconds),
        ],
        costs: &["cold", "again"],
        play: Box::new(play),
    }
}

/// A script that measures itself.
fn look(session: &mut Session<'_>, step: &str, script: &str, name: &str) -> Result<Numbers, Stop> {
    let mut command = Command::new(python());
    command.arg(root_folder().join("crates/testkit/py").join(script)).arg(session.path(name));
    session.step(step, &mut command)
}

fn regions(session: &mut Session<'_>, step: &str) -> Result<Numbers, Stop> {
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

fn script(script: &str, path: &Path, more: &[&str]) {
    let mut command = Command::new(python());
    command.arg(root_folder().join(script)).arg(path).args(more);
    run(&mut command, MADE_WITHIN).ok();
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
