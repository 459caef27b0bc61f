//! The tags that a task's files are to have, as Nextflow names them, in our own words; pure.
//!
//! ```text
//!   [.command.*|.exitcode](nextflow.io/metadata=true),[*](nextflow.io/temporary=true)
//! ```
//!
//! (nextflow.io/docs, `fusion.tags`.) A file gets the tags of all patterns that it fits. A pattern with a folder in
//! it is of what is below the folder of the task.

use mount::Tags;

use super::pattern::ways;

/// As `--tags` takes them, `None` if there are none; and what of the text is not understood.
pub(super) fn rules(text: &str) -> (Option<String>, Vec<String>) {
    let (mut rules, mut unread) = (Vec::new(), Vec::new());
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((patterns, tags, after)) = group(rest) else {
            unread.push(rest.to_owned());
            break;
        };
        for tag in tags.split(['&', ',']).map(str::trim) {
            for pattern in patterns.split('|').flat_map(|pattern| ways(pattern.trim())) {
                let rule = format!("{}={tag}", anywhere(&pattern));
                // What of it means something else there would be read as more than one.
                let is_one = !rule.contains([';', ',']) && tag.contains('=');
                let list =
                    if is_one && Tags::parse(&rule).is_ok() { &mut rules } else { &mut unread };
                list.push(rule);
            }
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    let together = rules.join(";");
    if Tags::parse(&together).is_err() {
        unread.append(&mut rules);
    }
    ((!rules.is_empty()).then_some(together), unread)
}

/// The patterns and the tags that `text` begins with, and what follows.
fn group(text: &str) -> Option<(&str, &str, &str)> {
    let (patterns, after) = text.strip_prefix('[')?.split_once("](")?;
    let (tags, after) = after.split_once(')')?;
    Some((patterns, tags, after))
}

/// The pattern as it is compared with a whole key, if it has a folder in it.
fn anywhere(pattern: &str) -> String {
    if pattern.contains('/') && !pattern.starts_with("*/") {
        format!("*/{}", pattern.trim_start_matches('/'))
    } else {
        pattern.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use mount::Tags;

    use super::rules;

    #[test]
    fn patterns_and_their_tags_become_rules() {
        let usual = "[.command.*|.exitcode|.fusion.*](nextflow.io/metadata=true),\
                     [*](nextflow.io/temporary=true)";
        for (text, want) in [
            (
                usual,
                Some(
                    ".command.*=nextflow.io/metadata=true;.exitcode=nextflow.io/metadata=true;\
                     .fusion.*=nextflow.io/metadata=true;*=nextflow.io/temporary=true",
                ),
            ),
            ("[*.bam](kind=alignment&by=me)", Some("*.bam=kind=alignment;*.bam=by=me")),
            ("[*.{bam,bai}](kind=alignment)", Some("*.bam=kind=alignment;*.bai=kind=alignment")),
            ("[made/*](kind=x)", Some("*/made/*=kind=x")),
            ("", None),
        ] {
            assert_eq!(rules(text), (want.map(str::to_owned), Vec::new()), "{text}");
            if let Some(rules) = want {
                Tags::parse(rules).unwrap();
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_told_and_keeps_no_other_tag_away() {
        for (text, want, unread) in [
            ("false", None, "false"),
            ("[*](", None, "[*]("),
            ("[*](a=b),rest", Some("*=a=b"), "rest"),
            ("[*](a=b),[a;b](c=d)", Some("*=a=b"), "a;b=c=d"),
            ("[*](a=b&word)", Some("*=a=b"), "*=word"),
            ("[*](a=b),[x](c=~)", Some("*=a=b"), "x=c=~"),
        ] {
            assert_eq!(rules(text), (want.map(str::to_owned), vec![unread.to_owned()]), "{text}");
        }
        let many: Vec<String> = (0..20).map(|n| format!("[*](tag{n}=x)")).collect();
        let (rules, unread) = rules(&many.join(","));
        assert_eq!((rules, unread.len()), (None, 20), "a file has ten tags at most");
    }
}
