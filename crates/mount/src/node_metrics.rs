//! One page for all mounts of this machine: each daemon is asked by its control socket, within a limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{Clock, SystemClock};
use fuse::MountEntry;

use crate::control::Asked;
use crate::error::Error;
use crate::lifecycle::runtime;
use crate::metrics::{Dialect, Merged, MetricsPage, Paged, listen, serve};
use crate::spelling::spelled;
use crate::version::VERSION;

/// How long a daemon may take. A collector waits for ten seconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long all of them may take; one that has not answered by then counts as silent.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(6);

/// Daemons that are asked; the others are not in the page.
const MOUNTS_MAX: usize = 256;

/// The mounts of this user, or, for root, of all users.
#[derive(Debug)]
struct Node {
    clock: Arc<dyn Clock>,
}

/// The metrics of all mounts of this user, or, for root, of all users.
pub fn node_metrics() -> Result<String, Error> {
    let runtime = runtime()?;
    let page = runtime.block_on(Node::new().page(Dialect::Plain));
    runtime.shutdown_timeout(Duration::ZERO);
    page.map_err(|source| Error::System { what: "cannot gather metrics", source })
}

/// Answers to collectors at `address` until the process ends; `ready` is called when it does.
pub fn serve_node_metrics(address: SocketAddr, ready: impl FnOnce()) -> Result<(), Error> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let listener = listen(address, "cannot serve metrics (--listen)").await?;
        ready();
        serve(listener, Arc::new(Node::new())).await;
        Ok(())
    })
}

impl Node {
    fn new() -> Node {
        Node { clock: Arc::new(SystemClock::new()) }
    }
}

#[async_trait]
impl Paged for Node {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    async fn page(&self, dialect: Dialect) -> io::Result<String> {
        let entries = tokio::task::spawn_blocking(crate::list::own_table).await??;
        let word = dialect.word();
        // Each in a thread of its own: one that stands still keeps no other from answering.
        let asking = entries.into_iter().take(MOUNTS_MAX).map(|entry| {
            let path = spelled(&entry.path).into_owned();
            (path, tokio::task::spawn_blocking(move || ask(&entry, word)))
        });
        let asking: Vec<_> = asking.collect();
        let end = self.clock.monotonic() + PATIENCE_FOR_ALL;
        let mut answers = Vec::new();
        for (path, asked) in asking {
            let left = end.saturating_sub(self.clock.monotonic());
            let answer = tokio::select! {
                answer = asked => answer.ok().and_then(Result::ok),
                () = self.clock.sleep(left) => None,
            };
            answers.push((path, answer));
        }
        Ok(page(&answers, dialect))
    }
}

/// The page of the daemon that serves `entry`.
fn ask(entry: &MountEntry, dialect: &str) -> io::Result<String> {
    let question = format!("metrics {dialect}");
    let mut asked = Asked::within(entry, &question, PATIENCE)?.patient(PATIENCE)?;
    let answer: Option<MetricsPage> = asked.line()?;
    // One of an earlier version does not know the question, and hangs up.
    answer.map(|answer| answer.page).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// The pages of all that answered, and which did.
fn page(answers: &[(String, Option<String>)], dialect: Dialect) -> String {
    let mut merged = Merged::default();
    let up =
        "# HELP quayfs_up 1 if the daemon of the mount answers, else 0.\n# TYPE quayfs_up gauge\n";
    for (path, answer) in answers {
        merged.add(path, &format!("{up}quayfs_up {}\n", u8::from(answer.is_some())));
    }
    for (path, answer) in answers {
        if let Some(page) = answer {
            merged.add(path, page);
        }
    }
    let exporter = format!(
        "# HELP quayfs_exporter_info The version of the program that gathers these metrics.\n\
         # TYPE quayfs_exporter_info gauge\nquayfs_exporter_info{{version=\"{VERSION}\"}} 1\n"
    );
    exporter + &merged.page(dialect)
}

#[cfg(test)]
mod tests {
    use super::{Dialect, page};

    #[test]
    fn silent_daemon_is_down_and_the_others_are_shown() {
        let text = "# HELP quayfs_a A.\n# TYPE quayfs_a gauge\nquayfs_a 1\n".to_owned();
        let page = page(&[("/a".to_owned(), Some(text)), ("/b".to_owned(), None)], Dialect::Plain);
        for line in
            ["quayfs_up{mount=\"/a\"} 1", "quayfs_up{mount=\"/b\"} 0", "quayfs_a{mount=\"/a\"} 1"]
        {
            assert!(page.contains(&format!("\n{line}\n")), "{line} in {page}");
        }
        assert_eq!(page.matches("TYPE quayfs_up").count(), 1);
    }
}
