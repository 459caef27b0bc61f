//! Names and attributes; which object versions hold a file's bytes.
//!
//! [`Namespace`] is the waist between file-system operations and the kind of volume below. Its
//! implementation today is [`bucket`]: one object, one file.

pub mod bucket;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod error;
mod ledger;
mod listing;
mod node;
mod users;

pub use bucket::{
    Assumed, AttributeFlaw, Attributes, Browsed, Bucket, BucketOptions, Checked, Depth, Finished,
    FolderSum, Foresight, LeftChange, Refusal, Returns, Shows, Top, TryWrite, browse,
    check_attributes, sum_up,
};
pub use error::{Error, ErrorKind, Result};
pub use ledger::{Ledger, LedgerFailed, NoLedger, RecordId};
pub use listing::{Listed, Listing};
pub use node::{
    Abandoned, Belongs, Content, Entry, InFolder, Neighbour, NewNode, Owner, Published, SetAttr,
    SetId, Special, Target, Unsent, XattrMode, without_set_id,
};
pub use users::{NameGuard, Use, Users};

use std::fmt::Debug;
use std::sync::Weak;

use async_trait::async_trait;
use base::{Attr, Ino, Name};
use remote::{Key, Version};

/// A tree of named nodes with attributes and content.
///
/// Nodes are referred to by inode number. A number that [`lookup`](Namespace::lookup),
/// [`create`](Namespace::create) or [`mkdir`](Namespace::mkdir) handed out, or with which a method
/// was called, is held: it stays valid until [`forget`](Namespace::forget). Those that
/// [`listing`](Namespace::listing) hands out are not held before
/// [`hold_listed`](Namespace::hold_listed).
#[async_trait]
pub trait Namespace: Debug + Send + Sync + 'static {
    /// The node `name` in the folder `parent`.
    async fn lookup(&self, parent: Ino, name: &Name) -> Result<Entry>;

    /// The attributes of `ino`, no older than the time to live.
    async fn attr(&self, ino: Ino) -> Result<Attr>;

    /// Whether what is known of the file `ino` is not to be believed for long any more.
    fn is_aging(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// Asks anew about the file `ino`, and the folders above it, of which what is known is not to be believed for long any more.
    async fn look_again(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        Ok(())
    }

    /// The folder that holds `ino`; the root holds itself.
    fn parent(&self, ino: Ino) -> Result<Ino>;

    /// The names above and of `ino` with slashes between them, for people to read; `None` if it has no name
    /// any more. Asks nobody.
    fn path(&self, ino: Ino) -> Option<Vec<u8>> {
        let _ = ino;
        None
    }

    /// The entries of the folder `dir` as they come in, no older than the time to live.
    async fn listing(&self, dir: Ino) -> Result<Listing>;

    /// Fails if the file `ino` may not be changed, as far as that can be told before it is.
    async fn check_allowed(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        Ok(())
    }

    /// Makes an empty file that exists on this mount at once and in the bucket once published.
    async fn create(&self, parent: Ino, name: &Name, node: NewNode) -> Result<Entry>;

    /// Makes a folder, in the bucket when this returns.
    async fn mkdir(&self, parent: Ino, name: &Name, node: NewNode) -> Result<Entry>;

    /// Makes a symbolic link to `target`, in the bucket when this returns.
    async fn symlink(
        &self,
        parent: Ino,
        name: &Name,
        target: &[u8],
        owner: Owner,
    ) -> Result<Entry> {
        let _ = (parent, target, owner);
        Err(Error::name(ErrorKind::NotPermitted, "symlink", name))
    }

    /// The symbolic link `link` gives way to a copy of the file `file`, whose bytes the bucket has: the store
    /// itself copies. The bucket has the copy when this returns, and its name another number. `Stale` if
    /// either was changed by others meanwhile.
    async fn copy_over_link(&self, link: Ino, file: Ino) -> Result<()> {
        let _ = file;
        Err(Error::node(ErrorKind::NotPermitted, "copy", link))
    }

    /// Makes a pipe, a socket or a device node, in the bucket when this returns.
    async fn mknod(
        &self,
        parent: Ino,
        name: &Name,
        special: Special,
        node: NewNode,
    ) -> Result<Entry> {
        let _ = (parent, special, node);
        Err(Error::name(ErrorKind::NotPermitted, "mknod", name))
    }

    /// Where the symbolic link `ino` points.
    async fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Err(Error::node(ErrorKind::Invalid, "readlink", ino))
    }

    /// The value of the extended attribute `name`; `NoAttribute` if there is none.
    async fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let _ = name;
        Err(Error::node(ErrorKind::NoAttribute, "getxattr", ino))
    }

    /// The names of all extended attributes, sorted.
    async fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let _ = ino;
        Ok(Vec::new())
    }

    /// Sets an extended attribute; survives a crash when this returns.
    async fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _ = (name, value, mode);
        Err(Error::node(ErrorKind::Unsupported, "setxattr", ino))
    }

    /// Removes an extended attribute; `NoAttribute` if there is none.
    async fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let _ = name;
        Err(Error::node(ErrorKind::NoAttribute, "removexattr", ino))
    }

    /// Names and attributes changed here so far are in the bucket when this returns: those of the entries of
    /// the folder `dir`, or of the whole volume.
    async fn sync(&self, dir: Option<Ino>) -> Result<()> {
        let _ = dir;
        Ok(())
    }

    /// As [`Namespace::sync`], of all that is in the folder `top` and below it, and of itself; of a file, of its
    /// folder.
    async fn sync_below(&self, top: Ino) -> Result<()> {
        let _ = top;
        self.sync(None).await
    }

    /// Changes of names and attributes that are made here, and that the bucket has yet to get.
    fn unsent(&self) -> Unsent {
        Unsent::default()
    }

    /// Why changes of names in the folder `top` and below it were given up after who made them was told that they
    /// are made; of a file, those in its folder. Each is told until somebody has [`heard`](Namespace::heard) of it,
    /// by the number that is told with it.
    fn given_up(&self, top: Ino) -> Vec<(u64, String)> {
        let _ = top;
        Vec::new()
    }

    /// Somebody has heard of the change that was given up with this number.
    fn heard(&self, number: u64) {
        let _ = number;
    }

    /// Whether there are changes that [`Namespace::given_up`] would tell of.
    fn has_given_up(&self, top: Ino) -> bool {
        let _ = top;
        false
    }

    /// Removes the file `name`, from the bucket too when this returns. Returns its number; the node
    /// lives on without a name until forgotten.
    async fn unlink(&self, parent: Ino, name: &Name) -> Result<Ino>;

    /// Removes the empty folder `name`.
    async fn rmdir(&self, parent: Ino, name: &Name) -> Result<Ino>;

    /// Gives the file or folder `from` the name `to`, with all that is below it, replacing a file,
    /// or an empty folder, of that name. Returns what was replaced. When it fails the names are as
    /// they were; only if the store fails after that point, what was moved may be there under its
    /// old name too, for who looks at the bucket.
    async fn rename(
        &self,
        from: (Ino, &Name),
        to: (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Option<Ino>>;

    /// Changes attributes; the size is only noted, bytes are the caller's business. A noted size,
    /// be it the same, says that the bytes are being changed here: until
    /// [`publish`](Namespace::publish) or [`abandon`](Namespace::abandon) the file is this one,
    /// whatever becomes of its object.
    async fn set_attr(&self, ino: Ino, change: SetAttr) -> Result<Attr>;

    /// Keeps the name of the file `ino` as it is, after waiting for who is about to change it, until
    /// what is returned is dropped.
    async fn settle(&self, ino: Ino) -> Result<NameGuard> {
        let _ = ino;
        Ok(NameGuard::none())
    }

    /// Whether the file `ino` has a name that its object does not have yet. What
    /// [`target`](Namespace::target) says of it then does not hold for long: who is to remember it
    /// waits for [`settle`](Namespace::settle) first.
    fn is_moving(&self, ino: Ino) -> bool {
        let _ = ino;
        false
    }

    /// Whether bytes of the file `ino` that are sealed for `upload` under the name of now get to the name to which
    /// it is just [moving](Namespace::is_moving), also after a crash. Their upload waits for the move all the same.
    fn goes_along(&self, ino: Ino, upload: &str) -> bool {
        let _ = (ino, upload);
        false
    }

    /// Makes those known who have files open; before the first of them.
    fn attach(&self, users: Weak<dyn Users>) {
        let _ = users;
    }

    /// As [`content`](Namespace::content) without waiting: what is known now. To be asked again by
    /// who has just become one of the [`Users`], because what he was told before may have moved;
    /// `NotFound` if the file is being removed.
    fn content_now(&self, ino: Ino) -> Result<Content>;

    /// Where the file `ino` is; `None` if it has no name, or if nobody may know. Asks nobody.
    fn in_folder(&self, ino: Ino) -> Option<InFolder> {
        let _ = ino;
        None
    }

    /// The next `files_max` files after a name in a folder, or from its beginning, in the order of the
    /// names: those that are known to have bytes, at most `bytes_max` of them and none that are not
    /// published. Not held. Asks nobody.
    fn files_after(
        &self,
        place: (Ino, Option<&Name>),
        bytes_max: u64,
        files_max: usize,
    ) -> Vec<Neighbour> {
        let _ = (place, bytes_max, files_max);
        Vec::new()
    }

    /// Nobody uses the nameless file `ino` any more, or any if none is named: what was kept of it
    /// for its users may go.
    async fn release(&self, ino: Option<Ino>) {
        let _ = ino;
    }

    /// The object versions that hold the bytes of the file `ino`, no older than the time to live;
    /// of bytes being changed here, those they are made from. `Stale` if someone else replaced or
    /// removed the file.
    async fn content(&self, ino: Ino) -> Result<Content>;

    /// Where the bytes of `ino` are to be uploaded, and under which condition. `NotFound` if the
    /// node was removed here and has no name any more, `Stale` if someone else replaced or removed
    /// it before anything was noted here.
    fn target(&self, ino: Ino) -> Result<Target>;

    /// As [`target`](Namespace::target), where the bytes of `ino` belong once all is done that is under
    /// way: for what is remembered of them beyond a crash.
    fn destination(&self, ino: Ino) -> Result<Target> {
        self.target(ino)
    }

    /// Where bytes belong of which an earlier process noted this, with the id `upload`: what they belong to
    /// may have been moved since. `None` if that has to wait.
    async fn carried(&self, upload: &str, noted: Belongs) -> Result<Option<Belongs>> {
        let _ = upload;
        Ok(Some(noted))
    }

    /// Whether an earlier process removed the object `key`, which is in the bucket until that can be finished.
    fn is_to_go(&self, key: &Key) -> bool {
        let _ = key;
        false
    }

    /// Nobody asks for what was [carried](Namespace::carried) any more.
    fn carried_all(&self) {}

    /// An upload to [`target`](Namespace::target) that carries the id `upload` is about to begin, by who
    /// has `name` from [`settle`](Namespace::settle). From now on the file may be removed, and before not: what is
    /// to arrive could not be told. It may arrive even if it fails, or if the file
    /// loses its name meanwhile. Fails as [`target`](Namespace::target) does.
    fn uploads(&self, ino: Ino, upload: &str, name: &NameGuard) -> Result<()> {
        let _ = (upload, name);
        self.target(ino).map(drop)
    }

    /// A finished upload to [`target`](Namespace::target) becomes the content of `ino`. Returns the
    /// identity of the new content, as [`Content::identity`] has it, also for a node that lost its
    /// name meanwhile. From [`target`](Namespace::target) on the caller holds what
    /// [`settle`](Namespace::settle) gave him.
    fn publish(&self, ino: Ino, published: Published) -> Vec<u8>;

    /// What besides the metadata of its [`Target`] is to be said of `ino` once its bytes are in the
    /// bucket, in words for [`recovered`](Namespace::recovered); empty if nothing is.
    fn said(&self, ino: Ino) -> Vec<u8> {
        let _ = ino;
        Vec::new()
    }

    /// Grows with whatever may change what [`target`](Namespace::target),
    /// [`destination`](Namespace::destination), [`said`](Namespace::said) and
    /// [`is_moving`](Namespace::is_moving) say of any file: while it is the same, so are they.
    fn revision(&self) -> u64;

    /// What an earlier mount had aimed at a [`Target`] is there now, in this version: what it had to
    /// [say](Namespace::said) of it is taken over.
    fn recovered(&self, version: &Version, said: &[u8]) {
        let _ = (version, said);
    }

    /// Bytes that were lost are in this version of the object `key` now: what was to be [said](Namespace::said) of
    /// them, under whichever key, is said of it.
    fn restored(&self, key: &Key, version: &Version, said: &[u8]) {
        let _ = (key, version, said);
    }

    /// Bytes noted by [`set_attr`](Namespace::set_attr) will not be published: the file is what the
    /// bucket has, and one that was never there has no name any more. What was said of it meanwhile stays
    /// said of it; its time only if it is [`Abandoned::Unchanged`], since else that is of the bytes that are lost.
    fn abandon(&self, ino: Ino, why: Abandoned);

    /// The kernel knows `ino` from an answer that it was in. Returns whether the number is still
    /// valid; if not, the entry may be shown but not referred to.
    fn hold(&self, ino: Ino) -> bool;

    /// The kernel is told of `ino`, which a listing handed out. Returns its attributes as they are
    /// remembered, `None` if the number is forgotten.
    fn hold_listed(&self, ino: Ino) -> Option<Attr>;

    /// The kernel no longer knows `ino`: what is remembered of it may be dropped.
    fn forget(&self, ino: Ino);
}

/// What a rename does with a node that already has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Fails with `Exists`.
    NoReplace,
    /// It gets the old name; `NotFound` if there is none.
    Exchange,
}
