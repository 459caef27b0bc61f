//! Diagnosis of a login that gave no credentials, from the profiles of the AWS configuration files.
//!
//! The library's error is a chain of all places in which it looked. The diagnosis names the one place that the user
//! meant. It reads the files again, which happens after failures only.

use aws_config::profile::{Profile, ProfileSet};
use aws_credential_types::provider::error::CredentialsError;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env, Fs};

use super::fault::chain;
use crate::login::{FailedLogin, Login};
use crate::{ProviderError, Trouble};

/// The configuration file that the library reads where no variable names another.
const CONFIG_FILE: &str = "~/.aws/config";

/// The profile that the library uses where nobody names one.
const DEFAULT: &str = "default";

/// Profiles that refer to one another are followed so far.
const SOURCES_MAX: usize = 8;

/// Settings of a profile by which it gives credentials.
const WAYS: [&str; 8] = [
    "aws_access_key_id",
    "credential_process",
    "credential_source",
    "login_session",
    "role_arn",
    "source_profile",
    "sso_session",
    "sso_start_url",
];

/// Parts of the library's errors that mean that the cached token of the session is missing, expired or revoked.
const OF_SESSION: [&str; 6] =
    ["SSO token", "sso/cache", "Unauthorized", "InvalidGrant", "ExpiredToken", "token not found"];

/// `error` of the library, with the configured login as its cause if that can be told. `named` is the profile that the
/// settings ask for.
pub(super) async fn diagnosed(error: CredentialsError, named: Option<&str>) -> CredentialsError {
    if matches!(error, CredentialsError::ProviderTimedOut(_)) {
        return error;
    }
    let env = Env::real();
    let file = env.get("AWS_CONFIG_FILE").ok().filter(|file| !file.is_empty());
    let wish = named.map(|name| name.to_owned().into());
    let files = EnvConfigFiles::default();
    let Ok(profiles) = aws_config::profile::load(&Fs::real(), &env, &files, wish).await else {
        // A file that cannot be read is what the library complains of.
        return error;
    };
    let words = chain(&error);
    let found = login(&profiles, named, file.as_deref().unwrap_or(CONFIG_FILE), &words);
    let Some(login) = found else { return error };
    let said = ProviderError {
        code: "CredentialsFailed".to_owned(),
        message: words,
        request_id: None,
        trouble: Trouble::NoCredentials,
    };
    CredentialsError::provider_error(FailedLogin { login, said })
}

/// The login that failed with these words; `None` if no profile has to do with it.
fn login(profiles: &ProfileSet, named: Option<&str>, file: &str, words: &str) -> Option<Login> {
    let selected = profiles.selected_profile();
    let is_wish = named.is_some() || selected != DEFAULT;
    let Some(profile) = profiles.get_profile(selected) else {
        let mut others: Vec<String> = profiles.profiles().map(str::to_owned).collect();
        others.sort();
        let (profile, file) = (selected.to_owned(), file.to_owned());
        return is_wish.then_some(Login::NoProfile { profile, file, others });
    };
    for source in sources(profiles, profile) {
        let profile = source.name().to_owned();
        if source.get("credential_process").is_some() && words.contains("external process") {
            return Some(Login::ProcessFailed { profile, status: status(words) });
        }
        let has_session = ["sso_session", "sso_start_url"].iter().any(|key| has(source, key));
        if has_session && OF_SESSION.iter().any(|part| words.contains(part)) {
            return Some(Login::SessionEnded { profile });
        }
    }
    let is_empty = !WAYS.iter().any(|way| has(profile, way));
    (is_wish && is_empty)
        .then(|| Login::EmptyProfile { profile: selected.to_owned(), file: file.to_owned() })
}

/// `profile`, and those that it takes its credentials from.
fn sources<'a>(profiles: &'a ProfileSet, profile: &'a Profile) -> Vec<&'a Profile> {
    let source = |profile: &&'a Profile| profiles.get_profile(profile.get("source_profile")?);
    std::iter::successors(Some(profile), source).take(SOURCES_MAX).collect()
}

fn has(profile: &Profile, key: &str) -> bool {
    profile.get(key).is_some()
}

/// How the program ended, in the library's words: `… exited with code exit status: 1. Stderr: …`.
fn status(words: &str) -> String {
    let ended = words.split_once("exited with code ").map(|(_, rest)| rest);
    let ended = ended.map(|rest| rest.split_once(". Stderr").map_or(rest, |(status, _)| status));
    ended.unwrap_or("its output is not what it should be").to_owned()
}

#[cfg(test)]
mod tests {
    use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
    use aws_types::os_shim_internal::{Env, Fs};

    use super::{CONFIG_FILE, login};
    use crate::login::Login;

    const CONFIG: &str = "
[profile lab]
aws_access_key_id = me
[profile sso]
sso_session = lab
[profile proc]
credential_process = /bin/false
[profile role]
role_arn = arn
source_profile = sso
[profile loop]
role_arn = arn
source_profile = loop
[profile region]
region = us-east-1
";

    async fn of(selected: &'static str, is_named: bool, words: &str) -> Option<Login> {
        let files =
            EnvConfigFiles::builder().with_contents(EnvConfigFileKind::Config, CONFIG).build();
        let env = match (is_named, selected) {
            (true, _) | (false, "default") => Env::from_slice(&[]),
            (false, selected) => Env::from_slice(&[("AWS_PROFILE", selected)]),
        };
        let named = is_named.then_some(selected);
        let wish = named.map(Into::into);
        let profiles = aws_config::profile::load(&Fs::from_slice(&[]), &env, &files, wish).await;
        login(&profiles.unwrap(), named, CONFIG_FILE, words)
    }

    #[tokio::test]
    async fn failed_login_names_profile_and_cause() {
        let (profile, file) = (|name: &str| name.to_owned(), CONFIG_FILE.to_owned());
        let others = ["lab", "loop", "proc", "region", "role", "sso"].map(str::to_owned).to_vec();
        let missing = |name| Login::NoProfile {
            profile: profile(name),
            file: file.clone(),
            others: others.clone(),
        };
        let no_token = "an error: failed to load the cached SSO token";
        let exited = "Error retrieving credentials: external process exited with code exit status: 1. Stderr: no";
        for (selected, is_named, words, want) in [
            ("Lab", true, "", Some(missing("Lab"))),
            ("Lab", false, "", Some(missing("Lab"))),
            ("default", true, "", Some(missing("default"))),
            ("default", false, "", None),
            ("lab", true, "no route to host", None),
            ("sso", true, no_token, Some(Login::SessionEnded { profile: profile("sso") })),
            ("role", true, no_token, Some(Login::SessionEnded { profile: profile("sso") })),
            ("sso", true, "no route to host", None),
            ("loop", true, no_token, None),
            (
                "proc",
                false,
                exited,
                Some(Login::ProcessFailed {
                    profile: profile("proc"),
                    status: "exit status: 1".to_owned(),
                }),
            ),
            (
                "region",
                true,
                "not enabled",
                Some(Login::EmptyProfile { profile: profile("region"), file: file.clone() }),
            ),
        ] {
            assert_eq!(of(selected, is_named, words).await, want, "{selected} {words}");
        }
    }
}
