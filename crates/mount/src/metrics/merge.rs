//! Pages of several mounts as one page; pure.
//!
//! Samples of one family stand together by the format, and all pages have the same families. Each sample gets the label
//! `mount`, with the path that the page is of.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::text::{Dialect, escaped};

/// A family of samples.
#[derive(Debug, Default)]
struct Family {
    /// The lines that begin with `#`.
    head: String,
    samples: String,
    /// The page that first had it.
    page: usize,
}

/// Families in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    families: Vec<Family>,
    known: HashMap<String, usize>,
    /// How many pages were added, with the one under way.
    pages: usize,
}

impl Merged {
    /// Adds the page of the mount at `path`.
    pub(crate) fn add(&mut self, path: &str, page: &str) {
        let mount = format!("mount=\"{}\"", escaped(path));
        self.pages += 1;
        let mut at = None;
        for line in page.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("#"), Some("EOF"), None) => {}
                (Some("#"), Some(_), Some(name)) => {
                    let (family, is_new) = self.family(name);
                    at = Some(family);
                    if is_new {
                        let head = &mut self.families[family].head;
                        let _ = writeln!(head, "{line}");
                    }
                }
                (Some(_), Some(_), _) if !has_mount_label(line) => {
                    let Some(family) = at else { continue };
                    let samples = &mut self.families[family].samples;
                    let _ = writeln!(samples, "{}", labelled(line, &mount));
                }
                _ => {}
            }
        }
    }

    /// The family `name`, and whether the page under way is the first that has it.
    fn family(&mut self, name: &str) -> (usize, bool) {
        if let Some(&at) = self.known.get(name) {
            return (at, self.families[at].page == self.pages);
        }
        let at = self.families.len();
        self.families.push(Family { page: self.pages, ..Family::default() });
        self.known.insert(name.to_owned(), at);
        (at, true)
    }

    /// The page of all.
    pub(crate) fn page(&self, dialect: Dialect) -> String {
        let mut page = String::new();
        for Family { head, samples, .. } in &self.families {
            page.push_str(head);
            page.push_str(samples);
        }
        if dialect == Dialect::Open {
            page.push_str("# EOF\n");
        }
        page
    }
}

/// Whether a sample has the label that is added here: a page is what a daemon says, and a label that is there twice makes
/// the whole answer invalid.
fn has_mount_label(sample: &str) -> bool {
    sample.contains("{mount=") || sample.contains(",mount=")
}

/// A sample with one more label, the first.
fn labelled(sample: &str, label: &str) -> String {
    let end = sample.find(['{', ' ']).unwrap_or(sample.len());
    let (name, rest) = sample.split_at(end);
    match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{{label},{labels}"),
        None => format!("{name}{{{label}}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Merged};

    #[test]
    fn samples_of_a_family_stand_together_with_their_mounts() {
        let page = |value: u8| {
            format!(
                "# HELP quayfs_a A.\n# TYPE quayfs_a gauge\nquayfs_a {value}\n\
                 # HELP quayfs_b B.\n# TYPE quayfs_b counter\nquayfs_b_total{{kind=\"x y\"}} {value}\n# EOF\n"
            )
        };
        let mut merged = Merged::default();
        merged.add("/one", &page(1));
        merged.add("/t\"wo", &page(2));
        let want = "# HELP quayfs_a A.\n# TYPE quayfs_a gauge\n\
                    quayfs_a{mount=\"/one\"} 1\nquayfs_a{mount=\"/t\\\"wo\"} 2\n\
                    # HELP quayfs_b B.\n# TYPE quayfs_b counter\n\
                    quayfs_b_total{mount=\"/one\",kind=\"x y\"} 1\n\
                    quayfs_b_total{mount=\"/t\\\"wo\",kind=\"x y\"} 2\n# EOF\n";
        assert_eq!(merged.page(Dialect::Open), want);
        assert!(!merged.page(Dialect::Plain).contains("EOF"));
    }

    #[test]
    fn sample_with_the_label_of_another_mount_is_left_out() {
        let mut merged = Merged::default();
        let head = "# HELP quayfs_a A.\n# TYPE quayfs_a gauge\n";
        merged.add(
            "/one",
            &format!("{head}quayfs_a{{mount=\"/two\"}} 1\nquayfs_a{{b=\"\",mount=\"/two\"}} 1\n"),
        );
        assert_eq!(merged.page(Dialect::Plain), head);
    }

    #[test]
    fn family_without_samples_in_one_page_has_its_head_once() {
        let head = "# HELP quayfs_a A.\n# TYPE quayfs_a gauge\n";
        let mut merged = Merged::default();
        merged.add("/one", head);
        merged.add("/two", &format!("{head}quayfs_a 1\n"));
        assert_eq!(merged.page(Dialect::Plain), format!("{head}quayfs_a{{mount=\"/two\"}} 1\n"));
    }
}
