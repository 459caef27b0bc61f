//! What the script of a task says of it, in text; pure: its inputs in the function `nxf_stage`, the names of
//! its outputs in the lines of YAML that begin with `###`.
//!
//! ```text
//!   ### outputs:                             nxf_stage() {
//!   ### - '*.bam'       a pattern                rm -f ref.fa
//!   ### - 'it''s'                                ln -s /fusion/s3/b/ref.fa ref.fa
//!   ### ...                                      mkdir -p d && ln -s /fusion/s3/b/a.fq d/a.fq
//!                                                bash /fusion/s3/b/runs/ab/cd/.command.stage     (if there are many)
//! ```

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::words::commands;

/// Inputs that are taken note of; a task with more is run all the same.
const INPUTS_MAX: usize = 1_000_000;

/// What the script of a task says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// What is staged, in the order in which it is.
    pub(super) inputs: Vec<Input>,
    /// Patterns of paths in the folder of the task.
    pub(super) outputs: Vec<String>,
    /// The script that stages the inputs, if it is another one.
    pub(super) staged_by: Option<PathBuf>,
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Where it is from.
    pub(super) from: PathBuf,
    /// Its name in the folder of the task.
    pub(super) name: PathBuf,
}

impl Script {
    /// Reads the script of a task whose folder is `work`.
    pub(super) fn read(text: &[u8], work: &Path) -> Script {
        let mut script = Script { outputs: outputs(text), ..Script::default() };
        let body = lines(text)
            .skip_while(|line| !line.starts_with(b"nxf_stage()"))
            .skip(1)
            .take_while(|line| !line.starts_with(b"}"));
        for line in body {
            script.stage(line, work);
        }
        script
    }

    /// Adds what another script stages.
    pub(super) fn read_staging(&mut self, text: &[u8], work: &Path) {
        for line in lines(text) {
            self.stage(line, work);
        }
    }

    fn stage(&mut self, line: &[u8], work: &Path) {
        for words in commands(line) {
            let Some((program, arguments)) = words.split_first() else { continue };
            let paths: Vec<&OsString> = arguments
                .iter()
                .filter(|word| !word.as_encoded_bytes().starts_with(b"-"))
                .collect();
            match (program.to_str(), paths.as_slice()) {
                (Some("ln" | "cp"), [from, name]) if self.inputs.len() < INPUTS_MAX => {
                    let (from, name) = (within(work, Path::new(from)), PathBuf::from(name));
                    self.inputs.push(Input { from, name });
                }
                (Some("bash"), [script]) => self.staged_by = Some(within(work, Path::new(script))),
                _ => {}
            }
        }
    }
}

/// `path` from `folder` on, without `.` and `..`.
fn within(folder: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(part),
        }
    }
    whole
}

fn outputs(text: &[u8]) -> Vec<String> {
    lines(text)
        .filter_map(|line| line.strip_prefix(b"###"))
        .map(|line| String::from_utf8_lossy(line).trim().to_owned())
        .skip_while(|line| line != "outputs:")
        .skip(1)
        .map_while(|line| line.strip_prefix("- ").map(scalar))
        .collect()
}

/// A word of YAML, quoted or not.
fn scalar(text: &str) -> String {
    let text = text.trim();
    let between = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    match between('\'') {
        Some(quoted) => quoted.replace("''", "'"),
        None => between('"').unwrap_or(text).to_owned(),
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Input, Script, scalar, within};

    /// As Nextflow 25.04.4 wrote them.
    const LINKS: &[u8] = include_bytes!("samples/links.command.run");
    const COPIES: &[u8] = include_bytes!("samples/copies.command.run");
    const MANY: &[u8] = include_bytes!("samples/many.command.run");
    const MANY_STAGE: &[u8] = include_bytes!("samples/many.command.stage");

    const WORK: &str = "/fusion/s3/b/runs/0a/5532a8ccdfc12f43e7b2372a7f94e5";

    fn inputs(of: &[(&str, &str)]) -> Vec<Input> {
        let input = |(from, name): &(&str, &str)| Input { from: from.into(), name: name.into() };
        of.iter().map(input).collect()
    }

    fn linked() -> Vec<Input> {
        inputs(&[
            ("/fusion/s3/b/data/s1.fq", "s1.fq"),
            ("/fusion/s3/b/data/s2.fq", "ref/genome.fa"),
            ("/fusion/s3/b/data/s1.fq", "many/in1.fq"),
            ("/fusion/s3/b/data/s3.fq", "many/in2.fq"),
            ("/fusion/s3/b/data/db", "db"),
        ])
    }

    #[test]
    fn the_inputs_and_outputs_of_a_real_script_are_read() {
        let script = Script::read(LINKS, Path::new(WORK));
        assert_eq!(script.inputs, linked());
        assert_eq!(script.outputs, ["*.out", "sub/**", "link.fq", "odd name.txt"]);
        assert_eq!(script.staged_by, None);
    }

    #[test]
    fn inputs_that_are_copied_are_inputs_too() {
        let script = Script::read(COPIES, Path::new(WORK));
        let of =
            |name: &str, folder| (format!("/fusion/s3/b/runs/{folder}/{name}"), name.to_owned());
        let want = [
            of("a.out", "59/66624633f7c94b3c580940e68e046f"),
            of("b.out", "dd/28757215bc13b56ca9273a9ae40ea7"),
        ];
        let want: Vec<_> = want.iter().map(|(from, name)| (from.as_str(), name.as_str())).collect();
        assert_eq!(script.inputs, inputs(&want));
        assert_eq!(script.outputs, ["sum"]);
    }

    #[test]
    fn many_inputs_are_staged_by_a_script_of_their_own() {
        let mut script = Script::read(MANY, Path::new(WORK));
        let staged_by = Path::new(WORK).join(".command.stage");
        assert_eq!((script.inputs.len(), script.staged_by.as_ref()), (0, Some(&staged_by)));
        script.read_staging(MANY_STAGE, Path::new(WORK));
        assert_eq!(script.inputs, linked());
    }

    #[test]
    fn a_script_of_somebody_else_has_no_inputs() {
        for text in ["", "#!/bin/bash\necho hello\n", "nxf_stage() {", "### outputs:"] {
            assert_eq!(Script::read(text.as_bytes(), Path::new("/w")), Script::default(), "{text}");
        }
    }

    #[test]
    fn names_in_quotes_and_relative_places_are_what_they_mean() {
        assert_eq!(scalar("'it''s'"), "it's");
        assert_eq!(scalar("plain"), "plain");
        let odd = b"nxf_stage() {\n ln -s ../../data/odd\\ name\\'s.fq odd\\ name\\'s.fq\n}\n";
        let script = Script::read(odd, Path::new("/fusion/s3/b/runs/ab"));
        assert_eq!(script.inputs, inputs(&[("/fusion/s3/b/data/odd name's.fq", "odd name's.fq")]));
        assert_eq!(within(Path::new("/a"), Path::new("../../..")), PathBuf::from("/"));
    }
}
