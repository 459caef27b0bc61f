//! Explanations of a store that cannot be used: the problem first, in one short line, then the remedy, then the store's
//! own words. Pure.

use std::borrow::Cow;
use std::fmt;

use base::printable;
use remote::{ErrorKind, Login, Trouble};

use crate::location::Location;

/// The problem with a store, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The problem, in one short line.
    pub problem: String,
    /// The remedy, if the problem does not name it.
    pub remedy: Option<String>,
}

/// A first line has so many characters at most, so that it is read at one look.
#[cfg(test)]
const LINE_CHARS_MAX: usize = 160;

/// Names of others are repeated up to this length.
const NAME_CHARS_MAX: usize = 48;

/// Names that are listed take so much of a line.
const LIST_CHARS_MAX: usize = 50;

/// The store's own words are repeated up to this length.
const WORDS_CHARS_MAX: usize = 400;

/// The code of a failure to find any credentials, which has nothing to add.
const NO_CREDENTIALS: &str = "NoCredentials";

impl Advice {
    pub(crate) fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Advice {
        let remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        Advice { problem: problem.into(), remedy }
    }

    /// Both in one line, for lists.
    pub(crate) fn line(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}: {}", self.problem, remedy.replace("\n  ", " ")),
            None => self.problem.clone(),
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "\n  {remedy}"))
    }
}

/// The problem with `location`, with the store's own words below.
pub(crate) fn told(location: &Location, advice: &Advice, source: &remote::Error) -> String {
    format!("{}: {advice}{}", brief(&location.to_string()), details(source))
}

/// A mount of an object, or of a file.
pub(crate) fn not_a_folder(location: &Location) -> String {
    let what = if matches!(location, Location::Folder(_)) { "a file" } else { "an object" };
    let [name, parent] = [location, &location.parent()].map(ToString::to_string);
    format!("{} is {what}, not a folder: mount {}", brief(&name), brief(&parent))
}

/// A name within a line, shortened in the middle if it is long.
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    let name = printable(name);
    let count = name.chars().count();
    if count <= NAME_CHARS_MAX {
        return name;
    }
    let half = (NAME_CHARS_MAX - 1) / 2;
    let (start, end) = (name.chars().take(half), name.chars().skip(count - half));
    Cow::Owned(start.chain(['…']).chain(end).collect())
}

/// The store's own words, on lines of their own; empty if they have nothing to add.
fn details(source: &remote::Error) -> String {
    let Some(said) = source.provider_error() else {
        return format!("\n  details: {}", cut(&source.to_string()));
    };
    if said.code == NO_CREDENTIALS {
        return String::new();
    }
    let op = source.op;
    let words = cut(&said.to_string());
    let is_without_answer = matches!(
        said.trouble,
        Trouble::NoCredentials | Trouble::Unreachable | Trouble::WebPage | Trouble::Untrusted
    );
    if is_without_answer {
        format!("\n  details: {op}: {words}")
    } else {
        format!("\n  the store's answer to {}: {words}", op.to_uppercase())
    }
}

fn cut(words: &str) -> String {
    let words = printable(words);
    let cut: String = words.chars().take(WORDS_CHARS_MAX).collect();
    if cut.len() < words.len() { format!("{cut}…") } else { cut }
}

/// The advice for `location` at `endpoint`, or at the cloud's own.
pub(crate) fn advice(
    location: &Location,
    endpoint: Option<&str>,
    source: &remote::Error,
) -> Advice {
    if let Location::Folder(path) = location {
        let path = path.to_string_lossy();
        return of_folder(&path, source.kind);
    }
    if let Some(login) = source.login() {
        return of_login(login);
    }
    match source.trouble() {
        Trouble::NoBucket => no_bucket(location, endpoint),
        Trouble::WrongRegion => {
            Advice::new("the bucket is in another region", "name its region with --region")
        }
        Trouble::Unreachable => unreachable(endpoint),
        Trouble::WebPage => Advice::new(
            format!("{} answered with a web page", server(endpoint)),
            "is this the port of the console? --endpoint needs the port of the API; or a proxy or login page is in \
             between",
        ),
        Trouble::Untrusted => Advice::new(
            format!("the certificate of {} is not trusted", server(endpoint)),
            "if your own certificate authority signed it, name that with --ca-bundle; else check --endpoint and the \
             machine's clock",
        ),
        Trouble::WrongClock => Advice::new(
            "the clock of this machine differs too much from that of the store",
            "set the clock: stores accept a difference of 15 minutes",
        ),
        Trouble::Archived => {
            Advice::new("objects that the mount itself needs are archived", "restore them first")
        }
        Trouble::Busy => {
            Advice::new("the store has too many requests", "try again in a few minutes")
        }
        Trouble::NoEncryptionKey => Advice::new(
            "the store cannot encrypt with a key of a key service (KMS)",
            "leave out --sse kms and --kms-key, name another key, or set up the key service of the store",
        ),
        Trouble::NoCredentials => no_credentials(location),
        Trouble::BadCredentials
        | Trouble::UnknownKey
        | Trouble::WrongSecret
        | Trouble::ExpiredToken
        | Trouble::WrongToken => wrong_credentials(location, source.trouble()),
        Trouble::Denied => denied(location),
        Trouble::Other => unexpected(source),
    }
}

/// Advice about a store that did not answer within `seconds`.
pub(crate) fn silent(endpoint: Option<&str>, seconds: u64) -> Advice {
    let server = server(endpoint);
    Advice::new(
        format!("{server} did not answer within {seconds} s"),
        "check --endpoint, the network and any firewall, or try again later",
    )
}

fn of_folder(path: &str, kind: ErrorKind) -> Advice {
    let path = brief(path);
    if kind == ErrorKind::NotFound {
        Advice::new(format!("there is no folder {path}"), "create it first")
    } else if kind == ErrorKind::Denied {
        Advice::new(format!("this user may not read the folder {path}"), "check its owner and mode")
    } else {
        Advice::new(format!("the folder {path} cannot be used"), "")
    }
}

fn of_login(login: &Login) -> Advice {
    match login {
        Login::NoProfile { profile, file, others } => {
            let problem = match &others[..] {
                [] => format!("no profile {}: {} has none", quoted(profile), brief(file)),
                others => format!(
                    "no profile {} in {}; there are {}",
                    quoted(profile),
                    brief(file),
                    listed(others)
                ),
            };
            Advice::new(problem, "name another one with --aws-profile or AWS_PROFILE")
        }
        Login::EmptyProfile { profile, file } => Advice::new(
            format!("profile {} in {} has no credentials", quoted(profile), brief(file)),
            format!("`aws configure --profile {}` adds keys to it", brief(profile)),
        ),
        Login::SessionEnded { profile } => Advice::new(
            format!(
                "the SSO session of profile {} has ended: run aws sso login --profile {}",
                quoted(profile),
                short(profile)
            ),
            "",
        ),
        Login::ProcessFailed { profile, status } => Advice::new(
            format!(
                "the credential_process of profile {} failed ({})",
                quoted(profile),
                brief(status)
            ),
            "run the command that the profile names by itself to see why",
        ),
    }
}

/// A short name, such as that of a profile.
fn short(name: &str) -> String {
    const CHARS_MAX: usize = 30;
    let name = printable(name);
    let short: String = name.chars().take(CHARS_MAX).collect();
    if short.len() < name.len() { format!("{short}…") } else { short }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", short(name))
}

/// As many names as a line has room for.
fn listed(names: &[String]) -> String {
    let mut list = String::new();
    for name in names {
        let name = short(name);
        if LIST_CHARS_MAX < list.chars().count() + name.chars().count() {
            list.push_str(if list.is_empty() { "others" } else { ", …" });
            break;
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(&name);
    }
    list
}

fn server(endpoint: Option<&str>) -> Cow<'_, str> {
    endpoint.map_or(Cow::Borrowed("the store"), brief)
}

fn unreachable(endpoint: Option<&str>) -> Advice {
    let remedy = match endpoint {
        Some(url) if !url.contains("://") => {
            return Advice::new(
                format!("--endpoint must be a URL, not {}", brief(url)),
                format!("name it as https://{}, or http://… without TLS", brief(url)),
            );
        }
        Some(url) if url.starts_with("https:") => {
            "check --endpoint (http:// without TLS), the network and any firewall"
        }
        Some(_) => "check --endpoint, the network and any firewall",
        None => "check the network, DNS and any firewall",
    };
    Advice::new(format!("cannot reach {}", server(endpoint)), remedy)
}

fn no_bucket(location: &Location, endpoint: Option<&str>) -> Advice {
    let check = if endpoint.is_some() { "check its name and --endpoint" } else { "check its name" };
    match location {
        Location::S3 { bucket, .. } | Location::Gcs { bucket, .. } => match name_flaw(bucket) {
            Some(rule) => {
                Advice::new(format!("{} is no name of a bucket: {rule}", quoted(bucket)), check)
            }
            None => Advice::new(format!("there is no bucket {}", brief(bucket)), check),
        },
        Location::Azure { account, container, .. } => match name_flaw(container) {
            Some(rule) => Advice::new(
                format!("{} is no name of a container: {rule}", quoted(container)),
                check,
            ),
            None => Advice::new(
                format!(
                    "there is no container {} in the account {}",
                    brief(container),
                    short(account)
                ),
                check,
            ),
        },
        Location::Folder(_) | Location::All => {
            Advice::new(format!("there is no {}", brief(&location.to_string())), check)
        }
    }
}

/// The rule for names of buckets that `name` breaks. Old buckets, and those of some stores, break it and exist.
fn name_flaw(name: &str) -> Option<&'static str> {
    let is_of_names =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ['-', '.', '_'].contains(&c);
    if name.starts_with("arn:") {
        None
    } else if name.contains(|c: char| c.is_ascii_uppercase()) {
        Some("bucket names are lower case")
    } else if !name.chars().all(is_of_names) {
        Some("it may have lower-case letters, digits, - and . only")
    } else if !(3..=63).contains(&name.len()) {
        Some("bucket names have 3 to 63 characters")
    } else {
        None
    }
}

fn no_credentials(location: &Location) -> Advice {
    let remedy = match location {
        Location::Gcs { .. } => {
            "run `gcloud auth application-default login`, name a file with GOOGLE_APPLICATION_CREDENTIALS or \
             --google-credentials-file,\n  or use --anonymous for a public bucket"
        }
        Location::Azure { .. } => {
            "set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; or, for Entra ID,\n  \
             AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE; or name a file with\n  \
             --azure-credentials-file; or give the machine a managed identity; or use --anonymous for a public container"
        }
        Location::S3 { .. } | Location::Folder(_) | Location::All => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with --aws-profile, or use --anonymous for a \
             public bucket;\n  neither the environment, ~/.aws, a web identity nor the metadata service of this machine \
             gave any"
        }
    };
    Advice::new("no credentials were found", remedy)
}

fn wrong_credentials(location: &Location, trouble: Trouble) -> Advice {
    match (location, trouble) {
        (Location::Gcs { .. }, _) => Advice::new(
            "the store does not accept these credentials",
            "check the file that GOOGLE_APPLICATION_CREDENTIALS or --google-credentials-file names, or log in again with\n  \
             `gcloud auth application-default login`",
        ),
        (Location::Azure { .. }, _) => Advice::new(
            "the store does not accept these credentials",
            "check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, the file of\n  \
             --azure-credentials-file, or the application and the managed identity; and the machine's clock",
        ),
        (_, Trouble::UnknownKey) => Advice::new(
            "the store does not know this access key",
            "check AWS_ACCESS_KEY_ID or --aws-profile, and --endpoint: each store has access keys of its own",
        ),
        (_, Trouble::WrongSecret) => Advice::new(
            "the secret key does not belong to the access key",
            "check AWS_SECRET_ACCESS_KEY or --aws-profile",
        ),
        (_, Trouble::ExpiredToken) => Advice::new(
            "the session token has expired",
            "get new credentials, for example with `aws sso login`, and mount again",
        ),
        (_, Trouble::WrongToken) => Advice::new(
            "the session token is not valid",
            "check AWS_SESSION_TOKEN: it goes with one access key of one store; unset it if the access key needs none",
        ),
        (Location::S3 { .. } | Location::Folder(_) | Location::All, _) => Advice::new(
            "the store does not accept these credentials",
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or --aws-profile), and the machine's \
             clock",
        ),
    }
}

fn denied(location: &Location) -> Advice {
    match location {
        Location::Gcs { .. } => Advice::new(
            "these credentials may not list this bucket",
            "they need storage.objects.list and storage.objects.get (the role Storage Object Viewer)",
        ),
        Location::Azure { .. } => Advice::new(
            "these credentials may not list this container",
            "they need read and list (r and l of a shared access signature)",
        ),
        Location::S3 { .. } | Location::Folder(_) | Location::All => Advice::new(
            "these credentials may not list this bucket",
            "they need s3:ListBucket and s3:GetObject, or s3express:CreateSession for a directory bucket;\n  if they are \
             for a prefix of it, mount that",
        ),
    }
}

/// An answer that no other advice is for: its code is all that can be told in short.
fn unexpected(source: &remote::Error) -> Advice {
    match source.provider_error() {
        Some(said) => {
            Advice::new(format!("the store refused a request ({})", brief(&said.code)), "")
        }
        None => Advice::new("the store gave an unexpected answer", ""),
    }
}

#[cfg(test)]
mod tests {
    use remote::{ErrorKind, Key, Login, ProviderError, Trouble};

    use super::{LINE_CHARS_MAX, advice, brief, not_a_folder};
    use crate::location::Location;

    fn failed(trouble: Trouble) -> remote::Error {
        remote::Error::new(ErrorKind::Denied, "list", &Key::from("")).because(said(trouble))
    }

    fn said(trouble: Trouble) -> ProviderError {
        let (code, message) = ("SomeCode".to_owned(), "the store's own words ".repeat(40));
        ProviderError { code, message, request_id: Some("18D0".to_owned()), trouble }
    }

    fn told(url: &str, endpoint: Option<&str>, source: &remote::Error) -> String {
        let location = Location::parse(url).unwrap();
        super::told(&location, &advice(&location, endpoint, source), source)
    }

    /// The first line is `want`, and each line is short.
    fn check(told: &str, want: &str) {
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].ends_with(want), "{want}: {told}");
        assert!("quayfs: ".len() + lines[0].chars().count() <= LINE_CHARS_MAX, "{told}");
    }

    #[test]
    fn first_line_says_what_is_wrong_with_store() {
        let (none, minio) = (None, Some("http://127.0.0.1:9000"));
        for (url, endpoint, trouble, want) in [
            ("s3://lab", none, Trouble::NoCredentials, "no credentials were found"),
            ("gs://lab", none, Trouble::NoCredentials, "no credentials were found"),
            ("az://lab/c", none, Trouble::NoCredentials, "no credentials were found"),
            ("s3://lab", none, Trouble::UnknownKey, "the store does not know this access key"),
            (
                "s3://lab",
                none,
                Trouble::WrongSecret,
                "the secret key does not belong to the access key",
            ),
            ("s3://lab", none, Trouble::ExpiredToken, "the session token has expired"),
            ("s3://lab", none, Trouble::WrongToken, "the session token is not valid"),
            (
                "s3://lab",
                none,
                Trouble::WrongClock,
                "the clock of this machine differs too much from that of the store",
            ),
            (
                "gs://lab",
                none,
                Trouble::BadCredentials,
                "the store does not accept these credentials",
            ),
            ("s3://lab", none, Trouble::NoBucket, "there is no bucket lab"),
            (
                "s3://Lab",
                minio,
                Trouble::NoBucket,
                "\"Lab\" is no name of a bucket: bucket names are lower case",
            ),
            (
                "s3://ab",
                none,
                Trouble::NoBucket,
                "\"ab\" is no name of a bucket: bucket names have 3 to 63 characters",
            ),
            (
                "az://acc/c c",
                none,
                Trouble::NoBucket,
                "\"c c\" is no name of a container: it may have lower-case letters, digits, - and . only",
            ),
            (
                "az://acc/slides",
                none,
                Trouble::NoBucket,
                "there is no container slides in the account acc",
            ),
            ("s3://lab", minio, Trouble::Unreachable, "cannot reach http://127.0.0.1:9000"),
            ("s3://lab", none, Trouble::Unreachable, "cannot reach the store"),
            ("s3://lab", minio, Trouble::WebPage, "http://127.0.0.1:9000 answered with a web page"),
            (
                "s3://lab",
                none,
                Trouble::NoEncryptionKey,
                "the store cannot encrypt with a key of a key service (KMS)",
            ),
            ("s3://lab", none, Trouble::Denied, "these credentials may not list this bucket"),
            ("s3://lab", none, Trouble::Other, "the store refused a request (SomeCode)"),
        ] {
            check(&told(url, endpoint, &failed(trouble)), want);
        }
    }

    #[test]
    fn first_line_says_what_is_wrong_with_login() {
        let name = |name: &str| name.to_owned();
        let (profile, file) = (name("Lab"), name("~/.aws/config"));
        let others = ["bad", "lab", "proc"].map(name).to_vec();
        let many = (0..100).map(|number| format!("profile-{number}")).collect();
        let long = "x".repeat(300);
        for (login, want) in [
            (
                Login::NoProfile { profile: profile.clone(), file: file.clone(), others },
                "no profile \"Lab\" in ~/.aws/config; there are bad, lab, proc",
            ),
            (
                Login::NoProfile { profile: profile.clone(), file: file.clone(), others: many },
                "there are profile-0, profile-1, profile-2, profile-3, …",
            ),
            (
                Login::NoProfile { profile: long.clone(), file: long.clone(), others: vec![long] },
                "; there are xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
            ),
            (
                Login::NoProfile { profile: profile.clone(), file: file.clone(), others: vec![] },
                "no profile \"Lab\": ~/.aws/config has none",
            ),
            (
                Login::EmptyProfile { profile: profile.clone(), file },
                "profile \"Lab\" in ~/.aws/config has no credentials",
            ),
            (
                Login::SessionEnded { profile: name("bad") },
                "the SSO session of profile \"bad\" has ended: run aws sso login --profile bad",
            ),
            (
                Login::ProcessFailed { profile: name("proc"), status: name("exit status: 1") },
                "the credential_process of profile \"proc\" failed (exit status: 1)",
            ),
        ] {
            let source = failed(Trouble::NoCredentials);
            let source = source.because_of_login(login, said(Trouble::NoCredentials));
            check(&told("s3://lab", None, &source), want);
        }
    }

    #[test]
    fn long_names_do_not_lengthen_first_line() {
        let url = format!("s3://{}/{}", "b".repeat(63), "k".repeat(1000));
        let endpoint = format!("http://{}.example:9000", "h".repeat(200));
        for trouble in
            [Trouble::NoBucket, Trouble::Unreachable, Trouble::WebPage, Trouble::Untrusted]
        {
            let told = told(&url, Some(&endpoint), &failed(trouble));
            check(&told, "");
            let longest = told.lines().map(|line| line.chars().count()).max();
            assert!(longest < Some(500), "{told}");
        }
        assert_eq!(brief("short"), "short");
        assert_eq!(brief(&"ä".repeat(100)).chars().count(), 47);
    }

    #[test]
    fn object_is_told_with_folder_that_it_is_in() {
        for (url, want) in [
            (
                "s3://lab/data/a.bin",
                "s3://lab/data/a.bin is an object, not a folder: mount s3://lab/data",
            ),
            ("gs://lab/a.bin", "gs://lab/a.bin is an object, not a folder: mount gs://lab"),
            ("file:///srv/a.bin", "file:///srv/a.bin is a file, not a folder: mount file:///srv"),
        ] {
            assert_eq!(not_a_folder(&Location::parse(url).unwrap()), want);
        }
    }

    #[test]
    fn absent_credentials_have_no_details() {
        let nothing =
            ProviderError { code: "NoCredentials".to_owned(), ..said(Trouble::NoCredentials) };
        let source = remote::Error::new(ErrorKind::Denied, "list", &Key::from("")).because(nothing);
        assert!(!told("s3://lab", None, &source).contains("own words"));
        let source = failed(Trouble::Denied);
        assert!(told("s3://lab", None, &source).contains("the store's answer to LIST: SomeCode: "));
    }
}
