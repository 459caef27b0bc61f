//! Processors of satellite scenes, ten at once, each in place beside its input: how long they take themselves, and
//! until the bucket has what they made.

use std::path::Path;
use std::process::Command;

use testkit::{Bucket, Plan, python, root_folder, run, wait};

use crate::PROBE_WITHIN;
use crate::kept::Kept;
use crate::report::{Rates, Report, median, say};
use crate::writes::{report_memory, timed};

const SCENES: u32 = 10;
/// Pixels of a side; a scene is four bands of two bytes each.
const SIZE: u32 = 1024;
const TURNS: usize = 3;

/// All of them at once, against the same on the local disk.
pub(crate) fn at_once(bucket: &Bucket<'_>, kept: &mut Kept, report: &mut Report) {
    let made = kept.scratch().path().to_owned();
    make(&made);
    let (mut local, mut here, mut drained) = (vec![], vec![], vec![]);
    for turn in 1..=TURNS {
        say(&format!("{SCENES} scenes at once, turn {turn} of {TURNS}"));
        let place = kept.scratch().path().join("scenes");
        copy(&made, &place);
        local.push(timed(|| process(&place)));
        let before = Plan::of(bucket).mount();
        copy(&made, &before.join(format!("scenes-{turn}")));
        kept.umount(before);
        // Nothing of the scenes is in its cache.
        let mount = Plan::of(bucket).flags(["--profile", "pipeline"]).mount();
        let place = mount.join(format!("scenes-{turn}"));
        here.push(timed(|| process(&place)));
        let ended = wait::now();
        run(mount.plan().command(["sync"]).arg(mount.path()), PROBE_WITHIN).ok();
        drained.push(ended.elapsed().as_secs_f64());
        report_memory(&mount, "scenes", turn == TURNS, report);
        kept.umount(mount);
    }
    let [local, here, drained] = [local, here, drained].map(median);
    report.remark(format!(
        "{SCENES} scenes at once: {local:.1} s on the local disk, {here:.1} s on the mount, and {drained:.1} s \
         more until the bucket had all."
    ));
    let rate = |seconds| f64::from(SCENES) * 3600.0 / seconds;
    let rates = Rates { reference: rate(local), ours: rate(here) };
    let what = format!("{SCENES} scenes processed at once, in place, themselves, per hour");
    report.add(&what, "local disk", rates);
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euc", arguments[0], "bash"]).arg(python());
    command.arg(root_folder().join("crates/it/py/scene.py")).args(&arguments[1..]);
    command
}

fn make(place: &Path) {
    let scenes = r#""$1" "$2" make "$3" $(seq -f S2A_MSIL1C_%g.SAFE "$4")"#;
    let mut command = script(&[scenes, &SIZE.to_string(), &SCENES.to_string()]);
    run(command.current_dir(place), PROBE_WITHIN).ok();
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-r").args([from, to]), PROBE_WITHIN).ok();
}

fn process(place: &Path) {
    let all = r#"
        for scene in *_MSIL1C_*.SAFE; do "$1" "$2" process "$scene" & started+=($!); done
        for one in "${started[@]}"; do wait "$one"; done
    "#;
    run(script(&[all]).current_dir(place), PROBE_WITHIN).ok();
}
