//! One bucket, seen by somebody else's client: boto3, in a process of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::dialog::Dialog;
use crate::login::Login;
use crate::place::clean_env;

/// What a client says of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its length.
    pub size: u64,
    /// Its version, as the store calls it.
    pub etag: String,
    /// What its writer noted beside it.
    pub metadata: BTreeMap<String, String>,
}

/// A bucket, with the client that looks at it.
#[derive(Debug)]
pub struct Bucket<'a> {
    client: &'a Client,
    name: String,
    endpoint: String,
    /// The beginning of its URL: all but its name.
    root: String,
}

impl<'a> Bucket<'a> {
    /// A new bucket of S3.
    pub(crate) fn create(client: &'a Client, endpoint: String) -> Bucket<'a> {
        Bucket::create_in(client, endpoint, "s3:/".to_owned())
    }

    /// A new bucket, whose URL is `root` and its name.
    pub(crate) fn create_in(client: &'a Client, endpoint: String, root: String) -> Bucket<'a> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("it-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let bucket = Bucket { client, name, endpoint, root };
        bucket.ask(json!({"do": "create"})).expect("a fresh name is free");
        bucket
    }

    /// The same bucket, looked at by another client.
    #[cfg(test)]
    pub(crate) fn through<'b>(&self, client: &'b Client) -> Bucket<'b> {
        let (name, endpoint, root) = (self.name.clone(), self.endpoint.clone(), self.root.clone());
        Bucket { client, name, endpoint, root }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What `quayfs mount` is given to mount it.
    pub fn url(&self) -> String {
        format!("{}/{}", self.root, self.name)
    }

    /// The URL of the API it is reached by.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Makes or replaces an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.try_put(key, bytes).unwrap_or_else(|error| panic!("put {key}: {error}"));
    }

    /// Makes or replaces an object with metadata.
    pub fn put_with(&self, key: &str, bytes: &[u8], metadata: &BTreeMap<String, String>) {
        let file = self.client.files.join(unique());
        fs::write(&file, bytes).expect("the scratch disk takes a file");
        let request = json!({"do": "put", "key": key, "file": file, "metadata": metadata});
        self.ask(request).unwrap_or_else(|error| panic!("put {key}: {error}"));
        fs::remove_file(&file).expect("written above");
    }

    /// Makes or replaces an object; the error is the store's own word for it.
    pub fn try_put(&self, key: &str, bytes: &[u8]) -> Result<(), String> {
        let file = self.client.files.join(unique());
        fs::write(&file, bytes).expect("the scratch disk takes a file");
        let answer = self.ask(json!({"do": "put", "key": key, "file": file}));
        fs::remove_file(&file).expect("written above");
        answer.map(|_| ())
    }

    /// Makes `count` objects of `bytes` each, named by `key` and a number, quickly.
    pub fn put_many(&self, key: &str, count: usize, bytes: &str) {
        self.ask(json!({"do": "put_many", "key": key, "count": count, "text": bytes}))
            .unwrap_or_else(|error| panic!("put {key}…: {error}"));
    }

    /// Makes or replaces an object from a file.
    pub fn put_file(&self, key: &str, file: &Path) {
        self.ask(json!({"do": "put", "key": key, "file": file}))
            .unwrap_or_else(|error| panic!("put {key}: {error}"));
    }

    /// The bytes of an object, if it is there.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let file = self.client.files.join(unique());
        self.found(key, json!({"do": "get", "key": key, "file": file}))?;
        let bytes = fs::read(&file).expect("the client wrote it");
        fs::remove_file(&file).expect("read above");
        Some(bytes)
    }

    /// What the store says of an object, if it is there.
    pub fn head(&self, key: &str) -> Option<Object> {
        let answer = self.found(key, json!({"do": "head", "key": key}))?;
        let metadata = answer["metadata"].as_object().expect("heads have metadata");
        let text = |value: &Value| value.as_str().expect("the client says so").to_owned();
        Some(Object {
            size: answer["size"].as_u64().expect("heads have a size"),
            etag: text(&answer["etag"]),
            metadata: metadata.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        })
    }

    /// Makes or replaces an object of S3 in an archive.
    pub fn put_archived(&self, key: &str, bytes: &[u8]) {
        let file = self.client.files.join(unique());
        fs::write(&file, bytes).expect("the scratch disk takes a file");
        self.ask(json!({"do": "put_archived", "key": key, "file": file}))
            .unwrap_or_else(|error| panic!("archive {key}: {error}"));
        fs::remove_file(&file).expect("written above");
    }

    /// Brings back what is in an archive.
    pub fn restore(&self, key: &str) {
        self.ask(json!({"do": "restore", "key": key}))
            .unwrap_or_else(|error| panic!("restore {key}: {error}"));
    }

    /// Notes beside a blob of Azure's that its MD5 is this, in hexadecimal digits; the service takes
    /// anybody's word for it.
    pub fn note_md5(&self, key: &str, md5: &str) {
        self.ask(json!({"do": "note_md5", "key": key, "md5": md5}))
            .unwrap_or_else(|error| panic!("note the MD5 of {key}: {error}"));
    }

    /// Removes an object.
    pub fn delete(&self, key: &str) {
        self.ask(json!({"do": "delete", "key": key}))
            .unwrap_or_else(|error| panic!("delete {key}: {error}"));
    }

    /// All keys but those of the hidden objects that have attributes, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.all_keys();
        keys.retain(|key| !has_attributes(key));
        keys
    }

    /// All keys, sorted.
    pub fn all_keys(&self) -> Vec<String> {
        let answer = self.ask(json!({"do": "keys"})).expect("the bucket is there");
        let keys = answer.as_array().expect("a list of keys").iter();
        keys.map(|key| key.as_str().expect("keys are text here").to_owned()).collect()
    }

    /// The SHA-256 of every object below `prefix`, by key without the prefix.
    pub fn sha256_tree(&self, prefix: &str) -> BTreeMap<String, String> {
        let answer =
            self.ask(json!({"do": "sha256", "prefix": prefix})).expect("the bucket is there");
        let sums = answer.as_object().expect("a map of sums").iter();
        sums.filter(|(key, _)| !has_attributes(key))
            .map(|(key, sum)| {
                let key = key.strip_prefix(prefix).expect("listed by it");
                (key.to_owned(), sum.as_str().expect("sums are text").to_owned())
            })
            .collect()
    }

    /// How many multipart uploads were begun and neither finished nor given up.
    pub fn unfinished_uploads(&self) -> u64 {
        self.keys_of_unfinished_uploads().len() as u64
    }

    /// The keys of multipart uploads that were begun and neither finished nor given up.
    pub fn keys_of_unfinished_uploads(&self) -> Vec<String> {
        let answer = self.ask(json!({"do": "uploads"})).expect("the bucket is there");
        serde_json::from_value(answer).expect("a list of keys")
    }

    fn found(&self, key: &str, request: Value) -> Option<Value> {
        match self.ask(request) {
            Ok(answer) => Some(answer),
            Err(error) if error == "NoSuchKey" || error == "404" => None,
            Err(error) => panic!("{key}: {error}"),
        }
    }

    fn ask(&self, mut request: Value) -> Result<Value, String> {
        request["bucket"] = json!(self.name);
        self.client.ask(&request)
    }
}

/// A client in a process of its own.
#[derive(Debug)]
pub(crate) struct Client {
    dialog: Mutex<Dialog>,
    // Where bytes are handed over. In the server's folder, which goes with it: the server that all
    // tests share is never dropped.
    files: PathBuf,
}

impl Client {
    /// boto3.
    pub(crate) fn of_s3(endpoint: &str, login: &Login, files: PathBuf) -> Client {
        let mut command = Dialog::command("bucket.py");
        command.args([endpoint, &login.user, &login.secret]);
        Client::new(command, files)
    }

    /// What `command`, of a [`Dialog`], runs.
    pub(crate) fn new(mut command: Command, files: PathBuf) -> Client {
        fs::create_dir_all(&files).expect("the server's folder takes a folder");
        command.env_clear().envs(clean_env()).env("HOME", &files);
        Client { dialog: Mutex::new(Dialog::new(command)), files }
    }

    fn ask(&self, request: &Value) -> Result<Value, String> {
        // A test that failed in here has said so; the dialog is still in step, line by line.
        let mut answer = self.dialog.lock().unwrap_or_else(PoisonError::into_inner).ask(request);
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["answer"].take()),
        }
    }
}

/// Whether a key is that of a hidden object with the attributes of a folder's entries.
fn has_attributes(key: &str) -> bool {
    let last = key.rsplit('/').next().unwrap_or(key);
    last.starts_with(".quayfs-attributes")
}

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("object-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
