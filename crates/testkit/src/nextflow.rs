//! A real Nextflow, which needs no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command::run;
use crate::place::{dev_dir, root_folder};

/// What Nextflow looks into of Java's own, by module.
const OPENED: [&str; 17] = [
    "java.lang",
    "java.io",
    "java.nio",
    "java.net",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.locks",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "sun.nio.ch",
    "sun.nio.fs",
    "sun.net.www.protocol.http",
    "sun.net.www.protocol.https",
    "sun.net.www.protocol.ftp",
    "sun.net.www.protocol.file",
    "jdk.internal.misc",
    "jdk.internal.vm",
];

/// Compiling a class takes a second on a machine that has nothing else to do.
const COMPILED_WITHIN: Duration = Duration::from_mins(2);

/// The `nextflow` command by the program `java`, which keeps its own files in `home`.
///
/// # Panics
///
/// If it is not installed.
pub fn nextflow(java: Command, home: &Path) -> Command {
    with_classes(java, home, None)
}

/// As [`nextflow`], of a head that knows paths of S3: of the store, and by the keys, in its environment.
///
/// # Panics
///
/// If it is not installed.
pub fn nextflow_of_buckets(java: Command, home: &Path) -> Command {
    let source = root_folder().join("crates/it/nextflow/head/Buckets.groovy");
    let classes = home.join("classes");
    let mut compiler = Command::new("java");
    compiler.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(library().join("*"));
    compiler.args(["org.codehaus.groovy.tools.FileSystemCompiler", "-d"]).arg(&classes);
    run(compiler.arg(source), COMPILED_WITHIN).ok();
    // By this it finds what extends it.
    let index = classes.join("META-INF");
    fs::create_dir_all(&index).expect("the scratch disk takes a folder");
    fs::write(index.join("extensions.idx"), "Buckets\nBucketsRemembered\n")
        .expect("the scratch disk takes a file");
    with_classes(java, home, Some(&classes))
}

fn with_classes(java: Command, home: &Path, classes: Option<&Path>) -> Command {
    let temporary = home.join("tmp");
    fs::create_dir_all(&temporary).expect("the scratch disk takes a folder");
    let mut command = java;
    command.env("NXF_HOME", home).env("HOME", home);
    command.arg(format!("-Djava.io.tmpdir={}", temporary.display()));
    command.env("NXF_OFFLINE", "true").env("NXF_PLUGINS_DEFAULT", "false");
    command.env("NXF_DISABLE_CHECK_LATEST", "true").env("NXF_ANSI_LOG", "false");
    command.args(OPENED.map(|name| format!("--add-opens=java.base/{name}=ALL-UNNAMED")));
    // Half the time until it is at work goes into compilers that a short life does not repay.
    command.args(["-XX:TieredStopAtLevel=1", "-Xmx700m", "-cp"]);
    let mut path = library().join("*").into_os_string();
    if let Some(classes) = classes {
        path.push(":");
        path.push(classes);
    }
    command.arg(path).arg("nextflow.cli.Launcher");
    command
}

fn library() -> PathBuf {
    let library = dev_dir().join("nextflow/lib");
    assert!(library.is_dir(), "no Nextflow at {}: run scripts/setup", library.display());
    library
}
