//! Workflow engines on a mount: what they make is in the bucket, and what is made already they know again.

use std::fs;
use std::process::Command;
use std::time::Duration;

use testkit::{Containers, Mount, engine, root_folder, run};

use crate::{mounted, mounted_with};

const WITHIN: Duration = Duration::from_mins(3);

/// Puts two files of five and of seven lines into the bucket, and a workflow that counts them.
fn fill(mount: &Mount, workflow: &str) {
    let from = root_folder().join("crates/it/engines");
    fs::copy(from.join(workflow), mount.join(workflow)).unwrap();
    fs::create_dir(mount.join("reads")).unwrap();
    fs::write(mount.join("reads/ada.txt"), "1\n2\n3\n4\n5\n").unwrap();
    fs::write(mount.join("reads/bob.txt"), "1\n2\n3\n4\n5\n6\n7\n").unwrap();
}

/// An engine that works in the mount.
fn in_mount(mount: &Mount, name: &str) -> Command {
    let mut command = mount.plan().other_command(engine(name).as_os_str());
    command.current_dir(mount.path());
    command
}

#[test]
fn snakemake_takes_what_other_hosts_made_and_makes_nothing_twice() {
    let (bucket, mount) = mounted();
    fill(&mount, "Snakefile");
    let apart = mount.plan().folder("apart");
    let [binary, endpoint] =
        [testkit::quayfs().to_str().unwrap(), bucket.endpoint()].map(str::to_owned);
    let job = format!(
        "{binary} run --path-style --region us-east-1 --endpoint {endpoint} --cache-dir {} {} --",
        apart.display(),
        bucket.url()
    );
    let snakemake = |mount: &Mount| {
        let mut command = in_mount(mount, "snakemake");
        run(command.args(["--cores", "2"]).env("RUN", &job), WITHIN)
    };
    snakemake(&mount).ok();
    assert_eq!(bucket.get("counts/total.txt").as_deref(), Some(&b"12\n"[..]));
    // Times are what they were.
    let mount = mount.umount().mount();
    let again = snakemake(&mount);
    assert!(again.stderr.contains("Nothing to be done"), "{}", again.report());
}

#[test]
fn cwltool_takes_inputs_from_a_mount_and_leaves_outputs_there() {
    let (bucket, mount) = mounted_with(&["--profile", "pipeline"]);
    fill(&mount, "count.cwl");
    let job = "reads: [{class: File, path: reads/ada.txt}, {class: File, path: reads/bob.txt}]\n";
    fs::write(mount.join("job.yml"), job).unwrap();
    let mut command = in_mount(&mount, "cwltool");
    command.arg("--tmpdir-prefix").arg(mount.plan().folder("scratch").join("job-"));
    command.args(["--outdir", "results", "count.cwl", "job.yml"]);
    run(&mut command, WITHIN).ok();
    mount.umount();
    for (name, want) in [("ada.count", "5\n"), ("bob.count", "7\n"), ("total.txt", "12\n")] {
        let found = bucket.get(&format!("results/{name}")).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), want, "{name}");
    }
}

#[test]
fn miniwdl_passes_files_of_a_mount_into_the_containers_of_its_tasks() {
    let (_bucket, mount) = mounted_with(&["--profile", "pipeline"]);
    fill(&mount, "count.wdl");
    let containers = Containers::new();
    let mut command = in_mount(&mount, "miniwdl");
    command.args(["run", "--no-color", "--dir", "runs/one/.", "count.wdl"]);
    command.args(["reads=reads/ada.txt", "reads=reads/bob.txt"]);
    // The image is here, and nowhere else.
    let podman = r#"["bash", "-c", "[ $0 = pull ] || exec podman $0 \"$@\""]"#;
    command.env("MINIWDL__SCHEDULER__CONTAINER_BACKEND", "podman");
    command.env("MINIWDL__PODMAN__EXE", podman).envs(containers.env());
    run(&mut command, WITHIN).ok();
    // Its outputs are links to where its tasks made them.
    let mount = mount.umount().mount();
    let total = fs::read_to_string(mount.join("runs/one/out/total/total.txt")).unwrap();
    assert_eq!(total, "12\n");
}
