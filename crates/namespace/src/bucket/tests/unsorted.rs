//! Renames that are cut short where the store lists keys in no order.

use std::sync::Arc;

use remote::{Key, Metadata};

use super::crash::{End, FOLDER, Memory, Mortal, ONTO_EMPTY, bucket, objects, owned, until_death};
use super::without_order;

#[tokio::test]
async fn a_folder_whose_keys_have_no_order_has_one_of_its_names_after_any_death() {
    for change in [&FOLDER, &ONTO_EMPTY] {
        for requests in 0.. {
            let (fake, ledger) = (without_order(), Arc::new(Memory::default()));
            for (key, bytes) in change.before {
                fake.insert(&Key::from(*key), *bytes, Metadata::new());
            }
            let mortal = Mortal::new(&fake, requests, End::Death);
            let dying = bucket(Arc::clone(&mortal) as _, &ledger);
            if let Some(made) = until_death(&mortal, change.make(&dying)).await {
                made.unwrap();
                assert_eq!(objects(&fake), owned(change.after));
                assert!(0 < requests, "it took no request");
                break;
            }
            drop(dying);
            let last = bucket(Arc::new(fake.clone()), &ledger);
            assert_eq!(last.replay(ledger.left()).await.waiting, 0);
            let now = objects(&fake);
            let is_one = now == owned(change.before) || now == owned(change.after);
            assert!(is_one, "killed at request {requests}: {now:?}");
            assert_eq!(ledger.left(), [], "killed at request {requests}");
        }
    }
}
