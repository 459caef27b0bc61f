//! Uploads in parts: a folder for each, a file for each part, put together at the end.

use std::fs::File;
use std::io::Write as _;

use base::ByteRange;
use rustix::fs::{OFlags, RenameFlags};

use super::disk::{Disk, UPLOADS};
use super::fault::{Fault, Outcome};
use super::stamp;
use super::tree::{Child, Tree};
use super::write::Draft;
use crate::{
    Condition, ErrorKind, Key, PartNumber, PartTag, PutOptions, UNFINISHED_MAX, Unfinished,
    UploadId, Version,
};

/// The key an upload is for.
const KEY: &[u8] = b"key";

/// What the names of parts begin with.
const PART: &[u8] = b"part-";

/// What is kept with the object, one `name=value` a line.
const METADATA: &[u8] = b"metadata";

impl Disk {
    pub(super) fn upload_create(&self, key: &Key, options: &PutOptions) -> Outcome<UploadId> {
        let id = self.fresh_name();
        let folder = [UPLOADS, b"/", id.as_bytes()].concat();
        self.make_side_folder(&folder)?;
        self.write_note(&folder, METADATA, stamp::encode(&options.metadata).as_bytes())?;
        self.write_note(&folder, KEY, key.as_bytes())?;
        Ok(UploadId(id))
    }

    pub(super) fn upload_part(
        &self,
        key: &Key,
        upload: &UploadId,
        part: PartNumber,
        bytes: &[u8],
    ) -> Outcome<PartTag> {
        let folder = self.upload_folder(key, upload)?;
        let mut draft = self.draft()?;
        draft.file.write_all(bytes)?;
        let Some(fd) = self.tree.open_folder(&folder)? else { return Err(no_such_upload()) };
        self.move_draft(&mut draft, &fd, &part_name(part), RenameFlags::empty())?;
        Ok(tag(&draft.file)?)
    }

    /// Makes the bytes `range` of the object `from` a part.
    pub(super) fn upload_part_copy(
        &self,
        (key, upload, part): (&Key, &UploadId, PartNumber),
        (from, version): (&Key, &Version),
        range: ByteRange,
    ) -> Outcome<PartTag> {
        let folder = self.upload_folder(key, upload)?;
        let mut source = self.open_source(from, version)?;
        let mut draft = self.draft()?;
        source.copy(range, &mut draft.file)?;
        let Some(fd) = self.tree.open_folder(&folder)? else { return Err(no_such_upload()) };
        self.move_draft(&mut draft, &fd, &part_name(part), RenameFlags::empty())?;
        Ok(tag(&draft.file)?)
    }

    /// The uploads of `key`, oldest first.
    pub(super) fn uploads(&self, key: &Key) -> Outcome<Vec<Unfinished>> {
        let Some(fd) = self.tree.open_folder(UPLOADS)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        Tree::children(&fd, |Child { name, .. }| {
            names.push(name);
            true
        })?;
        let mut found = Vec::new();
        for name in names {
            let Ok(id) = String::from_utf8(name) else { continue };
            let upload = UploadId(id);
            match self.upload_folder(key, &upload) {
                Ok(folder) => {
                    let note = self.tree.stat_file(&[&folder, &b"/"[..], KEY].concat())?;
                    let Some(note) = note else { continue };
                    let since = stamp::meta(&note).modified;
                    found.push(Unfinished { upload, since, has_parts: self.has_parts(&folder)? });
                }
                // Of another key, or gone meanwhile.
                Err(fault) if fault.kind() == ErrorKind::NotFound => {}
                Err(fault) => return Err(fault),
            }
        }
        found.sort_by_key(|unfinished| unfinished.since);
        found.truncate(UNFINISHED_MAX);
        Ok(found)
    }

    fn has_parts(&self, folder: &[u8]) -> Outcome<bool> {
        let Some(fd) = self.tree.open_folder(folder)? else { return Ok(true) };
        let mut found = false;
        Tree::children(&fd, |Child { name, .. }| {
            found = name.starts_with(PART);
            !found
        })?;
        Ok(found)
    }

    pub(super) fn upload_complete(
        &self,
        key: &Key,
        upload: &UploadId,
        parts: &[(PartNumber, PartTag)],
        condition: &Condition,
    ) -> Outcome<Version> {
        let folder = self.upload_folder(key, upload)?;
        let ordered = parts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if parts.is_empty() || !ordered {
            return Err(Fault::new(ErrorKind::Unsupported, "parts missing or out of order"));
        }
        let metadata = self.read_note(&folder, METADATA)?;
        let metadata = stamp::decode(&String::from_utf8_lossy(&metadata));
        let draft = self.assemble(&folder, parts)?;
        let version = self.publish(key, draft, &metadata, condition)?;
        self.remove_upload(&folder)?;
        Ok(version)
    }

    /// One file of all the parts.
    fn assemble(&self, folder: &[u8], parts: &[(PartNumber, PartTag)]) -> Outcome<Draft<'_>> {
        if let [(number, wanted)] = parts {
            let (path, file) = self.open_part(folder, *number, wanted)?;
            return Ok(self.adopt(path, file));
        }
        let mut draft = self.draft()?;
        for (number, wanted) in parts {
            let (_, mut part) = self.open_part(folder, *number, wanted)?;
            // Copied by the kernel, and only by reference where the disk can.
            std::io::copy(&mut part, &mut draft.file)?;
        }
        Ok(draft)
    }

    fn open_part(
        &self,
        folder: &[u8],
        number: PartNumber,
        wanted: &PartTag,
    ) -> Outcome<(Vec<u8>, File)> {
        let path = [folder, b"/", &part_name(number)].concat();
        let found = self.tree.open_file(&path)?.map(|(fd, _)| File::from(fd));
        match found {
            Some(file) if tag(&file)? == *wanted => Ok((path, file)),
            Some(_) | None => {
                Err(Fault::new(ErrorKind::Unsupported, "a part is missing or was sent anew"))
            }
        }
    }

    pub(super) fn upload_abort(&self, key: &Key, upload: &UploadId) -> Outcome<()> {
        match self.upload_folder(key, upload) {
            Ok(folder) => self.remove_upload(&folder),
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn remove_upload(&self, folder: &[u8]) -> Outcome<()> {
        let Some(fd) = self.tree.open_folder(folder)? else { return Ok(()) };
        let mut names = Vec::new();
        Tree::children(&fd, |Child { name, .. }| {
            names.push(name);
            true
        })?;
        for name in names {
            self.tree.remove_file(&[folder, b"/", &name].concat())?;
        }
        self.tree.remove_folder(folder)?;
        Ok(())
    }

    /// The folder of an upload that is there and for `key`.
    fn upload_folder(&self, key: &Key, upload: &UploadId) -> Outcome<Vec<u8>> {
        // Ids come back from outside: only what we would give out is a file name.
        if upload.0.len() != 32 || !upload.0.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(no_such_upload());
        }
        let folder = [UPLOADS, b"/", upload.0.as_bytes()].concat();
        let same = self.read_note(&folder, KEY)? == key.as_bytes();
        if same { Ok(folder) } else { Err(no_such_upload()) }
    }

    fn write_note(&self, folder: &[u8], name: &[u8], bytes: &[u8]) -> Outcome<()> {
        let path = [folder, b"/", name].concat();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(File::from(self.tree.open_at(&path, flags)?).write_all(bytes)?)
    }

    fn read_note(&self, folder: &[u8], name: &[u8]) -> Outcome<Vec<u8>> {
        let path = [folder, b"/", name].concat();
        let (fd, _) = self.tree.open_file(&path)?.ok_or_else(no_such_upload)?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut File::from(fd), &mut bytes)?;
        Ok(bytes)
    }
}

fn no_such_upload() -> Fault {
    Fault::new(ErrorKind::NotFound, "no such upload")
}

fn part_name(number: PartNumber) -> Vec<u8> {
    [PART, format!("{:05}", number.0).as_bytes()].concat()
}

/// What tells a part from one sent anew: the inode number, which the two have at the same time.
fn tag(file: &File) -> Result<PartTag, rustix::io::Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(PartTag(format!("{:x}-{:x}", stat.st_ino, stat.st_size)))
}
