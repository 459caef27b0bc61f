//! The home folder of who mounts, where nobody says which it is: at boot there is no login.

use std::ffi::OsString;
use std::fs;

/// Where homes are listed.
const USERS: &str = "/etc/passwd";

/// `HOME` with its value, if it is not set: credentials and settings are looked for there.
#[expect(clippy::disallowed_methods, reason = "configuration enters here")]
pub(super) fn missing() -> Vec<(&'static str, OsString)> {
    if std::env::var_os("HOME").is_some_and(|home| !home.is_empty()) {
        return Vec::new();
    }
    let users = fs::read_to_string(USERS).unwrap_or_default();
    let home = home_of(&users, rustix::process::geteuid().as_raw());
    home.map(|home| ("HOME", home.into())).into_iter().collect()
}

/// `name:password:uid:gid:comment:home:shell`
fn home_of(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_of = fields.get(2)?.parse() == Ok(uid);
        is_of.then(|| fields.get(5).copied()).flatten().filter(|home| home.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::home_of;

    #[test]
    fn the_home_is_in_the_sixth_field_of_the_line_of_the_user() {
        let users =
            "root:x:0:0:root:/root:/bin/bash\n# note\nme:x:7:7:,,:/home/me:/bin/sh\nno:x:8:8::\n";
        assert_eq!(home_of(users, 0), Some("/root"));
        assert_eq!(home_of(users, 7), Some("/home/me"));
        assert_eq!(home_of(users, 8), None);
        assert_eq!(home_of(users, 9), None);
    }
}
