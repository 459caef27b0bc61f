//! A program of its own that has one file open.
//!
//! A file that a test itself has open is also open, for a moment, in every process that any test
//! starts meanwhile; when that closes its copy the file system is told, and may rightly begin to
//! upload. Where a test is about what happens before the close, somebody else must hold the file.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::dialog::Dialog;
use crate::place::Scratch;

/// How the file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// To be written from nothing, whether it is there or not.
    Whole,
    /// To be made; it must not be there.
    Exclusive,
    /// To be edited.
    Edit,
    /// To be added to.
    Append,
}

/// The program, with its file.
#[derive(Debug)]
pub struct Program {
    dialog: Dialog,
    folder: Scratch,
}

impl Program {
    /// Starts it and opens the file.
    pub fn open(path: &Path, opening: Opening) -> io::Result<Program> {
        let dialog = Dialog::new(Dialog::command("program.py"));
        let mut program = Program { dialog, folder: Scratch::new() };
        let how = match opening {
            Opening::Whole => "whole",
            Opening::Exclusive => "exclusive",
            Opening::Edit => "edit",
            Opening::Append => "append",
        };
        program.ask(&json!({"do": "open", "path": path, "how": how}))?;
        Ok(program)
    }

    /// Writes where the last write ended.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self.file_of(bytes);
        self.ask(&json!({"do": "write", "file": file}))
    }

    /// Writes at `offset`.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let file = self.file_of(bytes);
        self.ask(&json!({"do": "write", "file": file, "offset": offset}))
    }

    /// Syncs the file.
    pub fn sync(&mut self) -> io::Result<()> {
        self.ask(&json!({"do": "sync"}))
    }

    /// Closes the file, and ends.
    pub fn close(mut self) -> io::Result<()> {
        self.ask(&json!({"do": "close"}))
    }

    fn file_of(&self, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.folder.path().join("bytes");
        fs::write(&path, bytes).expect("the scratch disk takes a file");
        path
    }

    fn ask(&mut self, request: &serde_json::Value) -> io::Result<()> {
        match self.dialog.ask(request)["errno"].as_i64() {
            None => Ok(()),
            Some(errno) => {
                let errno = i32::try_from(errno).expect("error numbers are small");
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Opening, Program};
    use crate::Scratch;

    #[test]
    fn a_program_writes_its_file_and_reports_errors_by_number() {
        let folder = Scratch::new();
        let path = folder.path().join("file");
        let mut program = Program::open(&path, Opening::Exclusive).unwrap();
        program.write(b"0123").unwrap();
        program.write(b"4567").unwrap();
        program.write_at(b"ab", 2).unwrap();
        program.sync().unwrap();
        program.close().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"01ab4567");
        let error = Program::open(&path, Opening::Exclusive).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    }
}
