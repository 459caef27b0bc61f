//! Users and groups, as numbers or by the names that this machine's files give them.

use std::fs;

use super::bounds::between;

/// The largest number of all means "no user" to the kernel.
const ID_MAX: &str = "4294967294";

/// `1000`, or `alice`.
pub(crate) fn user(text: &str) -> Result<u32, String> {
    id(text, "/etc/passwd").map_err(|reason| match reason {
        Wrong::Number(reason) => reason,
        Wrong::Name => format!(
            "{text}: no such user in /etc/passwd; use the number that `id -u {text}` prints"
        ),
    })
}

/// `1000`, or `lab`.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    id(text, "/etc/group").map_err(|reason| match reason {
        Wrong::Number(reason) => reason,
        Wrong::Name => format!(
            "{text}: no such group in /etc/group; use the number that `getent group {text}` prints"
        ),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// Out of bounds, in words.
    Number(String),
    /// Unknown to the file.
    Name,
}

fn id(text: &str, file: &str) -> Result<u32, Wrong> {
    match text.parse::<i128>() {
        Ok(_) => number(text).map_err(Wrong::Number),
        // Names may have bytes that are no UTF-8, in comments at least.
        Err(_) => fs::read(file)
            .ok()
            .and_then(|lines| named(&String::from_utf8_lossy(&lines), text))
            .ok_or(Wrong::Name),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let read = |text: &str| text.parse().map_err(|_| format!("{text}: not a number"));
    let bound = between::<i128>(read, "0", ID_MAX)(text)?;
    u32::try_from(bound).map_err(|_| format!("{text}: too large"))
}

/// The number of `name` in lines such as `alice:x:1000:…`, as both files have them.
fn named(lines: &str, name: &str) -> Option<u32> {
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_wanted = fields.next()? == name && !name.is_empty();
        let id = fields.nth(1)?;
        is_wanted.then(|| number(id).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::{group, named, user};

    #[test]
    fn users_and_groups_are_numbers_or_names() {
        for (text, want) in [("0", 0), ("1000", 1000), ("4294967294", 4_294_967_294), ("root", 0)] {
            assert_eq!(user(text), Ok(want));
            assert_eq!(group(text), Ok(want));
        }
        for text in ["4294967295", "-1", "99999999999999999999"] {
            let told = user(text).unwrap_err();
            assert_eq!(told, format!("{text}: must be from 0 to 4294967294"));
        }
        let told = user("no such").unwrap_err();
        assert_eq!(
            told,
            "no such: no such user in /etc/passwd; use the number that `id -u no such` prints"
        );
        assert!(group("").unwrap_err().contains("/etc/group"));
    }

    #[test]
    fn a_name_is_looked_up_whole_and_broken_lines_are_skipped() {
        let lines =
            "\n:x:7:\nalice\nbob:x:many:\nalice2:x:5:5::/:\nalice:x:1000:1000:A:/:/bin/sh\n+::::\n";
        for (name, want) in
            [("alice", Some(1000)), ("alice2", Some(5)), ("ali", None), ("bob", None), ("", None)]
        {
            assert_eq!(named(lines, name), want, "{name}");
        }
    }
}
