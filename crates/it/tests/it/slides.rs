//! `OpenSlide` reads a pyramidal slide through the mount as it does from the local disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{MinIo, Plan, dev_dir, python, run};

const WITHIN: Duration = Duration::from_mins(5);

#[test]
fn openslide_sees_the_same_slide_through_the_mount() {
    let slide = made_slide();
    let bucket = MinIo::shared().bucket();
    bucket.put_file("slides/one.svs", &slide);
    let want = looked_at(&slide);
    assert!(want.lines().count() >= 10, "{want}");
    for flags in [&[][..], &["--no-passthrough"]] {
        let mount = Plan::of(&bucket).flags(flags).mount();
        assert_eq!(looked_at(&mount.join("slides/one.svs")), want, "cold {flags:?}");
        assert_eq!(looked_at(&mount.join("slides/one.svs")), want, "again {flags:?}");
        mount.umount();
    }
}

#[test]
fn a_look_at_a_slide_fetches_a_small_part_of_it() {
    let slide = made_slide();
    let size = slide.metadata().unwrap().len();
    let bucket = MinIo::shared().bucket();
    bucket.put_file("one.svs", &slide);
    let mount = Plan::of(&bucket).mount();
    let path = mount.join("one.svs");
    run(&mut script("slide_open.py", &[&path]), WITHIN).ok();
    let fetched = mount.counter("remote_get_bytes");
    assert!(fetched < size / 4, "{fetched} of {size} bytes for one tile");
}

/// The slide, made once and kept beside the tools.
pub(crate) fn made_slide() -> PathBuf {
    let path = dev_dir().join("slide-200.svs");
    if !path.is_file() {
        // Two tests may make it at the same time: each its own, the last one stays.
        let folder = testkit::Scratch::new();
        let fresh = folder.path().join("slide.svs");
        run(&mut script("slide_make.py", &[&fresh]), WITHIN).ok();
        let kept = path.with_extension(std::process::id().to_string());
        std::fs::copy(&fresh, &kept).unwrap();
        std::fs::rename(&kept, &path).unwrap();
    }
    let size = path.metadata().unwrap().len();
    assert!((180_000_000..260_000_000).contains(&size), "{size} bytes");
    path
}

/// Everything `OpenSlide` says of a slide and of some of its regions.
fn looked_at(slide: &Path) -> String {
    run(&mut script("slide_look.py", &[slide]), WITHIN).ok().to_owned()
}

fn script(name: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new(python());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(name)).args(arguments);
    command
}
