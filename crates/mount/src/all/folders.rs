//! The folders that buckets are in: what their names mean, and what a listing of them shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Errno, Ino};
use parking_lot::Mutex;

use crate::location::Location;
use crate::tag::Tag;
use crate::volume::Volume;

/// Storage accounts that are shown; there is a folder for each.
const ACCOUNTS_MAX: usize = 1024;

/// A bucket's name has at least so many bytes, and at most.
const BUCKET_NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=222;

/// A storage account's name likewise.
const ACCOUNT_NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=24;

const S3: Ino = Ino(2);
const GCS: Ino = Ino(3);
const AZURE: Ino = Ino(4);

/// The number of the first storage account; the others follow.
const FIRST_ACCOUNT: u64 = 16;

/// Numbers from here on are of buckets that nobody has entered: so many for each folder.
const FIRST_TOLD: u64 = 1 << 40;
const TOLD_BITS: u32 = 20;

/// The folders of the top, in the order in which they are shown.
const STORES: [(&[u8], Ino); 3] = [(b"s3", S3), (b"gs", GCS), (b"az", AZURE)];

/// A folder that buckets are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// What is mounted: one folder a kind of store.
    Top,
    /// `s3`.
    S3,
    /// `gs`.
    Gcs,
    /// `az`: one folder a storage account.
    Azure,
    /// One of these, or `az` itself where there is but one.
    Account(String),
}

/// What a name in such a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, and no store needs to be asked.
    Nothing,
    /// The folder of this number.
    Folder(Ino),
    /// A bucket, if there is one.
    Bucket(Location),
}

/// What a listing shows.
#[derive(Debug)]
pub(super) enum Entry {
    /// A folder.
    Folder { name: Vec<u8>, number: Ino },
    /// A bucket that the store tells of, and that nobody has entered.
    Told { name: Vec<u8>, number: Ino },
    /// A bucket that is attached.
    Bucket { name: Vec<u8>, tag: Tag, volume: Arc<Volume> },
}

/// The folders that there are.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// Those that were asked for; the place is the number.
    accounts: Mutex<Vec<String>>,
    /// The only one, if there is but one: then `az` has its containers.
    only: Option<String>,
}

impl Folders {
    /// Those of a mount that shows but one storage account, if `only` names one.
    pub(super) fn with_account(only: Option<String>) -> Folders {
        Folders { accounts: Mutex::default(), only }
    }

    /// The folder of this number.
    pub(super) fn with(&self, number: Ino) -> Option<Folder> {
        Some(match number {
            Ino::ROOT => Folder::Top,
            S3 => Folder::S3,
            GCS => Folder::Gcs,
            AZURE => self.only.clone().map_or(Folder::Azure, Folder::Account),
            Ino(number) => {
                let at = usize::try_from(number.checked_sub(FIRST_ACCOUNT)?).ok()?;
                Folder::Account(self.accounts.lock().get(at)?.clone())
            }
        })
    }

    /// What `name` is in `folder`. Whether there is such a storage account shows when a container of it
    /// is asked for.
    pub(super) fn find(&self, folder: &Folder, name: &[u8]) -> Result<Found, Errno> {
        let bucket = || plausible(name, &BUCKET_NAME_BYTES, b".-_");
        let prefix = String::new();
        Ok(match folder {
            Folder::Top => match STORES.iter().find(|(store, _)| *store == name) {
                Some((_, number)) => Found::Folder(*number),
                None => Found::Nothing,
            },
            Folder::S3 => bucket()
                .map_or(Found::Nothing, |bucket| Found::Bucket(Location::S3 { bucket, prefix })),
            Folder::Gcs => bucket()
                .map_or(Found::Nothing, |bucket| Found::Bucket(Location::Gcs { bucket, prefix })),
            Folder::Azure => match plausible(name, &ACCOUNT_NAME_BYTES, b"") {
                Some(account) => Found::Folder(self.account(account)?),
                None => Found::Nothing,
            },
            Folder::Account(account) => {
                let account = account.clone();
                // `$root` and `$web` are containers too.
                bucket_or_special(name).map_or(Found::Nothing, |container| {
                    Found::Bucket(Location::Azure { account, container, prefix })
                })
            }
        })
    }

    /// What is in `folder`, its own number being `number`, each with the offset of what follows it; of
    /// buckets those of `names`, by their places.
    pub(super) fn list(
        &self,
        number: Ino,
        folder: &Folder,
        attached: &[(Location, Tag, Arc<Volume>)],
        names: BTreeMap<u64, String>,
    ) -> Vec<(u64, Entry)> {
        let above = match folder {
            Folder::Account(_) if number != AZURE => AZURE,
            Folder::Account(_) | Folder::Top | Folder::S3 | Folder::Gcs | Folder::Azure => {
                Ino::ROOT
            }
        };
        let of = |name: &[u8], number| Entry::Folder { name: name.to_vec(), number };
        let mut entries = vec![of(b".", number), of(b"..", above)];
        match folder {
            Folder::Top => entries.extend(STORES.iter().map(|(name, number)| of(name, *number))),
            Folder::Azure => {
                let accounts = self.accounts.lock();
                let numbered = accounts.iter().zip(FIRST_ACCOUNT..);
                entries.extend(numbered.map(|(name, number)| of(name.as_bytes(), Ino(number))));
            }
            Folder::S3 | Folder::Gcs | Folder::Account(_) => {}
        }
        let first = entries.len() as u64 + 1;
        let buckets = names.into_iter().map(|(place, name)| {
            let is_it = |(location, ..): &&(Location, Tag, Arc<Volume>)| {
                name_in(folder, location) == Some(&name[..])
            };
            let bucket = attached.iter().find(is_it);
            let entry = match bucket {
                Some((_, tag, volume)) => {
                    let volume = Arc::clone(volume);
                    Entry::Bucket { name: name.into_bytes(), tag: *tag, volume }
                }
                None => Entry::Told { name: name.into_bytes(), number: told(number, place) },
            };
            (first + place, entry)
        });
        let buckets: Vec<(u64, Entry)> = buckets.collect();
        (1..).zip(entries).chain(buckets).collect()
    }

    fn account(&self, name: String) -> Result<Ino, Errno> {
        let mut accounts = self.accounts.lock();
        let at = match accounts.iter().position(|known| *known == name) {
            Some(at) => at,
            None if accounts.len() == ACCOUNTS_MAX => return Err(Errno::ENFILE),
            None => {
                accounts.push(name);
                accounts.len() - 1
            }
        };
        Ok(Ino(FIRST_ACCOUNT + at as u64))
    }
}

impl Folder {
    /// The place of the buckets in it, without the name of any.
    pub(super) fn nameless(&self) -> Option<Location> {
        let (bucket, prefix) = (String::new(), String::new());
        match self {
            Folder::Top | Folder::Azure => None,
            Folder::S3 => Some(Location::S3 { bucket, prefix }),
            Folder::Gcs => Some(Location::Gcs { bucket, prefix }),
            Folder::Account(account) => {
                Some(Location::Azure { account: account.clone(), container: bucket, prefix })
            }
        }
    }

    /// The names of those of `attached` that are in it.
    pub(super) fn names<'a>(
        &self,
        attached: &'a [(Location, Tag, Arc<Volume>)],
    ) -> impl Iterator<Item = &'a str> {
        attached.iter().filter_map(|(location, ..)| name_in(self, location))
    }
}

/// The number of the bucket at `place` in `folder`, until somebody enters it.
fn told(folder: Ino, place: u64) -> Ino {
    Ino(FIRST_TOLD + (folder.0 << TOLD_BITS) + place)
}

/// The name of `location` in `folder`, if it is there.
fn name_in<'a>(folder: &Folder, location: &'a Location) -> Option<&'a str> {
    match (folder, location) {
        (Folder::S3, Location::S3 { bucket, .. }) | (Folder::Gcs, Location::Gcs { bucket, .. }) => {
            Some(bucket)
        }
        (Folder::Account(name), Location::Azure { account, container, .. }) if name == account => {
            Some(container)
        }
        _ => None,
    }
}

fn bucket_or_special(name: &[u8]) -> Option<String> {
    let plain = name.strip_prefix(b"$").unwrap_or(name);
    plausible(plain, &BUCKET_NAME_BYTES, b"-")?;
    Some(String::from_utf8(name.to_vec()).expect("it is ASCII"))
}

/// The name, if it can be one that stores give. What shells and file managers look for everywhere, such
/// as `.git`, is none, and costs no request.
fn plausible(
    name: &[u8],
    bytes: &std::ops::RangeInclusive<usize>,
    others: &[u8],
) -> Option<String> {
    let is_sign = |sign: &u8| sign.is_ascii_alphanumeric() || others.contains(sign);
    let begins = name.first().is_some_and(u8::is_ascii_alphanumeric);
    if !begins || !bytes.contains(&name.len()) || !name.iter().all(is_sign) {
        return None;
    }
    Some(String::from_utf8(name.to_vec()).expect("it is ASCII"))
}

#[cfg(test)]
mod tests {
    use base::Ino;

    use std::collections::BTreeMap;

    use super::{ACCOUNTS_MAX, Entry, FIRST_ACCOUNT, Folder, Folders, Found, S3, told};
    use crate::location::Location;

    fn find(folders: &Folders, folder: &Folder, name: &str) -> Found {
        folders.find(folder, name.as_bytes()).unwrap()
    }

    #[test]
    fn names_lead_to_buckets() {
        let folders = Folders::default();
        for (folder, name, url) in [
            (Folder::S3, "data", "s3://data"),
            (Folder::S3, "my.bucket-1", "s3://my.bucket-1"),
            (Folder::Gcs, "with_sign", "gs://with_sign"),
            (Folder::Account("acc".to_owned()), "box", "az://acc/box"),
            (Folder::Account("acc".to_owned()), "$web", "az://acc/$web"),
        ] {
            let want = Location::parse(url).unwrap();
            assert_eq!(find(&folders, &folder, name), Found::Bucket(want), "{url}");
        }
        let Found::Folder(s3) = find(&folders, &Folder::Top, "s3") else { panic!() };
        assert_eq!(folders.with(s3), Some(Folder::S3));
        let Found::Folder(account) = find(&folders, &Folder::Azure, "acc") else { panic!() };
        assert_eq!(folders.with(account), Some(Folder::Account("acc".to_owned())));
        assert_eq!(find(&folders, &Folder::Azure, "acc"), Found::Folder(account), "known now");
    }

    #[test]
    fn what_can_be_no_bucket_is_not_asked_for() {
        let folders = Folders::default();
        for name in [".git", ".Trash-0", "a", "ab", "a b", "ä", "x:y", "$web", "-ab"] {
            assert_eq!(find(&folders, &Folder::S3, name), Found::Nothing, "{name}");
        }
        for name in ["ftp", "S3", ".git"] {
            assert_eq!(find(&folders, &Folder::Top, name), Found::Nothing, "{name}");
        }
        assert_eq!(find(&folders, &Folder::Azure, "no-account"), Found::Nothing);
        assert_eq!(folders.with(Ino(FIRST_ACCOUNT)), None, "none was asked for");
        assert_eq!(folders.with(Ino(9)), None);
    }

    #[test]
    fn the_containers_of_the_only_account_have_no_folder_of_its_name() {
        let folders = Folders::with_account(Some("acc".to_owned()));
        let Found::Folder(number) = find(&folders, &Folder::Top, "az") else { panic!() };
        let folder = folders.with(number).unwrap();
        let want = Location::parse("az://acc/box").unwrap();
        assert_eq!(find(&folders, &folder, "box"), Found::Bucket(want));
        let listed = folders.list(number, &folder, &[], BTreeMap::new());
        let above = listed.iter().find_map(|(_, entry)| match entry {
            Entry::Folder { name, number } if name == b".." => Some(*number),
            Entry::Folder { .. } | Entry::Told { .. } | Entry::Bucket { .. } => None,
        });
        assert_eq!(above, Some(Ino::ROOT));
    }

    #[test]
    fn accounts_are_bounded() {
        let folders = Folders::default();
        for n in 0..ACCOUNTS_MAX {
            find(&folders, &Folder::Azure, &format!("account{n}"));
        }
        assert!(folders.find(&Folder::Azure, b"another").is_err());
        assert_eq!(find(&folders, &Folder::Azure, "account0"), Found::Folder(Ino(FIRST_ACCOUNT)));
    }

    #[test]
    fn a_listing_shows_the_folders() {
        let folders = Folders::default();
        find(&folders, &Folder::Azure, "acc");
        let names = |number, folder: &Folder| -> Vec<(String, u64)> {
            let of = |(_, entry): &(u64, Entry)| match entry {
                Entry::Folder { name, number } | Entry::Told { name, number } => {
                    (String::from_utf8(name.clone()).unwrap(), number.0)
                }
                Entry::Bucket { .. } => unreachable!(),
            };
            let names = BTreeMap::from([(0, "first".to_owned()), (3, "last".to_owned())]);
            let names = if folder.nameless().is_some() { names } else { BTreeMap::new() };
            folders.list(Ino(number), folder, &[], names).iter().map(of).collect()
        };
        let said = |names: Vec<(String, u64)>| {
            names.iter().map(|(name, number)| format!("{name} {number}")).collect::<Vec<_>>()
        };
        assert_eq!(said(names(1, &Folder::Top)), [". 1", ".. 1", "s3 2", "gs 3", "az 4"]);
        assert_eq!(said(names(4, &Folder::Azure)), [". 4", ".. 1", "acc 16"]);
        let (first, last) = (told(Ino(16), 0).0, told(Ino(16), 3).0);
        assert_eq!(
            said(names(16, &Folder::Account("acc".into()))),
            [
                ". 16".to_owned(),
                ".. 4".to_owned(),
                format!("first {first}"),
                format!("last {last}")
            ]
        );
        assert_ne!(told(Ino(2), 49_999), told(Ino(3), 0));
        let offsets = |folder| -> Vec<u64> {
            let names = BTreeMap::from([(0, "first".to_owned()), (3, "last".to_owned())]);
            folders.list(S3, folder, &[], names).iter().map(|(offset, _)| *offset).collect()
        };
        assert_eq!(offsets(&Folder::S3), [1, 2, 3, 6], "places are kept");
    }
}
