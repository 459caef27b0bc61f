//! `quayfs metrics`: one page for all mounts of a machine, whatever one of their daemons does.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use testkit::{Mount, Plan, Scratch, run, wait};

use crate::SOON;

/// A collector waits no longer.
const WITHIN: Duration = Duration::from_secs(10);

fn mounted() -> (Scratch, Mount) {
    let folder = Scratch::new();
    let url = format!("file://{}", folder.folder("bucket").display());
    (folder, Plan::of_url(&url).mount())
}

fn label(mount: &Mount) -> String {
    format!("mount=\"{}\"", mount.path().display())
}

fn printed(mount: &Mount) -> String {
    run(&mut mount.plan().command(["metrics"]), WITHIN).ok().to_owned()
}

fn has(page: &str, line: &str) -> bool {
    page.lines().any(|found| found.starts_with(line))
}

#[test]
fn page_has_the_figures_of_each_mount_under_its_label() {
    let ((_a, one), (_b, two)) = (mounted(), mounted());
    std::fs::write(one.join("a"), b"bytes").unwrap();
    let page = printed(&one);
    for (mount, written) in [(&one, 5), (&two, 0)] {
        let label = label(mount);
        for line in [
            format!("quayfs_up{{{label}}} 1"),
            format!("quayfs_fuse_write_bytes_total{{{label}}} {written}"),
            format!("quayfs_health{{{label},state=\"ok\"}} 1"),
            format!("quayfs_build_info{{{label},version=\""),
            format!("process_resident_memory_bytes{{{label}}} "),
            format!("process_open_fds{{{label}}} "),
        ] {
            assert!(has(&page, &line), "{line} in {page}");
        }
    }
    assert_eq!(page.matches("# TYPE quayfs_fuse_write_bytes_total").count(), 1, "{page}");
}

#[test]
fn daemon_that_hangs_or_is_dead_does_not_block_the_page() {
    let ((_a, well), (_b, hangs), (_c, dead)) = (mounted(), mounted(), mounted());
    dead.kill();
    let page = hangs.frozen(|| printed(&well));
    for (mount, up) in [(&well, 1), (&hangs, 0), (&dead, 0)] {
        assert!(has(&page, &format!("quayfs_up{{{}}} {up}", label(mount))), "{page}");
    }
    assert!(has(&page, &format!("quayfs_info{{{},", label(&well))), "{page}");
    assert!(!has(&page, &format!("quayfs_info{{{},", label(&hangs))), "{page}");
    drop(dead.umount());
}

/// A process that ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn served_page_follows_mounts_that_come_and_go() {
    let (_a, first) = mounted();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut command = first.plan().command(["metrics", "--listen", &address]);
    let _serving = Serving(command.stderr(Stdio::null()).spawn().unwrap());
    let shows = |mount: &Mount| {
        asked(&address).is_some_and(|page| has(&page, &format!("quayfs_up{{{}}} 1", label(mount))))
    };
    wait::until("the first mount to be shown", SOON, || shows(&first));
    let (_b, second) = mounted();
    assert!(shows(&second));
    let gone = label(&second);
    second.umount();
    let page = asked(&address).unwrap();
    assert!(page.ends_with("# EOF\n") && !page.contains(&gone), "{page}");
}
