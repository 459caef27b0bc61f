//! What is noted of a file need not be noted again while the revision is the same.

use base::Ino;

use super::{Bench, name};
use crate::{Namespace as _, RenameMode, SetAttr, Target, XattrMode};

/// All that is noted of a file for who finds its bytes after a crash.
type Noted = (Option<Target>, Option<Target>, Vec<u8>, bool);

impl Bench {
    fn noted(&self, ino: Ino) -> (Noted, u64) {
        let bucket = &self.bucket;
        let (target, destination) = (bucket.target(ino).ok(), bucket.destination(ino).ok());
        ((target, destination, bucket.said(ino), bucket.is_moving(ino)), bucket.revision())
    }

    /// What was noted as `before` is something else now, and so is the revision. Asking changes nothing.
    fn changed(&self, ino: Ino, before: &mut (Noted, u64), by: &str) {
        let now = self.noted(ino);
        assert_ne!(now.0, before.0, "{by}");
        assert!(before.1 < now.1, "{by}: the revision is as before");
        assert_eq!(self.noted(ino), now, "{by}: asked again");
        *before = now;
    }
}

#[tokio::test]
async fn whatever_changes_what_is_noted_of_a_file_is_counted_and_asking_is_not() {
    let bench = Bench::new();
    let bucket = &bench.bucket;
    let folder = bench.mkdir(Ino::ROOT, "folder").await;
    let ino = bench.create(folder, "file").await;
    let mut before = bench.noted(ino);

    bench.chmod(ino, 0o600).await;
    bench.changed(ino, &mut before, "chmod");
    let times =
        SetAttr { mtime: Some(base::Timestamp { secs: 5, nanos: 6 }), ..SetAttr::default() };
    bucket.set_attr(ino, times).await.unwrap();
    bench.changed(ino, &mut before, "utimens");
    bucket.set_xattr(ino, b"user.a", b"b", XattrMode::Set).await.unwrap();
    bench.changed(ino, &mut before, "setxattr");
    bench.upload(ino, "1234").await;
    bench.changed(ino, &mut before, "an upload");
    let (from, to) = ((folder, name("file")), (folder, name("other")));
    bucket.rename((from.0, &from.1), (to.0, &to.1), RenameMode::Replace).await.unwrap();
    bench.changed(ino, &mut before, "a rename");
    let (from, to) = (name("folder"), name("elsewhere"));
    bucket.rename((Ino::ROOT, &from), (Ino::ROOT, &to), RenameMode::Replace).await.unwrap();
    bench.changed(ino, &mut before, "a rename of the folder");
    bucket.unlink(folder, &name("other")).await.unwrap();
    bench.changed(ino, &mut before, "an unlink");
}
