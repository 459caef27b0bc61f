//! The journal of a state folder, as people ask for it: what dead processes left in it, and how much living ones
//! have. Needs no open store, changes nothing, and keeps nobody waiting.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::disk::unfollowed;
use crate::error::{Error, Result};
use crate::journal::{Op, OpId, OpKind};
use crate::layout::Layout;
use crate::look::look_at;
use crate::owners;
use crate::state::journal::{owners_of_rows, told_rows};

/// What the journal of a state folder has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journaled {
    /// What processes that are dead left to be carried out, in order.
    pub left: Vec<Op>,
    /// What processes that live are about to carry out.
    pub in_use: Vec<Op>,
}

/// The operations in the journal of the state folder `dir`; none if there is no database that can be read.
pub fn journaled(dir: &Path) -> Result<Journaled> {
    let layout = Layout::new(dir.to_owned());
    let database = layout.database();
    let rows = look_at(&database, |connection| {
        let db = |error| Error::db("list the journal", &database, error);
        // First: who dies in order between the two strikes out what is done, and is not taken for dead with it.
        let owners = owners_of_rows(connection).map_err(db)?;
        let dead = dead(&layout, owners)?;
        Ok((dead, told_rows(connection).map_err(db)?))
    })?;
    let Some((dead, rows)) = rows else { return Ok(Journaled::default()) };
    let mut journaled = Journaled::default();
    for row in rows {
        let Some(kind) = OpKind::of(row.kind) else { continue };
        let of =
            if dead.contains(&row.owner) { &mut journaled.left } else { &mut journaled.in_use };
        of.push(Op { id: OpId::of(row.id), kind, payload: row.payload });
    }
    Ok(journaled)
}

/// Those of `owners` that do not live.
fn dead(layout: &Layout, owners: Vec<u64>) -> Result<HashSet<u64>> {
    let path = layout.owners();
    let io = |error| Error::io("look at", &path, error);
    let file = match unfollowed().read(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(owners.into_iter().collect());
        }
        file => file.map_err(io)?,
    };
    let mut dead = HashSet::new();
    for owner in owners {
        if !owners::lives(&file, owner).map_err(io)? {
            dead.insert(owner);
        }
    }
    Ok(dead)
}
