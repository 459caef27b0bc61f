//! Puts right what a check found, as far as no bytes are lost that exist nowhere else.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::check::{Cure, Flaw, alone, flaws, is_used};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::state::check::drop_strays;

/// Puts the state folder `dir` right, which nobody may use meanwhile; returns what was found before. What
/// [opening](crate::Store::open) it puts right is left to that: who repairs opens it afterwards.
///
/// Dropped are copies of what a bucket has, and records of what is not there. Bytes that the bucket may not
/// have are never removed.
pub fn repair(dir: &Path) -> Result<Vec<Flaw>> {
    let layout = Layout::new(dir.to_owned());
    if !is_used(&layout) {
        return Ok(Vec::new());
    }
    let _alone = alone(dir)?;
    let found = flaws(&layout)?;
    let database = layout.database();
    if !database.exists() {
        return Ok(found);
    }
    let db = |error| Error::db("repair", &database, error);
    let connection = Connection::open(&database).map_err(db)?;
    for flaw in &found {
        match &flaw.cure {
            Cure::DropVersion(name) => {
                // The record first: nothing is ever said to be here that is not.
                let name = name.to_string();
                let pieces =
                    "DELETE FROM pieces WHERE version IN (SELECT id FROM versions WHERE name = ?1)";
                connection.execute(pieces, [&name]).map_err(db)?;
                connection.execute("DELETE FROM versions WHERE name = ?1", [&name]).map_err(db)?;
                remove(&flaw.path)?;
            }
            Cure::DropStrays => drop_strays(&connection).map_err(db)?,
            Cure::DropStaged(file) => {
                connection.execute("DELETE FROM staged WHERE file = ?1", [file]).map_err(db)?;
                drop_strays(&connection).map_err(db)?;
            }
            Cure::Open | Cure::None => {}
        }
    }
    Ok(found)
}

/// Removes the file `path`. What is there and no file is not what was cached.
fn remove(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("repair", path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
