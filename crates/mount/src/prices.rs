//! What requests cost: a price list, and the sum that follows from what was counted.
//!
//! The lists are those that the clouds publish, in US dollars, for their plainest class of storage:
//!
//! | list | read, list, write per 1,000 requests | published at |
//! |---|---|---|
//! | Amazon S3 Standard, us-east-1 | 0.0004, 0.005, 0.005 | aws.amazon.com/s3/pricing |
//! | Google Cloud Storage Standard, one region | 0.0004, 0.005, 0.005 | cloud.google.com/storage/pricing |
//! | Azure Blob Storage Hot, LRS, East US | 0.0004, 0.005, 0.005 | azure.microsoft.com/pricing/details/storage/blobs |
//!
//! Removing is free at all three. Bytes cost nothing between a bucket and machines in its region, and to
//! elsewhere what the contract says, so that they are free here unless the user names a price.

use base::{Party, Timing};

use crate::location::Location;

/// A price list, in one currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Where the list is from, for people.
    pub list: String,
    /// Such as `USD`.
    pub currency: String,
    /// A thousand requests that read an object or ask of it.
    pub read_per_1000: f64,
    /// A thousand pages of listings.
    pub list_per_1000: f64,
    /// A thousand requests that write: puts, parts, copies, and beginnings and ends of uploads.
    pub write_per_1000: f64,
    /// A thousand removals.
    pub delete_per_1000: f64,
    /// A GiB that comes from the store.
    pub received_per_gib: f64,
    /// A GiB that is sent to it.
    pub sent_per_gib: f64,
}

/// What a user says that differs from a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceChanges {
    /// As in [`Prices`].
    pub currency: Option<String>,
    /// As in [`Prices`].
    pub read_per_1000: Option<f64>,
    /// As in [`Prices`].
    pub list_per_1000: Option<f64>,
    /// As in [`Prices`].
    pub write_per_1000: Option<f64>,
    /// As in [`Prices`].
    pub delete_per_1000: Option<f64>,
    /// As in [`Prices`].
    pub received_per_gib: Option<f64>,
    /// As in [`Prices`].
    pub sent_per_gib: Option<f64>,
}

/// What the user's changes make of a list's name.
const CHANGED: &str = "as configured";

const GIB: f64 = 1_073_741_824.0;

impl Prices {
    /// The list of who keeps `location`.
    pub fn of(location: &Location) -> Prices {
        let (list, read, write) = match location {
            // The three lists are the same; which of them pays for what is not told apart.
            Location::S3 { .. } | Location::All => ("Amazon S3 Standard, us-east-1", 0.0004, 0.005),
            Location::Gcs { .. } => ("Google Cloud Storage Standard, one region", 0.0004, 0.005),
            Location::Azure { .. } => ("Azure Blob Storage Hot, LRS, East US", 0.0004, 0.005),
            Location::Folder(_) => ("a local folder", 0.0, 0.0),
        };
        Prices {
            list: list.to_owned(),
            currency: "USD".to_owned(),
            read_per_1000: read,
            list_per_1000: write,
            write_per_1000: write,
            delete_per_1000: 0.0,
            received_per_gib: 0.0,
            sent_per_gib: 0.0,
        }
    }

    /// The same but for `changes`.
    #[must_use]
    pub fn with(self, changes: &PriceChanges) -> Prices {
        if *changes == PriceChanges::default() {
            return self;
        }
        Prices {
            list: CHANGED.to_owned(),
            currency: changes.currency.clone().unwrap_or(self.currency),
            read_per_1000: changes.read_per_1000.unwrap_or(self.read_per_1000),
            list_per_1000: changes.list_per_1000.unwrap_or(self.list_per_1000),
            write_per_1000: changes.write_per_1000.unwrap_or(self.write_per_1000),
            delete_per_1000: changes.delete_per_1000.unwrap_or(self.delete_per_1000),
            received_per_gib: changes.received_per_gib.unwrap_or(self.received_per_gib),
            sent_per_gib: changes.sent_per_gib.unwrap_or(self.sent_per_gib),
        }
    }

    /// What `count` requests of this kind cost; nothing if it is no request to a store.
    pub fn requests(&self, kind: Timing, count: u64) -> f64 {
        self.per_1000(kind) * as_float(count) / 1000.0
    }

    /// What bytes cost on their way.
    pub fn bytes(&self, received: u64, sent: u64) -> f64 {
        let gibs = |bytes| as_float(bytes) / GIB;
        gibs(received) * self.received_per_gib + gibs(sent) * self.sent_per_gib
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a call of the kernel costs nothing")]
    fn per_1000(&self, kind: Timing) -> f64 {
        debug_assert_eq!(kind.party(), Party::Store, "the kernel sends no bills");
        match kind {
            Timing::StoreHead | Timing::StoreGet | Timing::StoreSmallGet => self.read_per_1000,
            Timing::StoreList => self.list_per_1000,
            Timing::StorePut
            | Timing::StoreCreate
            | Timing::StorePart
            | Timing::StorePartCopy
            | Timing::StoreComplete
            | Timing::StoreCopy => self.write_per_1000,
            Timing::StoreDelete | Timing::StoreAbort => self.delete_per_1000,
            _ => 0.0,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bill is no more exact than this")]
fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use base::Timing;

    use super::{PriceChanges, Prices};
    use crate::location::Location;

    fn prices(url: &str) -> Prices {
        Prices::of(&Location::parse(url).unwrap())
    }

    #[test]
    fn a_request_costs_what_the_list_says() {
        let s3 = prices("s3://b");
        for (kind, count, want) in [
            (Timing::StoreGet, 1_000_000, 0.4),
            (Timing::StoreHead, 1_000, 0.0004),
            (Timing::StoreList, 1_000, 0.005),
            (Timing::StorePart, 10_000, 0.05),
            (Timing::StoreDelete, 1_000_000, 0.0),
        ] {
            assert!((s3.requests(kind, count) - want).abs() < 1e-9, "{}", kind.name());
        }
        assert!(prices("file:///srv").requests(Timing::StorePut, 1_000).abs() < 1e-9);
    }

    #[test]
    fn who_names_a_price_pays_it_and_the_others_stay() {
        let changes = PriceChanges {
            received_per_gib: Some(0.09),
            read_per_1000: Some(1.0),
            ..PriceChanges::default()
        };
        let prices = prices("s3://b").with(&changes);
        assert_eq!((prices.list.as_str(), prices.currency.as_str()), ("as configured", "USD"));
        assert!((prices.bytes(10 << 30, 5 << 30) - 0.9).abs() < 1e-9);
        assert!((prices.requests(Timing::StoreGet, 1_000) - 1.0).abs() < 1e-9);
        assert!((prices.requests(Timing::StorePut, 1_000) - 0.005).abs() < 1e-9);
    }
}
