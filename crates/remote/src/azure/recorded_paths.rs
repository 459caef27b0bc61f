//! What an account with a hierarchical namespace is asked, word for word: the emulator has none.

use std::sync::Arc;

use base::{Rng, SystemClock};

use crate::http::recording::Recording;
use crate::{
    Azure, AzureCredentials, AzureOptions, Capability, Condition, Entry, ErrorKind, Folders, Has,
    Key, ListOrder, ListRequest, Metadata, Moves, Original, PutOptions, Remote, Secret, Version,
};

const SAS: &str = "sv=2024-11-04&sig=hu%2Fsh";

const FOLDER: &str = "200 OK\r\netag: \"0x7\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
    x-ms-resource-type: directory\r\n\r\n";

const FILE: &str = "200 OK\r\netag: \"0x8\"\r\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
    x-ms-resource-type: file\r\n\r\nbytes";

const GONE: &str = "404 No\r\nx-ms-error-code: PathNotFound\r\n\r\n";

fn azure(server: &Recording, credentials: AzureCredentials) -> Azure {
    let options = AzureOptions {
        endpoint: Some(format!("{}/account", server.url())),
        ..AzureOptions::new("account", "c", credentials)
    };
    Azure::connect(&options, Arc::new(SystemClock::new()), Arc::new(Rng::seeded(1))).unwrap()
}

/// A client that knows what the account is.
fn with_folders(server: &Recording) -> Azure {
    let azure = azure(server, AzureCredentials::Anonymous);
    azure.learned().learn(Capability::RealFolders, Has::Yes);
    azure
}

fn lines(server: &Recording) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.line).collect()
}

fn put(condition: Condition, metadata: &[(&str, &str)]) -> PutOptions {
    let metadata: Metadata =
        metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    PutOptions { condition, metadata }
}

fn request(prefix: &str, delimited: bool) -> ListRequest {
    let prefix = Key::from(prefix);
    ListRequest { prefix, delimited, start_after: None, continuation: None, entries_max: 10 }
}

#[tokio::test]
async fn whether_there_are_folders_is_asked_once() {
    let says = |word: &str| format!("200 OK\r\nx-ms-is-hns-enabled: {word}\r\n\r\n");
    let silent = "403 No\r\nx-ms-error-code: AuthorizationPermissionMismatch\r\n\r\n";
    let owner = "200 OK\r\nx-ms-owner: $superuser\r\n\r\n";
    let flat = "400 No\r\nx-ms-error-code: HierarchicalNamespaceNotEnabled\r\n\r\n";
    let away = "503 No\r\n\r\n";
    let (yes, no) = (says("true"), says("false"));
    let none = "200 OK\r\n\r\n<EnumerationResults><Blobs/></EnumerationResults>";
    for (answers, has) in [
        (&[&yes[..]][..], Some(Has::Yes)),
        (&[&no], Some(Has::No)),
        (&[silent, owner], Some(Has::Yes)),
        (&[silent, flat], Some(Has::No)),
        (&[silent, "200 OK\r\n\r\n"], Some(Has::No)),
        // Not for ever, then.
        (&[silent, away], None),
    ] {
        let all: Vec<&str> = answers.iter().copied().chain([none, none]).collect();
        let server = Recording::start(&all).await;
        let azure = azure(&server, AzureCredentials::Anonymous);
        for _ in 0..2 {
            azure.list(&request("", true)).await.unwrap();
        }
        assert_eq!(azure.learned().has(Capability::RealFolders), has, "{answers:?}");
        let asked = lines(&server);
        assert_eq!(asked[0], "GET /account/c?restype=account&comp=properties");
        if answers.len() == 2 {
            assert_eq!(asked[1], "HEAD /account/c?action=getAccessControl");
        }
        let naming = azure.personality().naming;
        if has == Some(Has::Yes) {
            assert_eq!(naming.folders, Folders::Real);
            assert_eq!((naming.order, naming.moves), (ListOrder::Folded, Moves::Atomic));
        } else {
            assert_eq!((naming.folders, naming.moves), (Folders::Stubs, Moves::Copied));
        }
    }
    let server = Recording::start(&[away]).await;
    let unanswered = azure(&server, AzureCredentials::Anonymous).list(&request("", true)).await;
    assert!(matches!(unanswered.unwrap_err().kind, ErrorKind::Transient { .. }));
}

#[tokio::test]
async fn the_other_endpoint_is_beside_that_for_blobs() {
    let options = AzureOptions::new("lab", "c", AzureCredentials::Anonymous);
    let clock = Arc::new(SystemClock::new());
    let container = super::call::Container::new(&options, clock).unwrap();
    let (blobs, paths) = (super::call::Door::Blobs, super::call::Door::Paths);
    assert_eq!(container.origin_of(blobs), "https://lab.blob.core.windows.net");
    assert_eq!(container.origin_of(paths), "https://lab.dfs.core.windows.net");
}

#[tokio::test]
async fn a_file_is_renamed_in_one_step_under_conditions() {
    let server = Recording::start(&[
        "200 OK\r\nx-ms-is-hns-enabled: true\r\n\r\n",
        "201 OK\r\n\r\n",
        FILE,
        "412 No\r\nx-ms-error-code: SourceConditionNotMet\r\n\r\n",
        "404 No\r\nx-ms-error-code: SourcePathNotFound\r\n\r\n",
    ])
    .await;
    let azure = azure(&server, AzureCredentials::Sas(Secret::new(SAS)));
    let (from, to, old) = (Key::from("a b"), Key::from("d/c"), Version::new("0x7"));
    let original = Original { key: &from, version: &old, size: 5 };
    assert_eq!(azure.rename(original, &to, &Condition::Absent).await.unwrap(), Version::new("0x8"));
    let is = Condition::Is(Version::new("0x9"));
    assert_eq!(azure.rename(original, &to, &is).await.unwrap_err().kind, ErrorKind::Changed);
    let gone = azure.rename(original, &to, &Condition::Always).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert!(!format!("{gone} {gone:?}").contains("hu%2Fsh"));

    let asked = server.asked();
    assert_eq!(asked[1].line, format!("PUT /account/c/d/c?{SAS}"));
    assert_eq!(asked[1].header("x-ms-rename-source"), format!("/c/a%20b?{SAS}"));
    assert_eq!(asked[1].header("x-ms-source-if-match"), "\"0x7\"");
    assert_eq!(asked[1].header("if-none-match"), "*");
    assert_eq!(asked[2].line, format!("HEAD /account/c/d/c?{SAS}"));
    assert_eq!(asked[3].header("if-match"), "\"0x9\"");
    assert_eq!(asked[4].header("if-match"), "");
}

#[tokio::test]
async fn a_file_is_copied_where_only_the_endpoint_for_blobs_can_be_reached() {
    let other = FILE.replace("0x8", "0x9");
    let server = Recording::start(&[FILE, &other, GONE]).await;
    let mut azure = with_folders(&server);
    let nobody = "http://127.0.0.1:1".to_owned();
    Arc::get_mut(&mut azure.shared).unwrap().container.origin_of_paths = nobody;
    let (from, to, eight) = (Key::from("a"), Key::from("d/c"), Version::new("0x8"));
    let original = Original { key: &from, version: &eight, size: 5 };
    let rename = async |azure: &Azure| {
        let renamed = azure.rename(original, &to, &Condition::Always).await;
        renamed.map_err(|error| error.kind)
    };
    let transient = Err(ErrorKind::Transient { retry_after: None });
    assert_eq!(
        [rename(&azure).await, rename(&azure).await],
        [transient.clone(), transient.clone()]
    );
    // That it cannot be reached is no matter of a moment, and the file is where it was.
    for _ in 0..3 {
        assert_eq!(rename(&azure).await, Err(ErrorKind::Unsupported));
    }
    assert_eq!(lines(&server), ["HEAD /account/c/a"]);

    let mut azure = with_folders(&server);
    let nobody = "http://127.0.0.1:1".to_owned();
    Arc::get_mut(&mut azure.shared).unwrap().container.origin_of_paths = nobody;
    for _ in 0..3 {
        assert_eq!(rename(&azure).await, transient, "the last time it is another version");
    }
    assert_eq!(rename(&azure).await, Err(ErrorKind::NotFound), "an earlier try may have arrived");
}

#[tokio::test]
async fn a_folder_is_renamed_in_as_many_steps_as_the_service_wants() {
    let server = Recording::start(&[
        "201 OK\r\nx-ms-continuation: mo/re\r\n\r\n",
        "201 OK\r\n\r\n",
        "409 No\r\nx-ms-error-code: PathAlreadyExists\r\n\r\n",
        "404 No\r\nx-ms-error-code: SourcePathNotFound\r\n\r\n",
    ])
    .await;
    let azure = with_folders(&server);
    let (from, to) = (Key::from("a/b/"), Key::from("c d/"));
    azure.rename_folder(&from, &to).await.unwrap();
    for want in [ErrorKind::Changed, ErrorKind::NotFound] {
        assert_eq!(azure.rename_folder(&from, &to).await.unwrap_err().kind, want);
    }
    let asked = server.asked();
    assert_eq!(asked[0].line, "PUT /account/c/c%20d");
    assert_eq!(asked[0].header("x-ms-rename-source"), "/c/a/b");
    assert_eq!(asked[0].header("if-none-match"), "*");
    assert_eq!(asked[1].line, "PUT /account/c/c%20d?continuation=mo%2Fre");
    assert_eq!(asked[1].header("if-none-match"), "", "it is there by now");
}

#[tokio::test]
async fn a_rename_makes_the_folder_that_it_leads_to() {
    let server = Recording::start(&[
        "404 No\r\nx-ms-error-code: RenameDestinationParentPathNotFound\r\n\r\n",
        "201 OK\r\n\r\n",
        "201 OK\r\n\r\n",
    ])
    .await;
    let azure = with_folders(&server);
    azure.rename_folder(&Key::from("a/"), &Key::from("b/c/d/")).await.unwrap();
    let asked = lines(&server);
    assert_eq!(asked[1], "PUT /account/c/b/c?resource=directory");
    assert_eq!((&asked[0], &asked[2]), (&asked[2], &asked[0]));
}

#[tokio::test]
async fn a_folder_is_made_with_what_is_said_of_it() {
    let there = "409 No\r\nx-ms-error-code: PathAlreadyExists\r\n\r\n";
    let server =
        Recording::start(&["201 OK\r\n\r\n", FOLDER, there, there, FOLDER, there, FILE]).await;
    let azure = with_folders(&server);
    let key = Key::from("a/d/");
    let made = azure.put(&key, "".into(), &put(Condition::Absent, &[("mode", "16877")])).await;
    assert_eq!(made.unwrap(), Version::new("0x7"));
    let again = azure.put(&key, "".into(), &put(Condition::Absent, &[])).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::Changed);
    azure.put(&key, "".into(), &put(Condition::Always, &[])).await.unwrap();
    let file = azure.put(&key, "".into(), &put(Condition::Always, &[])).await.unwrap_err();
    assert_eq!(file.kind, ErrorKind::NotFound, "a file has the name");
    let asked = server.asked();
    assert_eq!(asked[0].line, "PUT /account/c/a/d?resource=directory");
    assert_eq!(asked[0].header("if-none-match"), "*");
    assert_eq!(asked[0].header("x-ms-properties"), "mode=MTY4Nzc=");
    assert_eq!(asked[1].line, "HEAD /account/c/a/d");
}

#[tokio::test]
async fn a_folder_is_removed_only_if_nothing_is_in_it_and_a_file_never_for_it() {
    let server = Recording::start(&[
        FOLDER,
        "200 OK\r\n\r\n",
        FOLDER,
        "409 No\r\nx-ms-error-code: DirectoryNotEmpty\r\n\r\n",
        FILE,
        GONE,
        FOLDER,
        FILE,
    ])
    .await;
    let azure = with_folders(&server);
    let key = Key::from("d/");
    for _ in 0..4 {
        azure.delete(&key).await.unwrap();
    }
    azure.head(&key).await.unwrap();
    assert_eq!(azure.head(&key).await.unwrap_err().kind, ErrorKind::NotFound);
    let asked = lines(&server);
    let (look, remove) = ("HEAD /account/c/d", "DELETE /account/c/d?recursive=false");
    assert_eq!(asked, [look, remove, look, remove, look, look, look, look]);
}

#[tokio::test]
async fn keys_that_such_an_account_might_take_for_others_are_refused() {
    let server = Recording::start(&[]).await;
    let azure = with_folders(&server);
    for key in ["a//b", "/a", "a/"] {
        let refused = azure.put(&Key::from(key), "x".into(), &put(Condition::Always, &[])).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Unsupported, "{key}");
    }
    assert!(server.asked().is_empty());
}

fn listed(names: &[(&str, bool)], next: &str) -> String {
    let line = |(name, is_folder): &(&str, bool)| {
        if *is_folder {
            return format!("<BlobPrefix><Name>{name}/</Name></BlobPrefix>");
        }
        format!(
            "<Blob><Name>{name}</Name><Properties><Content-Length>1</Content-Length><Etag>0x1</Etag>\
             <Last-Modified>Tue, 14 Nov 2023 22:13:20 GMT</Last-Modified></Properties></Blob>"
        )
    };
    let lines: String = names.iter().map(line).collect();
    format!(
        "200 OK\r\n\r\n<EnumerationResults><Blobs>{lines}</Blobs>\
         <NextMarker>{next}</NextMarker></EnumerationResults>"
    )
}

#[tokio::test]
async fn folders_are_told_of_in_the_order_of_their_keys() {
    let pages = [
        listed(&[("data", true)], "m"),
        listed(&[("data-1", false), ("data.txt", false)], "n"),
        listed(&[("e", false)], ""),
    ];
    let pages: Vec<&str> = pages.iter().map(|page| &page[..]).collect();
    let server = Recording::start(&pages).await;
    let azure = with_folders(&server);
    let mut asked = request("", true);
    let mut keys: Vec<Vec<String>> = Vec::new();
    loop {
        let page = azure.list(&asked).await.unwrap();
        keys.push(page.entries.iter().map(|entry: &Entry| entry.key().to_string()).collect());
        let Some(next) = page.next else { break };
        asked.continuation = Some(next);
    }
    assert_eq!(keys, [vec!["data-1", "data.txt"], vec!["data/", "e"]]);
}

#[tokio::test]
async fn nothing_is_below_a_file() {
    let wrong = "409 No\r\nx-ms-error-code: SomethingNew\r\n\r\n";
    let server = Recording::start(&[wrong, FILE, wrong, FOLDER]).await;
    let azure = with_folders(&server);
    let page = azure.list(&request("d/f/", false)).await.unwrap();
    assert_eq!((page.entries, page.next), (vec![], None));
    assert!(azure.list(&request("d/f/", false)).await.is_err(), "it is no file");
    assert_eq!(lines(&server)[1], "HEAD /account/c/d/f");
}
