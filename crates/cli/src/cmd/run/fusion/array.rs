//! Which task of a job array is to run here, by the script that starts one of them; pure.
//!
//! ```text
//!   array=( /fusion/s3/bucket/ab/cd /fusion/s3/bucket/ef/01 )
//!   export nxf_array_task_dir=${array[AWS_BATCH_JOB_ARRAY_INDEX]}       or [SLURM_ARRAY_TASK_ID - 1]
//! ```

use std::path::PathBuf;

use super::words::commands;

const FOLDERS: &str = "array=(";
const CHOICE: &str = "nxf_array_task_dir=${array[";

/// The folder of the task that `script` starts where a variable is what `number` says; `None` if the script is not one
/// of an array.
pub(super) fn member(script: &[u8], number: impl Fn(&str) -> Option<usize>) -> Option<PathBuf> {
    let mut folders = Vec::new();
    for words in script.split(|byte| *byte == b'\n').flat_map(commands) {
        let Some((first, rest)) = words.split_first() else { continue };
        match first.to_str() {
            Some(FOLDERS) => folders = rest.to_vec(),
            Some("export") => {
                let choice: Vec<&str> = rest.iter().filter_map(|word| word.to_str()).collect();
                let choice = choice.join(" ");
                let Some(choice) = choice.strip_prefix(CHOICE) else { continue };
                let choice = choice.strip_suffix("]}")?;
                let (name, first) = choice.split_once(" - ").unwrap_or((choice, "0"));
                let index = number(name)?.checked_sub(first.parse().ok()?)?;
                // The last word is the bracket.
                let count = folders.len().checked_sub(1)?;
                return folders[..count].get(index).map(PathBuf::from);
            }
            Some(_) | None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::member;

    fn chosen(index: &str, value: usize) -> Option<PathBuf> {
        let script = format!(
            "#!/bin/bash -ue\narray=( /w/ab/cd '/w/e f/01' )\nexport nxf_array_task_dir=${{array[{index}]}}\n\
             bash $nxf_array_task_dir/.command.run 2>&1 > $nxf_array_task_dir/.command.log\n"
        );
        member(script.as_bytes(), |name| (name == "INDEX").then_some(value))
    }

    #[test]
    fn a_task_of_an_array_is_the_one_whose_number_the_host_has() {
        assert_eq!(chosen("INDEX", 0).as_deref(), Some(Path::new("/w/ab/cd")));
        assert_eq!(chosen("INDEX", 1).as_deref(), Some(Path::new("/w/e f/01")));
        assert_eq!(chosen("INDEX - 1", 1).as_deref(), Some(Path::new("/w/ab/cd")));
    }

    #[test]
    fn a_number_that_no_task_has_chooses_none() {
        for (index, value) in [("INDEX", 2), ("INDEX - 1", 0), ("OTHER", 0), ("INDEX - x", 0)] {
            assert_eq!(chosen(index, value), None, "{index} {value}");
        }
    }

    #[test]
    fn other_scripts_are_of_no_array() {
        for script in ["", "array=( /w/ab )", "export A=1\narray=(\nexport nxf_array_task_dir=x"] {
            assert_eq!(member(script.as_bytes(), |_| Some(0)), None, "{script}");
        }
    }
}
