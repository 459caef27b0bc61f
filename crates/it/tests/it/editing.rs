//! Writes into the middle of what is there, near and far.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use testkit::{close, is_long, noise, wait};

use crate::{TTL, mounted};

#[test]
pub(crate) fn an_edit_in_the_middle_of_a_large_object_keeps_the_rest() {
    let (bucket, mount) = mounted();
    let mut want = noise(1, 100_000_000);
    bucket.put("large", &want);
    let path = mount.join("large");
    wait::until("the object to appear", TTL, || path.exists());

    let edit = noise(2, 4096);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&edit, 50_000_123).unwrap();
    close(file).unwrap();

    want[50_000_123..50_004_219].copy_from_slice(&edit);
    assert!(bucket.get("large").unwrap() == want, "the object");
    assert!(fs::read(&path).unwrap() == want, "the file");
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
fn an_append_to_a_large_object_sends_and_fetches_next_to_nothing() {
    const PART: u64 = 16 << 20;
    let (bucket, mount) = mounted();
    let mib = if is_long() { 1024 } else { 96 };
    // Not a whole number of parts.
    let mut want = noise(1, (mib << 20) + 77);
    bucket.put("large", &want);
    let path = mount.join("large");
    wait::until("the object to appear", TTL, || path.exists());

    let new = noise(2, 1 << 20);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&new).unwrap();
    close(file).unwrap();
    let (sent, fetched) = (mount.counter("remote_put_bytes"), mount.counter("remote_get_bytes"));
    assert!(sent <= new.len() as u64 + PART, "{sent} bytes were sent");
    assert!(fetched <= PART, "{fetched} bytes were fetched");
    want.extend(new);
    assert!(bucket.get("large").unwrap() == want, "the object");

    // 4 KiB here and there move the parts that they are in.
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for place in [20_000_000, 70_000_000] {
        file.write_all_at(&noise(3, 4096), place).unwrap();
        let place = usize::try_from(place).unwrap();
        want[place..place + 4096].copy_from_slice(&noise(3, 4096));
    }
    close(file).unwrap();
    let sent_then = mount.counter("remote_put_bytes") - sent;
    assert!(sent_then <= 2 * PART, "{sent_then} bytes were sent");
    assert!(bucket.get("large").unwrap() == want, "the object");
    assert!(fs::read(&path).unwrap() == want, "the file");
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
fn an_append_of_several_parts_is_sent_while_it_is_written() {
    const PART: u64 = 16 << 20;
    let (bucket, mount) = mounted();
    // Not a whole number of parts.
    let mut want = noise(1, (40 << 20) + 77);
    bucket.put("large", &want);
    let path = mount.join("large");
    wait::until("the object to appear", TTL, || path.exists());

    // From the third part to the eighth, and a little of the ninth.
    let new = noise(2, (90 << 20) + 99);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&new).unwrap();
    let is_sent = || 5 * PART <= mount.counter("remote_put_bytes");
    wait::until("the parts to be sent before the close", Duration::from_mins(1), is_sent);
    close(file).unwrap();
    want.extend(&new);
    assert!(bucket.get("large").unwrap() == want, "the object");
    let (sent, fetched) = (mount.counter("remote_put_bytes"), mount.counter("remote_get_bytes"));
    // What was there is not sent again, nor any part twice. What is said of the file's attributes is.
    assert!(sent < new.len() as u64 + PART, "{sent} bytes were sent");
    assert!(fetched <= PART, "{fetched} bytes were fetched");
    assert!(fs::read(&path).unwrap() == want, "the file");
    assert_eq!(bucket.unfinished_uploads(), 0);
}

#[test]
pub(crate) fn writes_here_and_there_end_as_on_a_local_disk() {
    let (bucket, mount) = mounted();
    let start = noise(1, 3_000_000);
    bucket.put("file", &start);
    let path = mount.join("file");
    wait::until("the object to appear", TTL, || path.exists());
    let local = mount.plan().folder("local").join("file");
    fs::write(&local, &start).unwrap();

    let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (ours, theirs) = (open(&path), open(&local));
    let places = noise(2, 8 * 200);
    for (at, place) in places.chunks_exact(8).enumerate() {
        let offset = u64::from_le_bytes(place.try_into().unwrap()) % 3_500_000;
        let bytes = noise(at as u64, 1 + at * 37 % 9000);
        for file in [&ours, &theirs] {
            if at % 40 == 39 {
                file.set_len(offset).unwrap();
            }
            file.write_all_at(&bytes, offset).unwrap();
        }
        if at % 20 == 0 {
            assert!(fs::read(&path).unwrap() == fs::read(&local).unwrap(), "after write {at}");
        }
    }
    close(ours).unwrap();
    let want = fs::read(&local).unwrap();
    assert!(fs::read(&path).unwrap() == want, "the file");
    assert!(bucket.get("file").unwrap() == want, "the object");
}

#[test]
pub(crate) fn a_hole_reads_as_zeros() {
    let (bucket, mount) = mounted();
    let path = mount.join("sparse");
    let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(b"end", 5_000_000).unwrap();
    close(file).unwrap();
    let mut want = vec![0; 5_000_000];
    want.extend(b"end");
    assert!(fs::read(&path).unwrap() == want, "the file");
    assert!(bucket.get("sparse").unwrap() == want, "the object");
}

#[test]
pub(crate) fn a_file_is_edited_again_and_again() {
    let (bucket, mount) = mounted();
    let path = mount.join("file");
    let mut want = noise(1, 1_000_000);
    fs::write(&path, &want).unwrap();
    for round in 0..20_u8 {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let at = usize::from(round) * 49_999;
        file.write_all_at(&[round; 100], at as u64).unwrap();
        close(file).unwrap();
        want[at..at + 100].fill(round);
        assert!(bucket.get("file").unwrap() == want, "round {round}");
    }
}
