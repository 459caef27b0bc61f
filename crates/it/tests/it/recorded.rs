//! What [`model`](crate::model) found once: the operations, a line each, and what was wrong as the name.

use crate::model::replay;

#[test]
fn a_file_cut_to_the_size_it_has_follows_others_again() {
    replay(
        "replace c - 0 0 0
         truncate c - 0 0 0
         they-put c - 0 1 0",
    );
}

#[test]
fn a_file_cut_to_the_size_it_has_has_the_time_of_that() {
    replay(
        "times c - 0 0 115
         truncate c - 5000 0 0
         replace a/b - 0 0 1
         times a/b - 0 0 7
         replace a/b - 0 0 2
         kill - - 0 0 0",
    );
}

#[test]
fn a_file_that_others_replaced_has_nothing_of_the_one_before() {
    replay(
        "chmod a/b - 0 0 3
         times a/b - 0 0 9
         they-put a/b - 0 50 2
         stat a/b - 0 0 0
         kill - - 0 0 0",
    );
}

#[test]
fn what_others_put_into_a_set_gid_folder_belongs_to_who_mounted() {
    replay(
        "chown b - 724 2770 85
         chmod b - 2377 7726 148
         they-put b/c - 2304 5676 134",
    );
}
