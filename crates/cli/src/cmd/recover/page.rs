//! What waits, as people read it. Pure.

use std::path::Path;

use base::printable;
use mount::{Change, Fate, Kept, KeptOrigin, Left, Location, Waiting, WaitingChange, Working};

use crate::left::show_left;
use crate::plain::shown;
use crate::units::{show_bytes, show_plural, show_utc};

/// What is being done, what is for the next mount, and what is for people.
pub(super) fn page(left: &Left, kept: &[Kept], state_dir: &Path) -> String {
    let mut lines: Vec<String> = left.working.iter().map(working).collect();
    lines.extend(left.waiting.iter().map(waiting));
    lines.extend(changes(&left.changes));
    lines.extend(kept.iter().map(of_kept));
    match &lines[..] {
        [] => format!(
            "{}: nothing waits for the next mount, and the recovery folder is empty",
            shown(state_dir)
        ),
        lines => lines.join("\n"),
    }
}

/// Who has what in hand.
pub(super) fn working(working: &Working) -> String {
    let Working { pid, source, dir, .. } = working;
    let process = match pid {
        Some(pid) => format!("process {pid}"),
        None => "a process that is not seen from here".to_owned(),
    };
    let mount = match (source, dir) {
        (Some(source), Some(dir)) => format!(" serves {} on {} and", printable(source), shown(dir)),
        (Some(source), None) => {
            format!(", whose mount of {} is gone or elsewhere,", printable(source))
        }
        (None, _) => String::new(),
    };
    format!("{process}{mount} is still uploading: {}", show_left(working))
}

fn waiting(waiting: &Waiting) -> String {
    let key = waiting.key.as_deref().unwrap_or("an object of which nothing is known here");
    let key = printable(key);
    let volume = waiting.volume.as_deref().map_or("a bucket".to_owned(), Location::told);
    let volume = printable(&volume);
    let fate = match waiting.fate {
        Fate::Kept if waiting.key.is_none() => {
            "nothing is recorded of it: the next mount moves it to the recovery folder".to_owned()
        }
        Fate::Uploaded => format!("the next mount of {volume} uploads it as {key}"),
        Fate::Kept if waiting.is_newer => format!(
            "the same file of {volume} with what was written after that, neither closed nor synced: the next \
             mount moves it to the recovery folder"
        ),
        Fate::Kept => format!(
            "of {key} of {volume}, neither closed nor synced: the next mount moves it to the \
             recovery folder"
        ),
    };
    format!("{}  {}\n  {fate}", shown(&waiting.path), show_bytes(waiting.bytes))
}

/// By volume, in whose order they are.
fn changes(changes: &[WaitingChange]) -> Vec<String> {
    let volumes = changes.chunk_by(|one, next| one.volume == next.volume);
    let of_volume = |changes: &[WaitingChange]| {
        let volume =
            changes.first().map(|change| Location::told(&change.volume)).unwrap_or_default();
        let volume = printable(&volume);
        let head = format!("the next mount of {volume} carries out what was changed there:");
        let lines = changes.iter().map(|change| format!("  {}", words(&change.change)));
        std::iter::once(head).chain(lines).collect::<Vec<_>>()
    };
    volumes.flat_map(of_volume).collect()
}

/// A change of names or attributes.
pub(super) fn words(change: &Change) -> String {
    match change {
        Change::Remove { key } => format!("remove {}", printable(key)),
        Change::Rename { key, to } => format!("rename {} to {}", printable(key), printable(to)),
        Change::UndoRename { key, to } => {
            format!("take the rename of {} to {} back", printable(key), printable(to))
        }
        Change::Exchange { key, to } => {
            format!("exchange {} and {}", printable(key), printable(to))
        }
        Change::Make { key, kind } => format!("make the {kind} {}", printable(key)),
        Change::Attributes { key, names } => {
            let folder = if key.is_empty() { "the top folder".into() } else { printable(key) };
            format!("write attributes of {} in {folder}", show_plural(*names, "name"))
        }
        Change::Unknown => "something that only a newer version of quayfs knows".to_owned(),
    }
}

fn of_kept(kept: &Kept) -> String {
    let why = match &kept.origin {
        Some(KeptOrigin { volume, key }) => {
            // The rest of the sentence is in the line below.
            let reason = kept.reason.split("; it was to become ").next().unwrap_or_default();
            format!("{reason}; meant for {}", Location::object(volume, key))
        }
        None => kept.reason.clone(),
    };
    let since = kept.kept_secs.map(|secs| format!(", kept {}", show_utc(secs)));
    let since = since.unwrap_or_default();
    format!("{}  {}\n  {}{since}", shown(&kept.path), show_bytes(kept.bytes), printable(&why))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mount::{Change, Kept, KeptOrigin, Left, WaitingChange, Working};

    use super::page;

    #[test]
    fn kept_file_has_its_place_and_time() {
        let mut kept = Kept {
            name: "x".to_owned(),
            path: "/state/recovery/x".into(),
            bytes: 10,
            reason: "changed; it was to become d/x in s3://b/@http://m:9000".to_owned(),
            kept_secs: Some(1_795_912_680),
            origin: Some(KeptOrigin {
                volume: "s3://b/@http://m:9000".to_owned(),
                key: "d/x".to_owned(),
            }),
        };
        let of = |kept: &Kept| super::of_kept(kept);
        let want = "/state/recovery/x  10 B\n  changed; meant for s3://b/d/x (endpoint http://m:9000), \
                    kept 2026-11-29 00:38 UTC";
        assert_eq!(of(&kept), want);
        (kept.origin, kept.kept_secs) = (None, None);
        let want =
            "/state/recovery/x  10 B\n  changed; it was to become d/x in s3://b/@http://m:9000";
        assert_eq!(of(&kept), want);
    }

    #[test]
    fn who_works_comes_first_and_changes_are_told_by_bucket() {
        let change = |volume: &str, change| WaitingChange { volume: volume.to_owned(), change };
        let text = |text: &str| text.to_owned();
        let left = Left {
            waiting: Vec::new(),
            changes: vec![
                change("s3://a/@aws", Change::Remove { key: text("x") }),
                change("s3://a/@aws", Change::Rename { key: text("y"), to: text("z\n") }),
                change("s3://b/@http://store:9000", Change::Attributes { key: text(""), names: 2 }),
            ],
            working: vec![
                Working {
                    pid: Some(7),
                    source: Some(text("s3://a")),
                    files: 1,
                    bytes: 10,
                    changes: 2,
                    ..Working::default()
                },
                Working { attributes: 1, ..Working::default() },
            ],
        };
        let want = "process 7, whose mount of s3://a is gone or elsewhere, is still uploading: \
                    1 file (10 B), 2 changes of names\n\
                    a process that is not seen from here is still uploading: attributes of 1 name\n\
                    the next mount of s3://a/ carries out what was changed there:\n  \
                      remove x\n  \
                      rename y to z\\n\n\
                    the next mount of s3://b/ at http://store:9000 carries out what was changed there:\n  \
                      write attributes of 2 names in the top folder";
        let dir = Path::new("/state");
        assert_eq!(page(&left, &[], dir), want);
        let nothing = page(&Left::default(), &[], dir);
        let want = "/state: nothing waits for the next mount, and the recovery folder is empty";
        assert_eq!(nothing, want);
    }
}
