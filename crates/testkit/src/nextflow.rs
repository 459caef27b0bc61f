//! A real Nextflow, which needs no network.

use std::path::Path;
use std::process::Command;

use crate::place::dev_dir;

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

/// The `nextflow` command by the program `java`, which keeps its own files in `home`.
///
/// # Panics
///
/// If it is not installed.
pub fn nextflow(java: Command, home: &Path) -> Command {
    let library = dev_dir().join("nextflow/lib");
    assert!(library.is_dir(), "no Nextflow at {}: run scripts/setup", library.display());
    let mut command = java;
    command.env("NXF_HOME", home).env("HOME", home);
    command.env("NXF_OFFLINE", "true").env("NXF_PLUGINS_DEFAULT", "false");
    command.env("NXF_DISABLE_CHECK_LATEST", "true").env("NXF_ANSI_LOG", "false");
    command.args(OPENED.map(|name| format!("--add-opens=java.base/{name}=ALL-UNNAMED")));
    // Half the time until it is at work goes into compilers that a short life does not repay.
    command.args(["-XX:TieredStopAtLevel=1", "-Xmx700m", "-cp"]);
    command.arg(library.join("*")).arg("nextflow.cli.Launcher");
    command
}
